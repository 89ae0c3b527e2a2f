"""Options that sources and engines share: headers, certificates and places of files are judged once for all."""

from pathlib import Path

import pytest

from toolyard.model.errors import ConfigError
from toolyard.schema.common_options import (
    TlsOptions,
    check_certificate,
    check_headers,
    locate_certificate,
    locate_unless_url,
)
from toolyard.schema.options import read_arguments


def test_headers_that_can_be_sent_are_taken_as_they_are():
    assert check_headers({"X-Key": "a b", "empty": ""}, "headers") == {"X-Key": "a b", "empty": ""}
    assert check_headers(None, "headers") == {}


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"a b": "c"}, "headers: 'a b' is no name of a header"),
        ({"a": "secret\r\nb"}, "headers.a: must be text that fits"),
        ({"a": " secret"}, "headers.a: must be text that fits"),
        ({"a": "sécret"}, "headers.a: must be text that fits"),
        ({"a": 1}, "headers.a: must be text"),
        ([], "headers: must be a mapping, not list"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(headers, said):
    with pytest.raises(ConfigError) as caught:
        read_arguments(TlsOptions, headers=headers)
    assert str(caught.value).startswith(said)
    assert "cret" not in str(caught.value)


def test_a_certificate_is_a_file_or_two_or_three_texts():
    assert check_certificate("a.pem", "cert") == "a.pem"
    assert check_certificate(["a.pem", "a.key"], "cert") == ["a.pem", "a.key"]
    assert check_certificate(["a.pem", "a.key", "word"], "cert") == ["a.pem", "a.key", "word"]
    for wrong in ([], ["a.pem"], ["a", "b", "c", "d"]):
        with pytest.raises(ConfigError, match="cert must be a file, or certificate and key"):
            check_certificate(wrong, "cert")
    with pytest.raises(ConfigError, match="cert"):
        read_arguments(TlsOptions, cert=[1, 2])


def test_files_are_taken_from_the_folder_of_the_config_and_passwords_and_addresses_are_not():
    base = Path("/yard")
    assert locate_certificate(["a.pem", "a.key", "word"], base) == ["/yard/a.pem", "/yard/a.key", "word"]
    assert locate_unless_url("https://example.com/spec", base) == "https://example.com/spec"
    assert locate_unless_url("spec.yaml", base) == "/yard/spec.yaml"

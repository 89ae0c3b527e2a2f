"""The server block, and that its published schema says what its reader says."""

import jsonschema_rs
import pytest

from toolyard import ConfigError
from toolyard.app.blocks import ServerBlock
from toolyard.app.config import read_anything
from toolyard.app.schema import config_schema
from toolyard.schema.options import read_option
from toolyard.schema.options_schema import options_schema

SERVER_SCHEMA = options_schema(ServerBlock)

VALUES = [
    *(None, True, False, 0, 1, -1, 2, 1.0, 1.5, 0.5, -0.5, 65535, 65536, 1e300),
    *("", "x", "5", "true", "off", "json", "core, web", "127.0.0.1"),
    *("${N}", "${F}", "${B}", "${W}", "${N}0", "${NOT_SET:-1}", "${NOT_SET:-text}"),
    *([], ["a"], ["a", "b"], [""], [1], {}, {"a": 1}),
]


def read(block):
    return read_anything({"tools": [], "server": block}).server


@pytest.fixture(scope="module")
def validator():
    return jsonschema_rs.validator_for(config_schema())


def accepted(block):
    try:
        read(block)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("key", [*SERVER_SCHEMA["properties"], "nonsense"])
def test_the_schema_accepts_what_the_reader_accepts(validator, monkeypatch, key):
    for name, value in {"N": "3", "F": "1.5", "B": "true", "W": "json"}.items():
        monkeypatch.setenv(name, value)
    for value in VALUES:
        valid, is_read = validator.is_valid({"tools": [], "server": {key: value}}), accepted({key: value})
        assert valid == is_read or (valid and "${" in str(value)), (value, valid, is_read)


def test_every_field_has_a_key_and_every_key_a_field_and_a_sentence():
    assert list(SERVER_SCHEMA["properties"]) == list(ServerBlock.__struct_fields__)
    assert all(item["description"].endswith(".") for item in SERVER_SCHEMA["properties"].values())


def test_options_that_are_not_given_have_their_documented_defaults():
    block = read({})
    assert block == read(None) == ServerBlock()
    assert (block.host, block.port, block.workers, block.domains, block.log) == ("127.0.0.1", 8000, 1, None, "text")
    assert SERVER_SCHEMA["properties"]["port"]["default"] == 8000


def test_a_block_is_read_whole_with_variables(monkeypatch):
    monkeypatch.setenv("PORT", "9001")
    block = read(
        {"port": "${PORT}", "domains": "core, web", "idle_timeout": 5, "log": "json", "allowed_hosts": ["a.b"]}
    )
    assert (block.port, block.domains, block.idle_timeout, block.log) == (9001, ("core", "web"), 5.0, "json")
    assert block.allowed_hosts == ("a.b",)


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"prot": 1}, "server: unknown key 'prot'; did you mean 'port'"),
        ({"port": 70000}, "server.port: must be 65535 or less, not 70000"),
        ({"header_timeout": 0}, "server.header_timeout: must be above 0, not 0"),
        ({"burst": 0.5}, "server.burst: must be 1 or more, not 0.5"),
        ({"rate": "fast"}, "server.rate: must be a number, not text"),
        ({"log": "jsn"}, "server.log: no such choice 'jsn'; did you mean 'json'"),
        ({"domains": [""]}, r"server.domains\[0\]: must be text, not empty"),
    ],
)
def test_a_mistake_is_named_with_its_place(block, says):
    with pytest.raises(ConfigError, match=says):
        read(block)


def test_domains_are_a_list_or_text_and_may_be_none_at_all():
    assert read_option(ServerBlock, "domains", " core ,, web.tools ", "x") == ("core", "web.tools")
    assert read_option(ServerBlock, "domains", "", "x") == read_option(ServerBlock, "domains", [], "x") == ()


def test_a_port_is_a_number_a_socket_can_have():
    assert read_option(ServerBlock, "port", 0, "x") == 0
    with pytest.raises(ConfigError, match="x: must be 0 or more, not -1"):
        read_option(ServerBlock, "port", -1, "x")

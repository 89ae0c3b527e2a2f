"""`Target`: parsing of URLs."""

from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given, strategies as st

from toolyard.links.http.addresses import Blocked
from toolyard.links.http.url import read_origin, read_url


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("http://Example.org", "http://example.org/"),
        ("HTTPS://example.org:443/a%2Fb?x=1&y=%20", "https://example.org/a%2Fb?x=1&y=%20"),
        ("http://example.org:/", "http://example.org/"),
        ("http://example.org.:8080?q", "http://example.org:8080/?q"),
        ("https://[2606:4700::1]:8443/x", "https://[2606:4700::1]:8443/x"),
        ("https://[2606:4700::0001]/x", "https://[2606:4700::1]/x"),
        ("http://example.org/../a/./b//c", "http://example.org/../a/./b//c"),
        ("https://example.org:80/", "https://example.org:80/"),
    ],
)
def test_a_url_has_one_spelling(url, whole):
    assert read_url(url).url == whole


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "//example.org", "ftp://example.org", "file:///etc/passwd", "http:/example.org", "http:example.org"),
        *("http://", "http:///x", "http://good@evil.org/", "http://good:secret@evil.org", "http://@evil.org"),
        *("http://good\\@evil.org/", "http://evil.org\\.good.org/", "http://good.org#@evil.org/", "http://a/#f"),
        *("http://a/b c", "http://a/\u00e4", "http://a/\r\nX: 1", "http://a/\t", " http://a/", "http://a/\\..\\b"),
        *("http://a:b/", "http://a:-1/", "http://a:0/", "http://a:65536/", "http://a:8\u0660/", "http://::1/"),
        *("http://a\u2100b.org/", "http://a%2eb/", "http://a%00.org/", "http://a\x00b/", "http://a,b/", "unix:/x"),
        *(
            "http+unix://%2fvar%2frun/",
            "http://a/" + "b" * 70_000,
            "gopher://a",
            "javascript:alert(1)",
            "http://[::1]a/",
        ),
    ],
)
def test_an_ambiguous_url_is_refused_and_not_shown(url):
    with pytest.raises(Blocked) as refused:
        read_url(url)
    assert "evil" not in str(refused.value) and "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://good@evil.org/", "http://good:secret@evil.org", "http://@evil.org"])
def test_a_user_in_a_url_is_said_to_be_the_reason(url):
    with pytest.raises(Blocked, match="user or password"):
        read_url(url)


@given(st.text(alphabet="htps:/@\\?#[].%0x1a_-\u3002\t evil", max_size=40).map(lambda rest: "http://" + rest))
def test_whatever_is_accepted_other_readers_take_for_the_same_host(url):
    try:
        target = read_url(url)
    except Blocked:
        return
    other = urlsplit(target.url)
    assert (other.hostname, other.port or 80, other.username) == (target.host, target.port, None)
    third = httpx2.URL(target.url)
    assert (third.host, third.port or 80, third.userinfo) == (target.host, target.port, b"")
    assert read_url(target.url) == target


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/b", "https://a.org/b"),
        ("b?c#d", "https://a.org/x/b?c"),
        ("../../../b", "https://a.org/b"),
        ("//b.org/c", "https://b.org/c"),
        ("http://a.org/x", "http://a.org/x"),
        ("https://a.org:444/x", "https://a.org:444/x"),
        ("/\u00c3\u00a4 b", "https://a.org/%C3%A4%20b"),
        ("/\\evil.org", "https://a.org/%5Cevil.org"),
        ("\\\\evil.org/x", "https://a.org/x/%5C%5Cevil.org/x"),
        ("/a\r\nb", "https://a.org/a%0D%0Ab"),
        ("", "https://a.org/x/y"),
    ],
)
def test_a_redirect_leads_from_where_it_was_sent(location, url):
    assert read_url("https://a.org/x/y").redirected(location).url == url


@pytest.mark.parametrize(
    "location",
    ["ftp://a.org", "https://u:p@a.org/", "https://[::1%25lo]/", "file:///x", "https://0x7f.1/", "https://["],
)
def test_a_redirect_to_no_address_is_refused(location):
    with pytest.raises(Blocked, match=r"https://a\.org redirects"):
        read_url("https://a.org/x/y").redirected(location)


def test_one_query_parameter_is_set_and_taken_away():
    target = read_url("https://a.org/x?a=1&key=old&b=2&ke%79=older")
    assert target.with_query("key", "n w&").path == "/x?a=1&b=2&key=n%20w%26"
    assert target.without_query("key").path == "/x?a=1&b=2"
    assert read_url("https://a.org/x").with_query("k", "v").path == "/x?k=v"
    assert read_url("https://a.org/x?k=1").without_query("k").path == "/x"
    assert read_url("https://a.org/x?").without_query("k").path == "/x?"


@pytest.mark.parametrize(
    ("origin", "spelled"),
    [("https://A.org", "https://a.org"), ("http://a.org:80/", "http://a.org"), ("http://[::1]:8", "http://[::1]:8")],
)
def test_an_origin_has_one_spelling(origin, spelled):
    assert read_origin(origin) == spelled


@pytest.mark.parametrize("origin", ["a.org", "https://a.org/x", "https://a.org?x", "https://u@a.org", "https://"])
def test_anything_but_an_origin_is_refused(origin):
    with pytest.raises(ValueError):
        read_origin(origin)

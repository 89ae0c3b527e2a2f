"""Which hosts and addresses may be connected to."""

import ipaddress
import sys
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given, strategies as st

from toolyard.links.http.addresses import AddressRule, Blocked, is_public, read_host, read_origin, read_url
from toolyard.model.errors import ConfigError, Denied

PRIVATE = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.9.9.9"),
    *("168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1"),
    *("192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.7"),
    *("203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.32.0.1", "223.255.255.255"]
PRIVATE_6 = [
    *("::", "::1", "::2", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "ff0e::1", "100::1"),
    *("2001:db8::1", "2001:10::1", "2001:20::1", "2001:2::1", "3fff::1", "5f00::1", "64:ff9b:1::1", "4000::1"),
    "::ffff:0:127.0.0.1",
]
PUBLIC_6 = ["2606:4700:4700::1111", "2a00:1450:4001:80b::200e", "2001:4860:4860::8888", "2400:cb00::1"]


def carriers(text):
    """The IPv6 addresses that lead to an IPv4 one."""
    number = int(ipaddress.IPv4Address(text))
    yield ipaddress.IPv6Address(0xFFFF << 32 | number)
    yield ipaddress.IPv6Address(number) if number > 1 else ipaddress.IPv6Address("::1")
    yield ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) | number)
    yield ipaddress.IPv6Address(0x2002 << 112 | number << 80 | 1)
    yield ipaddress.IPv6Address(0x20010000 << 96 | int(ipaddress.IPv4Address("8.8.8.8")) << 64 | number ^ 0xFFFFFFFF)


@pytest.mark.parametrize("text", PRIVATE + PRIVATE_6)
def test_special_addresses_are_not_public(text):
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC + PUBLIC_6)
def test_ordinary_addresses_are_public(text):
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PRIVATE)
def test_an_ipv4_address_inside_an_ipv6_one_counts(text):
    assert [str(address) for address in carriers(text) if is_public(address)] == []


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_ipv4_address_inside_an_ipv6_one_is_public(text):
    assert all(map(is_public, carriers(text)))


def test_a_teredo_address_counts_by_its_server_too():
    number = 0x20010000 << 96 | int(ipaddress.IPv4Address("10.0.0.1")) << 64 | (0x08080808 ^ 0xFFFFFFFF)
    assert not is_public(ipaddress.IPv6Address(number))


def test_an_address_with_a_zone_is_never_public_and_never_allowed():
    address = ipaddress.IPv6Address("fe80::1%eth0")
    assert not is_public(address)
    for rule in (AddressRule.of(["here"]), AddressRule.of((), ["fe80::/10"])):
        with pytest.raises(Blocked):
            rule.check("here", 80, address)


@given(st.ip_addresses())
def test_nothing_that_python_calls_private_or_multicast_is_public(address):
    if address.is_private or address.is_multicast or address.is_reserved or address.is_unspecified:
        mapped = address.version == 6 and (address.ipv4_mapped or address in ipaddress.IPv6Network("64:ff9b::/96"))
        teredo = address.version == 6 and address.teredo is not None
        low = address.version == 6 and address in ipaddress.IPv6Network("::/96")
        assert mapped or teredo or low or not is_public(address)


@pytest.mark.parametrize(
    "hosts", [["yard.internal"], ["yard.internal:8080"], ["YARD.internal."], ["Yard.Internal:8080"]]
)
def test_a_listed_host_may_resolve_to_any_address(hosts):
    AddressRule.of(hosts).check("yard.internal", 8080, ipaddress.ip_address("10.0.0.1"))


@pytest.mark.parametrize(
    ("hosts", "host"),
    [
        (["yard.internal:8081"], "yard.internal"),
        (["yard.internal"], "other.yard.internal"),
        (["yard.internal"], "yard.internal.evil.org"),
        (["10.0.0.2"], "10.0.0.1"),
        ([], "10.0.0.1"),
    ],
)
def test_only_the_named_host_is_allowed(hosts, host):
    with pytest.raises(Blocked, match=f"^{host} ") as refused:
        AddressRule.of(hosts).check(host, 8080, ipaddress.ip_address("10.0.0.1"))
    assert isinstance(refused.value, Denied)
    assert (refused.value.info.code, refused.value.info.effect) == ("tool.denied", "none")


def test_a_refusal_does_not_show_the_resolved_address():
    with pytest.raises(Blocked) as refused:
        AddressRule().check("yard.internal", 80, ipaddress.ip_address("10.20.30.40"))
    assert "10.20" not in f"{refused.value} {refused.value.info}"


def test_a_network_is_allowed_under_any_name_and_mapped_too():
    rule = AddressRule.of((), ["10.1.0.0/16", "fd00:1::/32"])
    for text in ("10.1.2.3", "::ffff:10.1.2.3", "fd00:1::7"):
        rule.check("any.name", 80, ipaddress.ip_address(text))
    for text in ("10.2.0.1", "::ffff:10.2.0.1", "64:ff9b::10.1.2.3", "2002:a01:203::1", "fd00:2::7"):
        with pytest.raises(Blocked):
            rule.check("any.name", 80, ipaddress.ip_address(text))


def test_ipv6_hosts_are_named_in_any_of_their_spellings():
    rule = AddressRule.of(["::1", "[FD00:0:0::1]", "[fd00::2]:80"])
    assert rule.hosts == {"::1", "fd00::1", "[fd00::2]:80"}
    rule.check("fd00::2", 80, ipaddress.ip_address("fd00::2"))
    with pytest.raises(Blocked):
        rule.check("fd00::2", 81, ipaddress.ip_address("fd00::2"))


@pytest.mark.parametrize(
    "host",
    [
        "",
        "*",
        "*.corp",
        "http://x",
        "a/b",
        "a b",
        "a@b",
        "x:0",
        "x:99999",
        "x:y",
        "a..b",
        "[::1",
        "fe80::1%eth0",
        7,
        None,
    ],
)
def test_an_invalid_host_is_a_config_error(host):
    with pytest.raises(ConfigError, match="is no host"):
        AddressRule.of([host])


@pytest.mark.parametrize("cidr", ["", "10.0.0.1/8", "10/8", "x", 7, None, "10.0.0.0/33", "fe80::%1/64"])
def test_an_invalid_network_is_a_config_error(cidr):
    with pytest.raises(ConfigError, match="is no network"):
        AddressRule.of((), [cidr])


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("127\u30020\u30020\u30021", "127.0.0.1"),
        ("[::FFFF:7F00:1]", "::ffff:127.0.0.1" if sys.version_info >= (3, 13) else "::ffff:7f00:1"),
        ("a_b.example", "a_b.example"),
        ("1and1.example", "1and1.example"),
    ],
)
def test_a_host_has_one_spelling(text, host):
    assert read_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        *("0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "127.1", "127.0.1", "017700000001", "127.0.0.1.1"),
        *("256.256.256.256", "1.2.3.0x4", "a.0x", "127.0.0.01", "127.0.0.1..", ".", "..", "a..b", "-a.b", "a-.b"),
        *("127.0.0.1%00", "%31%32%37.0.0.1", "loc\u00adalhost", "\u24db\u24de\u24d2alhost", "\uff11\uff12\uff17.0.0.1"),
        *(
            "[fe80::1%25eth0]",
            "[::1%lo]",
            "[::1]x",
            "[127.0.0.1]",
            "[]",
            "a" * 64,
            "a." * 130 + "b",
            "a\u202eb",
            "a\nb",
            "",
        ),
    ],
)
def test_a_host_that_systems_parse_differently_is_refused(text):
    with pytest.raises(ValueError):
        read_host(text)


@given(st.text(max_size=30))
def test_reading_a_host_gives_a_fixed_point_or_a_value_error(text):
    try:
        host = read_host(text)
    except ValueError:
        return
    assert host.isascii() and host == host.lower()
    assert read_host(f"[{host}]" if ":" in host else host) == host


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


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        *(
            (url, "user or password")
            for url in ("http://good@evil.org/", "http://good:secret@evil.org", "http://@evil.org")
        ),
        *((url, "begin with http:// or https://$") for url in ("a.org/v1", "a.org/#f", "python server.py", "ftp://a")),
        ("http://a/#f", "may hold no '#'"),
    ],
)
def test_one_reason_is_given_for_a_url_that_is_refused(url, reason):
    with pytest.raises(Blocked, match=reason):
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

"""Which addresses `GuardedClient` connects to."""

import asyncio
import socket
import threading

import pytest
from hypothesis import given, settings, strategies as st
from waiting import SOON, until

from conftest import examples
from links.conftest import get, local, post
from links.fake_server import FakeServer, respond
from toolyard.links.http.addresses import AddressRule, Blocked
from toolyard.links.http.backend import AddressGuard, system_addresses
from toolyard.links.http.client import GuardedClient
from toolyard.model.errors import CallError, CallTimeout, Unavailable

NAMES = {
    "localhost": ["127.0.0.1", "::1"],
    "metadata.google.internal": ["169.254.169.254"],
    "instance-data": ["169.254.169.254"],
    "127.0.0.1.nip.example": ["127.0.0.1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "ula.example": ["fd00:ec2::254"],
    "zone.example": ["fe80::1%2"],
    "both.example": ["93.184.216.34", "127.0.0.1"],
    "both6.example": ["2606:4700::1", "::1"],
    "xn--bcher-kva.example": ["10.0.0.1"],
}

SPELLINGS = [
    *(
        "127.0.0.1",
        "127.0.0.2",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "0X7F000001",
        "2130706433",
    ),
    *(
        "017700000001",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[0000::0001]",
        "[::ffff:127.0.0.1]",
    ),
    *("[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]"),
    *("[2002:7f00:1::]", "[2002:7f00:0001::1]", "[2001:0:808:808::80ff:fffe]", "[::ffff:0:127.0.0.1]", "[fe80::1]"),
    *(
        "[fe80::1%25lo]",
        "[fe80::1%lo]",
        "[::1%25lo]",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
    ),
    *("169.254.43518", "[::ffff:a9fe:a9fe]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[2002:a9fe:a9fe::]"),
    *("100.100.100.200", "192.0.0.192", "168.63.129.16", "169.254.170.2", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
    *("[fc00::1]", "[fec0::1]", "[ff02::1]", "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "100.64.0.1"),
    *("localhost", "LOCALHOST", "localhost.", "LocalHost.", "metadata.google.internal", "METADATA.google.internal."),
    *("instance-data", "127.0.0.1.nip.example", "mapped.example", "nat64.example", "ula.example", "zone.example"),
    *("both.example", "both6.example", "b\u00fccher.example", "xn--bcher-kva.example", "127\u30020\u30020\u30021"),
    *("\u2460\u2461\u2466.0.0.1", "\uff11\uff12\uff17.0.0.1", "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3"),
    *("%31%32%37.0.0.1", "127.0.0.1%00.example", "127.0.0.1%2f", "good.example@127.0.0.1", "good.example:x@localhost"),
    *("127.0.0.1\\@good.example", "127.0.0.1#@good.example", "127.0.0.1\t", "local\u00adhost", "loca\u2113host"),
]


def known(host, port):
    if host not in NAMES:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")
    return NAMES[host]


@pytest.mark.parametrize("scheme", ["http", "https", "HTTP"])
def test_no_spelling_of_a_private_address_is_connected_to(server, scheme):
    missed = []
    with GuardedClient(resolve=known) as client:
        for spelling in SPELLINGS:
            try:
                client.send(get(f"{scheme}://{spelling}:{server.port}/latest/meta-data", seconds=SOON))
            except Blocked as refused:
                if (refused.info.code, refused.info.effect) == ("tool.denied", "none"):
                    continue
            except CallError:
                pass
            missed.append(spelling)
    assert (missed, server.connections) == ([], [])


async def test_the_same_holds_on_an_event_loop(server):
    async with GuardedClient(resolve=known) as client:
        for spelling in SPELLINGS:
            with pytest.raises(Blocked):
                await client.asend(post(f"http://{spelling}:{server.port}/", seconds=SOON))
    assert server.connections == []


@given(st.ip_addresses(), st.booleans())
@settings(max_examples=examples(50))
def test_resolved_addresses_are_never_shown(address, literal):
    host = (f"[{address}]" if address.version == 6 else str(address)) if literal else "some.example"
    with GuardedClient(resolve=lambda host, port: ["127.0.0.1", str(address)]) as client:
        try:
            client.send(get(f"http://{host}:1/", seconds=0.001))
        except CallError as error:
            assert literal or str(address) not in f"{error} {error.info}"


def test_a_name_is_resolved_once_and_the_checked_address_is_connected_to(server, ask):
    asked = []

    def rebinding(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    client = GuardedClient(AddressRule.of((), ["127.0.0.0/8"]), resolve=rebinding)
    assert ask(client, get(f"http://public.example:{server.port}/x")).status == 200
    assert asked == ["public.example"]
    assert server.requests[0].headers["host"] == f"public.example:{server.port}"


def test_a_name_that_changes_its_address_is_checked_with_every_connection(server, ask):
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    server.acts["GET", "/x"] = [respond(200, {}, "Connection: close")]
    client = GuardedClient(AddressRule.of((), ["127.0.0.0/8"]), resolve=lambda host, port: answers.pop(0))
    first = get(f"http://public.example:{server.port}/x")
    with pytest.raises(Blocked, match=r"public\.example may not"):
        ask(client, first, first)
    assert len(server.connections) == 1


def test_a_kept_connection_to_a_named_host_is_not_for_those_who_did_not_name_it(server, ask):
    url = f"http://inside.example:{server.port}/x"
    client = GuardedClient(resolve=lambda host, port: ["127.0.0.1"])
    with pytest.raises(Blocked):
        ask(client, get(url, named=(f"inside.example:{server.port}",)), get(url))
    assert len(server.requests) == 1


@pytest.mark.parametrize("named", ["inside.example", "inside.example:{port}"])
def test_the_operator_may_name_a_private_host_for_one_call(server, ask, named):
    client = GuardedClient(resolve=lambda host, port: ["127.0.0.1"])
    request = get(f"http://INSIDE.example.:{server.port}/x", named=(named.format(port=server.port),))
    assert ask(client, request).status == 200


def test_even_a_named_host_has_no_zone(ask):
    client = GuardedClient(AddressRule.of(["inside.example"]), resolve=lambda host, port: ["fe80::1%2"])
    with pytest.raises(Blocked):
        ask(client, get("http://inside.example/"))


def test_the_next_address_is_tried_if_one_does_not_answer(server, ask):
    client = GuardedClient(AddressRule.of((), ["127.0.0.0/8"]), resolve=lambda host, port: ["127.0.0.2", "127.0.0.1"])
    assert ask(client, get(f"http://public.example:{server.port}/x", seconds=SOON)).status == 200


@pytest.mark.parametrize("failure", [socket.gaierror(-2, "no such name"), UnicodeError("label"), None])
def test_a_name_without_address_is_unavailable(ask, failure):
    def resolve(host, port):
        if failure is not None:
            raise failure
        return []

    with pytest.raises(Unavailable, match=r"http://nowhere\.example: its host name does not resolve") as failed:
        ask(GuardedClient(resolve=resolve), post("http://nowhere.example/"))
    assert (failed.value.info.effect, failed.value.info.retryable) == ("none", True)


def test_the_deadline_holds_while_a_name_is_looked_up(ask):
    release = threading.Event()
    client = GuardedClient(resolve=lambda host, port: release.wait(SOON) and [])
    with pytest.raises(CallTimeout) as late:
        ask(client, post("http://slow.example/", seconds=0.2))
    release.set()
    assert late.value.info.effect == "none"


def test_lookups_that_hang_do_not_make_others_wait_for_ever():
    release, asked = threading.Event(), []

    def resolve(host, port):
        asked.append(host)
        release.wait(SOON)
        return [host]

    gate = AddressGuard(AddressRule(), resolve, threads=2)

    async def main():
        names = [f"n{number}.example" for number in range(5)]
        tasks = [asyncio.create_task(gate.find_addresses(name, 80, True)) for name in names]
        await asyncio.to_thread(until, lambda: len(asked) == 2)
        tasks[4].cancel()
        await asyncio.wait(tasks[4:])
        release.set()
        assert await asyncio.gather(*tasks[:4]) == [[name] for name in names[:4]]
        assert sorted(asked) == names[:4]

    asyncio.run(main())


def test_a_caller_that_gives_up_leaves_the_lookup_queue():
    release, asked = threading.Event(), []

    def resolve(host, port):
        asked.append(host)
        release.wait(SOON)
        return ["8.8.8.8"]

    gate = AddressGuard(AddressRule(), resolve, threads=1)

    async def main():
        first = asyncio.create_task(gate.find_addresses("first.example", 80, False))
        await asyncio.to_thread(until, lambda: asked)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gate.find_addresses("second.example", 80, False), 0.05)
        third = asyncio.create_task(gate.find_addresses("third.example", 80, False))
        release.set()
        assert await first == await third == ["8.8.8.8"]

    asyncio.run(main())
    assert asked == ["first.example", "third.example"]


def test_the_system_resolver_gives_each_address_once():
    found = system_addresses("localhost", 80)
    assert found and len(found) == len(set(found)) and set(found) <= {"127.0.0.1", "::1"}


def test_a_connection_that_nobody_takes_is_limited_too(ask):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        with pytest.raises(CallTimeout) as late:
            ask(local(), post(f"http://127.0.0.1:{port}/", seconds=0.3))
        for filler in fillers:
            filler.close()
    assert late.value.info.effect == "none"


def test_a_refused_connection_had_no_effect(ask):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(
        Unavailable, match=rf"^cannot connect to http://127\.0\.0\.1:{port}: connection refused$"
    ) as failed:
        ask(local(), post(f"http://127.0.0.1:{port}/"))
    assert (failed.value.info.effect, failed.value.info.retryable) == ("none", True)


def test_proxy_settings_of_the_environment_are_ignored(server, ask, monkeypatch, tmp_path):
    with FakeServer() as proxy:
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password hunter2")
        (tmp_path / ".netrc").chmod(0o600)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert ask(local(), get(f"{server.url}/x")).status == 200
        assert proxy.connections == []
    assert "authorization" not in server.requests[0].headers


def test_a_cancelled_lookup_is_abandoned():
    release, begun = threading.Event(), threading.Event()

    def resolve(host, port):
        begun.set()
        release.wait(SOON)
        return ["127.0.0.1"]

    async def main():
        async with GuardedClient(resolve=resolve) as client:
            task = asyncio.create_task(client.asend(get("http://slow.example/")))
            await asyncio.to_thread(begun.wait, SOON)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    release.set()

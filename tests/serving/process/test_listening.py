"""Where a server listens."""

import resource
import socket

import pytest
from waiting import SOON

from toolyard import ConfigError
from toolyard.app.blocks import ServerBlock
from toolyard.app.config import read_anything
from toolyard.serving.process.listening import Address, address_of, listen, room_for_connections, write_banner
from toolyard.serving.service import build_service


def test_a_socket_listens_where_the_block_says_and_names_itself():
    with listen(ServerBlock(port=0)) as listener:
        address = address_of(listener)
        assert address.host == "127.0.0.1"
        assert address.url == f"http://127.0.0.1:{address.port}"
        assert listener.proto == socket.IPPROTO_TCP
        socket.create_connection((address.host, address.port), timeout=SOON).close()


def test_a_busy_port_is_named_with_what_to_do_and_the_next_is_taken_only_on_request():
    with listen(ServerBlock(port=0)) as taken:
        port = address_of(taken).port
        with pytest.raises(ConfigError, match=rf"port {port} is in use at 127.0.0.1; .*--port.*--auto-port"):
            listen(ServerBlock(port=port))
        with listen(ServerBlock(port=port, auto_port=True)) as other:
            assert port < address_of(other).port < port + 100


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.7", "a" * 300])
def test_an_address_that_cannot_be_had_is_an_error_that_names_it(host):
    with pytest.raises(ConfigError, match="cannot listen at"):
        listen(ServerBlock(host=host, port=0))


def test_addresses_are_written_so_that_a_browser_on_this_machine_finds_them():
    assert Address("::1", 80).url == "http://[::1]:80"
    assert Address("0.0.0.0", 80).url == "http://127.0.0.1:80"
    assert Address("::", 80).url == "http://[::1]:80"
    assert [Address(host, 1).is_private for host in ("127.8.8.8", "::1", "0.0.0.0", "10.0.0.1")] == [
        True,
        True,
        False,
        False,
    ]


def test_open_files_are_allowed_for_and_never_fewer_than_before():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert room_for_connections(100) == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before[0]
        hard = before[1]
        if hard != resource.RLIM_INFINITY:
            assert room_for_connections(hard * 2) == hard - 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_a_policy_denies_is_said_at_the_start_and_not_suggested(tmp_path):
    (tmp_path / "shop.py").write_text("def refund(order: int) -> str: ...\ndef look(order: int) -> str: ...\n")
    config = {"tools": [{"type": "python", "target": str(tmp_path / "shop.py"), "namespace": "shop"}]}
    for rules, said, shown in (
        ([{"deny": "shop::refund"}], "may use every tool but 1 that the policy denies", "shop::look:invoke"),
        ([], "may use every tool\n", "shop::refund:invoke"),
    ):
        service = build_service(read_anything({**config, "policy": {"rules": rules}}), ServerBlock(port=0))
        try:
            banner = write_banner(service, "http://x")
        finally:
            service.yard.close()
        assert said in banner and shown in banner

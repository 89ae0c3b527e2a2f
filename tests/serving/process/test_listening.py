"""Where a server listens."""

import resource
import socket

import pytest
from waiting import SOON

from toolyard import ConfigError
from toolyard.app.blocks import ServerBlock
from toolyard.serving.process.listening import Address, address_of, listen, raise_file_limit


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
        assert raise_file_limit(100) == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before[0]
        hard = before[1]
        if hard != resource.RLIM_INFINITY:
            assert raise_file_limit(hard * 2) == hard - 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

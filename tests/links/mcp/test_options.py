"""`McpServer` from options; what is wrong with them is tested with the source that takes them."""

from toolyard.links.mcp.options import FixedRoots, limits_of, read_handlers, read_server, secrets_of


def test_secrets_are_what_was_given_and_not_where_things_are(tmp_path):
    env = {"KEY": "swordfish-1", "PORT": 8080, "DEBUG": "true", "DATA": str(tmp_path / "x"), "API": "https://a.example"}
    args = ["--token", "swordfish-2", "--password=swordfish-3", "plain", "--dir", "/data"]
    assert set(secrets_of(read_server(command="x", args=args, env=env))) == {
        "swordfish-1",
        "swordfish-2",
        "swordfish-3",
    }


def test_what_only_looks_like_a_url_is_a_secret():
    assert secrets_of(read_server(command="x", env={"API": "https://[::1/"})) == ("https://[::1/",)


def test_headers_credentials_and_the_query_are_secrets():
    auth = {"type": "basic", "user": "someone", "password": "swordfish-1"}
    server = read_server("http://a.example/mcp?key=swordfish-2", headers={"X": "Token swordfish-3"}, auth=auth)
    assert set(secrets_of(server)) == {"swordfish-1", "swordfish-2", "Token swordfish-3", "swordfish-3"}
    assert "swordfish" not in f"{server!r} {server.name}"


def test_what_client_credentials_may_show_is_no_secret():
    auth = {
        "type": "oauth2",
        "token_url": "https://a.example/token",
        "client_id": "a-client",
        "client_secret": "swordfish-1",
        "scopes": ["read", "write"],
    }
    server = read_server("https://a.example/mcp", auth=auth)
    assert secrets_of(server) == ("swordfish-1",)
    assert dict(server.auth)["scopes"] == ("read", "write")


def test_how_long_to_connect_is_the_servers_own():
    server = read_server(command="x", connect_timeout=3)
    assert limits_of(server).connect_seconds == 3
    assert server != read_server(command="x")
    assert limits_of(read_server(command="x")).connect_seconds == 30
    assert limits_of(read_server("http://a.example/mcp")).connect_seconds == 10


def test_other_names_of_a_transport_are_understood():
    assert read_server("http://a", transport="streamable-http") == read_server("http://a", transport="http")


def test_equal_folders_are_equal_roots(tmp_path):
    one, other = (read_handlers(None, None, [str(tmp_path)]) for _ in range(2))
    assert one == other
    assert one.roots == FixedRoots((str(tmp_path),))
    assert one.capabilities().keys() == {"roots"}

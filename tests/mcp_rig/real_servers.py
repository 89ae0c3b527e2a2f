"""How to start third-party servers."""

import subprocess
from contextlib import ExitStack, contextmanager

import pytest

from mcp_rig import install
from mcp_rig.processes import START, free_port, start_port_server


def require_installed(part):
    """The installed part; skips the test with a message if it is missing."""
    try:
        return part()
    except install.CannotInstall as error:
        pytest.skip(f"NOT TESTED, it cannot be installed: {error}")


def npm_command(name, *words):
    """The command of a server of the npm packages."""
    modules = require_installed(install.packages)
    return [str(install.node()), str(modules / "@modelcontextprotocol" / name / "dist" / "index.js"), *map(str, words)]


def pypi_command(name, *words):
    """The command of a server of the PyPI packages."""
    return [str(require_installed(install.servers) / name), *map(str, words)]


def stdio_source(namespace, command, **more):
    """The config entry for a server, with a long timeout for starting it on a busy machine."""
    entry = {"type": "mcp", "namespace": namespace, "command": command[0], "args": command[1:]}
    return entry | {"connect_timeout": START} | more


@contextmanager
def serve_everything(way, env=None, port=None):
    """The source entry of a running `everything` server, by transport."""
    with ExitStack() as stack:
        if way == "stdio":
            yield stdio_source("everything", npm_command("server-everything", "stdio"), env=env or {})
            return
        port = port or free_port()
        word, path = {"http": ("streamableHttp", "/mcp"), "sse": ("sse", "/sse")}[way]
        stack.enter_context(
            start_port_server(npm_command("server-everything", word), {"PORT": str(port), **(env or {})}, port)
        )
        url = f"http://127.0.0.1:{port}{path}"
        yield {"type": "mcp", "namespace": "everything", "url": url, "connect_timeout": START}


def make_repository(folder):
    """A git repository with one commit, for the git server."""
    commands = (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["-c", "user.name=rig", "-c", "user.email=rig@example.com", "commit", "-q", "-m", "the first commit"],
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "read.me").write_text("hello\n")
    for words in commands:
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder

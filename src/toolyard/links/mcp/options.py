"""`McpServer` from the options that a source or an engine is given; what is wrong with one is said at once."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec

from toolyard.links.http.url import read_url
from toolyard.links.mcp.errors import SECRET_FLAG, secrets_of
from toolyard.links.mcp.peer import Handler, Handlers, LinkLimits
from toolyard.links.mcp.transports.web import AUTH_KINDS, read_credential
from toolyard.model.bindings import AuthField, McpServer, Transport
from toolyard.model.errors import CallError, ConfigError
from toolyard.model.json_words import json_type

_ALIASES: dict[str, Transport] = {"streamable-http": "http", "streamable_http": "http", "streamableHttp": "http"}
"""What other programs call the same."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_SHOWN = 200
_PAIR, _TRIPLE = 2, 3

__all__ = ["FixedRoots", "limits_of", "positive", "read_handlers", "read_server", "secrets_of"]


class FixedRoots(msgspec.Struct, frozen=True):
    """Answers a server that asks for the folders it may work in. Equal for equal folders."""

    paths: tuple[str, ...]

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        """The result of `roots/list`."""
        paths = [Path(path).absolute() for path in self.paths]
        return {"roots": [{"uri": path.as_uri(), "name": path.name or str(path)} for path in paths]}


def read_handlers(
    sampling: Handler | None, elicitation: Handler | None, roots: Handler | Sequence[str] | None
) -> Handlers:
    """Who answers what a server asks for; roots may be a list of folders."""
    for option, handler in (("sampling", sampling), ("elicitation", elicitation)):
        if handler is not None and not callable(handler):
            raise ConfigError(f"{option} must be a function, not {json_type(handler)}")
    if roots is not None and not callable(roots):
        if isinstance(roots, str) or not isinstance(roots, list | tuple) or not all(isinstance(r, str) for r in roots):
            raise ConfigError("roots must be a list of folders, or a function")
        roots = FixedRoots(tuple(roots))
    return Handlers(sampling=sampling, elicitation=elicitation, roots=roots)


def read_server(
    url: Any = None,
    command: Any = None,
    *,
    args: Any = (),
    env: Any = None,
    cwd: Any = None,
    transport: Any = "auto",
    headers: Any = None,
    auth: Any = None,
    verify: Any = True,
    ca: Any = None,
    cert: Any = None,
    connect_timeout: Any = 10.0,
) -> McpServer:
    """The server these options describe; `ConfigError` shows no value that may be secret."""
    seconds = positive(connect_timeout, "connect_timeout")
    if (url is None) == (command is None):
        raise ConfigError("an MCP server is reached by its url or started by its command; give one of them")
    kind: Any = _ALIASES.get(transport, transport) if isinstance(transport, str) else transport
    if kind not in get_args(Transport):
        raise ConfigError(f"transport must be one of {', '.join(get_args(Transport))}; not {transport!r}")
    if type(verify) is not bool:
        raise ConfigError(f"verify must be true or false, not {json_type(verify)}; files of authorities go to ca")
    if command is not None:
        over = {"headers": headers, "auth": auth, "ca": ca, "cert": cert}
        _refuse([name for name, value in over.items() if value], "of a server that is started by a command")
        if kind not in ("auto", "stdio"):
            raise ConfigError(f"a server that is started by a command talks over stdio, not {kind}")
        return _process(command, args, env, cwd, seconds)
    _refuse([name for name, value in {"args": args, "env": env, "cwd": cwd}.items() if value], "of a server with a url")
    if kind == "stdio":
        raise ConfigError("transport stdio needs a command, not a url")
    if ca is not None and not verify:
        raise ConfigError("ca says whom to trust, and verify: false to trust anybody; give one of them")
    address, name = _read_address(url)
    server = McpServer(
        name=name,
        url=address,
        transport=kind,
        headers=_read_headers(headers),
        auth=_read_auth(auth),
        verify=verify,
        ca=None if ca is None else _read_text(ca, "ca"),
        cert=_read_cert(cert),
        connect_seconds=seconds,
    )
    if ("type", "oauth") not in server.auth:  # that would bring in the SDK, which is needed later anyway
        read_credential(server, read_url(address).origin)
    return server


def limits_of(server: McpServer) -> LinkLimits:
    """The limits of a link to the server: the same for all who ask, so that they share it."""
    return LinkLimits(connect_seconds=server.connect_seconds)


def positive(value: Any, option: str) -> float:
    """The value, if it is a number above 0 that ends somewhere."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError(f"{option} must be a number above 0, not {value!r}")
    return value


def _refuse(names: list[str], what: str) -> None:
    if names:
        raise ConfigError(f"{' and '.join(names)}: no option {what}")


def _read_address(url: Any) -> tuple[str, str]:
    text = _read_text(url, "url")
    try:
        target = read_url(text)
    except (CallError, ConfigError) as error:
        raise ConfigError(f"url: {error}") from None
    shown = target.url.partition("?")[0]
    return target.url, shown[:-1] if target.path == "/" else shown


def _process(command: Any, args: Any, env: Any, cwd: Any, seconds: float) -> McpServer:
    words = list(command) if isinstance(command, list | tuple) else [_read_text(command, "command")]
    if isinstance(args, str) or not isinstance(args, list | tuple):
        raise ConfigError(f"args must be a list of texts, not {json_type(args)}")
    if len(words) == 1 and not args and any(map(str.isspace, words[0])) and shutil.which(words[0]) is None:
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise ConfigError(f"command: {error}") from None
    words += [str(word) if type(word) in (int, float) else word for word in args]
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise ConfigError("command and args must be texts")
    if env is not None and not isinstance(env, Mapping):
        raise ConfigError(f"env must be a mapping, not {json_type(env)}")
    return McpServer(
        name=_show_command(words),
        transport="stdio",
        command=words[0],
        args=tuple(words[1:]),
        env=tuple(sorted(_read_variable(name, value) for name, value in (env or {}).items())),
        cwd=None if cwd is None else _read_text(cwd, "cwd"),
        connect_seconds=seconds,
    )


def _read_variable(name: Any, value: Any) -> tuple[str, str]:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        raise ConfigError(f"env: {name!r} is no name of a variable")
    if type(value) in (int, float):
        value = str(value)
    if not isinstance(value, str) or "\0" in value:
        raise ConfigError(f"env.{name}: must be text, not {json_type(value)}")
    return name, value


def _show_command(words: list[str]) -> str:
    """The command, the first thing that is no option, and paths: what is left out may be secret."""
    shown = [Path(words[0]).name or words[0]]
    first = True
    for flag, word in pairwise(words):
        if word.startswith("-") or "=" in word or "://" in word:
            continue
        if flag.startswith("-") and SECRET_FLAG.search(flag):
            continue
        if first or word.startswith(("/", "./", "../", "~")):
            shown.append(word)
        first = False
    text = " ".join(shown)
    return f"stdio: {text if len(text) <= _SHOWN else text[:_SHOWN] + '...'}"


def _read_headers(headers: Any) -> tuple[tuple[str, str], ...]:
    if headers is not None and not isinstance(headers, Mapping):
        raise ConfigError(f"headers: must be a mapping, not {json_type(headers)}")
    found = dict(headers or {})
    for name, value in found.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ConfigError(f"headers: {name!r} is no name of a header")
        if not isinstance(value, str) or not _FIELD.fullmatch(value):
            raise ConfigError(f"headers.{name}: must be text that fits into a header: visible ASCII, no line breaks")
    return tuple(sorted(found.items()))


def _read_auth(auth: Any) -> tuple[AuthField, ...]:
    if auth is None:
        return ()
    if not isinstance(auth, Mapping):
        raise ConfigError(f"auth: must be a mapping, not {json_type(auth)}")
    kind = auth.get("type")
    if not isinstance(kind, str) or kind not in AUTH_KINDS:
        raise ConfigError(f"auth: needs a 'type': {', '.join(AUTH_KINDS)}")
    needed, optional = AUTH_KINDS[kind].needed, AUTH_KINDS[kind].optional
    for key in auth:
        if key not in ("type", *needed, *optional):
            raise ConfigError(f"auth: {kind} has no {key!r}; known: {', '.join((*needed, *optional))}")
    for key in needed:
        if not auth.get(key):
            raise ConfigError(f"auth: {kind} needs {key!r}")
    if auth.get("in", "header") != "header":
        raise ConfigError("auth.in: the API key of an MCP server goes into a header")
    return tuple(sorted((str(key), _auth_value(key, value)) for key, value in auth.items() if value is not None))


def _auth_value(key: str, value: Any) -> str | tuple[str, ...]:
    if key in ("scopes", "hosts") and isinstance(value, list | tuple):
        return tuple(_read_text(item, f"auth.{key}") for item in value)
    if key == "in_body" and type(value) is bool:
        return "true" if value else "false"
    return _read_text(value, f"auth.{key}")


def _read_cert(cert: Any) -> tuple[str, ...]:
    if cert is None:
        return ()
    parts = (cert,) if isinstance(cert, str) else cert
    sizes = (1, _PAIR, _TRIPLE)
    if not isinstance(parts, list | tuple) or len(parts) not in sizes or not all(isinstance(p, str) for p in parts):
        raise ConfigError("cert must be a file, or certificate and key, or these and the key's password")
    return tuple(parts)


def _read_text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where} must be text, not {'empty' if value == '' else json_type(value)}")
    return str(value)

"""Create an `McpServer` from the options of a source or an engine; errors are raised at once.

`secrets_of` and `credentials_of` tell which of its values are secret.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qsl, urlsplit

import msgspec

from toolyard.links.http.addresses import read_url
from toolyard.links.http.auth import AUTH_KINDS as HTTP_AUTH_KINDS, AuthKind, token_hosts
from toolyard.links.http.messages import Credential
from toolyard.links.mcp.peer import Handler, Handlers, LinkLimits
from toolyard.model.bindings import AuthField, McpServer, Transport
from toolyard.model.errors import CallError, ConfigError
from toolyard.model.json_schema import file_type
from toolyard.schema.common_options import McpServerOptions, read_trust
from toolyard.schema.options import Text, option_type, read_arguments, read_value
from toolyard.words.redactor import find_credentials

_ALIASES: dict[str, Transport] = {"streamable-http": "http", "streamable_http": "http", "streamableHttp": "http"}
"""Names of transports in other programs."""
_REACH_SECONDS = 10.0
_START_SECONDS = 30.0
"""A command may first have to download a program or load a model."""
_SHOWN = 200
_TEXT = option_type(Text)


class FixedRoots(msgspec.Struct, frozen=True):
    """Answers `roots/list` with fixed folders. Instances with equal folders are equal."""

    paths: tuple[str, ...]

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        """The result of `roots/list`."""
        paths = [Path(path).absolute() for path in self.paths]
        return {"roots": [{"uri": path.as_uri(), "name": path.name or str(path)} for path in paths]}


def read_handlers(
    sampling: Handler | None, elicitation: Handler | None, roots: Handler | Sequence[str] | None
) -> Handlers:
    """The handlers of server requests; roots may be given as a list of folders."""
    for option, handler in (("sampling", sampling), ("elicitation", elicitation)):
        if handler is not None and not callable(handler):
            raise ConfigError(f"{option} must be a function, not {file_type(handler)}")
    if roots is not None and not callable(roots):
        if isinstance(roots, str) or not isinstance(roots, list | tuple) or not all(isinstance(r, str) for r in roots):
            raise ConfigError("roots must be a list of folders, or a function")
        roots = FixedRoots(tuple(roots))
    return Handlers(sampling=sampling, elicitation=elicitation, roots=roots)


def read_server(url: Any = None, command: Any = None, **options: Any) -> McpServer:
    """The server that `McpServerOptions` describe; a `ConfigError` never shows values that may be secret."""
    read = read_arguments(McpServerOptions, url=url, command=command, **options)
    if (url is None) == (command is None):
        raise ConfigError("an MCP server is reached by its url or started by its command; give one of them")
    given: str = read.get("transport", "auto")
    kind: Any = _ALIASES.get(given, given)
    if kind not in get_args(Transport):
        raise ConfigError(f"transport must be one of {', '.join(get_args(Transport))}; not {given!r}")
    if command is not None:
        _refuse(read, ("headers", "auth", "ca", "cert"), "of a server that is started by a command")
        if kind not in ("auto", "stdio"):
            raise ConfigError(f"a server that is started by a command talks over stdio, not {kind}")
        return _read_process(read)
    _refuse(read, ("args", "env", "cwd"), "of a server with a url")
    if kind == "stdio":
        raise ConfigError("transport stdio needs a command, not a url")
    return _read_web(read, kind)


def limits_of(server: McpServer) -> LinkLimits:
    """The limits of links to the server; equal for all callers, so that they share a link."""
    return LinkLimits(connect_seconds=server.connect_seconds)


def _refuse(read: dict[str, Any], names: tuple[str, ...], what: str) -> None:
    given = [name for name in names if read.get(name)]
    if given:
        raise ConfigError(f"{' and '.join(given)}: no option {what}")


def _read_web(read: dict[str, Any], kind: Transport) -> McpServer:
    verify, ca, cert = read.get("verify", True), read.get("ca"), read.get("cert") or ()
    read_trust(verify, ca)
    try:
        target = read_url(read["url"])
    except (CallError, ConfigError) as error:
        raise ConfigError(f"url: {error}") from None
    shown = target.url.partition("?")[0]
    server = McpServer(
        name=shown[:-1] if target.path == "/" else shown,
        url=target.url,
        transport=kind,
        headers=tuple(sorted((read.get("headers") or {}).items())),
        auth=_read_auth(read.get("auth")),
        verify=verify,
        ca=ca,
        cert=(cert,) if isinstance(cert, str) else tuple(cert),
        connect_seconds=read.get("connect_timeout") or _REACH_SECONDS,
    )
    if ("type", "oauth") not in server.auth:  # oauth would import the SDK, which is only needed later
        read_credential(server, target.origin)
    return server


def _read_process(read: dict[str, Any]) -> McpServer:
    command, args = read["command"], read.get("args") or ()
    words = [command] if isinstance(command, str) else list(command)
    if len(words) == 1 and not args and any(map(str.isspace, words[0])) and shutil.which(words[0]) is None:
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise ConfigError(f"command: {error}") from None
    words += map(str, args)
    if not words or not words[0] or any("\0" in word for word in words):
        raise ConfigError("command and args must be texts, the first not empty")
    env = {name: str(value) for name, value in (read.get("env") or {}).items()}
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            raise ConfigError(f"env: {name!r} is no name of a variable")
        if "\0" in value:
            raise ConfigError(f"env.{name}: must be text without null characters")
    cwd = read.get("cwd")
    return McpServer(
        name=_show_command(words),
        transport="stdio",
        command=words[0],
        args=tuple(words[1:]),
        env=tuple(sorted(env.items())),
        cwd=None if cwd is None else str(cwd),
        connect_seconds=read.get("connect_timeout") or _START_SECONDS,
    )


def _show_command(words: list[str]) -> str:
    """The command, its first positional argument, and paths; other arguments may be secret and are left out."""
    shown = [Path(words[0]).name or words[0]]
    first = True
    for flag, word in pairwise(words):
        if word.startswith("-") or "=" in word or "://" in word:
            continue
        if flag.startswith("-") and _SECRET_FLAG.search(flag):
            continue
        if first or word.startswith(("/", "./", "../", "~")):
            shown.append(word)
        first = False
    text = " ".join(shown)
    return f"stdio: {text if len(text) <= _SHOWN else text[:_SHOWN] + '...'}"


def _read_auth(auth: Any) -> tuple[AuthField, ...]:
    if auth is None:
        return ()
    kind = auth.get("type")
    if not isinstance(kind, str) or kind not in _AUTH_KINDS:
        raise ConfigError(f"auth: needs a 'type': {', '.join(_AUTH_KINDS)}")
    needed, optional = _AUTH_KINDS[kind].needed, _AUTH_KINDS[kind].optional
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
        return tuple(read_value(_TEXT, item, f"auth.{key}") for item in value)
    if key == "in_body" and type(value) is bool:
        return "true" if value else "false"
    return str(read_value(_TEXT, value, f"auth.{key}"))


def _make_oauth(origin: str, fields: Mapping[str, Any]) -> Credential:
    from toolyard.links.mcp.authorization import AuthorizationCode

    return AuthorizationCode(origin, fields)


_AUTH_KINDS: dict[str, AuthKind] = {
    **HTTP_AUTH_KINDS,
    "oauth": AuthKind(
        (), ("client_id", "client_secret", "client_name", "scopes", "redirect_uri", "store", "hosts"), _make_oauth
    ),
}
"""The kinds of HTTP authentication, and the login of a user as in MCP."""


def read_credential(server: McpServer, origin: str) -> tuple[Credential | None, tuple[str, ...]]:
    """The server's credential, and the hosts that it is obtained from; `ConfigError` says what is missing."""
    if not server.auth:
        return None, ()
    fields: dict[str, Any] = {**dict(server.auth), "url": server.url or ""}
    name = fields.get("type")
    kind = _AUTH_KINDS.get(str(name))
    if kind is None:
        raise ConfigError(f"auth of {server.name}: 'type' is one of {', '.join(_AUTH_KINDS)}, not {name!r}")
    try:
        return kind.make(origin, fields), (*token_hosts(fields), *(fields.get("hosts") or ()))
    except KeyError as error:
        raise ConfigError(f"auth of {server.name}: {name} needs {error.args[0]!r}") from None


_PUBLIC_AUTH = frozenset(
    {
        *("type", "in", "name", "user", "token_url", "client_id", "client_name", "scopes", "redirect_uri", "store"),
        *("hosts", "in_body"),
    }
)
"""Fields of `auth` that are not secret."""
_SECRET_FLAG = re.compile(r"(?i)pass|pwd|secret|token|key|auth|cred|bearer|cookie|header|\bpat\b")
"""Command-line options whose values are secret."""
_PLAIN = re.compile(r"[-+]?[\d.]+|true|false|yes|no|on|off", re.IGNORECASE)
_SHORTEST = 6
"""Shorter values are not redacted, since they occur everywhere."""


def secrets_of(server: McpServer) -> tuple[str, ...]:
    """Values from the server's configuration that must not be shown anywhere."""
    found = [value for _, value in _environment(server)]
    found += [*_certain_secrets(server), *(value for _, value in _query(server))]
    for _, value in server.headers:
        found += [value, *value.split(" ")[1:]]
    return tuple(dict.fromkeys(value for value in found if len(value) >= _SHORTEST))


def credentials_of(server: McpServer) -> tuple[str, ...]:
    """The credentials among the secrets, certain or recognised by name, which results must not repeat."""
    named = [*_environment(server), *server.headers, *_query(server)]
    found = [*_certain_secrets(server), *(part for item in named for part in find_credentials(*item))]
    return tuple(dict.fromkeys(found))


def _environment(server: McpServer) -> list[tuple[str, str]]:
    return [(name, value) for name, value in server.env if not _PLAIN.fullmatch(value) and not _is_location(value)]


def _query(server: McpServer) -> list[tuple[str, str]]:
    return [] if server.url is None else parse_qsl(urlsplit(server.url).query)


def _certain_secrets(server: McpServer) -> list[str]:
    found = [held for name, held in server.auth if name not in _PUBLIC_AUTH and isinstance(held, str)]
    for flag, value in zip(("", *server.args), server.args, strict=False):
        name, sign, rest = value.partition("=")
        if sign and name.startswith("-") and _SECRET_FLAG.search(name):
            found.append(rest)
        elif flag.startswith("-") and "=" not in flag and _SECRET_FLAG.search(flag):
            found.append(value)
    return found


def _is_location(value: str) -> bool:
    """Whether this is an existing path, or a URL without a query or user info."""
    try:
        if "://" in value:
            return not urlsplit(value).query and "@" not in value
        return value.startswith(("/", "./", "../")) and Path(value).parent.is_dir()
    except (OSError, ValueError):
        return False

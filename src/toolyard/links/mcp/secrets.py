"""The secrets in a server's configuration, which are redacted from texts and results."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from toolyard.model.bindings import McpServer
from toolyard.words.redactor import Redactor, find_credentials

_PUBLIC_AUTH = frozenset(
    {
        *("type", "in", "name", "user", "token_url", "client_id", "client_name", "scopes", "redirect_uri", "store"),
        *("hosts", "in_body"),
    }
)
"""Fields of `auth` that are not secret."""
SECRET_FLAG = re.compile(r"(?i)pass|pwd|secret|token|key|auth|cred|bearer|cookie|header|\bpat\b")
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
        if sign and name.startswith("-") and SECRET_FLAG.search(name):
            found.append(rest)
        elif flag.startswith("-") and "=" not in flag and SECRET_FLAG.search(flag):
            found.append(value)
    return found


def _is_location(value: str) -> bool:
    """Whether this is an existing path, or a URL without a query or user info."""
    if "://" in value:
        parts = urlsplit(value)
        return not parts.query and "@" not in value
    try:
        return value.startswith(("/", "./", "../")) and Path(value).parent.is_dir()
    except (OSError, ValueError):
        return False


class LinkSecrets:
    """The secrets of a server and the current tokens for it, which change while a link lives."""

    def __init__(self, server: McpServer, list_tokens: Callable[[], tuple[str, ...]]) -> None:
        self._fixed = secrets_of(server)
        self._credentials = credentials_of(server)
        self._list_tokens = list_tokens
        self._tokens: tuple[str, ...] = ()
        self._redactor = Redactor(self._fixed)

    @property
    def credentials(self) -> tuple[str, ...]:
        """The configured credentials and current tokens, which results must not repeat."""
        return (*self._credentials, *self._list_tokens())

    @property
    def redactor(self) -> Redactor:
        """Redacts the current secrets from texts."""
        tokens = self._list_tokens()
        if tokens != self._tokens:
            self._redactor, self._tokens = Redactor((*self._fixed, *tokens)), tokens
        return self._redactor

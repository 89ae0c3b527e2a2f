"""`secrets_of`: what must be shown nowhere of how a server is reached."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from toolyard.model.bindings import McpServer

_OPEN = frozenset(
    {
        *("type", "in", "name", "user", "token_url", "client_id", "client_name", "scopes", "redirect_uri", "store"),
        *("hosts", "in_body"),
    }
)
"""What may be shown of it."""
SECRET_FLAG = re.compile(r"(?i)pass|pwd|secret|token|key|auth|cred|bearer|cookie|header|\bpat\b")
"""Options of a command whose value is one."""
_PLAIN = re.compile(r"[-+]?[\d.]+|true|false|yes|no|on|off", re.IGNORECASE)
_SHORTEST = 6
"""Characters from which a value is worth hiding: shorter ones are found everywhere."""


def secrets_of(server: McpServer) -> tuple[str, ...]:
    """What must be shown nowhere of how a server is reached."""
    found = [value for _, value in server.env if not _PLAIN.fullmatch(value) and not _is_place(value)]
    for flag, value in zip(("", *server.args), server.args, strict=False):
        name, sign, rest = value.partition("=")
        if sign and name.startswith("-") and SECRET_FLAG.search(name):
            found.append(rest)
        elif flag.startswith("-") and "=" not in flag and SECRET_FLAG.search(flag):
            found.append(value)
    for _, value in server.headers:
        found += [value, *value.split(" ")[1:]]
    for name, held in server.auth:
        if name not in _OPEN and isinstance(held, str):
            found.append(held)
    if server.url is not None:
        found += [value for _, value in parse_qsl(urlsplit(server.url).query)]
    return tuple(dict.fromkeys(value for value in found if len(value) >= _SHORTEST))


def _is_place(value: str) -> bool:
    """A path that is there, or an address without anything secret in it."""
    if "://" in value:
        parts = urlsplit(value)
        return not parts.query and "@" not in value
    try:
        return value.startswith(("/", "./", "../")) and Path(value).parent.is_dir()
    except (OSError, ValueError):
        return False

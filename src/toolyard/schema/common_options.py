"""Options that sources and engines share: what each is for, and its limits. Defaults are the constructors'."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolyard.model.errors import ConfigError
from toolyard.schema.options import Text, locate_file

_CERTIFICATE_FILES, _CERTIFICATE_PARTS = 2, 3
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")


def locate_unless_url(value: Any, base: Path) -> Any:
    """For `locate`: a file in the config's folder; an address stays what it is."""
    return value if "://" in str(value) else locate_file(value, base)


def locate_certificate(value: Any, base: Path) -> Any:
    """For `locate`: certificate and key are files; a third text is the key's password."""
    if isinstance(value, str):
        return locate_file(value, base)
    return [*(locate_file(part, base) for part in value[:_CERTIFICATE_FILES]), *value[_CERTIFICATE_FILES:]]


def locate_token_store(auth: Any, base: Path) -> Any:
    """For `locate`: the file in which an OAuth login keeps its tokens."""
    store = auth.get("store") if isinstance(auth, dict) else None
    return {**auth, "store": str(base / store)} if isinstance(store, str) else auth


def check_headers(headers: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """For `check`: what can be sent as headers; the error shows no value."""
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ConfigError(f"{where}: {name!r} is no name of a header")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise ConfigError(f"{where}.{name}: must be text that fits into a header: visible ASCII, no line breaks")
    return dict(headers or {})


def check_certificate(cert: str | Sequence[str] | None, where: str) -> str | Sequence[str] | None:
    """For `check`: a file, or two or three texts."""
    if cert is not None and not isinstance(cert, str) and not 1 < len(cert) <= _CERTIFICATE_PARTS:
        raise ConfigError(f"{where} must be a file, or certificate and key, or these and the key's password")
    return cert


def read_trust(verify: bool, ca: str | None, where: str = "") -> bool | str:
    """Whom to trust: the system's authorities, those of a file, or anybody."""
    if ca is not None and not verify:
        raise ConfigError(f"{where}ca says whom to trust, and verify: false to trust anybody; give one of them")
    return verify if ca is None else ca


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is talked to over HTTP."""

    headers: Annotated[
        Mapping[str, str] | None, Meta(extra={"check": check_headers}, description="Headers of every request.")
    ]
    verify: Annotated[bool, Meta(description="Whether the server's certificate is checked.")]
    ca: Annotated[str | None, Meta(extra={"locate": locate_file}, description="File of the authorities to trust.")]
    cert: Annotated[
        str | Sequence[str] | None,
        Meta(
            extra={"locate": locate_certificate, "check": check_certificate},
            description="Client certificate: a file, or certificate and key, or these and the key's password.",
        ),
    ]


ConnectTimeout = Annotated[
    float | None,
    Meta(
        gt=0,
        description="Seconds that a server has to start or to be reached, and to answer; "
        "not given: 30 for a command, 10 for a url.",
    ),
]


class McpServerOptions(TlsOptions, frozen=True, kw_only=True):
    """How an MCP server is reached."""

    url: Annotated[str | None, Meta(description="Where the server is; or give its command.")]
    command: Annotated[str | Sequence[str] | None, Meta(description="The program that is the server; or give its url.")]
    args: Annotated[Sequence[str | int | float], Meta(description="Arguments of the command.")]
    env: Annotated[
        Mapping[str, str | int | float] | None,
        Meta(description="Variables that the started server gets beside a few usual ones."),
    ]
    cwd: Annotated[str | Path | None, Meta(description="Folder that the server is started in.")]
    transport: Annotated[Text, Meta(description="How to talk: auto, http, sse or stdio.")]
    auth: Annotated[
        Mapping[str, Any] | None,
        Meta(
            extra={"locate": locate_token_store},
            description="Credentials: a mapping with a type, one of bearer, basic, api_key, oauth2, oauth.",
        ),
    ]
    connect_timeout: ConnectTimeout
    roots: Annotated[
        Any,
        Meta(
            extra={"locate": locate_file},
            description="Folders that the server may work in, as it is told when it asks.",
        ),
    ]
    sampling: Annotated[
        Any, Meta(description="A function that answers when the server asks for a model's words; from Python alone.")
    ]
    elicitation: Annotated[
        Any, Meta(description="A function that answers when the server asks the user; from Python alone.")
    ]

"""Options that sources share with engines and links, with their descriptions and limits.

Where a struct has no defaults, the constructors define them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolyard.model.errors import ConfigError
from toolyard.schema.options import Text, locate_file

_CERTIFICATE_FILES, _CERTIFICATE_PARTS = 2, 3
HTTP_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Names of headers, cookies and methods."""
HEADER_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
"""Values of headers that any server reads alike."""


def locate_unless_url(value: Any, base: Path) -> Any:
    """For `locate`: resolve a file against the config's folder; return a URL unchanged."""
    return value if "://" in str(value) else locate_file(value, base)


def locate_certificate(value: Any, base: Path) -> Any:
    """For `locate`: certificate and key are files; a third item is the key's password."""
    if isinstance(value, str):
        return locate_file(value, base)
    return [*(locate_file(part, base) for part in value[:_CERTIFICATE_FILES]), *value[_CERTIFICATE_FILES:]]


def locate_token_store(auth: Any, base: Path) -> Any:
    """For `locate`: resolve the file in which an OAuth login stores its tokens."""
    store = auth.get("store") if isinstance(auth, dict) else None
    return {**auth, "store": str(base / store)} if isinstance(store, str) else auth


def check_headers(headers: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """For `check`: reject what cannot be sent as headers. The error shows no value."""
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not HTTP_TOKEN.fullmatch(name):
            raise ConfigError(f"{where}: {name!r} is no name of a header")
        if not isinstance(value, str) or (value and not HEADER_TEXT.fullmatch(value)):
            raise ConfigError(f"{where}.{name}: must be text that fits into a header: visible ASCII, no line breaks")
    return dict(headers or {})


def check_certificate(cert: str | Sequence[str] | None, where: str) -> str | Sequence[str] | None:
    """For `check`: a file, or a list of two or three texts."""
    if cert is not None and not isinstance(cert, str) and not 1 < len(cert) <= _CERTIFICATE_PARTS:
        raise ConfigError(f"{where} must be a file, or certificate and key, or these and the key's password")
    return cert


def read_trust(verify: bool, ca: str | None, where: str = "") -> bool | str:
    """Combine `verify` and `ca`: True for the system's authorities, a path to a CA file, False for no verification."""
    if ca is not None and not verify:
        raise ConfigError(
            f"{where}ca sets the authorities to trust, and verify: false disables verification; give one of them"
        )
    return verify if ca is None else ca


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of TLS and HTTP connections."""

    headers: Annotated[
        Mapping[str, str] | None, Meta(extra={"check": check_headers}, description="Headers of every request.")
    ]
    verify: Annotated[bool, Meta(description="Verify the server's certificate.")]
    ca: Annotated[
        str | None, Meta(extra={"locate": locate_file}, description="File with the certificate authorities to trust.")
    ]
    cert: Annotated[
        str | Sequence[str] | None,
        Meta(
            extra={"locate": locate_certificate, "check": check_certificate},
            description="Client certificate: a file, or certificate and key, or these and the key's password.",
        ),
    ]


AllowHosts = Annotated[Sequence[str], Meta(description="Private hosts that may be called: name or name:port.")]
ConnectTimeout = Annotated[
    float | None,
    Meta(
        gt=0,
        description="Seconds for a server to start or connect, and to respond; by default 30 for a "
        "command, 10 for a url.",
    ),
]


class McpServerOptions(TlsOptions, frozen=True, kw_only=True):
    """Options of a connection to an MCP server."""

    url: Annotated[str | None, Meta(description="URL of the server; alternatively set `command`.")]
    command: Annotated[
        str | Sequence[str] | None, Meta(description="Command that starts the server; alternatively set `url`.")
    ]
    args: Annotated[Sequence[str | int | float], Meta(description="Arguments of the command.")]
    env: Annotated[
        Mapping[str, str | int | float] | None,
        Meta(description="Environment variables of the server process, in addition to a few standard ones."),
    ]
    cwd: Annotated[str | Path | None, Meta(description="Working directory of the server process.")]
    transport: Annotated[Text, Meta(description="Transport: auto, http, sse or stdio.")]
    auth: Annotated[
        Mapping[str, Any] | None,
        Meta(
            extra={"locate": locate_token_store},
            description="Credentials: a mapping with the type bearer, basic, api_key, oauth2 or oauth.",
        ),
    ]
    connect_timeout: ConnectTimeout
    roots: Annotated[
        Any,
        Meta(
            extra={"locate": locate_file},
            description="Folders to report when the server asks for its roots.",
        ),
    ]
    sampling: Annotated[
        Any, Meta(description="Function that handles sampling requests of the server; only from Python.")
    ]
    elicitation: Annotated[
        Any, Meta(description="Function that handles elicitation requests of the server; only from Python.")
    ]


MIB = 1 << 20


def check_variable_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """For `check`: names of environment variables. Values are not accepted, so that no secret appears in a config."""
    for name in names:
        if not name or "=" in name or "\0" in name:
            raise ConfigError(f"{where}: {name.partition('=')[0]!r} must be only a name; the server's value is used")
    return tuple(dict.fromkeys(names))


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of script workers. Scripts with equal settings may share workers."""

    sandbox: Annotated[
        Literal["auto", "bwrap", "landlock", "rlimits"],
        Meta(description="Required sandbox level; auto uses the strongest available."),
    ] = "auto"
    workers: Annotated[int, Meta(ge=1, description="Maximum number of processes.")] = 2
    """A worker belongs to one script until another one needs its place."""
    memory_bytes: Annotated[int, Meta(ge=64 * MIB, description="Memory limit of each process, in bytes.")] = 512 * MIB
    """Applies to each process separately, if a script forks."""
    cpu_seconds: Annotated[
        int | None,
        Meta(ge=1, description="Total CPU seconds of a worker; null for no limit besides the deadlines."),
    ] = None
    max_output_bytes: Annotated[int, Meta(ge=1, description="Bytes kept of the end of a call's output.")] = MIB
    """Half for stdout, half for stderr."""
    max_printed_bytes: int = 64 * MIB
    """A call that prints more than this is aborted."""
    max_answer_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of a result.")] = 8 * MIB
    files: Annotated[int, Meta(ge=16, description="Maximum number of open files of a process.")] = 64
    processes: Annotated[
        int, Meta(ge=1, description="Maximum number of additional processes and threads of scripts.")
    ] = 32
    """Shared by all workers of the same uid."""
    file_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of a file that a script writes.")] = 64 * MIB
    """With bwrap, also the limit of all files together."""
    calls_per_worker: Annotated[
        int, Meta(ge=1, description="Calls after which a worker process is replaced; 1 starts one for every call.")
    ] = 200
    env: Annotated[
        tuple[str, ...],
        Meta(description="Environment variables to pass to scripts.", extra={"check": check_variable_names}),
    ] = ()
    uid: Annotated[
        int | None,
        Meta(ge=1, description="User of the scripts if the server runs as root; null for an unused uid."),
    ] = None
    """By default each server uses a different uid."""
    imports: Annotated[
        Literal["site", "stdlib"],
        Meta(description="Whether scripts may import installed packages, or only the standard library."),
    ] = "site"
    start_seconds: float = 10.0
    declare_seconds: float = 5.0
    """For each file, to import it and return its declarations."""

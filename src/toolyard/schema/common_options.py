"""Options that sources share with engines and links: what each is for, and its limits.

Where a struct has no defaults, they are the constructors'.
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


MIB = 1 << 20


def check_variable_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """For `check`: names of environment variables. Values are never given here, so that they are nowhere to be seen."""
    for name in names:
        if not name or "=" in name or "\0" in name:
            raise ConfigError(f"{where}: {name.partition('=')[0]!r} must be a name alone; its value is taken from ours")
    return tuple(dict.fromkeys(names))


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How scripts run. Equal settings may share workers."""

    sandbox: Annotated[
        Literal["auto", "bwrap", "landlock", "rlimits"],
        Meta(description="The least that keeps scripts in; auto takes the best there is."),
    ] = "auto"
    workers: Annotated[int, Meta(ge=1, description="Processes at once.")] = 2
    """Each belongs to one script until another needs its place."""
    memory_bytes: Annotated[int, Meta(ge=64 * MIB, description="Memory of each process.")] = 512 * MIB
    """A script that forks has as much for every one of its processes."""
    cpu_seconds: Annotated[
        int | None,
        Meta(ge=1, description="Seconds of processor time in a worker's whole life; null leaves it to the deadlines."),
    ] = None
    max_output_bytes: Annotated[int, Meta(ge=1, description="Bytes kept of what a call prints, from its end.")] = MIB
    """One half for stdout, one for stderr."""
    max_printed_bytes: int = 64 * MIB
    """A call that prints more than this is ended."""
    max_answer_bytes: Annotated[int, Meta(ge=1, description="Size of the largest answer.")] = 8 * MIB
    files: Annotated[int, Meta(ge=16, description="Files that a process may have open.")] = 64
    processes: Annotated[
        int, Meta(ge=1, description="Processes and threads that scripts may have besides the workers.")
    ] = 32
    """All workers of one uid share them."""
    file_bytes: Annotated[int, Meta(ge=1, description="Size of the largest file that a script may write.")] = 64 * MIB
    """At level bwrap also of all of them together."""
    calls_per_worker: Annotated[
        int, Meta(ge=1, description="Calls after which a process is replaced; 1 gives every call its own.")
    ] = 200
    env: Annotated[
        tuple[str, ...],
        Meta(description="Names of environment variables that scripts may see.", extra={"check": check_variable_names}),
    ] = ()
    uid: Annotated[
        int | None,
        Meta(ge=1, description="User that scripts run as when the server is root; null for one that no account has."),
    ] = None
    """Without one, each server has a uid of its own."""
    imports: Annotated[
        Literal["site", "stdlib"],
        Meta(description="Whether scripts may import installed packages, or the standard library alone."),
    ] = "site"
    start_seconds: float = 10.0
    declare_seconds: float = 5.0
    """For each file, to say what it declares."""

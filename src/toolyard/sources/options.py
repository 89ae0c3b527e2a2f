"""What a config may say of each source, and its limits. Defaults are the constructors'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolyard.model.errors import ConfigError
from toolyard.schema.common_options import ConnectTimeout, McpServerOptions, locate_unless_url
from toolyard.schema.options import locate_file


def locate_script(value: Any, base: Path) -> Any:
    """For `locate`: a Python file in the config's folder; the name of a module stays what it is."""
    return locate_file(value, base) if isinstance(value, str) and value.endswith(".py") else value


def check_variable_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Names of environment variables. Values are never given here, so that they are nowhere to be seen."""
    for name in names:
        if not name or "=" in name or "\0" in name:
            raise ConfigError(f"{where}: {name.partition('=')[0]!r} must be a name alone; its value is taken from ours")
    return tuple(dict.fromkeys(names))


class LoaderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What every source has."""

    namespace: Annotated[str, Meta(description="The namespace of the tools.")]
    namespaces: Annotated[
        Literal["open", "locked"],
        Meta(description="Whether an entry may name another namespace than the one given here, or is refused."),
    ]
    on_error: Annotated[
        Literal["raise", "skip"], Meta(description="Whether a bad entry is an error, or left out and reported.")
    ]
    on_duplicate: Annotated[
        Literal["raise", "skip"],
        Meta(description="Whether a tool that is there already is an error, or left out and reported."),
    ]


class DomainOptions(LoaderOptions, frozen=True, kw_only=True):
    """Of the domains that packages bring."""

    domains: Annotated[
        Sequence[str] | str, Meta(description="Domains of tools: names, or text with commas between them.")
    ]


class FileOptions(LoaderOptions, frozen=True, kw_only=True):
    """Of a catalog file."""

    path: Annotated[str | Path, Meta(description="The file: JSON, JSON lines or YAML.")]
    lazy: Annotated[bool, Meta(description="Read a tool when it is first asked for.")]
    max_bytes: Annotated[int, Meta(ge=1, description="Size of the largest file that is read.")]


class InlineOptions(LoaderOptions, frozen=True, kw_only=True):
    """Of tools that stand in the config itself."""

    tools: Annotated[
        Sequence[Any] | Mapping[str, Any], Meta(description="The definitions: a list, or a mapping of names to them.")
    ]


class PythonOptions(LoaderOptions, frozen=True, kw_only=True):
    """Of Python functions."""

    target: Annotated[
        Any,
        Meta(
            extra={"locate": locate_script},
            description="Module or Python file: its `@tool` functions, or all its public ones if none is decorated.",
        ),
    ]


class RestOptions(LoaderOptions, frozen=True, kw_only=True):
    """Of an OpenAPI specification."""

    spec: Annotated[
        str | Path, Meta(extra={"locate": locate_unless_url}, description="The specification: a file or an address.")
    ]
    base_url: Annotated[str | None, Meta(description="Where the service is, in place of what the specification says.")]
    include: Annotated[Any, Meta(description="Operations to take: ids, or globs of `GET /path`; all if not given.")]
    exclude: Annotated[Any, Meta(description="Operations to leave out.")]
    server_variables: Annotated[
        Mapping[str, str] | None, Meta(description="Values for variables in the specification's server address.")
    ]
    headers: Annotated[Mapping[str, str] | None, Meta(description="Headers of the request for the specification.")]
    timeout: Annotated[float, Meta(gt=0, description="Seconds that fetching the specification may take.")]
    max_bytes: Annotated[int, Meta(ge=1, description="Size of the largest specification that is read.")]
    allow_hosts: Annotated[
        Sequence[str], Meta(description="Hosts that may be asked though they are private: name, or name:port.")
    ]
    ref_root: Annotated[
        str | Path | None,
        Meta(
            extra={"locate": locate_unless_url},
            description="Folder or address that references may reach; the specification's if not given.",
        ),
    ]


class ScriptOptions(LoaderOptions, frozen=True, kw_only=True):
    """Of a folder of scripts."""

    path: Annotated[str | Path, Meta(description="The folder of the scripts.")]
    isolation: Annotated[
        Literal["process", "inprocess"],
        Meta(description="Whether scripts run in processes of their own, or in this one."),
    ]
    sandbox: Annotated[
        Literal["auto", "bwrap", "landlock", "rlimits"],
        Meta(description="The least that keeps scripts in; auto takes the best there is."),
    ]
    imports: Annotated[
        Literal["site", "stdlib"],
        Meta(description="Whether scripts may import installed packages, or the standard library alone."),
    ]
    timeout: Annotated[float, Meta(gt=0, description="Seconds that a call may take.")]
    load_timeout: Annotated[float, Meta(gt=0, description="Seconds that a script may take to say which tools it has.")]
    workers: Annotated[int, Meta(ge=1, description="Processes at once.")]
    calls_per_worker: Annotated[
        int, Meta(ge=1, description="Calls after which a process is replaced; 1 gives every call its own.")
    ]
    memory_bytes: Annotated[int, Meta(ge=1, description="Memory of each process.")]
    cpu_seconds: Annotated[
        int | None,
        Meta(
            ge=1,
            description="Seconds of processor time in a worker's whole life; null leaves it to the deadlines.",
        ),
    ]
    files: Annotated[int, Meta(ge=1, description="Files that a process may have open.")]
    processes: Annotated[
        int, Meta(ge=1, description="Processes and threads that scripts may have besides the workers.")
    ]
    file_bytes: Annotated[int, Meta(ge=1, description="Size of the largest file that a script may write.")]
    max_output_bytes: Annotated[int, Meta(ge=1, description="Bytes kept of what a call prints, from its end.")]
    max_answer_bytes: Annotated[int, Meta(ge=1, description="Size of the largest answer.")]
    env: Annotated[
        Sequence[str],
        Meta(description="Names of environment variables that scripts may see.", extra={"check": check_variable_names}),
    ]
    uid: Annotated[
        int | None,
        Meta(
            ge=1,
            description="User that scripts run as when the server is root; null for one that no account has.",
        ),
    ]
    watch: Annotated[bool, Meta(description="Load the scripts again when their files change.")]


class McpSourceOptions(McpServerOptions, frozen=True, kw_only=True):
    """Of an MCP server, beside what every source has."""

    timeout: Annotated[float, Meta(gt=0, description="Seconds that a listing may take.")]
    max_tools: Annotated[int, Meta(ge=1, description="Most tools that are taken from the server.")]
    approved: Annotated[
        str | Path | None, Meta(description="File of the definitions that were approved; others are left out.")
    ]


class McpConfigOptions(LoaderOptions, frozen=True, kw_only=True):
    """Of the file in which other MCP clients list servers."""

    path: Annotated[str | Path, Meta(description="The file, as other MCP clients have it.")]
    namespace: Annotated[  # type: ignore[assignment]
        str | Sequence[str] | None, Meta(description="Names that servers in the file may have; any if not given.")
    ]
    timeout: Annotated[float, Meta(gt=0, description="Seconds that a listing may take.")]
    connect_timeout: ConnectTimeout
    approved: Annotated[
        str | Path | None, Meta(description="File of the definitions that were approved; others are left out.")
    ]

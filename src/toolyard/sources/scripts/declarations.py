"""Tools that scripts declare. Declarations are read in worker processes and kept for each version of a file."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolyard.model.bindings import ScriptBinding
from toolyard.model.errors import CallError, DefinitionError, SourceUnavailable
from toolyard.model.names import show
from toolyard.model.report import Rewrite
from toolyard.model.tool import Tool
from toolyard.schema.admission import AdmittedTool, admit_tool

if TYPE_CHECKING:
    from toolyard.links.scripts import Code, DeclaredTools, ScriptFault, WorkerSettings


_HANDLER = re.compile(r"[^\W\d]\w*|TOOLS\[(?:0|[1-9]\d{0,5})\]")
_FLAGS = ("no_background", "allow_repeat")
_CTX = "ctx"
_MAX_LINE = 500


class Declaration(msgspec.Struct, frozen=True):
    """One tool as the worker of a script reports it. The worker has already checked it, with more specific messages."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    output: dict[str, Any] | None = None
    aliases: tuple[str, ...] | None = None
    timeout: Any = None
    effects: Any = None
    tags: tuple[str, ...] | None = None
    version: str | None = None
    flags: dict[str, Any] | None = None
    left_out: tuple[str, ...] | None = None
    handler: str = "run"
    takes_ctx: bool | None = None
    is_async: bool | None = None


def read_tool(
    raw: Mapping[str, Any], script: ScriptBinding, *, namespace: str, source: str
) -> tuple[AdmittedTool, tuple[Rewrite, ...]]:
    """The tool of one entry of a declaration, admitted; `DefinitionError` if it is invalid.

    `script` is the binding that all tools of the file share.
    """
    try:
        declared = msgspec.convert(raw, Declaration)
    except msgspec.ValidationError as error:
        raise DefinitionError(f"the declaration has an unexpected form: {error}") from None
    parameters = declared.parameters or {}
    if declared.takes_ctx and _CTX in (parameters.get("properties") or {}):
        raise DefinitionError(
            f"tool {show(declared.name)} declares a parameter 'ctx', which is filled in for it; rename one"
        )
    flags = declared.flags or {}
    effects: Any = declared.effects or "unknown"
    tool = Tool(
        declared.name,
        namespace,
        declared.description,
        parameters,
        declared.output or {},
        {flag: value for flag, value in flags.items() if flag not in _FLAGS or value is True},
        version=declared.version,
        tags=tuple(dict.fromkeys(declared.tags or ())),
        aliases=tuple(dict.fromkeys(declared.aliases or ())),
        effects=effects,
        source=source,
        binding=_make_binding(declared, script),
    )
    candidate, rewrites = admit_tool(tool)
    candidate.place = f"/{script.file}"
    lost = [Rewrite(tool.qualified_name, f"/{name}", "is not JSON, so not a flag") for name in declared.left_out or ()]
    return candidate, (*rewrites, *lost)


def to_one_line(text: str) -> str:
    """Text from a script as one line for a log, truncated, with control characters escaped."""
    line = " ".join(text[: 2 * _MAX_LINE].split())
    plain = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
    return plain if len(plain) <= _MAX_LINE else f"{plain[:_MAX_LINE]}..."


def _make_binding(declared: Declaration, script: ScriptBinding) -> ScriptBinding:
    if not _HANDLER.fullmatch(declared.handler):
        raise DefinitionError(
            f"handler {show(declared.handler)} is neither a function of the file nor an entry of TOOLS"
        )
    timeout = script.timeout if declared.timeout is None else declared.timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not (0 < timeout < math.inf):
        raise DefinitionError(f"TOOL_TIMEOUT is a number of seconds above 0, not {timeout!r:.80}")
    simulates = (declared.flags or {}).get("simulates") is True
    if simulates and not declared.takes_ctx:
        raise DefinitionError(f"tool {show(declared.name)} declares `simulates`, but takes no ctx, whose mode it needs")
    return msgspec.structs.replace(
        script,
        handler=declared.handler,
        timeout=float(timeout),
        takes_ctx=declared.takes_ctx is True,
        is_async=declared.is_async is True,
        simulates=simulates,
    )


class ScriptVersion:
    """The tools and faults of one version of a file."""

    __slots__ = ("candidates", "faults", "rewrites", "sha256")

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256
        self.candidates: list[AdmittedTool] = []
        self.rewrites: list[Rewrite] = []
        self.faults: list[tuple[Exception, str | None]] = []

    def replaces(self, old: ScriptVersion | None) -> bool:
        """False if it would replace a working version by a broken one."""
        if old is None or not old.candidates or not self.faults:
            return True
        return bool(old.faults) and bool(self.candidates)


def resolve_names(
    versions: Mapping[str, ScriptVersion],
) -> tuple[list[AdmittedTool], list[tuple[str, str, str]]]:
    """The tools of all files without duplicate names, and file, tool and reason of those that are left out.

    If two files use a name, the first has precedence, and names have precedence over aliases.
    """
    owners: dict[str, str] = {}
    named: list[tuple[str, AdmittedTool]] = []
    kept: list[AdmittedTool] = []
    refused: list[tuple[str, str, str]] = []
    for file, item in ((file, item) for file, version in versions.items() for item in version.candidates):
        name = item.tool.name
        if name in owners:
            refused.append((file, name, f"duplicate tool: {name!r} is declared by {owners[name]} and by {file}"))
        else:
            owners[name] = file
            named.append((file, item))
    for file, item in named:
        name, aliases = item.tool.name, item.tool.aliases
        taken = next((alias for alias in aliases if alias in owners), None)
        if taken is None:
            owners |= dict.fromkeys(aliases, file)
            kept.append(item)
        else:
            problem = f"duplicate tool: alias {taken!r} of {name!r} in {file} is also declared by {owners[taken]}"
            refused.append((file, name, problem))
    return kept, refused


def declare_scripts(codes: Sequence[Code], settings: WorkerSettings, source: str) -> list[DeclaredTools | ScriptFault]:
    """What each file declares, or why it cannot be read; the workers end afterwards.

    `SourceUnavailable` if no worker can be started.
    """
    from toolyard.links.scripts import ScriptPool

    # Each file has its own time limit; together they have at most the sum of these.
    longest = settings.start_seconds + settings.declare_seconds * (len(codes) + 1)
    with ScriptPool(settings, label=source) as pool:
        try:
            return pool.declare(codes, deadline=time.monotonic() + longest)
        except CallError as error:
            raise SourceUnavailable(f"{source}: no worker could read the scripts: {error}") from error

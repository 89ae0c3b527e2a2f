"""What scripts declare, as tools: read in processes of their own, version by version."""

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
    from toolyard.links.scripts import Code, Declared, ScriptFault, WorkerSettings


_HANDLER = re.compile(r"[^\W\d]\w*|TOOLS\[(?:0|[1-9]\d{0,5})\]")
_FLAGS = ("no_background", "allow_repeat")
_CTX = "ctx"
_SHOWN = 500


class Declaration(msgspec.Struct, frozen=True):
    """One tool, as the process of a script says it; that process was told what is wrong with it in better words."""

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
    """The tool that one entry of a declaration defines, ready for a registry; `DefinitionError` if it cannot be one.

    `script` is what all tools of the file have in common.
    """
    try:
        said = msgspec.convert(raw, Declaration)
    except msgspec.ValidationError as error:
        raise DefinitionError(f"what a script declares has another form: {error}") from None
    parameters = said.parameters or {}
    if said.takes_ctx and _CTX in (parameters.get("properties") or {}):
        raise DefinitionError(
            f"tool {show(said.name)} declares a parameter 'ctx', which is filled in for it; rename one"
        )
    flags = said.flags or {}
    effects: Any = said.effects or "unknown"
    tool = Tool(
        said.name,
        namespace,
        said.description,
        parameters,
        said.output or {},
        {flag: value for flag, value in flags.items() if flag not in _FLAGS or value is True},
        version=said.version,
        tags=tuple(dict.fromkeys(said.tags or ())),
        aliases=tuple(dict.fromkeys(said.aliases or ())),
        effects=effects,
        source=source,
        binding=_make_binding(said, script),
    )
    candidate, rewrites = admit_tool(tool)
    candidate.place = f"/{script.file}"
    lost = [Rewrite(tool.qualified_name, f"/{name}", "is no JSON, so it is no flag") for name in said.left_out or ()]
    return candidate, (*rewrites, *lost)


def to_one_line(text: str) -> str:
    """What a script says, as one line for a log: not too long, and without characters that would do something there."""
    plain = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in " ".join(text[: 2 * _SHOWN].split()))
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}..."


def _make_binding(said: Declaration, script: ScriptBinding) -> ScriptBinding:
    if not _HANDLER.fullmatch(said.handler):
        raise DefinitionError(f"handler {show(said.handler)} is neither a function of the file nor an entry of TOOLS")
    timeout = script.timeout if said.timeout is None else said.timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not (0 < timeout < math.inf):
        raise DefinitionError(f"TOOL_TIMEOUT is a number of seconds above 0, not {timeout!r:.80}")
    simulates = (said.flags or {}).get("simulates") is True
    if simulates and not said.takes_ctx:
        raise DefinitionError(f"tool {show(said.name)} is said to simulate itself, but takes no ctx, which says when")
    return msgspec.structs.replace(
        script,
        handler=said.handler,
        timeout=float(timeout),
        takes_ctx=said.takes_ctx is True,
        is_async=said.is_async is True,
        simulates=simulates,
    )


class ScriptVersion:
    """What one file gave, with these bytes."""

    __slots__ = ("candidates", "faults", "rewrites", "sha256", "whole")

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256
        self.candidates: list[AdmittedTool] = []
        self.rewrites: list[Rewrite] = []
        self.faults: list[tuple[Exception, str | None]] = []
        self.whole = self
        """The same with every tool, if some are left out here because their names are taken."""

    def replaces(self, old: ScriptVersion | None) -> bool:
        """False if it would put something broken in the place of something that works."""
        if old is None or not old.candidates or not self.faults:
            return True
        return bool(old.faults) and bool(self.candidates)

    def reduced(self, candidates: list[AdmittedTool]) -> ScriptVersion:
        """With these tools only."""
        if len(candidates) == len(self.candidates):
            return self
        made = ScriptVersion(self.sha256)
        made.candidates, made.rewrites, made.faults, made.whole = candidates, self.rewrites, self.faults, self.whole
        return made


class Collision(msgspec.Struct, frozen=True):
    """A tool that is left out because one of its names is taken."""

    file: str
    tool: str
    problem: str
    stale: bool = False
    """Whether the file's last good version is served instead."""


def settle_names(
    chosen: Mapping[str, ScriptVersion], before: Mapping[str, ScriptVersion]
) -> tuple[dict[str, ScriptVersion], list[Collision]]:
    """What is served of each file, with no name twice.

    What was served before keeps its names. A file whose edit wants one of them keeps its last version too; one that
    has none loses the tool. Among files that are new the first has the name, and an alias gives way to a name.
    """
    versions = dict(chosen)
    found: list[Collision] = []
    while True:
        kept, refused = _claim_names(versions, before)
        edited = {item.file for item in refused if _has_other(before.get(item.file), versions[item.file])}
        if not edited:
            break
        # One at a time: with its last version back, what the others want may be free, or taken.
        file = next(item.file for item in refused if item.file in edited)
        found += [msgspec.structs.replace(item, stale=True) for item in refused if item.file == file]
        versions[file] = before[file]
    return {file: version.reduced(kept[file]) for file, version in versions.items()}, [*found, *refused]


def _has_other(old: ScriptVersion | None, new: ScriptVersion) -> bool:
    return old is not None and bool(old.candidates) and old.sha256 != new.sha256


def _claim_names(
    versions: Mapping[str, ScriptVersion], before: Mapping[str, ScriptVersion]
) -> tuple[dict[str, list[AdmittedTool]], list[Collision]]:
    """The tools of each file that have their names, and those that have not."""
    owners: dict[str, str] = {}
    refused: list[Collision] = []
    served: set[int] = set()
    rest: list[tuple[str, AdmittedTool]] = []
    for file, version in versions.items():
        old = before.get(file)
        names = {item.tool.name for item in old.candidates} if old and old.sha256 == version.sha256 else set()
        for item in version.candidates:
            if item.tool.name in names:
                owners |= dict.fromkeys((item.tool.name, *item.tool.aliases), file)
                served.add(id(item))
            else:
                rest.append((file, item))
    named: list[tuple[str, AdmittedTool]] = []
    for file, item in rest:
        name = item.tool.name
        if name in owners:
            problem = f"duplicate tool: {name!r} is declared by {owners[name]} and by {file}"
            refused.append(Collision(file, name, problem))
        else:
            owners[name] = file
            named.append((file, item))
    for file, item in named:
        tool = item.tool
        taken = next((alias for alias in tool.aliases if alias in owners), None)
        if taken is None:
            owners |= dict.fromkeys(tool.aliases, file)
            served.add(id(item))
        else:
            problem = f"duplicate tool: alias {taken!r} of {tool.name!r} in {file} is also declared by {owners[taken]}"
            refused.append(Collision(file, tool.name, problem))
    kept = {file: [item for item in version.candidates if id(item) in served] for file, version in versions.items()}
    return kept, refused


def declare_scripts(codes: Sequence[Code], settings: WorkerSettings, source: str) -> list[Declared | ScriptFault]:
    """What each file declares, or why it does not, by workers that are gone afterwards.

    `SourceUnavailable` if there are none to be had.
    """
    from toolyard.links.scripts import ScriptPool

    # Each file has a time of its own; all together have at most what they would take one by one.
    longest = settings.start_seconds + settings.declare_seconds * (len(codes) + 1)
    with ScriptPool(settings, label=source) as pool:
        try:
            return pool.declare(codes, deadline=time.monotonic() + longest)
        except CallError as error:
            raise SourceUnavailable(f"{source}: no worker could read the scripts: {error}") from error

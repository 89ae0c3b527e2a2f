"""`ScriptToolLoader`: the tools of a directory of Python files, which run in worker processes.

What a file declares is read in a worker, too, and kept for each version of the file.
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.bindings import ScriptBinding
from toolyard.model.errors import (
    CallError,
    DefinitionError,
    DuplicateToolError,
    MalformedSource,
    ManifestError,
    SourceError,
    SourceUnavailable,
)
from toolyard.model.names import check_namespace, show
from toolyard.model.report import Rejection, Rewrite, SourceReport
from toolyard.model.tool import Tool
from toolyard.schema.admission import AdmittedTool, admit_tool
from toolyard.schema.common_options import MIB, WorkerSettings
from toolyard.schema.options import expand_place, read_arguments
from toolyard.sources.base import ToolLoader
from toolyard.sources.scripts.manifest import (
    MANIFEST,
    ReviewedFile,
    ScriptDirectory,
    name_problem,
    read_manifest,
    review_directory,
)

if TYPE_CHECKING:
    from toolyard.links.scripts import Code, DeclaredTools, ScriptFault


_STALE = "; its last good version is still served"
_log = logging.getLogger(__name__)
_HANDLER = re.compile(r"[^\W\d]\w*|TOOLS\[(?:0|[1-9]\d{0,5})\]")
_FLAGS = ("no_background", "allow_repeat")
_CTX = "ctx"
_MAX_LINE = 500
POLL_SECONDS = 0.5
_JOIN_SECONDS = 2.0


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

    @property
    def has_failed(self) -> bool:
        """True if the file could not be run."""
        return any(isinstance(error, MalformedSource) for error, _ in self.faults)

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


Isolation = Annotated[
    Literal["process", "inprocess"],
    Meta(description="Whether scripts run in worker processes or in this process."),
]


class ScriptToolLoader(ToolLoader):
    """Loads the tools of the `*.py` files in `path` that `_manifest.json` allows.

    A file declares one tool by TOOL_NAME, TOOL_DESCRIPTION, TOOL_PARAMETERS and `run`, or several by TOOLS. It runs in
    a worker process; `isolation="inprocess"` runs handlers in this process, for trusted code. `sandbox` is the required
    confinement of workers: auto uses the strictest available. `env` names the environment variables that scripts see.
    `timeout` is for calls of tools without TOOL_TIMEOUT, `load_timeout` for reading one file.

    Loading again runs only files that changed; one that fails keeps its previous tools, and the report says so. With
    `watch`, a registry reloads them when files change.
    """

    option_structs: ClassVar[tuple[type, ...]] = (WorkerSettings,)

    def __init__(
        self,
        path: Annotated[str | Path, Meta(description="Folder of the scripts.")],
        namespace: str = TOOL_DEFAULT_NAMESPACE,
        *,
        isolation: Isolation = "process",
        sandbox: Literal["auto", "bwrap", "landlock", "rlimits"] = "auto",
        imports: Literal["site", "stdlib"] = "site",
        timeout: Annotated[float, Meta(gt=0, description="Deadline of a call in seconds.")] = 30.0,
        load_timeout: Annotated[
            float, Meta(gt=0, description="Seconds that reading a script's declarations may take.")
        ] = 10.0,
        workers: int = 2,
        calls_per_worker: int = 200,
        memory_bytes: int = 512 * MIB,
        cpu_seconds: int | None = None,
        files: int = 64,
        processes: int = 32,
        file_bytes: int = 64 * MIB,
        max_output_bytes: int = MIB,
        max_answer_bytes: int = 8 * MIB,
        env: Sequence[str] = (),
        uid: int | None = None,
        watch: Annotated[bool, Meta(description="Reload scripts when their files change.")] = False,
        namespaces: str = "open",
        on_error: str = "skip",
        on_duplicate: str = "skip",
    ) -> None:
        check_namespace(namespace)
        self.path = Path(expand_place(path, "path"))
        self.namespace = namespace
        given: dict[str, Any] = {"workers": workers, "calls_per_worker": calls_per_worker, "env": env, "uid": uid}
        given |= {"memory_bytes": memory_bytes, "cpu_seconds": cpu_seconds, "files": files, "processes": processes}
        given |= {"file_bytes": file_bytes, "max_output_bytes": max_output_bytes, "max_answer_bytes": max_answer_bytes}
        life = read_arguments(WorkerSettings, **given, sandbox=sandbox, imports=imports)
        own = {"isolation": isolation, "timeout": timeout, "load_timeout": load_timeout, "watch": watch}
        read = read_arguments(ScriptToolLoader, **own)
        self.isolation: Literal["process", "inprocess"] = read["isolation"]
        self.timeout: float = read["timeout"]
        self.load_timeout: float = read["load_timeout"]
        self.watching: bool = read["watch"]
        self.settings = WorkerSettings(**life, declare_seconds=self.load_timeout)
        self._set_policies(on_error, on_duplicate, namespaces, namespace)
        self._lock = threading.Lock()
        self._read: dict[tuple[str, str], ScriptVersion] = {}
        """Versions of files that were read successfully, by name and hash; they need not run again."""
        self._served: dict[str, ScriptVersion] = {}
        self._last_state: DirectoryState | None = None
        self._watch: DirectoryWatch | None = None

    @property
    def source(self) -> str:
        """The directory's path, as given."""
        return str(self.path)

    def is_at(self, directory: str | os.PathLike[str]) -> bool:
        """True if this loader reads that directory; compares real paths."""
        return os.path.realpath(self.path) == os.path.realpath(directory)

    def load(self) -> list[Tool]:
        """Every tool of the directory; `report` lists files without tools, and the reasons."""
        with self._lock:
            rejected: list[Rejection] = []
            if self.watching:
                # Recorded before reading: a change during the load then causes another one.
                self._last_state = read_directory_state(self.path)
            versions = self._load_versions(self._review_files(rejected), rejected)
            candidates = self._choose_tools(versions, rejected)
            self._served = versions
            self.admitted = candidates
            rewrites = tuple(rewrite for version in versions.values() for rewrite in version.rewrites)
            self._report = SourceReport(self.source, len(candidates), rewrites, tuple(rejected))
            return [candidate.tool for candidate in candidates]

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the directory changes, if the source was created with `watch`."""
        if self.watching and self._watch is None:
            self._watch = DirectoryWatch(self.path, self._last_state or read_directory_state(self.path), changed)

    def close(self) -> None:
        """Stop watching."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _review_files(self, rejected: list[Rejection]) -> list[ReviewedFile]:
        try:
            with ScriptDirectory(self.path) as directory:
                return review_directory(directory, read_manifest(directory))
        except SourceError as error:
            # The directory or its manifest must not be used, so nothing is loaded or kept.
            if self.on_error == "raise":
                raise
            self._report_rejection(rejected, error, self.source)
            return []

    def _load_versions(self, found: list[ReviewedFile], rejected: list[Rejection]) -> dict[str, ScriptVersion]:
        """The versions to serve, by file: the new one, or the previous one if the new one is broken."""
        fresh = self._declare_versions([item for item in found if item.state == "ok"])
        served: dict[str, ScriptVersion] = {}
        for item in found:
            old = self._served.get(item.file)
            if item.state == "ok":
                new = fresh[item.file]
                kept = new if new.replaces(old) or old is None else old
                served[item.file] = kept
                for error, name in new.faults:
                    self._refuse_script(rejected, error, item.file, name, stale=kept is not new)
                continue
            # A file changed without approval: keep serving the version that the manifest's hash names.
            approved = item.state == "changed" and old is not None and old.sha256 == item.pinned
            stale = approved and old is not None and bool(old.candidates)
            if approved and old is not None:
                served[item.file] = old
            self._refuse_script(
                rejected, ManifestError(item.reason), item.file, stale=stale, choice=item.state == "stray"
            )
        before = [(file, version) for file, version in self._served.items() if file in fresh]
        known = (*fresh.items(), *before, *served.items())
        # A file that could not be run may fail because of its environment, so it is run again.
        self._read = {(file, version.sha256): version for file, version in known if not version.has_failed}
        return served

    def _declare_versions(self, items: list[ReviewedFile]) -> dict[str, ScriptVersion]:
        """What each file declares; only new versions are run."""
        from toolyard.links.scripts import Code

        known = {item.file: self._read.get((item.file, item.sha256 or "")) for item in items}
        unknown = [item for item in items if known[item.file] is None]
        codes = [Code(item.file, item.sha256 or "", item.data) for item in unknown]
        answers = iter(declare_scripts(codes, self.settings, self.source) if codes else ())
        place = os.path.realpath(self.path)
        return {item.file: known[item.file] or self._make_version(item, next(answers), place) for item in items}

    def _make_version(self, item: ReviewedFile, answer: DeclaredTools | ScriptFault, directory: str) -> ScriptVersion:
        from toolyard.links.scripts import ScriptFault

        version = ScriptVersion(item.sha256 or "")
        if isinstance(answer, ScriptFault):
            place = "" if answer.line is None else f" (line {answer.line})"
            version.faults.append((MalformedSource(f"{to_one_line(answer.message)}{place}"), None))
            _log.debug("%s: %s", self.path / item.file, answer.trace)
            return version
        script = ScriptBinding(
            directory,
            item.file,
            sha256=version.sha256,
            code=item.data,
            settings=self.settings,
            isolation=self.isolation,
            timeout=self.timeout,
        )
        for raw in answer.tools:
            try:
                candidate, rewrites = read_tool(raw, script, namespace=self.namespace, source=self.source)
                self._check_namespace(candidate.tool.metadata.get("namespace"))
            except DefinitionError as error:
                name = raw.get("name")
                version.faults.append((error, to_one_line(name) if isinstance(name, str) else None))
            else:
                version.candidates.append(candidate)
                version.rewrites.extend(rewrites)
        return version

    def _choose_tools(self, versions: dict[str, ScriptVersion], rejected: list[Rejection]) -> list[AdmittedTool]:
        """The tools without duplicate names; a tool that loses its name is reported or raises."""
        kept, refused = resolve_names(versions)
        for file, name, problem in refused:
            error = DuplicateToolError(f"{problem} ({self.source})")
            if self.on_duplicate == "raise":
                raise error
            self._report_rejection(rejected, error, str(self.path / file), name)
        return kept

    def _refuse_script(
        self,
        rejected: list[Rejection],
        error: Exception,
        file: str,
        name: str | None = None,
        *,
        stale: bool = False,
        choice: bool = False,
    ) -> None:
        """Report what is left out, or raise by policy; files that are not in the manifest never raise."""
        where = str(self.path / (MANIFEST if name_problem(file) else file))
        if self.on_error == "raise" and not choice:
            raise MalformedSource(f"tool {name!r}: {error}" if name else str(error), where=where) from error
        self._report_rejection(rejected, error, where, name, note=_STALE if stale else "")

    def _report_rejection(
        self, rejected: list[Rejection], error: Exception, where: str, name: str | None = None, note: str = ""
    ) -> None:
        reason = f"{str(error).removeprefix(f'{where}: ')}{note}"
        _log.warning("%s: %s", where, reason)
        rejected.append(Rejection(where, reason, name, type(error).__name__))


DirectoryState = tuple[object, ...]
"""The observed state of a directory: equal if there is nothing new to load."""


def read_directory_state(path: Path) -> DirectoryState:
    """The current state of the manifest and the files it names, including modification times."""
    try:
        with ScriptDirectory(path) as directory:
            names = [name for name in read_manifest(directory).allow if not name_problem(name)]
            return tuple((name, _read_file_state(directory, name)) for name in (MANIFEST, *names))
    except SourceError as error:
        return (str(error),)
    except OSError as error:
        return (str(error.strerror),)


def _read_file_state(directory: ScriptDirectory, name: str) -> tuple[int, ...] | None:
    found = directory.stat(name)
    if found is None:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size, found.st_mode, found.st_uid


class DirectoryWatch:
    """A thread that polls the directory until it is closed."""

    def __init__(
        self, path: Path, state: DirectoryState, changed: Callable[[], None], *, period: float = POLL_SECONDS
    ) -> None:
        self._path = path
        self._last_state = state
        self._changed = changed
        self._period = period
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch_loop, name=f"toolyard-watch {os.fspath(path)}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop polling."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    def _watch_loop(self) -> None:
        while not self._ended.wait(self._period):
            state = read_directory_state(self._path)
            if state != self._last_state:
                self._last_state = state
                self._changed()

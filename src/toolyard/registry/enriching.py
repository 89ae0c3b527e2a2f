"""Order enrichments by their dependencies, run them, and admit the tools they change."""

from __future__ import annotations

import heapq
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter, is_
from typing import Any

from toolyard.model.errors import DefinitionError, EnrichmentError, InvalidSchemaError, ToolyardError
from toolyard.model.json_schema import list_given
from toolyard.model.names import find_similar
from toolyard.model.tool import FIELDS, Schema, Tool
from toolyard.parsing import paused_gc
from toolyard.plugins import ENRICHMENTS, Enrichment
from toolyard.registry.prepared import PreparedTool
from toolyard.registry.snapshot import Index, Snapshot, replace_candidates
from toolyard.schema.admission import AdmittedTool, admit_schema, admit_tool, is_plain, keep_schema

FIELD = "tool."
"""Prefix in `reads` and `writes` that marks a field of tools instead of an artifact."""
IF_THERE = "?"
"""Suffix in `reads` that marks an optional artifact."""
_IDENTITY = ("namespace", "name", "parameters")
_REACHED = ("binding", "source")
"""Fields that an enrichment which creates a new `Tool` may leave out; they are restored from the old one."""
_fields = attrgetter(*FIELDS)


def order_enrichments(enrichments: Iterable[Enrichment]) -> tuple[Enrichment, ...]:
    """Sort enrichments so that each follows the writers of what it reads; otherwise in the order given.

    Raises `EnrichmentError` for a cycle, for an artifact that is read but not written, and for one with two writers.
    An enrichment that declares neither `reads` nor `writes` follows all those given before it.
    """
    given = tuple(list_given(enrichments, "enrichments"))
    sorter = TopologicalSorter(dict(enumerate(_predecessors(given))))
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " after ".join(label(given[place]) for place in reversed(error.args[1]))
        raise EnrichmentError(f"enrichments depend on each other: {circle}") from None
    ready: list[int] = []
    ordered: list[Enrichment] = []
    while sorter.is_active():
        for place in sorter.get_ready():
            heapq.heappush(ready, place)
        place = heapq.heappop(ready)
        sorter.done(place)
        ordered.append(given[place])
    return tuple(ordered)


def _predecessors(given: Sequence[Enrichment]) -> list[set[int]]:
    writers: dict[str, list[int]] = {}
    for place, enrichment in enumerate(given):
        if isinstance(enrichment, type):
            raise EnrichmentError(f"{enrichment.__name__} is a class; give an enrichment made of it")
        if not callable(getattr(enrichment, "enrich", None)):
            raise EnrichmentError(f"{label(enrichment)} is no enrichment; it has no method `enrich`")
        for what in _declared(enrichment, "writes"):
            writers.setdefault(what, []).append(place)
    for what, places in writers.items():
        if len(places) > 1 and not what.startswith(FIELD):
            names = " and ".join(label(given[place]) for place in places)
            raise EnrichmentError(f"{names} both write the artifact {what!r}; keep one of them")
    after: list[set[int]] = []
    for place, enrichment in enumerate(given):
        reads = _declared(enrichment, "reads")
        if not reads and not _declared(enrichment, "writes"):
            after.append(set(range(place)))
            continue
        needed: set[int] = set()
        for what in reads:
            needed.update(_required_before(place, enrichment, what, writers))
        after.append(needed)
    return after


def _required_before(place: int, enrichment: Enrichment, what: str, writers: Mapping[str, list[int]]) -> list[int]:
    """The positions of the enrichments that must run first because of one item in `reads`."""
    places = writers.get(what.removesuffix(IF_THERE), [])
    if not what.startswith(FIELD):
        if not places and not what.endswith(IF_THERE):
            raise EnrichmentError(explain_missing_artifact(label(enrichment), what))
        return places
    # An enrichment that also writes the field follows earlier writers only; a mere reader follows all of them.
    return [other for other in places if other < place] if place in places else places


def explain_missing_artifact(who: str, artifact: str) -> str:
    """The error text for an artifact that `who` needs and no enrichment writes."""
    text = f"{who} needs the artifact {artifact!r}, which no enrichment of this registry writes"
    known = ENRICHMENTS.names()
    if artifact in known:
        return f"{text}; add the enrichment {artifact!r}: `- type: {artifact}` under tools.enrichments"
    near = find_similar(artifact, known)
    return f"{text}; {f'did you mean {near[0]!r}?' if near else 'add the enrichment that does'}"


def _declared(enrichment: Enrichment, what: str) -> tuple[str, ...]:
    value = getattr(enrichment, what, ())
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (None,)
    if not all(isinstance(item, str) and item for item in names):
        raise EnrichmentError(f"{what} of {label(enrichment)} must be names of artifacts and of fields of tools")
    for item in names:
        field = item.removeprefix(FIELD)
        if field != item and field not in FIELDS:
            near = find_similar(field, FIELDS)
            hint = f"did you mean {FIELD + near[0]!r}?" if near else f"fields are {', '.join(FIELDS)}"
            raise EnrichmentError(f"{what} of {label(enrichment)}: tools have no field {field!r}; {hint}")
    return names


def label(enrichment: object) -> str:
    """The name of an enrichment in errors."""
    return type(enrichment).__name__


class Enricher:
    """Runs enrichments over a snapshot. Caches the tools it admitted, so that unchanged ones are not checked again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Tool, PreparedTool, PreparedTool]] = {}
        """By `id` of a tool that an enrichment returned: the tool, the candidate it replaced, and its own candidate."""

    def run(self, enrichments: Iterable[Enrichment], snapshot: Snapshot) -> Snapshot:
        """The snapshot with the results of all enrichments. If one raises, nothing is kept."""
        seen: dict[int, tuple[Tool, PreparedTool, PreparedTool]] = {}
        for enrichment in enrichments:
            tools, artifacts = _run_enrichment(enrichment, snapshot)
            merged = {**snapshot.artifacts, **_check_artifacts(enrichment, artifacts, snapshot)}
            with paused_gc():
                snapshot = self._with_tools(enrichment, tools, merged, snapshot, seen)
        self._known = seen
        return snapshot

    def _with_tools(
        self,
        enrichment: Enrichment,
        tools: Sequence[Tool],
        artifacts: Mapping[str, Any],
        snapshot: Snapshot,
        seen: dict[int, tuple[Tool, PreparedTool, PreparedTool]],
    ) -> Snapshot:
        if all(map(is_, tools, snapshot.tools)):
            return snapshot.with_artifacts(artifacts)
        rest: Any = {"artifacts": artifacts, "report": snapshot.report, "generation": snapshot.generation}
        old = snapshot.candidates
        declared = _declared(enrichment, "writes")
        made: list[PreparedTool] = []
        for candidate, tool in zip(old, tools, strict=True):
            if tool is candidate.tool:
                made.append(candidate)
                continue
            known = self._known.get(id(tool))
            if known is None or known[0] is not tool or known[1] is not candidate:
                known = (tool, candidate, _readmit_tool(enrichment, declared, candidate, tool))
            seen[id(tool)] = known
            made.append(known[2])
        if all(new.tool.aliases == before.tool.aliases for new, before in zip(made, old, strict=True)):
            return Snapshot(tuple(made), replace_candidates(snapshot.names, old, made), snapshot.aliases, **rest)
        index = Index()
        index.add(made)
        return index.freeze(**rest)


def _run_enrichment(enrichment: Enrichment, snapshot: Snapshot) -> tuple[Sequence[Tool], Mapping[str, Any]]:
    try:
        given = enrichment.enrich(snapshot)
        if not isinstance(given, tuple | list) or len(given) != 2:
            if isinstance(given, Coroutine):
                given.close()
            raise EnrichmentError(
                f"{label(enrichment)}: `enrich` returned {type(given).__name__}; it returns two things, the tools and "
                "a mapping of artifacts"
            )
        tools, artifacts = tuple(given[0]), given[1]
    except DefinitionError as error:
        raise EnrichmentError(f"{label(enrichment)}: {error}") from error
    except ToolyardError:
        raise
    except Exception as error:
        raise EnrichmentError(f"{label(enrichment)}: {type(error).__name__}: {error}") from error
    if len(tools) != len(snapshot.tools):
        raise EnrichmentError(
            f"{label(enrichment)} returned {len(tools)} tools for {len(snapshot.tools)}; it may change tools, but not "
            "add or drop any"
        )
    return tools, artifacts


def _check_artifacts(enrichment: Enrichment, artifacts: Any, snapshot: Snapshot) -> Mapping[str, Any]:
    """Return the artifacts; `EnrichmentError` unless they are those declared and no other enrichment's."""
    if not isinstance(artifacts, Mapping):
        raise EnrichmentError(f"{label(enrichment)} returned {type(artifacts).__name__} for artifacts, not a mapping")
    declared = [name for name in _declared(enrichment, "writes") if not name.startswith(FIELD)]
    for name in artifacts:
        if not isinstance(name, str):
            raise EnrichmentError(f"{label(enrichment)} writes an artifact that is called {name!r}; names are text")
        if name in snapshot.artifacts:
            raise EnrichmentError(f"{label(enrichment)} writes the artifact {name!r}, which is already there")
        if name not in declared and _declared(enrichment, "writes"):
            raise EnrichmentError(f"{label(enrichment)} writes the artifact {name!r}; name it in `writes`")
    for name in declared:
        if name not in artifacts:
            raise EnrichmentError(f"{label(enrichment)} says that it writes the artifact {name!r}, and did not")
    return artifacts


def _readmit_tool(enrichment: Enrichment, declared: Sequence[str], old: PreparedTool, tool: Tool) -> PreparedTool:
    """The candidate for a changed tool; it reuses the compiled input schema."""
    before = old.tool
    changed = _check_change(enrichment, declared, before, tool)
    changes: dict[str, Any] = {field: getattr(before, field) for field in _REACHED if getattr(tool, field) is None}
    try:
        if changed != ["output_parameters"]:
            # The input schema and name were admitted before; this checks aliases and the other fields.
            admit_tool(tool.replace(parameters={}, output_parameters={}))
        if "output_parameters" in changed:
            changes["output_parameters"] = _admit_output(tool)
    except InvalidSchemaError as error:
        raise EnrichmentError(f"{label(enrichment)}, output_parameters of {before.qualified_name}: {error}") from error
    except DefinitionError as error:
        raise EnrichmentError(f"{label(enrichment)}, {before.qualified_name}: {error}") from error
    if tool.parameters is not before.parameters:
        changes["parameters"] = before.parameters
    given = [field for field, value in changes.items() if getattr(tool, field) is not value]
    # Keep the enrichment's own object if possible: it may carry attributes that a copy would lose.
    new = tool if type(tool) is Tool and not given else tool.replace(**changes)
    kept = (old.keep_parameters(), keep_schema(new.output_parameters))
    made = PreparedTool(AdmittedTool(new, old.known_compiled, old.place, old.qualified_only, kept))
    if "fingerprint" in before.__dict__:
        made.tool.__dict__["fingerprint"] = before.fingerprint  # same parameters, and expensive to compute
    return made


def _admit_output(tool: Tool) -> Schema:
    """The admitted output schema; `x-` keywords at its root are not checked."""
    schema = tool.output_parameters
    if is_plain(schema, is_input=False):
        return schema
    remarks = {}
    if isinstance(schema, dict):
        remarks = {key: value for key, value in schema.items() if isinstance(key, str) and key.startswith("x-")}
    plain = {key: value for key, value in schema.items() if key not in remarks} if remarks else schema
    return {**admit_schema(plain, is_input=False).schema, **remarks}


def _check_change(enrichment: Enrichment, declared: Sequence[str], before: Tool, tool: Tool) -> list[str]:
    """The changed fields; `EnrichmentError` if one of them may not change."""
    if not isinstance(tool, Tool):
        raise EnrichmentError(
            f"{label(enrichment)} returned {type(tool).__name__} in the place of {before.qualified_name}, not a Tool"
        )
    fields = zip(FIELDS, _fields(before), _fields(tool), strict=True)
    changed = [field for field, old, new in fields if old is not new and old != new]
    for field in changed:
        if field in _IDENTITY:
            raise EnrichmentError(
                f"{label(enrichment)} changed the {field} of {before.qualified_name}, by which it is called; an "
                "enrichment keeps the tools in their order, with their names and parameters"
            )
        if field == "binding" and tool.binding is not None:
            raise EnrichmentError(f"{label(enrichment)} changed how {before.qualified_name} is reached")
        if declared and field not in _REACHED and FIELD + field not in declared:
            raise EnrichmentError(
                f"{label(enrichment)} changed the {field} of {before.qualified_name}; name {FIELD + field!r} in "
                "`writes`, so that enrichments that read it run afterwards"
            )
    return [field for field in changed if field not in _REACHED]

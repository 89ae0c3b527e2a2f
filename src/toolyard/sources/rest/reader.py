"""`Reader`: converts the operations of a document to tools, with unique valid names and bounded descriptions."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from toolyard.constants import MAX_NAME_LENGTH
from toolyard.model.bindings import RestBinding
from toolyard.model.errors import DefinitionError, InvalidNameError
from toolyard.model.names import check_tool_name
from toolyard.model.tool import Effects
from toolyard.sources.rest.bodies import Bodies, find_success
from toolyard.sources.rest.document import (
    MAIN,
    UNEXPECTED_FORM,
    Files,
    Notes,
    ResolvedRef,
    Site,
    SpecVersion,
    list_operations,
    version_of,
)
from toolyard.sources.rest.plan import Assembly, Plan, RestTool
from toolyard.sources.rest.requests import (
    OperationParameter,
    Parameters,
    Security,
    Servers,
    split_query,
    template_names,
)
from toolyard.sources.rest.schemas import Schemas
from toolyard.sources.rest.swagger2 import Swagger, upgrade_document

ParametersByKey = dict[tuple[str, str], OperationParameter]
Refuse = Callable[[Exception, str, str | None], None]
_READ = frozenset({"GET", "HEAD"})
_LIST_LIMIT = 20
_TEMPLATE_SYNTAX = re.compile(r"[+*?&#./;_-]")
"""Characters that other template syntaxes add to a name in braces, and word separators."""


class ReaderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings for a document."""

    source: str
    namespace: str
    path: Path | None
    root: Path | None
    url: str | None
    base_url: str | None
    variables: Mapping[str, str]
    named: tuple[str, ...]
    origins: tuple[str, ...]
    allowed: tuple[str, ...]
    selects: Callable[[str, str, Mapping[str, Any]], bool]
    """Whether to load an operation, by its method, path and description."""
    max_bytes: int


class Reader:
    """Reads one document; created for every load."""

    def __init__(self, document: Any, settings: ReaderSettings, notes: Notes) -> None:
        self._settings = settings
        self._notes = notes
        self._version: SpecVersion = version_of(document, settings.source)
        self.files = files = Files(document, settings.path, settings.root, settings.max_bytes, notes)
        self._swagger = Swagger(document, files, notes) if self._version.major == 2 else None
        self._document: dict[str, Any] = upgrade_document(document) if self._swagger else document
        self._schemas = Schemas(files, notes, modern=self._version >= (3, 1))
        self._parameters = Parameters(self._schemas, files, notes)
        self._bodies = Bodies(self._schemas, files, notes)
        self._servers = Servers(settings.url, settings.base_url, settings.variables)
        self._assembly = Assembly()
        whole = ResolvedRef(self._document, MAIN)
        schemes = files.try_resolve(whole.inside("components")).inside("securitySchemes")
        self._security = Security(schemes, document.get("security"), files)
        self._own_servers = files.try_resolve(whole.inside("servers")).node

    def tools(self, refuse: Refuse) -> list[tuple[RestTool, str]]:
        """Every tool with its place; operations that cannot become one are passed to `refuse`."""
        read: list[tuple[Site, RestTool]] = []
        left_out = 0
        for site in list_operations(self._document, self._version, self.files, self._notes):
            if not site.fault and not self._settings.selects(site.method, site.path, site.raw):
                left_out += 1
                continue
            self._notes.current_place = site.place
            with self._refuse_faulty(refuse, site):
                read.append((site, self._read_operation(site)))
        self._assembly.check_fan_out(self._schemas.branching, self._schemas.parts)
        found: list[tuple[Site, RestTool]] = []
        for site, tool in read:
            with self._refuse_faulty(refuse, site):
                self._build_schemas(tool.plan, site)
                found.append((site, tool))
        if left_out:
            self._notes.add("#/paths", "operations left out by include and exclude", count=left_out)
        names = distinct_names([(tool.name, site.method, site.path) for site, tool in found])
        return [
            (self._name_tool(tool, name, site), site.place) for name, (site, tool) in zip(names, found, strict=True)
        ]

    @contextmanager
    def _refuse_faulty(self, refuse: Refuse, site: Site) -> Iterator[None]:
        """Pass the error of one operation to `refuse`; it affects no other operation."""
        try:
            yield
        except (DefinitionError, *UNEXPECTED_FORM) as error:
            known = isinstance(error, DefinitionError)
            fault = error if known else DefinitionError(f"the operation cannot be read: {type(error).__name__}")
            label = site.raw.get("operationId")
            refuse(fault, f"{self._settings.source}{site.place}", label if type(label) is str else None)

    def _read_operation(self, site: Site) -> RestTool:
        """The tool of an operation, with a name that others may want too."""
        if site.fault:
            raise DefinitionError(site.fault)
        if self._swagger is not None:
            site = self._swagger.upgrade_site(site)
        raw, settings = site.raw, self._settings
        path, parameters = self._read_parameters(site)
        asked = site.operation.inside("requestBody")
        body = self._bodies.read(asked, site.place) if asked.node is not None else None
        answer, accepts = find_success(site.operation, self.files)
        output = None if answer is None else self._schemas.convert(answer.node, answer.file)
        plan = Plan(self._assembly, parameters, body, output)
        texts = [self.files.try_resolve(site.operation.inside(key)).node for key in ("summary", "description")]
        description, whole_description = describe_operation(*texts)
        tags = raw.get("tags")
        return RestTool(
            name=base_name(raw.get("operationId"), site.method, site.path),
            namespace=settings.namespace,
            description=description,
            metadata=_read_metadata(raw, whole_description),
            tags=tuple([tag for tag in tags if type(tag) is str]) if type(tags) is list else (),
            effects=Effects.READ if site.method in _READ else Effects.WRITE,
            source=settings.source,
            binding=self._make_binding(site, path, plan, accepts),
            plan=plan,
        )

    def _make_binding(self, site: Site, path: str, plan: Plan, accepts: tuple[str, ...]) -> RestBinding:
        requirements = self._security.read_requirements(site.raw)
        lists = [self.files.try_resolve(owner.inside("servers")).node for owner in (site.operation, site.item)]
        base_url, problem = self._servers.choose_base_url(*lists, self._own_servers)
        unknown = [f"security scheme {name[:80]!r} is not described" for name in requirements.unknown]
        for note in (*plan.renamed, *unknown, *([problem] if problem else [])):
            self._notes.add(site.place, note)
        return RestBinding(
            method=site.method,
            path=path,
            base_url=base_url,
            parameters=plan.rest_parameters(),
            body=plan.rest_body(),
            security=requirements.alternatives,
            schemes=dict(requirements.schemes),
            accepts=accepts,
            named=self._settings.named,
            origins=self._settings.origins,
            allowed=self._settings.allowed,
        )

    def _read_parameters(self, site: Site) -> tuple[str, list[OperationParameter]]:
        """The path, with the names of its parameters, and the parameters of the operation and of its path item."""
        found: ParametersByKey = {}
        for owner in (site.item, site.operation):
            found |= self._parameters.collect(self.files.try_resolve(owner.inside("parameters")), site.place)
        return self._match_path(site, found), list(found.values())

    def _match_path(self, site: Site, found: ParametersByKey) -> str:
        """Make the path parameters match the names in the path, which is returned without its query."""
        path = f"/{site.path.partition('#')[0].removeprefix('/')}"
        if template_names(path) is None:
            raise DefinitionError(f"the braces of the path {site.path[:200]!r} do not pair")
        path, asked = split_query(path)
        for name, place, required in asked:
            described = found.pop(("path", place), None)
            if ("query", name) not in found:
                described = described or found.pop(("query", place), None)
                found["query", name] = self._parameters.in_query(name, described, required=required)
        path = self._respell_path(site, path, [name for location, name in found if location == "path"])
        names = template_names(path) or []
        for name in names:
            if ("path", name) not in found:
                found["path", name] = self._parameters.undescribed(name)
                self._notes.add(site.place, f"path parameter {name!r} is not described; any text is allowed")
        for key in [key for key in found if key[0] == "path" and key[1] not in names]:
            del found[key]
            self._notes.add(site.place, f"path parameter {key[1]!r} is not in the path; left out")
        return path

    def _respell_path(self, site: Site, path: str, described: list[str]) -> str:
        """Rename placeholders of the path to its described parameters if only the spelling differs.

        Other template syntaxes write `{+id}` and `{id*}` for values that may contain slashes; routers write `/:id`.
        """
        names = template_names(path) or []
        for known in described:
            if known in names:
                continue
            same = next((name for name in names if name not in described and _fold(name) == _fold(known)), None)
            written = f"/:{known}/" if same is None else f"{{{same}}}"
            before, path = path, f"{path}/".replace(written, f"/{{{known}}}/" if same is None else f"{{{known}}}")[:-1]
            if path != before:
                self._notes.add(site.place, f"the path's {written.strip('/')} is read as {{{known}}}")
        return path

    def _build_schemas(self, plan: Plan, site: Site) -> None:
        """Build the schemas once before the tool is announced, and note what had to be left open."""
        plan.reduced = self._assembly.is_exhausted
        for what, make in (("input", plan.input_schema), ("output", plan.output_schema)):
            for name in make()[1][:_LIST_LIMIT]:
                self._notes.add(site.place, f"{what} schema is too large: {name!r} in it is left open")

    def _name_tool(self, tool: RestTool, name: str, site: Site) -> RestTool:
        asked = site.raw.get("operationId")
        if name != asked and type(asked) is str:
            renamed = f"operationId {asked[:200]!r} written as {name!r}"
            self._notes.add(site.place, renamed, f"{self._settings.namespace}::{name}")
        return tool if name == tool.name else replace(tool, name=name)


def _fold(name: str) -> str:
    return _TEMPLATE_SYNTAX.sub("", name).lower()


def _read_metadata(raw: dict[str, Any], whole: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if raw.get("deprecated") is True:
        found["deprecated"] = True
    docs = raw.get("externalDocs")
    if type(docs) is dict and type(docs.get("url")) is str:
        found["external_docs"] = docs["url"]
    if whole is not None:
        found["description"] = whole
    return found


_NOT_A_WORD = re.compile(r"[^A-Za-z0-9]+")
_ODD = re.compile(r"[^A-Za-z0-9_.\-/ ]+")
_COLONS = re.compile(r":{2,}")


def base_name(operation_id: object, method: str, path: str) -> str:
    """The operationId, changed only as far as the name grammar requires; without one, from method and path."""
    if isinstance(operation_id, str) and operation_id.strip():
        if _is_legal(operation_id):
            return operation_id
        for spelling in _list_spellings(operation_id):
            if _is_legal(spelling):
                return spelling
            if len(spelling) > MAX_NAME_LENGTH and _is_legal(short := _shorten_name(spelling, operation_id)):
                return short
    return _shorten_name(name_by_path(method, path), f"{method} {path}")


def name_by_path(method: str, path: str) -> str:
    """`get_pets_petId` for `GET /pets/{petId}`."""
    words = _NOT_A_WORD.sub("_", path).strip("_")
    return f"{_NOT_A_WORD.sub('_', method.lower()).strip('_') or 'call'}_{words or 'root'}"


def _list_spellings(text: str) -> Iterable[str]:
    tidy = unicodedata.normalize("NFC", _COLONS.sub(":", text)).strip().strip(":").strip()
    yield tidy
    if tidy.endswith(":invoke"):
        yield tidy.removesuffix(":invoke") + "_invoke"
    yield _ODD.sub("_", unicodedata.normalize("NFKD", tidy)).strip("_ ")


def _is_legal(name: str) -> bool:
    try:
        check_tool_name(name)
    except InvalidNameError:
        return False
    return True


def _shorten_name(name: str, whole: str) -> str:
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return f"{name[: MAX_NAME_LENGTH - 9].rstrip('_ :')}_{_short_digest(whole)}"


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def distinct_names(operations: Sequence[tuple[str, str, str]]) -> list[str]:
    """A distinct name for each (wanted name, method, path).

    If several want the same name, the first by path and method gets it and the others append theirs. The result does
    not depend on the order of the document, nor on operations that want other names, unless one wants a generated name.
    """
    names = [wanted for wanted, _, _ in operations]
    taken = set(names)
    if len(taken) == len(names):
        return names
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(name, []).append(index)
    for name in sorted(group for group, members in groups.items() if len(members) > 1):
        members = sorted(groups[name], key=lambda index: (operations[index][2], operations[index][1]))
        for index in members[1:]:
            names[index] = _other_name(name, operations[index], taken)
            taken.add(names[index])
    return names


def _other_name(name: str, operation: tuple[str, str, str], taken: set[str]) -> str:
    _, method, path = operation
    added = name_by_path(method, path)
    whole = f"{name} {method} {path}"
    candidate = _shorten_name(f"{name}_{added}" if name != added else f"{name}_{_short_digest(whole)}", whole)
    number = 1
    while candidate in taken or not _is_legal(candidate):
        tail = _short_digest(whole) if number == 1 else f"{_short_digest(whole)}_{number}"
        candidate = f"{name[: MAX_NAME_LENGTH - len(tail) - 1].rstrip('_ :')}_{tail}"
        number += 1
    return candidate


MAX_LENGTH = 1024
_SENTENCE = re.compile(r"[.!?]['\")\]]?(?=\s)|\n\n")


def describe_operation(summary: object, description: object) -> tuple[str, str | None]:
    """Summary and description as one text, and the full text if that had to be truncated."""
    first = summary.strip() if isinstance(summary, str) else ""
    second = description.strip() if isinstance(description, str) else ""
    if not first or not second or second.startswith(first):
        whole = second or first
    else:
        whole = f"{first}\n\n{second}"
    if len(whole) <= MAX_LENGTH:
        return whole, None
    return _cut_text(whole), whole


def _cut_text(text: str) -> str:
    room = text[: MAX_LENGTH - 1]
    ends = [match.end() for match in _SENTENCE.finditer(room)]
    if ends and ends[-1] > MAX_LENGTH // 3:
        return room[: ends[-1]].rstrip() + " …"
    return (room[:-1].rpartition(" ")[0] or room[:-1]).rstrip() + " …"

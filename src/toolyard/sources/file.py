"""Catalogs: files of YAML, JSON and JSON lines, and tools written out in a config.

The shapes of a catalog are told apart without guessing:

shape 1   {weather_api: [tool, ...], hr_api: [...]}   namespaces to lists
shape 2   [tool, ...]                                  a bare list
shape 3   {get_weather: {...}, ...}                    names to definitions
          {namespace: weather_api, tools: [...]}       a list with its namespace beside it
          {name: get_weather, parameters: ...}         one tool

A list may also hold lists of other systems: pages of `tools/list` of an MCP server, with or without their JSON-RPC
envelope, and Gemini's `{function_declarations: [...]}`. A table is refused: see `table`.

A JSON catalog may be indexed instead of read: names now, schemas when somebody asks (`index_json`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource, SourceUnavailable
from toolyard.model.names import check_namespace, json_type, pointer_of
from toolyard.model.report import SourceReport, Warnings
from toolyard.model.tool import DeferredTool, Effects, Schema, Tool
from toolyard.parsing import iter_json_lines, locate, parse_json, parse_yaml, paused_gc, read_bytes
from toolyard.parsing.documents import expand_place
from toolyard.schema.admission import admit_deferred, admit_schema
from toolyard.schema.definition import read_input
from toolyard.schema.options import read_arguments
from toolyard.sources.base import EXPLAINED, Intake, LoaderOptions, ToolLoader, recognise_document

_CONTAINERS = ("tools", "functions", "functionDeclarations", "function_declarations")
"""Keys under which other systems list their tools."""

_BESIDE = {"namespace", "$schema", "version", "description", "nextCursor", "_meta", "ttlMs", "cacheScope"}
"""Keys that may stand beside them: what `tools/list` answers, too."""

_ENDS_EARLY = "the list has another page, which is not here; save every page, or the tools on it are missing"

_OF_ONE_TOOL = frozenset(
    ("function", "metadata", "tags", "aliases", "annotations", "returns", "output_parameters", "outputSchema")
)
"""Keys of one tool, besides its parameters, that hold a mapping or a list."""

_NESTED = 8
"""Steps into a document after which a list holds tools and nothing else."""


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


class CatalogEntry(msgspec.Struct, frozen=True):
    """One definition in a file: what, where, and what the file says about its names."""

    raw: Any
    pointer: str
    namespace: str | None = None
    name: str | None = None


def list_entries(document: Any, where: str) -> Iterator[CatalogEntry]:
    """Every definition of a parsed catalog, in file order; `MalformedSource` for any other shape."""
    if isinstance(document, list):
        if document and all(isinstance(row, list) for row in document):
            raise MalformedSource(_explain_table(document[0]), where=where)
        return _read_list(document, (), None, where)
    if not isinstance(document, dict):
        what = "is empty" if document is None else f"holds {json_type(document)}"
        raise MalformedSource(f"{what}; a catalog is a list of tools or a mapping", where=where)
    if (kind := recognise_document(document)) is not None:
        raise MalformedSource(EXPLAINED[kind].format(where), where=where)
    if _is_tool(document):
        if _is_foreign(document):
            raise MalformedSource("this is no catalog: it has a name, and neither tools nor parameters", where=where)
        return iter([CatalogEntry(document, "")])
    envelope = _read_envelope(document, (), None, where)
    if envelope is not None:
        return envelope
    namespace = document.get("namespace")
    if isinstance(namespace, str):
        return _read_mapping({key: value for key, value in document.items() if key != "namespace"}, namespace, where)
    return _read_mapping(document, None, where)


def _is_foreign(document: dict[str, Any]) -> bool:
    """A file of another program, such as package.json, that has a name but nothing else of one tool."""
    structures = {key for key, value in document.items() if isinstance(value, dict | list)}
    return bool(structures - _OF_ONE_TOOL) and not read_input(document, [])[1]


def ends_early(document: Any) -> bool:
    """Whether the last of saved `tools/list` answers says that there is another page."""
    last = document[-1] if isinstance(document, list) and document else document
    page = last.get("result", last) if isinstance(last, dict) else None
    return isinstance(page, dict) and bool(page.get("nextCursor")) and any(key in page for key in _CONTAINERS)


def _holds_tools(value: Any) -> bool:
    """A list, or names to definitions; a mapping with a definition's own keys is a tool of that name."""
    if isinstance(value, list):
        return True
    if not isinstance(value, dict) or _is_tool(value) or value.keys() & {"parameters", "inputSchema", "input_schema"}:
        return False
    return all(isinstance(item, dict) for item in value.values())


def _is_tool(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("name"), str) or (value.get("type") == "function" and "function" in value)


def _read_envelope(
    document: dict[str, Any], path: tuple[str, ...], namespace: str | None, where: str
) -> Iterator[CatalogEntry] | None:
    """The tools of a list that has something around it; None if this is something else."""
    if "jsonrpc" in document or document.keys() == {"result"}:
        if not isinstance(document.get("result"), dict):
            raise MalformedSource("this is a JSON-RPC message without a list of tools", where=where)
        document, path = document["result"], (*path, "result")
    key = next((key for key in _CONTAINERS if _holds_tools(document.get(key))), None)
    return None if key is None else _read_container(document, path, key, namespace, where)


def _read_container(
    document: dict[str, Any], path: tuple[str, ...], key: str, namespace: str | None, where: str
) -> Iterator[CatalogEntry]:
    namespace = document.get("namespace", namespace)
    if namespace is not None and not isinstance(namespace, str):
        raise MalformedSource(f"'namespace' must be text, not {json_type(namespace)}", where=where)
    extra = sorted(set(document) - {key, *_BESIDE})
    if extra:
        raise MalformedSource(
            f"key {extra[0]!r} beside {key!r} means nothing; a catalog has namespace and {key}", where=where
        )
    tools, path = document[key], (*path, key)
    return _read_named(tools, path, namespace) if isinstance(tools, dict) else _read_list(tools, path, namespace, where)


def _read_mapping(document: dict[str, Any], namespace: str | None, where: str) -> Iterator[CatalogEntry]:
    kinds = {json_type(value) for value in document.values()}
    if kinds == {"object"}:
        yield from _read_named(document, (), namespace)
    elif kinds == {"array"}:
        for key, tools in document.items():
            yield from _read_list(tools, (key,), key, where)
    elif document:
        scalars = [key for key, value in document.items() if not isinstance(value, (dict, list))]
        odd = scalars[0] if scalars else next(reversed(document))
        raise MalformedSource(
            f"key {odd!r} holds {json_type(document[odd])}; a catalog maps namespaces to lists of tools, "
            "or tool names to definitions, not both",
            where=where,
        )


def _read_named(tools: dict[str, Any], path: tuple[str, ...], namespace: str | None) -> Iterator[CatalogEntry]:
    for name, raw in tools.items():
        yield CatalogEntry(raw, pointer_of((*path, name)), namespace, name)


def _read_list(tools: list[Any], path: tuple[str, ...], namespace: str | None, where: str) -> Iterator[CatalogEntry]:
    prefix = pointer_of(path)
    for index, raw in enumerate(tools):
        if isinstance(raw, dict) and "name" not in raw and len(path) < _NESTED:
            # What is wrong with one page, or with one tool without a name, costs no other.
            with suppress(MalformedSource):
                inner = _read_envelope(raw, (*path, str(index)), namespace, where)
                if inner is not None:
                    yield from inner
                    continue
        yield CatalogEntry(raw, f"{prefix}/{index}", namespace)


_EMPTY = msgspec.Raw(b"{}")


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A tool as it stands in the file, its schemas left as they lie."""

    name: str
    namespace: str | None = None
    description: str = ""
    parameters: msgspec.Raw = _EMPTY
    output_parameters: msgspec.Raw = _EMPTY
    metadata: dict[str, Any] = {}
    version: str | None = None
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    effects: Effects = Effects.UNKNOWN


_decode_entries = msgspec.json.Decoder(list[_Entry]).decode
_decode_entry_lines = msgspec.json.Decoder(_Entry).decode_lines


class IndexedTool(DeferredTool, frozen=True, kw_only=True, dict=True, eq=False):
    """A tool of an indexed catalog.

    What a full load would have reported about a schema is raised by the first look at it. One thing is
    given up for the speed: a key repeated beside the schemas (two descriptions, say) is not noticed.
    """

    entry: _Entry

    @cached_property  # type: ignore[misc]
    def parameters(self) -> Schema:
        """The arguments, decoded and admitted when first read."""
        return self._read_schema("parameters", self.entry.parameters, is_input=True)

    @cached_property  # type: ignore[misc]
    def output_parameters(self) -> Schema:
        """The answer, decoded and admitted when first read."""
        return self._read_schema("output_parameters", self.entry.output_parameters, is_input=False)

    def _read_schema(self, field: str, raw: msgspec.Raw, *, is_input: bool) -> Schema:
        data = parse_json(bytes(raw), what=f"{self.source}, {field} of {self.qualified_name}")
        return admit_schema(data, is_input=is_input).schema


_NAMESPACE = rb'"namespace"\s*:\s*"[^"\\]*"\s*'
_BEFORE = re.compile(rb"\s*\{\s*(?:" + _NAMESPACE + rb",\s*)?" + rb'"[^"\\]+"\s*:\s*')
_AFTER = re.compile(rb"\s*(?:,\s*" + _NAMESPACE + rb")?\}\s*")


def index_json(data: bytes, namespace: str | None, source: str, *, lines: bool) -> list[IndexedTool] | None:
    """The tools of a plain catalog with their schemas left raw; None if the file is not that plain."""
    try:
        if lines:
            return _make_tools(_decode_entry_lines(data), namespace, source)
        if data.lstrip()[:1] == b"[":
            return _make_tools(_decode_entries(data), namespace, source)
        return _decode_mapping(data, namespace, source)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Whatever is wrong or unusual here, the full load reads it, or says what and where.
        return None


def _make_tools(entries: list[_Entry], namespace: str | None, source: str) -> list[IndexedTool]:
    return [
        IndexedTool(
            entry.name,
            entry.namespace or namespace or TOOL_DEFAULT_NAMESPACE,
            entry.description,
            metadata=entry.metadata,
            version=entry.version,
            tags=entry.tags,
            aliases=entry.aliases,
            effects=entry.effects,
            source=source,
            entry=entry,
        )
        for entry in entries
    ]


def _decode_mapping(data: bytes, namespace: str | None, source: str) -> list[IndexedTool] | None:
    """One list of tools with its namespace for a key, or beside it; nothing else may stand around the list."""
    groups = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    key = next((key for key in groups if key != "namespace"), "")
    tools = bytes(groups.get(key, b""))
    start = data.find(tools)
    if not _BEFORE.fullmatch(data, 0, start) or not _AFTER.fullmatch(data, start + len(tools)):
        return None
    home: str | None = key
    if key == "tools":
        home = msgspec.json.decode(groups["namespace"], type=str) if "namespace" in groups else None
    elif len(groups) > 1:
        return None
    return _make_tools(_decode_entries(tools), namespace or home, source)


_YAML = frozenset({".yaml", ".yml"})
_JSON = frozenset({".json"})
_LINES = frozenset({".jsonl", ".ndjson"})

MAX_BYTES = 64 * 1024 * 1024
_LOCATED = 50


_TABLES = frozenset({".csv", ".tsv", ".tab", ".psv", ".md", ".markdown", ".rst", ".xls", ".xlsx", ".ods", ".parquet"})
"""How files that hold tables are called."""

_HEAD = 4096
_COLUMN_NAMES = frozenset(
    {"name", "tool", "tool_name", "toolname", "tool name", "function", "function_name", "api_name"}
)
_OTHER_COLUMNS = ("desc", "param", "arg", "input", "type", "namespace")
"""How another column of such a table begins."""


def _find_header(data: bytes) -> list[str]:
    """The columns, if the text begins like a table of tools: separated by commas and the like, or Markdown's."""
    lines = data[:_HEAD].decode("utf-8-sig", "replace").lstrip().splitlines()
    for separator in ("\t", "|", ";", ","):
        cells = [cell.strip().strip("\"'*`").strip() for cell in (lines or [""])[0].strip().strip("|").split(separator)]
        words = {cell.lower() for cell in cells}
        if len(cells) > 1 and words & _COLUMN_NAMES and any(word.startswith(_OTHER_COLUMNS) for word in words):
            return cells
    return []


def _explain_table(header: Sequence[Any] = ()) -> str:
    """Why a table is no catalog, and the nearest form that is read; guessing schemas would lose what matters."""
    columns = [str(cell) for cell in header if str(cell).lower() not in ("parameters", "params", "arguments", "args")]
    fields = ", ".join(f'"{cell}": ...' for cell in (columns or ["name", "description"])[:4])
    return (
        "this is a table, and a row has no place for the schema of a tool's parameters; write JSON lines instead, "
        f'one tool a line in a .jsonl file: {{{fields}, "parameters": {{"type": "object", "properties": {{...}}}}}}'
    )


class FileToolLoader(ToolLoader):
    """Reads one catalog in any of the shapes above.

    Namespace precedence: the tool's own key, then the argument, then the file's, then "default".
    With `lazy`, a JSON catalog is only indexed: names and descriptions are read and checked now, each
    schema when it is first used. YAML cannot be indexed that way and loads in full.
    """

    option_structs: ClassVar[tuple[type, ...]] = (FileOptions,)

    def __init__(
        self,
        path: str | Path,
        namespace: str | None = None,
        *,
        on_error: str = "raise",
        on_duplicate: str = "raise",
        lazy: bool = False,
        max_bytes: int = MAX_BYTES,
        namespaces: str = "open",
    ) -> None:
        self.path = Path(expand_place(path, "path"))
        self.namespace = namespace
        if namespace is not None:
            check_namespace(namespace)
        read = read_arguments(FileOptions, lazy=lazy, max_bytes=max_bytes)
        self.lazy: bool = read["lazy"]
        self.max_bytes: int = read["max_bytes"]
        self._set_policies(on_error, on_duplicate)
        self._lock_namespaces(namespaces, namespace)
        suffix = self.path.suffix.lower()
        if suffix in _TABLES:
            raise ConfigError(f"{self.path}: {_explain_table()}")
        if suffix not in _YAML | _JSON | _LINES:
            raise ConfigError(f"{self.path}: unknown catalog format {suffix!r}; use .yaml, .yml, .json or .jsonl")
        self._suffix = suffix
        self._located = 0

    @property
    def source(self) -> str:
        """The file's path, as given."""
        return str(self.path)

    def load(self) -> list[Tool]:
        """Every tool of the file; see `report` for what was rewritten or left out."""
        data = read_bytes(self.path, max_bytes=self.max_bytes)
        intake = Intake(self)
        with paused_gc():
            if self.lazy and self._suffix in _JSON | _LINES:
                index = index_json(data, self.namespace, self.source, lines=self._suffix in _LINES)
                if index is not None and self._admit_index(index):
                    return list(index)
            header = _find_header(data)
            if header:
                raise MalformedSource(_explain_table(header), where=self.source)
            if self._suffix in _LINES:
                self._load_lines(data, intake)
            else:
                self._load_document(data, intake)
        return intake.finish()

    def _admit_index(self, tools: list[IndexedTool]) -> bool:
        """False if some name needs the full load to be judged, skipped or explained."""
        if self.namespace is not None and any(tool.namespace != self.namespace for tool in tools):
            return False
        try:
            self.admitted = admit_deferred(tools)
        except DefinitionError:
            return False
        self._report = SourceReport(self.source, len(tools), warnings=Warnings((), tools))
        return True

    def _load_document(self, data: bytes, intake: Intake) -> None:
        self._located = 0
        parse = parse_yaml if self._suffix in _YAML else parse_json
        document, source, default = parse(data, what=self.source), self.source, self.namespace
        for entry in list_entries(document, source):
            namespace = default or entry.namespace or TOOL_DEFAULT_NAMESPACE
            place = f"#{entry.pointer}"
            where = partial(self.locate, f"{source}{place}", data)
            intake.define(entry.raw, where, namespace=namespace, name=entry.name, source=source, place=place)
        if ends_early(document):
            intake.warn(source, "/nextCursor", "incomplete", _ENDS_EARLY)

    def _load_lines(self, data: bytes, intake: Intake) -> None:
        raw: Any = None
        for number, line in iter_json_lines(data):
            where = f"{self.source}:{number}"
            try:
                raw = parse_json(line, what=where)
            except MalformedSource as error:
                # One broken line says nothing about the others, unlike a broken document.
                intake.reject(error, where)
                continue
            for entry in _read_list([raw], (), None, where):
                namespace = self.namespace or entry.namespace or TOOL_DEFAULT_NAMESPACE
                intake.define(entry.raw, where, namespace=namespace, source=self.source, place=f":{number}")
        if ends_early(raw):
            intake.warn(self.source, "/nextCursor", "incomplete", _ENDS_EARLY)

    def locate(self, origin: str, data: bytes | None = None) -> str:
        """An origin that is a place in this file, with the line instead of the pointer."""
        pointer = origin.removeprefix(f"{self.source}#")
        # Finding a line means reading the file again, so only the first faults get one.
        self._located += 1
        if pointer == origin or self._located > _LOCATED:
            return origin
        try:
            text = read_bytes(self.path, max_bytes=self.max_bytes) if data is None else data
        except (SourceUnavailable, MalformedSource):
            return origin
        line = locate(text, pointer, yaml=self._suffix in _YAML)
        return origin if line is None else f"{self.source}:{line}"


class InlineToolLoader(ToolLoader):
    """A list of definitions, or a mapping of names to definitions, in any catalog dialect."""

    option_structs: ClassVar[tuple[type, ...]] = (InlineOptions,)

    label = "inline"
    """A config with several of them numbers them from the second on, so that their tools can be told apart."""

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]],
        namespace: str = TOOL_DEFAULT_NAMESPACE,
        *,
        on_error: str = "raise",
        on_duplicate: str = "raise",
        namespaces: str = "open",
    ) -> None:
        check_namespace(namespace)
        if isinstance(tools, (str, bytes)) or not isinstance(tools, (Sequence, Mapping)):
            raise MalformedSource(f"tools must be a list or a mapping, not {json_type(tools)}", where=self.label)
        self.namespace = namespace
        self._set_policies(on_error, on_duplicate)
        self._lock_namespaces(namespaces, namespace)
        self._tools = tools

    def load(self) -> list[Tool]:
        """The tools, each with `inline#<position>` as its place."""
        intake = Intake(self, own=False)
        named = self._tools.items() if isinstance(self._tools, Mapping) else None
        pairs = named if named is not None else [(None, raw) for raw in self._tools]
        for index, (name, raw) in enumerate(pairs):
            place = f"#/{index if name is None else name}"
            where = f"{self.label}{place}"
            intake.define(raw, where, namespace=self.namespace, name=name, source=self.label, place=place)
        return intake.finish()

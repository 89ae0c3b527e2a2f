"""Catalog files in YAML, JSON and JSON lines, and definitions written in a config.

The layout is recognised without guessing:

    shape 1   {weather_api: [tool, ...], hr_api: [...]}   namespaces to lists
    shape 2   [tool, ...]                                  a bare list
    shape 3   {get_weather: {...}, ...}                    names to definitions
              {weather_api: {get_weather: {...}}, ...}     namespaces to names to definitions
              {namespace: weather_api, tools: [...]}       a list with its namespace beside it
              {name: get_weather, parameters: ...}         one tool

A list may also contain lists in formats of other systems: pages of `tools/list` of an MCP server, with or without their
JSON-RPC envelope, Gemini's `{function_declarations: [...]}`, requests to a model, the rows of a dataset that have the
tools of a conversation as a list or as JSON text, and services with their `api_list`. If nothing else applies, the only
list of definitions in the document is read, whatever its key. What surrounds such a list is ignored and reported to
`note`.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.errors import ConfigError, DefinitionError, InvalidNameError, MalformedSource, SourceUnavailable
from toolyard.model.json_schema import file_type, json_type, pointer_of
from toolyard.model.names import check_namespace, find_similar
from toolyard.model.tool import Tool
from toolyard.parsing import iter_json_lines, locate, parse_json, parse_yaml, paused_gc, read_bytes
from toolyard.parsing.json_text import is_json_lines, read_embedded
from toolyard.schema.definition import find_name, looks_like_parameters, read_input
from toolyard.schema.options import expand_place, read_option
from toolyard.sources.base import Intake, ToolLoader, explain_foreign, explain_table, find_table_header

_PAGES_MISSING = "the list has another page, which is not here; save every page, or the tools on it are missing"

_YAML = frozenset({".yaml", ".yml"})
_JSON = frozenset({".json"})
_JSON_LINES = frozenset({".jsonl", ".ndjson"})

MAX_BYTES = 64 * 1024 * 1024
_MAX_LOCATED = 50
_TABLES = frozenset({".csv", ".tsv", ".tab", ".psv", ".md", ".markdown", ".rst", ".xls", ".xlsx", ".ods", ".parquet"})
"""Suffixes of files that contain tables."""


class FileToolLoader(ToolLoader):
    """Loads a catalog file.

    Namespace precedence: the tool's own key, then the argument, then the file's, then "default".
    """

    def __init__(
        self,
        path: Annotated[str | Path, Meta(description="The file: JSON, JSON lines or YAML.")],
        namespace: str | None = None,
        *,
        on_error: str = "raise",
        on_duplicate: str = "raise",
        max_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of the file.")] = MAX_BYTES,
        namespaces: str = "open",
    ) -> None:
        self.path = Path(expand_place(path, "path"))
        self.namespace = namespace
        if namespace is not None:
            check_namespace(namespace)
        self.max_bytes: int = read_option(FileToolLoader, "max_bytes", max_bytes, "max_bytes")
        self._set_policies(on_error, on_duplicate, namespaces, namespace)
        suffix = self.path.suffix.lower()
        if suffix in _TABLES:
            raise ConfigError(f"{self.path}: {explain_table()}")
        if suffix not in _YAML | _JSON | _JSON_LINES and not os.path.isdir(self.path):
            raise ConfigError(f"{self.path}: unknown catalog format {suffix!r}; use .yaml, .yml, .json or .jsonl")
        self._suffix = suffix
        self._located = 0

    @property
    def source(self) -> str:
        """The file's path, as given."""
        return str(self.path)

    def load(self) -> list[Tool]:
        """All tools of the file; `report` lists what was rewritten or rejected."""
        data = read_bytes(self.path, max_bytes=self.max_bytes)
        intake = Intake(self)
        with paused_gc():
            header = find_table_header(data)
            if header:
                raise MalformedSource(explain_table(header), where=self.source)
            note = partial(self._note_unread, intake, set())
            if self._suffix in _JSON_LINES or (self._suffix in _JSON and is_json_lines(data)):
                last = self._load_lines(data, intake, note)
            else:
                last = self._load_document(data, intake, note)
            if _has_next_page(last):
                intake.warn(self.source, "/nextCursor", "incomplete", _PAGES_MISSING)
        return intake.finish()

    def _load_document(self, data: bytes, intake: Intake, note: Note) -> Any:
        self._located = 0
        parse = parse_yaml if self._suffix in _YAML else parse_json
        document, source, default = parse(data, what=self.source), self.source, self.namespace
        for entry in _CatalogReader(source, note).read_document(document):
            namespace = default or entry.namespace or TOOL_DEFAULT_NAMESPACE
            at = {"source": source, "place": f"#{entry.pointer}"}
            where = partial(self.locate, "".join(at.values()), data)
            intake.define(entry.raw, where, namespace=namespace, name=entry.name, refused=entry.refused, **at)
        return document

    def _load_lines(self, data: bytes, intake: Intake, note: Note) -> Any:
        """Add the definitions of every line, and return the last line."""
        raw: Any = None
        for number, line in iter_json_lines(data):
            where = f"{self.source}:{number}"
            try:
                raw = parse_json(line, what=where)
            except MalformedSource as error:
                # A malformed line does not affect the others, unlike a malformed document.
                intake.reject(MalformedSource(str(error).replace(f"{where}:1:", f"{where}:", 1)), where)
                continue
            for entry in _CatalogReader(where, note).read_list([raw], (), None):
                namespace = self.namespace or entry.namespace or TOOL_DEFAULT_NAMESPACE
                at = {"source": self.source, "place": f":{number}"}
                intake.define(entry.raw, where, namespace=namespace, refused=entry.refused, **at)
        return raw

    def _note_unread(self, intake: Intake, reported: set[str], pointer: str, text: str) -> None:
        """Report each text once: the rows of a dataset all have the same keys beside their tools."""
        if text not in reported:
            reported.add(text)
            intake.warn(self.source, pointer, "incomplete", text)

    def locate(self, origin: str, data: bytes | None = None) -> str:
        """Replace the pointer in the location of an entry of this file with its line number."""
        pointer = origin.removeprefix(f"{self.source}#")
        # Finding a line requires reading the file again, so only the first errors get one.
        self._located += 1
        if pointer == origin or self._located > _MAX_LOCATED:
            return origin
        try:
            text = read_bytes(self.path, max_bytes=self.max_bytes) if data is None else data
        except (SourceUnavailable, MalformedSource):
            return origin
        line = locate(text, pointer, yaml=self._suffix in _YAML)
        return origin if line is None else f"{self.source}:{line}"


class InlineToolLoader(ToolLoader):
    """Loads definitions that are written in the config: a list, or a mapping of names to definitions."""

    label = "inline"
    """If a config has several of them, they are numbered from the second on."""

    def __init__(
        self,
        tools: Annotated[
            Sequence[Any] | Mapping[str, Any],
            Meta(description="Definitions: a list, or a mapping of names to definitions."),
        ],
        namespace: str = TOOL_DEFAULT_NAMESPACE,
        *,
        on_error: str = "raise",
        on_duplicate: str = "raise",
        namespaces: str = "open",
    ) -> None:
        check_namespace(namespace)
        if isinstance(tools, (str, bytes)) or not isinstance(tools, (Sequence, Mapping)):
            raise MalformedSource(f"tools must be a list or a mapping, not {file_type(tools)}", where=self.label)
        self.namespace = namespace
        self._set_policies(on_error, on_duplicate, namespaces, namespace)
        self._tools = tools

    def load(self) -> list[Tool]:
        """The tools, each with `inline#<position>` as its place."""
        intake = Intake(self, own=False)
        pairs: Iterable[tuple[str | None, Any]] = ((None, raw) for raw in self._tools)
        if isinstance(self._tools, Mapping):
            pairs = self._tools.items()
        for index, (name, raw) in enumerate(pairs):
            place = f"#/{index if name is None else name}"
            where = f"{self.label}{place}"
            intake.define(raw, where, namespace=self.namespace, name=name, source=self.label, place=place)
        return intake.finish()


_CONTAINERS = ("tools", "functions", "functionDeclarations", "function_declarations", "api_list", "function")
"""Keys under which other systems list their tools."""

_ACCOMPANYING_KEYS = {"namespace", "$schema", "version", "description", "nextCursor", "_meta", "ttlMs", "cacheScope"}
"""Keys that may accompany them, including those of a `tools/list` result."""

_TOOL_KEYS = frozenset(
    ("function", "metadata", "tags", "aliases", "annotations", "returns", "output_parameters", "outputSchema")
)
"""Keys of a single tool, besides its parameters, that contain a mapping or a list."""

_INPUT_KEYS = ("parameters", "inputSchema", "input_schema")
_MAX_NESTING = 8
"""At this depth, nested mappings and lists are no longer searched for groups of tools."""

Note = Callable[[str, str], None]
"""Called with a place and a description of what was ignored there."""


class CatalogEntry(msgspec.Struct, frozen=True):
    """One definition in a file: its place, its namespace and name if the layout gives them, and why it is refused."""

    raw: Any
    pointer: str
    namespace: str | None = None
    name: str | None = None
    refused: str | None = None


Place = tuple[str, ...]
Entries = Iterator[CatalogEntry]


class _CatalogReader:
    """Lists the definitions in a parsed file, in its order; `MalformedSource` for a document that is no catalog."""

    def __init__(self, where: str, note: Note) -> None:
        self._where = where
        self._note = note

    def read_document(self, document: Any) -> Entries:
        if isinstance(document, list):
            if document and all(isinstance(row, list) and not any(map(_is_mapping, row)) for row in document):
                raise self._refuse(explain_table(document[0]))
            return self.read_list(document, (), None)
        if not isinstance(document, dict):
            what = "is empty" if document is None else f"holds {file_type(document)}"
            raise self._refuse(f"{what}; a catalog is a list of tools or a mapping")
        if (foreign := explain_foreign(document, self._where)) is not None:
            raise self._refuse(foreign)
        envelope = self._read_envelope(document, (), None)
        if envelope is not None:
            return envelope
        if _is_tool(document):
            if not _is_other_document(document):
                return iter([CatalogEntry(document, "")])
            within = self._read_within(document, (), None)
            if within is None:
                raise self._refuse("this is no catalog: it has a name, and neither tools nor parameters")
            return within
        namespace = document.get("namespace")
        if isinstance(namespace, str):
            return self._read_mapping({key: value for key, value in document.items() if key != "namespace"}, namespace)
        return self._read_mapping(document, None)

    def _refuse(self, reason: str) -> MalformedSource:
        return MalformedSource(reason, where=self._where)

    def _read_envelope(self, document: dict[str, Any], path: Place, namespace: str | None) -> Entries | None:
        """The tools of a list with other keys around it; None if the document has no such list."""
        if "jsonrpc" in document or document.keys() == {"result"}:
            if not isinstance(document.get("result"), dict):
                raise self._refuse("this is a JSON-RPC message without a list of tools")
            document, path = document["result"], (*path, "result")
        key, tools = _find_container(document)
        if key is None:
            return None
        named = find_name(document)
        namespace = document.get("namespace", named[1] if named else namespace)
        if namespace is not None and not isinstance(namespace, str):
            raise self._refuse(f"'namespace' must be text, not {file_type(namespace)}")
        self._judge_extra(document, key, path)
        path = (*path, key)
        read = self._read_named if _is_mapping(tools) else self.read_list
        return read(tools, path, namespace)

    def _judge_extra(self, document: dict[str, Any], key: str, path: Place) -> None:
        """Report the keys around a list of another system; raise for a key that may be a mistake."""
        named = find_name(document)
        extra = [other for other in document if other not in {key, named and named[0], *_ACCOMPANYING_KEYS}]
        texts = sorted(map(str, extra))
        lost = sorted(str(other) for other in extra if _lists_definitions(document[other]))
        strict = [text for text in texts if text[:2] != "x-"] if "namespace" in document else []
        if odd := strict or lost or find_similar("namespace", texts, cutoff=0.75):
            raise self._refuse(f"key {odd[0]!r} beside {key!r} means nothing; a catalog has namespace and {key}")
        if texts:
            self._note(pointer_of(path), f"only {key!r} is read here, not {', '.join(texts[:8])}")

    def _read_mapping(self, document: dict[str, Any], namespace: str | None) -> Entries:
        kinds = {json_type(value) for value in document.values()}
        if kinds == {"object"}:
            yield from self._read_named(document, (), namespace)
        elif kinds == {"array"}:
            for key, tools in document.items():
                yield from self.read_list(tools, (key,), key)
        elif (within := self._read_within(document, (), namespace, depth=2)) is not None:
            yield from within
        elif _has_input(document):
            yield CatalogEntry(document, "", namespace)
        elif document:
            scalars = [key for key, value in document.items() if _is_scalar(value)]
            odd = scalars[0] if scalars else next(reversed(document))
            lists = [path[0] for path, _ in _find_lists(document, ())]
            hint = f"; if the tools are those under {lists[0]!r}, keep that key alone" if lists else ""
            raise self._refuse(
                f"key {odd!r} holds {file_type(document[odd])}; a catalog maps namespaces to lists of tools, "
                f"or tool names to definitions, not both{hint}"
            )

    def _read_named(self, tools: dict[str, Any], path: Place, namespace: str | None) -> Entries:
        for name, raw in tools.items():
            inner = self._read_group(raw, (*path, name), name)
            if inner is None:
                yield CatalogEntry(raw, pointer_of((*path, name)), namespace, name)
            else:
                yield from inner

    def _read_group(self, raw: Any, path: Place, namespace: str) -> Entries | None:
        """The tools of a namespace; None if the mapping is a definition."""
        if not _is_mapping(raw) or not raw or len(path) >= _MAX_NESTING:
            return None
        with suppress(MalformedSource):
            if _has_input(raw):
                return None
            if all(map(_is_definition, raw.values())):
                return self._read_named(raw, path, namespace)
            group = self._read_envelope(raw, path, namespace) if _contains_tools(raw) else None
            return group or self._read_within(raw, path, None)
        return None

    def _read_within(
        self, document: dict[str, Any], path: Place, namespace: str | None, depth: int = 1
    ) -> Entries | None:
        """The only list of definitions, at least `depth` levels down; None if there is none or several."""
        lists = [] if _has_input(document) else list(_find_lists(document, path))
        if len(lists) != 1 or len(lists[0][0]) < len(path) + depth:
            return None
        found, tools = lists[0]
        self._note(pointer_of(path), f"only {'/'.join(found[len(path) :])!r} is read here")
        return self.read_list(tools, found, namespace)

    def read_list(self, tools: list[Any], path: Place, namespace: str | None) -> Entries:
        prefix = pointer_of(path)
        for index, raw in enumerate(tools):
            inner, refused = None, None
            if len(path) < _MAX_NESTING and isinstance(raw, dict):
                try:
                    place = (*path, str(index))
                    inner = self._read_envelope(raw, place, namespace) or self._read_within(raw, place, namespace)
                except MalformedSource as error:
                    # An error in one page, or in one tool without a name, does not affect the others.
                    refused = None if _is_tool(raw) else str(error).removeprefix(f"{self._where}: ")
                if inner is None and refused is None and (foreign := explain_foreign(raw, self._where)) is not None:
                    refused = None if _has_input(raw) else foreign
            elif len(path) < _MAX_NESTING and isinstance(raw, list) and any(map(_is_mapping, raw)):
                inner = self.read_list(raw, (*path, str(index)), namespace)
            elif isinstance(raw, str):
                raw = read_embedded(raw, "{")
            if inner is None:
                yield CatalogEntry(raw, f"{prefix}/{index}", namespace or _find_service(raw), refused=refused)
            else:
                yield from inner


def _find_service(raw: Any) -> str | None:
    """The service of an API that names both, as rows of ToolBench do: services have APIs of the same name."""
    service = raw.get("tool_name") if isinstance(raw, dict) and isinstance(raw.get("api_name"), str) else None
    with suppress(InvalidNameError, TypeError):
        check_namespace(service)
        return service
    return None


def _find_container(document: dict[str, Any]) -> tuple[str | None, Any]:
    """The key that lists tools, with its list or mapping; keys of a single tool do not count."""
    for key in _CONTAINERS:
        value = document.get(key)
        if value is None:
            continue
        value = read_embedded(value, "[")
        # A namespace may have this name too, and in a tool it holds a single function.
        if key == "function" and (not isinstance(value, list) or not any(map(_is_scalar, document.values()))):
            continue
        named = find_name(document) is not None
        if _holds_tools(value) and not (named and (not _lists_tools(value) or _has_input(document))):
            return key, value
    return None, None


def _find_lists(document: dict[str, Any], path: Place) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Lists of definitions in nested mappings, including lists of objects that contain such lists."""
    for key, value in document.items():
        value = read_embedded(value, "[")
        place = (*path, str(key))
        if isinstance(value, list):
            if any(map(_defines, value)):
                yield place, value
        elif isinstance(value, dict) and len(place) < _MAX_NESTING:
            yield from _find_lists(value, place)


def _defines(value: Any) -> bool:
    """Whether this is a definition with parameters, bare or wrapped, or contains a list of definitions."""
    if not isinstance(value, dict):
        return False
    inner = value.get("function", value.get("toolSpec", value))
    if not isinstance(inner, dict) or find_name(inner) is None or _are_calls([inner]) or not _has_input(inner):
        return _lists_tools(_find_container(value)[1])
    return looks_like_parameters(read_input(inner, [])[0], named=True)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, (dict, list))


def _has_input(value: dict[str, Any]) -> bool:
    try:
        return bool(read_input(value, [])[1])
    except DefinitionError:  # It contradicts itself; only this entry is rejected, when it is read.
        return True


def _is_definition(value: Any) -> bool:
    """Whether this is a mapping with parameters that is neither a schema nor an OpenAPI operation."""
    if not isinstance(value, dict) or isinstance(value.get("type"), str) or "responses" in value:
        return False
    return not value.keys().isdisjoint(_INPUT_KEYS) or ("description" in value and _has_input(value))


def _contains_tools(value: dict[str, Any]) -> bool:
    """Whether the mapping contains tools. A list of names does not count, since a tool may have one."""
    page = value.get("result")
    tools = _find_container(page if isinstance(page, dict) else value)[1]
    items = tools.values() if isinstance(tools, dict) else tools or ()
    return any(map(_is_mapping, items)) or (not items and "description" not in value)


def _lists_tools(value: Any) -> bool:
    return isinstance(value, list) and any(map(_is_tool, value))


def _lists_definitions(value: Any) -> bool:
    """Whether these are definitions that nobody would read; datasets list calls, servers and people by name, too."""
    return isinstance(value, list) and any(
        _defines(item) or (_is_tool(item) and "description" in item and all(map(_is_scalar, item.values())))
        for item in value
    )


def _are_calls(items: list[Any]) -> bool:
    """Whether these are messages or tool calls, which also have names."""
    return all(isinstance(item, dict) and not item.keys().isdisjoint(("role", "arguments")) for item in items)


def _holds_tools(value: Any) -> bool:
    """Whether this is a list or maps names to definitions; a mapping with keys of a definition is a tool."""
    if isinstance(value, list):
        return True
    if not isinstance(value, dict) or _is_tool(value) or not value.keys().isdisjoint(_INPUT_KEYS):
        return False
    return all(isinstance(item, dict) for item in value.values())


def _is_tool(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return find_name(value) is not None or (value.get("type") == "function" and "function" in value)


def _is_other_document(document: dict[str, Any]) -> bool:
    """Whether this is a file of another program, such as package.json, with a name but no other key of a tool."""
    structures = {key for key, value in document.items() if isinstance(value, dict | list) or key == "$schema"}
    return bool(structures - _TOOL_KEYS) and not _has_input(document)


def _has_next_page(document: Any) -> bool:
    """Whether the last of several saved `tools/list` results says that there is another page."""
    last = document[-1] if isinstance(document, list) and document else document
    page = last.get("result", last) if isinstance(last, dict) else None
    return isinstance(page, dict) and bool(page.get("nextCursor")) and any(key in page for key in _CONTAINERS)

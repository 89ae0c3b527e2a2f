"""Catalog files in YAML, JSON and JSON lines, and definitions written in a config.

`catalog` finds the definitions in a document. Tables are rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.errors import ConfigError, MalformedSource, SourceUnavailable
from toolyard.model.json_schema import json_type
from toolyard.model.names import check_namespace
from toolyard.model.tool import Tool
from toolyard.parsing import iter_json_lines, locate, parse_json, parse_yaml, paused_gc, read_bytes
from toolyard.parsing.variables import expand_place
from toolyard.schema.options import read_arguments
from toolyard.sources.base import Intake, LoaderOptions, ToolLoader
from toolyard.sources.catalog import explain_table, has_next_page, list_entries, list_row


class FileOptions(LoaderOptions, frozen=True, kw_only=True):
    """Options of a catalog file."""

    path: Annotated[str | Path, Meta(description="The file: JSON, JSON lines or YAML.")]
    max_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of the file.")]


class InlineOptions(LoaderOptions, frozen=True, kw_only=True):
    """Options of definitions in the config."""

    tools: Annotated[
        Sequence[Any] | Mapping[str, Any],
        Meta(description="Definitions: a list, or a mapping of names to definitions."),
    ]


_PAGES_MISSING = "the list has another page, which is not here; save every page, or the tools on it are missing"

_YAML = frozenset({".yaml", ".yml"})
_JSON = frozenset({".json"})
_JSON_LINES = frozenset({".jsonl", ".ndjson"})

MAX_BYTES = 64 * 1024 * 1024
_MAX_LOCATED = 50


_TABLES = frozenset({".csv", ".tsv", ".tab", ".psv", ".md", ".markdown", ".rst", ".xls", ".xlsx", ".ods", ".parquet"})
"""Suffixes of files that contain tables."""

_HEAD_BYTES = 4096
_COLUMN_NAMES = frozenset(
    {"name", "tool", "tool_name", "toolname", "tool name", "function", "function_name", "api_name"}
)
_OTHER_COLUMNS = ("desc", "param", "arg", "input", "type", "namespace")
"""The beginnings of other column names in a table of tools."""


def _find_header(data: bytes) -> list[str]:
    """The column names if the data begins like a table of tools, with separators or in Markdown; otherwise empty."""
    lines = data[:_HEAD_BYTES].decode("utf-8-sig", "replace").lstrip().splitlines()
    for separator in ("\t", "|", ";", ","):
        cells = [cell.strip().strip("\"'*`").strip() for cell in (lines or [""])[0].strip().strip("|").split(separator)]
        words = {cell.lower() for cell in cells}
        if len(cells) > 1 and words & _COLUMN_NAMES and any(word.startswith(_OTHER_COLUMNS) for word in words):
            return cells
    return []


def _is_json_lines(data: bytes) -> bool:
    """Whether a file with the suffix of JSON contains one object per line."""
    first, _, rest = data.lstrip().partition(b"\n")
    return first[:1] == b"{" and first.rstrip()[-1:] == b"}" and rest.lstrip()[:1] == b"{"


class FileToolLoader(ToolLoader):
    """Loads a catalog file.

    Namespace precedence: the tool's own key, then the argument, then the file's, then "default".
    """

    option_structs: ClassVar[tuple[type, ...]] = (FileOptions,)

    def __init__(
        self,
        path: str | Path,
        namespace: str | None = None,
        *,
        on_error: str = "raise",
        on_duplicate: str = "raise",
        max_bytes: int = MAX_BYTES,
        namespaces: str = "open",
    ) -> None:
        self.path = Path(expand_place(path, "path"))
        self.namespace = namespace
        if namespace is not None:
            check_namespace(namespace)
        self.max_bytes: int = read_arguments(FileOptions, max_bytes=max_bytes)["max_bytes"]
        self._set_policies(on_error, on_duplicate, namespaces, namespace)
        suffix = self.path.suffix.lower()
        if suffix in _TABLES:
            raise ConfigError(f"{self.path}: {explain_table()}")
        if suffix not in _YAML | _JSON | _JSON_LINES:
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
            header = _find_header(data)
            if header:
                raise MalformedSource(explain_table(header), where=self.source)
            if self._suffix in _JSON_LINES or (self._suffix in _JSON and _is_json_lines(data)):
                self._load_lines(data, intake)
            else:
                self._load_document(data, intake)
        return intake.finish()

    def _load_document(self, data: bytes, intake: Intake) -> None:
        self._located = 0
        parse = parse_yaml if self._suffix in _YAML else parse_json
        document, source, default = parse(data, what=self.source), self.source, self.namespace
        for entry in list_entries(document, source, partial(self._note_unread, intake, set())):
            namespace = default or entry.namespace or TOOL_DEFAULT_NAMESPACE
            place = f"#{entry.pointer}"
            where = partial(self.locate, f"{source}{place}", data)
            intake.define(entry.raw, where, namespace=namespace, name=entry.name, source=source, place=place)
        if has_next_page(document):
            intake.warn(source, "/nextCursor", "incomplete", _PAGES_MISSING)

    def _load_lines(self, data: bytes, intake: Intake) -> None:
        raw: Any = None
        note = partial(self._note_unread, intake, set())
        for number, line in iter_json_lines(data):
            where = f"{self.source}:{number}"
            try:
                raw = parse_json(line, what=where)
            except MalformedSource as error:
                # A malformed line does not affect the others, unlike a malformed document.
                intake.reject(MalformedSource(str(error).replace(f"{where}:1:", f"{where}:", 1)), where)
                continue
            for entry in list_row(raw, where, note):
                namespace = self.namespace or entry.namespace or TOOL_DEFAULT_NAMESPACE
                intake.define(entry.raw, where, namespace=namespace, source=self.source, place=f":{number}")
        if has_next_page(raw):
            intake.warn(self.source, "/nextCursor", "incomplete", _PAGES_MISSING)

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

    option_structs: ClassVar[tuple[type, ...]] = (InlineOptions,)

    label = "inline"
    """If a config has several of them, they are numbered from the second on."""

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
        self._set_policies(on_error, on_duplicate, namespaces, namespace)
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

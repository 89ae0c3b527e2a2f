"""Catalog files: YAML, JSON and JSON lines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource
from toolyard.model.report import SourceReport
from toolyard.model.tool import Tool
from toolyard.parsing import iter_json_lines, locate, parse_json, parse_yaml, paused_gc, read_bytes
from toolyard.schema.admission import admit_deferred
from toolyard.sources.base import Intake, ToolLoader
from toolyard.sources.json_index import IndexedTool, index_json
from toolyard.sources.options import FileOptions
from toolyard.sources.shapes import CatalogEntry, entries

_YAML = frozenset({".yaml", ".yml"})
_JSON = frozenset({".json"})
_LINES = frozenset({".jsonl", ".ndjson"})

MAX_BYTES = 256 * 1024 * 1024
_LOCATED = 50


class FileToolLoader(ToolLoader):
    """Reads one catalog in any of the shapes of `sources/shapes.py`.

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
    ) -> None:
        self.path = Path(path)
        self.namespace = namespace
        self.lazy = lazy
        self.max_bytes = max_bytes
        self._set_policies(on_error, on_duplicate)
        suffix = self.path.suffix.lower()
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
            if self._suffix in _LINES:
                self._load_lines(data, intake)
            else:
                self._load_document(data, intake)
        return intake.finish()

    def _admit_index(self, tools: list[IndexedTool]) -> bool:
        """False if some name needs the full load to be judged, skipped or explained."""
        try:
            self.admitted = admit_deferred(tools)
        except DefinitionError:
            return False
        self._report = SourceReport(self.source, len(tools))
        return True

    def _load_document(self, data: bytes, intake: Intake) -> None:
        is_yaml = self._suffix in _YAML
        self._located = 0
        document = parse_yaml(data, what=self.source) if is_yaml else parse_json(data, what=self.source)
        default = self.namespace
        source = self.source
        for entry in entries(document, self.source):
            namespace = default or entry.namespace or TOOL_DEFAULT_NAMESPACE
            where = partial(self._where, data, entry, is_yaml)
            place = f"#{entry.pointer}"
            intake.define(entry.raw, where, namespace=namespace, name=entry.name, source=source, place=place)

    def _load_lines(self, data: bytes, intake: Intake) -> None:
        for number, line in iter_json_lines(data):
            where = f"{self.source}:{number}"
            try:
                raw: Any = parse_json(line, what=where)
            except MalformedSource as error:
                # One broken line says nothing about the others, unlike a broken document.
                intake.reject(error, where)
                continue
            namespace = self.namespace or TOOL_DEFAULT_NAMESPACE
            intake.define(raw, where, namespace=namespace, source=self.source, place=f":{number}")

    def _where(self, data: bytes, entry: CatalogEntry, is_yaml: bool) -> str:
        # Finding a line means reading the file again, so only the first faults get one.
        self._located += 1
        line = locate(data, entry.pointer, yaml=is_yaml) if self._located <= _LOCATED else None
        return f"{self.source}:{line}" if line is not None else f"{self.source}#{entry.pointer}"

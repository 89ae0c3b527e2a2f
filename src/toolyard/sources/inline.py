"""Tools written out in the config, or handed over as dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.errors import MalformedSource
from toolyard.model.json_words import json_type
from toolyard.model.tool import Tool
from toolyard.sources.base import Intake, ToolLoader
from toolyard.sources.options import InlineOptions


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
    ) -> None:
        self.namespace = namespace
        self._set_policies(on_error, on_duplicate)
        self._tools = tools

    def load(self) -> list[Tool]:
        """The tools, each with `inline#<position>` as its place."""
        intake = Intake(self, own=False)
        named = self._tools.items() if isinstance(self._tools, Mapping) else None
        if named is None and (isinstance(self._tools, (str, bytes)) or not isinstance(self._tools, Sequence)):
            raise MalformedSource(f"tools must be a list or a mapping, not {json_type(self._tools)}", where=self.label)
        pairs = named if named is not None else [(None, raw) for raw in self._tools]
        for index, (name, raw) in enumerate(pairs):
            place = f"#/{index if name is None else name}"
            where = f"{self.label}{place}"
            intake.define(raw, where, namespace=self.namespace, name=name, source=self.label, place=place)
        return intake.finish()

"""What an enrichment is.

```python
@register_tool_enrichment("word_counts")
class WordCounts(ToolEnrichment):
    writes = ("word_counts",)

    def enrich(self, snapshot):
        counts = {tool.qualified_name: len(tool.description.split()) for tool in snapshot.tools}
        return snapshot.tools, {"word_counts": counts}
```
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from toolyard.model.tool import Tool
from toolyard.plugins import View


class ToolEnrichment(ABC):
    """Studies the tools of a snapshot; returns changed tools and artifacts, and mutates nothing.

    `reads` and `writes` name artifacts ("embeddings") and fields of tools ("tool.output_parameters"). They alone
    decide the order in which enrichments run, whatever the order in which they are given.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The tools (same number, same order; changed ones replaced) and the artifacts to add."""

"""`RestTool`: a tool whose schemas and binding are put together when somebody first looks at them."""

from __future__ import annotations

from functools import cached_property

from toolyard.model.bindings import RestBinding
from toolyard.model.deferred import DeferredTool
from toolyard.model.tool import Schema
from toolyard.sources.rest.plan import Plan


class RestTool(DeferredTool, frozen=True, kw_only=True, dict=True, eq=False):
    """One operation. Reading the document has shown that nothing about it can fail later."""

    plan: Plan

    # Two threads may both make one of these; either result serves.
    @cached_property  # type: ignore[misc]
    def parameters(self) -> Schema:
        """The arguments, put together when first read."""
        return self.plan.parameters()

    @cached_property  # type: ignore[misc]
    def output_parameters(self) -> Schema:
        """The answer, put together when first read."""
        return self.plan.output_parameters()

    @cached_property  # type: ignore[misc]
    def binding(self) -> RestBinding:
        """How the operation is called, put together when first read."""
        return self.plan.binding()

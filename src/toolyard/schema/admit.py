"""The gate every schema passes before a registry will hold it."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.model.tool import Schema
from toolyard.schema.budget import DEFAULT_BUDGET, SchemaBudget, check_budget
from toolyard.schema.clean import is_clean
from toolyard.schema.compile import CompiledSchema, compile_schema
from toolyard.schema.normalise import Change, normalise


class Admitted(msgspec.Struct, frozen=True):
    """A schema that compiles and is within the budget, and what it took to make it so."""

    schema: Schema
    changes: tuple[Change, ...] = ()
    compiled: CompiledSchema | None = None
    """Present when admission had to compile it anyway."""


def admit_schema(schema: Any, *, is_input: bool = True, budget: SchemaBudget = DEFAULT_BUDGET) -> Admitted:
    """Rewrite dialects, check the budget, compile; `InvalidSchemaError` if it cannot be admitted.

    Plain schemas are recognised in compiled code and come back as they are.
    """
    if budget is DEFAULT_BUDGET and is_plain(schema, is_input=is_input):
        return Admitted(schema)
    normal, changes = normalise(schema, is_input=is_input)
    if changes and budget is DEFAULT_BUDGET and is_plain(normal, is_input=is_input):
        return Admitted(normal, tuple(changes))
    check_budget(normal, budget)
    compiled = compile_schema(normal or {"type": "object"})
    return Admitted(normal, tuple(changes), compiled)


def is_plain(schema: Any, *, is_input: bool = True) -> bool:
    """True for a schema that `admit_schema` would return as it is, by the default budget."""
    if type(schema) is not dict:
        return False
    return not schema or ((not is_input or schema.get("type") == "object") and is_clean(schema))

"""JSON Schema: compile, validate, coerce, normalise, derive."""

from toolyard.schema.admission import DEFAULT_BUDGET, Admitted, SchemaBudget, admit_schema, check_budget
from toolyard.schema.compile import CompiledSchema, compile_schema
from toolyard.schema.normalise import Change, normalise
from toolyard.schema.violations import Violation, describe

__all__ = [
    "DEFAULT_BUDGET",
    "Admitted",
    "Change",
    "CompiledSchema",
    "SchemaBudget",
    "Violation",
    "admit_schema",
    "check_budget",
    "compile_schema",
    "describe",
    "normalise",
]

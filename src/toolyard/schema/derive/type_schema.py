"""JSON Schemas as pydantic makes them, less what pydantic adds of its own accord."""

from __future__ import annotations

import inspect
import math
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, SchemaError

from toolyard.model.json_words import pointer_of
from toolyard.model.tool import Schema
from toolyard.schema.refs import resolve_pointer

NO_SCHEMA = (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, NameError, TypeError, AttributeError)
"""How pydantic, and typing below it, say that an annotation has no schema."""

_CLASSES = frozenset({"model", "dataclass", "typed-dict", "enum"})
_OPEN_CLASSES = frozenset({"dataclass", "typed-dict"})
_ORDER = ("title", "description", "type", "properties", "required", "additionalProperties", "propertyNames")


class _Tidy(GenerateJsonSchema):
    """Writes no title that merely repeats a name, and no default that is not JSON."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never: a title is the author's or none."""
        return False

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Without the name of a class as its title, and with what older versions of pydantic leave out."""
        written = super().generate_inner(schema)
        if schema["type"] in _CLASSES and "cls" in schema:
            target = self.resolve_ref_schema(written)
            _untitle(target, schema["cls"])
            if schema["type"] in _OPEN_CLASSES:
                _complete_class(target, schema)
        return written

    def p_arguments_schema(self, arguments: Any, var_args_schema: Any) -> JsonSchemaValue:
        """Without the names of a named tuple as titles, which pydantic before 2.12 sets over the author's."""
        written = super().p_arguments_schema(arguments, var_args_schema)
        if "prefixItems" in written:
            written["prefixItems"] = [self.generate_inner(argument["schema"]) for argument in arguments]
        return written

    def is_subclass_schema(self, schema: Any) -> JsonSchemaValue:
        """Refused: pydantic would accept anything, but no JSON value is a class."""
        return self.handle_invalid_for_json_schema(schema, "a class")

    def encode_default(self, dft: Any) -> Any:
        """NaN and the infinities count as unserialisable, so that the default is left out."""
        encoded = super().encode_default(dft)
        if not_finite(encoded) is not None:
            raise PydanticSerializationError("not a finite number")
        return encoded

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        """In the order of writing, which is the author's for properties."""
        return value


def schema_of(adapter: TypeAdapter[Any] | type[BaseModel], *, mode: JsonSchemaMode = "validation") -> Schema:
    """The schema of a type, keyed by alias; raises one of `NO_SCHEMA`."""
    if isinstance(adapter, TypeAdapter):
        schema = adapter.json_schema(mode=mode, schema_generator=_Tidy)
    else:
        schema = adapter.model_json_schema(mode=mode, schema_generator=_Tidy)
    # The root of a recursive model is only a reference; readers of a tool expect its properties there.
    target = resolve_pointer(schema, schema.pop("$ref", None))
    return ordered({**target, **schema} if target else schema)


def ordered(schema: Schema) -> Schema:
    """The schema with its keywords in the order in which people read them, definitions last."""
    defs = schema.pop("$defs", None)
    known = {key: schema[key] for key in _ORDER if key in schema}
    return known | schema | ({"$defs": defs} if defs else {})


def not_finite(value: Any) -> str | None:
    """JSON pointer of the first NaN or infinity in plain JSON; None if all is well."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ""
    if not isinstance(value, (dict, list)):
        return None
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        below = not_finite(item)
        if below is not None:
            return pointer_of([key]) + below
    return None


def _untitle(schema: JsonSchemaValue, cls: type[Any]) -> None:
    config: Any = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    given = "title" in config or "model_title_generator" in config
    if not given and schema.get("title") == cls.__name__:
        del schema["title"]


def _complete_class(written: JsonSchemaValue, schema: Any) -> None:
    """Say whether a dataclass or typed dict takes other keys, and what it is for; pydantic before 2.14 does not."""
    extra = schema.get("extra_behavior") or schema.get("config", {}).get("extra_fields_behavior")
    if extra in ("forbid", "allow"):
        written.setdefault("additionalProperties", extra == "allow")
    cls = schema["cls"]
    # A dataclass without a docstring gets its signature for one.
    if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("):
        written.setdefault("description", inspect.cleandoc(cls.__doc__))

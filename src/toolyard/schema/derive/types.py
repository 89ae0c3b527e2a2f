"""Questions about annotations that decide how a value reaches a parameter."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any

import annotated_types
import typing_extensions
from pydantic.fields import FieldInfo

_SCALARS = frozenset({str, int, float, bool, types.NoneType})
_ARRAYS = frozenset({list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection})
_OBJECTS = frozenset({dict, collections.abc.Mapping})
_PLAIN = _SCALARS | _ARRAYS | _OBJECTS
_UNIONS = frozenset({typing.Union, types.UnionType})
_QUALIFIERS = frozenset({typing.Required, typing.NotRequired})

_LIMITS = (
    annotated_types.Ge,
    annotated_types.Gt,
    annotated_types.Le,
    annotated_types.Lt,
    annotated_types.MultipleOf,
    annotated_types.Interval,
)
_LENGTHS = (annotated_types.MinLen, annotated_types.MaxLen, annotated_types.Len)
_STRING_LIMITS = frozenset({"pattern", "min_length", "max_length"})


def is_plain(annotation: Any, *, within: frozenset[Any] = frozenset()) -> bool:
    """True when a JSON value that fits the annotation's schema is already the Python value it asks for.

    `within` holds the classes and aliases being looked at, so that a recursive type comes to an end.
    """
    if _is_alias(annotation):
        return annotation in within or is_plain(annotation.__value__, within=within | {annotation})
    annotation = _bare(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return all(_is_declared(item, args[0]) for item in args[1:]) and is_plain(args[0], within=within)
    if annotation in (Any, object) or annotation in _PLAIN:
        return True
    if origin is typing.Literal:
        return all(type(value) in _SCALARS for value in args)
    if origin in _UNIONS or origin in _ARRAYS:
        return all(is_plain(arg, within=within) for arg in args)
    if origin in _OBJECTS:
        return not args or (args[0] in (str, Any) and is_plain(args[1], within=within))
    return typing_extensions.is_typeddict(annotation) and (annotation in within or _is_plain_dict(annotation, within))


def _is_plain_dict(typed_dict: Any, within: frozenset[Any]) -> bool:
    try:
        hints = typing_extensions.get_type_hints(typed_dict, include_extras=True)
    except NameError:
        return False  # pydantic may know the names; then it shall do the conversion
    return all(is_plain(hint, within=within | {typed_dict}) for hint in hints.values())


def wants_int(annotation: Any) -> bool:
    """True when 3.0, which JSON Schema takes for an integer, has to reach the parameter as 3."""
    kinds = set(_alternatives(annotation))
    return int in kinds and float not in kinds


def accepts_none(annotation: Any) -> bool:
    """True when None fits the annotation."""
    return any(kind in (Any, object, types.NoneType) for kind in _alternatives(annotation))


def with_none(annotation: Any) -> Any:
    """The annotation, or None; what `Annotated` says goes on applying to the whole."""
    if typing.get_origin(annotation) is Annotated:
        return Annotated[with_none(annotation.__origin__), *annotation.__metadata__]
    return typing.Optional[annotation]  # noqa: UP045 - `|` is not defined for every annotation


def portable(annotation: Any, made: dict[Any, Any] | None = None) -> Any:
    """The annotation with each `typing.TypedDict` in the form that pydantic can read before Python 3.12."""
    made = {} if made is None else made
    if typing.is_typeddict(annotation):
        return made.get(annotation) or _portable_dict(annotation, made)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if not args or origin in (typing.Literal, collections.abc.Callable):
        return annotation
    if origin is Annotated:
        return Annotated[portable(args[0], made), *args[1:]]
    if origin in _QUALIFIERS:
        return origin[portable(args[0], made)]
    changed = tuple(portable(arg, made) for arg in args)
    if all(new is old for new, old in zip(changed, args, strict=True)):
        return annotation
    return typing.Union[changed] if origin in _UNIONS else origin[changed]  # noqa: UP007 - built at run time


def _portable_dict(typed_dict: Any, made: dict[Any, Any]) -> Any:
    if type(typed_dict).__module__ != "typing":
        return typed_dict
    make: Any = typing_extensions.TypedDict
    copy = make(typed_dict.__name__, {})
    # Known before its fields are, because they may mention it.
    made[typed_dict] = copy
    hints = typing.get_type_hints(typed_dict, include_extras=True)
    copy.__annotations__ = {name: portable(hint, made) for name, hint in hints.items()}
    copy.__required_keys__, copy.__optional_keys__ = typed_dict.__required_keys__, typed_dict.__optional_keys__
    copy.__doc__, copy.__module__, copy.__qualname__ = (
        typed_dict.__doc__,
        typed_dict.__module__,
        typed_dict.__qualname__,
    )
    return copy


def _bare(annotation: Any) -> Any:
    """Behind aliases, `NewType`s, `Required` and unconstrained type variables."""
    while True:
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif _is_alias(annotation):
            annotation = annotation.__value__
        elif typing.get_origin(annotation) in _QUALIFIERS:
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.TypeVar) and not annotation.__constraints__ and annotation.__bound__ is None:
            return Any
        else:
            return annotation


def _is_alias(annotation: Any) -> bool:
    # By name: `type X = ...` and typing_extensions make instances of different classes.
    return type(annotation).__name__ == "TypeAliasType" and not annotation.__type_params__


def _alternatives(annotation: Any) -> Iterator[Any]:
    annotation = _bare(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        yield from _alternatives(args[0])
    elif origin in _UNIONS:
        for arg in args:
            yield from _alternatives(arg)
    elif origin is typing.Literal:
        yield from map(type, args)
    else:
        yield annotation


def _is_declared(item: Any, annotation: Any) -> bool:
    """True when the JSON Schema says all that this piece of `Annotated` metadata says."""
    kinds = {typing.get_origin(kind) or kind for kind in _alternatives(annotation)} - {types.NoneType}
    if isinstance(item, FieldInfo):
        by_name = item.is_required() and item.validation_alias is None
        return by_name and all(_is_declared(constraint, annotation) for constraint in item.metadata)
    if isinstance(item, _LIMITS):
        return kinds <= {int, float}
    if isinstance(item, _LENGTHS):
        return kinds <= {str} or kinds <= _ARRAYS or kinds <= _OBJECTS
    facts = getattr(item, "__dict__", None)
    if facts and isinstance(item, annotated_types.BaseMetadata | annotated_types.GroupedMetadata):
        said = {key: fact for key, fact in facts.items() if fact is not None}
        # A compiled pattern may carry flags, which JSON Schema cannot say.
        return kinds <= {str} and said.keys() <= _STRING_LIMITS and isinstance(said.get("pattern", ""), str)
    return isinstance(item, str)

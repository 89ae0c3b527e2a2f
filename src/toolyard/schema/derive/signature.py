"""The parameters of any kind of callable, with their annotations resolved."""

from __future__ import annotations
import __future__

import ast
import contextlib
import dataclasses
import functools
import inspect
import linecache
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import typing_extensions

from toolyard.model.call import ToolContext
from toolyard.model.errors import DefinitionError

EMPTY: Any = inspect.Parameter.empty
"""Stands for a missing annotation or default."""

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

# Before Python 3.12 these are two different objects.
_UNPACK = (typing.Unpack, typing_extensions.Unpack)

# The exceptions of evaluating an annotation, which runs the author's expression.
_UNRESOLVED = (NameError, AttributeError, SyntaxError, TypeError, LookupError, ValueError)


class Parameter(msgspec.Struct, frozen=True, eq=False):
    """A parameter that a model may set."""

    name: str
    annotation: Any
    default: Any = EMPTY
    required: bool = True
    positional: bool = False
    """True if it can only be passed by position."""


class Outline(msgspec.Struct, frozen=True, eq=False):
    """What is known of a callable without resolving the annotations of its parameters."""

    label: str
    parameters: tuple[inspect.Parameter, ...]
    """Without `ctx` and without parameters bound by a `functools.partial`."""
    returns: Any
    """The resolved return annotation; EMPTY if it is missing or cannot be resolved."""
    ctx: str | None
    is_async: bool
    generates: bool
    """True for an async generator, whose items are collected into a list."""
    hidden: tuple[str, ...]
    """Names that the callable has but a model must not set: `self`, `ctx`, bound arguments."""
    scope: _Scope


class _Scope(msgspec.Struct, frozen=True, eq=False):
    """The names that string annotations of a callable may use."""

    names: dict[str, Any]
    closure: dict[str, Any]

    def resolve(self, annotation: Any) -> Any:
        """The annotation with strings evaluated and `Annotated` kept; raises one of `_UNRESOLVED`."""
        try:
            found = _evaluate(annotation, self.names, self.closure)
        except NameError:
            found = _evaluate(annotation, _add_type_checking_names(self.names), self.closure)
        return found.type if isinstance(found, dataclasses.InitVar) else found


def _evaluate(annotation: Any, names: dict[str, Any], closure: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(holder, names, closure, include_extras=True)["it"]


def _add_type_checking_names(module: dict[str, Any]) -> dict[str, Any]:
    """The names of a module with those that it has for type checkers only, under `if TYPE_CHECKING:`."""
    names = dict(module)
    for statement in _compile_type_checking("".join(linecache.getlines(str(module.get("__file__", "")), module))):
        # Any exception, as in an import of something that is not installed: the annotation stays unresolved.
        with contextlib.suppress(Exception, SystemExit):
            exec(statement, names)  # noqa: S102 - imports and aliases of the module that defines the callable
    return names


@functools.lru_cache(maxsize=16)
def _compile_type_checking(source: str) -> list[types.CodeType]:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return []
    blocks = [part.body for part in body if isinstance(part, ast.If) and _is_type_checking(part.test)]
    flags = __future__.annotations.compiler_flag
    return [
        compile(ast.Module([statement], []), "<TYPE_CHECKING>", "exec", flags, dont_inherit=True)
        for block in blocks
        for statement in block
    ]


def _is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))


def read_outline(fn: Callable[..., Any]) -> Outline:
    """Inspect a callable; `DefinitionError` if it has no signature or cannot be a tool."""
    label = label_of(fn)
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{label} has no readable signature ({error}); wrap it in a typed function") from None
    generates = _is_or_calls(fn, inspect.isasyncgenfunction)
    source, owner = _source_of(fn)
    scope = _scope_of(source, owner)
    bound = _bound_keywords(fn)
    free = [parameter for parameter in signature.parameters.values() if parameter.name not in bound]
    _refuse_unbound_method(fn, label, free)
    ctx = _find_ctx(free, scope, label)
    shown = tuple(parameter for parameter in free if parameter.name != ctx)
    hidden = {*bound, *_names_of(source), *(("ctx",) if ctx else ())} - {parameter.name for parameter in shown}
    return Outline(
        label=label,
        parameters=shown,
        returns=_return_hint(fn, signature, scope),
        ctx=ctx,
        is_async=generates or _is_or_calls(fn, inspect.iscoroutinefunction),
        generates=generates,
        hidden=tuple(sorted(hidden)),
        scope=scope,
    )


def read_parameters(read: Outline) -> tuple[tuple[Parameter, ...], Parameter | None]:
    """The parameters that a model may set, and `**kwargs`; `DefinitionError` names one that cannot be read."""
    named: list[Parameter] = []
    extra = None
    for parameter in read.parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise DefinitionError(
                f"{read.label} takes *{parameter.name}, but models pass arguments by name; take a list parameter "
                "instead. If a decorator added it, give that decorator functools.wraps"
            )
        annotation = _resolve_annotation(read, parameter)
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            by_position = parameter.kind is inspect.Parameter.POSITIONAL_ONLY
            required = parameter.default is EMPTY
            named.append(Parameter(parameter.name, annotation, parameter.default, required, by_position))
        elif typing.get_origin(annotation) in _UNPACK:
            named += _unpack_kwargs(read.label, typing.get_args(annotation)[0])
        else:
            extra = Parameter(parameter.name, annotation, required=False)
    return tuple(named), extra


def wrap_callable(fn: Callable[..., Any], read: Outline) -> Callable[..., Any]:
    """A wrapper that passes the context as `ctx` and collects the items of an async generator, if either is needed."""
    if read.ctx not in (None, "ctx"):
        fn = _rename_ctx(fn, read.ctx)
    return _collect_items(fn) if read.generates else fn


def _rename_ctx(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, ctx: Any, **keywords: Any) -> Any:
        return fn(*args, **keywords, **{name: ctx})

    return call


def _collect_items(fn: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **keywords: Any) -> list[Any]:
        return [item async for item in fn(*args, **keywords)]

    return call


def label_of(fn: Any) -> str:
    """The name of a callable in error messages: module and qualified name, without `functools.partial`."""
    fn = unwrap_partial(fn)
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    module = getattr(named, "__module__", None)
    home = sys.modules.get(module or "")
    if home is not None and home.__spec__ is None and getattr(home, "__file__", None) and module != "__main__":
        module = Path(str(home.__file__)).stem  # a file that was run under an arbitrary module name
    return f"{module}.{named.__qualname__}" if module else str(named.__qualname__)


def unwrap_partial(fn: Any) -> Any:
    """The callable inside any number of `functools.partial`s."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _unpack_kwargs(label: str, typed_dict: Any) -> Iterator[Parameter]:
    try:
        hints = typing.get_type_hints(typed_dict, include_extras=True)
    except _UNRESOLVED as error:
        raise DefinitionError(
            f"{label}: the annotations of {label_of(typed_dict)} cannot be resolved ({error})"
        ) from None
    for name, annotation in hints.items():
        required = name in typed_dict.__required_keys__
        # If the annotations of the class are strings, `__required_keys__` does not reflect these qualifiers.
        while typing.get_origin(annotation) in (typing.Required, typing.NotRequired):
            required = typing.get_origin(annotation) is typing.Required
            annotation = typing.get_args(annotation)[0]
        yield Parameter(name, annotation, required=required)


def _resolve_annotation(read: Outline, parameter: inspect.Parameter) -> Any:
    if parameter.annotation is EMPTY:
        return Any
    try:
        return read.scope.resolve(parameter.annotation)
    except _UNRESOLVED as error:
        written = parameter.annotation
        shown = repr(written) if isinstance(written, str) else inspect.formatannotation(written)
        raise DefinitionError(
            f"{read.label}: the annotation {shown} of parameter {parameter.name!r} "
            f"cannot be resolved ({error}); import its names at run time, in the module of the function"
        ) from None


def _return_hint(fn: Any, signature: inspect.Signature, scope: _Scope) -> Any:
    target = unwrap_partial(fn)
    if isinstance(target, type):
        return target
    try:
        return EMPTY if signature.return_annotation is EMPTY else scope.resolve(signature.return_annotation)
    except _UNRESOLVED:
        return EMPTY


def _find_ctx(parameters: list[inspect.Parameter], scope: _Scope, label: str) -> str | None:
    found = [item for item in parameters if item.kind not in _VARIADIC and _is_ctx(item, scope)]
    if len(found) > 1:
        raise DefinitionError(f"{label} takes the context twice, as {found[0].name!r} and as {found[1].name!r}")
    if found and found[0].kind is inspect.Parameter.POSITIONAL_ONLY:
        raise DefinitionError(f"{label} takes {found[0].name!r} by position only; move it behind the '/'")
    return found[0].name if found else None


def _is_ctx(parameter: inspect.Parameter, scope: _Scope) -> bool:
    if parameter.name == "ctx":
        return True
    if ToolContext.__name__ not in str(parameter.annotation):
        return False
    try:
        annotation = scope.resolve(parameter.annotation)
    except _UNRESOLVED:
        return False
    return any(part is ToolContext for part in (annotation, *typing.get_args(annotation)))


def _refuse_unbound_method(fn: Any, label: str, parameters: list[inspect.Parameter]) -> None:
    home = fn.__qualname__.rpartition(".")[0] if inspect.isfunction(fn) else ""
    if home and not home.endswith("<locals>") and parameters and parameters[0].name == "self":
        raise DefinitionError(f"{label} is a method without its instance; pass it bound, as `instance.{fn.__name__}`")


def _is_or_calls(fn: Any, is_kind: Callable[[Any], bool]) -> bool:
    fn = unwrap_partial(fn)
    return is_kind(fn) or is_kind(type(fn).__call__)


def _bound_keywords(fn: Any) -> set[str]:
    bound: set[str] = set()
    while isinstance(fn, functools.partial):
        bound.update(fn.keywords)
        fn = fn.func
    return bound


def _source_of(fn: Any) -> tuple[Any, type | None]:
    """The function that carries the annotations, and its class."""
    fn = inspect.unwrap(unwrap_partial(fn))
    owner: type | None = None
    if isinstance(fn, type):
        owner = fn
        fn = fn.__init__ if inspect.isfunction(fn.__init__) else fn.__new__  # type: ignore[misc]  # read, never called
    elif not inspect.isroutine(fn):
        owner = type(fn)
        fn = owner.__call__
    if inspect.ismethod(fn):
        owner = fn.__self__ if isinstance(fn.__self__, type) else type(fn.__self__)
        fn = fn.__func__
    return inspect.unwrap(fn), owner


def _scope_of(source: Any, owner: type | None) -> _Scope:
    names: dict[str, Any] = {ToolContext.__name__: ToolContext}
    # A generated __init__ repeats annotations of base classes, which refer to names of their modules.
    for base in reversed(owner.__mro__ if owner else ()):
        names |= vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
        names[base.__name__] = base
    names |= getattr(source, "__globals__", {})
    closure = {parameter.__name__: parameter for parameter in getattr(source, "__type_params__", ())}
    code = getattr(source, "__code__", None)
    for name, cell in zip(code.co_freevars if code else (), getattr(source, "__closure__", None) or (), strict=False):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            continue  # a name that is assigned only later
    return _Scope(names, closure)


def _names_of(source: Any) -> list[str]:
    try:
        return list(inspect.signature(source).parameters)
    except (TypeError, ValueError):
        return []

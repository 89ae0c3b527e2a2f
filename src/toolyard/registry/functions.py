"""Make tools of Python callables: `function_tool` makes one, `@tool` marks a function for a loader to find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

from toolyard.model.errors import DefinitionError
from toolyard.model.tool import Effects, EffectsLike, Schema, Tool
from toolyard.schema.derive.signature import label_of, unwrap_partial
from toolyard.words.identifiers import snake_case

_F = TypeVar("_F", bound=Callable[..., Any])

_MARK = "__toolyard__"


class ToolOptions(TypedDict, total=False):
    """Options of `@tool`. Missing ones are derived from the function."""

    name: str | None
    namespace: str | None
    description: str | None
    parameters: Schema | None
    output_parameters: Schema | None
    tags: Iterable[str]
    aliases: Iterable[str]
    effects: EffectsLike
    version: str | None
    metadata: Mapping[str, Any] | None
    blocking: bool
    simulates: bool


def function_tool(
    fn: Callable[..., Any],
    *,
    namespace: str,
    name: str | None = None,
    description: str | None = None,
    parameters: Schema | None = None,
    output_parameters: Schema | None = None,
    tags: Iterable[str] = (),
    aliases: Iterable[str] = (),
    effects: EffectsLike = Effects.UNKNOWN,
    version: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    blocking: bool = True,
    simulates: bool = False,
) -> Tool:
    """The tool that calls `fn`: schemas from its annotations, descriptions from its docstring.

    Arguments given here replace derived ones. Bind state with `functools.partial`, a closure or a method; it does
    not appear in the schema, nor does a `ctx` parameter, which receives the `ToolContext` of each call. Raises
    `DefinitionError` that names the parameter if a parameter cannot be described.

    `blocking=False` promises that a sync function returns at once: it waits for no file, lock or network, and
    computes for microseconds. Async callers then run it on their loop instead of a thread, and no deadline applies
    while it runs.

    `simulates=True` declares that the function also handles `simulate`, whatever its effects: it takes `ctx` and
    changes nothing if `ctx.mode` is `"simulate"`.
    """
    # Imported here because it imports pydantic, which modules that only mark functions do not need.
    from toolyard.schema.derive.function import derive

    if isinstance(fn, Tool):
        raise DefinitionError(f"{fn.qualified_name} is a Tool already; give it to ToolRegistry([...])")
    derived = derive(fn, parameters=parameters)
    if simulates and not derived.binding.takes_ctx:
        raise DefinitionError(f"{label_of(fn)} is said to simulate itself, but takes no ctx, whose mode says when")
    return Tool(
        name=_name_of(fn) if name is None else name,
        namespace=namespace,
        description=derived.description if description is None else description,
        parameters=derived.parameters,
        output_parameters=derived.output_parameters if output_parameters is None else output_parameters,
        metadata=dict(metadata or {}),
        version=version,
        tags=_as_tuple(tags),
        aliases=_as_tuple(aliases),
        effects=cast("Effects", effects),  # `Tool` reads both spellings
        binding=msgspec.structs.replace(derived.binding, blocking=blocking, simulates=simulates),
    )


@overload
def tool(fn: _F, /) -> _F: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[_F], _F]: ...


def tool(fn: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Mark a function or method as a tool, with or without arguments. The function stays callable as before.

    Nothing is derived yet, so importing a module never fails because of an annotation; a loader or `tool_from`
    reports that when it makes the tool. The options are those of `function_tool`.
    """
    for name in options.keys() - ToolOptions.__annotations__.keys():
        raise TypeError(f"Unexpected keyword argument {name!r}")
    # Exhaust iterators now, since the options may be read for a second tool.
    listed = {name: _as_tuple(options[name]) for name in ("tags", "aliases") if name in options}
    spec = cast("ToolOptions", {**options, **listed})

    def mark(target: _F) -> _F:
        _mark(target, spec)
        return target

    return mark if fn is None else mark(fn)


def spec_of(obj: object) -> ToolOptions | None:
    """The `@tool` options of a function, of the function of a method, or of what a partial wraps; None if unmarked.

    Marks are not inherited: neither by a class from its base nor by an instance from its class.
    """
    spec = _instance_dict(obj).get(_MARK)
    if spec is None:
        behind = _function_behind(unwrap_partial(obj))
        spec = _instance_dict(behind).get(_MARK)
    return cast("ToolOptions", spec) if isinstance(spec, dict) else None


def tool_from(obj: Callable[..., Any], namespace: str, name: str | None = None) -> Tool:
    """The tool for a callable, marked or not; a namespace or name in its mark takes precedence over the arguments."""
    options: dict[str, Any] = dict(spec_of(obj) or {})
    for key, value in (("namespace", namespace), ("name", name)):
        if options.get(key) is None:
            options[key] = value
    return function_tool(obj, **options)


def _mark(target: Any, spec: ToolOptions) -> None:
    if isinstance(target, str):
        raise DefinitionError(f"@tool takes its options by name: write @tool(name={target!r})")
    try:
        # Mark the function: attribute access on the class returns it, not the descriptor around it.
        setattr(_function_behind(target) if isinstance(target, (staticmethod, classmethod)) else target, _MARK, spec)
    except (AttributeError, TypeError):
        raise DefinitionError(
            f"{label_of(target)} cannot be marked with @tool; make the tool with function_tool(..., namespace=...)"
        ) from None


def _function_behind(obj: Any) -> Any:
    return obj.__func__ if isinstance(obj, (staticmethod, classmethod, MethodType)) else obj


def _instance_dict(obj: Any) -> Mapping[str, Any]:
    own = getattr(obj, "__dict__", None)
    return own if isinstance(own, Mapping) else {}


def _name_of(fn: Any) -> str:
    fn = unwrap_partial(fn)
    name = getattr(fn, "__name__", None)
    if name == "<lambda>":
        raise DefinitionError(f"{label_of(fn)} has no name; pass name=...")
    return name if isinstance(name, str) else snake_case(type(fn).__name__)


def _as_tuple(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)

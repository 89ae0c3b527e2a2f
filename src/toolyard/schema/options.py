"""Options declared once: readers, the JSON Schema and the reference page are derived from it.

Those of a plugin are the parameters of its constructor, with `Meta` in their annotations. Those of a block, and those
that plugins share, are a struct:

    class ListenOptions(msgspec.Struct, frozen=True, kw_only=True):
        \"\"\"Where the service listens.\"\"\"

        port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen at, 0 for any.")] = 8000

    read_options(ListenOptions, {"prot": 80}, "yard.yaml: server")
    # ConfigError: yard.yaml: server: unknown key 'prot'; did you mean 'port'?

Besides limits, a `Meta` may have these keys in `extra`: `check`, a function of the value and its place that rejects or
converts it; `locate`, a function of the value and the config folder; `one`, for a list that may be given as its single
text; `split`, the separator of a list that may be given as text; `secret`, for a value that must not appear in errors.

`expand` replaces `${VAR}` by environment variables: in configs, and in paths and addresses passed from code.
"""

from __future__ import annotations

import enum
import operator
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import typing_extensions
from msgspec import NODEFAULT, Meta

from toolyard.model.errors import ConfigError
from toolyard.model.json_schema import file_type
from toolyard.model.names import suggest

T = TypeVar("T")
Place = TypeVar("Place", bound=str | Path)
Kind = Literal["string", "integer", "number", "boolean", "null", "choice", "array", "object", "options", "any"]

_SHOWN = 80
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_KIND_NAMES: dict[Kind, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a mapping",
    "options": "a mapping",
}
_PYTHON_TYPES: dict[Kind, tuple[type, ...]] = {
    "any": (object,),
    "string": (str, Path),
    "choice": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
    "array": (list, tuple, frozenset, set),
    "object": (Mapping,),
    "options": (Mapping, msgspec.Struct),
}
_SCALARS: dict[Any, Kind] = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean"}
_COLLECTIONS = (tuple, frozenset, set)
_LISTS = (list, Sequence, *_COLLECTIONS)
_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {"ge": operator.ge, "gt": operator.gt, "le": operator.le}
_BOUND_WORDS = {"ge": "{} or more", "gt": "above {}", "le": "{} or less"}

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class Variable(str):
    """Text from a single variable reference; it may also be read as a number or a flag."""

    __slots__ = ()


VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""`${NAME}`, `${NAME:-default}`, and `${env:NAME}`, which other programs use."""
OnVariable = Callable[[str, str, bool], None]


def expand(
    value: Any,
    *,
    where: str = "config",
    env: Mapping[str, str] | None = None,
    found: OnVariable | None = None,
    whole: Callable[[str], Any] = str,
) -> Any:
    """The value with variables replaced in every text inside; `ConfigError` for an unset one without default.

    `found` is called with the name of each variable, its value, and whether that is the default. `whole` converts
    a text that consisted of one variable only.
    """
    env = os.environ if env is None else env
    if isinstance(value, str):
        if "${" in VARIABLE.sub("", value):
            raise ConfigError(f"{where}: '${{' without a variable; write ${{NAME}} or ${{NAME:-default}}")
        text = VARIABLE.sub(lambda match: _replace_variable(match, where, env, found), value)
        return whole(text) if VARIABLE.fullmatch(value) else text
    options: dict[str, Any] = {"env": env, "found": found, "whole": whole}
    if isinstance(value, dict):
        return {key: expand(item, where=f"{where}.{key}", **options) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, where=f"{where}[{index}]", **options) for index, item in enumerate(value)]
    return value


def expand_place(place: Place, option: str) -> Place:
    """A path or address passed from code, with variables replaced as in a config."""
    given: object = place
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"{option} must be a path or an address, not {type(place).__name__}")
    text = str(place)
    return type(place)(expand(text, where=option)) if "${" in text else place


def _replace_variable(match: re.Match[str], where: str, env: Mapping[str, str], found: OnVariable | None) -> str:
    name, default = match.group(1), match.group(2)
    value = env.get(name, default)
    if value is None:
        raise ConfigError(f"{where}: the variable {name} is not set; export it or write ${{{name}:-default}}")
    if found is not None:
        found(name, value, name not in env)
    return value


class OptionType(msgspec.Struct, frozen=True):
    """What an annotation allows, in terms of config values."""

    kind: Kind
    metas: tuple[Meta, ...] = ()
    choices: tuple[str, ...] = ()
    item: OptionType | None = None
    key: OptionType | None = None
    """The type of the keys of a mapping."""
    options: type[msgspec.Struct] | None = None
    keys: Mapping[str, OptionType] = {}
    """The types of known keys of a mapping."""
    others: tuple[OptionType, ...] = ()
    """Alternative types; null is always last."""
    make: Callable[[Any], Any] | None = None

    def meta_value(self, name: str) -> Any:
        """The value of a field of the annotation's `Meta`, the outermost if several set it; None if none does."""
        found = [getattr(meta, name) for meta in self.metas if getattr(meta, name) is not None]
        return found[-1] if found else None

    def extra_value(self, name: str) -> Any:
        """The value of a key of the annotation's `extra`, or None."""
        found = [meta.extra[name] for meta in self.metas if meta.extra and name in meta.extra]
        return found[-1] if found else None

    @property
    def item_type(self) -> OptionType:
        """The type of the items of a list or values of a mapping; anything if none is stated."""
        return OptionType("any") if self.item is None else self.item

    @property
    def all(self) -> tuple[OptionType, ...]:
        """The type and its alternatives."""
        return (self, *self.others)

    def may_be(self, stricter: OptionType) -> bool:
        """True if this takes values of no other kind than `stricter`, whose choices and limits may be narrower."""
        wider: dict[Kind, Kind] = {"choice": "string", "integer": "number"}
        own, known = ({wider.get(one.kind, one.kind) for one in each.all} for each in (self, stricter))
        return "any" in own or own <= known | {"null"}


class ConfigOption(msgspec.Struct, frozen=True):
    """One key of a config."""

    name: str
    type: OptionType
    default: Any
    required: bool = False

    @property
    def description(self) -> str:
        """The description from the annotation, or empty text."""
        return str(self.type.meta_value("description") or "")


@lru_cache(maxsize=2048)
def option_type(annotation: Any) -> OptionType:
    """The type that an annotation stands for; an unsupported annotation allows anything."""
    if typing.get_origin(annotation) is Annotated:
        inner, *notes = typing.get_args(annotation)
        metas = [note for note in notes if isinstance(note, Meta)]
        # Metadata on a union applies to each of its types.
        first, *others = (
            msgspec.structs.replace(one, others=(), metas=(*one.metas, *metas)) for one in option_type(inner).all
        )
        return msgspec.structs.replace(first, others=tuple(others))
    if annotation is None or annotation is type(None):
        return OptionType("null")
    origin, args = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union_type([option_type(arg) for arg in args if arg is not msgspec.UnsetType])
    if origin is Literal:
        return OptionType("choice", choices=tuple(map(str, args)))
    if annotation in _SCALARS:
        located = (Meta(extra={"locate": locate_file}),) if annotation is Path else ()
        return OptionType(_SCALARS[annotation], located, make=Path if annotation is Path else None)
    if origin in _LISTS:
        return OptionType(
            "array", item=option_type(args[0] if args else Any), make=origin if origin in _COLLECTIONS else None
        )
    if origin in (dict, Mapping):
        key, value = args or (Any, Any)
        return OptionType("object", key=option_type(key), item=option_type(value))
    if typing_extensions.is_typeddict(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)
        return OptionType("object", keys={name: option_type(hint) for name, hint in hints.items()})
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return OptionType("choice", choices=tuple(member.value for member in annotation), make=annotation)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return OptionType("options", options=annotation)
    return OptionType("any")


def _union_type(branches: Sequence[OptionType]) -> OptionType:
    kept: list[OptionType] = []
    for one in (one for branch in branches for one in branch.all):
        if one.kind == "any":
            return one
        # In a file, text and a path are the same.
        text = next((at for at, other in enumerate(kept) if one.kind == other.kind == "string"), None)
        if text is None:
            kept.append(one)
        else:
            kept[text] = msgspec.structs.replace(kept[text], metas=(*kept[text].metas, *one.metas), make=None)
    kept.sort(key=lambda one: one.kind == "null")
    return msgspec.structs.replace(kept[0], others=tuple(kept[1:]))


@lru_cache(maxsize=512)
def options_of(struct: type[msgspec.Struct]) -> dict[str, ConfigOption]:
    """The options that a struct declares, by key."""
    return {
        field.encode_name: ConfigOption(
            field.name,
            option_type(field.type),
            field.default if field.default_factory is NODEFAULT else field.default_factory(),
            field.required,
        )
        for field in msgspec.structs.fields(struct)
    }


def read_options(struct: type[T], value: Any, where: str, *, base: Path | None = None) -> T:
    """Read a mapping as the struct. `where` names its place in errors; relative paths are resolved against `base`."""
    known = options_of(typing.cast(Any, struct))
    given = read_given(known, value, where, base=base)
    lacking = [key for key, option in known.items() if option.required and key not in given]
    if lacking:
        text = known[lacking[0]].description.rstrip(".")
        meaning = f": {text[:1].lower()}{text[1:]}" if text else ""
        raise ConfigError(f"{_place_prefix(where)}needs {lacking[0]!r}{meaning}")
    try:
        return struct(**{known[key].name: item for key, item in given.items()})
    except ConfigError as error:
        raise ConfigError(f"{_place_prefix(where)}{error}") from None


@lru_cache(maxsize=256)
def parameter_types(plugin: type) -> dict[str, OptionType]:
    """The types of the options that the constructor of a plugin takes, by name."""
    init: Callable[..., None] = plugin.__init__  # type: ignore[misc]  # read, never called
    return {name: option_type(hint) for name, hint in typing.get_type_hints(init, include_extras=True).items()}


def read_option(declared: type, key: str, value: Any, where: str) -> Any:
    """Read the value of a single option of a struct or plugin, such as that of a command-line flag."""
    is_struct = issubclass(declared, msgspec.Struct)
    return read_value(options_of(declared)[key].type if is_struct else parameter_types(declared)[key], value, where)


def read_arguments(declared: type, **given: Any) -> dict[str, Any]:
    """Read arguments of a constructor like the keys of a config."""
    return {key: read_option(declared, key, value, key) for key, value in given.items()}


def read_given(
    known: Mapping[str, ConfigOption], value: Any, where: str, *, base: Path | None = None
) -> dict[str, Any]:
    """The values that a mapping gives for known options; an error for an unknown key suggests the nearest one."""
    check_keys(value, known, where)
    return {key: read_value(known[key].type, item, _join_place(where, key), base=base) for key, item in value.items()}


def check_keys(value: Any, known: Iterable[str], where: str) -> None:
    """Raise unless the value is a mapping with known keys only."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{_place_prefix(where)}must be a mapping, not {file_type(value)}")
    for key in value:
        if key not in known:
            raise ConfigError(f"{_place_prefix(where)}unknown key {str(key)[:_SHOWN]!r}; {suggest(key, known)}")


def _join_place(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _place_prefix(where: str) -> str:
    return f"{where}: " if where else ""


def check_kinds(kinds: Mapping[str, type], **given: Any) -> None:
    """Check the types of arguments that can only be given in code; None means not given."""
    for option, value in given.items():
        if value is not None and not isinstance(value, kinds[option]):
            raise ConfigError(f"{option}: must be a {kinds[option].__name__}, not {type(value).__name__}")


def check_fields(made: msgspec.Struct, where: str = "") -> None:
    """Check fields that were set in code like values of a config, for `__post_init__`."""
    for option in options_of(type(made)).values():
        value = getattr(made, option.name)
        if value is not option.default:
            read = read_value(option.type, value, _join_place(where, option.name))
            msgspec.structs.force_setattr(made, option.name, read)


def read_value(wanted: OptionType, value: Any, where: str, *, base: Path | None = None) -> Any:
    """Read a value as the option's type; `ConfigError` if it does not fit."""
    if isinstance(value, Variable):
        value = _read_variable(str(value), {branch.kind for branch in wanted.all})
    if isinstance(value, str) and wanted.extra_value("split"):
        value = [part for part in map(str.strip, value.split(wanted.extra_value("split"))) if part]
    alone = isinstance(value, str) and bool(wanted.extra_value("one"))
    branch = wanted if alone else next((branch for branch in wanted.all if _is_of_kind(branch.kind, value)), None)
    if branch is None:
        words = dict.fromkeys(_describe_type(one) for one in wanted.all if one.kind != "null")
        mark = ";" if wanted.kind == "choice" else ","
        raise ConfigError(f"{where}: must be {', or '.join(words)}{mark} not {file_type(value)}")
    if alone:
        items = [read_value(wanted.item_type, value, where, base=base)]
        read = items if wanted.make is None else wanted.make(items)
    else:
        read = _read_branch(branch, value, where, base)
    locate, check = branch.extra_value("locate"), wanted.extra_value("check")
    if locate is not None and base is not None and read is not None:
        read = locate(read, base)
    return read if check is None else check(read, where)


def _describe_type(wanted: OptionType) -> str:
    if wanted.kind == "choice":
        return f"one of {', '.join(wanted.choices)}"
    if wanted.extra_value("one") or wanted.extra_value("split"):
        return "text or a list of text"
    return _KIND_NAMES[wanted.kind]


def _is_of_kind(kind: Kind, value: Any) -> bool:
    if isinstance(value, bool):
        return kind in ("boolean", "any")
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON_TYPES[kind])


def _read_branch(branch: OptionType, value: Any, where: str, base: Path | None) -> Any:
    match branch.kind:
        case "string" if isinstance(value, str):
            _check_text(branch, value, where)
        case "integer" | "number":
            value = _read_number(branch, value, where)
        case "choice":
            if value not in branch.choices:
                hint = suggest(value.lower(), branch.choices, "write one of ")
                raise ConfigError(f"{where}: no such choice {value[:_SHOWN]!r}; {hint}")
        case "array":
            if len(value) < (branch.meta_value("min_length") or 0):
                raise ConfigError(f"{where}: must be {_describe_type(branch)}, not empty")
            value = [read_value(branch.item_type, item, f"{where}[{n}]", base=base) for n, item in enumerate(value)]
        case "object":
            value = _read_mapping(branch, value, where, base)
        case "options" if branch.options is not None and not isinstance(value, branch.options):
            return read_options(branch.options, value, where, base=base)
    return value if branch.make is None else branch.make(value)


def _read_mapping(branch: OptionType, value: Mapping[Any, Any], where: str, base: Path | None) -> dict[Any, Any]:
    for key in value:
        if branch.key is not None:
            read_value(branch.key, key, where)
    return {
        key: read_value(branch.keys.get(key, branch.item_type), item, f"{where}.{key}", base=base)
        for key, item in value.items()
    }


def _check_text(wanted: OptionType, value: str, where: str) -> None:
    if len(value) < (wanted.meta_value("min_length") or 0):
        raise ConfigError(f"{where}: must be text, not empty")
    pattern = wanted.meta_value("pattern")
    if pattern is not None and re.search(pattern, value) is None:
        shown = "it" if wanted.extra_value("secret") else repr(value[:_SHOWN])
        raise ConfigError(f"{where}: must match {pattern}, and {shown} does not")


def _read_number(wanted: OptionType, value: Any, where: str) -> float | int:
    """Read a number within its limits. 100.0 counts as whole: JSON does not distinguish it from 100."""
    for limit, fits in _BOUNDS.items():
        bound = wanted.meta_value(limit)
        if bound is not None and not fits(value, bound):
            shown = f"{bound:g}" if isinstance(bound, float) else str(bound)
            raise ConfigError(f"{where}: must be {_BOUND_WORDS[limit].format(shown)}, not {str(value)[:_SHOWN]}")
    if wanted.kind == "number" and not -sys.float_info.max <= value <= sys.float_info.max:
        raise ConfigError(f"{where}: must be a finite number")
    return int(value) if wanted.kind == "integer" else float(value)


def _read_variable(text: str, kinds: set[Kind]) -> Any:
    if kinds & {"string", "any", "choice"}:
        return text
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    if kinds & {"integer", "number"} and _NUMBER.fullmatch(text):
        return float(text) if set(text) & set(".eE") else int(text)
    return text


def locate_file(value: Any, base: Path) -> Any:
    """For `locate`: resolve a relative path, or each of several, against the config's folder."""
    if isinstance(value, list | tuple):
        return type(value)(locate_file(part, base) for part in value)
    if not isinstance(value, str | Path) or str(value).startswith("~"):
        return value
    return type(value)(base / value)

"""Read the description of a tool and its parameters from a docstring in Google, NumPy or Sphinx style.

Only sections that describe parameters or the result are removed; the rest, unchanged, is the description. So nothing is
lost: a section that cannot be parsed stays in the text.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolyard.model.json_schema import types_of_value
from toolyard.schema.derive.signature import EMPTY, unwrap_partial
from toolyard.schema.subschemas import types_of
from toolyard.schema.typenames import read_type

if TYPE_CHECKING:
    from docstring_parser import Docstring

_Style = Literal["GOOGLE", "NUMPYDOC", "REST"]

_NAME = re.compile(r"\*{0,2}[^\W\d]\w*")
_PARAMS = r"(?:Args|Arguments|Params|Parameters|(?:Keyword|Other) (?:Args|Arguments|Params|Parameters)|Attributes)"
_RETURNS = r"(?:Returns?|Yields?)"
_GOOGLE = re.compile(rf"({_PARAMS}|{_RETURNS}):")
_NUMPY = re.compile(rf"({_PARAMS}|{_RETURNS})")
_UNDERLINE = re.compile(r"-{3,}|={3,}")
_NUMPY_KEY = re.compile(r"\*{0,2}[^\W\d]\w*(?:, ?\*{0,2}[^\W\d]\w*)*(?: ?:.*)?")
_FIELD = re.compile(r":(?:param|parameter|arg|argument|key|keyword|returns?|yields?)(?: [^:]*)?:(?: |$)")
_TYPE_FIELD = re.compile(r":(?:type (?P<name>[^:]*)|rtype):(?: (?P<type>.*)|$)")

# Words of the notations themselves, and names of types that say no more than an annotation does.
_GRAMMAR = frozenset({"Parameters", "Returns", "optional", "default"})
_TYPE_NAMES = "of or str int float bool bytes dict list tuple set object None Any"
_TYPES = _GRAMMAR.union(_TYPE_NAMES.split())

# Docstrings inherited from these packages describe their base class, not the author's class.
_LIBRARIES = sys.stdlib_module_names | {"pydantic", "toolyard"}


class DocInfo(msgspec.Struct, frozen=True):
    """The parts of a docstring."""

    description: str = ""
    """The text without the sections that `params` and `returns` come from."""
    params: dict[str, str] = {}
    returns: str | None = None
    types: dict[str, str] = {}
    """Types as written; only used for parameters without an annotation."""

    def read_type_of(self, name: str, default: Any) -> dict[str, Any]:
        """The schema of a parameter from its documented type; empty unless JSON has the type and the default fits."""
        schema = read_type(self.types.get(name, "any")) or {}
        kinds = types_of(schema.get("type"))
        if not kinds or "format" in schema:
            return {}
        if default not in (EMPTY, None) and types_of_value(default).isdisjoint(kinds):
            return {}
        if default is None and "null" not in kinds:
            kinds = [*kinds, "null"]
        return {**schema, "type": kinds[0] if len(kinds) == 1 else kinds}


class _Block(msgspec.Struct, frozen=True):
    """A section of a docstring: its end line, and its text under a heading that the parser knows."""

    end: int
    style: _Style
    text: str


def read_docstring(obj: Any) -> DocInfo:
    """The documentation of a function, method, class, `functools.partial` or callable instance.

    A class is described by its own docstring, its parameters by that and by `__init__`. A callable instance is
    described by its `__call__`, else by its class. A malformed docstring becomes the description as a whole.
    """
    obj = unwrap_partial(obj)
    if isinstance(obj, type):
        own, init = parse_docstring(_class_doc(obj), attributes=True), parse_docstring(_init_doc(obj))
        types = {**own.types, **init.types}
        return DocInfo(own.description or init.description, {**own.params, **init.params}, types=types)
    if inspect.isroutine(obj) or "__doc__" in getattr(obj, "__dict__", {}):
        return parse_docstring(inspect.getdoc(obj) or "")
    call = parse_docstring(_method_doc(type(obj).__call__)) if callable(obj) else DocInfo()
    description = call.description or parse_docstring(_class_doc(type(obj))).description
    return DocInfo(description, call.params, call.returns, call.types)


def parse_docstring(docstring: str, *, attributes: bool = False) -> DocInfo:
    """Parse a docstring without indentation; with `attributes`, an Attributes section describes parameters too."""
    lines = [line.rstrip() for line in docstring.splitlines()]
    kept: list[str] = []
    params: dict[str, str] = {}
    types: dict[str, str] = {}
    returns: list[str] = []
    position = 0
    while position < len(lines):
        block = _block_at(lines, position, attributes)
        parsed = _parse_style(block) if block else None
        if block is None or parsed is None:
            kept.append(lines[position])
            position += 1
            continue
        for name, text in _params_of(parsed):
            params[name] = f"{params[name]}\n{text}" if name in params else text
        types |= _types_of(lines[position], parsed)
        returns += filter(None, _returns_of(parsed))
        position = block.end
        # Drop one of the blank lines before and after the removed section.
        while kept and not kept[-1] and position < len(lines) and not lines[position]:
            position += 1
    return DocInfo("\n".join(kept).strip(), params, "\n".join(returns) or None, types)


def _block_at(lines: list[str], start: int, attributes: bool) -> _Block | None:
    line = lines[start]
    if line.startswith("Attributes") and not attributes:
        return None
    if _TYPE_FIELD.match(line):
        # Types come from annotations; `_types_of` reads this for parameters without one.
        return _Block(start + 1, "REST", "")
    if _FIELD.match(line):
        end = _field_end(lines, start)
        return _Block(end, "REST", "\n".join(lines[start:end]))
    underlined = start + 1 < len(lines) and _UNDERLINE.fullmatch(lines[start + 1])
    if underlined and (match := _NUMPY.fullmatch(line)):
        title = _section_title(match.group(1))
        end = _numpy_end(lines, start + 2, keyed=title == "Parameters")
        body = "\n".join(lines[start + 2 : end])
        return _Block(end, "NUMPYDOC", f"{title}\n{'-' * len(title)}\n{body}") if body.strip() else None
    if match := _GOOGLE.fullmatch(line):
        end = _indented_end(lines, start + 1)
        body = "\n".join(lines[start + 1 : end]).strip("\n")
        return _Block(end, "GOOGLE", f"{_section_title(match.group(1))}:\n{body}") if body else None
    return None


def _section_title(heading: str) -> str:
    return "Returns" if re.fullmatch(_RETURNS, heading) else "Parameters"


def _indented_end(lines: list[str], start: int) -> int:
    """The end of the indented block that starts here; blank lines within it belong to it."""
    end = start
    for position in range(start, len(lines)):
        if lines[position] and not lines[position][0].isspace():
            break
        if lines[position]:
            end = position + 1
    return end


def _field_end(lines: list[str], start: int) -> int:
    """The end of a `:field:`, whose text may continue without indentation until a blank line or the next field."""
    end = start + 1
    while end < len(lines) and lines[end] and not lines[end].startswith(":"):
        end += 1
    return max(end, _indented_end(lines, end))


def _numpy_end(lines: list[str], start: int, *, keyed: bool) -> int:
    """The end of a NumPy section: the next heading, or the first line that is not an entry of the section."""
    for position in range(start, len(lines)):
        line, after = lines[position], lines[position + 1] if position + 1 < len(lines) else ""
        if _UNDERLINE.fullmatch(after):
            return position
        if not keyed or not line or line[0].isspace():
            continue
        described = after[:1].isspace()
        if not _NUMPY_KEY.fullmatch(line) or (not lines[position - 1] and not described):
            return position
    return len(lines)


def _parse_style(block: _Block) -> Docstring | None:
    """None if the parser rejects the section, loses words of it, or finds a parameter that cannot be one."""
    # Imported only for callables that have such sections.
    from docstring_parser import DocstringStyle, ParseError, parse

    try:
        # The parser takes the first line of a docstring as its summary.
        parsed = parse(f"Summary.\n\n{block.text}", DocstringStyle[block.style])
    except ParseError:
        return None
    names = (name for item in parsed.params for name in _split_names(item.arg_name))
    return parsed if all(map(_NAME.fullmatch, names)) and _split_words(block.text) <= _words_of(parsed) else None


def _split_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text)) - _GRAMMAR


def _words_of(parsed: Docstring) -> set[str]:
    found: set[str] = set()
    for item in (*parsed.params, *parsed.many_returns):
        found |= _split_words(" ".join(map(str, vars(item).values())))
    return found


def _params_of(parsed: Docstring) -> Iterator[tuple[str, str]]:
    for item in parsed.params:
        text = (item.description or "").strip() or _beyond_types(item.type_name)
        for name in _split_names(item.arg_name) if text else ():
            yield name.lstrip("*"), text


def _types_of(line: str, parsed: Docstring) -> dict[str, str]:
    field = _TYPE_FIELD.match(line)
    if field is not None:
        return {field["name"].strip(): field["type"]} if field["name"] and field["type"] else {}
    return {
        name.lstrip("*"): item.type_name
        for item in parsed.params
        for name in _split_names(item.arg_name)
        if item.type_name
    }


def _beyond_types(written: str | None) -> str:
    """The text in the place of a type, if it says more than a type; otherwise empty."""
    return "" if written is None or _split_words(written) <= _TYPES else written


def _split_names(written: str) -> list[str]:
    return [name.strip() for name in written.split(",")]


def _returns_of(parsed: Docstring) -> Iterator[str]:
    several = len(parsed.many_returns) > 1
    for item in parsed.many_returns:
        kind = item.type_name if several else _beyond_types(item.type_name)
        parts = (item.return_name, kind, (item.description or "").strip())
        yield ": ".join(filter(None, parts)) or item.type_name or ""


def _class_doc(cls: type) -> str:
    for base in cls.__mro__:
        doc = base.__dict__.get("__doc__")
        if not isinstance(doc, str) or _is_generated(base, doc):
            continue
        if base is cls or base.__module__.partition(".")[0] not in _LIBRARIES:
            return inspect.cleandoc(doc)
    return ""


def _is_generated(cls: type, doc: str) -> bool:
    """True for the signature that dataclasses and named tuples get as their default docstring."""
    fields = hasattr(cls, "__dataclass_fields__") or hasattr(cls, "_fields")
    return fields and doc.startswith(f"{cls.__name__}(")


def _init_doc(cls: type) -> str:
    init: Callable[..., None] = cls.__init__  # type: ignore[misc]  # read, never called
    if not inspect.isfunction(init) or init.__module__.partition(".")[0] in _LIBRARIES:
        return ""
    return _method_doc(init)


def _method_doc(method: Callable[..., Any]) -> str:
    doc = inspect.getdoc(method) or ""
    return "" if doc in (object.__init__.__doc__, type.__call__.__doc__) else doc

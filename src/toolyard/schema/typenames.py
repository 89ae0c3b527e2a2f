"""What catalog authors write where JSON Schema wants a type.

Python, Java, JavaScript and SQL names, generics, unions and prose ("list of strings, optional") are
read as the schema their author meant. A word that means nothing here is refused by the caller: a typo
must not turn into "anything goes".
"""

from __future__ import annotations

import ast
import math
import re
from typing import Any

_WORDS: dict[str, str] = {
    "object": "object dict dictionary map hashmap linkedhashmap treemap hashtable mapping record struct json "
    "ordereddict defaultdict jsonobject",
    "array": "array list arraylist linkedlist tuple set frozenset hashset vector sequence iterable collection "
    "jsonarray deque iterator ndarray",
    "string": "string str text char character varchar unicode charsequence symbol enum select choice dropdown radio "
    "geopoint password secret credentials html markdown xml",
    "integer": "integer int long short byte bigint biginteger int8 int16 int32 int64 uint uint8 uint16 uint32 "
    "uint64 unsigned",
    "number": "number float double decimal real numeric bigdecimal float32 float64",
    "boolean": "boolean bool",
    "null": "null none nonetype nil void undefined",
}
_ANY = frozenset({"any", "mixed", "unknown", "variant", "dynamic", "typing.any", "*", ""})
_FORMAT_WORDS: dict[str, str] = {
    "date-time": "datetime timestamp",
    "uri": "url uri",
    "binary": "bytes file binary blob image",
    "byte": "base64",
}
_SAME_FORMATS = "date time uuid email path duration hostname ipv4 ipv6 regex"
_FORMATS = {word: form for form, words in _FORMAT_WORDS.items() for word in words.split()}
_FORMATS |= {word: word for word in _SAME_FORMATS.split()}
_NAMES = {word: json_type for json_type, words in _WORDS.items() for word in words.split()}

_EXPRESSION = re.compile(r"""[\w\s.\-\[\](){}<>,|?*'"]+""")
_ADDED = re.compile(r"(?:^|[,|]|\bor\b)\s*(?:optional|required)\s*(?=[,|]|$)", re.IGNORECASE)
"""The remark in "str, optional"."""
_OF = re.compile(
    r"\b(list|array|tuple|set)\s+of\s+([\w.]+(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\])*)(?!\s+of\b)(?![\w.\[])", re.IGNORECASE
)
_BRACKETS = str.maketrans("<({>)}-", "[[[]]]_")
_REMARK = re.compile(r"\s*([\w\s-]+?)\s*\(\s*([^()]+?)\s*\)\s*")
_STANDARD_DATES = frozenset({"yyyy-mm-dd", "iso 8601", "iso8601", "iso-8601", "rfc 3339", "rfc3339"})
_MAX_LENGTH = 200

Fragment = dict[str, Any]


def read_type(text: str) -> Fragment | None:
    """The schema a type expression means; `{}` for "anything", None if it means nothing."""
    if len(text) > _MAX_LENGTH:
        return None
    if text.strip().lower() in _ANY:
        return {}
    return _parse(text) or _read_remark(text)


def _parse(text: str) -> Fragment | None:
    """Spelt as Python would, and read by its parser: `Array<string>?` is `Array[string]|null`."""
    if not _EXPRESSION.fullmatch(text):
        return None
    spelt = _ADDED.sub("", text).translate(_BRACKETS).replace("[]", "[_]").replace("?", "|null").strip(" ,|")
    while (inner := _OF.sub(r"\1[\2]", spelt)) != spelt:
        spelt = inner
    try:
        return _read_node(ast.parse(spelt, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _read_remark(text: str) -> Fragment | None:
    """`DATE (YYYY-MM-DD)`, `TIME (24-hour HH:MM)`: a type and a remark, which for text is its format."""
    match = _REMARK.fullmatch(text)
    fragment = _parse(match[1]) if match else None
    if match is None or not fragment or fragment.get("type") != "string":
        return fragment
    is_plain = match[2].isdecimal() or match[2].lower() in _STANDARD_DATES
    return fragment if is_plain else {"type": "string", "format": match[2]}


def _read_node(node: ast.expr) -> Fragment | None:
    match node:
        case ast.Constant(value=None):
            return {"type": "null"}
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return plain(name.lower())
        case ast.Tuple() | ast.BoolOp(op=ast.Or()) | ast.BinOp(op=ast.BitOr()):
            return _join_nodes(_list_options(node))
        case ast.Subscript(value=outer, slice=ast.Name(id="_")):
            items = _read_node(outer)
            return None if items is None else {"type": "array", "items": items}
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            return _read_generic(name.lower(), inner.elts if isinstance(inner, ast.Tuple) else [inner])
    return None


def _list_options(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.Tuple(elts=parts) | ast.BoolOp(op=ast.Or(), values=parts):
            return [option for part in parts for option in _list_options(part)]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_list_options(left), *_list_options(right)]
    return [node]


def _join_nodes(nodes: list[ast.expr], *more: Fragment) -> Fragment | None:
    """The union of all; None if one of them means nothing."""
    found = [_read_node(node) for node in nodes]
    known = [fragment for fragment in found if fragment is not None]
    return join([*known, *more]) if len(known) == len(found) else None


def _read_generic(name: str, nodes: list[ast.expr]) -> Fragment | None:
    if name == "literal":
        return {"enum": [_read_literal(node) for node in nodes]}
    if name in ("optional", "union"):
        return _join_nodes(nodes, *([{"type": "null"}] if name == "optional" else []))
    base, arguments = plain(name), [_read_node(node) for node in nodes]
    known = [argument for argument in arguments if argument is not None]
    if base is None or len(known) < len(arguments):
        return None
    if base.get("type") == "array" and known[0]:
        return {"type": "array", "items": join(known)}
    if base.get("type") == "object" and len(known) == 2 and known[1]:
        return {"type": "object", "additionalProperties": known[1]}
    return base


def _read_literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def plain(name: str) -> Fragment | None:
    """The schema of one bare word; plural forms count ("strings")."""
    joined = name.replace("-", "").replace("_", "")
    for word in (name, name.removesuffix("s"), joined):
        if word in _NAMES:
            return {"type": _NAMES[word]}
        if word in _FORMATS:
            return {"type": "string", "format": _FORMATS[word]}
        if word in _ANY:
            return {}
    return None


def join(options: list[Fragment]) -> Fragment | None:
    """The union of some fragments, as a type list where that says it all."""
    unique = [option for index, option in enumerate(options) if option not in options[:index]]
    if not unique:
        return None
    if {} in unique:
        return {}
    if len(unique) == 1:
        return unique[0]
    if all(option.keys() == {"type"} and isinstance(option["type"], str) for option in unique):
        return {"type": [option["type"] for option in unique]}
    return {"anyOf": unique}


def read_number(text: str) -> int | float | None:
    """The number that a text is; None if it is none, or none that JSON has."""
    for convert in (int, float):
        try:
            value = convert(text)
            return value if math.isfinite(value) else None
        except (ValueError, OverflowError):
            continue
    return None

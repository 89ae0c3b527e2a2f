"""Type names that catalog authors write where JSON Schema requires a type.

Python, Java, JavaScript and SQL names, generics, unions and prose ("list of strings, optional") are read as the schema
their author meant. An unknown word is not a type, and the caller rejects it: a typo must not silently allow any value.
"""

from __future__ import annotations

import math
import re
from typing import Any

from toolyard.model.json_schema import types_of_value
from toolyard.parsing.json_text import read_embedded
from toolyard.schema.subschemas import types_of

_WORDS: dict[str, str] = {
    "object": "object dict dictionary map hashmap linkedhashmap treemap hashtable mapping record struct json "
    "ordereddict defaultdict jsonobject",
    "array": "array list arraylist linkedlist tuple set frozenset hashset vector sequence iterable collection "
    "jsonarray deque iterator ndarray",
    "string": "string str text char character varchar unicode charsequence symbol enum select choice dropdown radio "
    "geopoint password secret secretinput credentials html markdown xml callable function",
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

_TOKEN = re.compile(
    r"""\s*(?:([A-Za-z_][\w.]*(?:-[A-Za-z]\w*)*)|('[^']*'|"[^"]*"|-?\d+(?:\.\d+)?)|(\[\]|\.\.\.|[\[\](){}<>,|?*]))"""
)
_REMARK = re.compile(r"\s*([\w\s-]+?)\s*\(\s*([^()]+?)\s*\)\s*")
_ASIDE = re.compile(
    r"""(?P<type>.+?)\s*+[,;]?\s*+\(?\s*+(?P<flag>\b(?:optional|required)\b)?[,;\s(]*+"""
    r"""(?:(?:=|\bdefaults?\b(?:\s+(?:is|to|value)\b)?\s*+[:=]?)\s*+(?P<default>.+?))?[\s)]*+""",
    re.IGNORECASE,
)
"""`str, optional`, `int (default 5)`, `bool = False`: a type and remarks about the parameter.

The quantifiers are possessive: otherwise blanks that could belong to five parts cause catastrophic backtracking.
"""
_DESCRIBED = re.compile(
    r"\s*+(?:[\[(](?P<flag>required|optional)[\])]:?\s*+)?(?P<type>[a-z][\w.\[\]<>]{0,40})\s*+"
    r"(?:\((?P<aside>.*)\)|:\s(?P<text>.*))\s*",
    re.IGNORECASE | re.DOTALL,
)
"""`[REQUIRED] string: The city`, `list (The children)`: a type and a description of the parameter."""
_STANDARD_DATES = frozenset({"yyyy-mm-dd", "iso 8601", "iso8601", "iso-8601", "rfc 3339", "rfc3339"})
_OPEN = {"[": "]", "<": ">", "(": ")", "{": "}"}
_MAX_LENGTH = 200
_SENTENCE = 4
"""From this many words on, a remark on a string type is a description and not a format."""

Fragment = dict[str, Any]


def read_type(text: str) -> Fragment | None:
    """The schema that a type expression means; `{}` for "anything", None if it is not a type."""
    if len(text) > _MAX_LENGTH:
        return None
    if text.strip().lower() in _ANY:
        return {}
    found = _parse(text)
    if found is None:
        aside = _ASIDE.fullmatch(text)
        if aside and (aside["flag"] or aside["default"]) and (found := _parse(aside["type"])) is not None:
            return found | read_default(found, aside["default"])
    return _read_remark(text) if found is None else found


def read_flag(text: str) -> str | None:
    """`optional` or `required`, if the text says so beside the type."""
    aside = _ASIDE.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    return aside["flag"].lower() if aside and aside["flag"] else None


def read_described(text: str) -> Fragment | None:
    """The schema of a parameter from a sentence that begins with its type; None for any other sentence."""
    match = _DESCRIBED.fullmatch(text)
    kind = _parse(match["type"]) if match else None
    if match is None or not kind:
        return None
    aside = _ASIDE.fullmatch(text[:_MAX_LENGTH]) if match["aside"] else None
    if (aside and (aside["flag"] or aside["default"])) or (
        match["aside"] and kind.get("type") == "string" and len(match["aside"].split()) < _SENTENCE
    ):
        return None  # handled by `read_type`
    said = {"description": (match["aside"] or match["text"] or "").strip()}
    return kind | said | ({"required": match["flag"].lower() == "required"} if match["flag"] else {})


_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "none": None, "null": None}


def read_default(schema: Fragment, text: Any) -> Fragment:
    """The default as a value of the schema's type, as `{"default": ...}`; empty if the text has no such value."""
    kinds = set(types_of(schema.get("type")))
    if not isinstance(text, str):
        return {}
    bare = text.strip()
    quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "'\"`"
    if not kinds and bare in ("None", "null"):
        return {"default": None}
    if not kinds or "string" in kinds:
        return {"default": bare[1:-1] if quoted else text}
    # Other text stays as it is: it does not mean null.
    number = read_number(bare)
    value = _CONSTANTS.get(bare.lower(), read_embedded(bare) if number is None else number)
    return {"default": value} if types_of_value(value) & kinds else {}


def _parse(text: str) -> Fragment | None:
    tokens = _tokens(text)
    if tokens is None:
        return None
    parser = _Parser(tokens)
    fragment = parser.union()
    return fragment if fragment is not None and parser.at_end() else None


def _read_remark(text: str) -> Fragment | None:
    """`DATE (YYYY-MM-DD)`, `TIME (24-hour HH:MM)`: a type and a remark, which for a string is its format."""
    match = _REMARK.fullmatch(text)
    fragment = _parse(match[1]) if match else None
    if match is None or not fragment or fragment.get("type") != "string":
        return fragment
    is_plain = match[2].isdecimal() or match[2].lower() in _STANDARD_DATES
    return fragment if is_plain else {"type": "string", "format": match[2]}


def _tokens(text: str) -> list[str] | None:
    tokens: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            return None
        tokens.append(match.group().strip())
        position = match.end()
    return tokens


class _Parser:
    """union := single (('|' | 'or' | ',') single)*;  single := word [args] '[]'* '?'*."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def at_end(self) -> bool:
        return self._next >= len(self._tokens)

    def _peek_token(self) -> str:
        return "" if self.at_end() else self._tokens[self._next]

    def _take_token(self, *wanted: str) -> bool:
        if self._peek_token().lower() in wanted:
            self._next += 1
            return True
        return False

    def union(self, *, inside: bool = False) -> Fragment | None:
        """Parse a union. `inside` a generic, commas separate arguments and markers do not occur."""
        options: list[Fragment] = []
        while True:
            if inside or not self._read_marker():
                option = self._read_single()
                if option is None:
                    return None
                options.append(option)
            if not self._take_token("|", "or") and (inside or not self._take_token(",")):
                return join_fragments(options)

    def _read_marker(self) -> bool:
        """Skip the marker in "str, optional"; `Optional[str]` is a generic instead."""
        following = self._tokens[self._next + 1 : self._next + 2]
        return (not following or following[0] not in _OPEN) and self._take_token("optional", "required")

    def _read_single(self) -> Fragment | None:
        word = self._peek_token()
        if not word or not (word[0].isalpha() or word[0] == "_"):
            return None
        self._next += 1
        name = word.lower().rpartition(".")[2]
        opener = self._peek_token()
        if opener in _OPEN:
            self._next += 1
            fragment = self._read_generic(name, _OPEN[opener])
        else:
            fragment = self._read_plain(name)
        while fragment is not None and self._take_token("[]"):
            fragment = {"type": "array", "items": fragment}
        if fragment is not None and self._take_token("?"):
            fragment = join_fragments([fragment, {"type": "null"}])
        return fragment

    def _read_plain(self, name: str) -> Fragment | None:
        if name in ("list", "array", "tuple", "set") and self._take_token("of"):
            items = self._read_single()
            return None if items is None else {"type": "array", "items": items}
        return _read_word(name)

    def _read_generic(self, name: str, closer: str) -> Fragment | None:
        if name == "literal":
            return self._read_literal(closer)
        arguments: list[Fragment] = []
        while not self._take_token(closer):
            if self._take_token("..."):
                continue
            argument = self.union(inside=True)
            if argument is None:
                return None
            arguments.append(argument)
            if not self._take_token(",") and self._peek_token() != closer:
                return None
        if name in ("optional", "union"):
            return join_fragments([*arguments, {"type": "null"}] if name == "optional" else arguments)
        return _make_generic(name, arguments)

    def _read_literal(self, closer: str) -> Fragment | None:
        values: list[Any] = []
        while not self._take_token(closer):
            word = self._peek_token()
            if not word or word in _OPEN.values():
                return None
            self._next += 1
            if word[0] in "'\"":
                values.append(word[1:-1])
            elif word != ",":
                number = read_number(word)
                values.append(word if number is None else number)
        return {"enum": values} if values else None


def _read_word(name: str) -> Fragment | None:
    """The schema of a single word, also in the plural ("strings")."""
    joined = name.replace("-", "").replace("_", "")
    for word in (name, name.removesuffix("s"), joined):
        if word in _NAMES:
            return {"type": _NAMES[word]}
        if word in _FORMATS:
            return {"type": "string", "format": _FORMATS[word]}
        if word in _ANY:
            return {}
    return None


def _make_generic(name: str, arguments: list[Fragment]) -> Fragment | None:
    base = _read_word(name)
    if base is None:
        return None
    if base.get("type") == "array" and arguments and arguments[0]:
        return {"type": "array", "items": join_fragments(arguments)}
    if base.get("type") == "object" and len(arguments) == 2 and arguments[1]:
        return {"type": "object", "additionalProperties": arguments[1]}
    return base


def join_fragments(options: list[Fragment]) -> Fragment | None:
    """The union of some fragments, as a list of types if that is enough."""
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
    """The number that a text represents; None if it is not a finite number."""
    for convert in (int, float):
        try:
            value = convert(text)
            return value if math.isfinite(value) else None
        except (ValueError, OverflowError):
            continue
    return None

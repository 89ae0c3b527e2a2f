"""What a description sets apart about the answer: the `Returns` section of a docstring, with its fields and types.

Google, NumPy, Sphinx and Javadoc styles are read, and the same on one line: `Returns: user_id (int), token (str)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from toolyard.model.tool import Schema
from toolyard.words.identifiers import split_ascii_identifier

_ANSWER = r"returns?|return values?|yields?|outputs?|output (?:parameters|fields|format)|responses?"
_INPUT = r"args|arguments|params|parameters|input parameters|inputs?|raises|throws|exceptions"
_HEADING = re.compile(
    rf"(?:^|\n|(?<=[.!?;,)])(?=[ \t]))[ \t]*(?:[#*>-]+[ \t]*)?"
    rf"(?:(?P<answer>{_ANSWER})|(?P<input>{_INPUT})|examples?|notes?|usage|attributes|see also|warnings?|references?)"
    r"\**(?:[ \t]*:(?!:)\**|[ \t]*\n[ \t]*[-=~]{3,}[ \t]*(?=\n|$))"
    r"|(?:^|\n|(?<=\s))[ \t]*[:@](?:(?P<returns>returns?)|(?P<rtype>rtype)|(?:params?|type|raises?|throws)\b[^:\n]*)"
    r"(?::|[ \t])",
    re.IGNORECASE,
)
_MARKED = ("return", "yield", "output", "response", "arg", "param", "input", "raises", "throws", "exceptions")
_NAME = r"[`*\"']{0,3}([A-Za-z_][A-Za-z0-9_]*)[`*\"']{0,3}"
_TYPED = re.compile(rf"(?<![\w.`*\"']){_NAME}[ \t]*\(([^()]{{1,40}})\)")
_LINE = re.compile(rf"[ \t]*(?:[-*\u2022][ \t]+|\d+[.)][ \t]+)?{_NAME}[ \t]*(?::|[ \t][-\u2013][ \t])[ \t]*(.*)")
_KINDLY = re.compile(r"[({]?([A-Za-z_.]+(?:\[[^\n:]*\]|<[^\n:>]*>)?)(?:[ \t]*(?::|--)|\)[ \t]*:?|\}[ \t])[ \t]*")
_NAMES = re.compile(rf"(?:{_NAME}(?:[ \t]*(?:,|,?[ \t]+and[ \t])\s*|\s*$))+")
_KEY = re.compile(r"\s*[\"'`]?([A-Za-z_][A-Za-z0-9_]*)[\"'`]?\??\s*(?::\s*(.*))?", re.DOTALL)
_OBJECT = re.compile(r"(?:an? )?(?:json )?(?:object |dict |dictionary )?\{[\s\"'\w]", re.IGNORECASE)
_CLAUSE = re.compile(r"[^\w\s]|\n|\b(?:and|or|returns?|with|contains?|containing)\b", re.IGNORECASE)
_NOTHING = re.compile(r"\W*(?:none|null|nothing|void|n/a|no content)\b", re.IGNORECASE)
_SEVERAL = re.compile(
    r"(?:json )?(?:list|array|sequence|tuple|set|iterable|iterator|collection|vector)s?(?:\s+of\s+|\s*[\[<])(.+?)[\]>]?"
)
_DROPPED = re.compile(r"^(?:typing\.|t\.)|\s*(?:,.*|\|\s*(?:none|null)|\bor (?:none|null)\b.*)$")
_WRAPPED = re.compile(r"(?:optional|awaitable|promise|future)\s*[\[<](.+)[\]>]")
_SPELT: tuple[tuple[Schema, tuple[str, ...]], ...] = (
    ({"type": "string"}, ("str", "string", "strings", "text", "bytes", "char", "varchar")),
    ({"type": "integer"}, ("int", "integer", "ints", "integers", "long", "int32", "int64")),
    ({"type": "number"}, ("float", "floats", "number", "numbers", "double", "decimal", "numeric", "percentage")),
    ({"type": "boolean"}, ("bool", "boolean", "booleans")),
    ({"type": "array"}, ("list", "array", "tuple", "sequence", "json array")),
    (
        {"type": "object"},
        ("dict", "dicts", "dictionary", "dictionaries", "object", "objects", "map", "mapping", "json"),
    ),
    ({"type": "object"}, ("json object", "json objects")),
    ({"type": "string", "format": "date-time"}, ("datetime", "timestamp", "date-time")),
    ({"type": "string", "format": "date"}, ("date",)),
    ({"type": "string", "format": "uri"}, ("url", "uri")),
    ({"type": "string", "format": "uuid"}, ("uuid",)),
    ({"type": "string", "format": "email"}, ("email",)),
)
_TYPES = {word: schema for schema, words in _SPELT for word in words}
_TYPE_WORDS = _TYPES.keys() - {"text", "date", "url", "uri", "timestamp", "email", "uuid", "percentage"}
"""Those that name no value when they stand where a name may stand."""
_MOST_FIELDS = 16
_MOST_WORDS = 5
_MOST_LETTERS = 4000


class ListedField(msgspec.Struct, frozen=True):
    """A value of the answer that is called by its name."""

    name: str
    kind: Schema
    """The type, if one is said, else empty."""
    text: str = ""


class Sections(msgspec.Struct, frozen=True):
    """A description, taken apart."""

    prose: str
    """What is left without the sections about arguments, errors and the answer."""
    told: str = ""
    """What the section about the answer says, where it names no fields."""
    kind: Schema | None = None
    """The type of what is told."""
    fields: tuple[ListedField, ...] = ()


def read_sections(description: str) -> Sections:
    """The prose of a description, and what its section about the answer says."""
    if ":" not in description and "---" not in description and "@return" not in description:
        return Sections(description)
    low = description.lower()
    if not any(word in low for word in _MARKED):
        return Sections(description)
    marks = list(_HEADING.finditer(description[:_MOST_LETTERS]))
    if not any(mark.lastgroup for mark in marks):
        return Sections(description)
    prose = [description[: marks[0].start()]]
    answer, kind = "", None
    ends = [*(mark.start() for mark in marks[1:]), len(description)]
    for mark, end in zip(marks, ends, strict=True):
        body = description[mark.end() : end]
        if mark["answer"] or mark["returns"]:
            inside, after = _cut_body(body)
            answer = answer or inside
            prose.append(after)
        elif mark["rtype"]:
            kind = type_of(body.strip().split("\n")[0])
        elif not mark["input"] and mark[0].lstrip()[:1] not in ":@":
            prose.append(description[mark.start() : end])
        elif mark["input"]:
            prose.append(_cut_body(body)[1])
    found = _read_body(answer[:_MOST_LETTERS])
    return Sections("\n".join(prose), found.told, found.kind or kind, found.fields)


def _cut_body(text: str) -> tuple[str, str]:
    """A section, and the text behind it that belongs to it no more: after an empty line, and not indented."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    indented = first > 0 and lines[first][:1] in (" ", "\t")
    for at in range(first + 1, len(lines)):
        line = lines[at]
        if line.strip() and not lines[at - 1].strip() and not (indented and line[:1] in (" ", "\t")):
            return "\n".join(lines[:at]), "\n".join(lines[at:])
    return text, ""


def _read_body(text: str) -> Sections:
    if not text.strip() or _NOTHING.match(text):
        return Sections("")
    fields = tuple(_drop_repeated(_read_braced(text))) or tuple(_drop_repeated(_read_typed(text)))
    if fields:
        return Sections("", fields=fields)
    kind = None
    first = _KINDLY.match(text.lstrip())
    if first is not None and (kind := type_of(first[1])) is not None and first[1].lower() in _kind_names(first[1]):
        text = text.lstrip()[first.end() :]
    fields = tuple(_drop_repeated(_read_lines(text))) or tuple(_drop_repeated(_read_list(text)))
    return Sections("", "" if fields else " ".join(text.split()), kind, fields)


def fields_of(text: str) -> tuple[ListedField, ...]:
    """What is called by its name in a sentence: `{"id": 7}`, `id (int) and name (str)`, or `user_id, token`."""
    braced = _read_braced(text) if _OBJECT.match(text) else iter(())
    return (
        tuple(_drop_repeated(braced))
        or tuple(_drop_repeated(_read_typed(text)))
        or tuple(_drop_repeated(_read_list(text)))
    )


def _kind_names(word: str) -> frozenset[str] | set[str]:
    """What is a type where a name could stand: `str`, and everything with brackets."""
    return {word.lower()} if word[-1:] in "]>" else frozenset(_TYPE_WORDS)


def _drop_repeated(fields: Iterator[ListedField]) -> Iterator[ListedField]:
    names: set[str] = set()
    for field in fields:
        name = field.name.strip("_")
        if name in names or not name or name[0].isdigit() or not 0 < len(split_ascii_identifier(name)) <= _MOST_WORDS:
            continue
        if name.lower() in _TYPE_WORDS or len(names) == _MOST_FIELDS:
            continue
        names.add(name)
        yield ListedField(name, field.kind, field.text)


def _read_braced(text: str) -> Iterator[ListedField]:
    """The keys of `{"id": 7, "name": string}`; not those of objects inside."""
    start = text.find("{")
    if start < 0:
        return
    level, part = 0, ""
    for letter in text[start:]:
        level += (letter in "{[(") - (letter in "}])")
        if (letter == "," and level == 1) or not level:
            key = _KEY.fullmatch(part)
            if key is not None:
                yield ListedField(key[1], type_of(key[2] or "") or _type_of_value(key[2] or ""))
            part = ""
        elif level > 1 or letter != "{":
            part += letter
        if not level:
            return


def _type_of_value(text: str) -> Schema:
    text = text.strip()
    if text[:1] in ("[", "{"):
        return {"type": "array" if text[0] == "[" else "object"}
    if text in ("true", "false", "True", "False"):
        return {"type": "boolean"}
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        return {"type": "number" if "." in text else "integer"}
    return {}


def _read_typed(text: str) -> Iterator[ListedField]:
    """`user_id (int): the id`: names with a type behind them."""
    for match in _TYPED.finditer(text):
        kind = type_of(match[2])
        if kind is not None:
            told = re.match(r"\s*[:\u2013-]?\s*([^\n,;]*)", text[match.end() :])
            yield ListedField(_whole_name(text[: match.start()], match[1]), kind, told[1].strip() if told else "")


def _whole_name(before: str, name: str) -> str:
    """`job_handle` for the name in `a job handle (string)`; what is no plain word is a name by itself."""
    if not name.isalpha() or not name.islower():
        return name
    clause = _CLAUSE.split(before[-60:])[-1].split()
    words = [word for word in clause if word not in ("a", "an", "the", "its", "their")]
    return "_".join((*words, name)) if len(words) < _MOST_WORDS and all(map(_is_plain, words)) else name


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha()


def _read_lines(text: str) -> Iterator[ListedField]:
    """`user_id: the id`, and `user_id : int`, one a line; deeper lines say more about the one before."""
    lines = [line for line in text.split("\n") if line.strip()]
    found = [(len(line) - len(line.lstrip()), match) for line in lines if (match := _LINE.fullmatch(line))]
    margin = min((indent for indent, _ in found), default=0)
    for indent, match in found:
        if indent == margin:
            kind = type_of(match[2])
            yield ListedField(match[1], kind or {}, "" if kind else match[2].strip())


def _read_list(text: str) -> Iterator[ListedField]:
    """`short_url, expires_at`: names and nothing else, at least one of which cannot be a plain word."""
    text = text.strip().rstrip(".")
    names = re.findall(_NAME, text) if _NAMES.fullmatch(text) else []
    names = [name for name in names if name != "and"]
    if any("_" in name or re.search("[a-z][A-Z]", name) for name in names):
        yield from (ListedField(name, {}) for name in names)


def type_of(text: str) -> Schema | None:
    """The schema that a type stands for: `int`, `List[str]`, `an array of numbers`, `string | null`."""
    text = " ".join(text.lower().strip("`'\"*. \t\n").split())
    if not text or len(text) > 60:
        return None
    text = re.sub("^(?:an?|the) ", "", text)
    wrapped = _WRAPPED.fullmatch(text)
    text = wrapped[1] if wrapped else text
    several = _SEVERAL.fullmatch(text)
    if several is not None:
        items = type_of(several[1])
        if items is None and text.endswith(f" of {several[1]}"):
            return None  # a list of users: a noun, and no type
        return {"type": "array", "items": dict(items)} if items else {"type": "array"}
    if text.endswith("[]"):
        items = type_of(text[:-2])
        return {"type": "array", "items": dict(items)} if items else {"type": "array"}
    if re.match(r"(?:dict|map|mapping|record|object)\s*[\[<{]", text):
        return {"type": "object"}
    text = _DROPPED.sub("", _DROPPED.sub("", text)).strip("`'\" ")
    known = _TYPES.get(text)
    return dict(known) if known is not None else None

"""The values that nouns stand for, and the things that have an id, a name and more."""

from __future__ import annotations

from typing import Any

from toolyard.insight.output_tool import Seen
from toolyard.insight.output_words import (
    FORMATS,
    MEASURED,
    NAMELESS,
    NUMBERS,
    TITLED,
    VAGUE,
    WHOLE,
    is_plural,
    plural,
    singular,
)
from toolyard.model.tool import Schema

_HOW = frozenset(
    (
        *("min", "max", "num", "number", "start", "end", "from", "to", "include", "exclude", "limit", "page", "per"),
        *("sort", "order", "offset", "top", "with", "has", "is", "radius", "query", "keyword", "keywords", "search"),
        *("filter", "filters", "format", "unit", "units", "lang", "api", "token", "key", "auth", "verbose", "field"),
        *("fields", "result", "results", "quantity", "count", "size", "cursor", "within", "distance", "preference"),
        *("preferences", "option", "options", "criteria", "user", "session", "callback", "mode", "range", "by", "flag"),
        *("only", "text", "input", "where", "return", "special", "confirm", "id", "ids", "uuid", "qty", "password"),
    )
)
"""First and last words of parameters that say how to look, not what the things looked for are like."""
_PLAIN = frozenset(
    ("city", "country", "location", "date", "year", "genre", "author", "artist", "symbol", "isbn", "email")
)
_NAMED_NUMBERS = frozenset(
    (
        *("phone", "tracking", "account", "serial", "confirmation", "card", "flight", "order", "room", "transaction"),
        *(
            "reference",
            "invoice",
            "ticket",
            "booking",
            "case",
            "policy",
            "registration",
            "receipt",
            "license",
            "passport",
        ),
    )
)
_TEXTS = frozenset(("time", "status", "type", "date", "day", "name", "id", "category", "class", "winner", "method"))
_MOST_PARTS = 8


def value(noun: str, text: str, *, many: bool = False, number: bool = False) -> Schema:
    """The schema of what a noun stands for; a number if nothing else is known and `number` says so."""
    described: dict[str, Any] = {"description": text.rstrip(".") + "."}
    if many:
        return {"type": "array", "items": _plain(singular(noun), text, False), **described}
    if is_plural(noun) and noun not in MEASURED and not number:
        return {"type": "array", "items": _plain(singular(noun), text, False), **described}
    return {**_plain(noun, text, number), **described}


def _plain(noun: str, text: str, number: bool) -> Schema:
    if noun == "number" and any(f"{word} number" in text for word in _NAMED_NUMBERS):
        return {"type": "string"}
    if noun == "timestamp" and ("unix" in text or "epoch" in text):
        return {"type": "integer"}
    if noun == "flag" and "success flag" in text:
        return {"type": "boolean"}
    if noun in WHOLE or (noun == "number" and "number of" in text):
        return {"type": "integer"}
    if noun in NUMBERS or noun in MEASURED or noun == "number":
        return {"type": "number"}
    if noun in FORMATS:
        return {"type": "string", "format": FORMATS[noun]}
    if number and noun not in _TEXTS - {"time"}:
        return {"type": "number"}
    return {"type": "string"}


def thing(seen: Seen, words: list[str], *, many: bool, text: str) -> dict[str, Schema]:
    """A thing, or a list of them: its id, what it is called, and what description and parameters tell of it."""
    noun = words[-1]
    known = _WELL_KNOWN.get(noun)
    if known is not None:
        name, schema, always = known
        told = _parts(seen) or {seen.call(*key.split("_")): sub for key, sub in schema.items()}
        one: Schema = {"type": "object", "properties": told}
        if always or many:
            return {seen.call(name): {"type": "array", "items": one, "description": f"{text}."}}
        return {seen.call(*words): {**one, "description": f"{text}."}}
    properties = _properties(seen, noun, many)
    if many:
        items = {"type": "object", "properties": properties}
        return {seen.call(*words[:-1], plural(noun)): {"type": "array", "items": items, "description": f"{text}."}}
    return {seen.call(*words): {"type": "object", "properties": properties, "description": f"{text}."}}


def facts(seen: Seen, text: str) -> Schema:
    """Several values, with the names that the description gives them."""
    made: Schema = {"type": "object", "description": f"{text}."}
    parts = _parts(seen)
    return {**made, "properties": parts} if parts else made


def _parts(seen: Seen) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for phrase in seen.reading.parts[:_MOST_PARTS]:
        words = list(phrase.words[-2:])
        if phrase.head not in VAGUE and seen.call(*words) not in seen.parameters:
            found.setdefault(seen.call(*words), value(words[-1], f"The {phrase.text}", many=phrase.many))
    return found


def _properties(seen: Seen, noun: str, many: bool) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    given = seen.id_of(noun)
    kind: Any = given[1].get("type", "string") if given is not None and not many else "string"
    found[seen.call(noun, "id")] = {"type": kind, "description": f"The id of the {noun}."}
    title = "title" if noun in TITLED else "name"
    if noun not in NAMELESS:
        found[seen.call(title)] = {"type": "string", "description": f"The {title} of the {noun}."}
    found.update((name, schema) for name, schema in _parts(seen).items() if name not in found)
    for name, (words, schema) in seen.parameters.items():
        if _is_attribute(words, schema, noun, many) and name not in found:
            if words in ([noun, "name"], [noun, "title"], ["name"], ["title"]):
                continue
            kept: dict[str, Any] = {key: schema[key] for key in ("type", "format") if isinstance(schema.get(key), str)}
            kept.setdefault("type", "string")
            found[name] = {**kept, "description": f"The {' '.join(words)} of the {noun}."}
    return found


def _is_attribute(words: list[str], schema: Schema, noun: str, many: bool) -> bool:
    if words[0] in _HOW or words[-1] in _HOW:
        return False
    if not many and words[0] != noun and (len(words) > 1 or words[0] not in _PLAIN):
        return False
    return schema.get("type") in ("string", "number", "integer", None)


def _text(words: str) -> Schema:
    return {"type": "string", "description": words}


def _number(words: str) -> Schema:
    return {"type": "number", "description": words}


_WEATHER = {
    "temperature": _number("The temperature."),
    "condition": _text("What the weather is like, in a word or two."),
}
_WELL_KNOWN: dict[str, tuple[str, dict[str, Schema], bool]] = {
    "news": (
        "articles",
        {"title": _text("The headline."), "url": _text("Where the article is."), "source": _text("Who published it.")},
        True,
    ),
    "weather": ("weather", _WEATHER, False),
    "forecast": (
        "forecast",
        {"date": {"type": "string", "format": "date", "description": "Of which day."}, **_WEATHER},
        True,
    ),
    "coordinate": (
        "coordinates",
        {"latitude": _number("Degrees north."), "longitude": _number("Degrees east.")},
        False,
    ),
    "direction": ("directions", {"instruction": _text("What to do."), "distance": _number("How far.")}, True),
}
"""What everybody means by a word: how it is called, what it has, and whether there are always several."""

"""What a tool says about itself, read for the rules: what it does, to what, and the schema of a value of some name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from toolyard.insight.outputs.grammar import Phrase, is_known
from toolyard.insight.outputs.phrases import Reading, read_description
from toolyard.insight.outputs.words import (
    ABOUT,
    AMBIGUOUS,
    DOERS,
    ENTITIES,
    FACTS,
    FORMATS,
    LAST_VERBS,
    LINKS,
    LISTS,
    MEASURED,
    NAMELESS,
    NUMBERS,
    TITLED,
    VAGUE,
    VERBS,
    WHOLE,
    Deed,
    base_verb,
    is_plural,
    joined,
    plural,
    singular,
    words_of,
)
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Schema, Tool

_SERVICE = re.compile(r"^[A-Za-z]+_\d+_(?=[A-Za-z])")
"""As in `Flights_4_SearchFlights`: the name of a family of tools, and which of them."""
_PERFORM = frozenset(("perform", "run", "conduct", "execute", "do", "handle", "manage", "apply", "make", "carry"))
_BY_METHOD: dict[str, str] = {"get": "get", "post": "create", "put": "update", "patch": "update", "delete": "delete"}
_HEADS: dict[str, str] = {"analysis": "analyze", "calculation": "calculate", "conversion": "convert"}
_MOST_WORDS = 4


class Seen:
    """What name, description and parameters of a tool say."""

    def __init__(self, tool: Tool) -> None:
        self.reading: Reading = read_description(tool.description)
        self.parameters = _read_parameters(tool.parameters)
        self.camel = _is_camel(self.parameters)
        self.name_verb, self.object = _read_name(tool.name)
        self._starts = (words_of(tool.name)[:1], words_of(tool.description[:40])[:1])
        if self.name_verb is None and self._same_start() and self.reading.verb is None:
            self.object = self.object[1:]
        elif self.name_verb in AMBIGUOUS and self.reading.verb not in (None, self.name_verb):
            self.object = _read_nouns(tool.name)
        method = tool.binding.method.lower() if isinstance(tool.binding, RestBinding) else ""
        self.verb = self._choose_verb() or _BY_METHOD.get(method, "get")
        self.deed: Deed = VERBS.get(self.verb, "get")
        if self.reading.asks or (self.reading.returns_flag and self.deed not in ("make", "change")):
            self.deed = "ask"

    def _same_start(self) -> bool:
        """True if name and description begin with the same word; it is a verb, even if it is not known."""
        named, told = self._starts
        return bool(named) and bool(told) and told[0] in (named[0], f"{named[0]}s", f"{named[0]}es")

    def _choose_verb(self) -> str | None:
        told, named = self.reading.verb, self.name_verb
        things = self.reading.things
        if told in _PERFORM and things and things[0].head in DOERS:
            told = DOERS[things[0].head]
        if named in _PERFORM and self.object and self.object[-1] in DOERS:
            named = DOERS[self.object[-1]]
        if named == "return" and told == "return":
            return "change"
        if named in AMBIGUOUS and told is not None and told != named:
            named = None
        if named is None and self._same_start() and told is None:
            return "change"
        if named is None or told is None:
            return named or told
        kind, other = VERBS[named], VERBS[told]
        if kind == "get" and told in ("book", "reserve", "buy", "purchase"):
            return told
        if (kind == "find" and other == "list") or (named in ("login", "signin") and other == "ask"):
            return told
        if named != "check" and kind == "get" and other in ("count", "draw", "turn", "study", "list", "find"):
            return told
        if kind in ("make", "change", "draw") and other in ("get", "list", "find", "count", "study", "turn"):
            return told
        # "validate" and the like are more than the "check" of the other.
        return told if named == "check" and other == "ask" else named

    @property
    def things(self) -> tuple[Phrase, ...]:
        """What the answer is about, as the description says; the name of the tool, if it says nothing."""
        unknown = not self.reading.understood and self.name_verb is None and not any(map(is_known, self.object))
        if unknown and not self.reading.returned:
            return ()
        found = self.reading.returned or self.reading.things
        if self.reading.verb is None and self.name_verb is not None and self.object and not self.reading.returned:
            found = ()
        if not found and self.object:
            found = (Phrase(tuple(self.object), (), is_plural(self.object[-1])),)
        return found

    def words_for(self, phrase: Phrase) -> list[str]:
        """How to call a thing: by the description, or by the longer words of the tool's name if they end alike."""
        told = [word for word in phrase.words if word not in LISTS] or list(phrase.words)
        named = self.object
        if phrase.head == "results" and len(told) > 1 and phrase in self.reading.returned:
            return told[-3:]
        if named and (phrase.head in VAGUE or (phrase.head == "identifier" and named[-1] == "id")):
            return named[-3:]
        alike = bool(named) and singular(named[-1]) == singular(told[-1])
        if alike and len(named) < len(told) and self.is_entity(singular(told[-1])):
            return named
        if named and len(told) == 1 and len(named) > 1 and singular(named[-1]) == singular(told[-1]):
            return named[-3:]
        return told[-3:]

    def call(self, *words: str) -> str:
        """Words as a property of this tool's answer."""
        if len(words) > _MOST_WORDS:
            words = (words[0], *words[1 - _MOST_WORDS :])
        return joined(words, self.camel) or "result"

    def id_of(self, noun: str) -> tuple[str, Schema] | None:
        """The parameter that says which thing of a kind is meant."""
        for name, (words, schema) in self.parameters.items():
            if words[-1] in ("id", "uuid", "identifier") and (len(words) == 1 or noun in map(singular, words[:-1])):
                return name, schema
        return None

    def is_entity(self, noun: str) -> bool:
        """True for a noun of things that have an id: a common one, or one that a parameter has the id of."""
        if noun in ENTITIES:
            return True
        return any(
            len(words) > 1 and words[-1] in ("id", "ids", "name", "title") and words[-2] == noun
            for words, _ in self.parameters.values()
        )

    def has_number(self) -> bool:
        """True if there is a number among the parameters."""
        return any(schema.get("type") in ("number", "integer") for _, schema in self.parameters.values())


def _read_parameters(schema: Schema) -> dict[str, tuple[list[str], Schema]]:
    properties = schema.get("properties")
    found: dict[str, tuple[list[str], Schema]] = {}
    for name, sub in properties.items() if isinstance(properties, dict) else ():
        words = words_of(name)
        if words:
            found[name] = (words, sub if isinstance(sub, dict) else {})
    return found


def _is_camel(parameters: dict[str, Any]) -> bool:
    camel = sum(1 for name in parameters if re.search("[a-z][A-Z]", name) and "_" not in name)
    return camel > sum(1 for name in parameters if "_" in name)


def _read_name(name: str) -> tuple[str | None, list[str]]:
    """The verb in the name of a tool, and the words of what it is done to."""
    parts = [part for part in re.split(r"[./:]+", _SERVICE.sub("", name)) if words_of(part)]
    if not parts:
        return None, []
    words = _without_numbers(words_of(parts[-1]))
    context = _without_numbers(words_of(parts[-2])) if len(parts) > 1 else []
    verb, thing = _verb_and_object(words)
    if not thing and context:
        # flight.book: the thing stands before the dot.
        other, thing = _verb_and_object(context)
        verb = verb or other
    elif len(thing) == 1 and thing[0] in VAGUE and context:
        thing = [*[word for word in context if word not in DOERS][-2:], *thing]
    return verb, thing


def _read_nouns(name: str) -> list[str]:
    """The words of the last part of a name, with nothing taken for a verb."""
    parts = [part for part in re.split(r"[./:]+", _SERVICE.sub("", name)) if words_of(part)]
    return list(_read_object(_without_numbers(words_of(parts[-1])))) if parts else []


def _verb_and_object(words: list[str]) -> tuple[str | None, list[str]]:
    for place, word in enumerate(words[:2]):
        verb = base_verb(word)
        if verb is not None and (word == verb or place == 0) and not (place == 1 and len(words) == 2):
            return verb, list(_read_object(words[place + 1 :]))
    if words and words[-1] in DOERS:
        return DOERS[words[-1]], words[:-1]
    if len(words) > 1 and words[-1] in LAST_VERBS:
        return words[-1], words[:-1]
    return None, list(_read_object(words))


def _read_object(words: list[str]) -> Iterator[str]:
    for place, word in enumerate(words):
        if word in LINKS and place:
            return
        if word not in LINKS and word not in ("all", "the", "a", "an", "my", "new"):
            yield word


def _without_numbers(words: list[str]) -> list[str]:
    return [word for word in words if not word.isdigit()] or words


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


def value_schema(noun: str, text: str, *, many: bool = False, number: bool = False) -> Schema:
    """The schema of what a noun stands for; a number if nothing else is known and `number` says so."""
    described: dict[str, Any] = {"description": text.rstrip(".") + "."}
    if many:
        return {"type": "array", "items": _plain_schema(singular(noun), text, False), **described}
    if is_plural(noun) and noun not in MEASURED and not number:
        return {"type": "array", "items": _plain_schema(singular(noun), text, False), **described}
    return {**_plain_schema(noun, text, number), **described}


def _plain_schema(noun: str, text: str, number: bool) -> Schema:
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


def thing_properties(seen: Seen, words: list[str], *, many: bool, text: str) -> dict[str, Schema]:
    """A thing, or a list of them: its id, what it is called, and what description and parameters tell of it."""
    noun = words[-1]
    known = _WELL_KNOWN.get(noun)
    if known is not None:
        name, schema, always = known
        told = _part_properties(seen) or {seen.call(*key.split("_")): sub for key, sub in schema.items()}
        one: Schema = {"type": "object", "properties": told}
        if always or many:
            return {seen.call(name): {"type": "array", "items": one, "description": f"{text}."}}
        return {seen.call(*words): {**one, "description": f"{text}."}}
    properties = _noun_properties(seen, noun, many)
    if many:
        items = {"type": "object", "properties": properties}
        return {seen.call(*words[:-1], plural(noun)): {"type": "array", "items": items, "description": f"{text}."}}
    return {seen.call(*words): {"type": "object", "properties": properties, "description": f"{text}."}}


def facts_schema(seen: Seen, text: str) -> Schema:
    """Several values, with the names that the description gives them."""
    made: Schema = {"type": "object", "description": f"{text}."}
    parts = _part_properties(seen)
    return {**made, "properties": parts} if parts else made


def _part_properties(seen: Seen) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for phrase in seen.reading.parts[:_MOST_PARTS]:
        words = list(phrase.words[-2:])
        if phrase.head not in VAGUE and seen.call(*words) not in seen.parameters:
            found.setdefault(seen.call(*words), value_schema(words[-1], f"The {phrase.text}", many=phrase.many))
    return found


def _noun_properties(seen: Seen, noun: str, many: bool) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    given = seen.id_of(noun)
    kind: Any = given[1].get("type", "string") if given is not None and not many else "string"
    found[seen.call(noun, "id")] = {"type": kind, "description": f"The id of the {noun}."}
    title = "title" if noun in TITLED else "name"
    if noun not in NAMELESS:
        found[seen.call(title)] = {"type": "string", "description": f"The {title} of the {noun}."}
    found.update((name, schema) for name, schema in _part_properties(seen).items() if name not in found)
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


def _text_schema(words: str) -> Schema:
    return {"type": "string", "description": words}


def _number_schema(words: str) -> Schema:
    return {"type": "number", "description": words}


_WEATHER = {
    "temperature": _number_schema("The temperature."),
    "condition": _text_schema("What the weather is like, in a word or two."),
}
_WELL_KNOWN: dict[str, tuple[str, dict[str, Schema], bool]] = {
    "news": (
        "articles",
        {
            "title": _text_schema("The headline."),
            "url": _text_schema("Where the article is."),
            "source": _text_schema("Who published it."),
        },
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
        {"latitude": _number_schema("Degrees north."), "longitude": _number_schema("Degrees east.")},
        False,
    ),
    "direction": (
        "directions",
        {"instruction": _text_schema("What to do."), "distance": _number_schema("How far.")},
        True,
    ),
}
"""What everybody means by a word: how it is called, what it has, and whether there are always several."""


_WEATHERS = ("weather", "condition", "conditions", "forecast", "report", "update")
_OFFERS = ("recommendation", "suggestion", "option", "opening", "listing", "result")
"""Things of another kind, when there are several to choose from."""
_AMOUNTS = ("number", "amount", "quantity", "total")


def of_phrase(seen: Seen, phrase: Phrase, *, many: bool, number: bool = False) -> dict[str, Schema]:
    """What a noun phrase stands for: a value, a thing with its parts, or a list of them."""
    words = seen.words_for(phrase)
    head = words[-1]
    if phrase.head in VAGUE:
        words, head, many = _find_subject(seen, phrase, words)
    if phrase.head in _AMOUNTS and phrase.of:
        return amount_properties(seen, phrase)
    noun = singular(head)
    text = f"The {phrase.text}"
    if "weather" in (*words, *phrase.words, *phrase.of) and (head in FACTS or head in VAGUE or head in _WEATHERS):
        return thing_properties(seen, ["forecast" if "forecast" in words else "weather"], many=False, text=text)
    if head in FACTS and (phrase.head in VAGUE or not seen.is_entity(noun)):
        return {seen.call(*words): facts_schema(seen, text)}
    if many and noun in _OFFERS and len(words) > 1 and seen.is_entity(singular(words[-2])):
        (made,) = thing_properties(seen, [singular(words[-2])], many=True, text=text).values()
        return {seen.call(*words): made}
    if phrase.of and not many and head in FORMATS and phrase.head not in VAGUE:
        return {seen.call(*words): value_schema(head, text)}
    if seen.is_entity(noun) or noun in ("news", "weather", "forecast", "coordinate", "direction"):
        return thing_properties(seen, [*words[:-1], noun], many=many, text=text)
    if many and not number:
        return {seen.call(*words[:-1], plural(head)): value_schema(head, text, many=True)}
    return {seen.call(*words): value_schema(head, text, number=number)}


def amount_properties(seen: Seen, phrase: Phrase) -> dict[str, Schema]:
    """How many of something, or how much."""
    number = phrase.head == "number"
    name = seen.call("number", "of", *phrase.of[-2:]) if number else seen.call(*phrase.of[-2:])
    return {name: value_schema("number" if number else "amount", f"The {phrase.text}")}


def _find_subject(seen: Seen, phrase: Phrase, named: list[str]) -> tuple[list[str], str, bool]:
    """What information is about: the thing itself if it is one, else as the tool's name has it."""
    about = [*(word for word in phrase.of[:-1] if word in seen.object), *phrase.of[-1:]] or list(phrase.words[:-1])
    if phrase.head not in ABOUT:
        return (named, named[-1], is_plural(named[-1])) if named else (list(phrase.words), phrase.head, False)
    own = [word for word in named if word not in VAGUE]
    kind = [word for word in phrase.words[:-1] if word not in ABOUT]
    if kind and phrase.of and not seen.is_entity(singular(kind[-1])) and own and own[-1] != singular(about[-1]):
        return named, named[-1], False  # milk production data of a farm is no farm
    if about and seen.is_entity(singular(about[-1])):
        several = is_plural(about[-1]) and not seen.id_of(singular(about[-1]))
        return about, about[-1], several
    if own and seen.is_entity(singular(own[-1])):
        return own, own[-1], is_plural(own[-1])
    return (named, named[-1], False) if named else (list(phrase.words), phrase.head, False)

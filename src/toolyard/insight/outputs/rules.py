"""Output schemas by rules: what a description states is returned, else what verb, nouns and parameters suggest.

`make eval-outputs` says how often that is right. A rule that gives nothing there has no place here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import dropwhile

from toolyard.insight.outputs.description import (
    ABOUT,
    ENTITIES,
    FILLERS,
    LINKS,
    LISTS,
    VAGUE,
    Phrase,
    Reading,
    is_known_noun,
    plain_schema,
    read_description,
    word_set,
)
from toolyard.insight.outputs.sections import ListedField
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import INFERRED, Schema, Tool
from toolyard.words.identifiers import (
    ANSWER_BY_VERB,
    Answer,
    base_verb,
    is_plural,
    plural,
    singular,
    split_ascii_identifier,
)

Properties = dict[str, Schema]

_SERVICE = re.compile(r"^[A-Za-z]+_\d+_(?=[A-Za-z])")
"""As in `Flights_4_SearchFlights`: the name of a family of tools, and which of them."""
_BY_METHOD = {"get": "get", "post": "create", "put": "update", "patch": "update", "delete": "delete"}
_AMBIGUOUS = word_set(
    "order project record rate schedule match review plan file test forecast post book stock request charge trade "
    "grant log store profile group cluster hash round format filter access display view show play call share mark "
    "lock drop run study export import offer rank sum average issue design plot place rent fund sign query load "
    "track"
)
"""Verbs that are as often nouns: `order_status` orders nothing."""
_DEALS = {
    "book": "booking",
    "reserve": "reservation",
    **dict.fromkeys(("order", "buy", "purchase", "place"), "order"),
    **dict.fromkeys(("pay", "transfer", "deposit", "withdraw", "donate", "charge", "refund"), "transaction"),
    "subscribe": "subscription",
    "enroll": "enrollment",
    "apply": "application",
}
"""What comes into being when a thing is not itself made."""
_CONVERTED = {"translate": "translated_text", "summarize": "summary", "transcribe": "transcript", "hash": "hash"}
_IRREGULAR = {"rewrite": "rewritten", "split": "split", "crop": "cropped", "trim": "trimmed", "format": "formatted"}
_IDENTIFIERS = word_set("id identifier uuid reference number code token key receipt")
"""Words for what a thing is known by: one is enough."""
_NO_NEWS = word_set("response confirmation status outcome success state")
_HOW = word_set(
    "min max num number start end from to include exclude limit page per sort order offset top with has is radius "
    "query keyword search filter filters format unit units lang api token key auth field fields results count size "
    "cursor options mode by only text input id ids uuid password"
)
"""First and last words of parameters that say how to look, not what the things looked for are like."""
_MOST = 6
_MOST_WORDS = 4


def output_schema(tool: Tool) -> Schema:
    """An object schema of what the tool answers, marked as inferred by rules."""
    facts = _Facts(tool)
    properties = facts.list_properties() or {facts.join("result"): _value_schema("result", "What the tool answers")}
    return {"type": "object", "properties": properties, INFERRED: "rules"}


class _Facts:
    """What name, description and parameters of a tool say."""

    def __init__(self, tool: Tool) -> None:
        self.reading: Reading = read_description(tool.description)
        self.parameters = _read_parameters(tool.parameters)
        self.camel = _is_camel(self.parameters)
        self.name_verb, self.object = _read_name(tool.name, self.reading.verb)
        method = tool.binding.method.lower() if isinstance(tool.binding, RestBinding) else ""
        starts = split_ascii_identifier(tool.name)[:1], split_ascii_identifier(tool.description[:40])[:1]
        # A word with which both begin is a verb, even if it is not known.
        unknown = "execute" if starts[0] and starts[1] in (starts[0], [f"{starts[0][0]}s"]) else None
        self.verb = self._choose_verb() or unknown or _BY_METHOD.get(method, "get")
        self.answer: Answer = ANSWER_BY_VERB[self.verb]
        if self.reading.asks or (self.reading.returns_flag and self.answer not in ("id", "success")):
            self.answer = "flag"

    def _choose_verb(self) -> str | None:
        """The verb of the name, unless that of the description says more."""
        named, told = self.name_verb, self.reading.verb
        if named is None or told is None:
            return named or told
        kind, other = ANSWER_BY_VERB[named], ANSWER_BY_VERB[told]
        if kind == "thing" and other in ("number", "converted", "list"):
            return told
        return told if kind in ("id", "success") and other in ("thing", "list", "number", "converted") else named

    @property
    def things(self) -> tuple[Phrase, ...]:
        """What the answer is about, as the description says; the name of the tool, if it says nothing."""
        if not self.reading.understood and self.name_verb is None and not any(map(is_known_noun, self.object)):
            return self.reading.returned
        found = self.reading.returned or (self.reading.things if self.reading.verb or self.name_verb is None else ())
        if not found and self.object:
            found = (Phrase(tuple(self.object), (), is_plural(self.object[-1])),)
        return found

    def list_properties(self) -> Properties:
        """What is stated; else what tools with such a verb answer."""
        if self.reading.fields:
            return {field.name: _field_schema(field) for field in self.reading.fields}
        if self.answer == "flag":
            return {self.join(*self._name_flag()): {"type": "boolean", "description": "Yes or no."}}
        if self.answer not in ("id", "success", "converted"):
            return self._list_named()
        stated = [phrase for phrase in self.reading.returned[:_MOST] if self._adds_meaning(phrase)]
        said = {name: schema for phrase in stated for name, schema in self.describe(phrase).items()}
        if self.answer == "converted":
            return said or self._list_converted()
        guessed = self._list_created() if self.answer == "id" else self._list_changed()
        if not said:
            return guessed
        if any(split_ascii_identifier(name)[-1] in _IDENTIFIERS for name in said):
            return said
        return {**said, **{name: schema for name, schema in guessed.items() if name.lower().endswith("id")}}

    def _adds_meaning(self, phrase: Phrase) -> bool:
        """False for what says no more than that something was done: the details of it, or the thing that was made."""
        made = [thing.head for thing in self.reading.things[:1]] + self.object[-1:]
        if phrase.head in VAGUE or (phrase.head in _NO_NEWS and len(phrase.words) == 1):
            return False
        return self.answer != "id" or singular(phrase.head) not in map(singular, made)

    def _list_named(self) -> Properties:
        found: Properties = {}
        many = self.answer == "list"
        for phrase in self.things[: 1 if many else _MOST]:
            found.update(self.describe(phrase, many=many and phrase.head not in VAGUE, number=self.answer == "number"))
        if self.reading.kind is not None and len(found) == 1:
            ((name, schema),) = found.items()
            found = {name: {"description": schema["description"], **self.reading.kind}}
        return found

    def _name_flag(self) -> list[str]:
        if self.name_verb in ("is", "are", "has", "have", "can", "does", "should"):
            return [self.name_verb, *self.object]
        asks = self.reading.asks.split()
        place = next((at for at, word in enumerate(asks) if word in ("is", "are", "contains", "exists", "has")), 0)
        rest = [word for word in _read_object(asks[place + 1 :]) if word not in FILLERS]
        if place and rest:
            return ["is" if asks[place] == "are" else asks[place], *rest[-2:]]
        return ["is", "valid"] if self.verb in ("validate", "verify") else ["result"]

    def _list_created(self) -> Properties:
        """Something comes into being: its id, and how that went."""
        phrase = next(iter(self.reading.things or self.things), None)
        noun = _DEALS.get(self.verb) or (singular(phrase.head) if phrase is not None else "")
        if phrase is not None and noun in ABOUT and len(phrase.words) > 1:
            noun = singular(phrase.words[-2])
        adds = self.verb in ("add", "assign", "join", "insert", "invite", "save", "apply")
        if not noun or (adds and (self.id_of(noun) or noun not in ENTITIES)):
            return self._list_changed()
        status = {"type": "string", "description": f"How the {noun} stands."}
        return {self.join(noun, "id"): _id_schema(noun), self.join("status"): status}

    def _list_changed(self) -> Properties:
        """Something is done: to what, and whether it worked."""
        phrase = next(iter(self.reading.things or self.things), None)
        nouns = self.object if phrase is None else [*phrase.of[-1:], phrase.head, *self.object]
        known = next(filter(None, map(self.id_of, map(singular, nouns))), None)
        found: Properties = {} if known is None else {known[0]: {**_id_schema(singular(nouns[0])), **known[1]}}
        return {**found, self.join("success"): {"type": "boolean", "description": "True if it was done."}}

    def _list_converted(self) -> Properties:
        """One thing is turned into another of the same kind."""
        if self.verb in _CONVERTED:
            name = _CONVERTED[self.verb]
            return {self.join(*name.split("_")): {"type": "string", "description": f"The {name.replace('_', ' ')}."}}
        phrase = next(iter(self.reading.things or self.things), None)
        words = list(phrase.words[-2:]) if phrase is not None else ["result"]
        done = _IRREGULAR.get(self.verb) or self.verb + ("d" if self.verb.endswith("e") else "ed")
        number = self.verb in ("convert", "round") and self._has_number()
        words = ["amount"] if number and "currency" in words else words
        schema = _value_schema(words[-1], f"The {' '.join(words)}, {done}", number=number)
        return {self.join(done, *words): schema}

    def describe(self, phrase: Phrase, *, many: bool = False, number: bool = False) -> Properties:
        """What a noun phrase stands for: a value, a thing with its parts, or a list of them."""
        words = [word for word in phrase.words if word not in LISTS] or list(phrase.words)
        many = many or phrase.many
        if phrase.head in VAGUE:
            words, many = self._find_subject(phrase)
        text = f"The {phrase.text}"
        if phrase.head == "number" and phrase.of:
            return {self.join("number", "of", *phrase.of[-2:]): {"type": "integer", "description": f"{text}."}}
        owners = [*phrase.of[-1:], *(thing.head for thing in self.reading.things)]
        if words in (["id"], ["identifier"]) and owners:
            words = [singular(owners[0]), *words]
        noun = singular(words[-1])
        if not self.is_entity(noun) or number:
            name = self.join(*words[-3:-1], plural(words[-1]) if many and not number else words[-1])
            return {name: _value_schema(words[-1], text, many=many, number=number)}
        thing: Schema = {"type": "object", "properties": self._list_attributes(noun, many)}
        if many:
            return {self.join(*words[:-1], plural(noun)): {"type": "array", "items": thing, "description": f"{text}."}}
        return {self.join(*words[:-1], noun): {**thing, "description": f"{text}."}}

    def _find_subject(self, phrase: Phrase) -> tuple[list[str], bool]:
        """What information is about: the thing itself if it is one, else as the tool is called; and whether several."""
        about = list(phrase.of) or [word for word in phrase.words[:-1] if word not in VAGUE]
        if phrase.head in ABOUT and about and self.is_entity(singular(about[-1])):
            return about[-1:], is_plural(about[-1]) and not self.id_of(singular(about[-1]))
        own = [word for word in self.object if word not in ABOUT]
        if phrase.head in ABOUT and own and self.is_entity(singular(own[-1])):
            return own, is_plural(own[-1])
        return self.object or list(phrase.words), bool(self.object) and is_plural(self.object[-1])

    def _list_attributes(self, noun: str, many: bool) -> Properties:
        given = self.id_of(noun)
        found = {self.join(noun, "id"): {**_id_schema(noun), **(given[1] if given and not many else {})}}
        found[self.join("name")] = {"type": "string", "description": f"The name of the {noun}."}
        for name, (words, schema) in self.parameters.items():
            own = many or words[0] == noun
            if own and words[0] not in _HOW and words[-1] not in _HOW and schema.get("type") in _SCALARS:
                found.setdefault(name, {**_copy_type(schema), "description": f"The {' '.join(words)} of the {noun}."})
        return found

    def join(self, *words: str) -> str:
        """Words as the name of a property, spelt as the parameters are."""
        if len(words) > _MOST_WORDS:
            words = (words[0], *words[1 - _MOST_WORDS :])
        parts = [re.sub(r"[^0-9a-z]", "", word) for word in words]
        parts = list(dropwhile(lambda part: part[0].isdigit(), filter(None, parts)))
        if self.camel:
            return "".join(part.capitalize() if place else part for place, part in enumerate(parts)) or "result"
        return "_".join(parts) or "result"

    def id_of(self, noun: str) -> tuple[str, Schema] | None:
        """The parameter that says which thing of a kind is meant, and its type."""
        for name, (words, schema) in self.parameters.items():
            if words[-1] in ("id", "uuid", "identifier") and (len(words) == 1 or noun in map(singular, words[:-1])):
                return name, _copy_type(schema)
        return None

    def is_entity(self, noun: str) -> bool:
        """True for a noun of things that have an id: a common one, or one that a parameter has the id of."""
        return noun in ENTITIES or any(words[-2:] == [noun, "id"] for words, _ in self.parameters.values())

    def _has_number(self) -> bool:
        return any(schema.get("type") in ("number", "integer") for _, schema in self.parameters.values())


_SCALARS = ("string", "number", "integer", None)


def _field_schema(field: ListedField) -> Schema:
    words = split_ascii_identifier(field.name)
    guess = _value_schema(words[-1], field.text or f"The {' '.join(words)}")
    if field.kind == {"type": "string"} and "format" in guess:
        return guess
    return {**(field.kind or guess), "description": guess["description"]}


def _value_schema(noun: str, text: str, *, many: bool = False, number: bool = False) -> Schema:
    described = {"description": text.rstrip(".") + "."}
    if (many or is_plural(noun)) and not number and plain_schema(noun, text) == {"type": "string"}:
        return {"type": "array", "items": plain_schema(singular(noun), text), **described}
    return {**plain_schema(noun, text, number=number), **described}


def _id_schema(noun: str) -> Schema:
    return {"type": "string", "description": f"The id of the {noun}."}


def _copy_type(schema: Schema) -> Schema:
    return {key: schema[key] for key in ("type", "format") if isinstance(schema.get(key), str)} or {"type": "string"}


def _read_parameters(schema: Schema) -> dict[str, tuple[list[str], Schema]]:
    properties = schema.get("properties")
    found: dict[str, tuple[list[str], Schema]] = {}
    for name, sub in properties.items() if isinstance(properties, dict) else ():
        if words := split_ascii_identifier(name):
            found[name] = (words, sub if isinstance(sub, dict) else {})
    return found


def _is_camel(names: Iterable[str]) -> bool:
    names = list(names)
    camel = sum(1 for name in names if re.search("[a-z][A-Z]", name) and "_" not in name)
    return camel > sum("_" in name for name in names)


def _read_name(name: str, told: str | None) -> tuple[str | None, list[str]]:
    """The verb in the name of a tool, and the words of what it is done to; `told` is that of the description."""
    parts = [words for part in re.split(r"[./:]+", _SERVICE.sub("", name)) if (words := split_ascii_identifier(part))]
    words = [word for word in parts[-1] if not word.isdigit()] if parts else []
    if not words:
        return None, []
    verb = base_verb(words[0])
    if verb is not None and not (verb in _AMBIGUOUS and told not in (None, verb)):
        # flight.book: the thing stands before the dot.
        return verb, list(_read_object(words[1:])) or [*(parts[-2] if len(parts) > 1 else ())]
    return None, list(_read_object(words))


def _read_object(words: Iterable[str]) -> Iterable[str]:
    for place, word in enumerate(words):
        if word in LINKS and place:
            return
        if word not in LINKS and word not in ("all", "the", "a", "an", "any", "my", "new"):
            yield word

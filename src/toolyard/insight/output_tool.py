"""One tool as the rules see it: what it does, to what, and with which parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from toolyard.insight.output_grammar import Phrase
from toolyard.insight.output_language import is_known
from toolyard.insight.output_phrases import Reading, read
from toolyard.insight.output_words import (
    AMBIGUOUS,
    DOERS,
    ENTITIES,
    LAST_VERBS,
    LINKS,
    LISTS,
    VAGUE,
    VERBS,
    Deed,
    base_verb,
    is_plural,
    joined,
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
        self.reading: Reading = read(tool.description)
        self.parameters = _parameters(tool.parameters)
        self.camel = _is_camel(self.parameters)
        self.name_verb, self.object = _name(tool.name)
        self._starts = (words_of(tool.name)[:1], words_of(tool.description[:40])[:1])
        if self.name_verb is None and self._same_start() and self.reading.verb is None:
            self.object = self.object[1:]
        elif self.name_verb in AMBIGUOUS and self.reading.verb not in (None, self.name_verb):
            self.object = _nouns(tool.name)
        method = tool.binding.method.lower() if isinstance(tool.binding, RestBinding) else ""
        self.verb = self._verb() or _BY_METHOD.get(method, "get")
        self.deed: Deed = VERBS.get(self.verb, "get")
        if self.reading.asks or (self.reading.returns_flag and self.deed not in ("make", "change")):
            self.deed = "ask"

    def _same_start(self) -> bool:
        """True if name and description begin with the same word; it is a verb, even if it is not known."""
        named, told = self._starts
        return bool(named) and bool(told) and told[0] in (named[0], f"{named[0]}s", f"{named[0]}es")

    def _verb(self) -> str | None:
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


def _parameters(schema: Schema) -> dict[str, tuple[list[str], Schema]]:
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


def _name(name: str) -> tuple[str | None, list[str]]:
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


def _nouns(name: str) -> list[str]:
    """The words of the last part of a name, with nothing taken for a verb."""
    parts = [part for part in re.split(r"[./:]+", _SERVICE.sub("", name)) if words_of(part)]
    return list(_object(_without_numbers(words_of(parts[-1])))) if parts else []


def _verb_and_object(words: list[str]) -> tuple[str | None, list[str]]:
    for place, word in enumerate(words[:2]):
        verb = base_verb(word)
        if verb is not None and (word == verb or place == 0) and not (place == 1 and len(words) == 2):
            return verb, list(_object(words[place + 1 :]))
    if words and words[-1] in DOERS:
        return DOERS[words[-1]], words[:-1]
    if len(words) > 1 and words[-1] in LAST_VERBS:
        return words[-1], words[:-1]
    return None, list(_object(words))


def _object(words: list[str]) -> Iterator[str]:
    for place, word in enumerate(words):
        if word in LINKS and place:
            return
        if word not in LINKS and word not in ("all", "the", "a", "an", "my", "new"):
            yield word


def _without_numbers(words: list[str]) -> list[str]:
    return [word for word in words if not word.isdigit()] or words

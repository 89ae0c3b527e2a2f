"""What a description states is returned, which comes first, and what of the rules' own guess may stay beside it."""

from __future__ import annotations

from collections.abc import Mapping

from toolyard.insight.output_grammar import Phrase
from toolyard.insight.output_nouns import of_phrase
from toolyard.insight.output_sections import Field
from toolyard.insight.output_tool import Seen
from toolyard.insight.output_values import value
from toolyard.insight.output_words import FILES, FORMATS, NUMBERS, VAGUE, WHOLE, singular, words_of
from toolyard.model.tool import Schema

_IDENTIFIERS = frozenset(("id", "identifier", "uuid", "reference", "number", "code", "token", "key", "receipt"))
"""Words for what a thing is known by: one is enough."""
_SAYS_LITTLE = frozenset(("response", "confirmation", "status", "outcome", "success", "future", "promise", "state"))
_TARGETS = frozenset(
    (
        *NUMBERS,
        *WHOLE,
        *FORMATS,
        *("coordinates", "query", "sequence", "representation", "embedding", "embeddings", "vector", "transcript"),
        *("address", "token"),
    )
)
"""What comes out of a conversion under a name of its own; `to Celsius` or `to PDF` only says how it is written."""
_SOUNDS = frozenset(("speech", "audio", "voice"))
_RESULTS = frozenset(("result", "output", "answer", "response"))
_OPEN = frozenset(("perform", "run", "execute", "do", "send", "call", "handle", "process"))
"""Verbs that leave open what comes out."""
_MOST = 6


def stated(seen: Seen) -> dict[str, Schema]:
    """The properties that the description names; none where the rule for the deed reads them itself."""
    if seen.reading.fields:
        return {field.name: _of_field(field) for field in seen.reading.fields}
    found: dict[str, Schema] = {}
    if seen.deed in ("make", "change", "turn"):
        told = seen.reading.returned
        if not told and seen.reading.verb == "return" and seen.name_verb != "return":
            told = seen.reading.things
        if any(_adds(seen, phrase) for phrase in told):
            for phrase in told[:_MOST]:
                if phrase.head not in VAGUE or _adds(seen, phrase):
                    found.update(_of_statement(seen, phrase))
    if not found and seen.reading.into:
        found = _turned_into(seen)
    return _typed(found, seen.reading.kind)


def merged(seen: Seen, said: Mapping[str, Schema], guessed: Mapping[str, Schema]) -> dict[str, Schema]:
    """What is said, and the id of what was made or changed, unless another one is said."""
    if not said:
        return _typed(dict(guessed), seen.reading.kind)
    if seen.deed not in ("make", "change") or seen.reading.fields:
        return dict(said)
    known = {name for name in said if words_of(name)[-1:] and words_of(name)[-1] in _IDENTIFIERS}
    inside = {key for schema in said.values() for key in schema.get("properties", ())}
    ids = {} if known else {name: schema for name, schema in guessed.items() if words_of(name)[-1:] == ["id"]}
    return {**said, **{name: schema for name, schema in ids.items() if name not in said and name not in inside}}


def _of_field(field: Field) -> Schema:
    noun = words_of(field.name)[-1]
    text = field.text or f"The {' '.join(words_of(field.name))}"
    guess = value(noun, text)
    if not field.kind:
        return guess
    if field.kind["type"] == "array" and guess["type"] == "array":
        return {**guess, **field.kind}
    if field.kind == {"type": "string"} and "format" in guess:
        return guess
    return {**field.kind, "description": guess["description"]}


def _adds(seen: Seen, phrase: Phrase) -> bool:
    """False for what says no more than that something was done: the details of it, or the thing that was made."""
    if phrase.head in _RESULTS and seen.reading.verb in _OPEN:
        return True
    if phrase.head in VAGUE:
        return seen.deed == "change" and (bool(phrase.of) or len(phrase.words) > 1)
    if phrase.head in _SAYS_LITTLE and len(phrase.words) == 1:
        return False
    return not (seen.deed == "make" and _is_made(seen, phrase))


def _is_made(seen: Seen, phrase: Phrase) -> bool:
    made = [thing.head for thing in seen.reading.things[:1]] + list(seen.object[-1:])
    return singular(phrase.head) in map(singular, made)


def _of_statement(seen: Seen, phrase: Phrase) -> dict[str, Schema]:
    if phrase.head in ("id", "identifier", "uuid") and len(phrase.words) == 1:
        nouns = [*phrase.of[-1:], *(thing.head for thing in seen.reading.things[:1])] or list(seen.object[-1:])
        owner = [singular(noun) for noun in nouns[:1] if noun not in VAGUE]
        return {seen.call(*owner, "id"): {"type": "string", "description": f"The {phrase.text}."}}
    if phrase.head in _RESULTS and len(phrase.words) == 1:
        numbers = all(schema.get("type") in ("number", "integer") for _, schema in seen.parameters.values())
        return {seen.call(phrase.head): value(phrase.head, f"The {phrase.text}", number=numbers and seen.has_number())}
    return of_phrase(seen, phrase, many=phrase.many)


def _turned_into(seen: Seen) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for phrase in seen.reading.into[:_MOST]:
        head = phrase.head
        if head in _SOUNDS and seen.verb != "translate":
            found[seen.call("audio", "url")] = {"type": "string", "format": "uri", "description": "Where the audio is."}
        elif head == "text" and seen.verb == "convert" and len(phrase.words) == 1:
            found[seen.call("text")] = value("text", "The text")
        elif head not in _TARGETS or head in FILES:
            return {}
        elif head == "coordinates":
            found.update(of_phrase(seen, phrase, many=False))
        else:
            found[seen.call(*phrase.words[-3:])] = value(head, f"The {phrase.text}", many=phrase.many)
    return found


def _typed(found: dict[str, Schema], kind: Schema | None) -> dict[str, Schema]:
    """One value, as the type that it is said to have; nothing that is known better is lost."""
    if kind is None or len(found) != 1:
        return found
    ((name, schema),) = found.items()
    if schema.get("type") == kind["type"] or kind == {"type": "object"} or "properties" in schema:
        return found
    return {name: {**kind, "description": schema.get("description", "")}}

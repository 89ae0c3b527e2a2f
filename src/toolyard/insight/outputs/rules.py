"""Output schemas by rules: what a description states is returned, else what name and parameters suggest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolyard.insight.outputs.grammar import Phrase
from toolyard.insight.outputs.sections import ListedField
from toolyard.insight.outputs.tool_facts import Seen, amount_properties, of_phrase, thing_properties, value_schema
from toolyard.insight.outputs.words import (
    ABOUT,
    ENTITIES,
    FILES,
    FLAGS,
    FORMATS,
    LINKS,
    NUMBERS,
    VAGUE,
    WHOLE,
    WORKS,
    Deed,
    is_plural,
    participle,
    plural,
    singular,
    words_of,
)
from toolyard.model.guesses import INFERRED
from toolyard.model.tool import Schema, Tool

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


def read_stated(seen: Seen) -> dict[str, Schema]:
    """The properties that the description names; none where the rule for the deed reads them itself."""
    if seen.reading.fields:
        return {field.name: _of_field(field) for field in seen.reading.fields}
    found: dict[str, Schema] = {}
    if seen.deed in ("make", "change", "turn"):
        told = seen.reading.returned
        if not told and seen.reading.verb == "return" and seen.name_verb != "return":
            told = seen.reading.things
        if any(_adds_meaning(seen, phrase) for phrase in told):
            for phrase in told[:_MOST]:
                if phrase.head not in VAGUE or _adds_meaning(seen, phrase):
                    found.update(_of_statement(seen, phrase))
    if not found and seen.reading.into:
        found = _turned_into(seen)
    return _apply_type(found, seen.reading.kind)


def merge_properties(seen: Seen, said: Mapping[str, Schema], guessed: Mapping[str, Schema]) -> dict[str, Schema]:
    """What is said, and the id of what was made or changed, unless another one is said."""
    if not said:
        return _apply_type(dict(guessed), seen.reading.kind)
    if seen.deed not in ("make", "change") or seen.reading.fields:
        return dict(said)
    known = {name for name in said if words_of(name)[-1:] and words_of(name)[-1] in _IDENTIFIERS}
    inside = {key for schema in said.values() for key in schema.get("properties", ())}
    ids = {} if known else {name: schema for name, schema in guessed.items() if words_of(name)[-1:] == ["id"]}
    return {**said, **{name: schema for name, schema in ids.items() if name not in said and name not in inside}}


def _of_field(field: ListedField) -> Schema:
    noun = words_of(field.name)[-1]
    text = field.text or f"The {' '.join(words_of(field.name))}"
    guess = value_schema(noun, text)
    if not field.kind:
        return guess
    if field.kind["type"] == "array" and guess["type"] == "array":
        return {**guess, **field.kind}
    if field.kind == {"type": "string"} and "format" in guess:
        return guess
    return {**field.kind, "description": guess["description"]}


def _adds_meaning(seen: Seen, phrase: Phrase) -> bool:
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
        return {
            seen.call(phrase.head): value_schema(
                phrase.head, f"The {phrase.text}", number=numbers and seen.has_number()
            )
        }
    return of_phrase(seen, phrase, many=phrase.many)


def _turned_into(seen: Seen) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for phrase in seen.reading.into[:_MOST]:
        head = phrase.head
        if head in _SOUNDS and seen.verb != "translate":
            found[seen.call("audio", "url")] = {"type": "string", "format": "uri", "description": "Where the audio is."}
        elif head == "text" and seen.verb == "convert" and len(phrase.words) == 1:
            found[seen.call("text")] = value_schema("text", "The text")
        elif head not in _TARGETS or head in FILES:
            return {}
        elif head == "coordinates":
            found.update(of_phrase(seen, phrase, many=False))
        else:
            found[seen.call(*phrase.words[-3:])] = value_schema(head, f"The {phrase.text}", many=phrase.many)
    return found


def _apply_type(found: dict[str, Schema], kind: Schema | None) -> dict[str, Schema]:
    """One value, as the type that it is said to have; nothing that is known better is lost."""
    if kind is None or len(found) != 1:
        return found
    ((name, schema),) = found.items()
    if schema.get("type") == kind["type"] or kind == {"type": "object"} or "properties" in schema:
        return found
    return {name: {**kind, "description": schema.get("description", "")}}


Properties = dict[str, Schema]

_SUMS = {"add": "sum", "sum": "sum", "subtract": "difference", "multiply": "product", "divide": "quotient"}
_FOR_SURE = frozenset(("calculate", "compute", "estimate", "count", "measure", "sum", "calc", "quantify", "average"))
"""Verbs that give a number, whatever of."""
_DEALS = {
    **dict.fromkeys(("book",), "booking"),
    **dict.fromkeys(("reserve",), "reservation"),
    **dict.fromkeys(("order", "buy", "purchase", "place"), "order"),
    **dict.fromkeys(("pay", "transfer", "deposit", "withdraw", "donate", "fund", "charge", "refund"), "transaction"),
    **dict.fromkeys(("subscribe",), "subscription"),
    **dict.fromkeys(("enroll",), "enrollment"),
    **dict.fromkeys(("apply",), "application"),
    **dict.fromkeys(("request",), "request"),
    **dict.fromkeys(("rent",), "rental"),
    **dict.fromkeys(("trade",), "trade"),
}
"""What comes into being when a thing is not itself made."""
_APPLIED_FOR = (
    "job",
    "loan",
    "leave",
    "visa",
    "scholarship",
    "grant",
    "position",
    "permit",
    "license",
    "card",
    "course",
)
_SET_UP = ("alarm", "reminder", "timer", "goal")
_TURNED = {"translate": "translation", "summarize": "summary", "hash": "hash", "transcribe": "transcript"}
_STUDIED = {"compare": "comparison", "classify": "category", "categorize": "category"}


def output_schema(tool: Tool) -> Schema:
    """An object schema of what the tool answers, marked as inferred by rules."""
    seen = Seen(tool)
    properties = merge_properties(seen, read_stated(seen), _RULES[seen.deed](seen))
    properties = properties or {seen.call("result"): value_schema("result", "What the tool answers")}
    return {"type": "object", "properties": properties, INFERRED: "rules"}


def _fetch_properties(seen: Seen) -> Properties:
    """Something is fetched: a value, a thing with its parts, or a list of things."""
    if seen.verb == "check":
        flags = [FLAGS[phrase.head] for phrase in seen.things if phrase.head in FLAGS]
        if flags:
            return {seen.call(*words_of(flag)): {"type": "boolean"} for flag in flags}
    found: Properties = {}
    for phrase in seen.things:
        found.update(of_phrase(seen, phrase, many=phrase.many))
    return found


def _list_properties(seen: Seen) -> Properties:
    """Several things are looked for: the first that the description names, as a list."""
    for phrase in seen.things[:1]:
        if phrase.of and not phrase.many and phrase.head not in VAGUE and is_plural(phrase.of[-1]):
            return _column_properties(seen, phrase.of)
        if phrase.head in VAGUE and phrase.head not in ("results", "record", "records"):
            return of_phrase(seen, phrase, many=False)
        return of_phrase(seen, phrase, many=True)
    return {}


def _column_properties(seen: Seen, of: tuple[str, ...]) -> Properties:
    """Of several things, just what is named: `the name and the id of all products`."""
    properties = {
        seen.call(*phrase.words[-2:]): value_schema(phrase.head, f"The {phrase.text}") for phrase in seen.things
    }
    items: Schema = {"type": "object", "properties": properties}
    return {seen.call(*of[-2:]): {"type": "array", "items": items, "description": f"The {' '.join(of)}."}}


def _find_properties(seen: Seen) -> Properties:
    """One thing is found, or several."""
    found: Properties = {}
    for phrase in seen.things:
        found.update(of_phrase(seen, phrase, many=phrase.many))
    return found


def _ask_properties(seen: Seen) -> Properties:
    """A question with yes or no for an answer."""
    words = _name_answer(seen)
    about = seen.reading.asks or " ".join(words)
    more: Properties = {}
    for phrase in seen.reading.returned[:3]:
        more.update(of_phrase(seen, phrase, many=phrase.many))
    return {
        seen.call(*words): {"type": "boolean", "description": f"True if {about}." if about else "Yes or no."},
        **more,
    }


def _name_answer(seen: Seen) -> list[str]:
    if seen.name_verb in ("is", "are", "has", "have", "can", "does", "should"):
        return [seen.name_verb, *seen.object]
    asks = seen.reading.asks.split()
    for place, word in enumerate(asks):
        if word in ("is", "are") and place:
            rest = _until_link(asks[place + 1 :])
            return ["is", *rest[-2:]] if rest else ["result"]
        if word == "can" and place and asks[place + 1 : place + 2] == ["be"]:
            return ["can", *_until_link(asks[place + 1 :])[:2]]
        if word in ("contains", "exists", "has", "meets", "matches", "supports") and place:
            return [word, *_until_link(asks[place + 1 :])[:2]]
    for phrase in seen.things:
        if phrase.head in FLAGS:
            return words_of(FLAGS[phrase.head])
    if seen.verb in ("verify", "authenticate", "confirm"):
        return [participle(seen.verb)]
    return ["is", "valid"] if seen.verb == "validate" else ["result"]


def _until_link(words: Iterable[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        if word in LINKS or word in ("and", "or", ","):
            break
        if word not in ("a", "an", "the", "any", "common", "currently", "already"):
            found.append(word)
    return found


def _count_properties(seen: Seen) -> Properties:
    """A number, named after what is calculated; several, if several are named."""
    found: Properties = {}
    sure = seen.verb in _FOR_SURE
    for phrase in seen.things[:6]:
        if phrase.head in VAGUE and phrase.head not in ("value", "values") and not seen.object:
            continue
        if phrase.head in ("number", "numbers") and not phrase.of and seen.verb in _SUMS:
            continue
        if phrase.head == "number" and phrase.of:
            found.update(amount_properties(seen, phrase))
            continue
        if phrase.many and singular(phrase.head) in (
            "root",
            "coefficient",
            "eigenvalue",
            "factor",
            "solution",
            "point",
        ):
            name = seen.call(*seen.words_for(phrase))
            found[name] = {"type": "array", "items": {"type": "number"}, "description": f"The {phrase.text}."}
            continue
        words = [*seen.words_for(phrase)]
        found[seen.call(*words)] = value_schema(words[-1], f"The {phrase.text}", number=sure)
    return found or ({seen.call("result"): {"type": "number"}} if sure else {})


def _create_properties(seen: Seen) -> Properties:
    """Something comes into being: its id, and how that went."""
    phrase = next(iter(seen.reading.things or seen.things), None)
    if seen.verb in _SUMS and phrase is not None and phrase.head in ("numbers", "number", "values", "integers"):
        return {seen.call(_SUMS[seen.verb]): {"type": "number", "description": f"The {_SUMS[seen.verb]}."}}
    if _DEALS.get(seen.verb) == "transaction" and not seen.has_number():
        return _change_properties(seen)
    if seen.verb == "apply" and (phrase is None or singular(phrase.head) not in _APPLIED_FOR):
        return _change_properties(seen)
    noun = _DEALS.get(seen.verb) or (singular(phrase.head) if phrase is not None else "")
    if phrase is not None and noun in ("appointment", "reservation", "order", "meeting", "ticket", "booking"):
        noun = singular(phrase.head) if singular(phrase.head) in ENTITIES and seen.verb not in _DEALS else noun
    if (
        phrase is not None
        and seen.verb in ("book", "schedule")
        and singular(phrase.head) in (*("appointment", "reservation", "meeting", "trip", "session"),)
    ):
        noun = singular(phrase.head)
    if noun in ABOUT and phrase is not None and len(phrase.words) > 1 and singular(phrase.words[-2]) in ENTITIES:
        noun = singular(phrase.words[-2])
    if not noun:
        return _change_properties(seen)
    if noun in WORKS and seen.verb in ("make", "create") and noun not in ENTITIES:
        return _draw_properties(seen)
    if seen.verb in ("add", "assign", "join", "insert", "invite", "save") and (
        seen.id_of(noun) or noun not in ENTITIES or noun in seen.parameters or plural(noun) in seen.parameters
    ):
        return _change_properties(seen)
    status: Schema = {"type": "string", "description": f"How the {noun} stands."}
    name = seen.call(noun, "id")
    return {name: {"type": "string", "description": f"The id of the {noun}."}, seen.call("status"): status}


def _draw_properties(seen: Seen) -> Properties:
    """A work is made, and given back as it is, or by the address of its file."""
    found: Properties = {}
    for phrase in seen.things[:2]:
        words = seen.words_for(phrase)
        head = singular(words[-1]) if not phrase.many else words[-1]
        if seen.verb == "simulate":
            return {
                seen.call("simulation", "results"): {"type": "string", "description": f"How the {phrase.text} goes."}
            }
        if singular(head) in FILES:
            name = seen.call(*words[:-1], singular(head), "url")
            found[name] = {"type": "string", "format": "uri", "description": f"Where the {phrase.text} is."}
        elif phrase.many:
            found[seen.call(*words)] = value_schema(head, f"The {phrase.text}", many=True)
        else:
            found[seen.call(*words[:-1], head)] = value_schema(head, f"The {phrase.text}")
    return found


def _change_properties(seen: Seen) -> Properties:
    """Something is done: to what, and whether it worked."""
    found: Properties = {}
    phrase = next(iter(seen.reading.things or seen.things), None)
    if seen.verb == "set" and phrase is not None and phrase.head in _SET_UP:
        return _create_properties(seen)
    nouns = list(seen.object) if phrase is None else [*phrase.of[-1:], phrase.head, *seen.object]
    for noun in map(singular, nouns):
        known = seen.id_of(noun)
        if known is not None:
            name, schema = known
            found[name] = _copy_schema(schema, f"The id of the {noun}.")
            break
    if (
        seen.verb in ("send", "reply")
        and phrase is not None
        and phrase.head in ("message", "email", "sms", "notification")
    ):
        found[seen.call("message", "id")] = {"type": "string", "description": "The id of what was sent."}
    found[seen.call("success")] = {"type": "boolean", "description": "True if it was done."}
    return found


def _convert_properties(seen: Seen) -> Properties:
    """One thing is turned into another of the same kind."""
    if seen.verb == "translate":
        return {seen.call("translated", "text"): {"type": "string", "description": "The text in the other language."}}
    if seen.verb == "geocode":
        (place,) = thing_properties(seen, ["coordinate"], many=False, text="Where it is").values()
        return {seen.call("coordinates"): place}
    if seen.verb in _TURNED:
        noun = _TURNED[seen.verb]
        return {seen.call(noun): {"type": "string", "description": f"The {noun}."}}
    phrase = next(iter(seen.reading.things or seen.things), None)
    words = list(seen.words_for(phrase))[-2:] if phrase is not None else ["result"]
    if phrase is not None and phrase.head in VAGUE and phrase.of:
        words = list(phrase.of[-2:])
    if seen.verb == "convert" and seen.has_number():
        words = (
            ["amount"]
            if "currency" in words
            else [word for word in words if word not in ("unit", "units")] or ["value"]
        )
        return {seen.call("converted", *words[-1:]): {"type": "number", "description": "The value after conversion."}}
    name = seen.call(participle(seen.verb), *words)
    text = f"The {' '.join(words)}, {participle(seen.verb)}"
    if phrase is not None and phrase.many:
        return {name: value_schema(words[-1], text, many=True)}
    if words[-1] in ("array", "list"):
        return {name: {"type": "array", "description": text + "."}}
    return {name: value_schema(words[-1], text, number=seen.verb == "round")}


def _study_properties(seen: Seen) -> Properties:
    """Something is looked into: the finding."""
    phrase = next(iter(seen.things), None)
    if seen.verb in _STUDIED:
        noun = _STUDIED[seen.verb]
        return {seen.call(noun): {"type": "string", "description": f"The {noun}."}}
    if phrase is not None and "sentiment" in (*phrase.words, *seen.object):
        score: Schema = {"type": "number", "description": "How positive it is."}
        return {seen.call("sentiment"): {"type": "string", "description": "The sentiment."}, seen.call("score"): score}
    if phrase is not None and seen.reading.returned:
        return _fetch_properties(seen)
    if phrase is not None and phrase.of and phrase.head not in VAGUE:
        return {seen.call(*phrase.words[-2:]): value_schema(phrase.head, f"The {phrase.text}", many=phrase.many)}
    about = f" of the {phrase.text}" if phrase is not None else ""
    return {seen.call("analysis"): {"type": "string", "description": f"The analysis{about}."}}


def _copy_schema(schema: Schema, text: str) -> Schema:
    kept: dict[str, Any] = {key: schema[key] for key in ("type", "format", "enum") if key in schema}
    kept.setdefault("type", "string")
    return {**kept, "description": text}


_RULES: dict[Deed, Callable[[Seen], Properties]] = {
    "get": _fetch_properties,
    "list": _list_properties,
    "find": _find_properties,
    "ask": _ask_properties,
    "count": _count_properties,
    "make": _create_properties,
    "draw": _draw_properties,
    "change": _change_properties,
    "turn": _convert_properties,
    "study": _study_properties,
}

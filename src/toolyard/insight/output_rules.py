"""What a tool is likely to answer, by rules: from its name, its description and its parameters, and nothing else.

`calculate_area(base, height)` gives `{"area": number}`, `search_hotels(city)` a list of `hotels` with their ids and the
city, `create_order(...)` an `order_id`, `is_prime(n)` a truth value. The same tool gives the same schema everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from toolyard.insight.output_nouns import amount, of_phrase
from toolyard.insight.output_stated import merged, stated
from toolyard.insight.output_tool import Seen
from toolyard.insight.output_values import thing, value
from toolyard.insight.output_words import (
    ABOUT,
    ENTITIES,
    FILES,
    FLAGS,
    LINKS,
    VAGUE,
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
    properties = merged(seen, stated(seen), _RULES[seen.deed](seen))
    properties = properties or {seen.call("result"): value("result", "What the tool answers")}
    return {"type": "object", "properties": properties, INFERRED: "rules"}


def _got(seen: Seen) -> Properties:
    """Something is fetched: a value, a thing with its parts, or a list of things."""
    if seen.verb == "check":
        flags = [FLAGS[phrase.head] for phrase in seen.things if phrase.head in FLAGS]
        if flags:
            return {seen.call(*words_of(flag)): {"type": "boolean"} for flag in flags}
    found: Properties = {}
    for phrase in seen.things:
        found.update(of_phrase(seen, phrase, many=phrase.many))
    return found


def _listed(seen: Seen) -> Properties:
    """Several things are looked for: the first that the description names, as a list."""
    for phrase in seen.things[:1]:
        if phrase.of and not phrase.many and phrase.head not in VAGUE and is_plural(phrase.of[-1]):
            return _columns(seen, phrase.of)
        if phrase.head in VAGUE and phrase.head not in ("results", "record", "records"):
            return of_phrase(seen, phrase, many=False)
        return of_phrase(seen, phrase, many=True)
    return {}


def _columns(seen: Seen, of: tuple[str, ...]) -> Properties:
    """Of several things, just what is named: `the name and the id of all products`."""
    properties = {seen.call(*phrase.words[-2:]): value(phrase.head, f"The {phrase.text}") for phrase in seen.things}
    items: Schema = {"type": "object", "properties": properties}
    return {seen.call(*of[-2:]): {"type": "array", "items": items, "description": f"The {' '.join(of)}."}}


def _found(seen: Seen) -> Properties:
    """One thing is found, or several."""
    found: Properties = {}
    for phrase in seen.things:
        found.update(of_phrase(seen, phrase, many=phrase.many))
    return found


def _asked(seen: Seen) -> Properties:
    """A question with yes or no for an answer."""
    words = _question(seen)
    about = seen.reading.asks or " ".join(words)
    more: Properties = {}
    for phrase in seen.reading.returned[:3]:
        more.update(of_phrase(seen, phrase, many=phrase.many))
    return {
        seen.call(*words): {"type": "boolean", "description": f"True if {about}." if about else "Yes or no."},
        **more,
    }


def _question(seen: Seen) -> list[str]:
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


def _counted(seen: Seen) -> Properties:
    """A number, named after what is calculated; several, if several are named."""
    found: Properties = {}
    sure = seen.verb in _FOR_SURE
    for phrase in seen.things[:6]:
        if phrase.head in VAGUE and phrase.head not in ("value", "values") and not seen.object:
            continue
        if phrase.head in ("number", "numbers") and not phrase.of and seen.verb in _SUMS:
            continue
        if phrase.head == "number" and phrase.of:
            found.update(amount(seen, phrase))
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
        found[seen.call(*words)] = value(words[-1], f"The {phrase.text}", number=sure)
    return found or ({seen.call("result"): {"type": "number"}} if sure else {})


def _made(seen: Seen) -> Properties:
    """Something comes into being: its id, and how that went."""
    phrase = next(iter(seen.reading.things or seen.things), None)
    if seen.verb in _SUMS and phrase is not None and phrase.head in ("numbers", "number", "values", "integers"):
        return {seen.call(_SUMS[seen.verb]): {"type": "number", "description": f"The {_SUMS[seen.verb]}."}}
    if _DEALS.get(seen.verb) == "transaction" and not seen.has_number():
        return _changed(seen)
    if seen.verb == "apply" and (phrase is None or singular(phrase.head) not in _APPLIED_FOR):
        return _changed(seen)
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
        return _changed(seen)
    if noun in WORKS and seen.verb in ("make", "create") and noun not in ENTITIES:
        return _drawn(seen)
    if seen.verb in ("add", "assign", "join", "insert", "invite", "save") and (
        seen.id_of(noun) or noun not in ENTITIES or noun in seen.parameters or plural(noun) in seen.parameters
    ):
        return _changed(seen)
    status: Schema = {"type": "string", "description": f"How the {noun} stands."}
    name = seen.call(noun, "id")
    return {name: {"type": "string", "description": f"The id of the {noun}."}, seen.call("status"): status}


def _drawn(seen: Seen) -> Properties:
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
            found[seen.call(*words)] = value(head, f"The {phrase.text}", many=True)
        else:
            found[seen.call(*words[:-1], head)] = value(head, f"The {phrase.text}")
    return found


def _changed(seen: Seen) -> Properties:
    """Something is done: to what, and whether it worked."""
    found: Properties = {}
    phrase = next(iter(seen.reading.things or seen.things), None)
    if seen.verb == "set" and phrase is not None and phrase.head in _SET_UP:
        return _made(seen)
    nouns = list(seen.object) if phrase is None else [*phrase.of[-1:], phrase.head, *seen.object]
    for noun in map(singular, nouns):
        known = seen.id_of(noun)
        if known is not None:
            name, schema = known
            found[name] = _like(schema, f"The id of the {noun}.")
            break
    if (
        seen.verb in ("send", "reply")
        and phrase is not None
        and phrase.head in ("message", "email", "sms", "notification")
    ):
        found[seen.call("message", "id")] = {"type": "string", "description": "The id of what was sent."}
    found[seen.call("success")] = {"type": "boolean", "description": "True if it was done."}
    return found


def _turned(seen: Seen) -> Properties:
    """One thing is turned into another of the same kind."""
    if seen.verb == "translate":
        return {seen.call("translated", "text"): {"type": "string", "description": "The text in the other language."}}
    if seen.verb == "geocode":
        (place,) = thing(seen, ["coordinate"], many=False, text="Where it is").values()
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
        return {name: value(words[-1], text, many=True)}
    if words[-1] in ("array", "list"):
        return {name: {"type": "array", "description": text + "."}}
    return {name: value(words[-1], text, number=seen.verb == "round")}


def _studied(seen: Seen) -> Properties:
    """Something is looked into: the finding."""
    phrase = next(iter(seen.things), None)
    if seen.verb in _STUDIED:
        noun = _STUDIED[seen.verb]
        return {seen.call(noun): {"type": "string", "description": f"The {noun}."}}
    if phrase is not None and "sentiment" in (*phrase.words, *seen.object):
        score: Schema = {"type": "number", "description": "How positive it is."}
        return {seen.call("sentiment"): {"type": "string", "description": "The sentiment."}, seen.call("score"): score}
    if phrase is not None and seen.reading.returned:
        return _got(seen)
    if phrase is not None and phrase.of and phrase.head not in VAGUE:
        return {seen.call(*phrase.words[-2:]): value(phrase.head, f"The {phrase.text}", many=phrase.many)}
    about = f" of the {phrase.text}" if phrase is not None else ""
    return {seen.call("analysis"): {"type": "string", "description": f"The analysis{about}."}}


def _like(schema: Schema, text: str) -> Schema:
    kept: dict[str, Any] = {key: schema[key] for key in ("type", "format", "enum") if key in schema}
    kept.setdefault("type", "string")
    return {**kept, "description": text}


_RULES: dict[Deed, Callable[[Seen], Properties]] = {
    "get": _got,
    "list": _listed,
    "find": _found,
    "ask": _asked,
    "count": _counted,
    "make": _made,
    "draw": _drawn,
    "change": _changed,
    "turn": _turned,
    "study": _studied,
}

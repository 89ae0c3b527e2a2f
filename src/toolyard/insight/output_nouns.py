"""What noun phrases of a description stand for in an answer."""

from __future__ import annotations

from toolyard.insight.output_grammar import Phrase
from toolyard.insight.output_tool import Seen
from toolyard.insight.output_values import facts, thing, value
from toolyard.insight.output_words import ABOUT, FACTS, FORMATS, VAGUE, is_plural, plural, singular
from toolyard.model.tool import Schema

_WEATHERS = ("weather", "condition", "conditions", "forecast", "report", "update")
_OFFERS = ("recommendation", "suggestion", "option", "opening", "listing", "result")
"""Things of another kind, when there are several to choose from."""
_AMOUNTS = ("number", "amount", "quantity", "total")


def of_phrase(seen: Seen, phrase: Phrase, *, many: bool, number: bool = False) -> dict[str, Schema]:
    """What a noun phrase stands for: a value, a thing with its parts, or a list of them."""
    words = seen.words_for(phrase)
    head = words[-1]
    if phrase.head in VAGUE:
        words, head, many = _behind(seen, phrase, words)
    if phrase.head in _AMOUNTS and phrase.of:
        return amount(seen, phrase)
    noun = singular(head)
    text = f"The {phrase.text}"
    if "weather" in (*words, *phrase.words, *phrase.of) and (head in FACTS or head in VAGUE or head in _WEATHERS):
        return thing(seen, ["forecast" if "forecast" in words else "weather"], many=False, text=text)
    if head in FACTS and (phrase.head in VAGUE or not seen.is_entity(noun)):
        return {seen.call(*words): facts(seen, text)}
    if many and noun in _OFFERS and len(words) > 1 and seen.is_entity(singular(words[-2])):
        (made,) = thing(seen, [singular(words[-2])], many=True, text=text).values()
        return {seen.call(*words): made}
    if phrase.of and not many and head in FORMATS and phrase.head not in VAGUE:
        return {seen.call(*words): value(head, text)}
    if seen.is_entity(noun) or noun in ("news", "weather", "forecast", "coordinate", "direction"):
        return thing(seen, [*words[:-1], noun], many=many, text=text)
    if many and not number:
        return {seen.call(*words[:-1], plural(head)): value(head, text, many=True)}
    return {seen.call(*words): value(head, text, number=number)}


def amount(seen: Seen, phrase: Phrase) -> dict[str, Schema]:
    """How many of something, or how much."""
    number = phrase.head == "number"
    name = seen.call("number", "of", *phrase.of[-2:]) if number else seen.call(*phrase.of[-2:])
    return {name: value("number" if number else "amount", f"The {phrase.text}")}


def _behind(seen: Seen, phrase: Phrase, named: list[str]) -> tuple[list[str], str, bool]:
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

"""Infer output schemas by rules, from the verb and nouns of a tool's name and of its description's first sentence.

`make eval-outputs` measures how often they are right. A rule that does not improve that figure is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import dropwhile

from toolyard.model.bindings import McpBinding, RestBinding
from toolyard.model.tool import INFERRED, Schema, Tool
from toolyard.words.identifiers import (
    ANSWER_BY_VERB,
    Answer,
    base_verb,
    is_plural,
    plural,
    singular,
    split_ascii_identifier,
    word_set,
)

Properties = dict[str, Schema]


_LINKS = word_set(
    "by for with from in of to using via on at as near between within based given about into per during over "
    "through that which who where when if whether because so than against under across around along after before "
    "among inside without until upon onto towards toward behind while"
)
_FILLERS = word_set(
    "a an the all any some your my our its his her their this that these those new specific specified given "
    "particular current latest recent detailed various different existing following certain single one two three "
    "multiple several many more other own live possible relevant desired requested provided basic simple "
    "comprehensive complete full exact entire whole random unique me you us it available top best nearest closest "
    "nearby popular upcoming historical additional valid important common personalized customized resulting "
    "corresponding created newly only them both either also just"
)
_VAGUE = word_set(
    "information info detail details data record profile metadata result results content output response answer "
    "thing value values properties property characteristics statistics stats insights facts list lists array "
    "collection set series range variety selection catalog sequence group overview"
)
"""Nouns without meaning of their own: they announce facts about something, or several of it."""
_NUMBERS = word_set(
    "acceleration accuracy altitude amount angle area balance bmi brightness budget calorie calories capacitance "
    "capacity cashflow charge circumference coefficient concentration conductivity consumption correlation cost ctr "
    "debt deduction demand density depth derivative determinant deviation diameter difference discount displacement "
    "distance dose drag duration earnings efficiency elevation emission emissions energy enthalpy entropy expense "
    "expenses exponent fare fee field flux force frequency gain gdp gravity growth heat height humidity "
    "hypotenuse income index inductance inflation intake integral intensity intercept interest irr latitude length "
    "lift likelihood load logarithm longitude loss luminosity magnification magnitude margin mass mean median mode "
    "moment momentum mortgage npv number payment percent percentage perimeter permeability ph power precision premium "
    "pressure price probability product productivity profit quotient radius rate ratio recall remainder rent "
    "resistance return revenue roi root salary savings score similarity slope speed strain stress sum tax "
    "temperature thrust tip torque total valuation value variance velocity viscosity voltage volume wage wavelength "
    "weight width work worth yield age attendance count factorial gcd lcm population quantity rank ranking year"
)
_CONTROL_WORDS = word_set(
    "min max num number start end from to include exclude limit page per sort order offset top with has is radius "
    "query keyword search filter filters format unit units lang api token key auth field fields results count size "
    "cursor options mode by only text input id ids uuid password"
)
"""First and last words of parameters that control a search, as opposed to properties of what is found."""
_JOINING = word_set("add assign join insert invite save apply")
"""Verbs that put something somewhere; such tools return whether that succeeded."""
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*(?:[-'\u2019][A-Za-z0-9_]+)*|[.,;:()/&!?]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_PARTICLES = word_set("for up out through to by on at")
"""Words that may follow a verb before its object, as in "search for hotels"."""
_STOPS = frozenset((",", "and", "or", "&", "/", ".", ";", ":", "(", ")", "!", "?", "such", "etc"))
_SCALARS = ("string", "number", "integer", "boolean", None)
_MOST_WORDS = 4


def output_schema(tool: Tool) -> Schema:
    """Infer an object schema of the tool's result, marked as inferred by rules."""
    facts = _ToolFacts(tool)
    unknown = {facts.join("result"): {"type": "string", "description": "What the tool answers."}}
    return {"type": "object", "properties": facts.list_properties() or unknown, INFERRED: "rules"}


class _ToolFacts:
    def __init__(self, tool: Tool) -> None:
        self.parameters = dict(_read_parameters(tool.parameters))
        self.camel = sum(bool(re.search("[a-z][A-Z]", name)) - ("_" in name) for name in self.parameters) > 0
        # A service returns the fields it was given for a record.
        self.is_service = isinstance(tool.binding, RestBinding | McpBinding)
        self.removes = isinstance(tool.binding, RestBinding) and tool.binding.method.upper() == "DELETE"
        words = [word for word in split_ascii_identifier(re.split(r"[./:]+", tool.name)[-1]) if not word.isdigit()]
        tokens = _split_words(_SENTENCE.split(tool.description.strip(), maxsplit=1)[0])
        named = base_verb(words[0]) if words else None
        described = base_verb(tokens[0]) if tokens else None
        self.verb = named if named in ("is", "has") else described or named
        self.object = tuple(_read_object(words[1:] if named else words))
        asks = described is not None and tokens[1:2] in (["if"], ["whether"])
        self.answer = self._choose_answer(words[:1], tokens[:1], asks)
        said = () if asks or (named and not described) else tuple(_read_noun(tokens[described is not None :]))
        self.noun_phrase = said or self.object

    def _choose_answer(self, name: list[str], sentence: list[str], asks: bool) -> Answer:
        if asks:
            return "flag"
        if self.verb is not None:
            return "success" if self.verb in _JOINING else ANSWER_BY_VERB[self.verb]
        # A word that starts both name and description is a verb, even if it is not in the table.
        acts = not self.is_service and name and sentence in (name, [f"{name[0]}s"])
        return "success" if acts or self.removes else "thing"

    def list_properties(self) -> Properties:
        """The result properties of tools with this verb."""
        if self.answer == "flag":
            named = (self.verb, *self.object) if self.verb in ("is", "has") else ("result",)
            return {self.join(*named): {"type": "boolean", "description": "Yes or no."}}
        if self.is_service and not self.removes and self.answer in ("thing", "list", "id", "success"):
            return self._list_record()
        if self.answer in ("id", "success"):
            return self._list_confirmation()
        ids = self._list_ids() if self.answer == "thing" else {}
        return {**ids, **self._describe_thing()} if self.noun_phrase else ids

    def _list_record(self) -> Properties:
        noun, many = self._find_noun()
        record = self._make_record(noun)
        if not noun or not (many or self.answer == "list"):
            return record
        return {self.join(plural(noun)): _list_schema(record, f"The {plural(noun)}.")}

    def _list_confirmation(self) -> Properties:
        """The id and status of a created object, or the success of an action."""
        noun, _ = self._find_noun()
        if self.answer == "success" or not noun:
            done = {"type": "boolean", "description": "True if it was done."}
            return {**self._list_ids(), self.join("success"): done}
        status = {"type": "string", "description": f"How the {noun} stands."}
        return {self.join(noun, "id"): {"type": "string", "description": f"The id of the {noun}."}, "status": status}

    def _find_noun(self) -> tuple[str, bool]:
        """The singular of the tool's object, and whether the tool is about several."""
        about = () if _VAGUE.intersection(self.noun_phrase[-1:]) else self.noun_phrase
        words = [word for word in (*self.object, *about) if word not in _VAGUE]
        return (singular(words[-1]), is_plural(words[-1])) if words else ("", False)

    def _make_record(self, noun: str) -> Properties:
        thing = noun or "thing"
        found = {name: {"type": "string", "description": f"The {name} of the {thing}."} for name in ("id", "name")}
        for name, (words, schema) in self.parameters.items():
            if words[0] not in _CONTROL_WORDS and words[-1] not in _CONTROL_WORDS and schema.get("type") in _SCALARS:
                found.setdefault(name, {**_copy_type(schema), "description": f"The {' '.join(words)} of the {thing}."})
        return {**self._list_ids(), **found}

    def _list_ids(self) -> Properties:
        """The id parameters, which results repeat."""
        given = ((name, words, schema) for name, (words, schema) in self.parameters.items() if words[-1] == "id")
        return {name: {**_copy_type(schema), "description": f"The {' '.join(words)}."} for name, words, schema in given}

    def _describe_thing(self) -> Properties:
        """The property that the noun phrase names: a value, a list of values, or a list of records."""
        words = self.noun_phrase
        text = f"The {' '.join(words)}."
        if words[-1] in _VAGUE:
            words = self.object or words
        if self.answer == "list":
            noun = singular(words[-1])
            return {self.join(*words[:-1], plural(noun)): _list_schema(self._make_record(noun), text)}
        if self.answer == "converted" and self.verb:
            words = (self.verb + ("d" if self.verb.endswith("e") else "ed"), *words[-2:])
        return {self.join(*words[-3:]): _value_schema(words[-1], text)}

    def join(self, *words: str) -> str:
        """Join words into a property name, in the case style of the parameters."""
        if len(words) > _MOST_WORDS:
            words = (words[0], *words[1 - _MOST_WORDS :])
        parts = [re.sub(r"[^0-9a-z]", "", word) for word in words]
        parts = list(dropwhile(lambda part: part[0].isdigit(), filter(None, parts)))
        if self.camel:
            return "".join(part.capitalize() if place else part for place, part in enumerate(parts)) or "result"
        return "_".join(parts) or "result"


def _list_schema(record: Properties, text: str) -> Schema:
    return {"type": "array", "items": {"type": "object", "properties": record}, "description": text}


def _value_schema(noun: str, text: str) -> Schema:
    """The schema of a value named by a noun."""
    if noun in _NUMBERS:
        return {"type": "number", "description": text}
    kind = {"type": "array", "items": {"type": "string"}} if is_plural(noun) else {"type": "string"}
    return {**kind, "description": text}


def _copy_type(schema: Schema) -> Schema:
    return {key: schema[key] for key in ("type", "format") if isinstance(schema.get(key), str)} or {"type": "string"}


def _read_parameters(schema: Schema) -> Iterator[tuple[str, tuple[list[str], Schema]]]:
    properties = schema.get("properties")
    for name, sub in properties.items() if isinstance(properties, dict) else ():
        if words := split_ascii_identifier(name):
            yield name, (words, sub if isinstance(sub, dict) else {})


def _read_object(words: Iterable[str]) -> Iterator[str]:
    """The words of a name before `by`, `for` and the like, without fillers."""
    for place, word in enumerate(words):
        if word in _LINKS and place:
            return
        if word not in _LINKS and word not in _FILLERS:
            yield word


def _split_words(text: str) -> list[str]:
    """The lower-case words and punctuation of a text; identifiers are split into words."""
    words: list[str] = []
    for token in _TOKEN.findall(text):
        if "_" in token or re.match("[a-z]{2,}[A-Z]", token):
            words += split_ascii_identifier(token)
        else:
            words.append(token.lower().replace("\u2019", "'").removesuffix("'s"))
    return words


def _read_noun(words: Iterable[str]) -> Iterator[str]:
    """The words of the noun phrase that a sentence goes on with, without fillers."""
    for word in dropwhile(_PARTICLES.__contains__, words):
        if word in _STOPS or word in _LINKS:
            return
        if word not in _FILLERS:
            yield word

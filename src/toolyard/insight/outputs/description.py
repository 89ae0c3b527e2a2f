"""What a description says in its first sentence, and where it says what is returned: a verb and noun phrases.

First the nouns themselves: what values they stand for, and the small words between them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

import msgspec

from toolyard.insight.outputs.sections import ListedField, fields_of, read_sections, type_of
from toolyard.model.tool import Schema
from toolyard.words.identifiers import base_verb, is_plural, split_ascii_identifier


def word_set(words: str) -> frozenset[str]:
    """The words of a line, as a set."""
    return frozenset(words.split())


LINKS = word_set(
    "by for with from in of to using via on at as near between within based given about into per during over "
    "through that which who where when if whether because so than against under across around along after before "
    "among inside without until upon onto towards toward behind while"
)
FILLERS = word_set(
    "a an the all any some your my our its his her their this that these those new specific specified given "
    "particular current latest recent detailed various different existing following certain single one two three "
    "multiple several many more other own live possible relevant desired requested provided basic simple "
    "comprehensive complete full exact entire whole random unique me you us it available top best nearest closest "
    "nearby popular upcoming historical additional valid important common personalized customized resulting "
    "corresponding created newly only them both either also just"
)
LISTS = word_set("list lists array collection set series range variety selection catalog sequence group overview")
VAGUE = word_set(
    "information info detail details data record profile metadata result results content output response answer "
    "thing value values properties property characteristics statistics stats insights facts"
)
"""Nouns that only say that there is something to know about another thing."""
ABOUT = word_set("information info detail details data record profile metadata")
"""Those of them that stand for the thing itself."""
ENTITIES = word_set(
    "account activity actor ad agent airport alarm album animal apartment appointment article artist artwork "
    "athlete attraction auction author beach bid book booking branch brand bus campaign campground candidate car "
    "card cart case channel chef church cinema city claim client clinic cluster comment commit company concert "
    "contact contract country coupon course crime cruise customer database deal delivery dentist device doctor "
    "document domain driver drug email employee entry event exam exhibition festival file film flight folder friend "
    "fund game gene grant group guest gym hospital hotel house image instance invoice issue item job journal "
    "landmark lawsuit lawyer lead league lesson listing loan match mechanic medicine meeting member merchant "
    "message mosque movie museum node note notification offer order organization package page painting paper park "
    "passenger patient payment person pet pharmacy photo place plant player playlist podcast policy post "
    "product professional project protein provider publication puzzle question quiz race recipe reminder "
    "rental repository reservation restaurant review robot room route salon scholarship school sculpture sensor "
    "server service session shipment shop show song station stock store student subscription supplier table task "
    "teacher team theater therapist ticket timer tour tournament tower track train transaction trip tweet "
    "university user vehicle vendor venue video warehouse website worker workout workspace"
)
"""Things that have an id and a name."""
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
    "weight width work worth yield"
)
_WHOLE = word_set("age attendance count factorial gcd lcm population quantity rank ranking year")
_TEXTS = word_set("status type date day name id category class winner method text url")
_OTHERS = word_set("weather forecast news time status address location direction")
_FORMATS: Mapping[str, str] = {
    "date": "date",
    "birthday": "date",
    "deadline": "date",
    "timestamp": "date-time",
    "url": "uri",
    "link": "uri",
    "website": "uri",
    "email": "email",
    "uuid": "uuid",
}


def is_known_noun(word: str) -> bool:
    """True for a noun that something is known about."""
    return (
        word in _OTHERS or word in ENTITIES or word in _NUMBERS or word in _WHOLE or word in _FORMATS or word in VAGUE
    )


def plain_schema(noun: str, text: str, *, number: bool = False) -> Schema:
    """The type of a value that is called by a noun; a number if nothing else is known and `number` says so."""
    if noun in _WHOLE or (noun == "number" and "number of" in text):
        return {"type": "integer"}
    if noun == "number" and not text.startswith("The number"):
        return {"type": "string"}  # of a phone, an order, a card
    if noun in _FORMATS:
        return {"type": "string", "format": _FORMATS[noun]}
    if noun in _NUMBERS or (number and noun not in _TEXTS):
        return {"type": "number"}
    return {"type": "string"}


_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*(?:[-'\u2019][A-Za-z0-9_]+)*|[.,;:()/&!?]")
_CAMEL = re.compile("[a-z]{2,}[A-Z]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_PARAGRAPH = re.compile(r"(?<![.!?:;,\s])[ \t]*\n[ \t]*\n\s*")
_LEAD = re.compile(
    r"""\s*(?:(?:this|the|an?)\s+(?:\w+\s+){0,2}?(?:tool|function|api|method|endpoint|operation)\s+)?
    (?:(?:is\s+)?(?:used|designed)\s+to|use\s+this\s+(?:\w+\s+)?to|(?:allows?|enables?|helps?)\s+(?:\w+\s+){0,2}?to
    |lets?\s+(?:you|users)|can(?:\s+be\s+used\s+to)?|will)\s+
    |\s*(?:this|the)\s+(?:tool|function|api|method|endpoint|operation)\s+""",
    re.IGNORECASE | re.VERBOSE,
)
"""As in `This tool allows users to`: the verb stands behind it."""
_RETURNS = re.compile(
    r"(?:\breturns|(?<=\. )return|\b(?:will|(?<!used )to|and|then) return|\breturning|\boutputs|\bresponds? with"
    r"|\bgives back|\bresponse (?:contains|includes)|\band (?:get|receive))\b:?\s+",
    re.IGNORECASE,
)
_HOLDS = re.compile(
    r"(?:an?|the)?\s*(?:json )?(?:dict(?:ionary)?|object|response|tuple|list|array|string|integer|int|float|number)s?"
    r"\s+"
    r"(?:(?:that|which)\s+)?(?:represent(?:s|ing)|contain(?:s|ing)|indicat(?:es|ing)|with|holding|of)\s+(?:the\s+)?"
    r"(?:(?:following\s+)?(?:keys|fields|properties|values)\b)?:?\s*",
    re.IGNORECASE,
)
"""As in `a JSON object with the fields`: what matters stands behind it."""
_NO_ANSWER = re.compile(
    r"\b(?:error|none|null|nothing|exception|empty)\b|^no\b|^success\b|^(?:dates?|times?|flights?|trips?|of|for)\b",
    re.IGNORECASE,
)
"""What is returned on failure; or no verb at all, as in `the return dates`."""
_CONDITION = re.compile(r"(?:if|when|unless|should|otherwise|by default|on failure)\b", re.IGNORECASE)
"""How a sentence begins about what is not always so."""
_FLAG = re.compile(r"""^["'`]?(?:an? )?(?:true|false|boolean|whether|if)\b""", re.IGNORECASE)
_LISTED = frozenset((",", "and", "or", "&", "/"))
_ENDS = frozenset((".", ";", ":", ")", "!", "?", "such", "etc"))
_STOPS = frozenset((*_LISTED, *_ENDS, "("))
_ABOUT = frozenset(("about", "on", "of", "for", "regarding"))
_SUBJECTS = word_set(
    "a an this these you they we it i he she has have is are can must will may based associated related using "
    "including containing available"
)
"""Words with which something is said about the noun before."""
_SHARED = word_set("a an in as on at me over under per via us to so all")
"""Small words that mean something in other languages, too."""
_ENGLISH = (LINKS | FILLERS | {"and", "or", "is", "are", "be", "it", "if", "not", "will", "can"}) - _SHARED
_TYPE_WORDS = word_set("string integer int float number boolean bool object dict json array list both either")
_WRAPPERS = frozenset(("object", "objects", "instance", "resource", "resources"))
_MOST = 8
_MOST_STATEMENTS = 24
_MOST_LETTERS = 1000
"""Of a sentence about the answer; what is longer is none."""


class Phrase(msgspec.Struct, frozen=True):
    """A noun with what stands before it, such as `average daily price`, and what it is a price of."""

    words: tuple[str, ...]
    of: tuple[str, ...] = ()
    many: bool = False
    """True for a list of them, or a plural."""

    @property
    def head(self) -> str:
        """The noun itself."""
        return self.words[-1]

    @property
    def text(self) -> str:
        """The phrase as it is read."""
        return " ".join(self.words) + (f" of {' '.join(self.of)}" if self.of else "")


class Reading(msgspec.Struct, frozen=True):
    """A description, as far as it is understood."""

    verb: str | None = None
    things: tuple[Phrase, ...] = ()
    """What the verb is done to."""
    asks: str = ""
    """The words behind `if` or `whether`, where that is what is found out."""
    returned: tuple[Phrase, ...] = ()
    """What is said to be returned."""
    returns_flag: bool = False
    kind: Schema | None = None
    """Of which type it is said to be."""
    fields: tuple[ListedField, ...] = ()
    """What is said to be returned, by names that are to be taken as they are."""
    understood: bool = True


def read_description(description: str) -> Reading:
    """The first sentence, and what other sentences say about the answer."""
    found = read_sections(description)
    text = " ".join(_PARAGRAPH.sub(". ", found.prose.strip()).split())
    said = _read_statement(found.told) or _read_return(text)
    said = msgspec.structs.replace(said, kind=found.kind or said.kind, fields=found.fields or said.fields)
    sentence, *more = map(_drop_lead, _SENTENCE.split(text, maxsplit=2)[:2])
    tokens = _split_words(sentence)
    verb, place = _read_verb(tokens)
    if verb is None and more and (second := _read_verb(_split_words(more[0])))[0] is not None:
        # "Sharpe Ratio": a title, and then the sentence.
        tokens, (verb, place) = _split_words(more[0]), second
    if verb is None and sentence and _ENGLISH.isdisjoint(tokens):
        return msgspec.structs.replace(said, understood=False)
    if tokens[place : place + 1] and tokens[place] in ("if", "whether", "that"):
        asks = " ".join(token for token in tokens[place + 1 :] if token not in _ENDS)
        return msgspec.structs.replace(said, verb=verb, asks=asks)
    things = _read_phrases(tokens, place)
    return msgspec.structs.replace(
        said, verb=verb, things=things, returned=said.returned or (things if verb == "return" else ())
    )


def _drop_lead(text: str) -> str:
    while (lead := _LEAD.match(text)) and lead.end() < len(text):
        text = text[lead.end() :]
    return text


def _read_verb(tokens: list[str]) -> tuple[str | None, int]:
    """The verb of a sentence, and where what follows it begins."""
    for at, token in enumerate(tokens[:_MOST]):
        # "Users can retrieve ...": the verb is not far behind.
        if (at == 0 or tokens[at - 1] in ("to", "can", "will", "and") or tokens[0].endswith("ly")) and base_verb(token):
            place = at + 1
            while place + 1 < len(tokens) and tokens[place] in _LISTED and base_verb(tokens[place + 1]):
                place += 2
            while place < len(tokens) and tokens[place] in ("for", "up", "out", "through", "to", "by", "on", "at"):
                place += 1
            return base_verb(token), place
    # "Trigger the alarm": a verb that is not known, but no noun.
    return None, int(len(tokens) > 1 and tokens[0] not in LINKS and tokens[1] in ("the", "a", "an"))


def _read_return(text: str) -> Reading:
    for match in islice(_RETURNS.finditer(text), _MOST_STATEMENTS):
        begins = text.rfind(". ", 0, match.start()) + 2
        # At the very beginning it is a verb like any other.
        if match.start() and not _CONDITION.match(text, begins):
            said = _read_statement(text[match.end() : match.end() + _MOST_LETTERS])
            if said is not None:
                return said
    return Reading()


def _read_statement(text: str) -> Reading | None:
    """Fields, nouns, or a yes or no; None for what is none of them."""
    rest = _SENTENCE.split(text[:_MOST_LETTERS], maxsplit=1)[0]
    if _NO_ANSWER.search(rest[:60]):
        return None
    if _FLAG.match(rest):
        return Reading(returns_flag=True)
    if fields := fields_of(rest):
        return Reading(fields=fields)
    if (kind := type_of(rest)) is not None:
        return Reading(kind=kind) if kind["type"] in ("integer", "number") else None
    holds = _HOLDS.match(rest)
    tokens = _split_words(rest[holds.end() :] if holds else rest)
    tokens = ["the" if token in ("its", "their") else token for token in tokens]
    phrases = tuple(filter(None, map(_unwrap_phrase, _read_phrases(tokens, 0)[:_MOST])))
    return Reading(returned=phrases) if phrases else None


def _unwrap_phrase(phrase: Phrase) -> Phrase | None:
    """`completion object` is a completion; None for words that only name a type."""
    if phrase.head in _WRAPPERS and len(phrase.words) > 1:
        phrase = msgspec.structs.replace(phrase, words=phrase.words[:-1])
    return None if phrase.head in _TYPE_WORDS and len(phrase.words) == 1 and not phrase.of else phrase


def _split_words(text: str) -> list[str]:
    """The words and stops of a text, in small letters; names fall into their words."""
    words: list[str] = []
    for token in _TOKEN.findall(text):
        if "_" in token or _CAMEL.match(token):
            words += split_ascii_identifier(token)
        else:
            words.append(token.lower().replace("\u2019", "'").removesuffix("'s"))
    return words


def _read_phrases(tokens: list[str], place: int) -> tuple[Phrase, ...]:
    """Noun phrases in a row: `the area and the perimeter of a circle`."""
    found: list[Phrase] = []
    while place < len(tokens):
        phrase, place = _read_phrase(tokens, place)
        if phrase is None:
            break
        found.append(phrase)
        if tokens[place : place + 1] == ["("]:
            place = next((at for at in range(place, len(tokens)) if tokens[at] == ")"), len(tokens)) + 1
        if place >= len(tokens) or tokens[place] not in _LISTED or phrase.of:
            break
        while place < len(tokens) and tokens[place] in _LISTED:
            place += 1
        if place < len(tokens) and (tokens[place] in LINKS or base_verb(tokens[place]) is not None):
            break
    if found and found[-1].of:
        found = [phrase if phrase.of else msgspec.structs.replace(phrase, of=found[-1].of) for phrase in found]
    return tuple(found)


def _read_phrase(tokens: list[str], place: int) -> tuple[Phrase | None, int]:
    words, place = _read_noun(tokens, place)
    if not words:
        return None, place
    follows = tokens[place] if place < len(tokens) else ""
    if follows == "of" and words[-1] in LISTS:
        inner, place = _read_phrase(tokens, place + 1)
        return (Phrase(inner.words, inner.of, True), place) if inner else (Phrase(words, (), True), place)
    of: tuple[str, ...] = ()
    if follows == "of" or (follows in _ABOUT and words[-1] in VAGUE):
        of, place = _read_noun(tokens, place + 1)
    return Phrase(words, of, is_plural(words[-1])), place


def _read_noun(tokens: list[str], place: int) -> tuple[tuple[str, ...], int]:
    words: list[str] = []
    while place < len(tokens):
        word = tokens[place]
        if word in _STOPS or word in LINKS or (words and _says_more(tokens, place)):
            break
        if word not in FILLERS:
            words.append(word)
        place += 1
    return tuple(words), place


def _says_more(tokens: list[str], place: int) -> bool:
    """True where a noun is over: `grants this app has`, `commits authored by them`."""
    word = tokens[place]
    return word in _SUBJECTS or (
        word.endswith("ed") and tokens[place + 1 : place + 2] != [] and tokens[place + 1] in LINKS
    )

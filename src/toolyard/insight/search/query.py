"""Tokenize texts, queries and tools; split a query into segments, with the vectors of segments and words."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.arrays import Matrix
from toolyard.model.tool import Tool
from toolyard.words.identifiers import CRUD_BY_VERB, snake_case

T = TypeVar("T")

MOST_QUERY = 2000
"""Maximum number of characters of a query that are read."""
MOST_SEGMENTS = 8
_MOST_TEXT = 4000
"""Maximum number of characters of one field of a tool that are read."""
_MOST_PROPERTIES = 200

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Letters of scripts with few or no spaces between words: Thai, Lao, Burmese, Khmer, kana, Han, Hangul."""
_SENTENCE = re.compile(r"(?<=[.!?;])[\"')]*\s+|\n+|[\u3002\uff1f\uff01\uff1b]")
_CLAUSE = re.compile(
    r",?\s+(?:and\s+)?(?:then|after that|afterwards|additionally|furthermore|also|finally|lastly|next|moreover|besides|"
    r"as well as|plus)\b,?\s*|,\s+and\s+|\s+and\s+(?=(?:i|please|can|could|what|how|who|where|when|tell|get|find|give|"
    r"show|provide|suggest|recommend|help|calculate|check|book|search|set|send|make|create|retrieve|compute|determine|"
    r"let|whether|the|also|is|are|display|convert|generate|order|play|update|add|list|fetch|analyze)\b)|[;:]\s+",
    re.IGNORECASE,
)
_END = re.compile(r"(?<=[.!?])\s|\n")
_STOP = (
    "a an the of to in on at for from by with about into over under and or but if then than as is are was were be "
    "been being am do does did doing have has had having will would shall should can could may might must i me my "
    "mine we us our ours you your yours he him his she her hers it its they them their theirs this that these those "
    "there here what which who whom whose when where why how all any both each few more most other some such no nor "
    "not only own same so too very just also please help need want like let know tell give show get s t re ve ll d "
    "m im ive id lets using use via per etc e g thanks thank hi hello hey assist able going looking look wondering "
    "wonder provide trying interested out up down again further once between during before after above below now "
    "first second third next finally lastly additionally furthermore moreover tool tools"
)
_ASKING = (
    "what which who whose when where why how is are am was were do does did has have had any show list find look check "
    "tell"
)
"""First words of requests that only read."""
KINDS = ("create", "get", "list", "update", "delete", "act")
"""What a tool does to its subject."""
_MOST_KNOWN, _LONGEST_KNOWN = 200_000, 100
_stemming = threading.local()


class _Memo(dict[str, T]):
    """A cache by text; it is cleared when it is full."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make

    def __missing__(self, key: str) -> T:
        made = self._make(key)
        if len(self) >= _MOST_KNOWN:
            self.clear()
        if len(key) <= _LONGEST_KNOWN:
            self[key] = made
        return made


def _stem(word: str) -> str:
    # The stemmer is stateful, so each thread has its own.
    stemmer = getattr(_stemming, "stemmer", None)
    if stemmer is None:
        import snowballstemmer  # type: ignore[import-untyped]

        stemmer = _stemming.stemmer = snowballstemmer.stemmer("english")
    return str(stemmer.stemWord(word))


def _split_token(token: str) -> list[str]:
    return _WORD.findall(snake_case(token))


def _split_unspaced(token: str) -> list[str]:
    found = _split_token(token)
    return found if token.isascii() else list(chain.from_iterable(map(_pair_letters, found)))


def _pair_letters(word: str) -> list[str]:
    """Split runs of unspaced scripts into pairs of adjacent letters; keep other words."""
    found: list[str] = []
    end = 0
    for run in _UNSPACED.finditer(word):
        found += [word[end : run.start()]] if end < run.start() else []
        letters, end = run.group(), run.end()
        found += [letters[at : at + 2] for at in range(max(1, len(letters) - 1))]
    return [*found, word[end:]] if end < len(word) else found


_stems = _Memo(_stem)
# A catalog has few distinct tokens, each occurring many times.
_words_of = _Memo(_split_unspaced)
_stems_of = _Memo(lambda token: [stem(word) for word in _words_of[token]])


def stem(word: str) -> str:
    """The stem of an English word; words of other languages mostly stay unchanged."""
    return _stems[word]


def split_words(text: str) -> list[str]:
    """The lower-case words of a text: `getHTTPUrl_v2` is `get http url v2`; Chinese gives pairs of letters."""
    return list(chain.from_iterable(map(_words_of.__getitem__, _list_tokens(text))))


def stem_words(text: str) -> list[str]:
    """The stem of each word of a text."""
    return list(chain.from_iterable(map(_stems_of.__getitem__, _list_tokens(text))))


def _list_tokens(text: str) -> list[str]:
    return _WORD.findall(text[:_MOST_TEXT].replace("'s ", " ").replace("'S ", " "))


def is_stop_word(stemmed: str) -> bool:
    """Whether a stem is a stop word."""
    return stemmed in _list_stop_stems()


@cache
def _list_stop_stems() -> frozenset[str]:
    return frozenset(map(stem, _STOP.split()))


def split_query(query: str) -> list[str]:
    """Split a query: the whole, then its sentences if there are several, then its clauses, each asking for one tool."""
    sentences = [part.strip() for part in _SENTENCE.split(query) if part and len(part.strip()) > 2] or [query]
    clauses: list[str] = []
    for sentence in sentences:
        clauses += [part.strip() for part in _CLAUSE.split(sentence) if part and len(part.split()) > 2] or [sentence]
    parts = [query, *(sentences if len(sentences) > 1 else ()), *(clauses if clauses != sentences else ())]
    return list(dict.fromkeys(parts))[: MOST_SEGMENTS + 1]


def stem_fields(tool: Tool) -> tuple[list[str], list[str], list[str], list[str], list[str]]:
    """The stems of a tool's names, description with tags, parameter names, their descriptions, and enum values."""
    properties = list(_list_properties(tool.parameters))[:_MOST_PROPERTIES]
    names, described = _stem_all((tool.name, *tool.aliases)), _stem_all((tool.description, *tool.tags))
    keys = _stem_all(key for key, _ in properties)
    texts = [part["description"] for _, part in properties if isinstance(part.get("description"), str)]
    enums = [part["enum"][:_MOST_PROPERTIES] for _, part in properties if isinstance(part.get("enum"), list)]
    return names, described, keys, _stem_all(texts), _stem_all(map(str, chain.from_iterable(enums)))


def stem_required(tool: Tool) -> list[list[str]]:
    """The stems of each required parameter."""
    named = tool.parameters.get("required")
    return [stem_words(str(name)) for name in named[:_MOST_PROPERTIES]] if isinstance(named, list) else []


def find_kind(tool: Tool) -> str:
    """One of `KINDS`, by the verb of a tool's name, else of its description; "" if neither has a known verb."""
    spoken = (*split_words(tool.name), *(stem_words(tool.description)[:1]))
    found = next((CRUD_BY_VERB[word] for word in spoken if word in CRUD_BY_VERB), "")
    return "update" if found == "replace" else found


def list_views(tool: Tool) -> tuple[str, str, str]:
    """The texts of a tool that are embedded: all of it; namespace and name; the first sentence of the description."""
    keys = ", ".join(_spell_out(key) for key, _ in list(_list_properties(tool.parameters))[:_MOST_PROPERTIES])
    name, home, description = _spell_out(tool.name), _spell_out(tool.namespace), tool.description[:_MOST_TEXT].strip()
    called = name if name.startswith(home) else f"{home} {name}"
    return f"{name}. {description} ({keys})", called, _END.split(description, maxsplit=1)[0] or name


def _spell_out(name: str) -> str:
    return " ".join(chain.from_iterable(map(_split_token, _list_tokens(name))))


def _stem_all(texts: Iterable[str]) -> list[str]:
    return list(chain.from_iterable(map(stem_words, texts)))


def _list_properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    found = schema.get("properties")
    if isinstance(found, Mapping):
        for key, part in found.items():
            yield str(key), part if isinstance(part, Mapping) else {}


_MOST_TERMS = 96
"""Maximum number of distinct words of a query that are used."""
_VALUE = re.compile("[0-9]+|[\"'`\u2018\u201c]|@|https?:")
_PROPER = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")


class Query(msgspec.Struct, frozen=True):
    """A parsed query by segments: the whole first, then its parts."""

    text: str
    segments: tuple[str, ...]
    stems: tuple[str, ...]
    """The distinct stems of the whole, in order."""
    surfaces: tuple[str, ...]
    """For each stem, a word it was derived from."""
    has: NDArray[np.bool_]
    """Segments by stems: whether the segment has the stem."""
    stop: NDArray[np.bool_]
    content_words: int
    """The number of stems that are neither stop words nor numbers."""
    values: float
    """Estimated number of parameter values in the query: numbers, quotations, names."""
    asks: bool
    """True if it asks for information, and so for a tool that changes nothing."""


def read_query(text: str) -> Query:
    """Parse a query; a very long one is truncated."""
    # Models reject lone surrogates.
    text = text[:MOST_QUERY].encode("utf-8", "replace").decode()
    parts = tuple(split_query(text))
    found: dict[str, str] = {}
    each: list[set[str]] = []
    for part in parts:
        mine = set()
        for word in split_words(part):
            stemmed = stem(word)
            if stemmed in found or len(found) < _MOST_TERMS:
                found.setdefault(stemmed, word)
                mine.add(stemmed)
        each.append(mine)
    has = np.array([[stemmed in mine for stemmed in found] for mine in each], np.bool_).reshape(len(parts), len(found))
    stop = np.array([is_stop_word(stemmed) for stemmed in found], np.bool_)
    values = min(len(_VALUE.findall(text)) / 2, 4.0) + len(_PROPER.findall(text))
    content_words = sum(not (word.isdigit() or idle) for word, idle in zip(found.values(), stop, strict=True))
    asks = "?" in text or next(iter(found.values()), "") in _ASKING.split()
    return Query(text, parts, tuple(found), tuple(found.values()), has, stop, content_words, values, asks)


def is_latin(text: str) -> bool:
    """Whether at least half of the letters are Latin."""
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum(letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in letters) >= len(letters)


class Examples(msgspec.Struct, frozen=True):
    """Examples of requests for tools and of other requests, with which a query is compared by its vector."""

    served: list[str]
    foreign: list[str]


@cache
def load_examples() -> Examples:
    """Load the bundled examples, none of which is in the material that the weights are fitted on."""
    return msgspec.json.decode(Path(__file__).with_name("examples.json").read_bytes(), type=Examples)


class QueryVectors(msgspec.Struct, frozen=True):
    """The vectors of a query: one per segment, as the model computed it, and one per content word, centred."""

    segments: Matrix
    words: Matrix
    word_places: tuple[int, ...]
    """For each row of `words`, the index of its stem in the query."""

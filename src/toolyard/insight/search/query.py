"""The words of texts, queries and tools, and a query as it is read: its parts, their words, the vectors of both."""

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

from toolyard.insight.embeddings.embedder import Matrix
from toolyard.model.tool import Tool
from toolyard.words.identifiers import CRUD_BY_VERB, snake_case

T = TypeVar("T")

MOST_QUERY = 2000
"""Characters of a query that are read."""
MOST_SEGMENTS = 8
_MOST_TEXT = 4000
"""Characters of one field of a tool that are read."""
_MOST_PROPERTIES = 200

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Letters of scripts that put no spaces between words, or few: Thai, Lao, Burmese, Khmer, kana, Han, Hangul."""
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
"""What a request begins with that changes nothing."""
KINDS = ("create", "get", "list", "update", "delete", "act")
"""What a tool does to things."""
_MOST_KNOWN, _LONGEST_KNOWN = 200_000, 100
_stemming = threading.local()


class _Memo(dict[str, T]):
    """What was made of each text before; it begins anew when it is full."""

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
    # The stemmer keeps state while it works, so each thread has one.
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
    """A word as it is; where words are not told apart by spaces, every two letters that stand together."""
    found: list[str] = []
    end = 0
    for run in _UNSPACED.finditer(word):
        found += [word[end : run.start()]] if end < run.start() else []
        letters, end = run.group(), run.end()
        found += [letters[at : at + 2] for at in range(max(1, len(letters) - 1))]
    return [*found, word[end:]] if end < len(word) else found


_stems = _Memo(_stem)
# A catalog has few different tokens, each of them many times.
_words_of = _Memo(_split_unspaced)
_stems_of = _Memo(lambda token: [stem(word) for word in _words_of[token]])


def stem(word: str) -> str:
    """The stem of an English word; other words stay as they are, more or less."""
    return _stems[word]


def words(text: str) -> list[str]:
    """The words of a text in lower case: `getHTTPUrl_v2` is `get http url v2`; of Chinese, every two letters."""
    return list(chain.from_iterable(map(_words_of.__getitem__, _list_tokens(text))))


def stems(text: str) -> list[str]:
    """The stems of a text's words, one for each."""
    return list(chain.from_iterable(map(_stems_of.__getitem__, _list_tokens(text))))


def _list_tokens(text: str) -> list[str]:
    return _WORD.findall(text[:_MOST_TEXT].replace("'s ", " ").replace("'S ", " "))


def is_stop(stemmed: str) -> bool:
    """True for words that say little about what is asked for."""
    return stemmed in _list_stop_stems()


def _list_stop_stems(made: list[frozenset[str]] = []) -> frozenset[str]:  # noqa: B006 - made once
    if not made:
        made.append(frozenset(stem(word) for word in _STOP.split()))
    return made[0]


def segments(query: str) -> list[str]:
    """The query, then its sentences if it has several, then its clauses: what asks for one tool each."""
    sentences = [part.strip() for part in _SENTENCE.split(query) if part and len(part.strip()) > 2] or [query]
    clauses: list[str] = []
    for sentence in sentences:
        clauses += [part.strip() for part in _CLAUSE.split(sentence) if part and len(part.split()) > 2] or [sentence]
    parts = [query, *(sentences if len(sentences) > 1 else ()), *(clauses if clauses != sentences else ())]
    return list(dict.fromkeys(parts))[: MOST_SEGMENTS + 1]


def fields(tool: Tool) -> tuple[list[str], list[str], list[str], list[str], list[str]]:
    """Stems of a tool's names, description with tags, parameter names, their descriptions, and their values."""
    properties = list(_list_properties(tool.parameters))[:_MOST_PROPERTIES]
    names = [stemmed for name in (tool.name, *tool.aliases) for stemmed in stems(name)]
    described = [stemmed for text in (tool.description, *tool.tags) for stemmed in stems(text)]
    keys = [stemmed for key, _ in properties for stemmed in stems(key)]
    texts = [stemmed for _, part in properties for stemmed in stems(_read_text(part.get("description")))]
    return names, described, keys, texts, list(_list_values(properties))


def required(tool: Tool) -> list[list[str]]:
    """The stems of each parameter that a call must give."""
    named = tool.parameters.get("required")
    return [stems(str(name)) for name in named[:_MOST_PROPERTIES]] if isinstance(named, list) else []


def kind_of(tool: Tool) -> str:
    """One of `KINDS`, by the verb of a tool's name, else of its description; nothing if neither has one."""
    spoken = (*words(tool.name), *(stems(tool.description)[:1]))
    found = next((CRUD_BY_VERB[word] for word in spoken if word in CRUD_BY_VERB), "")
    return "update" if found == "replace" else found


def list_views(tool: Tool) -> tuple[str, str, str]:
    """What is embedded of a tool: all of it; where it is and what it is called; what it does, in a sentence."""
    keys = ", ".join(_as_words(key) for key, _ in list(_list_properties(tool.parameters))[:_MOST_PROPERTIES])
    name, home, description = _as_words(tool.name), _as_words(tool.namespace), tool.description[:_MOST_TEXT].strip()
    called = name if name.startswith(home) else f"{home} {name}"
    return f"{name}. {description} ({keys})", called, _END.split(description, maxsplit=1)[0] or name


def _as_words(name: str) -> str:
    return " ".join(chain.from_iterable(map(_split_token, _list_tokens(name))))


def _list_values(properties: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    for _, part in properties:
        values = part.get("enum")
        if isinstance(values, list):
            for value in values[:_MOST_PROPERTIES]:
                yield from stems(str(value))


def _list_properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    found = schema.get("properties")
    if isinstance(found, Mapping):
        for key, part in found.items():
            yield str(key), part if isinstance(part, Mapping) else {}


def _read_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_MOST_TERMS = 96
"""Different words of a query that count."""
_VALUE = re.compile("[0-9]+|[\"'`\u2018\u201c]|@|https?:")
_PROPER = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")


class Query(msgspec.Struct, frozen=True):
    """What was asked, by segments: the whole first, then its parts."""

    text: str
    segments: tuple[str, ...]
    stems: tuple[str, ...]
    """Different stems in order, of the whole."""
    surfaces: tuple[str, ...]
    """A word that each stem was made of."""
    has: NDArray[np.bool_]
    """Which segment has which stem."""
    stop: NDArray[np.bool_]
    said: int
    """How many of the stems say something: neither stop words nor numbers."""
    values: float
    """About how many values for parameters it holds: numbers, quotations, names."""
    asks: bool
    """True if it wants to know something, and changes nothing."""


def read_query(text: str) -> Query:
    """Cut a query into segments and words; of a very long one, the beginning."""
    # Half a surrogate pair is no text for a model.
    text = text[:MOST_QUERY].encode("utf-8", "replace").decode()
    parts = tuple(segments(text))
    found: dict[str, str] = {}
    each: list[set[str]] = []
    for part in parts:
        mine = set()
        for word in words(part):
            stemmed = stem(word)
            if stemmed in found or len(found) < _MOST_TERMS:
                found.setdefault(stemmed, word)
                mine.add(stemmed)
        each.append(mine)
    has = np.array([[stemmed in mine for stemmed in found] for mine in each], np.bool_).reshape(len(parts), len(found))
    stop = np.array([is_stop(stemmed) for stemmed in found], np.bool_)
    values = min(len(_VALUE.findall(text)) / 2, 4.0) + len(_PROPER.findall(text))
    said = sum(not (word.isdigit() or idle) for word, idle in zip(found.values(), stop, strict=True))
    asks = "?" in text or next(iter(found.values()), "") in _ASKING.split()
    return Query(text, parts, tuple(found), tuple(found.values()), has, stop, said, values, asks)


def is_latin(text: str) -> bool:
    """Whether at least half of the letters are."""
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum(letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in letters) >= len(letters)


class Examples(msgspec.Struct, frozen=True):
    """What people ask of services, and what they ask besides; what a request is more like, any model can say."""

    served: list[str]
    foreign: list[str]


@cache
def load_examples() -> Examples:
    """Those that are shipped; nobody asks them in the material that weights are fitted on."""
    return msgspec.json.decode(Path(__file__).with_name("examples.json").read_bytes(), type=Examples)


class QueryVectors(msgspec.Struct, frozen=True):
    """The vectors of a query: one for each segment, as the model made it, and one for each content word, centred."""

    segments: Matrix
    words: Matrix
    word_places: tuple[int, ...]
    """Which of the query's stems each row of `words` stands for."""

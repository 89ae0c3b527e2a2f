"""`ListingCall`: a call that lists or searches entities; `PageRequest`: the part of the list that it requests.

Totals, page numbers and cursors in the result are made to agree with the items.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from toolyard.engines.simulator.containers import spellings_of
from toolyard.engines.simulator.draw import Draw, encode
from toolyard.engines.simulator.entities import AnswerWriter, Fields, find_name, limit_count
from toolyard.engines.simulator.profile import ITEM
from toolyard.engines.simulator.values import item_node
from toolyard.model.json_schema import copy_json
from toolyard.words.identifiers import plain_letters

_SIZES = ("limit", "perpage", "pagesize", "maxresults", "size", "count", "top", "first", "rows", "maxitems", "take")
_OFFSETS = ("offset", "skip", "start", "startindex", "from")
_PAGES = ("page", "pagenumber", "pageindex", "pageno")
_CURSORS = (
    *("cursor", "nextcursor", "pagecursor", "pagetoken", "nextpagetoken", "nexttoken"),
    *("after", "startingafter", "continuationtoken", "marker"),
)
_USUAL = 20
"""Page size if the arguments give only a page number or an offset."""
_SHOWN_COUNTS = frozenset(("count", "resultcount", "numresults"))
_TOTAL_COUNTS = frozenset(
    ("total", "totalcount", "totalresults", "totalitems", "totalelements", "totalsize", "totalhits")
)
_TOTAL_COUNTS |= {"totalentries", "totalrecords", "numberofresults"}
_PAGE_COUNTS = frozenset(("totalpages", "pagecount", "pages", "numpages", "lastpage"))
_MORE_FLAGS = frozenset(("hasmore", "hasnext", "hasnextpage", "truncated", "istruncated"))
_NEXT_NAMES = frozenset(
    ("nextcursor", "nextpagetoken", "nexttoken", "nextpage", "nextoffset", "continuationtoken", "next")
)
_INFO_PARTS = frozenset(("meta", "metadata", "pagination", "paging", "pageinfo", "page", "links"))
"""Parts of a result with information about its list."""
LIST_INFO = _SHOWN_COUNTS | _TOTAL_COUNTS | _PAGE_COUNTS | _MORE_FLAGS | _NEXT_NAMES | _INFO_PARTS
"""Normalised names of information about a list, and of the parts that contain it."""


class PageRequest:
    """The page that the arguments request, by their normalised names."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._page = _read_int(asked, _PAGES)
        self._size = _read_int(asked, _SIZES)
        offset = _read_int(asked, _OFFSETS) or 0
        cursor = _read_cursor(asked)
        if self._size is None and (cursor is not None or (self._page or 0) > 1):
            self._size = _USUAL
        if cursor is not None:
            self.begin = cursor
        elif self._size is not None and self._page is not None:
            self.begin = max(self._page - 1, 0) * self._size
        else:
            self.begin = offset

    def cut_page(self, numbers: list[int]) -> list[int]:
        """The entities on the page."""
        return numbers if self._size is None else numbers[self.begin : self.begin + self._size]

    def correct_counts(
        self, whole: Any, path: tuple[str, ...], counts: tuple[int, int], check: Callable[[Any], bool]
    ) -> None:
        """Correct a result's information about its list, if `check` allows it; `counts` are shown and total items."""
        at = whole
        for name in path[:-1]:
            at = at.get(name) if isinstance(at, dict) else None
        if not isinstance(at, dict):
            return
        for part in _parts_about_lists(whole, at, path):
            kept = any(plain_letters(name) in _TOTAL_COUNTS for name in part)
            for name in list(part):
                self._correct_one(
                    part, name, self._values_for_name(plain_letters(name), part[name], counts, kept), whole, check
                )

    def _correct_one(
        self, part: dict[str, Any], name: str, ways: tuple[Any, ...], whole: Any, check: Callable[[Any], bool]
    ) -> None:
        before = part[name]
        for value in ways:
            if value is _LEFT_OUT:
                del part[name]
            else:
                part[name] = value
            if value == before or check(whole):
                return
            part[name] = before

    def _values_for_name(self, letters: str, before: Any, counts: tuple[int, int], kept: bool) -> tuple[Any, ...]:
        """Candidates for the value of that name, best first; none if it is not about the list."""
        shown, total = counts
        is_number = isinstance(before, int) and not isinstance(before, bool)
        end = self.begin + shown if self._size is not None else total
        more = end < total
        if is_number and (letters in _TOTAL_COUNTS or letters in _SHOWN_COUNTS):
            return (shown if letters in _SHOWN_COUNTS and kept else total,)
        if is_number and letters in _PAGE_COUNTS:
            return (-(-total // self._size) if self._size else min(total, 1),)
        if isinstance(before, bool):
            return (more,) if letters in _MORE_FLAGS else (False,) if letters == "incompleteresults" else ()
        if letters not in _NEXT_NAMES or isinstance(before, (dict, list)):
            return ()
        if not more:
            return None, _LEFT_OUT, ""
        page = max(self._page or 1, 1) + 1
        return (page, str(page)) if letters == "nextpage" else (str(end), end)


_LEFT_OUT = object()


def _parts_about_lists(whole: Any, at: dict[str, Any], path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    yield at
    around = [at, whole] if isinstance(whole, dict) and whole is not at else [at]
    for part in around:
        if part is not at:
            yield part
        for name, value in list(part.items()):
            if isinstance(value, dict) and plain_letters(name) in _INFO_PARTS and name not in path:
                yield value


def _read_int(asked: dict[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = asked.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _read_cursor(asked: dict[str, Any]) -> int | None:
    """The offset in a cursor that an earlier result returned."""
    for name in _CURSORS:
        value = asked.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
    return None


_QUERIES = ("q", "query", "search", "searchterm", "searchquery", "keyword", "keywords", "term")
_IDS = ("id", "uuid", "guid", "token", "sha", "etag")
_WORDS = re.compile(r"[\w\s.@-]+")
"""Matches a query of plain words, not of a query language."""


class ListingCall:
    """A listing of the entities of a session, filtered by the arguments."""

    def __init__(self, writer: AnswerWriter, arguments: dict[str, Any], *, invents: bool) -> None:
        self._writer = writer
        self._invents = invents
        """True if entities are invented where none exist."""
        self._arguments = arguments
        aside = {*writer.profile.role.scope, *writer.profile.ignored}
        self._filters = {plain_letters(name): value for name, value in arguments.items() if name not in aside}

    def answer(self) -> Any:
        """The matching entities; invents some if none were created and none match."""
        writer, store = self._writer, self._writer.store
        numbers = self._find_matches()
        if not numbers and self._invents and not store.is_written:
            numbers = self._invent_entities()
        pages = PageRequest(self._filters)
        shown = pages.cut_page(numbers)
        profile = writer.profile
        path = profile.list_path
        if path is None:
            items = [store.read(number) for number in shown]
            free = {"items": items, "total": len(numbers)} if profile.is_free else None
            ways = [way for way in (free, items, self._name_entities(shown)) if way is not None]
            whole = next(filter(profile.values.check, ways), None)
            return writer.make_answer(self._arguments, self._arguments) if whole is None else whole
        made = [writer.make_entity(number, store.read(number), path) for number in shown]
        whole = writer.wrap_entities(path, made, self._arguments, must=LIST_INFO)
        front = path.names[: path.names.index(ITEM)]
        pages.correct_counts(whole, front, (len(made), len(numbers)), profile.values.check)
        return whole

    def _name_entities(self, numbers: list[int]) -> list[Any] | None:
        """The names by which these entities are requested; None if the list cannot show them."""
        profile, store = self._writer.profile, self._writer.store
        reader, root = profile.reader or profile, profile.values.root
        check = profile.values.checker(item_node(root, root) or True)
        names = [find_name(store.read(number), reader.role.fields, store.kind) for number in numbers]
        found = [next(filter(check, spellings_of(name)), None) for name in names if name is not None]
        return None if None in found or len(found) < len(numbers) else found

    def _find_matches(self) -> list[int]:
        """Entities whose fields do not contradict the arguments."""
        store = self._writer.store
        filters = {
            name: value for name, value in self._filters.items() if isinstance(value, (str, int, bool)) and value != ""
        }
        found = []
        for number in store.numbers():
            fields = {plain_letters(name): value for name, value in store.read(number).items()} if filters else {}
            if all(_field_matches(fields.get(name), value) for name, value in filters.items()) and (
                (self._invents and not store.is_written) or self._has_words(fields)
            ):
                found.append(number)
        return found

    def _invent_entities(self) -> list[int]:
        writer, store = self._writer, self._writer.store
        count = limit_count(2 + Draw(writer.key + encode(self._arguments)).below(2), writer.profile)
        known: Fields = {}
        path = writer.profile.list_path
        letters = path.letters if path is not None else {}
        for name, value in self._filters.items():
            if name in letters and isinstance(value, (str, int, bool)):
                known[letters[name]] = value
        made = []
        for _ in range(count):
            number = store.next_number()
            own = {} if path is not None else {"id": writer.choose_id(number)}
            made.append(store.add({**copy_json(known), **own}, {}))
        return made

    def _has_words(self, fields: Fields) -> bool:
        """True if an entity contains the words of the query; invented entities always do."""
        text = None
        for name in _QUERIES:
            query = self._filters.get(name)
            if isinstance(query, str) and name not in fields and _WORDS.fullmatch(query):
                text = " ".join(_text_values(fields)).lower() if text is None else text
                if query not in fields.values() and not all(word in text for word in query.lower().split()):
                    return False
        return True


def _text_values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            # Ids are excluded, since almost any short text occurs in one.
            if not name.lower().endswith(_IDS):
                yield from _text_values(part)
    elif isinstance(value, list):
        for part in value:
            yield from _text_values(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _field_matches(field: Any, asked: Any) -> bool:
    """True unless the field contradicts the argument; for text, containing it is enough."""
    if field is None or isinstance(field, (list, dict)):
        return True
    if isinstance(field, str) and isinstance(asked, str):
        return asked.lower() in field.lower()
    return bool(field == asked) or str(field) == str(asked)

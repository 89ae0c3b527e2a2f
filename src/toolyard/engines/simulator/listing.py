"""`ListingCall`: one call that lists or searches entities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from toolyard.engines.simulator.answer_writer import FIRST_ID, AnswerWriter
from toolyard.engines.simulator.draw import Draw, encode
from toolyard.engines.simulator.entity_store import Fields
from toolyard.engines.simulator.pages import SAID, PageRequest
from toolyard.model.json_words import copied
from toolyard.words.identifiers import plain_letters

_QUERIES = ("q", "query", "search", "searchterm", "searchquery", "keyword", "keywords", "term")
_IDS = ("id", "uuid", "guid", "token", "sha", "etag")
_WORDS = re.compile(r"[\w\s.@-]+")
"""A query that is words to be found, and no language of its own."""


class ListingCall:
    """What is asked for, among the entities of a session."""

    def __init__(self, writer: AnswerWriter, arguments: dict[str, Any]) -> None:
        self._writer = writer
        self._arguments = arguments
        aside = {*writer.profile.role.scope, *writer.profile.ignored}
        self._filters = {plain_letters(name): value for name, value in arguments.items() if name not in aside}

    def answer(self) -> Any:
        """Those that are there and fit; some made up where nobody has made or asked for any."""
        writer, store = self._writer, self._writer.store
        numbers = self._find_matches()
        if not numbers and not store.is_written:
            numbers = self._invent_entities()
        pages = PageRequest(self._filters)
        shown = pages.cut_page(numbers)
        profile = writer.profile
        if profile.list_path is None or profile.list_maker is None:
            items = [store.read(number) for number in shown]
            return writer.fit_schema({"items": items, "total": len(numbers)}, self._arguments)
        made = [
            writer.make_entity(number, store.read(number), profile.list_maker, profile.list_path) for number in shown
        ]
        if not profile.list_path.names:
            return writer.fit_schema(made, self._arguments)
        names = profile.list_path.names
        whole = writer.put_part(names, made, self._arguments, must=SAID)
        if profile.values is not None:
            pages.correct_counts(whole, names, (len(made), len(numbers)), profile.values.check)
        return whole

    def _find_matches(self) -> list[int]:
        """Those whose fields say nothing else than the arguments."""
        store = self._writer.store
        filters = {
            name: value for name, value in self._filters.items() if isinstance(value, (str, int, bool)) and value != ""
        }
        found = []
        for number in store.numbers():
            fields = {plain_letters(name): value for name, value in store.read(number).items()} if filters else {}
            if all(_field_matches(fields.get(name), value) for name, value in filters.items()) and (
                not store.is_written or self._has_words(fields)
            ):
                found.append(number)
        return found

    def _invent_entities(self) -> list[int]:
        writer, store = self._writer, self._writer.store
        count = 2 + Draw(writer.key + encode(self._arguments)).below(2)
        known: Fields = {}
        path = writer.profile.list_path
        letters = {plain_letters(name): name for name in reversed(path.properties)} if path is not None else {}
        for name, value in self._filters.items():
            if name in letters and isinstance(value, (str, int, bool)):
                known[letters[name]] = value
        made = []
        for _ in range(count):
            number = store.next_number()
            own = {} if path is not None else {"id": FIRST_ID + number}
            made.append(store.add({**copied(known), **own}, {}))
        return made

    def _has_words(self, fields: Fields) -> bool:
        """Whether a thing has the words that are searched for; things that nobody made have any."""
        text = None
        for name in _QUERIES:
            query = self._filters.get(name)
            if isinstance(query, str) and name not in fields and _WORDS.fullmatch(query):
                text = " ".join(_text_values(fields)).lower() if text is None else text
                if not all(word in text for word in query.lower().split()):
                    return False
        return True


def _text_values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            # Any short word is somewhere in an id.
            if not name.lower().endswith(_IDS):
                yield from _text_values(part)
    elif isinstance(value, list):
        for part in value:
            yield from _text_values(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _field_matches(field: Any, asked: Any) -> bool:
    """True unless a thing says otherwise; text that is searched for need only be in it."""
    if field is None or isinstance(field, (list, dict)):
        return True
    if isinstance(field, str) and isinstance(asked, str):
        return asked.lower() in field.lower()
    return bool(field == asked) or str(field) == str(asked)

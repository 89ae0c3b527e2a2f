"""`Listing`: one call that lists or searches things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from toolyard.engines.simulator.draw import Draw, encode, plain_letters
from toolyard.engines.simulator.pages import SAID, Pages
from toolyard.engines.simulator.things import Fields
from toolyard.model.json_words import copied

if TYPE_CHECKING:
    from toolyard.engines.simulator.world import World

FIRST = 1000
"""Where the ids of things begin; they go up one by one."""
_QUERIES = ("q", "query", "search", "searchterm", "searchquery", "keyword", "keywords", "term")
_IDS = ("id", "uuid", "guid", "token", "sha", "etag")
_WORDS = re.compile(r"[\w\s.@-]+")
"""A query that is words to be found, and no language of its own."""


class Listing:
    """What is asked for, among the things of a session."""

    def __init__(self, world: World, arguments: dict[str, Any]) -> None:
        self._world = world
        self._arguments = arguments
        aside = {*world.profile.role.scope, *world.profile.aside}
        self._asked = {plain_letters(name): value for name, value in arguments.items() if name not in aside}

    def answer(self) -> Any:
        """Those that are there and fit; some made up where nobody has made or asked for any."""
        world = self._world
        numbers = self._fitting()
        if not numbers and not world.things.written:
            numbers = self._made_up()
        pages = Pages(self._asked)
        shown = pages.cut(numbers)
        profile = world.profile
        if profile.list is None or profile.list_maker is None:
            items = [world.things.read(number) for number in shown]
            return world.fitting({"items": items, "total": len(numbers)}, self._arguments)
        made = [world.made(number, world.things.read(number), profile.list_maker, profile.list) for number in shown]
        if not profile.list.path:
            return world.fitting(made, self._arguments)
        path = profile.list.path
        whole = world.put(path, made, self._arguments, must=SAID)
        if profile.values is not None:
            pages.tell(whole, path, (len(made), len(numbers)), profile.values.check)
        return whole

    def _fitting(self) -> list[int]:
        """Those whose fields say nothing else than the arguments."""
        things = self._world.things
        filters = {
            name: value for name, value in self._asked.items() if isinstance(value, (str, int, bool)) and value != ""
        }
        found = []
        for number in things.numbers():
            fields = {plain_letters(name): value for name, value in things.read(number).items()} if filters else {}
            if all(_agrees(fields.get(name), value) for name, value in filters.items()) and (
                not things.written or self._said(fields)
            ):
                found.append(number)
        return found

    def _made_up(self) -> list[int]:
        world = self._world
        count = 2 + Draw(world.where + encode(self._arguments)).below(2)
        known: Fields = {}
        place = world.profile.list
        letters = {plain_letters(name): name for name in reversed(place.properties)} if place is not None else {}
        for name, value in self._asked.items():
            if name in letters and isinstance(value, (str, int, bool)):
                known[letters[name]] = value
        made = []
        for _ in range(count):
            number = world.things.next_number()
            own = {} if place is not None else {"id": FIRST + number}
            made.append(world.things.add({**copied(known), **own}, {}))
        return made

    def _said(self, fields: Fields) -> bool:
        """Whether a thing has the words that are searched for; things that nobody made have any."""
        text = None
        for name in _QUERIES:
            query = self._asked.get(name)
            if isinstance(query, str) and name not in fields and _WORDS.fullmatch(query):
                text = " ".join(_texts(fields)).lower() if text is None else text
                if not all(word in text for word in query.lower().split()):
                    return False
        return True


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            # Any short word is somewhere in an id.
            if not name.lower().endswith(_IDS):
                yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _agrees(field: Any, asked: Any) -> bool:
    """True unless a thing says otherwise; text that is searched for need only be in it."""
    if field is None or isinstance(field, (list, dict)):
        return True
    if isinstance(field, str) and isinstance(asked, str):
        return asked.lower() in field.lower()
    return bool(field == asked) or str(field) == str(asked)

"""`EntityStore`: what a session has made, changed and removed, of one kind.

Kept in the session as JSON, so that it is rolled back, forked and stored with it: each entity by itself, what they are
called by in pages, so that one more entity is not all of them written again, and how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from toolyard.words.identifiers import plain_letters

Fields = dict[str, Any]
Entry = list[Any]
"""The number of a thing, and what it is called by."""

_INSIDE = ("metadata", "attributes", "properties")
"""Parts of a thing in which its name may be."""
_LONGEST = 100
_PAGE = 32
"""Things on a page."""


class EntityStore:
    """Those of one kind and scope."""

    def __init__(self, state: MutableMapping[str, Any], kind: str) -> None:
        self._state = state
        self._kind = kind
        self._index: dict[str, Any] = state.get(kind) or {"next": 1, "live": 0, "gone": [], "written": False}
        self._pages: dict[int, list[Entry]] = {}

    @property
    def is_written(self) -> bool:
        """True if a call made or removed one, so that no others are to be made up."""
        return bool(self._index["written"])

    def mark_written(self) -> None:
        """Remember that a call made or removed one."""
        self._index["written"] = True
        self._save_index()

    def __len__(self) -> int:
        return int(self._index["live"])

    def numbers(self) -> list[int]:
        """Those that are there, eldest first."""
        return [number for number, _ in self._live_entries()]

    def next_number(self) -> int:
        """The number of the one that is made next."""
        number: int = self._index["next"]
        return number

    def find(self, value: Any, fields: tuple[str, ...]) -> int | None:
        """The one that is called so, the latest of several."""
        return _find_entry(reversed(self._live_entries()), str(value), fields)

    def is_gone(self, value: Any, fields: tuple[str, ...]) -> bool:
        """True if one that was called so has been removed."""
        return _find_entry(iter(self._index["gone"]), str(value), fields) is not None

    def read(self, number: int) -> Fields:
        """What is known about one."""
        fields: Fields = self._state.get(f"{self._kind}#{number}") or {}
        return fields

    def add(self, fields: Fields, called: dict[str, Any]) -> int:
        """Keep a new one; `called` are further names it goes by."""
        number = self.next_number()
        self._index["next"] = number + 1
        self._index["live"] += 1
        self._write_page(number, [*self._read_page(number), [number, _handles_of(fields) | _short_texts(called)]])
        self._state[f"{self._kind}#{number}"] = fields
        self._save_index()
        return number

    def write(self, number: int, fields: Fields) -> None:
        """Keep what has become of one."""
        page = self._read_page(number)
        new = [[each, known | _handles_of(fields)] if each == number else [each, known] for each, known in page]
        if new != page:
            self._write_page(number, new)
        if self.read(number) != fields:
            self._state[f"{self._kind}#{number}"] = fields

    def remove(self, number: int) -> None:
        """Forget one, but not that it was there."""
        page = self._read_page(number)
        gone = [[0, handles] for each, handles in page if each == number]
        self._index["gone"] += gone
        self._index["live"] -= len(gone)
        self._write_page(number, [entry for entry in page if entry[0] != number])
        if f"{self._kind}#{number}" in self._state:
            del self._state[f"{self._kind}#{number}"]
        self.mark_written()

    def mark_gone(self, called: dict[str, Any]) -> None:
        """Remember that one was removed that nobody had asked for before."""
        self._index["gone"].append([0, _short_texts(called)])
        self.mark_written()

    def restore(self, value: Any, fields: tuple[str, ...]) -> None:
        """One that was removed may be made again."""
        text = str(value)
        self._index["gone"] = [
            entry for entry in self._index["gone"] if _find_entry(iter([entry]), text, fields) is None
        ]
        self._save_index()

    def _live_entries(self) -> list[Entry]:
        """Those that are there, eldest first, and what they are called by."""
        return [entry for first in range(0, self.next_number(), _PAGE) for entry in self._read_page(first)]

    def _read_page(self, number: int) -> list[Entry]:
        """The entries among which that number is, or would be."""
        at = number // _PAGE
        if at not in self._pages:
            self._pages[at] = self._state.get(f"{self._kind}#page {at}") or []
        return self._pages[at]

    def _write_page(self, number: int, entries: list[Entry]) -> None:
        at = number // _PAGE
        self._pages[at] = self._state[f"{self._kind}#page {at}"] = entries

    def _save_index(self) -> None:
        self._state[self._kind] = self._index


def _find_entry(entries: Iterator[Entry], value: str, fields: tuple[str, ...]) -> int | None:
    kept = list(entries)
    for field in fields:
        for number, handles in kept:
            if handles.get(field) == value:
                return int(number)
    return None


def _handles_of(fields: Fields) -> dict[str, str]:
    """What a thing may be asked for by: anything short, since nobody knows what others call it by."""
    inner = [fields[part] for part in _INSIDE if isinstance(fields.get(part), dict)]
    found: dict[str, str] = {}
    for part in (*inner, fields):
        found |= _short_texts(part)
    return found


def _short_texts(values: dict[str, Any]) -> dict[str, str]:
    return {
        plain_letters(name): str(value)
        for name, value in values.items()
        if isinstance(value, (str, int)) and not isinstance(value, bool) and len(str(value)) <= _LONGEST
    }

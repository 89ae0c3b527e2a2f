"""What was worked out before, as long as it is not too much.

Names and their surroundings come again and again, and are new ten thousand times in a first run: there a dict takes a
third of the time that `functools.lru_cache` does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Memo(dict[K, V], Generic[K, V]):
    def __init__(self, work: Callable[[K], V], most: int) -> None:
        self._work = work
        self._most = most

    def __missing__(self, key: K) -> V:
        found = self._work(key)
        if len(self) >= self._most:
            self.clear()
        self[key] = found
        return found


_MEMOS: list[_Memo[object, object]] = []


def remembered(most: int) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Work out each thing once; when there are `most` of them, begin again."""

    def decorate(work: Callable[[K], V]) -> Callable[[K], V]:
        memo = _Memo(work, most)
        _MEMOS.append(memo)  # type: ignore[arg-type]
        return memo.__getitem__

    return decorate


def forget() -> None:
    """Work out everything anew, as a process does that has just begun."""
    for memo in _MEMOS:
        memo.clear()

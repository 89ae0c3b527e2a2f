"""What was worked out before, as long as it is not too much.

Names and their surroundings come again and again, and are new ten thousand times in a first run. There a cache that
counts nothing takes a third of the time of one that does, so they are counted between runs: within one there are never
more than the definitions have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Memo(NamedTuple):
    work: functools._lru_cache_wrapper[Any]
    most: int


_MEMOS: list[_Memo] = []


def remembered(most: int) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Work out each thing once; more than `most` of them are not kept for the next run."""

    def decorate(work: Callable[[K], V]) -> Callable[[K], V]:
        memo = functools.cache(work)
        _MEMOS.append(_Memo(memo, most))
        return memo

    return decorate


def forget_too_many() -> None:
    """Begin again with whatever there is too much of."""
    for memo in _MEMOS:
        if memo.work.cache_info().currsize > memo.most:
            memo.work.cache_clear()


def forget() -> None:
    """Work out everything anew, as a process does that has just begun."""
    for memo in _MEMOS:
        memo.work.cache_clear()

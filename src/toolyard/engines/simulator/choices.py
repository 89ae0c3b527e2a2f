"""Makers of values of which one of several schemas must hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolyard.engines.simulator.draw import DEEP, LEAVES, Draw, GaveUp
from toolyard.engines.simulator.scalars import Check, Make, nothing
from toolyard.model.json_words import copied

_SIMPLE = (0, 1, -1, 10, -10, 1000, -1000, 10**6, -(10**6), 0.5, "", "a", "A", "1", True, False, None)
"""What is worth a try where nothing else was found."""


class Choice:
    """One of several makers; with a check, the first whose value passes."""

    __slots__ = ("_check", "_nulls", "_sample", "_shallow", "makers", "plain")

    def __init__(self, makers: list[tuple[int, Make]], check: Check | None) -> None:
        self.makers = [make for _, make in makers if make is not nothing]
        self._nulls = len(self.makers) < len(makers)
        self._shallow = [make for _, make in sorted(makers, key=lambda pair: pair[0])]
        self._check = check
        self.plain = check is None and not self._nulls and len(makers) <= 256
        self._sample: tuple[Any, ...] | None = None

    def __call__(self, draw: Draw) -> Any:
        """A value by one of them."""
        depth, spent, check = draw.depth, draw.spent, self._check
        if self.plain and depth <= DEEP and spent <= LEAVES:
            makers = self.makers
            try:
                return makers[draw.byte() % len(makers)](draw)
            except GaveUp:
                draw.depth, draw.spent = depth, spent
        for make in self._try_order(draw):
            try:
                value = make(draw)
            except GaveUp:
                draw.depth, draw.spent = depth, spent
                continue
            if check is None or check(value):
                return value
        if draw.loose:
            return self.makers[0](draw) if self.makers else None
        return self._sample_value()

    def _try_order(self, draw: Draw) -> Iterator[Make]:
        if draw.depth > DEEP or draw.spent > LEAVES:
            return iter(self._shallow)
        count = len(self.makers)
        if not count or (self._nulls and draw.below(8) == 0):
            return iter([nothing, *self.makers])
        if count == 1:
            return iter([self.makers[0], *self._shallow])
        start = draw.below(count)
        return iter([*self.makers[start:], *self.makers[:start], *self._shallow[:1]])

    def _sample_value(self) -> Any:
        """A value that is known to pass, found once and the same in every process."""
        if self._sample is None:
            self._sample = self._find_sample()
        if not self._sample:
            raise GaveUp("no way of several was found to work")
        return copied(self._sample[0])

    def _find_sample(self) -> tuple[Any, ...]:
        for attempt in range(6):
            for make in self._shallow:
                for spent in (LEAVES + 1, 0, -LEAVES * 10):
                    draw = Draw(b"sample %d" % attempt)
                    draw.spent = spent
                    try:
                        value = make(draw)
                    except (GaveUp, RecursionError):
                        continue
                    if self._check is None or self._check(value):
                        return (value,)
        return () if self._check is None else tuple(filter(self._check, _SIMPLE))[:1]

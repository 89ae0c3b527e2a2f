"""`Draw`, the source of deterministic pseudo-random numbers for all generated values, and simple makers.

The numbers are bytes of hashes of the input and a counter. Neither Python's hashes nor the `random` module are used, so
results are the same in every process. A maker is a function of a `Draw`: `one_of` picks one of some values, `Lazy`
defers building until first use, since a schema may contain itself, and `Choice` tries several makers, for schemas
with alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b, shake_128
from itertools import chain, islice
from typing import Any

import msgspec

from toolyard.model.json_schema import copy_json
from toolyard.words.identifiers import plain_letters

LEAVES = 300
"""Number of values after which only required parts are made."""
DEEP = 5
"""Depth below which only required parts are made."""
TOO_MANY = 20_000
"""Number of values after which a value is given up as recursive."""
_WORK = 100_000
"""Number of values after which a whole result is given up, including discarded ones."""
ROOM = 20_000
"""Maximum number of repetitions in a text generated from a pattern."""

encode = msgspec.json.Encoder(order="deterministic").encode


class GaveUp(Exception):
    """No sufficiently small value could be made."""


class Draw:
    """One sequence of numbers, and counters of what was made with it."""

    depth = 0
    spent = 0
    loose = False
    """True if a value that is not allowed is better than none."""
    room = ROOM
    """Repetitions left for patterns; after that, only required ones are made."""
    known: Any = None
    """The known value of the part to be made next; makers of arrays and objects consume it."""
    _work = 0

    def __init__(self, key: bytes, echo: dict[str, Any] | None = None, must: frozenset[str] = frozenset()) -> None:
        self.key = key
        """The input that determines the sequence."""
        self.restart(key)
        self.echo = echo
        """Known values by normalised name, or None."""
        self.must = must
        """Normalised names of properties that must be included."""
        self.variants = iter(range(_VARIANTS))
        """Variants that may still be tried to satisfy exactly one branch."""

    def restart(self, key: bytes) -> None:
        """Restart with another sequence."""
        first = blake2b(key).digest()
        self.source = chain(first, chain.from_iterable(_hash_blocks(first)))
        self.byte = self.source.__next__
        """The next number from 0 to 255."""

    def count_work(self, amount: int) -> None:
        """Count work; raises `GaveUp` once it exceeds the limit."""
        self._work += amount
        if self._work > _WORK:
            raise GaveUp("generating a value takes too many steps")

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        byte = self.byte
        if count <= 256:
            return byte() % count
        if count <= 1 << 24:
            return (byte() << 16 | byte() << 8 | byte()) % count
        size = (count.bit_length() + 15) // 8
        return int.from_bytes(bytes(islice(self.source, size)), "big") % count

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def letters(self, alphabet: str, count: int) -> str:
        """A text of `count` letters of the alphabet."""
        size = len(alphabet)
        return "".join([alphabet[byte % size] for byte in islice(self.source, count)])

    def hexadecimal(self, count: int) -> str:
        """A text of `count` hexadecimal digits."""
        return bytes(islice(self.source, count // 2 + 1)).hex()[:count]


def _hash_blocks(block: bytes) -> Iterator[bytes]:
    """The blocks that follow a block."""
    size = 84
    while True:
        # Blocks grow, since long ones cost less per byte.
        size = min(2 * size, 1344)
        block = shake_128(block).digest(size)
        yield block


Make = Callable[[Draw], Any]
"""Makes one value."""
Check = Callable[[Any], bool]


def make_null(draw: Draw) -> None:
    """Make null."""


def one_of(values: Sequence[Any]) -> Make:
    """Make one of these values, which must be immutable."""
    return lambda draw: values[draw.below(len(values))]


class Lazy:
    """A function of one argument that `build` creates on first use."""

    __slots__ = ("_build", "_function")

    def __init__(self, build: Callable[[], Callable[[Any], Any]]) -> None:
        self._build = build
        self._function: Callable[[Any], Any] | None = None

    def function(self) -> Callable[[Any], Any]:
        """The function itself, built if necessary."""
        if self._function is None:
            self._function = self._build()
        return self._function

    def __call__(self, argument: Any) -> Any:
        """Call the function."""
        return (self._function or self.function())(argument)


_NUMBERS = (0, 1, -1, 10, -10, 1000, -1000, 10**6, -(10**6), 0.5)
_TEXTS = ("", "a", "A", "1", "a text that is no word, number or date")
SIMPLE: tuple[Any, ...] = (*_NUMBERS, *_TEXTS, {}, [], True, False, None)
"""Simple values to try if nothing else was found."""


def count_same(value: Any, known: Any) -> int:
    """A score of how much of a known value is contained in a value, ignoring the spelling of names."""
    if isinstance(value, dict) and isinstance(known, dict):
        there = {plain_letters(name): item for name, item in value.items()}
        return 1 + sum(count_same(there.get(plain_letters(name)), item) for name, item in known.items())
    if isinstance(value, list) and isinstance(known, list):
        return 1 + sum(map(count_same, value, known))
    return int(value == known)


Mend = Callable[[Any, Any, Iterator[int]], Iterator[Any]]
"""Yields variants of a value that failed its check, given what is known of it, while tries are left."""


class Choice:
    """One of several makers. With a check, the first value that passes it, possibly after `mend`."""

    __slots__ = ("_check", "_mend", "_nulls", "_sample", "_shallow", "makers")

    def __init__(self, makers: list[tuple[int, Make]], check: Check | None, mend: Mend) -> None:
        self.makers = [make for _, make in makers if make is not make_null]
        self._nulls = len(self.makers) < len(makers)
        self._shallow = [make for _, make in sorted(makers, key=lambda pair: pair[0])]
        self._check = check
        self._mend = mend
        self._sample: tuple[Any, ...] | None = None

    def __call__(self, draw: Draw) -> Any:
        """A value by one of the makers."""
        depth, spent, known, check = draw.depth, draw.spent, draw.known, self._check
        if known is not None and len(self.makers) + self._nulls > 1:
            return self._keep_most(draw, known)
        for make in self._try_order(draw):
            draw.known = known
            try:
                value = make(draw)
            except GaveUp:
                draw.depth, draw.spent = depth, spent
                continue
            if check is None or check(value):
                return value
            for mended in self._mend(value, known, draw.variants):
                if check(mended):
                    return mended
        if draw.loose:
            return self.makers[0](draw) if self.makers else None
        return self._sample_value()

    def _keep_most(self, draw: Draw, known: Any) -> Any:
        """The value that contains most of `known`, after trying every maker."""
        depth, spent = draw.depth, draw.spent
        found: list[tuple[int, Any]] = []
        for make in self.makers:
            draw.depth, draw.spent, draw.known = depth, spent, known
            with suppress(GaveUp):
                value = Choice([(0, make)], self._check, self._mend)(draw)
                found.append((-count_same(value, known), value))
        draw.known = None
        if not found:
            raise GaveUp("none of the alternatives gave a valid value")
        return min(found, key=lambda pair: pair[0])[1]

    def _try_order(self, draw: Draw) -> Iterator[Make]:
        if draw.depth > DEEP or draw.spent > LEAVES:
            return iter(self._shallow)
        count = len(self.makers)
        if not count or (self._nulls and draw.below(8) == 0):
            return iter([make_null, *self.makers])
        if count == 1:
            return iter([self.makers[0], *self._shallow])
        start = draw.below(count)
        return iter([*self.makers[start:], *self.makers[:start], *self._shallow[:1]])

    def _sample_value(self) -> Any:
        """A value that passes the check, found once and the same in every process."""
        if self._sample is None:
            self._sample = self._find_sample()
        if not self._sample:
            raise GaveUp("none of the alternatives gave a valid value")
        return copy_json(self._sample[0])

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
        return () if self._check is None else tuple(filter(self._check, SIMPLE))[:1]


_VARIANTS = 10_000
"""Large, since dozens of branches may overlap in every item of a list."""

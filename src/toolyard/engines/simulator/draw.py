"""`Draw`: numbers that look random and are the same in every process.

They are the bytes of hashes over what was asked and a count. Neither Python's own hashes nor the `random` module are
used, so that nothing depends on how a process was started.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b, shake_128
from itertools import chain, islice
from typing import Any

import msgspec

LEAVES = 300
"""Values after which only what must be there is made."""
DEEP = 5
"""Levels below which only what must be there is made."""
TOO_MANY = 20_000
"""Values after which something is given up: it needs itself."""
_WORK = 100_000
"""Values after which a whole answer is given up, those counted that came to nothing."""
ROOM = 20_000
"""Repetitions in a text that is written by a pattern."""

encode = msgspec.json.Encoder(order="deterministic").encode


class GaveUp(Exception):
    """No value could be made that is small enough."""


class Draw:
    """One run of numbers, and how much has been made with it."""

    depth = 0
    spent = 0
    loose = False
    """True if something that is not allowed is better than nothing."""
    room = ROOM
    """Repetitions that may still be written by a pattern; then no more than it needs."""
    _work = 0

    def __init__(self, key: bytes, echo: dict[str, Any] | None = None, must: frozenset[str] = frozenset()) -> None:
        self.key = key
        """What was asked: the numbers follow from it."""
        first = blake2b(key).digest()
        self.source = source = chain(first, chain.from_iterable(_hash_blocks(first)))
        self.byte = source.__next__
        """A number from 0 to 255."""
        self.echo = echo
        """Values known already, by their names in plain letters; None for none."""
        self.must = must
        """Names, in plain letters, of properties that are not to be left out."""
        self.told: dict[Any, tuple[tuple[str, Any], ...]] = {}
        """Which values a part of the schema takes of those known already, for the parts that were met."""

    def again(self, key: bytes) -> None:
        """Go on with other numbers."""
        first = blake2b(key).digest()
        self.source = chain(first, chain.from_iterable(_hash_blocks(first)))
        self.byte = self.source.__next__

    def worked(self, amount: int) -> None:
        """Count what was done; `GaveUp` if it is too much, from then on."""
        self._work += amount
        if self._work > _WORK:
            raise GaveUp("it takes too much to make one")

    def below(self, count: int) -> int:
        """A whole number from 0 to count - 1."""
        byte = self.byte
        if count <= 256:
            return byte() % count
        if count <= 1 << 24:
            return (byte() << 16 | byte() << 8 | byte()) % count
        size = (count.bit_length() + 15) // 8
        return int.from_bytes(bytes(islice(self.source, size)), "big") % count

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + self.below(high - low + 1)

    def letters(self, alphabet: str, count: int) -> str:
        """That many letters."""
        size = len(alphabet)
        return "".join([alphabet[byte % size] for byte in islice(self.source, count)])

    def hexadecimal(self, count: int) -> str:
        """That many hexadecimal digits."""
        return bytes(islice(self.source, count // 2 + 1)).hex()[:count]


def _hash_blocks(block: bytes) -> Iterator[bytes]:
    """What follows on a block."""
    size = 84
    while True:
        # Whoever needs more needs much more, and long blocks are cheaper by the byte.
        size = min(2 * size, 1344)
        block = shake_128(block).digest(size)
        yield block

"""Writes of records, as a store is given them. None is ever refused: what became of it is in its `outcome`.

A refusal would break up the transaction it shares with the writes of others, which a client that repeats itself
could then do to everybody.
"""

from __future__ import annotations

import msgspec


class Outcome:
    """How many rows a write changed; valid once the write is acknowledged."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows = 0

    def tell(self, rows: int) -> None:
        """What the last attempt did."""
        self.rows = rows

    def tell_most(self, rows: int) -> None:
        """What any attempt did: a removal that has to be repeated finds nothing left to remove."""
        self.rows = max(self.rows, rows)


class PutRecord(msgspec.Struct, frozen=True):
    """A value under a name."""

    kind: str
    owner: str
    name: str
    value: bytes
    at: float
    stamp: int
    """Of the store's making, unique for ever: tells whether a write whose commit was not answered is there."""
    outcome: Outcome
    new: bool = False
    """Only if nothing has that name."""
    old: bytes | None = None
    """Only if this is the value now."""


class RemoveRecord(msgspec.Struct, frozen=True):
    """No value under that name any more."""

    kind: str
    owner: str
    name: str
    outcome: Outcome
    old: bytes | None = None
    """Only if this is the value now."""


class ExpireRecords(msgspec.Struct, frozen=True):
    """Some of the records of a kind that were written before a time, so that no transaction is long."""

    kind: str
    before: float
    most: int
    outcome: Outcome


RecordWrite = PutRecord | RemoveRecord | ExpireRecords

"""How often a call was made before in its session: which of several recordings comes next.

Read off the session's history, so that a simulated call takes nothing away and a fork goes on from where it began.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable

from toolyard.calls.invocation import Invocation
from toolyard.model.errors import Denied, ErrorInfo, Interrupted, InvalidArguments, NoEngine, UnknownToolError
from toolyard.sessions.history import Entry, History, read_entry
from toolyard.sessions.store import Key

_MOST_SESSIONS = 4096
_NEVER_PLAYED = frozenset(kind.code for kind in (Denied, Interrupted, InvalidArguments, NoEngine, UnknownToolError))


class _Counted:
    """The calls of one session up to an entry. The entry itself says whether it is still the same history."""

    __slots__ = ("counts", "last", "upto")

    def __init__(self) -> None:
        self.upto = 0
        self.last: bytes | None = None
        self.counts: Counter[str] = Counter()

    def copy(self) -> _Counted:
        """One that may go on by itself."""
        other = _Counted()
        other.upto, other.last, other.counts = self.upto, self.last, self.counts.copy()
        return other

    def is_of(self, history: History) -> bool:
        if self.upto > len(history):
            return False
        return self.upto == 0 or next(history.since(self.upto - 1)) is self.last


class Places:
    """Counts calls by session. `slot` says what is counted as one: the text for an entry, or None for no matter.

    `is_recorded` says of an entry that tells of a refusal, its slot and its place there, whether the refusal was
    itself recorded. Any other was made on this side of the cassette, and nothing was played.
    """

    def __init__(self, slot: Callable[[Entry], str | None], is_recorded: Callable[[ErrorInfo, str, int], bool]) -> None:
        self._slot = slot
        self._is_recorded = is_recorded
        self._lock = threading.Lock()
        self._sessions: OrderedDict[Key, _Counted] = OrderedDict()
        self._alone: Counter[str] = Counter()

    def before(self, invocation: Invocation, slot: str) -> int:
        """How many calls of that slot the session has seen before this one. For whoever has its turn."""
        session = invocation.session
        if not session.key.session_id:
            return self._numbered_alone(invocation, slot)
        counted = self._counts_of(session.key, session.history)
        if session.drafted:
            # Nobody will see these entries again.
            counted = counted.copy() if counted.upto < len(session.history) else counted
        for text in session.history.since(counted.upto):
            counted.upto, counted.last = counted.upto + 1, text
            self._count_entry(read_entry(text), counted.counts)
        return counted.counts[slot]

    def _count_entry(self, entry: Entry, counts: Counter[str]) -> None:
        slot, info = self._slot(entry), entry.tool_output.error_info
        if slot is None:
            return
        if info is None or info.code not in _NEVER_PLAYED or self._is_recorded(info, slot, counts[slot]):
            counts[slot] += 1

    def _counts_of(self, key: Key, history: History) -> _Counted:
        with self._lock:
            counted = self._sessions.get(key)
            if counted is None or not counted.is_of(history):
                counted = self._sessions[key] = _Counted()
            self._sessions.move_to_end(key)
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
            return counted

    def _numbered_alone(self, invocation: Invocation, slot: str) -> int:
        """Calls without a session come in the order in which they come; one that is simulated is not counted."""
        with self._lock:
            count = self._alone[slot]
            if invocation.mode == "execute":
                self._alone[slot] += 1
            return count

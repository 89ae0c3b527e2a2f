"""How many calls of a session each rule has matched so far: read off the history, and each entry only once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from toolyard.sessions.history import History
from toolyard.sessions.session import Session
from toolyard.sessions.store import Key

_MOST_SESSIONS = 4096

Matcher = Callable[[str], object]


class _Output(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    tool_output: _Output


_read_name = msgspec.json.Decoder(_Named).decode


class _Seen(msgspec.Struct):
    """What is known of a session up to an entry. The entry itself says whether it is still the same history."""

    upto: int
    last: bytes | None
    counts: tuple[int, ...]

    def is_of(self, history: History) -> bool:
        if self.upto > len(history):
            return False
        return self.upto == 0 or next(history.since(self.upto - 1)) is self.last


class MatchCounter:
    """Counts for the rules whose matchers it was given, by session. A draft or a fork starts from what it shares."""

    def __init__(self, matchers: Sequence[Matcher]) -> None:
        self._matchers = tuple(matchers)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[Key, _Seen] = OrderedDict()

    def before(self, session: Session) -> tuple[int, ...]:
        """For each matcher, how many of the session's calls so far it matched. For whoever has the turn."""
        history = session.history
        with self._lock:
            seen = self._sessions.get(session.key)
        if seen is None or not seen.is_of(history):
            seen = _Seen(0, None, (0,) * len(self._matchers))
        counts, last, upto = list(seen.counts), seen.last, seen.upto
        for text in history.since(upto):
            name = _read_name(text).tool_output.name
            for number, matches in enumerate(self._matchers):
                if matches(name):
                    counts[number] += 1
            last, upto = text, upto + 1
        if not session.drafted:
            self._keep(session.key, _Seen(upto, last, tuple(counts)))
        return tuple(counts)

    def _keep(self, key: Key, seen: _Seen) -> None:
        with self._lock:
            self._sessions[key] = seen
            self._sessions.move_to_end(key)
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)

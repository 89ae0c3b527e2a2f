"""`MemoryQuota`: how many bytes sessions in memory may take, each of them and all together.

A call pays for the bytes of its entry out of its session's `room`; only where that is used up is the session
measured. What forks share is charged once, to whoever wrote it, and given back when the last of them is gone.
"""

from __future__ import annotations

import threading

from toolyard.model.errors import SessionError, SessionFullError
from toolyard.sessions.session import Session

MAX_SESSION_BYTES = 256 * 1024 * 1024
MAX_BYTES = 4 * 1024 * 1024 * 1024
_STEP = 4096
"""Bytes that a session may at least add before it is measured again."""
_PART = 16
"""Of its size, the part that it may add: what is measured often is small."""


class Charge:
    """What one tail of entries is charged with; given back with it."""

    __slots__ = ("_quota", "size")

    def __init__(self, quota: MemoryQuota) -> None:
        self._quota = quota
        self.size = 0

    def __del__(self) -> None:
        # Whoever holds the lock may be interrupted by this: the garbage collector comes when it likes.
        self._quota.returned.append(self.size)


class MemoryQuota:
    """Measures sessions, and refuses to let them grow beyond what is allowed."""

    def __init__(self, max_session_bytes: int, max_bytes: int) -> None:
        self.max_session_bytes = max_session_bytes
        self.max_bytes = max_bytes
        self.returned: list[int] = []
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes of all sessions, as far as they were measured."""
        with self._lock:
            return self._settle()

    def admit(self, session: Session) -> None:
        """Begin to count for a session that no store has; `SessionFullError` if it begins with too much."""
        if session.durable:
            return
        session.history.charge = Charge(self)
        self.measure(session)
        self.check(session)

    def measure(self, session: Session) -> None:
        """Count what it holds now; from then on it is `full`, or has room to grow."""
        state, own = session.state.size, session.history.own_size
        size = state + session.history.size
        charge = session.history.charge
        with self._lock:
            if charge is not None:
                self._used += state + own - charge.size
                charge.size = state + own
            used = self._settle()
        left = min(self.max_session_bytes - size, self.max_bytes - used)
        session.full = left < 0
        session.room = max(min(left, max(_STEP, size // _PART)), 0)

    def check(self, session: Session) -> None:
        """Refuse a session that is still too large."""
        self.measure(session)
        if session.full:
            raise full_error(session)

    def check_total(self) -> None:
        """Refuse one more session where all together are too large."""
        if self.used > self.max_bytes:
            raise SessionError(f"sessions in memory hold {self.max_bytes:,} bytes, the most allowed; tear some down")

    def release(self, session: Session) -> None:
        """A session is over: what no fork shares of it is gone."""
        charge = session.history.charge
        if charge is not None:
            own = session.history.own_size
            with self._lock:
                self._used += own - charge.size
                charge.size = own

    def _settle(self) -> int:
        while self.returned:
            self._used -= self.returned.pop()
        return self._used


def full_error(session: Session) -> SessionFullError:
    """Nothing more goes into it."""
    return SessionFullError(
        f"session {session.key.session_id!r} is full, or all sessions in memory together are; nothing of this was run. "
        "Tear sessions down, ask for less, keep them in a store, or raise sessions.max_session_bytes or max_bytes"
    )

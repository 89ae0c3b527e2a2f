"""`Records`: small named values a service must not lose, beside its sessions or, where nothing is kept, in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod

from toolyard.sessions.store.record_tables import Record


class Records(ABC):
    """Values by kind, owner and name, for callers in many threads and, by the a-twins, on an event loop.

    A sync method may wait for a disk or a server; an a-twin never blocks the loop. A raised `SessionError` means that
    nothing was written, unless its text says that nobody knows. An a-twin that is cancelled gives up waiting: what
    it was asked to write may still be written.
    """

    shared: bool
    """True if other processes see the same records; False if they end with this one."""

    @abstractmethod
    def put(self, kind: str, owner: str, name: str, value: bytes, *, new: bool = False) -> bool:
        """Keep a value. With `new`, False if there is one of that name already, which then stays."""

    @abstractmethod
    def get(self, kind: str, owner: str, name: str) -> bytes | None:
        """The value, or None."""

    @abstractmethod
    def remove(self, kind: str, owner: str, name: str, *, old: bytes | None = None) -> bool:
        """Forget a value, if it is `old` where that is given; False if there was nothing to forget."""

    @abstractmethod
    def replace(self, kind: str, owner: str, name: str, old: bytes, value: bytes) -> bool:
        """Change a value that is still `old`; False if it is not."""

    @abstractmethod
    def all(self, kind: str, owner: str | None = None) -> list[Record]:
        """Every record of a kind, of one owner or of all, by owner and name."""

    @abstractmethod
    def version(self, kind: str) -> int:
        """Grows with every change of the kind, whichever process makes it, and is read before what it is the version
        of. Kinds that are written all the time (`answer`) have none: always 0.
        """

    @abstractmethod
    def expire(self, kind: str, before: float) -> int:
        """Forget what was written before that; says how many."""

    @abstractmethod
    def hold(self, kind: str, owner: str, name: str) -> bool:
        """Take a name for this process (there need be no value) unless another has it; one that dies lets go."""

    @abstractmethod
    def release(self, kind: str, owner: str, name: str) -> None:
        """Let go of it; nothing happens if it is not held."""

    @abstractmethod
    def holds(self, kind: str, owner: str, name: str) -> bool:
        """False if it is not held any more, for instance because the connection it went with is gone."""

    async def aput(self, kind: str, owner: str, name: str, value: bytes, *, new: bool = False) -> bool:
        """`put` for a task."""
        return self.put(kind, owner, name, value, new=new)

    async def aget(self, kind: str, owner: str, name: str) -> bytes | None:
        """`get` for a task."""
        return self.get(kind, owner, name)

    async def aremove(self, kind: str, owner: str, name: str, *, old: bytes | None = None) -> bool:
        """`remove` for a task."""
        return self.remove(kind, owner, name, old=old)

    async def areplace(self, kind: str, owner: str, name: str, old: bytes, value: bytes) -> bool:
        """`replace` for a task."""
        return self.replace(kind, owner, name, old, value)

    async def aall(self, kind: str, owner: str | None = None) -> list[Record]:
        """`all` for a task."""
        return self.all(kind, owner)

    async def aversion(self, kind: str) -> int:
        """`version` for a task."""
        return self.version(kind)

    async def aexpire(self, kind: str, before: float) -> int:
        """`expire` for a task."""
        return self.expire(kind, before)

    async def ahold(self, kind: str, owner: str, name: str) -> bool:
        """`hold` for a task."""
        return self.hold(kind, owner, name)

    async def arelease(self, kind: str, owner: str, name: str) -> None:
        """`release` for a task."""
        self.release(kind, owner, name)

    async def aholds(self, kind: str, owner: str, name: str) -> bool:
        """`holds` for a task."""
        return self.holds(kind, owner, name)

    @abstractmethod
    def close(self) -> None:
        """Let go of threads; the store is not ours to close."""

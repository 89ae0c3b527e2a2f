"""`Closing`: what is let go of by `with` and `async with` alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Override `close`; and `aclose` where letting go takes awaiting."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; safe to call twice."""

    async def aclose(self) -> None:
        """`close` for async code."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

"""What lets engines in the older style be: those with an `execute` or a constructor of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

NO_CONTEXT: Mapping[str, Any] = {}
_DRAFTING: ContextVar[frozenset[tuple[int, str]]] = ContextVar("toolyard_drafting", default=frozenset())
"""Engines and sessions for which `execute` is being used to simulate."""


def given(**options: Any) -> dict[str, Any]:
    """Options that were not left out: a subclass in the older style takes none of them."""
    return {name: value for name, value in options.items() if value is not None and value is not NO_CONTEXT}


def completed(init: Callable[..., None], ours: Callable[[Any], None]) -> Callable[..., None]:
    """A subclass's constructor, and ours behind it where it never called ours: the older style had none to call."""

    @functools.wraps(init)
    def complete(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        if "_path" not in self.__dict__:
            own = dict(self.__dict__)
            ours(self)
            self.__dict__.update(own)

    return complete


@contextmanager
def drafting(engine: object, session_id: str) -> Iterator[None]:
    """Within it, what an engine's own `execute` does in that session is a simulation."""
    token = _DRAFTING.set(_DRAFTING.get() | {(id(engine), session_id)})
    try:
        yield
    finally:
        _DRAFTING.reset(token)


def is_drafting(engine: object, session_id: str) -> bool:
    """True inside `drafting`."""
    return (id(engine), session_id) in _DRAFTING.get()

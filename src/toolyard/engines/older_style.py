"""What lets engines in the older style be: those with an `execute` or a constructor of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

NO_CONTEXT: Mapping[str, Any] = {}


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

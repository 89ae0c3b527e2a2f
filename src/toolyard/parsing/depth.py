"""How deep a parsed document nests, measured at C speed."""

from __future__ import annotations

import gc
from typing import Any

_CONTAINERS = frozenset({dict, list})


def nests_deeper(value: Any, limit: int) -> bool:
    """Whether a document of dicts and lists has more than `limit` levels of them; a scalar has none.

    Goes down level by level with the garbage collector's own view of who holds whom: two C calls a level
    instead of one Python step a value. CPython may leave a dict without containers untracked, so a level
    holds every container that has a level below it, and only the last step looks at types.
    """
    if limit < 1:
        return type(value) in _CONTAINERS
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(limit - 1):
        level = [*filter(gc.is_tracked, gc.get_referents(*level))]
        if not level:
            return False
    return any(type(child) in _CONTAINERS for child in gc.get_referents(*level))

"""`UsageLedger`: what the models have cost so far."""

from __future__ import annotations

import threading

import msgspec

from toolyard.links.lm.shapes import LMAnswer

_MILLION = 1_000_000


class Spent(msgspec.Struct, frozen=True):
    """Of one model."""

    requests: int = 0
    """Answered by its server."""
    cached: int = 0
    """Answered by the journal, which costs nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: float = 0.0
    """In whatever the prices are in."""


class UsageLedger:
    """Counts answers; may be read at any time, from any thread."""

    def __init__(self, prices: tuple[float, float] = (0.0, 0.0)) -> None:
        self._prices = prices
        self._lock = threading.Lock()
        self._spent: dict[str, Spent] = {}

    def add(self, model: str, answer: LMAnswer) -> None:
        """Count one answer, under the name by which the model was asked for."""
        with self._lock:
            old = self._spent.get(model, Spent())
            if answer.cached:
                self._spent[model] = msgspec.structs.replace(old, cached=old.cached + 1)
                return
            prompt, completion = answer.usage.prompt, answer.usage.completion
            self._spent[model] = Spent(
                old.requests + 1,
                old.cached,
                old.prompt_tokens + prompt,
                old.completion_tokens + completion,
                old.money + (prompt * self._prices[0] + completion * self._prices[1]) / _MILLION,
            )

    @property
    def spent(self) -> dict[str, Spent]:
        """By model, sorted by name."""
        with self._lock:
            return dict(sorted(self._spent.items()))

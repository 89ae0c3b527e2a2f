"""`Sample`: the tools that a sampler drew, and how they belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from toolyard.model.tool import Tool

How = Literal["direct", "first", "each", "wrap"]


class Feed(msgspec.Struct, frozen=True):
    """One value that one tool gives and another takes: `users[].user_id` -> `user_id`."""

    output: str
    """Path in the answer of the source: names joined by dots, `[]` behind a list."""
    parameter: str
    """Path in the arguments of the target."""
    score: float
    how: How = "direct"
    """As it is; the first of a list; a call for each of a list; or one value as a list of its own."""
    signals: Mapping[str, float] = {}
    """What speaks for it, kept apart: `name`, `type` and `text`, each from 0 to 1."""


class Edge(msgspec.Struct, frozen=True):
    """That the answer of one tool can feed another."""

    source: str
    """Qualified name."""
    target: str
    score: float
    feeds: tuple[Feed, ...] = ()
    """Best first."""
    covers_required: bool = False
    """True if the feeds give every parameter that the target requires."""
    source_overload: str = ""
    """The fingerprint of the overload."""
    target_overload: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return _to_plain(self)  # type: ignore[no-any-return]


class Sample(list[Tool]):
    """A list of tools that also says how they belong together.

    `roles` has one word for each tool, in the same order ("chain", "seed", "successor", "distractor", "gold", ...).
    With the same registry, options and `seed` the same sample is drawn again.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        topology: str,
        seed: int,
        edges: Sequence[Edge] = (),
        roles: Sequence[str] = (),
        score: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(tools)
        self.topology = topology
        self.seed = seed
        self.edges = tuple(edges)
        self.roles = tuple(roles) or (topology,) * len(self)
        self.score = score
        """How strong its weakest edge, or its best likeness, is; None where there is no such thing."""
        self.details: dict[str, Any] = dict(details or {})
        """What only some topologies have, such as the parameter that `tc/missing` took away."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: names, not definitions."""
        return {
            "tools": [tool.qualified_name for tool in self],
            "overloads": [tool.fingerprint for tool in self],
            "topology": self.topology,
            "seed": self.seed,
            "roles": list(self.roles),
            "edges": [edge.to_dict() for edge in self.edges],
            "score": self.score,
            "details": _to_plain(self.details),
        }

    def __repr__(self) -> str:
        return f"Sample({self.topology}, seed={self.seed}, {[tool.qualified_name for tool in self]})"


def _to_plain(value: Any) -> Any:
    """Data of the caller's own, as JSON has it: lists, no tuples."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    return [_to_plain(item) for item in value] if isinstance(value, list | tuple) else value

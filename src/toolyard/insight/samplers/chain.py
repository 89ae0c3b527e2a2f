"""`tc/chain`: each tool feeds the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import ClassVar

from toolyard.insight.sample import Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, Score, ToolSampler, Tries
from toolyard.insight.samplers.graph import Arrows, Graph
from toolyard.insight.samplers.rng import RandomStream

_LOOKAHEAD = 8
"""How far ahead dead ends are seen."""
_FIRST_LIMIT = 64
"""Steps that one start may take, per tool, before the others have had their turn."""

_PART_STEPS = 2000
_ARROWS = 32
"""To look at so many edges counts as a step."""


class ChainOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/chain` takes."""

    min_score: Score = 0.0
    """The weakest edge that counts."""
    max_tries: Tries = 100_000
    """Steps of the search, after which it gives up."""


class ChainSampler(ToolSampler[ChainOptions]):
    """A -> B -> C ...: `k` tools of different names, likelier along strong edges.

    The search goes back on dead ends and begins again elsewhere, so a chain that exists is found, if `max_tries`
    steps are enough for it.
    """

    sampler_name = "tc/chain"
    topology = "chain"
    required_artifacts = ("dataflow",)
    options_type: ClassVar[type[ChainOptions]] = ChainOptions

    def draw(self, ask: SampleRequest[ChainOptions]) -> Sample:
        """Search from random starts."""
        graph = ask.world.graph(ask.options.min_score, ask.spaces)
        search = ChainSearch(graph, ask.k, ask.chance("steps"), ask.options.max_tries)
        # No chain is longer than there are names; the rest is only about the part that is told of.
        found = search.run(_list_starts(ask, graph)) if ask.k <= max(1, graph.name_count) else []
        if len(found) < ask.k and ask.anchor is None:
            found = _find_longest(ask, graph, found)
        edges = graph.path(found)
        return ask.sample(
            found,
            reason=ask.explain_no_edges(graph, search.reason(ask.options.min_score)),
            edges=edges,
            score=min((edge.score for edge in edges), default=None),
        )


def _list_starts(ask: SampleRequest[ChainOptions], graph: Graph) -> Iterator[tuple[int, int]]:
    """Places in random order, each as the first of the chain; or a tool that has to be there, at each place of it."""
    if ask.anchor is not None:
        return ((ask.anchor, back) for back in ask.chance("position").each(range(ask.k)))
    places = graph.sources if ask.k > 1 and graph.sources else ask.places
    return ((place, 0) for place in ask.chance("start").each(places))


def _find_longest(ask: SampleRequest[ChainOptions], graph: Graph, found: list[int]) -> list[int]:
    """The longest chain that a short search finds, where there is none as long as it should be."""
    most = min(ask.k - 1, max(1, graph.name_count))
    while len(found) < most:
        length = (len(found) + most + 1) // 2
        part = ChainSearch(graph, length, ask.chance("part", length), _PART_STEPS).run(_list_starts(ask, graph))
        if len(part) > len(found):
            found = part
        if len(part) < length:
            most = length - 1
    return found


class ChainSearch:
    """Depth-first search for a path of `k` tools within a number of steps."""

    def __init__(self, graph: Graph, k: int, chance: RandomStream, budget: int) -> None:
        self._graph = graph
        self._k = k
        self._chance = chance
        self._left = budget
        self._budget = budget
        self._walks: dict[tuple[bool, int, int], bool] = {}
        self.best: list[int] = []
        """The longest path so far."""

    def run(self, starts: Iterable[tuple[int, int]]) -> list[int]:
        """A path of `k` places, or the longest that was met.

        Each start is (a place, how many tools come before it). None of them may use up what the others need: those
        that take long are put off, and get more steps each time they come back.
        """
        limit = _FIRST_LIMIT * self._k
        while True:
            late: list[tuple[int, int]] = []
            for place, back in starts:
                path, done = self._search_from(place, back, min(limit, self._left))
                if path is not None:
                    return path
                if self._left <= 0:
                    return self.best
                if not done:
                    late.append((place, back))
            if not late:
                return self.best
            starts, limit = late, limit * 4

    def reason(self, min_score: float) -> str:
        """Why there is no path."""
        if self._left <= 0:
            return f"no chain was met in max_tries={self._budget} steps"
        weak = f" with edges of {min_score} or more" if min_score else ""
        return f"there is no chain of {self._k} tools{weak}"

    def _search_from(self, start: int, back: int, limit: int) -> tuple[list[int] | None, bool]:
        """A path that has `start` behind `back` others; and whether all of them were looked at."""
        self._left -= 1
        if not (self._can_walk(False, start, back) and self._can_walk(True, start, self._k - 1 - back)):
            if not self.best:
                self.best = [start]
            return None, True
        names = self._graph.name_ids
        path = deque([start])
        used = {names[start]}
        stack: list[Iterator[int]] = []
        while len(path) < self._k:
            if len(path) > len(self.best):
                self.best = list(path)
            if len(stack) < len(path):
                stack.append(iter(self._list_next(path, back, used)))
            step = next(stack[-1], None)
            if step is not None and (limit <= 0 or self._left <= 0):
                return None, False
            if step is None:
                stack.pop()
                if not stack:
                    return None, True
                # The tool that this list of successors belonged to leaves again.
                used.discard(names[path.popleft() if len(path) - 1 <= back else path.pop()])
                continue
            limit -= 1
            self._left -= 1
            used.add(names[step])
            if len(path) <= back:
                path.appendleft(step)
            else:
                path.append(step)
        return list(path), True

    def _list_next(self, path: deque[int], back: int, used: set[int]) -> list[int]:
        """The places that can come next, in the order in which to try them."""
        size = len(path)
        forward = size > back
        rest = self._k - 1 - size if forward else back - size
        arrows = self._graph.out[path[-1]] if forward else self._graph.into[path[0]]
        self._left -= len(arrows) // _ARROWS
        names = self._graph.name_ids
        fit: Arrows = [
            (place, score)
            for place, score in arrows
            if names[place] not in used and self._can_walk(forward, place, rest)
        ]
        return self._chance.by_weight([place for place, _ in fit], [score for _, score in fit])

    def _can_walk(self, forward: bool, place: int, steps: int) -> bool:
        """Whether that many steps can be gone from here at all, be it in circles."""
        steps = min(steps, _LOOKAHEAD)
        if steps <= 0:
            return True
        key = (forward, place, steps)
        known = self._walks.get(key)
        if known is None:
            arrows = self._graph.out[place] if forward else self._graph.into[place]
            known = self._walks[key] = any(self._can_walk(forward, other, steps - 1) for other, _ in arrows)
        return known

"""Large namespaces fall into groups: tools that have more to do with each other than with the rest."""

from __future__ import annotations

from toolyard.insight.dataflow.artifact import Array

_ROUNDS = 12
_LARGE = 48
"""A namespace with no more tools than this is one group."""


def groups_of(count: int, sources: Array, targets: Array, weights: Array) -> list[list[int]]:
    """The groups, each in order; tools without an edge are one of them, the last.

    Each tool takes up, again and again, the mark that weighs most among its neighbours.
    """
    if count <= _LARGE or not len(sources):
        return [list(range(count))]
    near: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for source, target, weight in zip(sources.tolist(), targets.tolist(), weights.tolist(), strict=True):
        near[source].append((target, weight))
        near[target].append((source, weight))
    marks = list(range(count))
    for _ in range(_ROUNDS):
        before = list(marks)
        for tool, others in enumerate(near):
            if others:
                marks[tool] = _heaviest(others, marks)
        if marks == before:
            break
    groups: dict[int, list[int]] = {}
    for tool, mark in enumerate(marks):
        groups.setdefault(mark if near[tool] else count, []).append(tool)
    alone = groups.pop(count, [])
    return [*groups.values(), *([alone] if alone else [])]


def _heaviest(others: list[tuple[int, float]], marks: list[int]) -> int:
    weight: dict[int, float] = {}
    for other, tie in others:
        weight[marks[other]] = weight.get(marks[other], 0.0) + tie
    return min(weight, key=lambda mark: (-weight[mark], mark))

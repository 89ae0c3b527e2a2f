"""`tc/conflict`: tools that are easily taken for each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
import numpy as np

from toolyard.insight.base import Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, Score, ToolSampler
from toolyard.model.tool import Tool

_ALIKE = {"embeddings": 0.3, "words": 0.1}
"""The least likeness, by what it goes by, of tools that may be confused. It is a floor, not a mark of what is hard: of
two tools drawn by chance from all catalogs of the corpus, half have less than 0.2 by embeddings and 95% less than 0.05
by words."""


class ConflictOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/conflict` takes."""

    k: Annotated[int, msgspec.Meta(ge=2)] | None = None
    min_score: Score | None = None
    """The least likeness to the gold tool. None for a usual value, which tools of the same name need not reach."""
    groups: Annotated[int, msgspec.Meta(ge=1)] = 1
    """In how many groups, each with a gold tool of its own, the `k` tools are."""
    tool: str | None = None
    """The qualified name of the gold tool of the first group; None for one drawn by chance."""
    candidates: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Of so many tools drawn by chance, the one that is most easily confused becomes the gold one."""
    max_tries: Annotated[int, msgspec.Meta(ge=1)] = 256
    """Tools that are tried as the gold one."""


class ConflictSampler(ToolSampler[ConflictOptions]):
    """One gold tool and others that look like it but are called, or answer, in another way.

    Tools of the same bare name in other namespaces come first. Tools that differ in nothing but their namespace are
    no conflict, and left out.
    """

    sampler_name = "tc/conflict"
    topology = "conflict"

    def draw(self, ask: SampleRequest[ConflictOptions]) -> Sample:
        """Group by group: a gold tool, then the tools most like it."""
        options = ask.options
        if ask.k < 2 * options.groups:
            raise ask.refusal(f"{options.groups} groups need at least {2 * options.groups} tools, not {ask.k}")
        rows: list[tuple[int, str, int, float]] = []
        gold: list[dict[str, Any]] = []
        for group in range(options.groups):
            size = ask.k // options.groups + (group < ask.k % options.groups)
            found = self._draw_group(ask, group, size, [row[0] for row in rows])
            rows += [(place, "gold" if at == 0 else "confusable", group, score) for at, (place, score) in found]
            if found:
                gold.append(_describe_group(ask, found[0][1][0], [one for _, one in found[1:]], group))
        mixed = list(ask.chance("order").each(rows))
        return ask.sample(
            [place for place, *_ in mixed],
            reason=_explain_lack(ask),
            roles=[role for _, role, *_ in mixed],
            score=min((score for _, role, _, score in rows if role == "confusable"), default=None),
            details={
                "gold": gold[0]["tool"] if gold else None,
                "gold_overload": gold[0]["overload"] if gold else None,
                "groups": gold,
                "group_of": [group for _, _, group, _ in mixed],
                "likeness": ask.world.likeness.kind,
            },
        )

    def _draw_group(
        self, ask: SampleRequest[ConflictOptions], group: int, size: int, taken: list[int]
    ) -> list[tuple[int, tuple[int, float]]]:
        """The gold tool and its likes, or the most that were met."""
        best: list[tuple[int, float]] = []
        best_score = -1.0
        whole = 0
        for number, gold in enumerate(_list_golds(ask, group, taken)):
            if number == ask.options.max_tries or whole == ask.options.candidates:
                break
            found = _find_alike(ask, gold, size - 1, taken)
            score = min((score for _, score in found), default=0.0)
            if (len(found) + 1, score) > (len(best), best_score):
                best, best_score = [(gold, 1.0), *found], score
            whole += len(found) == size - 1
        return list(enumerate(best))


def _list_golds(ask: SampleRequest[ConflictOptions], group: int, taken: list[int]) -> Iterable[int]:
    name = ask.options.tool
    if ask.anchor is not None and group == 0:
        return [ask.anchor]
    if name is not None and group == 0:
        return [ask.place_of(name)]
    names = {ask.world.name_ids[place] for place in taken}
    return (place for place in ask.chance("gold", group).each(ask.places) if ask.world.name_ids[place] not in names)


def _find_alike(
    ask: SampleRequest[ConflictOptions], gold: int, number: int, taken: list[int]
) -> list[tuple[int, float]]:
    """The tools most like the gold one, with their likeness, each name once, namesakes first."""
    names = ask.world.name_ids
    used = {names[gold], *(names[place] for place in taken)}
    found: list[tuple[int, float]] = []
    for place, score in _by_likeness(ask, gold):
        if len(found) == number:
            break
        if names[place] not in used and list_differences(ask.tools[gold], ask.tools[place]):
            used.add(names[place])
            found.append((place, score))
    return found


def _by_likeness(ask: SampleRequest[ConflictOptions], gold: int) -> Iterator[tuple[int, float]]:
    """Places and their likeness: namesakes first, which need not be alike unless a likeness was asked for."""
    scores, limit = ask.world.likeness.to(gold), _least_likeness(ask)
    others = np.array([place for place in ask.places if place != gold], np.intp)
    others = others[np.lexsort((others, -scores[others]))]
    ranked = list(zip(others.tolist(), scores[others].tolist(), strict=True))
    named = frozenset(ask.world.namesakes(ask.tools[gold].name))
    least = -1.0 if ask.options.min_score is None else limit
    yield from (row for row in ranked if row[0] in named and row[1] >= least)
    yield from (row for row in ranked if row[0] not in named and row[1] >= limit)


def _least_likeness(ask: SampleRequest[ConflictOptions]) -> float:
    given = ask.options.min_score
    return _ALIKE[ask.world.likeness.kind] if given is None else given


def _explain_lack(ask: SampleRequest[ConflictOptions]) -> str:
    likeness = ask.world.likeness.kind
    fewer = "ask for fewer tools" + (f", lower min_score={_least_likeness(ask)}" if _least_likeness(ask) else "")
    words = "; likeness goes by words: the enrichment embeddings may see more of it" if likeness == "words" else ""
    return (
        f"no tool is like so many others by {_least_likeness(ask)} or more; {fewer}, or add tools that are alike{words}"
    )


def list_differences(one: Tool, other: Tool) -> list[str]:
    """The parts of the contract in which two tools differ, their names apart."""
    found = ["parameters"] if one.fingerprint != other.fingerprint else []
    found += ["output_parameters"] if one.output_parameters != other.output_parameters else []
    found += ["description"] if one.description != other.description else []
    return found + (["effects"] if one.effects != other.effects else [])


def _describe_group(
    ask: SampleRequest[ConflictOptions], gold: int, likes: list[tuple[int, float]], group: int
) -> dict[str, Any]:
    tool = ask.tools[gold]
    return {
        "group": group,
        "tool": tool.qualified_name,
        "overload": tool.fingerprint,
        "conflicts": [
            {
                "tool": ask.tools[place].qualified_name,
                "likeness": round(score, 4),
                "same_name": ask.tools[place].name == tool.name,
                "differs": list_differences(tool, ask.tools[place]),
            }
            for place, score in likes
        ],
    }

"""What a sampler is.

```python
class ByTagOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tag: str = "public"


@register_tool_sampler("mine/by_tag")
class ByTag(ToolSampler[ByTagOptions]):
    topology = "set"

    def draw(self, ask):
        fit = [place for place in ask.places if ask.options.tag in ask.tools[place].tags]
        return ask.sample(list(ask.chance("tools").each(fit))[: ask.k], reason="too few tools have the tag")
```
"""

from __future__ import annotations

import logging
import math
import operator
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, cast, get_args, get_origin

import msgspec

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.insight.base import Edge, Sample
from toolyard.insight.samplers.snapshot_view import SnapshotView, world_of
from toolyard.model.errors import ConfigError, SamplingError
from toolyard.model.names import nearest, suggest
from toolyard.model.tool import Tool
from toolyard.plugins import View
from toolyard.registry.enriching import missing
from toolyard.schema.options import ConfigOption, options_of, read_value

if TYPE_CHECKING:
    from toolyard.insight.samplers.snapshot_view import Graph


T = TypeVar("T")


def fresh_seed() -> int:
    """A seed that nobody has used."""
    return secrets.randbits(63)


def derive_seed(seed: int, *purpose: str | int) -> int:
    """The seed of one purpose under another seed; equal for equal words, 63 bits."""
    # Python refuses to write very long numbers in tens.
    start = str(seed) if -(1 << 128) < seed < 1 << 128 else hex(seed)
    text = "\x1f".join((start, *(str(word) for word in purpose)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class RandomStream:
    """A stream of random choices. It draws on `Random.random` alone, which no Python release changes."""

    def __init__(self, seed: int, *purpose: str | int) -> None:
        self._next = Random(derive_seed(seed, *purpose)).random  # noqa: S311 (it has to repeat)

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        return int(self._next() * count)

    def fraction(self) -> float:
        """A number from 0 up to, but not including, 1."""
        return self._next()

    def pick(self, items: Sequence[T]) -> T:
        """One of them, each as likely as the others."""
        return items[self.below(len(items))]

    def each(self, items: Sequence[T]) -> Iterator[T]:
        """All of them in random order; those that are not asked for cost nothing."""
        moved: dict[int, int] = {}
        for place in range(len(items)):
            other = place + self.below(len(items) - place)
            yield items[moved.get(other, other)]
            moved[other] = moved.pop(place, place)

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """One of them, likelier the heavier it is."""
        point = self._next() * math.fsum(weights)
        for item, weight in zip(items, weights, strict=True):
            point -= weight
            if point < 0:
                return item
        return items[-1]

    def by_weight(self, items: Sequence[T], weights: Sequence[float]) -> list[T]:
        """All of them, as if drawn one after the other by weight, without putting any back."""
        keys = [-math.log(1.0 - self._next()) / max(weight, 1e-9) for weight in weights]
        return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]


Start = TypeVar("Start")


def search_starts(
    starts: Iterable[Start],
    limit: int,
    search: Callable[[Start, int], tuple[T | None, bool]],
    is_spent: Callable[[], bool],
) -> T | None:
    """What a search finds from one of the starts within so many steps: (what it found, whether it looked at all).

    None of them may use up what the others need: those that take long are put off, and get more steps each time they
    come back. None if there is nothing, or everything is spent.
    """
    while True:
        late: list[Start] = []
        for start in starts:
            found, done = search(start, limit)
            if found is not None or is_spent():
                return found
            if not done:
                late.append(start)
        if not late:
            return None
        starts, limit = late, limit * 4


_log = logging.getLogger(__name__)

Score = Annotated[float, msgspec.Meta(ge=0, le=1)]
Tries = Annotated[int, msgspec.Meta(ge=1)]

_NUMBERS = ("k", "seed")
_ASKED_OF = {"neighbors": ("near", "duplicates"), "dataflow": ("out_edges", "edge")}
"""What samplers call of artifacts, which an enrichment of anybody's may make."""


class SamplerOptionError(SamplingError, ConfigError):
    """What a sampler was asked for cannot be: an option, a namespace or an artifact that is not there."""


class SamplerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every sampler takes, when it is made or with each `sample`."""

    k: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """How many tools, exactly."""
    seed: int | None = None
    """Where randomness begins; None for another sample each time."""
    namespace: str | tuple[str, ...] | None = None
    """The namespace, or namespaces, to draw from; None for all, also where the constructor was given some."""
    allow_short: bool = False
    """Return fewer than `k` tools, where there are no more, instead of raising."""
    strict: bool = True
    """An option that the sampler does not have is an error; if False, it is logged and ignored."""


O = TypeVar("O", bound=SamplerOptions)  # noqa: E741


class SampleRequest(Generic[O]):
    """One call of `sample`: what is wanted, and the registry as it was when the call began."""

    def __init__(self, sampler: str, topology: str, view: View, options: O, k: int, seed: int) -> None:
        self.sampler = sampler
        self.topology = topology
        self.view = view
        self.options = options
        self.k = k
        self.seed = seed
        self.anchor: int | None = None
        """The place of a tool that has to be in the sample; used by `tc/coverage`."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Every tool; samplers speak of tools by their place here."""
        return self.world.tools

    @cached_property
    def world(self) -> SnapshotView:
        """What has been worked out about these tools."""
        return world_of(self.view)

    @cached_property
    def spaces(self) -> tuple[str, ...]:
        """The namespaces to draw from, in the order of registration; one that does not exist is an error."""
        chosen = self.options.namespace
        if chosen is None:
            return tuple(self.world.spaces)
        wanted = (chosen,) if isinstance(chosen, str) else chosen
        for namespace in wanted:
            self.known(namespace)
        return tuple(space for space in self.world.spaces if space in wanted)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The places of the tools of these namespaces."""
        if len(self.spaces) == len(self.world.spaces):
            return self.world.all_places
        return tuple(sorted(place for space in self.spaces for place in self.world.spaces[space]))

    def known(self, namespace: str) -> None:
        """Raise if no tool is in that namespace."""
        spaces = self.world.spaces
        if namespace not in spaces:
            near = nearest(namespace, spaces)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, spaces)) or 'none'}"
            raise self.refusal(f"no tool is in the namespace {namespace!r}; {hint}")

    def place_of(self, qualified_name: str) -> int:
        """The place of a tool, the first of its overloads; a name that does not exist is an error."""
        namespace, _, name = qualified_name.partition(TOOL_NAMESPACE_SEP)
        found = self.world.named(namespace, name)
        if not found:
            names = [tool.qualified_name for tool in self.tools]
            near = nearest(qualified_name, names)
            raise self.refusal(
                f"no tool is called {qualified_name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )
        return found[0]

    def chance(self, *purpose: str | int) -> RandomStream:
        """A stream of randomness for one purpose."""
        return RandomStream(self.seed, self.sampler, *purpose)

    def refusal(self, text: str) -> SamplerOptionError:
        """An error about what was asked."""
        return SamplerOptionError(f"{self.sampler}: {text}", requested=self.k)

    def failure(self, reason: str, tools: Sequence[Tool] = ()) -> SamplingError:
        """That there is no such sample, with the part that was found."""
        found = f"found {len(tools)} of {self.k} tools" if tools else f"found none of {self.k} tools"
        return SamplingError(f"{self.sampler}: {found}: {reason}", requested=self.k, tools=tools)

    def explain_no_edges(self, graph: Graph, reason: str) -> str:
        """`reason`; if nothing can feed anything because nobody has said what the tools return, that too."""
        if graph.linked or self.world.graph(0.0, self.spaces).linked:
            return reason
        if any(self.tools[place].output_parameters for place in self.places):
            return reason
        silent = f"none of the {len(self.places)} tools says what it returns"
        return f"{reason}: {silent}; add the enrichment output_parameters"

    def sample(
        self,
        found: Sequence[int] | Sequence[Tool],
        *,
        reason: str = "there are no more",
        roles: Sequence[str] = (),
        edges: Sequence[Edge] = (),
        score: float | None = None,
        details: Mapping[str, Any] | None = None,
        topology: str = "",
    ) -> Sample:
        """The sample of these tools, given as they are or by their places; if there are too few, the `reason`."""
        tools = [self.tools[one] if isinstance(one, int) else one for one in found]
        if len(tools) != self.k and not (tools and len(tools) < self.k and self.options.allow_short):
            raise self.failure(reason, tools)
        return Sample(
            tools,
            topology=topology or self.topology,
            seed=self.seed,
            edges=edges,
            roles=roles,
            score=score,
            details=details,
        )

    def pass_on(self, sample: Sample, **details: Any) -> Sample:
        """What another sampler drew, as it is, with more to tell."""
        return self.sample(
            list(sample),
            roles=sample.roles,
            edges=sample.edges,
            score=sample.score,
            topology=sample.topology,
            details={**sample.details, **details},
        )


class ToolSampler(Generic[O]):
    """Draws sets of related tools.

    Options given to `sample` win over those of the constructor; one that is given as None is back at its default, so
    that `namespace=None` draws from all. (`k` and `seed` as None are not given.) Nothing is written to a sampler after
    it is made, so any number of threads may share it. Each `sample` sees the registry as it is at that moment. A
    subclass overrides `draw`, or `sample` whole.
    """

    sampler_name: ClassVar[str] = ""
    """The name that it is registered under."""
    topology: ClassVar[str] = "set"
    required_artifacts: ClassVar[tuple[str, ...]] = ()
    """The artifacts without which it cannot be made."""
    options_type: ClassVar[type[SamplerOptions]] = SamplerOptions
    """Taken from the class itself where that says it: `ByTag(ToolSampler[ByTagOptions])`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in () if "options_type" in cls.__dict__ else cls.__dict__.get("__orig_bases__", ()):
            if get_origin(base) is ToolSampler and isinstance(get_args(base)[0], type):
                cls.options_type = get_args(base)[0]
        if cls.draw is ToolSampler.draw and cls.sample is ToolSampler.sample:
            raise TypeError(f"{cls.__name__} must define `draw(ask)`, which returns `ask.sample(...)`")

    def __init__(self, registry: Any, *, k: int | None = None, seed: int | None = None, **options: Any) -> None:
        if not hasattr(registry, "snapshot"):
            raise SamplingError(f"a sampler needs a registry, not {type(registry).__name__}")
        self.registry = registry
        self.options: O = self._read_options(self.options_type(), {**options, "k": k, "seed": seed})
        self.require(self._take_snapshot())
        self._check_inner()

    def sample(self, k: int | None = None, *, seed: int | None = None, **overrides: Any) -> Sample:
        """Exactly `k` tools; otherwise `SamplingError` with those that were found.

        The same registry, options and seed give the same sample. With a seed among the options of the constructor
        that is every call; `series` draws different ones from one seed.
        """
        return self.sample_from(self._take_snapshot(), {**overrides, "k": k, "seed": seed})

    def series(self, n: int, k: int | None = None, *, seed: int | None = None, **overrides: Any) -> Iterator[Sample]:
        """`n` samples, each with its own seed, derived from the one given."""
        start = self._series_seed(seed)
        for number in range(n):
            yield self.sample(k, seed=derive_seed(start, "series", number), **overrides)

    def draw(self, ask: SampleRequest[O]) -> Sample:
        """Find the tools and return `ask.sample(...)` of them."""
        raise TypeError(f"{type(self).__name__} has no way to draw for {ask.sampler}")

    def sample_from(self, view: View, given: Mapping[str, Any], anchor: int | None = None) -> Sample:
        """`sample` of a registry at one moment, for samplers that draw with the help of others.

        The tool at the place `anchor`, if that is given, has to be in the sample.
        """
        ask = self._build_request(given, view)
        if anchor is not None and ask.tools[anchor].namespace not in ask.spaces:
            raise ask.failure(f"{ask.tools[anchor].qualified_name} is in none of the namespaces to draw from")
        ask.anchor = anchor
        return self.draw(ask)

    def _build_request(self, given: Mapping[str, Any], view: View | None = None) -> SampleRequest[O]:
        """What a call asks for, checked."""
        view = self._take_snapshot() if view is None else view
        options = self._read_options(self.options, given)
        seed = fresh_seed() if options.seed is None else options.seed
        k = self.count(options, seed)
        if k is None:
            raise SamplerOptionError(f"{self._called}: say how many tools: k=...")
        self.require(view)
        ask = SampleRequest(self._called, self.topology, view, options, k, seed)
        if not ask.tools:
            raise ask.failure("the registry is empty")
        if not ask.places:
            raise ask.refusal("the list of namespaces is empty; name some, or leave it out for all")
        return ask

    def count(self, options: O, seed: int) -> int | None:
        """The number of tools to draw; None if not set."""
        return options.k

    def require(self, view: View) -> None:
        """Raise if an artifact that this sampler needs is not there, or is something else."""
        for artifact in self.required_artifacts:
            if artifact not in view.artifacts:
                raise SamplerOptionError(missing(self._called, artifact))
            made = view.artifacts[artifact]
            lacks = [name for name in _ASKED_OF.get(artifact, ()) if not callable(getattr(made, name, None))]
            if lacks:
                raise SamplerOptionError(
                    f"{self._called}: the artifact {artifact!r} is of type {type(made).__name__}, without the methods "
                    f"{', '.join(lacks)}; let the enrichment {artifact} make it, or give an object that has them"
                )

    def _check_inner(self) -> None:
        """For those that draw with the help of others: raise if these cannot be made of the constructor's options."""

    def _take_snapshot(self) -> View:
        return cast("View", getattr(self.registry, "snapshot", self.registry))

    def _series_seed(self, seed: int | None) -> int:
        known = self._read_options(self.options, {"seed": seed}).seed
        return fresh_seed() if known is None else known

    @property
    def _called(self) -> str:
        return self.sampler_name or type(self).__name__

    def _read_options(self, base: SamplerOptions, given: Mapping[str, Any]) -> O:
        """`base` with what is given in its place, checked. None is the default; of `k` and `seed`, it gives nothing."""
        known = options_of(type(base))
        new: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                self._refuse_unknown(name, known, given)
            elif value is not None:
                new[name] = self._read_option(known[name], _as_int(value) if name in _NUMBERS else value)
            elif name not in _NUMBERS:
                new[name] = known[name].default
        return cast("O", msgspec.structs.replace(base, **new))

    def _read_option(self, option: ConfigOption, value: Any) -> Any:
        try:
            return read_value(option.type, value, f"{self._called}: {option.name}")
        except ConfigError as error:
            raise SamplerOptionError(str(error)) from None

    def _refuse_unknown(self, name: str, known: Iterable[str], given: Mapping[str, Any]) -> None:
        text = f"{self._called} has no option {name!r}; {suggest(name, known, 'it takes ')}"
        strict = given.get("strict", self.options.strict if hasattr(self, "options") else True)
        if strict is not False:
            raise SamplerOptionError(text)
        _log.warning("%s", text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options})"


def _as_int(value: Any) -> Any:
    """A whole number of any kind, such as numpy's, as an `int`; what is none is left to be refused."""
    if isinstance(value, bool):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value

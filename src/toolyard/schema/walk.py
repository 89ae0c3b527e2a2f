"""Find out why a value does not fit its schema, at a bounded cost.

The validator's own list of errors costs branches^depth in a recursive schema, and a copy of the enum for each wrong
item, all while holding the interpreter lock. `Walk` visits only the wrong parts, remembers results, counts its steps,
and stops when they are spent. The rules of a schema without its subschemas are checked by the validator; the results of
subschemas are combined here. The walk uses an explicit stack of frames, so that deep values cannot exceed the recursion
limit.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from itertools import islice
from typing import Any, TypeAlias

import msgspec

from toolyard.model.json_schema import IN_PLACE
from toolyard.model.tool import Schema
from toolyard.schema.subschemas import prefix_items, types_of
from toolyard.schema.violations import (
    FALSE_SCHEMA,
    Explainer,
    Misfit,
    OwnRules,
    Path,
    Wanted,
    word_type,
    word_unexpected,
    word_violation,
)
from toolyard.schema.weight import UNIQUE, measure, pattern_steps, wide_steps

_STEP = 60
"""The cost of a step in Python, in the steps that `weight` counts."""
_CHUNK = 256
_MOST_WANTED = 16
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_JUDGING_ALL = IN_PLACE - _REFERENCES - {"anyOf", "oneOf"}


class StepsSpent(Exception):
    """The step limit is exhausted."""


class Frame:
    """The examination of one value by one schema."""

    __slots__ = ("found", "is_probe", "limit", "node", "path", "steps", "value")

    def __init__(self, node: Schema, value: Any, path: Path, limit: int, is_probe: bool) -> None:
        self.node, self.value, self.path, self.limit, self.is_probe = node, value, path, limit, is_probe
        self.found: list[Misfit] = []
        self.steps: Steps

    @property
    def is_full(self) -> bool:
        """True when enough faults are found."""
        return len(self.found) >= self.limit

    def add(self, message: str, keyword: str, types: Iterable[str] = ()) -> None:
        """Add a fault of the value itself."""
        wanted = tuple(types)
        self.found.append(Misfit((), message, keyword, (((), wanted),) if wanted else ()))

    def examine(self, node: Any, value: Any, prefix: Path = ()) -> Steps:
        """Add the faults that a subschema finds in the value or in the part at `prefix`, unless there are enough."""
        left = self.limit - len(self.found)
        if left > 0:
            faults = yield node, value, prefix, left, self.is_probe
            self.found.extend(fault.below(prefix) if prefix else fault for fault in faults)


Request: TypeAlias = tuple[Any, Any, Path, int, bool]
"""A schema, a value, its path, the maximum number of faults, and whether this only tests whether it fits."""
Steps: TypeAlias = Generator[Request, list[Misfit], None]


def _probe(node: Any, value: Any, limit: int = 1) -> Request:
    return node, value, (), limit, True


class Walk:
    """One walk over one value."""

    def __init__(self, explainer: Explainer, steps: int, *, repairs: bool = False) -> None:
        self._explainer = explainer
        self.left = steps
        self._repairs = repairs
        self._frames: list[Frame] = []
        self._active: set[tuple[int, int]] = set()
        self._known: dict[tuple[int, int, int], list[Misfit]] = {}
        self.is_spent = False

    def find_faults(self, value: Any, limit: int) -> list[Misfit]:
        """The faults, up to `limit` or until the steps run out; `is_spent` is true in that case."""
        try:
            return self._drive((self._explainer.schema, value, (), limit, False))
        except StepsSpent:
            self.is_spent = True
            found = [fault.below(frame.path) for frame in self._frames if not frame.is_probe for fault in frame.found]
            if not found:
                deepest = [frame.path for frame in self._frames if not frame.is_probe][-1:]
                found = [Misfit(deepest[0] if deepest else (), "does not fit its schema", "schema")]
            return found[:limit]

    def _spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise StepsSpent

    def _spend_own_rules(self, own: OwnRules, value: Any) -> None:
        """Charge the validator's cost of checking the schema's own rules."""
        steps = own.steps
        if type(value) is int:
            steps += wide_steps(value)
        elif own.pattern is not None and type(value) is str:
            steps += _text_steps(own.pattern, value)
        elif own.is_unique and type(value) is list:
            size = measure(value, self.left)
            steps = self.left + 1 if size is None else UNIQUE * size.values + size.wide * size.wide_values
        self._spend(steps)

    def _drive(self, request: Request) -> list[Misfit]:
        frames = self._frames
        result = self._begin(request)
        while frames:
            frame = frames[-1]
            try:
                if result is None:
                    request = next(frame.steps)
                else:
                    request = frame.steps.send(result)
            except StopIteration:
                result = self._end(frame)
            else:
                result = self._begin(request)
        return result or []

    def _begin(self, request: Request) -> list[Misfit] | None:
        """Return the faults if known; otherwise push a frame that will find them and return None."""
        node, value, prefix, limit, is_probe = request
        node = self._explainer.follow(node)
        if not isinstance(node, dict):
            return [FALSE_SCHEMA] if node is False else []
        self._spend(_STEP)
        pair = (id(node), id(value))
        known = self._known.get((*pair, 0))
        if known is None and is_probe:
            known = self._known.get((*pair, limit))
        if known is not None or pair in self._active:
            return known or []
        own = self._explainer.rules_of(node)
        self._spend_own_rules(own, value)
        if own.is_all and own.accepts(value):
            return []
        self._spend(2 * _STEP)
        path = self._frames[-1].path + prefix if self._frames else prefix
        frame = Frame(node, value, path, limit, is_probe)
        if own.is_all:
            self._add_own_faults(frame, own)
            return frame.found[:limit]
        frame.steps = self._examine(frame, own)
        self._active.add(pair)
        self._frames.append(frame)
        return None

    def _end(self, frame: Frame) -> list[Misfit]:
        self._frames.pop()
        pair = (id(frame.node), id(frame.value))
        self._active.discard(pair)
        found = frame.found[: frame.limit]
        if not found:
            self._known[(*pair, 0)] = found
        elif frame.is_probe:
            self._known[(*pair, frame.limit)] = found
        return found

    def _examine(self, frame: Frame, own: OwnRules) -> Steps:
        node, value = frame.node, frame.value
        is_reference = self._explainer.is_old and "$ref" in node
        if type(value) is dict and not is_reference:
            # Discriminators come before missing properties; otherwise an unintended branch would be explained by what
            # is missing.
            yield from self._examine_declared(frame, discriminators=True)
        if not own.accepts(value):
            self._add_own_faults(frame, own)
        if not _REFERENCES.isdisjoint(node):
            for target in self._explainer.references.targets(node, every=False):
                yield from frame.examine(target, value)
        if is_reference:
            return
        if not _JUDGING_ALL.isdisjoint(node) and not frame.is_full:
            yield from self._examine_in_place(frame)
        if ("anyOf" in node or "oneOf" in node) and not frame.is_full:
            yield from self._examine_branches(frame)
        if type(value) is dict and not frame.is_full:
            yield from self._examine_members(frame)
            yield from self._examine_names(frame)
        elif type(value) is list and not frame.is_full:
            yield from self._examine_items(frame)
            yield from self._examine_contains(frame)
        if not frame.found and ("unevaluatedProperties" in node or "unevaluatedItems" in node):
            yield from self._examine_unevaluated(frame)

    def _add_own_faults(self, frame: Frame, own: OwnRules) -> None:
        node, value = frame.node, frame.value
        if own.options is not None and not own.options(value):
            message, types = own.words
            frame.add(message, "const" if "const" in node else "enum", types)
        if type(value) is dict:
            missing = (name for name in node.get("required") or () if name not in value)
            for name in islice(missing, frame.limit):
                frame.add(f"missing required property {name!r}", "required")
        if own.types:
            frame.add(word_type(own.types, value), "type", own.types)
            return
        for error in own.errors(value):
            self._spend(4 * _STEP)
            kind = error.kind.name
            words = word_violation(error, node.get("contentEncoding"))
            frame.add(words, kind, types_of(node.get("type")) if kind == "type" else ())

    def _examine_in_place(self, frame: Frame) -> Steps:
        node, value = frame.node, frame.value
        for sub in node.get("allOf") or ():
            yield from frame.examine(sub, value)
        if "not" in node and not (yield _probe(node["not"], value)):
            frame.add("fits what is not allowed here", "not")
        if "if" in node:
            word = "else" if (yield _probe(node["if"], value)) else "then"
            if word in node:
                yield from frame.examine(node[word], value)
        if type(value) is dict:
            for word in ("dependentSchemas", "dependencies"):
                for name, sub in (node.get(word) or {}).items():
                    if name in value and not isinstance(sub, list):
                        yield from frame.examine(sub, value)

    def _examine_branches(self, frame: Frame) -> Steps:
        for word in ("anyOf", "oneOf"):
            branches = frame.node.get(word) or ()
            faults: list[tuple[Any, Misfit]] = []
            fits = 0
            for branch in branches:
                first = yield _probe(branch, frame.value)
                if first:
                    faults.append((branch, first[0]))
                else:
                    fits += 1
                    if word == "anyOf":
                        break
            if branches and not fits and not frame.is_full:
                yield from self._explain_union(frame, word, faults)
            elif word == "oneOf" and fits > 1:
                frame.add(f"fits {fits} of the {len(branches)} allowed forms, must fit exactly one", word)

    def _explain_union(self, frame: Frame, word: str, faults: list[tuple[Any, Misfit]]) -> Steps:
        """Report that no branch fits, or the faults of the only branch whose discriminator fits."""
        meant = [branch for branch, fault in faults if _is_below_discriminator(fault)]
        message = f"fits none of the {len(faults)} allowed forms"
        if frame.is_probe:
            # In nested unions, listing the faults of each branch would double the work at every level.
            frame.add(message, word)
        elif len(meant) == 1 and type(frame.value) is dict:
            yield from frame.examine(meant[0], frame.value)
        else:
            told = " | ".join(str(fault.violation) if fault.path else fault.message for _, fault in faults[:8])
            frame.found.append(Misfit((), f"{message}: {told}", word))
        if self._repairs and frame.found and frame.found[-1].keyword == word:
            wants: list[Wanted] = []
            for branch, _ in faults:
                both = yield _probe(branch, frame.value, 2)
                wants += both[0].wants if len(both) == 1 else ()
            # Without duplicates and limited: nested unions would double them at every level.
            few = tuple(dict.fromkeys(wants))[:_MOST_WANTED]
            frame.found[-1] = msgspec.structs.replace(frame.found[-1], wants=few)

    def _examine_members(self, frame: Frame) -> Steps:
        node, value = frame.node, frame.value
        properties, patterns = node.get("properties") or {}, node.get("patternProperties") or {}
        yield from self._examine_declared(frame, discriminators=False)
        more = node.get("additionalProperties", True)
        if more is True and not patterns:
            return
        unexpected: list[str] = []
        for name, item in value.items():
            fitting = [patterns[pattern] for pattern in patterns if self._matches(pattern, name)]
            if not fitting and name not in properties:
                if more is False:
                    unexpected.append(name)
                    continue
                fitting = [more]
            if frame.is_full:
                return
            for sub in fitting:
                yield from frame.examine(sub, item, (name,))
        if unexpected:
            frame.add(word_unexpected(unexpected), "additionalProperties")

    def _examine_declared(self, frame: Frame, *, discriminators: bool) -> Steps:
        """Examine the members under `properties`: either the discriminators (`discriminators`) or the others."""
        properties = frame.node.get("properties") or {}
        self._spend(len(frame.value))
        for name in frame.value:
            if name in properties and _is_discriminator(properties[name]) is discriminators:
                if frame.is_full:
                    return
                yield from frame.examine(properties[name], frame.value[name], (name,))

    def _matches(self, pattern: str, name: str) -> bool:
        self._spend(_STEP // 2 + _text_steps(pattern_steps(pattern), name))
        return self._explainer.matches(pattern, name)

    def _examine_names(self, frame: Frame) -> Steps:
        if "propertyNames" not in frame.node:
            return
        for name in frame.value:
            wrong = yield _probe(frame.node["propertyNames"], name)
            if wrong and not frame.is_full:
                frame.add(f"the name {name[:80]!r} {wrong[0].message}", "propertyNames")

    def _examine_items(self, frame: Frame) -> Steps:
        node, value = frame.node, frame.value
        prefix, rest = prefix_items(node)
        for index in range(min(len(prefix), len(value))):
            yield from frame.examine(prefix[index], value[index], (index,))
        if not isinstance(rest, dict | bool) or rest is True:
            return
        for start in range(len(prefix), len(value), _CHUNK):
            chunk = value[start : start + _CHUNK]
            if len(chunk) > 8 and self._fits_all(rest, chunk):
                continue
            for index, item in enumerate(chunk, start):
                if frame.is_full:
                    return
                yield from frame.examine(rest, item, (index,))

    def _fits_all(self, sub: Any, chunk: list[Any]) -> bool:
        """True if every item fits: a single validator call instead of many steps, if its cost is within the limit."""
        if not isinstance(sub, dict):
            return False
        weight = self._explainer.weigh_items(sub)
        size = measure(chunk, self.left, weight)
        cost = math.inf if size is None else weight.steps_for(size)
        judge = self._explainer.judge_items(sub) if cost <= self.left else None
        if judge is None:
            return False
        self._spend(_STEP + int(cost))
        return judge(chunk)

    def _examine_contains(self, frame: Frame) -> Steps:
        node = frame.node
        if "contains" not in node:
            return
        count, least, most = 0, node.get("minContains", 1), node.get("maxContains")
        for item in frame.value:
            count += not (yield _probe(node["contains"], item))
            if count >= least and most is None:
                return
        if count < least or (most is not None and count > most):
            some = f"at least {least}" if count < least else f"at most {most}"
            frame.add(f"must contain {some} of a certain kind, but contains {count}", "contains")

    def _examine_unevaluated(self, frame: Frame) -> Steps:
        node, value = frame.node, frame.value
        word = "unevaluatedProperties" if type(value) is dict else "unevaluatedItems"
        if word not in node or type(value) not in (dict, list):
            return
        seen: set[str | int] = set()
        yield from self._collect_evaluated(node, value, seen, set())
        rest: list[Any] = []
        for key in value if type(value) is dict else range(len(value)):
            if key not in seen and (yield _probe(node[word], value[key])):
                rest.append(key)
        if rest and type(value) is dict:
            frame.add(word_unexpected(rest), word)
        elif rest:
            frame.add(f"Unevaluated items are not allowed ({len(rest)} item{'s' * (len(rest) > 1)})", word)

    def _collect_evaluated(self, node: Any, value: Any, seen: set[str | int], done: set[int]) -> Steps:
        """Collect the members or items that some subschema has evaluated."""
        if not isinstance(node, dict) or id(node) in done:
            return
        done.add(id(node))
        yield from self._collect_own_evaluated(node, value, seen, is_first=len(done) == 1)
        subs = [*self._explainer.references.targets(node, every=False), *(node.get("allOf") or ())]
        for word in ("anyOf", "oneOf"):
            subs += node.get(word) or ()
        if "if" in node:
            word = "else" if (yield _probe(node["if"], value)) else "then"
            subs += [node[key] for key in ("if", word) if key in node]
        if type(value) is dict:
            subs += [sub for name, sub in (node.get("dependentSchemas") or {}).items() if name in value]
        for sub in subs:
            if not (yield _probe(sub, value)):
                yield from self._collect_evaluated(sub, value, seen, done)

    def _collect_own_evaluated(self, node: Schema, value: Any, seen: set[str | int], *, is_first: bool) -> Steps:
        if type(value) is dict:
            is_open = "additionalProperties" in node or ("unevaluatedProperties" in node and not is_first)
            seen.update(value if is_open else (node.get("properties") or {}).keys() & value.keys())
            for pattern in node.get("patternProperties") or ():
                seen.update(name for name in value if self._matches(pattern, name))
            return
        prefix, rest = prefix_items(node)
        is_open = rest is not None or ("unevaluatedItems" in node and not is_first)
        seen.update(range(len(value) if is_open else min(len(prefix), len(value))))
        if "contains" in node and not self._explainer.is_2019:
            for index, item in enumerate(value):
                if not (yield _probe(node["contains"], item)):
                    seen.add(index)


def _text_steps(cost: tuple[float, float], text: str) -> int:
    return int(len(text) * (cost[0] + cost[1] * len(text)))


def _is_below_discriminator(fault: Misfit) -> bool:
    """True unless the fault is in the value itself or in its discriminator."""
    if fault.path:
        return len(fault.path) > 1 or fault.keyword not in ("const", "enum")
    return fault.keyword in ("required", "additionalProperties")


def _is_discriminator(sub: Any) -> bool:
    return isinstance(sub, dict) and ("const" in sub or "enum" in sub)

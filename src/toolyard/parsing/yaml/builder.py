"""The events of a YAML document as plain data: every rule of ours checked, one event at a time, without recursion."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from toolyard.model.errors import MalformedSource
from toolyard.parsing.yaml.errors import explain_yaml_error
from toolyard.parsing.yaml.scalars import CORE_TAG, UNSPECIFIC_TAG, plain_scalar, tagged_scalar, unknown_tag
from toolyard.parsing.yaml.scanners import NextEvent, may_be_legal, scan_by_libyaml, scan_in_python
from toolyard.parsing.yaml.substitution import Substitution

ALIAS_ALLOWANCE = 250_000
"""What aliases may add to any document, in values of up to `LONG` characters; each character of the document allows
for one more."""

LONG = 32
"""Characters from which a string counts as more than one value, so that a few aliases of a huge one are a bomb too."""

_MERGE = "<<"


def build_document(text: str, what: str, max_depth: int, repeated: list[str] | None = None) -> Any:
    """The one document in `text`, or the `MalformedSource` that says why not; None if there is none.

    With a list for them, repeated keys are no fault: the last value stays, and the list says where they are.
    """
    safe = Substitution.for_text(text)
    try:
        return _Builder(scan_by_libyaml(safe.text), safe, what, max_depth, repeated).build()
    except yaml.YAMLError as error:
        if may_be_legal(text, error):
            # libyaml's own words and place stand, if the other scanner refuses it, too.
            with suppress(yaml.YAMLError):
                if repeated is not None:
                    repeated.clear()
                return _Builder(scan_in_python(safe.text), safe, what, max_depth, repeated).build()
        raise explain_yaml_error(text, error, what) from error


@dataclass(slots=True)
class _Open:
    """A sequence or mapping whose end has not come yet."""

    container: Any
    start: Event
    anchor: str | None
    size_before: int
    awaits_key: bool
    height: int = 1
    key: str = ""
    merging: bool = False
    merged: list[dict[str, Any]] | None = None


@dataclass(slots=True, frozen=True)
class _Anchored:
    """What an alias stands for; `text` is a scalar's spelling, which is its form as a key."""

    value: Any
    size: int
    height: int = 0
    text: str | None = None


class _Builder:
    """Turns the events of one document into plain data."""

    def __init__(
        self, next_event: NextEvent, text: Substitution, what: str, max_depth: int, repeated: list[str] | None
    ) -> None:
        self.next_event = next_event
        self.restore = text.restore if text.used else None
        self.what = what
        self.max_depth = max_depth
        self.repeated = repeated
        self.allowance = ALIAS_ALLOWANCE + len(text.text)
        self.size = 0
        self.anchors: dict[str, _Anchored | None] = {}
        self.stack: list[_Open] = []
        self.root: Any = None

    def build(self) -> Any:
        documents = 0
        while (event := self.next_event()) is not None:
            if isinstance(event, ScalarEvent):
                self.scalar(event)
            elif isinstance(event, MappingStartEvent):
                self.open(event, {}, CORE_TAG + "map")
            elif isinstance(event, SequenceStartEvent):
                self.open(event, [], CORE_TAG + "seq")
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                self.close()
            elif isinstance(event, AliasEvent):
                self.alias(event)
            elif isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.refusal(event, "a second document begins here; put each in a file of its own")
        return self.root

    def scalar(self, event: ScalarEvent) -> None:
        stack = self.stack
        text = self.restore(event.value, event.style) if self.restore else event.value
        size = 1 + len(text) // LONG
        self.size += size
        is_key = bool(stack) and stack[-1].awaits_key
        value: Any = text
        try:
            if event.tag is not None:
                value = tagged_scalar(event.tag, text)
            elif not event.style and (not is_key or event.anchor is not None):
                value = plain_scalar(text)
        except ValueError as error:
            raise self.refusal(event, str(error)) from error
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(value, size, text=text)
        if is_key:
            self.key(event, text, merging=text == _MERGE and not event.style and event.tag is None)
        else:
            self.add(event, value)

    def key(self, event: Event, text: str, *, merging: bool = False) -> None:
        top = self.stack[-1]
        if text in top.container or (merging and top.merged is not None):
            fault = self.refusal(event, f"key {text[:80]!r} appears twice in one mapping; remove or rename one")
            if self.repeated is None:
                raise fault
            self.repeated.append(str(fault))
        top.key = text
        top.merging = merging
        top.awaits_key = False

    def add(self, event: Event, value: Any) -> None:
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        if type(top.container) is list:
            top.container.append(value)
            return
        if top.merging:
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(source, dict) for source in sources):
                raise self.refusal(event, "<< merges a mapping or a list of mappings, and this is neither")
            top.merged = sources
        else:
            top.container[top.key] = value
        top.awaits_key = True

    def open(self, event: MappingStartEvent | SequenceStartEvent, container: Any, tag: str) -> None:
        self.size += 1
        if event.tag not in (None, tag, UNSPECIFIC_TAG):
            raise self.refusal(event, str(unknown_tag(event.tag)))
        self.require_depth(event, 1)
        if self.stack and self.stack[-1].awaits_key:
            raise self.refusal(event, "a key must be a scalar, not a list or a mapping; write it as text")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(container, event, event.anchor, self.size - 1, isinstance(container, dict)))

    def close(self) -> None:
        done = self.stack.pop()
        if done.merged is not None:
            explicit = dict(done.container)
            done.container.clear()
            for source in done.merged:
                done.container.update({key: source[key] for key in source if key not in done.container})
            done.container.update(explicit)
        if done.anchor is not None:
            self.anchors[done.anchor] = _Anchored(done.container, self.size - done.size_before, done.height)
        if self.stack:
            self.stack[-1].height = max(self.stack[-1].height, done.height + 1)
        self.add(done.start, done.container)

    def alias(self, event: AliasEvent) -> None:
        name = event.anchor or ""
        target = self.anchors.get(name)
        if target is None:
            reason = "inside the value it names" if name in self.anchors else f"before any &{name[:60]}"
            raise self.refusal(event, f"alias *{name[:60]} stands {reason}; define the anchor first")
        self.size += target.size
        self.allowance -= target.size
        if self.allowance < 0:
            raise self.refusal(event, "aliases expand to far more data than is written; write it out or cut it down")
        if self.stack and self.stack[-1].awaits_key:
            if target.text is None:
                raise self.refusal(event, "a key must be a scalar, not a list or a mapping; write it as text")
            self.key(event, target.text)
            return
        self.require_depth(event, target.height)
        if self.stack:
            self.stack[-1].height = max(self.stack[-1].height, target.height + 1)
        # A copy, so that the document stays a tree: nobody who changes one place changes another.
        try:
            copy = msgspec.to_builtins(target.value)
        except RecursionError as error:
            raise self.refusal(
                event, "nested deeper than the interpreter's recursion limit; flatten the data"
            ) from error
        self.add(event, copy)

    def require_depth(self, event: Event, levels: int) -> None:
        if len(self.stack) + levels > self.max_depth:
            raise self.refusal(event, f"nested deeper than {self.max_depth} levels; flatten the data")

    def refusal(self, event: Event, message: str) -> MalformedSource:
        mark = event.start_mark
        return MalformedSource(message, where=f"{self.what}:{mark.line + 1}:{mark.column + 1}" if mark else self.what)

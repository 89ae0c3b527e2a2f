"""Load reports: what each source loaded, rewrote and rejected, and warnings about definitions.

Every entry is loaded, possibly rewritten, or rejected: `entries == loaded + len(rejected)` holds for every source.
A definition that people and models may read differently (hidden text, instructions to the model, deceptive names) is
loaded with a warning. Warnings are computed when a report is first read, so that loading does not pay for them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from toolyard.model.json_schema import pointer_of
from toolyard.model.names import INVISIBLE, find_mixed_scripts, fold_look_alikes, show
from toolyard.model.tool import Tool

_LONGEST_REASON = 500

State = Literal["ok", "stale", "failed"]


class Rewrite(msgspec.Struct, frozen=True):
    """One change made to a definition to express its author's intent in JSON Schema."""

    tool: str
    pointer: str
    change: str
    count: int = 1
    """How often this change was made in the tool; `pointer` is the first place."""


class Rejection(msgspec.Struct, frozen=True):
    """One entry that was not loaded, and why."""

    where: str
    reason: str
    tool: str | None = None
    error: str = "MalformedSource"
    """The class of the error that `on_error="raise"` would have raised."""


class SourceReport(msgspec.Struct, frozen=True):
    """The outcome of loading one source."""

    source: str
    loaded: int = 0
    rewrites: tuple[Rewrite, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    state: State = "ok"
    error: str | None = None
    """Why the source is stale (its last good tools are still served) or has failed."""
    warnings: Sequence[DefinitionWarning] = ()
    """Definitions to review before a model sees them; they were loaded all the same."""

    @property
    def entries(self) -> int:
        """Number of definitions in the source."""
        return self.loaded + len(self.rejected)

    @property
    def available(self) -> bool:
        """False if it, or one of the servers or domains in it, failed; what that one gave last is still served."""
        return self.state == "ok" and all(item.error != "SourceUnavailable" for item in self.rejected)

    @property
    def standing(self) -> State | Literal["incomplete"]:
        """The state as people see it: `incomplete` if it is ok, but some entries were rejected."""
        return "incomplete" if self.state == "ok" and self.rejected else self.state

    @property
    def rewritten(self) -> int:
        """Number of tool names with a rewritten definition."""
        return len({rewrite.tool for rewrite in self.rewrites})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        shown = ("source", "state", "error", "entries", "loaded", "rewritten", "rewrites", "rejected")
        plain = {name: getattr(self, name) for name in shown} | {"warnings": list(self.warnings)}
        return msgspec.to_builtins(plain)  # type: ignore[no-any-return]


class LoadReport(msgspec.Struct, frozen=True, dict=True):
    """The reports of all sources of a registry, in load order."""

    sources: tuple[SourceReport, ...] = ()
    idle: tuple[str, ...] = ()
    """Rules, limits and credentials of the config without effect, if it was checked for them."""

    @property
    def loaded(self) -> int:
        """Number of tools loaded from all sources."""
        return sum(source.loaded for source in self.sources)

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """Rejections of all sources."""
        return tuple(item for source in self.sources for item in source.rejected)

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """Rewrites of all sources."""
        return tuple(item for source in self.sources for item in source.rewrites)

    @cached_property
    def warnings(self) -> tuple[DefinitionWarning, ...]:
        """Warnings of all sources, and those about look-alike names among all their tools."""
        tools = [tool for source in self.sources for tool in getattr(source.warnings, "tools", ())]
        return (*(item for source in self.sources for item in source.warnings), *find_look_alikes(tools))

    def explain_missing(self, name: str) -> str | None:
        """The rejection reason of an entry with this name (qualified, bare or a wire name); None if there is none."""
        wanted = "::" + name.replace("__", "::")
        for item in self.rejected:
            own = "::" + (item.tool or "").replace("__", "::")
            if item.tool and name and (wanted.endswith(own) or own.endswith(wanted)):
                text = f"{show(item.tool)} of {item.where} was rejected when it was loaded: {item.reason}"
                return text[:_LONGEST_REASON]
        return None

    @property
    def ok(self) -> bool:
        """True if every source loaded and nothing was rejected."""
        return not self.rejected and all(source.state == "ok" for source in self.sources)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "ok": self.ok,
            "loaded": self.loaded,
            "sources": [source.to_dict() for source in self.sources],
            "warnings": msgspec.to_builtins(list(self.warnings)),
        }


_MOST_WARNINGS = 20
"""Most warnings reported for one tool."""
_LONGEST_TEXT = 100_000
_SHOWN = 80
_FEW = 5

_HIDDEN = frozenset({"Cf", "Cc", "Cs"})
_JOINERS = frozenset("\u200c\u200d")
_DIRECTIONS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u2066\u2067\u2068\u2069")
_TAGS = range(0xE0000, 0xE0080)
_VARIATIONS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0), range(0x180B, 0x1810))
_BLACK_FLAG = "\U0001f3f4"

_WHAT = r"(?:instructions?|prompts?|rules|messages?|guidelines|directions|directives|context|polic(?:y|ies))"
_BEFORE = r"(?:previous|prior|above|earlier|preceding|foregoing|former|existing|original|system|safety|other)"
_TELL = r"(?:tell|inform|mention|reveal|disclose|notify|alert|warn|show|report|say|let|ask)"
_DROP = r"(?:ignore|disregard|forget|override|bypass|overrule)"
# Matched against text in which white space and Markdown emphasis are collapsed to single spaces.
_INSTRUCTIONS = re.compile(
    r"<\s*/?\s*(?:important|critical|system|instructions?|hidden|system[ _-]\w+)\s*>"
    r"|<\|?(?:im.start|im.end|system|endoftext|start.header.id)\|>|<<sys>>|\[/?inst\]"
    rf"|\b{_DROP}\b(?! the default)[^.;\n]{{0,25}}\b{_BEFORE}\b[^.;\n]{{0,20}}\b{_WHAT}\b"
    rf"|\b(?:ignore|disregard|forget)\b (?:all |any |the |your |everything )*(?:{_WHAT}\b|(?:said |written )?above\b)"
    rf"|\b(?:do not|don'?t|never|must not|without)\b (?:ever )?{_TELL}(?:ing)?\b[^.;\n]{{0,40}}\b(?:user|human)s?\b"
    r"|\bwithout (?:the )?(?:user|human)'?s?'? (?:knowledge|consent|noticing|knowing|permission)\b"
    r"|\b(?:hide|conceal|keep) (?:this|it|that)\b[^.;\n]{0,20}\bfrom the (?:user|human)\b"
    r"|\b(?:reveal|repeat|print|output|leak) (?:your|the) (?:system|hidden|initial) (?:prompt|instructions)\b"
    r"|\byou are (?:now|no longer) (?:a|an|in|the|bound)\b"
    r"|\b(?:read|open|cat|contents? of)\b[^\n]{0,40}(?:~/\.|/etc/(?:passwd|shadow)|\.ssh/|id.rsa|\.env\b|mcp\.json)"
    r"[^\n]{0,80}\b(?:pass|include|send|provide|put|append|add)\b",
    re.IGNORECASE,
)
_SPACES = re.compile(r"[\s*_`]+")


WarningKind = Literal["namespace", "look_alike", "hidden", "instruction", "incomplete"]


class DefinitionWarning(msgspec.Struct, frozen=True):
    """Something in a definition that people and models may read differently, at a JSON pointer."""

    tool: str
    pointer: str
    kind: WarningKind
    text: str


class Warnings(Sequence[DefinitionWarning]):
    """Warnings given by a source, followed by those about its tools, which are computed on first access."""

    def __init__(self, given: Sequence[DefinitionWarning], tools: Sequence[Tool]) -> None:
        self.given, self.tools = given, tools

    @cached_property
    def _all(self) -> tuple[DefinitionWarning, ...]:
        known: Known = {}
        return (*self.given, *(warning for tool in self.tools for warning in inspect_tool(tool, known)))

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all)


TextWarning = tuple[Literal["look_alike", "hidden", "instruction"], str]
Known = dict[tuple[str, bool], tuple[TextWarning, ...]]
"""Warnings by (text, is_name); the tools of one API share most of their texts."""


def inspect_tool(tool: Tool, known: Known | None = None) -> list[DefinitionWarning]:
    """Warnings about the texts of one definition. `known` caches results between tools."""
    known = {} if known is None else known
    found: list[DefinitionWarning] = []
    for path, value, is_name in _list_texts(tool):
        said = known.get((value, is_name))
        if said is None:
            said = known[value, is_name] = tuple(_inspect_text(value, is_name))
        found += [DefinitionWarning(tool.qualified_name, pointer_of(path), kind, text) for kind, text in said]
        if len(found) >= _MOST_WARNINGS:
            break
    return found[:_MOST_WARNINGS]


def _list_texts(tool: Tool) -> Iterator[tuple[tuple[str | int, ...], str, bool]]:
    yield ("description",), tool.description, False
    fields = ("metadata", "parameters", "output_parameters")
    stack: list[tuple[tuple[str | int, ...], Any]] = [((field,), getattr(tool, field)) for field in fields]
    while stack:
        path, item = stack.pop()
        if isinstance(item, str):
            yield path, item, False
        elif isinstance(item, dict):
            names = [key for key in item if isinstance(key, str)]
            yield from (((*path, key), key, True) for key in names)
            stack.extend(((*path, key), item[key]) for key in reversed(names))
        elif isinstance(item, (list, tuple)):
            stack.extend(((*path, index), value) for index, value in reversed(list(enumerate(item))))


def _inspect_text(text: str, is_name: bool) -> Iterator[TextWarning]:
    text = text[:_LONGEST_TEXT]
    plain = text
    if not text.isascii() or not text.isprintable():
        hidden = find_hidden(text)
        if hidden:
            shown = ", ".join(f"U+{ord(char):04X}" for char in dict.fromkeys(hidden[:_FEW]))
            yield "hidden", f"hidden characters: {shown}{' ...' if len(hidden) > _FEW else ''}"
        if is_name and (mixed := find_mixed_scripts(text)):
            yield "look_alike", f"the name {text[:_SHOWN]!a} {mixed}"
        # Tag characters U+E0000 to U+E007F are an invisible copy of ASCII.
        plain = "".join(chr(ord(char) - _TAGS.start) if ord(char) in _TAGS else char for char in text)
        gone = set(hidden) - {char for char in hidden if ord(char) in _TAGS}
        plain = unicodedata.normalize("NFKC", "".join(char for char in plain if char not in gone or char.isspace()))
    # One character may become eighteen.
    match = _INSTRUCTIONS.search(_SPACES.sub(" ", plain[:_LONGEST_TEXT]))
    if match:
        yield "instruction", f"speaks to the model: {match[0][:_SHOWN]!a}"


def find_hidden(text: str) -> list[str]:
    """The invisible characters, except those that real text needs: in emoji, Arabic and Indic scripts."""
    letters = set(text)
    suspects = {char for char in letters if char not in "\t\n\r\x7f" and _may_be_hidden(char)}
    if not suspects:
        return []
    # Once for all: looking through the text at each of them takes minutes where there are many.
    runs_left = any(unicodedata.bidirectional(char) in ("R", "AL") for char in letters)
    return [char for index, char in enumerate(text) if char in suspects and _is_hidden(text, index, runs_left)]


def _may_be_hidden(char: str) -> bool:
    code = ord(char)
    return code in _TAGS or code in _VARIATIONS[-1] or char in INVISIBLE or unicodedata.category(char) in _HIDDEN


def _is_hidden(text: str, index: int, runs_left: bool) -> bool:
    char = text[index]
    before = text[index - 1] if index else ""
    code = ord(char)
    if any(code in block for block in _VARIATIONS):
        # Legitimate once after a symbol, an ideograph or a letter of its script; never after ASCII text or another one.
        is_base = before not in ("", " ") and (not before.isascii() or before in "#*0123456789")
        return not is_base or any(ord(before) in block for block in _VARIATIONS)
    if char in _JOINERS:
        following = text[index + 1 : index + 2]
        return not before or before.isascii() or not following or following.isascii()
    if char in _DIRECTIONS:
        return not runs_left
    if code in _TAGS:
        return _BLACK_FLAG not in text[max(0, index - 8) : index]
    return True


def find_look_alikes(tools: Iterable[Tool]) -> list[DefinitionWarning]:
    """Warnings about names in another script that look like the name of another tool or namespace."""
    known = list(tools)
    odd = [tool for tool in known if not (tool.name.isascii() and tool.namespace.isascii())]
    if not odd:
        return []
    found: list[DefinitionWarning] = []
    for field in ("name", "namespace"):
        twins: dict[str, set[str]] = {}
        for tool in known:
            twins.setdefault(fold_look_alikes(getattr(tool, field)), set()).add(getattr(tool, field))
        for tool in odd:
            own = getattr(tool, field)
            others = sorted(twins[fold_look_alikes(own)] - {own})
            if others and not own.isascii():
                text = f"the {field} {own!a} looks like {others[0]!a}, in letters of another script"
                found.append(DefinitionWarning(tool.qualified_name, f"/{field}", "look_alike", text))
    return found

"""Which YAML texts the fast parser may see: those it reads as the exact one does, and that cannot end the process.

yaml-rs turns nested values into Python objects by recursion and aborts on any fault, so a text too deep for the
stack kills the process. Its scanner opens a block collection only at a larger column than the one around it,
except for a list at the column of its key, and keeps at most 255 flow collections open, each with at most one
implicit pair. A text whose lines are short and not indented far is therefore shallow; `DEEPEST` says how much.

The other rules are about meaning. Where the two parsers differ is known from their sources and from fuzzing, but to
find such a place takes a parser; the bytes it cannot do without are found in a few milliseconds. So a rule here
sends a text to the exact parser wherever those bytes stand, even in a description, and most such texts are harmless.

Patterns that are searched for begin with one fixed character: that is what makes a search of megabytes cheap.
"""

from __future__ import annotations

import re

from toolyard.parsing.yaml_flow import last_before, list_may_differ, mapping_may_differ

WINDOW = 8192
INDENT = 512
DEEPEST = 2 * INDENT + WINDOW + 2 * 255
"""Levels of nesting a text that passes can have: two for each column of indentation, where a list can share the
column of its key; one for every other column of a line, of which there are less than two windows; and the flow.

Short lines also mean short integers, which take yaml-rs the square of their length."""

_NUL = 0
_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n"})
_RARE_CONTROLS = (re.compile(rb"\xc2[\x80-\x84\x86-\x9f]"), re.compile(rb"\xef(?:\xbf[\xbe\xbf]|\xbb\xbf)"))
_PROLOGUE = re.compile(rb"(?: *+(?:#[^\n]*+)?\n)*+(?:%|\.\.\.)")
_UNSAFE_TAB = re.compile(rb"\t(?<![0-9A-Za-z_.;)\x80-\xff]\t)")

_ANCHOR = re.compile(rb"&(?<![^ \n\[{,]&)(?<![^ \n\-?:,\[{] &)(?![ \n])")
_TAG = re.compile(rb"!(?<![^ \n\[{,]!)(?<![^ \n\-?:,\[{] !)")
_BEFORE_NODE = b"\n-?:,[{"
_UNDERSCORED = re.compile(rb"_(?<=[^A-DF-Za-df-z_]_)(?<![A-Za-z][eE]_)(?:[0-9_.eE+-]{64}|[0-9_.eE+-]*+(?=[\s,\]}:]))")
_NUMBER = re.compile(rb"(?:.*[\s,\[{:])?[-+]?[0-9._]*[eE]?[-+]?[0-9_]*", re.DOTALL)
_PREFIXED = re.compile(rb"0(?<![0-9A-Za-z_.]0)[xXoObB][0-9a-fA-F_]+")
_DELIMITERS = (b"", b" ", b"\t", b"\n", b",", b"[", b"{", b":")
_CANONICAL_PREFIXED = re.compile(rb"0x[0-9a-fA-F]+|0o[0-7]+")


def may_try(source: bytes) -> bool:
    """Whether yaml-rs can be given this without harm to the process, and with some hope to agree.

    `source` is UTF-8 without byte order mark or carriage returns, and ends its last line.
    """
    return not (
        _may_nest_deep(source)
        or _NUL in source
        or _PROLOGUE.match(source) is not None
        or _ends_in_block_header(source)
        or (b"\t" in source and _UNSAFE_TAB.search(source) is not None)
    )


def doubts(source: bytes) -> list[bytes] | None:
    """The characters with which something may begin that the two parsers read differently; None if they do anyway.

    If all of those characters turn out to be text, the parsers agree.
    """
    if _has_unprintable(source) or _has_prefixed_number(source):
        return None
    return [mark for mark, may_differ in _RULES.items() if mark in source and may_differ(source)]


def _may_nest_deep(source: bytes) -> bool:
    if b"\n" + b" " * INDENT in source or source.startswith(b" " * INDENT):
        return True
    # Every line of two windows or more contains a whole one.
    return any(source.find(b"\n", at, at + WINDOW) < 0 for at in range(0, len(source) - WINDOW, WINDOW))


def _has_unprintable(source: bytes) -> bool:
    if len(source.translate(None, _CONTROLS)) != len(source):
        return True
    return not source.isascii() and any(pattern.search(source) for pattern in _RARE_CONTROLS)


def _ends_in_block_header(source: bytes) -> bool:
    """A block scalar without a line of text at the very end is empty for one parser and a line feed for the other."""
    content = source.rstrip(b" \t\n")
    last = content[content.rfind(b"\n") + 1 :]
    return b"|" in last or b">" in last


def _has_anchor(source: bytes) -> bool:
    return _begins_node(source, _ANCHOR)


def _has_tag(source: bytes) -> bool:
    return _begins_node(source, _TAG)


def _begins_node(source: bytes, indicator: re.Pattern[bytes]) -> bool:
    """Whether a value or key may begin with what the pattern finds: behind nothing, an indicator or a comma."""
    return any(last_before(source, match.start()) in _BEFORE_NODE for match in indicator.finditer(source))


def _has_underscored_number(source: bytes) -> bool:
    """Such as `1_000` or `_1`: a number for yaml-rs, but not in YAML 1.2."""
    for match in _UNDERSCORED.finditer(source):
        if _NUMBER.fullmatch(source, max(0, match.start() - 64), match.start()):
            return True
    return False


def _has_prefixed_number(source: bytes) -> bool:
    """Such as `0b1`, `0X1F` or `-0x1F`: a number for yaml-rs, but not in YAML 1.2."""
    for match in _PREFIXED.finditer(source):
        start, end = match.span()
        signed = source[start - 1 : start] in (b"+", b"-")
        before = source[start - 1 - signed : start - signed]
        if (
            before in _DELIMITERS
            and source[end] in b"\n\t ,]}:"
            and (signed or not _CANONICAL_PREFIXED.fullmatch(match[0]))
        ):
            return True
    return False


_RULES = {
    b"&": _has_anchor,
    b"!": _has_tag,
    b"_": _has_underscored_number,
    b"[": list_may_differ,
    b"{": mapping_may_differ,
}

"""Flow collections, `[a, b]` and `{a: b}`, of a kind that both YAML parsers read alike.

They differ on keys that go over a line, on colons and question marks next to brackets, and on indicators that begin
a plain value. So every collection must consist of the tokens below, and lines may end only after a comma or an
opening bracket, or before a closing one.
"""

from __future__ import annotations

import re

BUDGET = 100_000
"""Tokens to look at before it is cheaper to let the exact parser decide."""

# Lists of plain words, which are most, pass here already, and so does the text of a Markdown link.
_LIST = re.compile(rb"\[(?<![^ \n]\[)(?<![^ \n\-?:] \[)(?![0-9A-Za-z_ ,./$()]*+\])")
_MAPPING = re.compile(rb"\{(?<![^ \n]\{)(?<![^ \n\-?:] \{)(?!\})")
_BLANK, _LINE_FEED = b" \n"
_BEFORE_VALUE = b"\n-?:"
_TOKEN = re.compile(
    rb"""
      (?P<open> [\[{] ) [ ]*+ (?: \n[ \n]*+ )?
    | (?: \n[ \n]*+ )? (?P<close> [\]}] ) [ ]*+
    | , [ ]*+ (?: \n[ \n]*+ )?
    | (?: "(?: [^"\\\n]++ | \\[^\n] )*+" | '(?: [^'\n]++ | '' )*+' ) [ ]*+
      (?: : (?! [,\]}?\n] ) [ ]*+ (?! [,\]}\n] ) | (?= (?: \n[ \n]*+ )? [\]}] | , ) )
    | (?: [^\s\-?:,\[\]{}\#&*!|>'"%@`] | -(?=[0-9A-Za-z]) )
      (?: [^\s?:,\[\]{}\#'"] | :(?![\s?,\[\]{}]) | [ ]++(?=[^\s?:,\[\]{}\#'"]) )*+ [ ]*+
      (?: :[ ]++ (?! [,\]}\n] ) | (?= (?: \n[ \n]*+ )? [\]}] | , ) )
    """,
    re.VERBOSE,
)


def list_may_differ(source: bytes) -> bool:
    """Whether some `[...]`, or text that looks like the start of one, is not of that kind."""
    return _may_differ(source, _LIST)


def mapping_may_differ(source: bytes) -> bool:
    """Whether some `{...}`, or text that looks like the start of one, is not of that kind."""
    return _may_differ(source, _MAPPING)


def _may_differ(source: bytes, opening: re.Pattern[bytes]) -> bool:
    budget = BUDGET
    for match in opening.finditer(source):
        at = match.start()
        if last_before(source, at) not in _BEFORE_VALUE:
            continue
        depth = 0
        while depth or at == match.start():
            token = _TOKEN.match(source, at)
            budget -= 1
            if token is None or budget < 0:
                return True
            at = token.end()
            depth += (token["open"] is not None) - (token["close"] is not None)
    return False


def last_before(source: bytes, at: int) -> int:
    """The byte before `at` and the blanks in front of it; a line feed at the start of the text."""
    at -= 1
    while at >= 0 and source[at] == _BLANK:
        at -= 1
    return source[at] if at >= 0 else _LINE_FEED

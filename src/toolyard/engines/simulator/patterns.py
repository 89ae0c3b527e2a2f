"""Text that a regular expression accepts.

The expression is read into a small tree, from which text is written. Look-around and back-references are read as
if they were not there: whoever uses the text checks it.
"""

from __future__ import annotations

from collections.abc import Callable

from toolyard.engines.simulator.draw import Draw

Write = Callable[[Draw, int, bool], str]
"""Text, with about so many repetitions where any number will do; exactly so many if the flag is set."""

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_DIGITS = "0123456789"
_WORD = _LOWER + _UPPER + _DIGITS + "_"
_PRINTED = "".join(map(chr, range(32, 127)))
_FOREIGN = "\u00e9\u00df\u00f1\u00fc\u03bb\u0436\u4e2d\u6587"
_CLASSES = {
    "d": _DIGITS,
    "w": _WORD,
    "s": " ",
    "D": "".join(letter for letter in _PRINTED if letter not in _DIGITS),
    "W": "".join(letter for letter in _PRINTED if letter not in _WORD),
    "S": _PRINTED[1:],
}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_PROPERTIES = {"L": _LOWER + _UPPER, "Lu": _UPPER, "Ll": _LOWER, "N": _DIGITS, "Nd": _DIGITS, "Z": " ", "Zs": " "}
_PROPERTIES |= {"Alphabetic": _LOWER + _UPPER, "Letter": _LOWER + _UPPER, "P": "-.,:;!?", "S": "+=$", "Punct": "-.,:"}
_MOST = 2000
"""Repetitions that are ever written."""


class Unreadable(ValueError):
    """The expression uses something that is not understood here."""


def writer_of(pattern: str) -> Write:
    """Who writes text that the pattern accepts, most of the time; raises `Unreadable`."""
    reader = _Reader(pattern)
    write = reader.alternatives()
    if reader.at < len(pattern):
        raise Unreadable(f"{pattern!r} closes a group that it did not open")
    return write


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0

    def peek(self) -> str:
        return self.pattern[self.at] if self.at < len(self.pattern) else ""

    def take(self) -> str:
        if self.at >= len(self.pattern):
            raise Unreadable(f"{self.pattern!r} ends in the middle")
        self.at += 1
        return self.pattern[self.at - 1]

    def alternatives(self) -> Write:
        self.depth += 1
        if self.depth > 50:
            raise Unreadable("the pattern nests too deep")
        branches = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            branches.append(self.sequence())
        self.depth -= 1
        if len(branches) == 1:
            return branches[0]
        return lambda draw, spread, exact: branches[draw.below(len(branches))](draw, spread, exact)

    def sequence(self) -> Write:
        parts: list[Write] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated(self.atom()))
        if len(parts) == 1:
            return parts[0]
        return lambda draw, spread, exact: "".join([part(draw, spread, exact) for part in parts])

    def atom(self) -> Write:
        letter = self.take()
        if letter in "^$":
            return _write_nothing
        if letter == "(":
            return self.group()
        if letter == "[":
            return _one_of(self.letters())
        if letter == ".":
            return _one_of(_WORD)
        if letter == "\\":
            if self.peek() in ("b", "B", "A", "z", "Z"):
                self.at += 1
                return _write_nothing
            return _one_of(self.escaped())
        return _one_of(letter)

    def group(self) -> Write:
        ignored = False
        if self.peek() == "?":
            self.at += 1
            kind = self.take()
            if kind == "P":
                kind = self.take()
            if kind == "<" and self.peek() not in ("=", "!"):
                while self.take() != ">":
                    pass
            elif kind in "=!<":
                ignored = True
                if kind == "<":
                    self.at += 1
            elif kind != ":":
                while kind not in ":)":  # flags
                    kind = self.take()
                if kind == ")":
                    return _write_nothing
        inside = self.alternatives()
        if self.take() != ")":
            raise Unreadable(f"{self.pattern!r} does not close a group")
        return _write_nothing if ignored else inside

    def escaped(self) -> str:
        letter = self.take()
        if letter in _CLASSES:
            return _CLASSES[letter]
        if letter in ("p", "P"):
            return self.unicode_class(negated=letter == "P")
        if letter == "x":
            return self.code_point(2)
        if letter == "u":
            return self.code_point(4)
        if letter == "c":
            return chr(ord(self.take()) % 32)
        if letter.isdigit() and letter != "0":
            return ""  # what a group matched before
        return _CONTROLS.get(letter, letter)

    def unicode_class(self, *, negated: bool) -> str:
        name = self.take()
        if name == "{":
            name = ""
            while (letter := self.take()) != "}":
                name += letter
        found = _PROPERTIES.get(name.rpartition("=")[2]) or _PROPERTIES.get(name[:1], _LOWER)
        return "".join(letter for letter in _PRINTED if letter not in found) if negated else found

    def code_point(self, digits: int) -> str:
        text = ""
        if self.peek() == "{":
            self.at += 1
            while (letter := self.take()) != "}":
                text += letter
        else:
            text = "".join(self.take() for _ in range(digits))
        try:
            return chr(int(text, 16))
        except (ValueError, OverflowError):
            raise Unreadable(f"{text!r} is no code point") from None

    def letters(self) -> str:
        negated = self.peek() == "^"
        self.at += negated
        found: list[str] = []
        first = True
        while first or self.peek() != "]":
            first = False
            low = self.member()
            if len(low) == 1 and self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.member()
                if len(high) == 1:
                    found.extend(map(chr, range(ord(low), min(ord(high), ord(low) + 500) + 1)))
                    continue
                found.append("-")
                low += high
            found.extend(low)
        self.at += 1
        if negated:
            return "".join(letter for letter in _PRINTED + _FOREIGN if letter not in found)[:95] or "\n"
        # The readable ones where there are any.
        return "".join(letter for letter in found if letter in _PRINTED) or "".join(found)

    def member(self) -> str:
        letter = self.take()
        if letter != "\\":
            return letter
        if self.peek() == "b":
            self.at += 1
            return "\b"
        return self.escaped()

    def repeated(self, write: Write) -> Write:
        while True:
            low, high = self.quantifier()
            if low is None:
                return write
            write = _repeat_writer(write, low, high)

    def quantifier(self) -> tuple[int | None, int | None]:
        letter = self.peek()
        bounds: tuple[int | None, int | None] = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(letter, (None, None))
        if letter == "{":
            end = self.pattern.find("}", self.at)
            low, comma, high = self.pattern[self.at + 1 : end].partition(",")
            if end < 0 or not (low.isdigit() or (comma and not low)) or not (high.isdigit() or not high):
                return None, None
            bounds = (int(low or 0), int(high) if high else None if comma else int(low))
            self.at = end
        if bounds[0] is not None:
            self.at += 1
            if self.peek() in ("?", "+"):
                self.at += 1
        return bounds


def _write_nothing(draw: Draw, spread: int, exact: bool) -> str:
    return ""


def _one_of(letters: str) -> Write:
    if len(letters) <= 1:
        return lambda draw, spread, exact: letters
    return lambda draw, spread, exact: letters[draw.below(len(letters))]


def _repeat_writer(write: Write, low: int, high: int | None) -> Write:
    most = min(_MOST, low + _MOST if high is None else high)

    def repeat(draw: Draw, spread: int, exact: bool) -> str:
        longest = max(low, min(most, low + spread)) if draw.room > 0 else low
        count = longest if exact else draw.between(low, longest)
        draw.room -= count
        return "".join([write(draw, spread, exact) for _ in range(count)])

    return repeat

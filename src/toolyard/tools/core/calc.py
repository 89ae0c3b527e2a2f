"""Arithmetic on text: whole numbers stay exact, and whatever cannot be answered says what is wrong and where.

Read from left to right and calculated on the way, with two stacks instead of a tree: nothing here recurses,
nothing is compiled, and the work is bounded before it is begun.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import msgspec

from toolyard.model.errors import ToolFailed

Number = int | float

MAX_LENGTH = 4_096
"""Characters of an expression."""
MAX_TERMS = 200
"""Numbers and operators of an expression."""
MAX_DEPTH = 100
"""Brackets, signs and operators that wait for what stands to their right."""
MAX_DIGITS = 1_000
"""Digits of a whole number, intermediate results included; larger ones not every JSON reader would take."""

_LIMIT = 10**MAX_DIGITS
_DIGITS = r"[0-9](?:_?[0-9])*"
_NUMBER = (
    r"0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+"
    rf"|(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][-+]?{_DIGITS})?"
)
_TOKEN = re.compile(rf"(?P<number>{_NUMBER})|(?P<sign>\*\*|//|[-+*/%()])")
_SPACE = re.compile(r"[ \t\r\n\f]*")
_WORD = re.compile(r"[^\W\d]\w*")
_REST = re.compile(r"[\w.]+")
_FRACTION = re.compile(r"[.eE]")
_SHOWN = 40

_KNOWN = "numbers, + - * / // % ** and brackets"
_INSTEAD = {
    "^": "write ** for a power",
    **dict.fromkeys("\u00d7\u00b7\u22c5", "write * for a product"),
    **dict.fromkeys("\u00f7\u2215", "write / for a quotient"),
    **dict.fromkeys("\u2212\u2013\u2014", "write - for a difference"),
    ",": "write 1234.5: a point before the fraction, nothing between thousands",
    "=": "write the expression alone, without =",
    **dict.fromkeys("<>!", "comparisons are not calculated"),
    **dict.fromkeys("\"'", "text is not calculated"),
    **dict.fromkeys("[]{}", "write round brackets"),
}


class _Sign(msgspec.Struct, frozen=True):
    """An operator or an open bracket that waits for what stands to its right."""

    text: str
    at: int
    rank: int = 0
    operands: int = 0


def evaluate(expression: str) -> Number:
    """The value, an int while everything in the expression is whole and nothing is divided with `/`.

    Ranks are Python's: `-2**2` is -4, `2**3**2` is 512. Anything else that an expression can be raises
    `ToolFailed` with no effect; the text and `details["position"]` say where, counted from 1. The result is
    always finite.
    """
    if len(expression) > MAX_LENGTH:
        raise _wrong_expression(
            f"the expression has {len(expression):,} characters; at most {MAX_LENGTH:,} are calculated"
        )
    calculation = _Calculation()
    at = _SPACE.match(expression).end()  # type: ignore[union-attr]
    if at == len(expression):
        raise _wrong_expression("the expression is empty", hint="write something like (19 + 4) * 2")
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            raise _unreadable_sign(expression, at)
        if found["number"] is None:
            calculation.sign(found["sign"], at)
        else:
            calculation.number(_read_number(expression, at, found["number"]), at)
        at = _SPACE.match(expression, found.end()).end()  # type: ignore[union-attr]
    return calculation.finish(len(expression))


class _Calculation:
    """What has been read so far: values, and the signs between and before them that still wait."""

    def __init__(self) -> None:
        self._values: list[Number] = []
        self._signs: list[_Sign] = []
        self._terms = 0
        self._wants_value = True

    def number(self, value: Number, at: int) -> None:
        self._count_term(at)
        if not self._wants_value:
            raise _wrong_expression("an operator is missing", at, hint="write * for a product")
        self._values.append(value)
        self._wants_value = False

    def sign(self, text: str, at: int) -> None:
        if text == ")":
            self._close_bracket(at)
        elif text == "(":
            if not self._wants_value:
                raise _wrong_expression(
                    "an operator is missing", at, hint="write * for a product; functions are not calculated"
                )
            self._push_sign(_Sign(text, at))
        elif self._wants_value:
            if text not in _UNARY:
                raise _wrong_expression(f"a number is missing before {text!r}", at)
            self._count_term(at)
            self._push_sign(_Sign(text, at, _UNARY_RANK, 1))
        else:
            self._count_term(at)
            rank = _BINARY[text][0]
            # Equals are taken from the left; only powers wait for those to their right.
            self._apply_waiting(rank + 1 if text == "**" else rank)
            self._push_sign(_Sign(text, at, rank, 2))
            self._wants_value = True

    def finish(self, end: int) -> Number:
        if self._wants_value:
            raise _wrong_expression("the expression ends where a number is expected", end)
        self._apply_waiting(1)
        if self._signs:
            raise _wrong_expression("this bracket is never closed", self._signs[-1].at)
        return self._values[0]

    def _close_bracket(self, at: int) -> None:
        if self._wants_value:
            raise _wrong_expression("a number is missing before ')'", at)
        self._apply_waiting(1)
        if not self._signs:
            raise _wrong_expression("this bracket was never opened", at)
        self._signs.pop()

    def _push_sign(self, sign: _Sign) -> None:
        if len(self._signs) == MAX_DEPTH:
            raise _wrong_expression(f"the expression nests more than {MAX_DEPTH} deep", sign.at)
        self._signs.append(sign)

    def _count_term(self, at: int) -> None:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise _wrong_expression(f"the expression has more than {MAX_TERMS} numbers and operators", at)

    def _apply_waiting(self, rank: int) -> None:
        """Calculate whatever binds at least as strongly as `rank`, up to the last open bracket."""
        while self._signs and self._signs[-1].rank >= rank:
            sign = self._signs.pop()
            operands = self._values[-sign.operands :]
            self._values[-sign.operands :] = [_apply_sign(sign, operands)]


def _apply_sign(sign: _Sign, operands: list[Number]) -> Number:
    try:
        value = _UNARY[sign.text](*operands) if sign.operands == 1 else _BINARY[sign.text][1](*operands)
    except ZeroDivisionError:
        what = "zero has no negative power" if sign.text == "**" else "division by zero"
        raise _wrong_expression(what, sign.at) from None
    except OverflowError:
        raise _too_large(sign.at) from None
    if isinstance(value, complex):
        raise _wrong_expression("a negative number has no real power of that kind", sign.at)
    return _check_size(value, sign.at)


def _check_size(value: Number, at: int) -> Number:
    if isinstance(value, int):
        fits = -_LIMIT < value < _LIMIT
    else:
        fits = math.isfinite(value)
    if not fits:
        raise _too_large(at)
    return value


def _raise_power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        # At least 2 ** this: seen before it is calculated, which might take for ever.
        least = (base.bit_length() - 1) * exponent
        if least > _LIMIT.bit_length():
            raise OverflowError
    return base**exponent


_UNARY: dict[str, Callable[[Number], Number]] = {"-": operator.neg, "+": operator.pos}
_UNARY_RANK = 3
_BINARY: dict[str, tuple[int, Callable[[Number, Number], Any]]] = {
    "+": (1, operator.add),
    "-": (1, operator.sub),
    "*": (2, operator.mul),
    "/": (2, operator.truediv),
    "//": (2, operator.floordiv),
    "%": (2, operator.mod),
    "**": (4, _raise_power),
}


def _read_number(expression: str, at: int, text: str) -> Number:
    rest = _REST.match(expression, at + len(text))
    if rest is not None:
        raise _no_number(text + rest[0], at)
    is_fraction = text[:2].lower() != "0x" and _FRACTION.search(text)
    try:
        value: Number = float(text) if is_fraction else int(text, 0)
    except ValueError:
        # Zeros in front; or the interpreter is set to read fewer digits than are allowed here.
        raise _no_number(text, at) if text[0] == "0" else _too_large(at) from None
    return _check_size(value, at)


def _no_number(text: str, at: int) -> ToolFailed:
    hint = "leave out the zeros in front" if text.replace("_", "").isdigit() else f"calculated are {_KNOWN}"
    return _wrong_expression(f"{text[:_SHOWN]!r} is no number", at, hint=hint)


def _unreadable_sign(expression: str, at: int) -> ToolFailed:
    word = _WORD.match(expression, at)
    if word is not None:
        return _wrong_expression(
            f"{word[0][:_SHOWN]!r} is not a number", at, hint=f"calculated are {_KNOWN}; put the value in"
        )
    char = expression[at]
    hint = _INSTEAD.get(char, f"calculated are {_KNOWN}")
    return _wrong_expression(f"{char!r} is not calculated", at, hint=hint)


def _too_large(at: int) -> ToolFailed:
    return _wrong_expression(
        "the number is too large", at, hint=f"whole numbers have at most {MAX_DIGITS:,} digits, others end near 1.8e308"
    )


def _wrong_expression(what: str, at: int | None = None, *, hint: str | None = None) -> ToolFailed:
    if at is None:
        return ToolFailed(what, hint=hint, effect="none")
    # Calculating touches nothing, so a caller may correct the expression and send it again.
    return ToolFailed(f"{what}, at character {at + 1}", hint=hint, effect="none", details={"position": at + 1})

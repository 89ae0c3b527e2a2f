"""Arithmetic on text: whole numbers stay exact, and whatever cannot be answered says what is wrong and where.

Read from left to right and calculated on the way: nothing is compiled, and how deep it nests and how much work it is
is bounded before it is begun.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

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
    if _SPACE.fullmatch(expression):
        raise _wrong_expression("the expression is empty", hint="write something like (19 + 4) * 2")
    return _Calculation(expression).read_all()


class _Calculation:
    """An expression, the token that is read next, and how many were read."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._terms = 0
        self._move_to(0)

    def read_all(self) -> Number:
        value = self._read_value(1, 0)
        if self._token is not None:
            raise _wrong_expression("this bracket was never opened", self._at)
        return value

    def _read_value(self, rank: int, depth: int) -> Number:
        """The value of all that binds at least as strongly as `rank`; `depth` signs wait for it."""
        value = self._read_operand(depth)
        while (sign := self._next_operator()) and _BINARY[sign][0] >= rank:
            at, own = self._at, _BINARY[sign][0]
            self._take_sign(sign, depth)
            # Equals are taken from the left; only powers wait for those to their right.
            value = _apply_sign(sign, at, value, self._read_value(own if sign == "**" else own + 1, depth + 1))
        return value

    def _read_operand(self, depth: int) -> Number:
        token, at = self._token, self._at
        if token is None:
            raise _wrong_expression("the expression ends where a number is expected", at)
        if token["number"] is not None:
            self._count_term()
            value = _read_number(self._expression, at, token[0])
        elif token[0] == "(":
            self._take_sign("(", depth)
            value = self._read_value(1, depth + 1)
            token = self._token
            if token is None:
                raise _wrong_expression("this bracket is never closed", at)
        elif token[0] in _UNARY:
            self._take_sign(token[0], depth)
            return _apply_sign(token[0], at, self._read_value(_UNARY_RANK, depth + 1))
        else:
            raise _wrong_expression(f"a number is missing before {token[0]!r}", at)
        self._move_to(token.end())
        return value

    def _next_operator(self) -> str:
        """The operator behind a value; empty at the end, of the expression or of a bracket."""
        if self._token is None or self._token[0] == ")":
            return ""
        if self._token[0] in _BINARY:
            return self._token[0]
        hint = "write * for a product" + ("; functions are not calculated" if self._token[0] == "(" else "")
        raise _wrong_expression("an operator is missing", self._at, hint=hint)

    def _take_sign(self, sign: str, depth: int) -> None:
        """Go on behind an operator or an open bracket, which waits for what stands to its right."""
        if sign != "(":
            self._count_term()
        if depth == MAX_DEPTH:
            raise _wrong_expression(f"the expression nests more than {MAX_DEPTH} deep", self._at)
        self._move_to(self._at + len(sign))

    def _count_term(self) -> None:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise _wrong_expression(f"the expression has more than {MAX_TERMS} numbers and operators", self._at)

    def _move_to(self, at: int) -> None:
        self._at = _SPACE.match(self._expression, at).end()  # type: ignore[union-attr]
        self._token = _TOKEN.match(self._expression, self._at)
        if self._token is None and self._at < len(self._expression):
            raise _unreadable_sign(self._expression, self._at)


def _apply_sign(sign: str, at: int, *operands: Number) -> Number:
    try:
        value = _UNARY[sign](*operands) if len(operands) == 1 else _BINARY[sign][1](*operands)
    except ZeroDivisionError:
        what = "zero has no negative power" if sign == "**" else "division by zero"
        raise _wrong_expression(what, at) from None
    except OverflowError:
        raise _too_large(at) from None
    if isinstance(value, complex):
        raise _wrong_expression("a negative number has no real power of that kind", at)
    return _check_size(value, at)


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

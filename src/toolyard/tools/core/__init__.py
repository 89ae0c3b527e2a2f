"""The core domain: `echo`, `calc` and `time_now`. Also an example of a domain, see `load_tools`.

`evaluate` calculates expressions: integers stay exact, and errors give the fault and its position. Python's parser
reads the expression; only numbers and operators are evaluated, within limits that are checked first.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, cast
from zoneinfo import ZoneInfo

from toolyard.model.errors import ToolFailed
from toolyard.model.names import show
from toolyard.model.tool import Effects, Schema, Tool
from toolyard.registry.functions import function_tool

Number = int | float
Clock = Callable[[], datetime]

MAX_LENGTH = 4_096
"""Most characters in an expression."""
MAX_TERMS = 200
"""Most numbers and operators in an expression."""
MAX_BRACKETS = 100
MAX_DIGITS = 1_000
"""Most digits of an integer, intermediate results included; some JSON readers reject larger ones."""

_LIMIT = 10**MAX_DIGITS
_TERM = re.compile(r"[\w.]+|\*\*|//|[-+*/%]")
# A word, or a character that occurs in no number or operator. This also excludes all Python keywords.
_FOREIGN = re.compile(r"(?<![\w.])[^\W\d]\w*|[^0-9a-fA-FoOxX_.+\-*/%() ]")
_SPACES = str.maketrans("\t\r\n\f", "    ")
_SHOWN = 40

_KNOWN = "calculated are numbers, + - * / // % ** and brackets"
_INSTEAD = {
    "^": "write ** for a power",
    **dict.fromkeys("\u00d7\u00b7\u22c5", "write * for a product"),
    **dict.fromkeys("\u00f7\u2215", "write / for a quotient"),
    **dict.fromkeys("\u2212\u2013\u2014", "write - for a difference"),
    ",": "write 1234.5: a point before the fraction, nothing between thousands",
    "=": "write the expression alone, without =",
}


def evaluate(expression: str) -> Number:
    """The value, always finite; an int if all numbers are integers and `/` is not used.

    Precedence is Python's: `-2**2` is -4, `2**3**2` is 512. Invalid expressions raise `ToolFailed` with effect
    `none`; the message and `details["position"]` give the position, counted from 1.
    """
    text = expression.translate(_SPACES).lstrip(" ")
    try:
        if len(expression) > MAX_LENGTH:
            raise _Wrong(f"the expression has {len(expression):,} characters; at most {MAX_LENGTH:,} are calculated")
        return _calculate(_parse(text), text)
    except _Wrong as wrong:
        what, at, hint = wrong.args
        # Evaluation has no effect, so a caller may correct the expression and retry.
        if at is None:
            raise ToolFailed(what, hint=hint, effect="none") from None
        position = len(expression) - len(text) + at + 1
        raise ToolFailed(
            f"{what}, at character {position}", hint=hint, effect="none", details={"position": position}
        ) from None


class _Wrong(Exception):
    """A fault in an expression, its 0-based offset, and a hint."""

    def __init__(self, what: str, at: int | None = None, hint: str | None = None) -> None:
        super().__init__(what, at, hint)


def _parse(text: str) -> ast.expr:
    if not text:
        raise _Wrong("the expression is empty", hint="write something like (19 + 4) * 2")
    foreign = _FOREIGN.search(text)
    if foreign is not None:
        what = "a number" if foreign[0].isidentifier() else "calculated"
        hint = _INSTEAD.get(foreign[0], f"{_KNOWN}; put the value in for a name")
        raise _Wrong(f"{foreign[0][:_SHOWN]!r} is not {what}", foreign.start(), hint)
    if len(_TERM.findall(text)) > MAX_TERMS:
        raise _Wrong(f"the expression has more than {MAX_TERMS} numbers and operators")
    if text.count("(") > MAX_BRACKETS:
        raise _Wrong(f"the expression has more than {MAX_BRACKETS} pairs of brackets")
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        # Python's further suggestions, such as a forgotten comma, do not help here.
        reason = error.msg.partition(". ")[0].partition(";")[0]
        at = min(error.offset - 1 if error.offset else len(text), len(text))
        if reason == "invalid syntax":
            ends = not text[at:].strip(" ")
            reason = "it ends where a number is expected" if ends else "an operator or a number is missing"
        raise _Wrong(f"the expression cannot be read: {reason}", at, _KNOWN) from None


def _calculate(node: ast.expr, text: str) -> Number:
    at = node.col_offset
    try:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            value: Any = node.value
        elif isinstance(node, ast.UnaryOp):
            operand = _calculate(node.operand, text)
            value = -operand if isinstance(node.op, ast.USub) else operand
        elif isinstance(node, ast.BinOp):
            sign, apply = _BINARY[type(node.op)]
            left, right = _calculate(node.left, text), _calculate(node.right, text)
            at = text.index(sign, node.left.end_col_offset)
            value = apply(left, right)
        elif isinstance(node, ast.Call):
            at = text.index("(", node.func.end_col_offset)
            raise _Wrong("an operator is missing", at, "write * for a product; functions are not calculated")
        else:
            raise _Wrong("this is no number", at, _KNOWN)
    except ZeroDivisionError:
        what = "zero has no negative power" if text.startswith("**", at) else "division by zero"
        raise _Wrong(what, at) from None
    except OverflowError:
        value = math.inf
    if isinstance(value, complex):
        raise _Wrong("a negative number has no real power of that kind", at)
    if not (-_LIMIT < value < _LIMIT if isinstance(value, int) else math.isfinite(value)):
        raise _Wrong(
            "the number is too large", at, f"whole numbers have at most {MAX_DIGITS:,} digits, others end near 1.8e308"
        )
    return cast(Number, value)


def _raise_power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        # The result is at least 2 ** this; checked before the computation, which might take for ever.
        least = (base.bit_length() - 1) * exponent
        if least > _LIMIT.bit_length():
            raise OverflowError
    return base**exponent


_BINARY: dict[type[ast.operator], tuple[str, Callable[[Number, Number], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", _raise_power),
}


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
_LONGEST = 64
# Variants of the database with and without leap seconds, and the files with this machine's zone.
_NO_ZONES = re.compile(r"right/.*|posix/.*|posixrules|localtime")


@lru_cache(maxsize=1024)
def _find_zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # known even where no zone database is installed
    if len(name) <= _LONGEST and _NAME.fullmatch(name) and not _NO_ZONES.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass  # no such file, or not a zone file
    raise ToolFailed(
        f"no time zone is called {show(name)}",
        hint="give a name of the IANA database, in its spelling: UTC, Europe/Berlin, America/New_York",
        effect="none",
    )


_VERSION = "0.1.0"
_TEXT: Schema = {"type": "string"}


def load_tools(clock: Clock = lambda: datetime.now(UTC)) -> list[Tool]:
    """The tools of the domain. A module that exports this function is a domain."""

    def time_now(tz: str | None = "UTC") -> dict[str, Any]:
        name = "UTC" if tz is None else tz
        return {"tz": name, "iso": clock().astimezone(_find_zone(name)).isoformat(timespec="microseconds")}

    return [_make_tool(echo, _ECHO), _make_tool(calc, _CALC), _make_tool(time_now, _TIME_NOW)]


def echo(text: str) -> dict[str, Any]:
    """Return the text unchanged."""
    return {"text": text}


def calc(expression: str) -> dict[str, Any]:
    """The expression and its value."""
    return {"expression": expression, "value": evaluate(expression)}


def _make_tool(function: Any, definition: dict[str, Any]) -> Tool:
    # None of them blocks, so they may run on an event loop.
    return function_tool(
        function, namespace="core", version=_VERSION, effects=Effects.READ, blocking=False, **definition
    )


def _object_schema(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_ECHO: dict[str, Any] = {
    "description": "Return the text unchanged.",
    "parameters": _object_schema({"text": {**_TEXT, "description": "What to say back."}}, ["text"]),
    "output_parameters": _object_schema({"text": _TEXT}, ["text"]),
}
_CALC: dict[str, Any] = {
    "description": (
        "Calculate an arithmetic expression of numbers, + - * / // % ** and brackets. Whole numbers are exact, "
        f"up to {MAX_DIGITS:,} digits; / gives a decimal fraction, // the whole quotient, % the remainder."
    ),
    "parameters": _object_schema(
        {"expression": {**_TEXT, "minLength": 1, "description": "Such as (19 + 4) * 2**10."}}, ["expression"]
    ),
    "output_parameters": _object_schema({"expression": _TEXT, "value": {"type": "number"}}, ["expression", "value"]),
}
_TIME_NOW: dict[str, Any] = {
    "description": "Tell the current date and time in a time zone, in ISO 8601 form with the offset from UTC.",
    "parameters": _object_schema(
        {
            "tz": {
                "type": ["string", "null"],
                "default": "UTC",
                "description": "A name of the IANA time zone database, such as Europe/Berlin.",
            }
        },
        [],
    ),
    "output_parameters": _object_schema({"tz": _TEXT, "iso": _TEXT}, ["tz", "iso"]),
}

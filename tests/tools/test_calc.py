"""`calc` against Python's own arithmetic: the same value, of the same type, or a clean error and never anything else."""

import ast
import math
import operator
import warnings
from fractions import Fraction

import pytest
from hypothesis import assume, example, given, strategies as st

from toolyard import ToolFailed
from toolyard.tools.core import MAX_BRACKETS, MAX_DIGITS, MAX_LENGTH, MAX_TERMS, evaluate

BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def fails(expression, says, position=None):
    with pytest.raises(ToolFailed) as raised:
        evaluate(expression)
    info = raised.value.info
    assert says in info.message
    assert (info.code, info.effect, info.retryable) == ("tool.execution_error", "none", False)
    if position is not None:
        assert info.details == {"position": position}
        assert info.message.endswith(f"at character {position}")
    return info


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("19*23", 437),
        ("9007199254740993", 9007199254740993),
        ("9007199254740993 * 3 - 1", 27021597764222978),
        ("-2**2", -4),
        ("(-2)**2", 4),
        ("2**3**2", 512),
        ("2**-1", 0.5),
        ("2**-3**2", 2**-9),
        ("-2**-2", -0.25),
        ("7/2", 3.5),
        ("6/2", 3.0),
        ("7//2", 3),
        ("-7//2", -4),
        ("-7%3", 2),
        ("7.5//2", 3.0),
        ("10-3-2", 5),
        ("100/10/2", 5.0),
        ("2*-3+1", -5),
        ("--5", 5),
        ("+5", 5),
        ("1_000 + 0x1F + 0b11 + 0o17", 1049),
        (".5 + 1. + 1e3 + 1.5E-1", 1001.65),
        (" ( 1 +\t2 )\r\n* 3 ", 9),
        ("0**0", 1),
        ("1/3", 1 / 3),
        ("00", 0),
        ("007.5", 7.5),
        ("1**" + "9" * 900, 1),
        ("(-1)**" + "9" * 900, -1),
        ("10**999", 10**999),
        ("9" * MAX_DIGITS, 10**MAX_DIGITS - 1),
        ("1/10**400", 0.0),
    ],
)
def test_expressions_have_the_value_and_the_type_that_python_gives_them(expression, value):
    found = evaluate(expression)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("expression", "says", "position"),
    [
        ("1/0", "division by zero", 2),
        ("1 + 5 // (2 - 2)", "division by zero", 7),
        ("5 % 0", "division by zero", 3),
        ("5.0 % 0.0", "division by zero", 5),
        ("0 ** -1", "zero has no negative power", 3),
        ("0.0**-1", "zero has no negative power", 4),
        ("(-8) ** (1/3)", "no real power", 6),
        ("(-1.5) ** .5", "no real power", 8),
        ("9**9**9", "too large", 2),
        ("9**999999999999", "too large", 2),
        ("10**1000", "too large", 3),
        ("-10**1000", "too large", 4),
        ("10**999 * 10", "too large", 9),
        ("1" + "0" * MAX_DIGITS, "too large", 1),
        ("0x" + "F" * 900, "too large", 1),
        ("1e308*10", "too large", 6),
        ("1e308+1e308", "too large", 6),
        ("1e999", "too large", 1),
        ("-1e999", "too large", 2),
        ("1e308//1e-308", "too large", 6),
        ("2.0**5000", "too large", 4),
        ("10**400 + 0.5", "too large", 9),
        ("10**400 / 3", "too large", 9),
        ("2**-(10**400)", "too large", 2),
        ("x", "'x' is not a number", 1),
        ("2 * pi", "'pi' is not a number", 5),
        ("True", "'True' is not a number", 1),
        ("inf", "'inf' is not a number", 1),
        ("nan", "'nan' is not a number", 1),
        ("abs(3)", "'abs' is not a number", 1),
        ("__import__('os')", "'__import__' is not a number", 1),
        ("(1).real", "'r' is not a number", 5),
        ("2(3)", "an operator is missing", 2),
        ("(1)(2)", "an operator is missing", 4),
        ("1 2", "an operator or a number is missing", 3),
        ("2 (3)", "an operator is missing", 3),
        ("1 +", "ends where a number is expected", 4),
        ("-", "ends where a number is expected", 2),
        ("* 2", "a number is missing", 1),
        ("1 + / 2", "a number is missing", 5),
        ("1 *** 2", "a number is missing", 5),
        ("()", "no number", 1),
        ("(1 + 2", "never closed", 1),
        ("((1 + 2)", "never closed", 1),
        ("1 + 2)", "unmatched ')'", 6),
        ("'a' * 3", "is not calculated", 1),
        ("1 == 1", "'=' is not calculated", 3),
        ("1 < 2", "'<' is not calculated", 3),
        ("2^3", "'^' is not calculated", 2),
        ("~1", "'~' is not calculated", 1),
        ("1 & 3", "'&' is not calculated", 3),
        ("1,5", "',' is not calculated", 2),
        ("1; 2", "';' is not calculated", 2),
        ("1 # one", "'#' is not calculated", 3),
        ("[1]", "'[' is not calculated", 1),
        ("3 \u00d7 4", "is not calculated", 3),
        ("\u0663", "is not calculated", 1),
        ("1\x002", r"'\x00' is not calculated", 2),
        ("\ud800", r"'\ud800' is not calculated", 1),
        ("1\u00a0+ 1", r"'\xa0' is not calculated", 2),
        ("007", "leading zeros", 1),
        ("0_7", "leading zeros", 1),
        ("1j", "'j' is not a number", 2),
        ("12abc", "invalid decimal literal", None),
        ("1.2.3", "an operator or a number is missing", None),
        ("1__0", "invalid decimal literal", None),
        ("1e", "invalid decimal literal", None),
        ("0x", "invalid hexadecimal literal", None),
        ("1if 2", "'i' is not a number", 2),
    ],
)
def test_whatever_has_no_value_says_what_is_wrong_and_where(expression, says, position):
    fails(expression, says, position)


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("2^3", "**"),
        ("3 \u00d7 4", "write *"),
        ("3 \u00f7 4", "write /"),
        ("3 \u2212 4", "write -"),
        ("1,000", "thousands"),
        ("2+2=", "without ="),
        ("sqrt(2)", "put the value in"),
        ("2(3 + 4)", "write * for a product"),
        ("10**9999", "1,000 digits"),
    ],
)
def test_a_hint_says_what_to_write_instead(expression, hint):
    assert hint in fails(expression, "").hint


@pytest.mark.parametrize("expression", ["", " ", "\n\t "])
def test_nothing_is_no_expression(expression):
    assert fails(expression, "the expression is empty").code == "tool.execution_error"


def test_the_limits_hold_exactly():
    assert evaluate("+".join(["1"] * (MAX_TERMS // 2))) == MAX_TERMS // 2
    fails("+".join(["1"] * (MAX_TERMS // 2 + 1)), f"more than {MAX_TERMS} numbers and operators")
    assert evaluate("(" * MAX_BRACKETS + "1" + ")" * MAX_BRACKETS) == 1
    fails("(" * (MAX_BRACKETS + 1) + "1" + ")" * (MAX_BRACKETS + 1), f"more than {MAX_BRACKETS} pairs of brackets")
    assert evaluate("-" * (MAX_TERMS - 1) + "1") == -1
    fails("-" * MAX_TERMS + "1", f"more than {MAX_TERMS} numbers and operators")
    assert evaluate(" " * (MAX_LENGTH - 1) + "1") == 1
    fails(" " * MAX_LENGTH + "1", f"at most {MAX_LENGTH:,} are calculated")


@pytest.mark.parametrize(
    "hostile", ["-" * 5_000 + "1", "(" * 50_000, "9" * 100_000, "1+" * 100_000 + "1", "2**" * 2_000]
)
def test_hostile_expressions_end_in_a_clean_error(hostile):
    for expression in (hostile, hostile[:MAX_LENGTH]):
        assert fails(expression, "").code == "tool.execution_error"


WHOLE = st.integers(min_value=0, max_value=10**24)


@st.composite
def exact(draw, depth=4):
    """An expression of whole numbers, and its value by rational arithmetic."""
    kind = draw(st.sampled_from("n+-*/%^u(") if depth else st.just("n"))
    if kind == "n":
        value = draw(WHOLE)
        return draw(st.sampled_from([f"{value}", f"{value:_}", f"0x{value:x}"])), Fraction(value)
    text, value = draw(exact(depth=depth - 1))
    if kind in "u(":
        return (f"(-({text}))", -value) if kind == "u" else (f"( {text} )", value)
    if kind == "^":
        exponent = draw(st.integers(0, 4))
        return f"({text})**{exponent}", value**exponent
    other_text, other = draw(exact(depth=depth - 1))
    assume(other != 0 or kind in "+-*")
    pairs = {
        "+": ("+", value + other),
        "-": ("-", value - other),
        "*": ("*", value * other),
        "/": ("//", Fraction(math.floor(value / other)) if other else value),
        "%": ("%", value - other * math.floor(value / other) if other else value),
    }
    sign, result = pairs[kind]
    return f"({text}) {sign} ({other_text})", result


@given(exact())
def test_whole_numbers_are_exact_however_large(pair):
    text, value = pair
    assume(len(text) <= MAX_LENGTH)
    try:
        found = evaluate(text)
    except ToolFailed as error:
        # Not even then wrong: too long, too many terms, or a number on the way was too large.
        assert any(word in str(error) for word in ("too large", "more than"))
    else:
        assert type(found) is int
        assert Fraction(found) == value


TOKENS = st.sampled_from([*"0123456789+-*/%().e_x \t", "**", "//", "1.5", "0x1f", "1e3", " - ", "10", "2", "3", "7"])


class Huge(Exception):
    """The reference will not calculate it."""


def reference(node):
    """Python's value of an expression of numbers and operators; ValueError if it is anything else."""
    if isinstance(node, ast.Expression):
        return reference(node.body)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = reference(node.operand)
        return -value if isinstance(node.op, ast.USub) else +value
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        left, right = reference(node.left), reference(node.right)
        if isinstance(node.op, ast.Pow) and (abs(right) > 200 or abs(left) > 10**20):
            raise Huge
        return BINARY[type(node.op)](left, right)
    raise ValueError("no arithmetic")


@given(st.lists(TOKENS, max_size=12).map("".join))
@example("-2**-2")
@example("2**-3**2")
@example("1 if 2 else 3")
@example("1_0.5e-1_0")
def test_any_text_has_pythons_value_or_none_where_python_has_none(text):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = reference(ast.parse(text.strip(), mode="eval"))
    except Huge:
        assume(False)
    except (SyntaxError, ValueError, ArithmeticError):
        fails(text, "")
        return
    if isinstance(wanted, complex) or not -(10**MAX_DIGITS) < wanted < 10**MAX_DIGITS or not math.isfinite(wanted):
        fails(text, "")
        return
    try:
        found = evaluate(text)
    except ToolFailed as error:
        # A number on the way may be too large although the last one is not.
        assert "too large" in str(error) or "no real power" in str(error)
    else:
        assert (found, type(found), math.copysign(1, found)) == (wanted, type(wanted), math.copysign(1, wanted))


@given(st.text(max_size=60) | st.text(alphabet="0123456789.eE+-*/%()_xX \n", max_size=60))
def test_no_text_at_all_gives_anything_but_a_finite_number_or_a_clean_error(text):
    try:
        value = evaluate(text)
    except ToolFailed as error:
        assert 0 <= error.info.details.get("position", 0) <= len(text) + 1
        assert error.info.effect == "none"
    else:
        assert type(value) in (int, float)
        assert abs(value) < 10**MAX_DIGITS and (type(value) is int or math.isfinite(value))


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=0),
    st.floats(allow_nan=False, allow_infinity=False, min_value=0),
)
def test_fractions_are_pythons_floats_to_the_last_bit(left, right):
    for sign, apply in (("+", operator.add), ("-", operator.sub), ("*", operator.mul), ("/", operator.truediv)):
        try:
            wanted = apply(left, right)
        except ZeroDivisionError:
            wanted = math.inf
        if math.isfinite(wanted):
            assert evaluate(f"{left!r}{sign}{right!r}") == wanted
        else:
            fails(f"{left!r}{sign}{right!r}", "")

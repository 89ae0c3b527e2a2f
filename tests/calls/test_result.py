"""What a tool answers becomes plain JSON of its own, or an error that says why not."""

import dataclasses
import datetime
import enum
import logging
from collections.abc import Mapping, Sequence

import pytest
from call_support import call, engine_of, executions, invocation_of, tool_of
from pydantic import BaseModel

from toolyard.calls.result import plain_answer
from toolyard.model.errors import Denied, InvalidOutput, ToolFailed

LIMIT = 10_000


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Model(BaseModel):
    name: str
    when: datetime.date


class Colour(enum.Enum):
    RED = "red"


class Word(str):
    pass


def anything():
    return None


def answered(value, limit=LIMIT):
    return plain_answer(value, invocation_of(anything), limit)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        *((None, None), (True, True), (3, 3), (1.5, 1.5), ("é", "é"), ([], []), ({}, {}), (2**70, 2**70)),
        ((1, (2, [3])), [1, [2, [3]]]),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (Point(1, 2.0), {"x": 1, "y": 2.0}),
        ({"p": [Point(1, 2.5)]}, {"p": [{"x": 1, "y": 2.5}]}),
        (Model(name="a", when=datetime.date(2026, 1, 2)), {"name": "a", "when": "2026-01-02"}),
        ([Model(name="a", when=datetime.date(2026, 1, 2))], [{"name": "a", "when": "2026-01-02"}]),
        (Colour.RED, "red"),
        (Word("word"), "word"),
    ],
    ids=repr,
)
def test_json_stays_and_known_objects_become_json(value, plain):
    found, text = answered(value)
    assert found == plain
    assert type(found) is type(plain)
    assert text.isascii() or "é" in text.decode()


def test_the_answer_shares_nothing_with_what_the_tool_keeps():
    kept = {"a": [1], "b": {"c": []}}
    plain, _ = answered(kept)
    kept["a"].append(2)
    kept["b"]["c"].append(3)
    assert plain == {"a": [1], "b": {"c": []}}


def circle():
    value = []
    value.append({"again": value})
    return value


def dict_circle():
    value = {}
    value["a"] = [value]
    return value


def doubling(levels=64):
    value = ["x"]
    for _ in range(levels):
        value = [value, value]
    return value


def doubling_dicts():
    value = {"x": 1}
    for _ in range(64):
        value = {"a": value, "b": (value,)}
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("make", [circle, dict_circle, doubling, doubling_dicts, deep], ids=lambda make: make.__name__)
def test_what_has_no_end_or_doubles_at_every_level_is_refused_at_once(make):
    with pytest.raises(InvalidOutput):
        answered(make(), 8 * 1024 * 1024)


class Endless(Sequence):
    """Says that it is long, and has an item for every index."""

    def __len__(self):
        return 10**9

    def __getitem__(self, index):
        raise AssertionError("an item was asked for")


class EndlessMapping(Mapping):
    def __len__(self):
        return 10**9

    def __iter__(self):
        raise AssertionError("a key was asked for")

    __getitem__ = __iter__


@pytest.mark.parametrize(
    "value",
    [range(10**9), Endless(), EndlessMapping(), EndlessMapping().values(), memoryview(bytes(10**7)), bytes(10**7)],
    ids=lambda value: type(value).__name__,
)
def test_what_says_that_it_is_long_is_refused_before_any_of_it_is_written(value):
    for answer in (value, {"a": [value]}):
        with pytest.raises(InvalidOutput, match="answered with over 262,144 values"):
            answered(answer)


@pytest.mark.parametrize(("shape", "value"), [([], 97), ([1], [97]), ([1, 1], [[97]])])
def test_a_memoryview_of_any_shape_is_written(shape, value):
    assert answered({"a": memoryview(b"a").cast("B", shape=shape)})[0] == {"a": value}


class Unending(Sequence):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return index


class Nested(Sequence):
    """Makes its only item, one level below, whenever it is asked for."""

    def __init__(self, levels):
        self.levels = levels

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return [Nested(self.levels - 1) if self.levels else None][index]


def test_a_sequence_that_makes_its_items_when_they_are_asked_for_does_not_contain_itself():
    assert answered(Nested(8))[0] == [[[[[[[[[None]]]]]]]]]


def test_a_sequence_is_read_as_far_as_it_says_that_it_goes():
    assert answered({"a": Unending()})[0] == {"a": [0, 1, 2]}


@pytest.mark.parametrize("hidden", [circle, doubling], ids=lambda make: make.__name__)
def test_what_hides_in_an_object_is_refused_too(hidden):
    @dataclasses.dataclass
    class Box:
        inside: object

    with pytest.raises(InvalidOutput):
        answered({"box": Box(hidden() if hidden is circle else doubling(22))}, 100_000)


@pytest.mark.parametrize(
    "value",
    [float("nan"), [float("inf")], {"a": {"b": float("-inf")}}, object(), {"a": object()}, "\ud800", ["\ud800"]],
    ids=["nan", "inf", "deep inf", "object", "deep object", "surrogate", "deep surrogate"],
)
def test_what_json_cannot_carry_is_refused(value):
    with pytest.raises(InvalidOutput):
        answered(value)


def test_a_result_over_the_limit_is_an_error_that_says_so_and_is_never_cut():
    with pytest.raises(InvalidOutput) as caught:
        answered("x" * LIMIT)
    assert "answered with 10,002 bytes of JSON; the limit is 10,000" in str(caught.value)
    assert "nothing was cut" in caught.value.info.hint
    assert caught.value.info.details == {"max_result_bytes": LIMIT}
    assert caught.value.info.effect == "done"
    assert answered("x" * (LIMIT - 2))[0] == "x" * (LIMIT - 2)


def test_the_limit_is_in_bytes():
    with pytest.raises(InvalidOutput, match="14 bytes"):
        answered("é" * 6, 13)
    assert answered("é" * 6, 14)[0] == "éééééé"


def wrong() -> dict:
    return {"a": "text"}


OUTPUT = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"]}


def checked(check):
    engine = engine_of(output_check=check)
    from toolyard.registry.functions import function_tool

    engine.tool_registry.add(function_tool(wrong, namespace="n", output_parameters=OUTPUT))
    return engine, engine.execute("s", [call("wrong")])[0]


def test_by_default_a_result_that_breaks_its_promise_is_kept_with_what_it_breaks():
    engine, result = checked("warn")
    assert result.result == {"a": "text"}
    assert len(result.metadata["output_violations"]) == 2
    assert executions(engine)[0]["tool_output"]["metadata"] == result.metadata


def test_strict_makes_it_an_error_whose_effect_is_done():
    _, result = checked("strict")
    assert result.result is None
    assert (result.error_info.code, result.error_info.effect) == ("tool.invalid_output", "done")
    assert len(result.error_info.details["violations"]) == 2


def test_off_looks_at_nothing():
    _, result = checked("off")
    assert result.result == {"a": "text"}
    assert result.metadata == {}


def long_list() -> list:
    return ["x"] * 200_000


def deep_answer() -> dict:
    value: dict = {}
    for _ in range(24):
        value = {"c": value}
    return value


CODES = {"type": "array", "items": {"enum": [f"c{number}" for number in range(250)]}}
TWICE_ITSELF = {"type": "object", "properties": {"c": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}}}


@pytest.mark.parametrize(
    ("tool", "output", "pointer"), [(long_list, CODES, "/0"), (deep_answer, TWICE_ITSELF, "/c")], ids=["long", "deep"]
)
def test_a_long_or_deep_answer_that_breaks_its_promise_is_told_at_its_first_places(tool, output, pointer):
    from toolyard.registry.functions import function_tool

    engine = engine_of(output_check="warn", timeout=60)
    engine.tool_registry.add(function_tool(tool, namespace="n", output_parameters=output))
    result = engine.execute("s", [call(tool.__name__)])[0]
    violations = result.metadata["output_violations"]
    assert violations[0]["pointer"] == pointer
    assert len(violations) <= 100


def test_an_answer_that_takes_too_long_to_judge_is_kept_and_said_not_to_be_judged():
    from toolyard.registry.functions import function_tool

    def numbers() -> list:
        return [49] * 95_000

    engine = engine_of(output_check="warn", timeout=60)
    output = {"type": "array", "items": {"oneOf": [{"const": number} for number in range(50)]}}
    engine.tool_registry.add(function_tool(numbers, namespace="n", output_parameters=output))
    result = engine.execute("s", [call("numbers")])[0]
    assert len(result.result) == 95_000
    assert "which is the limit" in result.metadata["output_violations"][0]["message"]


LONG = {"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "array", "uniqueItems": True}}}}


@pytest.mark.parametrize("row", [[1, 2], [1, 1]], ids=["allowed", "not allowed"])
def test_a_long_answer_under_a_strict_check_fails_only_if_its_schema_does_not_allow_it(row):
    # Answers of such a schema are judged at once up to 2,048 bytes of text; this one is measured first.
    def list_rows():
        return {"rows": [row] * 1_000}

    engine = engine_of(tool_of(list_rows, output_parameters=LONG), output_check="strict")
    [result] = engine.execute("s", [call("list_rows")])
    if row == [1, 2]:
        assert (result.error, result.metadata, len(result.result["rows"])) == (None, {}, 1_000)
    else:
        assert (result.error_info.code, result.result) == ("tool.invalid_output", None)


@pytest.mark.parametrize("shape", ["flat", "in objects", "in an iterator"])
def test_an_answer_of_too_many_values_is_refused_before_it_is_written(shape):
    def count():
        numbers = [1] * 300_000
        return {"flat": numbers, "in objects": [{"n": 1}] * 150_000, "in an iterator": iter(numbers)}[shape]

    [refused] = engine_of(count).execute("s", [call("count")])
    assert refused.error_info.code == "tool.invalid_output"
    assert refused.error_info.details["max_values"] == 262_144
    [taken] = engine_of(count, max_result_bytes=16 * 1024 * 1024).execute("s", [call("count")])
    assert taken.error is None


SECRET = "/home/someone password=hunter2"


def crash() -> str:
    """Has a bug."""
    raise RuntimeError(SECRET)


def explain() -> str:
    """Fails, and tells its caller why."""
    raise ToolFailed("there is no more milk", hint="buy some")


def wrap() -> str:
    """Tells its caller, with its own cause behind it."""
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        raise ToolFailed("the shelf is empty") from error


def deny() -> str:
    """Refuses."""
    raise Denied("not you")


def bare_key() -> str:
    """A KeyError is a bug like any other."""
    raise KeyError(SECRET)


def odd() -> str:
    """Not even an Exception that can be shown."""

    class Odd(Exception):
        def __str__(self):
            raise ValueError(SECRET)

    raise Odd


@pytest.fixture
def engine():
    with engine_of(crash, explain, wrap, deny, bare_key, odd) as made:
        made.discreet = True
        yield made


@pytest.mark.parametrize("name", ["crash", "bare_key", "odd"])
def test_the_text_of_a_bug_goes_to_the_log_and_its_number_to_the_caller(engine, caplog, name):
    with caplog.at_level(logging.ERROR):
        [result] = engine.execute("s", [call(name)])
    info = result.error_info
    assert info.code == "tool.execution_error"
    assert SECRET not in str(result.to_dict()) and SECRET not in str(engine.get_session_state("s"))
    assert info.details["error_id"] in info.message
    assert info.details["error_id"] in caplog.text


def test_two_failures_have_two_numbers(engine):
    one, two = engine.execute("s", [call("crash"), call("crash")])
    assert one.error_info.details["error_id"] != two.error_info.details["error_id"]


@pytest.mark.parametrize(
    ("name", "message"), [("explain", "there is no more milk"), ("wrap", "the shelf is empty"), ("deny", "not you")]
)
def test_what_a_tool_says_on_purpose_is_passed_on(engine, name, message):
    [result] = engine.execute("s", [call(name)])
    assert message in result.error_info.message
    assert SECRET not in str(result.to_dict())


def test_in_process_the_text_is_shown(engine):
    engine.discreet = False
    [result] = engine.execute("s", [call("crash")])
    assert "hunter2" in result.error or "RuntimeError" in result.error
    assert "error_id" not in result.error_info.details


async def test_async_callers_are_told_no_more(engine):
    [result] = await engine.aexecute("s", [call("crash")])
    assert SECRET not in str(result.to_dict()) and result.error_info.details["error_id"]


FORGED = "x\n2026-11-15T09:00:00.000Z request status=200 key=admin\r\n\x1b[2J\u202epassword=hunter2"


def forge(text: str) -> str:
    """Fails with what it was given."""
    raise type(text[:40], (RuntimeError,), {})(text)


def sink(depth: int) -> str:
    """Fails far down."""
    return sink(depth - 1) if depth else forge("deep")


@pytest.mark.parametrize("text", [FORGED, "y" * 100_000, "é\x07\x9b", ""])
def test_the_log_has_one_safe_line_whatever_the_text(text, caplog):
    with engine_of(forge) as made, caplog.at_level(logging.ERROR):
        made.discreet = True
        [result] = made.execute("s", [call("forge", text=text)])
    [record] = [record for record in caplog.records if record.name == "toolyard.calls.failure"]
    line = record.getMessage()
    assert line.isascii() and line.isprintable() and len(line) < 5000
    assert record.exc_info is None, "Python would write that raw, in many lines"
    assert "hunter2" not in line and result.error_info.details["error_id"] in line
    assert "test_result.py:" in line and line.count(" forge") == 1


def test_the_log_has_the_last_frames_innermost_first(caplog):
    with engine_of(sink) as made, caplog.at_level(logging.ERROR):
        made.discreet = True
        made.execute("s", [call("sink", depth=200)])
    line = caplog.records[-1].getMessage()
    where = line.rpartition(" at ")[2].split(" < ")
    assert len(where) == 20 and where[0].endswith(" forge") and where[1].endswith(" sink")
    assert "deep: 'deep' at " in line


def test_known_secrets_are_not_in_the_log(caplog):
    from toolyard.words.redactor import Redactor

    with engine_of(crash, redactor=Redactor(["/home/someone"])) as made, caplog.at_level(logging.ERROR):
        made.discreet = True
        made.execute("s", [call("crash")])
    assert "/home/someone" not in caplog.text and "RuntimeError: '[redacted]" in caplog.text

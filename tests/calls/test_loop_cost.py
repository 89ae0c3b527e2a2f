"""How much work one call may put on the event loop, whatever its schemas, its arguments and its answer are.

Work is counted, never timed: bytecodes that the loop's thread runs, steps of a validator that remembers nothing, and
bytes that are written or read as JSON. What threads do beside the loop does not count, and nothing else is left out.
"""

import asyncio
import sys
import threading
from contextlib import closing

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from schema.hostile import CASES
from schema.test_walk import DOCUMENTS, VALUES, compiled_or_none
from schema.test_weight import count_judgements

from conftest import SOAK, examples
from toolyard import PythonToolEngine, Tool, ToolCall, ToolRegistry
from toolyard.calls import result
from toolyard.model.bindings import PythonBinding
from toolyard.model.errors import DefinitionError
from toolyard.registry import prepared
from toolyard.schema import compile as compiling
from toolyard.schema.weight import InPlaceSchemas

MOST = 1_000_000
"""Bytecodes of some 50 nanoseconds; a step of the validator is half of one, and so are 25 bytes of JSON."""


class Meter:
    """Counts what the thread does in which it is entered."""

    def __init__(self):
        self.work = 0.0

    def __enter__(self):
        self.before, self.thread = sys.gettrace(), threading.get_ident()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def _trace(self, frame, event, _argument):
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.work += event == "opcode"
        return self._trace

    def add(self, work):
        if threading.get_ident() == getattr(self, "thread", None):
            self.work += work


METER = Meter()


class CountedValidator:
    """A validator that counts what one would do that remembers nothing."""

    def __init__(self, schema, validator):
        self.schema, self.validator, self.in_place = schema, validator, None

    def is_valid(self, value):
        self._count(value)
        return self.validator.is_valid(value)

    def iter_errors(self, value):
        self._count(value)
        return self.validator.iter_errors(value)

    def _count(self, value):
        if threading.get_ident() != getattr(METER, "thread", None):
            return
        trace = sys.gettrace()
        sys.settrace(None)
        self.in_place = self.in_place or InPlaceSchemas(self.schema if isinstance(self.schema, dict) else {})
        METER.add(count_judgements(self.in_place, self.schema, value) / 2)
        sys.settrace(trace)


def counted_json(function):
    def work(value):
        made = function(value)
        METER.add(len(made if isinstance(made, bytes) else value) / 50)
        return made

    return work


@pytest.fixture(scope="module", autouse=True)
def _counted():
    with pytest.MonkeyPatch.context() as patch:
        make = compiling._compile_validator
        patch.setattr(
            compiling, "_compile_validator", lambda schema, *rest: CountedValidator(schema, make(schema, *rest))
        )
        for module, names in (
            (sys.modules["toolyard.registry.bind"], ("_encode", "_decode")),
            (prepared, ("_encode", "_decode")),
        ):
            for name in names:
                patch.setattr(module, name, counted_json(getattr(module, name)))
        patch.setattr(result, "_encode_plain", counted_json(result._encode_plain))
        yield


SIZES = st.sampled_from([3, 63, 65, 500, 1_900, 3_999, 4_001, 30_000])


def nest(value, depth, name):
    for _ in range(depth):
        value = [value] if name is None else {name: value}
    return value


LARGE = st.one_of(
    VALUES,
    st.builds(lambda value, size: [value] * size, VALUES, SIZES),
    st.builds(lambda value, size: {f"k{at}": value for at in range(size)}, VALUES, SIZES),
    st.builds(nest, VALUES, st.integers(1, 120), st.sampled_from(["a", "b", None])),
    st.builds(lambda size: "ab" * size, SIZES),
    st.integers(1, 14_000).map(lambda bits: 1 << bits),
)
"""Values on both sides of every limit there is."""


def object_of(schema):
    return {"type": "object", "properties": {"v": schema}, "$defs": schema.get("$defs", {})}


def fill_limit(value, limit):
    """As many of the value as JSON text of so many bytes has place for."""
    return [value] * max(limit // (len(msgspec.json.encode(value)) + 1) - 4, 1)


async def call_often(schema, answer_schema, value, answer):
    """The most that one call put on the loop: at first nothing is made ready, the last has what just fits."""
    answers = [answer]

    async def tool(**_arguments):
        return answers[0]

    binding = PythonBinding(callable=tool, is_async=True, blocking=False)
    registry = ToolRegistry([Tool("t", "n", "", object_of(schema), answer_schema, binding=binding)])
    [known] = registry.snapshot.candidates
    most = 0.0
    with closing(PythonToolEngine(registry)) as engine:
        engine.setup("s")
        text = msgspec.json.encode({"v": value}).decode()
        for arguments in ({"v": value}, {"v": value}, text, None):
            if arguments is None:
                arguments = {"v": fill_limit(value, known.small_bytes)}
                answers[0] = fill_limit(answer, known.output.max_bytes)
            METER.work = 0.0
            with METER:
                await engine.aexecute("s", [ToolCall("n::t", arguments)])
            most = max(most, METER.work)
    return most


@settings(max_examples=examples(40))
@given(DOCUMENTS, DOCUMENTS, LARGE, LARGE)
def test_no_call_puts_more_than_a_bounded_work_on_the_loop(schema, answer_schema, value, answer):
    if compiled_or_none(object_of(schema)) is None or compiled_or_none(answer_schema) is None:
        return
    try:
        most = asyncio.run(call_often(schema, answer_schema, value, answer))
    except DefinitionError:
        return  # a schema that no registry takes
    assert most < MOST


HEAVY = {
    "each item judged a thousand times": ({"items": {"allOf": [{"type": "integer"}] * 1_000}}, 1),
    "each item compared with many": ({"items": {"enum": [{"a": [at]} for at in range(300)]}}, {"a": [299]}),
    "each name tried by many patterns": (
        {"items": {"patternProperties": {f"^x{at}": {"type": "integer"} for at in range(400)}}},
        {"y": 1},
    ),
}


@pytest.mark.parametrize("name", [*CASES, *HEAVY])
def test_what_once_stalled_a_server_is_bounded_as_arguments_and_as_an_answer(name):
    schema, value = {**CASES, **HEAVY}[name]
    if name == "long integers with a minimum" and not SOAK:
        value = value[:100]  # all of them take a thread a second each time, which does not count here
    most = asyncio.run(call_often(schema, schema, value, value))
    assert most < MOST

"""What all calls of an engine share: made once, left out where it would do nothing, and closed with the engine."""

import copy
import dataclasses
import random
import threading

import pytest
from call_support import call, codes, engine_of, executions, registry_of
from hypothesis import given, strategies as st

from toolyard.calls.call_path import Gates, Settings
from toolyard.calls.policy import Policy, Rule
from toolyard.calls.tracer import Tracer
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolCall
from toolyard.model.errors import ConfigError, Denied, InvalidArguments, ToolFailed, UnknownToolError
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.functions import function_tool
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("timeout", 0, "timeout: must be above 0, not 0"),
        ("timeout", -1, "timeout: must be above 0, not -1"),
        ("timeout", True, "timeout: must be a number, not boolean"),
        ("timeout", "5", "timeout: must be a number, not text"),
        ("timeout", float("nan"), "timeout: must be above 0, not nan"),
        ("timeout", float("inf"), "timeout: must be a finite number"),
        ("retry_delay", -0.1, "retry_delay: must be 0 or more, not -0.1"),
        ("retries", -1, "retries: must be 0 or more, not -1"),
        ("retries", 1.5, "retries: must be a whole number, not number"),
        ("retries", True, "retries: must be a whole number, not boolean"),
        ("threads", 0, "threads: must be 1 or more, not 0"),
        ("max_result_bytes", 0, "max_result_bytes: must be 1 or more, not 0"),
        ("max_concurrent_calls", 0, "max_concurrent_calls: must be 1 or more, not 0"),
        ("max_concurrent_calls_per_tool", 0, "max_concurrent_calls_per_tool: must be 1 or more, not 0"),
        ("max_concurrent_calls_per_tool", {"a::*": 0}, "max_concurrent_calls_per_tool.a::*: must be 1 or more, not 0"),
        ("max_concurrent_calls_per_tool", {"slow": 1}, "'slow' matches no tool; write 'namespace::slow'"),
        ("retry_delay", None, "retry_delay: must be a number, not null"),
        ("output_check", "loud", "output_check: no such choice 'loud'; write one of off, warn, strict"),
        ("abandoned", "drop", "abandoned: no such choice 'drop'; write one of hold, release"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_by_name(option, value, said):
    with pytest.raises(ConfigError) as caught:
        Settings(**{option: value})
    assert said in str(caught.value)


def test_an_engine_tells_of_a_rule_whose_glob_matches_no_tool_of_its_registry(caplog):
    policy = Policy([Rule("deny", ("n::delet_*", "n::delete"))])
    PythonToolEngine(ToolRegistry(), policy=policy).close()
    assert not caplog.records
    PythonToolEngine(ToolRegistry([Tool("delete", "n")]), policy=policy).close()
    assert [record.getMessage() for record in caplog.records] == [
        "policy.rules[0]: n::delet_* matches no tool; did you mean n::delete?"
    ]


@pytest.mark.parametrize("options", [{"max_concurrent_calls": 1}, {"max_concurrent_calls_per_tool": 1}, {"retries": 1}])
def test_settings_are_unlimited_only_if_nothing_waits_or_repeats(options):
    assert Settings(timeout=5).unlimited
    assert not Settings(**options).unlimited


def test_without_limits_there_is_no_gate():
    assert Gates(Settings()).of("a::b") == ()


def test_each_tool_has_a_gate_of_its_own_and_all_share_the_engines():
    gates = Gates(Settings(max_concurrent_calls=3, max_concurrent_calls_per_tool=2))
    (own, engine), (other, same) = gates.of("a::b"), gates.of("a::c")
    assert own is not other
    assert engine is same
    assert gates.of("a::b") == (own, engine)
    assert [own.enter_at_once() for _ in range(3)] == [True, True, False]
    assert [engine.enter_at_once() for _ in range(4)] == [True, True, True, False]


def test_the_first_pattern_that_fits_decides_and_others_are_free():
    gates = Gates(Settings(max_concurrent_calls_per_tool={"a::x": 1, "a::*": 2}))
    (strict,), (loose,) = gates.of("a::x"), gates.of("a::y")
    assert [strict.enter_at_once() for _ in range(2)] == [True, False]
    assert [loose.enter_at_once() for _ in range(3)] == [True, True, False]
    assert gates.of("b::x") == ()


class Deaf:
    def emit(self, event):
        pass

    def close(self):
        pass


def pair(registry, **settings):
    """One engine that needs no more than the tool, one with a deadline, and one that is traced."""
    engines = [
        PythonToolEngine(registry, **settings),
        PythonToolEngine(registry, timeout=600, **settings),
        PythonToolEngine(registry, tracer=Tracer([Deaf()]), **settings),
    ]
    for engine in engines:
        engine.setup("s")
    return engines


def outcome(engine, calls, verb="execute"):
    try:
        return getattr(engine, verb)("s", calls)
    except BaseException as error:
        return type(error), str(error)


def agree(engines, calls):
    """All say the same and have the same history, in which the caller's calls are not changed."""
    before = copy.deepcopy(calls)
    found = [outcome(engine, calls) for engine in engines]
    assert found[0] == found[1] == found[2]
    assert repr(found[0]) == repr(found[1]) == repr(found[2])
    assert calls == before
    hashes = {engine.state_hash("s") for engine in engines}
    assert len(hashes) == 1
    states = [engine.get_session_state("s") for engine in engines]
    assert states[0] == states[1] == states[2]
    return found[0]


scalar_types = st.sampled_from(
    ["string", "integer", "number", "boolean", "null", ["integer", "null"], ["string", "number"]]
)
plain_scalars = scalar_types.map(lambda kind: {"type": kind})
bounded = st.sampled_from([{"type": "integer", "minimum": 0}, {"type": "string", "maxLength": 2}, {"enum": ["a", 1]}])
defaults = st.sampled_from(
    [{"type": "integer", "default": 3}, {"type": "string", "default": "d"}, {"type": "array", "default": [1]}]
)
property_schemas = st.one_of(
    plain_scalars,
    bounded,
    defaults,
    st.builds(lambda items: {"type": "array", "items": items}, plain_scalars),
    st.builds(
        lambda inner, closed: {
            "type": "object",
            "properties": inner,
            **({"additionalProperties": False} if closed else {}),
        },
        st.dictionaries(st.sampled_from(["p", "q"]), plain_scalars, max_size=2),
        st.booleans(),
    ),
)
names = st.sampled_from(["a", "b", "c"])


@st.composite
def schemas(draw):
    schema = {"type": "object", "properties": draw(st.dictionaries(names, property_schemas, max_size=3))}
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    required = [name for name in schema["properties"] if draw(st.booleans())]
    if required:
        schema["required"] = required
    return schema


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=3) | st.sampled_from(["3", "true", "\ud800", "1.5"])
scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.integers() | texts | st.sampled_from([3.0, 1.5, 1e300, -0.0])
)
odd = st.sampled_from([float("nan"), (1, 2), {1: 2}, 2**70, 10**5000, b"x", {3}, "x" * 500])
arguments = st.dictionaries(
    names | st.sampled_from(["other", "ctx"]),
    scalars
    | odd
    | st.lists(scalars, max_size=3)
    | st.dictionaries(st.sampled_from(["p", "q", "r"]), scalars | st.lists(scalars), max_size=2),
    max_size=3,
)
values = (
    scalars
    | odd
    | st.lists(scalars | odd, max_size=2)
    | st.dictionaries(st.sampled_from(["k", "l"]), scalars | odd | st.lists(scalars, max_size=1), max_size=2)
)


@given(
    schemas(),
    schemas(),
    st.lists(st.tuples(arguments, values), min_size=1, max_size=3),
    st.sampled_from(["warn", "strict", "off"]),
)
def test_random_tools_and_calls_give_the_same_whichever_way_they_go(schema, output, program, check):
    said = []

    def tool(**keywords):
        """Says what it got, changes it, and answers as it is told."""
        answer = said.pop(0)
        seen = repr(sorted(keywords.items()))
        for value in keywords.values():
            if isinstance(value, list | dict):
                value.clear()
        keywords.clear()
        return {"seen": seen} if answer == "x" * 500 else answer

    registry = ToolRegistry()
    registry.add(function_tool(tool, namespace="n", parameters=schema, output_parameters=output))
    engines = pair(registry, output_check=check)
    for given_arguments, value in program:
        said[:] = [value] * 3
        agree(engines, [ToolCall("n::tool", given_arguments)])


def error_tools():
    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError("no")

    return [
        *(ValueError("v"), KeyError("k"), SystemExit(2), KeyboardInterrupt(), GeneratorExit(), StopIteration(1)),
        *(ToolFailed("f", hint="h", details={"a": 1}), Denied("d"), InvalidArguments("i"), UnknownToolError("u")),
        *(Unprintable(), OSError("\udcff"), RecursionError("r"), TimeoutError("t"), Exception(), MemoryError()),
        *(ToolFailed("x", details={"a": object()}), ToolFailed("x", details={"a": float("nan")})),
    ]


@pytest.mark.parametrize("error", error_tools(), ids=lambda error: type(error).__name__)
def test_whatever_a_tool_raises_is_told_the_same(error):
    def fail(x: int = 0):
        raise error

    def fine() -> int:
        return 1

    registry = registry_of(fail, fine)
    short, long = PythonToolEngine(registry), PythonToolEngine(registry, tracer=Tracer([Deaf()]))
    for engine in (short, long):
        engine.setup("s")
    calls = [call("fine"), call("fail", x=1), call("fine")]
    assert outcome(short, calls) == outcome(long, calls)
    assert executions(short) == executions(long)
    assert codes(short)[0] is None
    assert len(codes(short)) == (2 if isinstance(error, KeyboardInterrupt) else 3)
    assert not short.sessions.find("s").gate.busy


@pytest.mark.parametrize("error", [KeyboardInterrupt])
def test_what_stops_the_thread_is_recorded_as_interrupted_and_goes_on(error):
    def stop():
        raise error

    engine = PythonToolEngine(registry_of(stop))
    engine.setup("s")
    with pytest.raises(error):
        engine.execute("s", [call("stop")])
    assert codes(engine) == ["tool.interrupted"]
    assert executions(engine)[0]["tool_output"]["error_info"]["effect"] == "unknown"


@dataclasses.dataclass
class Point:
    x: int


def named():
    def add(x: int, y: int = 2) -> int:
        return x + y

    def half(x: float) -> float:
        return x / 2

    def join(words: list[str], options: dict[str, str] | None = None) -> str:
        words.append("!")
        return "".join(words)

    def point(x: int) -> Point:
        return Point(x)

    def nothing():
        return None

    async def later(x: int) -> int:
        return x

    def coroutine(x: int):
        return later(x)

    def liar() -> int:
        return "text"

    registry = registry_of(add, half, join, point, nothing, later, coroutine, liar)
    registry.add(function_tool(add, namespace="other", aliases=["plus"]))
    registry.add(Tool("unbound", "n", parameters={"type": "object", "properties": {}}))
    return registry


@pytest.mark.parametrize("check", ["off", "warn", "strict"])
def test_named_cases_are_the_same_both_ways(check):
    engines = pair(named(), output_check=check)
    for one in (
        call("add", x=1),
        call("add", x=1, y=5),
        call("add", x=1.0),
        call("add", x="1"),
        call("add", x=True),
        call("add"),
        call("add", x=1, z=1),
        call("add", "id", x=1),
        ToolCall("n::add", {"x": 1}, None, "0000"),
        ToolCall("n::add", '{"x": 1}'),
        ToolCall("n::add", "{"),
        ToolCall("n::add", None),
        ToolCall("n::add", [1]),
        ToolCall("half", {"x": 3}),
        ToolCall("n::half", {"x": 3}),
        ToolCall("add", {"x": 3}),
        ToolCall("plus", {"x": 3}),
        ToolCall("other::plus", {"x": 3}),
        ToolCall("other::add", {"x": 3}),
        ToolCall("", {}),
        ToolCall("n::", {}),
        ToolCall("N::add", {"x": 1}),
        call("join", words=["a", "b"]),
        call("join", words=["a"], options={"k": "v"}),
        call("join", words="a"),
        call("join", words=["a" * 500]),
        call("point", x=1),
        call("nothing"),
        call("later", x=1),
        call("coroutine", x=1),
        call("liar"),
        call("unbound"),
        call("gone"),
    ):
        agree(engines, [one])
    agree(engines, [call("add", x=n) for n in range(5)])
    agree(engines, [])
    assert outcome(engines[0], [call("add", x=1)], "simulate") == outcome(engines[1], [call("add", x=1)], "simulate")
    assert engines[0].state_hash("s") == engines[1].state_hash("s")


def test_a_plan_leaves_out_what_a_tool_and_its_engine_do_not_need():
    def read(x: int) -> str:
        return str(x)

    registry = ToolRegistry([function_tool(read, namespace="n", effects="read", output_parameters={})])
    engine = PythonToolEngine(registry)
    plan = engine._path.plans["execute", engine.tool_registry.snapshot].add(registry.snapshot.names["n::read"][0])
    assert plan.function is not None
    assert (plan.faults, plan.is_limited, plan.announces, plan.accepts_output) == (None, False, False, None)
    careful = PythonToolEngine(named(), retries=1, output_check="strict")
    plan = careful._path.plans["execute", careful.tool_registry.snapshot].add(
        careful.tool_registry.snapshot.names["n::add"][0]
    )
    assert plan.is_limited and plan.announces and plan.accepts_output is not None


def test_overloads_are_chosen_the_same_way():
    def first(x: int) -> str:
        return "integer"

    def second(x: str) -> str:
        return "text"

    def third(x: int, y: int) -> str:
        return "two"

    registry = ToolRegistry()
    for function in (first, second, third):
        registry.add(function_tool(function, namespace="n", name="over"))
    engines = pair(registry)
    for arguments in ({"x": 1}, {"x": "a"}, {"x": 1, "y": 2}, {"x": None}, {"x": "1", "y": 2}, {}):
        agree(engines, [ToolCall("n::over", arguments)])
    pinned = registry.snapshot.names["n::over"][1].tool.fingerprint
    agree(engines, [ToolCall("n::over", {"x": "1"}, None, pinned[:8])])
    answers = [entry["tool_output"]["result"] for entry in executions(engines[0])]
    assert answers == ["integer", "text", "two", None, "two", None, "text"]


def test_what_a_tool_keeps_of_its_answer_is_its_own_and_so_is_what_the_caller_gets():
    kept = {"a": 1}

    def answer() -> dict:
        return kept

    engine = PythonToolEngine(registry_of(answer))
    engine.setup("s")
    result = engine.execute("s", [call("answer")])[0].result
    result["a"] = 2
    assert kept == {"a": 1}
    kept["a"] = 3
    assert executions(engine)[0]["tool_output"]["result"] == {"a": 1}


def test_a_tool_that_is_replaced_answers_from_then_on():
    def tool() -> int:
        return 1

    registry = registry_of(tool)
    engine = PythonToolEngine(registry)
    engine.setup("s")
    assert engine.execute("s", [call("tool")])[0].result == 1
    registry.remove("n::tool")
    assert engine.execute("s", [call("tool")])[0].error_info.code == "tool.not_found"

    def other() -> int:
        return 2

    registry.add(function_tool(other, namespace="n", name="tool"))
    assert engine.execute("s", [call("tool")])[0].result == 2


def test_an_engine_with_an_answer_of_its_own_gives_it():
    registry = named()

    class Mine(PythonToolEngine):
        def answer(self, invocation):
            return "mine"

    engine = Mine(registry)
    engine.setup("s")
    assert engine.execute("s", [call("add", x=1)])[0].result == "mine"


def test_names_nobody_has_are_not_remembered():
    engine = PythonToolEngine(named())
    engine.setup("s")
    engine.execute("s", [call(f"gone{number}") for number in range(50)])
    assert not engine._path.plans["execute", engine.tool_registry.snapshot]


def test_many_threads_in_one_session_lose_nothing():
    def add(x: int) -> int:
        return x

    engine = PythonToolEngine(registry_of(add))
    engine.setup("s")

    def work(number):
        rng = random.Random(number)
        for step in range(50):
            calls = [call("add", x=number * 1000 + step)]
            if rng.random() < 0.3:
                engine.simulate("s", calls)
            assert engine.execute("s", calls)[0].result == number * 1000 + step

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    seen = [item["tool_output"]["result"] for item in executions(engine)]
    assert sorted(seen) == sorted(number * 1000 + step for number in range(8) for step in range(50))
    assert [x for x in seen if x < 1000] == list(range(50))


def add(x: int) -> int:
    return x + 1


def half(x: int) -> float:
    return x / 2


def test_a_policy_and_a_tracer_that_would_do_nothing_are_left_out():
    path = engine_of(add, policy=Policy(), tracer=Tracer([]))._path
    assert (path.policy, path.tracer, path.counting) == (None, None, False)
    strict = Policy([Rule("deny", tools="n::half")])
    assert engine_of(add, policy=strict)._path.policy is strict


def test_plans_are_made_once_for_each_mode_and_anew_for_another_snapshot():
    registry = registry_of(add, half)
    engine = PythonToolEngine(registry)
    engine.setup("s")
    engine.execute("s", [call("add", x=1), call("add", "id", x=2)])
    engine.simulate("s", [call("add", x=1)])
    plans, snapshot = engine._path.plans, registry.snapshot
    executed, simulated = plans["execute", snapshot], plans["simulate", snapshot]
    assert [plan.name for plan in executed.values()] == [plan.name for plan in simulated.values()] == ["n::add"]
    assert executed is plans["execute", snapshot] and executed is not simulated
    registry.remove("n::half")
    assert plans["execute", registry.snapshot] is not executed
    assert {kept for _, kept in plans} == {registry.snapshot}, "those of the old snapshot are dropped"


def test_a_path_for_previews_skips_policy_and_tracer_and_shares_the_rest():
    path = engine_of(add, policy=Policy([Rule("ask")]), tracer=Tracer([Deaf()]))._path
    preview = path.past_policy()
    assert (preview.policy, preview.tracer) == (None, None) and path.policy is not None and path.tracer is not None
    assert (preview.registry, preview.sessions, preview.plans) == (path.registry, path.sessions, path.plans)


@pytest.mark.parametrize("stored", [False, True])
def test_approvals_are_opened_once_and_kept_where_the_sessions_are(tmp_path, stored):
    store = SqliteStore(tmp_path / "s.db") if stored else None
    with engine_of(add, sessions=Sessions(store), policy=Policy([Rule("ask")])) as engine:
        (held,) = engine.execute("s", [call("add", x=1)])
        assert held.error_info.code == "tool.held"
        assert engine._path.approvals is engine._path.approvals
        [pending] = engine.approvals.list(state="pending").approvals
        assert pending.tool == "n::add" and engine._path.approvals._records.shared is stored

"""A config made real: registry, engine, sessions, policy and tracing wired together."""

import json
import logging

import pytest

from toolyard import ConfigError, Denied, ToolCall, ToolEngine, Toolyard, register_tool_engine
from toolyard.app import survey

TOOLS = """\
from toolyard import tool, Effects

@tool(effects=Effects.READ)
def add(a: int, b: int) -> int:
    return a + b

@tool(effects=Effects.WRITE)
def pay(amount: int) -> str:
    return "paid"

@tool
def leak() -> str:
    import os
    raise RuntimeError("cannot log in with " + os.environ["YARD_API_KEY"])
"""


@register_tool_engine("test-shout")
class Shout(ToolEngine):
    type_name = "test-shout"

    def __init__(self, registry, *, word="hey", **settings):
        super().__init__(registry, **settings)
        self.word = word

    def answer(self, invocation):
        invocation.state["calls"] = invocation.state.get("calls", 0) + 1
        return f"{self.word} {len(invocation.history())}"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "desk.py").write_text(TOOLS)
    (tmp_path / "words.yaml").write_text("words: [{name: say, effects: write}]")
    return tmp_path


def config(folder, **blocks):
    tools = {
        "registry": [
            {"type": "python", "target": "desk.py", "namespace": "desk"},
            {"type": "file", "path": "words.yaml", "engine": "loud"},
        ],
        "engines": {"loud": {"type": "test-shout", "word": "hello"}},
    }
    path = folder / "yard.json"
    path.write_text(json.dumps({"tools": tools, **blocks}))
    return path


def run(yard, *calls):
    yard.tool_engine.setup("s")
    return yard.tool_engine.execute("s", [ToolCall(name, arguments) for name, arguments in calls])


def test_each_source_is_answered_by_its_engine_and_history_is_shared(folder):
    with Toolyard.from_config(config(folder)) as yard:
        results = run(yard, ("desk::add", {"a": 1, "b": 2}), ("words::say", {}), ("words::say", {}))
        assert [result.result for result in results] == [3, "hello 1", "hello 2"]
        state = yard.tool_engine.get_session_state("s")
        assert state["loud"] == {"calls": 2}
        assert len(state["tool_executions"]) == 3


async def test_the_yard_is_an_async_context_manager_too(folder):
    async with Toolyard.from_config(config(folder)) as yard:
        await yard.tool_engine.asetup("s")
        results = await yard.tool_engine.aexecute("s", [ToolCall("desk::add", {"a": 1, "b": 2})])
        assert results[0].result == 3


def test_without_engines_a_plain_python_engine_answers(folder):
    document = {"tools": [{"type": "python", "target": str(folder / "desk.py"), "namespace": "desk"}]}
    with Toolyard.from_config(document) as yard:
        assert type(yard.tool_engine).__name__ == "PythonToolEngine"
        assert run(yard, ("desk::add", {"a": 1, "b": 2}))[0].result == 3


def test_policy_sessions_and_tracing_of_the_config_are_in_force(folder):
    path = config(
        folder,
        policy={"default": "deny", "rules": [{"allow": "desk::*", "effects": "read"}]},
        sessions={"store": "sqlite", "path": "sessions.db"},
        tracing={"jsonl": {"path": "calls.jsonl"}},
    )
    with Toolyard.from_config(path) as yard:
        results = run(yard, ("desk::add", {"a": 1, "b": 2}), ("desk::pay", {"amount": 5}))
        assert results[0].result == 3
        assert results[1].error_info.code == Denied.code
    with Toolyard.from_config(path) as yard:
        assert len(yard.tool_engine.get_session_state("s")["tool_executions"]) == 2
    events = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
    assert [(event["name"], event.get("code")) for event in events] == [
        ("desk::add", None),
        ("desk::pay", "tool.denied"),
    ]
    assert "arguments" not in events[0]


def test_a_secret_of_the_config_reaches_neither_result_nor_history_nor_trace(folder, monkeypatch, caplog):
    monkeypatch.setenv("YARD_API_KEY", "opensesame-4711")
    path = config(
        folder,
        tracing={"jsonl": {"path": "calls.jsonl"}, "logging": True, "arguments": True, "results": True},
        server={"allowed_hosts": ["${YARD_API_KEY}"]},
    )
    with caplog.at_level(logging.INFO), Toolyard.from_config(path) as yard:
        result = run(yard, ("desk::leak", {}))[0]
        state = yard.tool_engine.get_session_state("s")
    everything = repr(result) + repr(state) + (folder / "calls.jsonl").read_text() + caplog.text + repr(yard)
    assert "desk::leak failed" in everything
    assert "opensesame" not in everything


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ({"type": "test-shout", "wrd": "x"}, "tools.engines.loud: .*no option 'wrd'; did you mean 'word'"),
        ({"type": "test-shout", "timeot": 3}, "no option 'timeot'; did you mean 'timeout'"),
        ({"type": "test-shuot"}, "did you mean 'test-shout'"),
        ({"type": "test-shout", "timeout": -1}, "timeout: must be above 0, not -1"),
        (
            {"type": "test-shout", "output_check": "hard"},
            "output_check: no such choice 'hard'; write one of off, warn, strict",
        ),
        ({"type": "test-shout", "sessions": {}}, "'sessions' cannot be set here"),
    ],
)
def test_a_wrong_engine_is_refused_with_its_place_and_the_nearest_word(folder, engine, says):
    path = config(folder)
    document = json.loads(path.read_text())
    document["tools"]["engines"]["loud"] = engine
    path.write_text(json.dumps(document))
    for read in (Toolyard.from_config, survey):
        with pytest.raises(ConfigError, match=says):
            read(path)


@pytest.mark.parametrize(
    ("blocks", "says"),
    [
        ({"policy": {"defalt": "deny"}}, r"yard\.json: policy: unknown key 'defalt'; did you mean 'default'"),
        ({"tracing": {"jsonl": {}}}, r"yard\.json: tracing\.jsonl: needs 'path': the file to append to"),
        ({"sessions": {"store": "sqlite", "ttl": "long"}}, r"yard\.json: sessions\.ttl"),
    ],
)
def test_check_covers_the_whole_config_and_opens_nothing(folder, blocks, says):
    path = config(folder, **blocks)
    before = sorted(folder.iterdir())
    with pytest.raises(ConfigError, match=says):
        survey(path)
    assert sorted(folder.iterdir()) == before


def test_check_of_a_good_config_creates_no_files(folder):
    path = config(folder, sessions={"store": "sqlite"}, tracing={"jsonl": {"path": "calls.jsonl"}})
    before = {item for item in folder.rglob("*") if "__pycache__" not in str(item)}
    registry, report = survey(path)
    assert report.ok and len(registry) == 4
    assert {item for item in folder.rglob("*") if "__pycache__" not in str(item)} == before


def test_an_engine_that_no_source_uses_is_said_to_be_so(folder, caplog):
    path = config(folder)
    document = json.loads(path.read_text())
    document["tools"]["engines"]["idle"] = {"type": "python"}
    path.write_text(json.dumps(document))
    Toolyard.from_config(path).close()
    assert "tools.engines.idle is defined, but no source has it" in caplog.text


def test_one_file_listed_with_two_engines_is_refused(folder):
    path = config(folder)
    document = json.loads(path.read_text())
    document["tools"]["registry"].append({"type": "file", "path": "words.yaml", "namespace": "other"})
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="listed twice"):
        Toolyard.from_config(path)


def test_if_a_late_part_fails_the_early_ones_are_closed_again(folder):
    path = config(folder, sessions={"store": "sqlite", "path": "desk.py"})
    with pytest.raises(Exception, match=r"desk\.py"):
        Toolyard.from_config(path)


def test_an_approver_decides_on_what_the_policy_asks_about(folder):
    path = config(folder, policy={"rules": [{"ask": "desk::pay"}]})
    asked = []

    def approver(ask):
        asked.append((ask.tool.name, ask.arguments))
        return ask.arguments["amount"] < 10

    with Toolyard.from_config(path, approver=approver) as yard:
        results = run(yard, ("desk::pay", {"amount": 5}), ("desk::pay", {"amount": 50}))
    assert [result.result for result in results] == ["paid", None]
    assert len(asked) == 2


def test_a_misspelt_engine_of_a_source_is_told_what_was_meant(folder):
    path = config(folder)
    document = json.loads(path.read_text())
    document["tools"]["registry"][1] = {"type": "file", "path": "words.yaml", "engin": "loud"}
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=r"tools\.registry\[1\]: .*'engin'; did you mean 'engine'\?"):
        Toolyard.from_config(path)


def test_a_misspelt_key_of_the_server_block_is_told_what_was_meant(folder):
    with pytest.raises(ConfigError, match=r"server: unknown key 'prt'; did you mean 'port'\?"):
        Toolyard.from_config(config(folder, server={"prt": 3}))


def test_an_option_given_as_a_variable_reaches_the_engine_as_a_number(folder):
    document = {
        "tools": {
            "registry": [{"type": "file", "path": str(folder / "words.yaml"), "engine": "loud"}],
            "engines": {"loud": {"type": "test-shout", "word": "${N}", "timeout": "${N}", "retries": 2.0}},
        }
    }
    with Toolyard.from_config(document, env={"N": "3"}) as yard:
        (loud,) = yard.tool_engine.sources.values()
        assert (loud.settings.timeout, loud.settings.retries, loud.word) == (3, 2, "3")
        assert type(loud.settings.retries) is int and type(loud.word) is str


def test_an_approver_cannot_change_what_runs(folder):
    def approver(ask):
        ask.arguments["a"] = 1_000_000
        return True

    path = config(folder, policy={"rules": [{"ask": "desk::add"}]})
    with Toolyard.from_config(path, approver=approver) as yard:
        assert run(yard, ("desk::add", {"a": 1, "b": 2}))[0].result == 3


BOOK = {"name": "create_book", "parameters": {"type": "object", "properties": {"title": {"type": "string"}}}}


@pytest.mark.parametrize("way", ["execute", "simulate"])
def test_what_nothing_is_behind_says_that_its_results_are_made_up(tmp_path, way):
    (tmp_path / "books.json").write_text(json.dumps([BOOK]))
    (tmp_path / "tools.py").write_text(TOOLS)
    sources = [{"type": "file", "path": "books.json"}, {"type": "python", "target": "tools.py"}]
    (tmp_path / "yard.json").write_text(json.dumps({"tools": {"registry": sources}}))
    with Toolyard.from_config(tmp_path / "yard.json") as yard:
        yard.tool_engine.setup("s")
        calls = [ToolCall("default::create_book", {"title": "Z"}), ToolCall("default::add", {"a": 1, "b": 2})]
        book, added = getattr(yard.tool_engine, way)("s", calls)
    assert (book.result["title"], book.metadata) == ("Z", {"simulated_by": "schema simulator"})
    assert (added.result, added.metadata) == (3, {})


def test_results_of_an_engine_that_was_chosen_to_make_them_up_need_not_say_so(tmp_path):
    (tmp_path / "books.json").write_text(json.dumps([BOOK]))
    sources = [{"type": "file", "path": "books.json", "engine": "pretend"}]
    config = {"tools": {"registry": sources, "engines": {"pretend": {"type": "lm"}}}}
    (tmp_path / "yard.json").write_text(json.dumps(config))
    with Toolyard.from_config(tmp_path / "yard.json") as yard:
        yard.tool_engine.setup("s")
        [book] = yard.tool_engine.execute("s", [ToolCall("default::create_book", {"title": "Z"})])
    assert (book.result["title"], book.metadata) == ("Z", {})


def test_a_model_is_offered_all_but_what_the_policy_denies_whatever_the_arguments():
    tools = {"type": "inline", "namespace": "n", "tools": [{"name": name} for name in "abcd"]}
    rules = [{"deny": "n::a"}, {"ask": "n::b"}, {"deny": "n::c", "keys": ["guest"]}]
    with Toolyard.from_config({"tools": [tools], "policy": {"rules": rules}}) as yard:
        assert [tool.name for tool in yard.offered_tools()] == ["b", "c", "d"]
    with Toolyard.from_config({"tools": [tools]}) as yard:
        assert yard.offered_tools() == yard.tool_registry.all_tools()

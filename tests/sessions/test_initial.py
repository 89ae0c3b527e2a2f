"""`initial_state`: what `get_session_state` gave, and errors that say what is wrong where."""

import pytest

from toolyard.model.errors import SessionError
from toolyard.sessions.history import read_entry
from toolyard.sessions.state import read_initial

CALL = {"name": "n::a", "arguments": {"x": 1}, "call_id": None}
OUTPUT = {"call_id": None, "name": "n::a", "result": 1, "error": None, "metadata": {}}


def test_entries_and_engine_state_are_read():
    entries, changes = read_initial(
        {"tool_executions": [{"tool_call": CALL, "tool_output": OUTPUT}], "lm": {"a": [1], "b": None}, "other": {}}
    )
    assert [read_entry(entry).tool_call.to_dict() for entry in entries] == [CALL]
    assert [read_entry(entry).tool_output.to_dict() for entry in entries] == [OUTPUT]
    assert changes == {("lm", "a"): b"[1]", ("lm", "b"): b"null"}


def test_nothing_is_fine():
    assert read_initial({}) == ((), {})


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ([], "must be an object as get_session_state gives it, not array"),
        ("x", "must be an object"),
        ({"tool_executions": {}}, "initial_state['tool_executions'] must be an array, not object"),
        ({"tool_executions": None}, "must be an array, not null"),
        ({"tool_executions": [1]}, "initial_state['tool_executions'][0] must have the keys"),
        ({"tool_executions": [{"tool_call": CALL}]}, "must have the keys 'tool_call' and 'tool_output'"),
        (
            {"tool_executions": [{"tool_call": CALL, "tool_output": OUTPUT}, {"tool_call": {}, "tool_output": OUTPUT}]},
            "initial_state['tool_executions'][1]: not a ToolCall",
        ),
        ({"tool_executions": [{"tool_call": {**CALL, "x": 1}, "tool_output": OUTPUT}]}, "has no field 'x'"),
        ({"tool_executions": [{"tool_call": 5, "tool_output": OUTPUT}]}, "initial_state['tool_executions'][0]"),
        ({"tool_executions": [{"tool_call": CALL, "tool_output": None}]}, "initial_state['tool_executions'][0]"),
        (
            {"tool_executions": [{"tool_call": CALL, "tool_output": {**OUTPUT, "result": float("nan")}}]},
            "initial_state['tool_executions'][0]['tool_output'] is not JSON",
        ),
        ({"lm": [1]}, "initial_state['lm'] must map names to values, not array"),
        ({"lm": {1: 2}}, "initial_state['lm'] has a name that is not text"),
        ({"lm": {"a": object()}}, "initial_state['lm']['a'] is not JSON"),
        ({"lm": {"a": float("nan")}}, "initial_state['lm']['a'] is not JSON"),
        ({5: {"a": 1}}, "initial_state has the key 5"),
        ({"": {"a": 1}}, "initial_state has the key ''"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(state, said):
    with pytest.raises(SessionError) as caught:
        read_initial(state)
    assert said in str(caught.value)

"""`toolyard init`: what it makes runs at once, without a network."""

import json
from pathlib import Path

import pytest

from toolyard import ToolCall, Toolyard
from toolyard.cli.main import run


@pytest.mark.process
def test_the_yard_has_a_function_an_api_and_a_server_that_all_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "my yard"]) == 0
    assert "toolyard open my yard/toolyard.yaml" in capsys.readouterr().out
    assert run(["check", "my yard/toolyard.yaml"]) == 0
    with Toolyard.from_config("my yard/toolyard.yaml") as yard:
        yard.tool_engine.setup("s")
        made = [
            ToolCall("desk::split_bill", {"total": 90}),
            ToolCall("orders::createOrder", {"item": "tea"}),
            ToolCall("notes::add_note", {"text": "buy tea"}),
        ]
        bill, order, notes = yard.tool_engine.execute("s", made)
        assert (bill.result, order.result["item"], notes.result) == ([45.0, 45.0], "tea", ["buy tea"])
        found = yard.tool_engine.execute("s", [ToolCall("orders::getOrder", {"id": order.result["id"]})])[0]
        assert found.result == order.result


def test_files_that_are_there_are_not_touched(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("notes.py").write_text("mine")
    assert run(["init"]) == 2
    assert "has notes.py already; nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.py"] and Path("notes.py").read_text() == "mine"
    assert run(["init", "other", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["toolyard.yaml", "desk.py", "notes.py", "orders.yaml"]

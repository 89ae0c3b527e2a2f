"""Tests that every adapter must pass."""

import json
import os
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import pytest

from toolyard import ToolCall, ToolResult
from toolyard.adapters.bridge import failure_text
from toolyard.model.call import blocks_of

from .model_server import ModelServer
from .yard import CASES, HELD, Case, answer_of, make_engine

RESULTS = os.environ.get("TOOLYARD_FRAMEWORK_RESULTS")
"""Folder for the results that `table.py` shows."""


class AdapterSuite(ABC):
    """Base class of adapter tests; a subclass implements `drive` for its framework."""

    name: ClassVar[str]
    holds_calls: ClassVar[bool] = True
    """False for a framework that asks its user before it makes a call: the call is held, and approved on resuming."""

    declines: ClassVar[dict[str, str]] = {}
    """Cases whose result the framework does not pass on to the model, with its text instead."""

    @abstractmethod
    async def drive(self, engine: Any, url: str, decision: bool | None = None) -> str | None:
        """Run an agent to its end; returns the id of the approval that paused it, if any.

        With a decision, the paused run is resumed; without one, it is abandoned.
        """

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
    async def test_the_model_reads_what_the_engine_answers(self, case: Case) -> None:
        expected = answer_of(case)
        with ModelServer(case.call) as model:
            paused = await self.drive(make_engine(), model.url, True if case is HELD else None)
            said = model.read(case.call.call_id)
            whole = model.last_request
        assert said is not None
        if case is HELD:
            assert expected.error_info.code == "tool.held" and paused is not None
            assert value_in(said) == "refunded"
        elif expected.is_error:
            error = error_in(said)
            assert error == json.loads(failure_text(expected))
            assert error["error"]["effect"] == expected.error_info.effect
        elif case.id in self.declines:
            assert self.declines[case.id] in said
        elif blocks_of(expected) is not None:
            assert_blocks(case, whole)
        else:
            assert expected.result in (said, value_in(said), unwrapped(said))
        self._note(case.id, expected)

    async def test_names_and_schemas_are_what_providers_accept(self) -> None:
        with ModelServer(CASES[0].call) as model:
            await self.drive(make_engine(), model.url)
            offered = model.offered
        assert len({entry["name"] for entry in offered}) == len(CASES)
        for entry in offered:
            assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", entry["name"])
            assert entry["parameters"]["type"] == "object"
            assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", key) for key in entry["parameters"].get("properties", {}))

    async def test_a_held_call_pauses_the_run_and_nothing_runs_until_it_is_approved(self) -> None:
        engine = make_engine()
        with ModelServer(HELD.call) as model:
            paused = await self.drive(engine, model.url)
            assert model.read(HELD.call.call_id) is None
        found = [(held.id, held.state, held.call_id) for held in engine.approvals.list().approvals]
        assert found == ([(paused, "pending", HELD.call.call_id)] if self.holds_calls else [])
        assert [entry for entries in engine.histories() for entry in entries] == []

    async def test_an_approved_call_runs_once_under_the_approval_that_paused_it(self) -> None:
        engine = make_engine()
        with ModelServer(HELD.call) as model:
            paused = await self.drive(engine, model.url, True)
        [approval] = engine.approvals.list().approvals
        assert (approval.id, approval.state) == (paused, "used")
        assert engine.histories() == [[(HELD.call.call_id, "refunded")]]

    async def test_a_refused_call_never_runs_and_the_model_is_told(self) -> None:
        engine = make_engine()
        with ModelServer(HELD.call) as model:
            await self.drive(engine, model.url, False)
            said = model.read(HELD.call.call_id)
        assert said is not None and "refunded" not in said
        assert "refunded" not in str(engine.histories())

    async def test_a_run_is_a_session_and_call_ids_pass_through(self) -> None:
        engine = make_engine()
        calls = [CASES[0].call, ToolCall(CASES[3].call.name, {}, "call_other")]
        for _ in range(2):
            with ModelServer(*calls) as model:
                await self.drive(engine, model.url)
        found = [[call_id for call_id, _ in entries] for entries in engine.histories()]
        assert found == [["call_0", "call_other"]] * 2

    def _note(self, case: str, expected: ToolResult) -> None:
        if RESULTS:
            info = expected.error_info
            mark = "told that not" if case in self.declines else "equal"
            row = {"case": case, "answer": "value" if info is None else info.code, "mark": mark}
            with Path(RESULTS, f"{self.name}.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")


def value_in(said: str) -> Any:
    """The JSON value of a tool message, or its text; null if empty."""
    try:
        return json.loads(said) if said else None
    except ValueError:
        return said


def unwrapped(said: str) -> Any:
    """The value in `{"result": ...}`, if a framework or the adapter wrapped it."""
    value = value_in(said)
    return value["result"] if isinstance(value, dict) and value.keys() == {"result"} else said


def error_in(said: str) -> Any:
    """The error in a tool message, without the text that the framework added."""
    found = json.JSONDecoder().raw_decode(said[said.index("{") :])[0]
    return found if isinstance(found["error"], dict) else error_in(found["error"])


def assert_blocks(case: Case, whole: str) -> None:
    """Check that text, images, audio and links arrive unchanged, wherever the framework puts them."""
    blocks = blocks_of(answer_of(case))
    assert blocks
    for block in blocks:
        assert (block.get("text") or block.get("data") or block["uri"]) in whole

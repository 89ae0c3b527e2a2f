"""Programs of everything one can do with sessions, beside a model made of dicts and lists."""

import asyncio
import os
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conftest import examples
from engines.yard_model import KEYS, Model, Yard, outcome, shown
from toolyard import SessionError, ToolCall
from toolyard.sessions.store.sqlite import SqliteStore

NAMES = ["one", "two", "three", "four"]

names = st.sampled_from(NAMES)
keys = st.sampled_from(KEYS)
ids = st.none() | st.sampled_from(["c1", "c2"])
calls = st.one_of(
    st.builds(ToolCall, st.just("py::say"), st.fixed_dictionaries({"text": st.text(max_size=3)}), ids),
    st.builds(ToolCall, st.just("py::say"), st.just({"wrong": 1})),
    st.builds(ToolCall, st.just("py::extra"), st.just({})),
    st.builds(
        ToolCall,
        st.sampled_from(["count::add", "count::push", "count::drop", "count::fail"]),
        st.fixed_dictionaries({"key": keys}),
        ids,
    ),
    st.builds(ToolCall, st.just("py::nobody"), st.just({"x": 1}), ids),
)
batches = st.lists(calls, min_size=1, max_size=4)


class Programs(RuleBasedStateMachine):
    """In memory; what only a store can do is in the subclass."""

    agreed = 0
    """Programs that ended in agreement with the model."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.yard = None

    def open_yard(self):
        return Yard()

    @initialize()
    def begin(self):
        self.yard = self.open_yard()
        self.touched = set()

    def there(self, name):
        self.touched.add(name)
        return name in self.model.sessions

    @rule(name=names, how=st.sampled_from(["sync", "async"]))
    def setup(self, name, how):
        multi = self.yard.multi
        if self.there(name):
            with pytest.raises(ValueError):
                multi.setup(name) if how == "sync" else self.loop.run_until_complete(multi.asetup(name))
        else:
            multi.setup(name) if how == "sync" else self.loop.run_until_complete(multi.asetup(name))
            self.model.setup(name)

    @rule(new=names, old=names, how=st.sampled_from(["fork", "copy"]))
    def branch(self, new, old, how):
        multi = self.yard.multi
        if not self.there(old):
            with pytest.raises(KeyError):
                multi.setup(f"{new} of nothing", fork_of=old)
        elif self.there(new):
            with pytest.raises(ValueError):
                multi.setup(new, fork_of=old)
        else:
            begin = {"fork_of": old} if how == "fork" else {"initial_state": multi.get_session_state(old)}
            multi.setup(new, **begin)
            self.model.setup(new, like=old)
            assert multi.state_hash(new) == multi.state_hash(old)

    @rule(name=names, batch=batches, how=st.sampled_from(["multi", "quick", "async"]))
    def execute(self, name, batch, how):
        yard = self.yard
        if how == "quick" and any(call.name.startswith("count") for call in batch):
            how = "multi"
        if not self.there(name):
            with pytest.raises(KeyError):
                yard.multi.execute(name, batch)
            return
        if how == "async":
            results = self.loop.run_until_complete(yard.multi.aexecute(name, batch))
        else:
            results = (yard.multi if how == "multi" else yard.quick).execute(name, batch)
        assert [outcome(result) for result in results] == self.model.run(name, batch)

    @rule(name=names, batch=batches, how=st.sampled_from(["sync", "async"]))
    def simulate(self, name, batch, how):
        multi = self.yard.multi
        if not self.there(name):
            with pytest.raises(KeyError):
                multi.simulate(name, batch)
            return
        before = multi.state_hash(name), multi.get_session_state(name)
        if how == "async":
            results = self.loop.run_until_complete(multi.asimulate(name, batch))
        else:
            results = multi.simulate(name, batch)
        assert (multi.state_hash(name), multi.get_session_state(name)) == before
        assert [outcome(result) for result in results] == self.model.simulate(name, batch)

    @rule(name=names)
    def teardown_session(self, name):
        self.there(name)
        self.yard.multi.teardown(name)
        self.model.sessions.pop(name, None)

    @rule(with_extra=st.booleans())
    def refresh(self, with_extra):
        loader, model = self.yard.loader, self.model
        model.version, model.with_extra = model.version + 1, with_extra
        loader.version, loader.with_extra = model.version, model.with_extra
        self.yard.registry.refresh(strict=True)

    @precondition(lambda self: self.model.sessions)
    @rule(data=st.data(), first=calls, slow=st.sampled_from(["py::blocked", "py::waiting"]), last=calls)
    def cancel(self, data, first, slow, last):
        """A batch cancelled in its second call: the first stays, the second is in doubt, the third never was."""
        name = data.draw(st.sampled_from(sorted(self.model.sessions)))
        self.touched.add(name)
        stuck, call = self.yard.stuck, ToolCall(slow, {"text": "x"})
        stuck.inside.clear(), stuck.let_go.clear()

        async def cancelled():
            task = asyncio.ensure_future(self.yard.multi.aexecute(name, [first, call, last]))
            while not stuck.inside.is_set():  # noqa: ASYNC110 - a thread may set it
                await asyncio.sleep(0.0005)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            stuck.let_go.set()

        self.loop.run_until_complete(cancelled())
        self.model.run(name, [first])
        self.model.interrupt(name, call)

    @invariant()
    def agrees(self):
        """Of what the last step touched; all of it in the end."""
        if self.yard is not None:
            for name in self.touched:
                assert shown(self.yard.multi.get_session_state(name)) == self.model.shown(name)
            self.touched.clear()

    def teardown(self):
        if self.yard is not None:
            self.touched.update(NAMES)
            self.agrees()
            self.hashes_tell_sessions_apart()
            self.yard.close()
            type(self).agreed += 1
        self.loop.close()

    def hashes_tell_sessions_apart(self):
        hashes = {name: self.yard.multi.state_hash(name) for name in self.model.sessions}
        for one in hashes:
            for other in hashes:
                assert (hashes[one] == hashes[other]) == (self.model.shown(one) == self.model.shown(other))


class DurablePrograms(Programs):
    """On a file, where a process can die and another go on."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="yard"))
        self.dead = []

    def open_yard(self):
        yard = Yard(SqliteStore(self.folder / "sessions.db"))
        yard.loader.version, yard.loader.with_extra = self.model.version, self.model.with_extra
        yard.registry.refresh(strict=True)
        return yard

    def crash(self):
        """What the kernel does when a process dies: its locks are gone, its memory is never looked at again."""
        locks = self.yard.sessions.store._locks
        if locks._fd is not None:
            os.close(locks._fd)
            locks._fd = None
        locks._held = {}
        self.dead.append(self.yard)
        self.yard = self.open_yard()
        self.touched.update(NAMES)

    @rule()
    def crash_and_reopen(self):
        self.crash()

    @precondition(lambda self: self.model.sessions)
    @rule(data=st.data(), first=calls)
    def crash_during_a_call(self, data, first):
        """The call is in doubt for whoever comes next; the dead man's late answer changes nothing."""
        name = data.draw(st.sampled_from(sorted(self.model.sessions)))
        dying, call = self.yard, ToolCall("py::blocked", {"text": "x"})
        dying.stuck.inside.clear(), dying.stuck.let_go.clear()
        told = []

        def die():
            try:
                told.append(dying.multi.execute(name, [first, call]))
            except SessionError as error:
                told.append(error)

        thread = threading.Thread(target=die)
        thread.start()
        dying.stuck.inside.wait()
        self.crash()
        self.model.run(name, [first])
        self.model.interrupt(name, call)
        assert shown(self.yard.multi.get_session_state(name)) == self.model.shown(name)
        dying.stuck.let_go.set()
        thread.join()
        assert isinstance(told[0], SessionError), told

    def teardown(self):
        try:
            super().teardown()
        finally:
            for yard in self.dead:
                yard.close()
            shutil.rmtree(self.folder)


def test_any_program_in_memory_agrees_with_the_model_and_simulating_changes_nothing():
    run_state_machine_as_test(Programs, settings=settings(max_examples=examples(100), stateful_step_count=30))
    assert Programs.agreed >= examples(100)


def test_any_program_on_a_file_agrees_with_the_model_across_crashes():
    run_state_machine_as_test(DurablePrograms, settings=settings(max_examples=examples(60), stateful_step_count=30))
    assert DurablePrograms.agreed >= examples(60)

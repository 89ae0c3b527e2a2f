"""Random programs of requests, retries, failures and deaths on two servers: each key is carried out once."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from waiting import SOON

from conftest import examples
from toolyard.serving import idempotency as once_module
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.idempotency import Idempotency, KeyedRequest
from toolyard.serving.stored_answers import StoredAnswer
from toolyard.sessions.records import open_records
from toolyard.sessions.store.sqlite import SqliteStore

BUSY = HttpFault(429, "x.busy", "nothing ran", retryable=True)
INTERRUPTED = StoredAnswer(status=500, body=b"interrupted")


class Run:
    """One time that a request was carried out, or is being."""

    def __init__(self, server, key, number):
        self.server = server
        self.key = key
        self.number = number
        self.end = asyncio.get_running_loop().create_future()
        self.dead = False


class Server:
    def __init__(self, path):
        self.store = None if path is None else SqliteStore(path)
        self.once = Idempotency(open_records(self.store))
        self.asked = []


class Machine(RuleBasedStateMachine):
    """Keys that begin with `r` may be repeated, the others not."""

    servers = st.integers(0, 1)
    keys = st.sampled_from(["w1", "w2", "r1"])

    @initialize(memory=st.booleans())
    def begin(self, memory):
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.path = None if memory else Path(self.folder.name) / "s.db"
        self.runner.run(self._begin(memory))

    async def _begin(self, memory):
        once_module._PROBE_SECONDS = 0.0
        self.live = [Server(self.path) for _ in range(1 if memory else 2)]
        self.dead = []
        self.runs = []
        self.over = {}
        """What a key's answer must be from now on."""
        self.digests = {}
        self.asked = {}
        """Every digest that a key was ever asked for with."""

    @rule(server=servers, key=keys, digest=st.sampled_from([b"d", b"d", b"d", b"e"]))
    def ask(self, server, key, digest):
        self.runner.run(self._ask(self.live[server % len(self.live)], key, digest))

    async def _ask(self, server, key, digest):
        async def make():
            run = Run(server, key, len(self.runs))
            unfinished = [other for other in self.runs if other.key == key and not other.end.done() and not other.dead]
            assert not unfinished, "two at once"
            if key.startswith("w"):
                assert key not in self.over, "it ran, and runs again"
            self.runs.append(run)
            self.digests[key] = digest
            outcome = await run.end
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        self.asked.setdefault(key, set()).add(digest)
        options = {"owner": "ann", "key": key, "digest": digest, "repeatable": key.startswith("r")}
        asking = server.once.answer(KeyedRequest(**options, make=make, interrupted=lambda: INTERRUPTED))
        server.asked.append((key, digest, asyncio.create_task(asking)))
        await self._quiet()

    # Which runs and requests there are depends on who was quicker, so that they are picked by number.
    @rule(pick=st.integers(0, 20), how=st.sampled_from(["answer", "answer", "fault", "bug"]))
    def finish(self, pick, how):
        going_on = [run for run in self.runs if not run.end.done() and not run.dead]
        if going_on:
            self.runner.run(self._finish(going_on[pick % len(going_on)], how))

    async def _finish(self, run, how):
        outcome = {
            "answer": StoredAnswer(status=200, body=b"%d" % run.number),
            "fault": BUSY,
            "bug": ValueError("a bug"),
        }[how]
        if how == "answer":
            self.over[run.key] = outcome.body
        elif how == "bug" and run.key.startswith("w"):
            self.over[run.key] = INTERRUPTED.body
        run.end.set_result(outcome)
        await self._quiet()

    @rule(pick=st.integers(0, 20))
    def give_up(self, pick):
        asked = [ask for server in self.live for ask in server.asked]
        if asked:
            self.runner.run(self._give_up(asked[pick % len(asked)][2]))

    async def _give_up(self, task):
        task.cancel()
        await self._quiet()

    @rule(server=servers)
    def kill(self, server):
        if self.path is not None:
            self.runner.run(self._kill(server))

    async def _kill(self, number):
        server = self.live[number]
        server.store.close()
        self.dead.append(server)
        self.live[number] = Server(self.path)
        for run in self.runs:
            if run.server is server and not run.end.done():
                run.dead = True
                if run.key.startswith("w"):
                    self.over[run.key] = INTERRUPTED.body
        await self._quiet()

    async def _quiet(self):
        """Until every request is answered, or waits for a run that goes on."""
        limit = asyncio.get_running_loop().time() + SOON
        while True:
            await asyncio.sleep(0.001)
            waiting = False
            for server in self.live:
                for ask in list(server.asked):
                    if ask[2].done():
                        server.asked.remove(ask)
                        self._check(*ask)
                    elif not self._goes_on(ask[0]):
                        waiting = True
            if not waiting and not any(self._stray(server) for server in self.live):
                return
            assert asyncio.get_running_loop().time() < limit, "somebody waits for nothing"

    def _goes_on(self, key):
        return any(run.key == key and not run.end.done() and not run.dead for run in self.runs)

    def _stray(self, server):
        """Work under way that no run explains: it is about to become one, or to end."""
        return any(not self._goes_on(name) for _, name in server.once._running)

    def _check(self, key, digest, task):
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, HttpFault) and error.code == "request.conflict":
            # Of the request that had the key then; one that found everybody busy may have given it up since.
            assert self.asked[key] - {digest}, "nobody else asked for anything under this key"
        elif error is not None:
            assert error is BUSY or isinstance(error, ValueError)
        else:
            assert digest == self.digests[key]
            assert task.result().body == self.over[key], "not the answer that was given first"

    def teardown(self):
        if hasattr(self, "runner"):
            self.runner.run(self._teardown())
            self.runner.close()
            self.folder.cleanup()

    async def _teardown(self):
        for server in (*self.live, *self.dead):
            await server.once.close()
            tasks = [task for _, _, task in server.asked]
            await asyncio.gather(*tasks, return_exceptions=True)
            if server.store is not None:
                server.store.close()


TestOnce = Machine.TestCase
TestOnce.settings = settings(max_examples=examples(60), stateful_step_count=25)

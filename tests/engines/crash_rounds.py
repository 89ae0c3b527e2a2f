"""Rounds of killing `crash_worker.py`, and checks of the store after each."""

import subprocess
import time
from collections import defaultdict
from pathlib import Path

from warm_python import warm_toolyard

from engines.crash_worker import open_store, registry
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolCall
from toolyard.sessions.sessions import Sessions

WORKER = Path(__file__).with_name("crash_worker.py")
SESSIONS_LIVE = 5
"""Rounds after which new sessions are used, so that the checks do not become slower."""


class Said:
    """What workers reported before they were killed."""

    def __init__(self):
        self.done = defaultdict(list)
        self.begun = set()
        self.forks = {}
        self.ended = False

    def hear(self, text):
        for line in text.splitlines():
            kind, *words = line.split()
            if kind == "done":
                self.done[words[0], words[1]].append(int(words[2]))
            elif kind == "begun":
                self.begun.add((words[0], int(words[1])))
            elif kind == "fork":
                name, parent, who, n = words
                self.forks[name] = (parent, who, int(n))


class Rounds:
    """Kills one worker after another on the same place; `summary` has the counts."""

    def __init__(self, kind, address, schema, folder, rng):
        self.place = (kind, str(address), schema)
        self.folder = Path(folder)
        self.rng = rng
        self.said = Said()
        self.sessions = []
        self.summary = {"rounds": 0, "acknowledged": 0, "unknown": 0, "unacknowledged": 0, "forks": 0}

    def run(self):
        """One round: start, kill, check. Raises `AssertionError` at the first loss."""
        number = self.summary["rounds"]
        first = number % SESSIONS_LIVE == 0
        if first:
            self.said = Said()
            self.sessions = [f"s{number}.{index}" for index in range(3)]
        before = sum(map(len, self.said.done.values()))
        self.said.hear(self._killed(number, "FIRST" if first else "AGAIN"))
        acknowledged = sum(map(len, self.said.done.values())) - before
        self._look(number)
        self.summary["rounds"] += 1
        self.summary["acknowledged"] += acknowledged

    def _killed(self, number, again):
        said = self.folder / f"said{number}.txt"
        with said.open("wb") as out:
            words = [WORKER, *self.place, number, again, *self.sessions]
            worker = warm_toolyard().start(words, stdout=out, stderr=subprocess.PIPE)
            try:
                # After some calls, not after some time, in which a busy machine may do no work.
                wanted = self.rng.randrange(60)
                while b"ready" not in (told := said.read_bytes()) or told.count(b"done ") < wanted:
                    assert worker.poll() is None, worker.stderr.read().decode()
                    time.sleep(0.01)
                time.sleep(self.rng.uniform(0, 0.05))
                assert worker.poll() is None, worker.stderr.read().decode()
            finally:
                worker.kill()
                complaints = worker.communicate()[1].decode()
        assert not complaints, complaints
        return said.read_text()

    def _look(self, number):
        engine = PythonToolEngine(registry(), sessions=Sessions(open_store(*self.place)))
        try:
            # Continue first, which settles the entries that the killed worker left open.
            names = [*self.sessions, *self.said.forks]
            stored = {info.session_id for info in engine.sessions.store.sessions()}
            assert stored >= set(names), "a session or fork that was acknowledged is gone"
            for name in names:
                result = engine.execute(name, [ToolCall("crash::read", {"who": "after", "n": number})])[0]
                assert result.result == number, result
            histories = {name: read_history(engine, name) for name in stored}
            self._check_entries(histories)
            self._check_effects(histories)
            self._check_forks(histories)
        finally:
            engine.close()

    def _check_entries(self, histories):
        for (session, who), numbers in self.said.done.items():
            found = [n for by, n, error in histories[session] if by == who and error is None]
            assert found[: len(numbers)] == numbers, f"lost in {session}: {who}"
            # A batch of two may be recorded but not yet reported.
            assert len(found) <= len(numbers) + 2, f"more in {session} than {who} could have sent"
            self.summary["unacknowledged"] += len(found) - len(numbers)

    def _check_effects(self, histories):
        answered = {(who, n) for history in histories.values() for who, n, _ in history}
        silent = self.said.begun - answered
        assert not silent, f"begun, and the history is silent: {sorted(silent)}"
        for session in self.sessions:
            unknown = [(who, n) for who, n, error in histories[session] if error is not None]
            per_round = [who.split("t")[0].split("f")[0] for who, _ in unknown]
            assert len(per_round) == len(set(per_round)), f"two calls were inside {session} at once: {unknown}"
            self.summary["unknown"] += len(unknown)

    def _check_forks(self, histories):
        for name, (parent, who, n) in self.said.forks.items():
            own, inherited = histories[name], histories[parent]
            # The fork also has the calls that the parent's worker had reported when it was forked.
            assert (who, n, None) in own, f"{name} lacks what {who} had done"
            shared = 0
            while shared < min(len(own), len(inherited)) and own[shared] == inherited[shared]:
                shared += 1
            rest = own[shared:]
            mine = name.split("/")[1]
            assert all(by in (mine, "after") for by, _, _ in rest), f"{name} does not begin like {parent}: {rest[:3]}"
            self.summary["forks"] += 1


def read_history(engine, name):
    """(who, n, error) of every entry; an error must be one left by a crash."""
    entries = []
    for entry in engine.get_session_state(name)["tool_executions"]:
        call, output = entry["tool_call"], entry["tool_output"]
        info = output.get("error_info")
        if info is not None:
            assert (info["code"], info["effect"]) == ("tool.interrupted", "unknown"), info
            assert call["name"] == "crash::write", call
        entries.append((call["arguments"]["who"], call["arguments"]["n"], info and info["code"]))
    return entries

"""Clients that write through several servers while some are killed, and checks of the result."""

import http.client
import itertools
import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from waiting import SOON, until

from serving.process_support import Served, started

TOOLS = """
import os
import time
from pathlib import Path

from toolyard import Effects, tool

NOTES = Path(__file__).with_name("notes.txt")


@tool(effects=Effects.WRITE)
def note(line: str) -> str:
    "Append a line."
    out = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(out, (line + "\\\\n").encode())
    finally:
        os.close(out)
    time.sleep(0.002 * (len(line) % 3))
    return line


@tool
def pid() -> int:
    "Who answers."
    return os.getpid()
""".replace("\\\\", "\\")


def write_yard(folder, sessions):
    """The config of every node."""
    (folder / "diary.py").write_text(TOOLS)
    document = {
        "tools": [{"type": "python", "target": "diary.py", "namespace": "diary"}],
        "sessions": sessions,
        "server": {"log": "off", "port": 0, "shutdown_timeout": 5},
    }
    (folder / "yard.json").write_text(json.dumps(document))


class Nodes:
    """Servers with one config, each of which can be killed and started again."""

    def __init__(self, folder, count, *arguments):
        self.folder = Path(folder)
        self._arguments = arguments
        self.running = [self._start() for _ in range(count)]

    def _start(self):
        return Served(started(self.folder, "yard.json", *self._arguments))

    def kill(self, index):
        """Kill it with SIGKILL."""
        node = self.running[index]
        node.process.kill()
        node.process.communicate()

    def start(self, index):
        self.running[index] = self._start()

    def close(self):
        for node in self.running:
            if node.process.returncode is None:
                node.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Lost(Exception):
    """There was no response, so the outcome is unknown."""


class Link:
    """One client's connection to its current node."""

    def __init__(self, nodes):
        self._nodes = nodes
        self._connection = None
        self._url = None

    def ask(self, index, method, path, body=None):
        url = self._nodes.running[index % len(self._nodes.running)].url
        try:
            if url != self._url:
                self.close()
                parts = urlsplit(url)
                self._connection, self._url = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SOON), url
            data = None if body is None else json.dumps(body)
            self._connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            self.close()
            raise Lost from error

    def close(self):
        if self._connection is not None:
            self._connection.close()
        self._connection = self._url = None


class Writer(threading.Thread):
    """Writes lines one after another, repeating each on any node until there is a response."""

    def __init__(self, nodes, who, session, ended):
        super().__init__()
        self.who = who
        self.session = session
        self.link = Link(nodes)
        self.answers = {}
        """By line: (in the session?, its response)."""
        self.repeats = 0
        self._ended = ended

    def run(self):
        try:
            for number in itertools.count():
                if self._ended.is_set():
                    return
                line, in_session = f"{self.who}-{number}", number % 2 == 0
                self.answers[line] = (in_session, self.write(number, line, in_session))
        finally:
            self.link.close()

    def write(self, first, line, in_session):
        """Write a line, repeating it with the same id until there is a response."""
        limit = time.monotonic() + 3 * SOON
        for attempt in itertools.count():
            assert time.monotonic() < limit, f"{line} was never answered"
            try:
                status, answer = self.link.ask(first + attempt, *self._request(line, in_session))
            except Lost:
                self.repeats += 1
                time.sleep(0.01)
                continue
            if status == 200:
                return answer["results"][0] if in_session else answer
            assert status in (409, 503), (status, answer)
            assert status == 503 or answer["error"]["code"] in ("session.busy", "request.in_progress"), answer
            time.sleep(0.01)
        raise AssertionError

    def _request(self, line, in_session):
        if in_session:
            call = {"name": "diary::note", "arguments": {"line": line}, "call_id": line}
            return "POST", f"/v1/sessions/{self.session}/execute", {"calls": [call]}
        body = {"invocation_id": line, "tool_name": "diary::note", "args": {"line": line}}
        return "POST", "/arp/v1/tool-invocations", body


def is_good(in_session, answer):
    return "error_info" not in answer if in_session else answer["ok"]


class Rounds:
    """One kill under load after another; `summary` counts what was found."""

    def __init__(self, nodes, rng, *, writers=4, sessions=2):
        self.nodes = nodes
        self.rng = rng
        self.number = 0
        self.summary = Counter()
        self._writers = writers
        self._sessions = sessions

    def run(self, kill):
        """Write, `kill()` meanwhile, continue, and check. Raises `AssertionError` at the first loss."""
        sessions = [f"r{self.number}.{index}" for index in range(self._sessions)]
        link = Link(self.nodes)
        for session in sessions:
            assert link.ask(0, "POST", "/v1/sessions", {"session_id": session})[0] == 201
        link.close()
        ended = threading.Event()
        writers = [
            Writer(self.nodes, f"r{self.number}w{index}", sessions[index % self._sessions], ended)
            for index in range(self._writers)
        ]
        for writer in writers:
            writer.start()
        # After some calls, not after some time, in which a busy machine may do no work.
        wanted = self.rng.randrange(12, 60)
        try:
            assert until(lambda: sum(len(writer.answers) for writer in writers) >= wanted)
            kill()
            time.sleep(0.2)
        finally:
            ended.set()
            for writer in writers:
                writer.join()
        self.number += 1
        self.summary["rounds"] += 1
        self._look(writers, sessions)

    def _look(self, writers, sessions):
        notes = Counter((self.nodes.folder / "notes.txt").read_text().splitlines())
        twice = [line for line, count in notes.items() if count > 1]
        assert not twice, f"ran twice: {twice}"
        for writer in writers:
            assert writer.answers, f"{writer.who} had no answer at all"
            self.summary["repeats"] += writer.repeats
            for line, (in_session, answer) in writer.answers.items():
                self._look_at(line, in_session, answer, notes)
        for session in sessions:
            self._look_into(session, [writer for writer in writers if writer.session == session], notes)
        self._ask_again(writers, notes)

    def _look_at(self, line, in_session, answer, notes):
        if is_good(in_session, answer):
            assert notes[line] == 1, f"acknowledged, but it never ran: {line}"
            self.summary["acknowledged"] += 1
            return
        error = answer["error_info"] if in_session else answer["error"]
        effect = error["effect"] if in_session else error["details"]["effect"]
        assert (error["code"], effect) == ("tool.interrupted", "unknown"), answer
        self.summary["interrupted"] += 1

    def _look_into(self, session, writers, notes):
        """Check that the history has the result of every call that its client received."""
        for index in range(len(self.nodes.running)):
            entries = {}
            for entry in read_history(self.nodes, index, session):
                line = entry["tool_call"]["arguments"]["line"]
                assert line not in entries, f"twice in the history: {line}"
                entries[line] = entry["tool_output"]
                assert "error_info" in entry["tool_output"] or notes[line] == 1, line
            told = {line: answer for writer in writers for line, (inside, answer) in writer.answers.items() if inside}
            assert told.keys() == entries.keys(), told.keys() ^ entries.keys()
            for line, answer in told.items():
                assert is_good(True, answer) == is_good(True, entries[line]), (line, answer, entries[line])

    def _ask_again(self, writers, notes):
        """Check that repeating the calls gives the same response on every node, and no second line."""
        for writer in writers:
            for line in list(writer.answers)[-3:]:
                in_session, answer = writer.answers[line]
                for index in range(len(self.nodes.running)):
                    again = writer.write(index, line, in_session)
                    assert again == answer, (line, answer, again)
            writer.link.close()
        after = Counter((self.nodes.folder / "notes.txt").read_text().splitlines())
        assert after == notes, after - notes


def read_history(nodes, index, session):
    link, entries, after = Link(nodes), [], 0
    while after is not None:
        status, page = link.ask(index, "GET", f"/v1/sessions/{session}/history?limit=1000&after={after}")
        assert status == 200, page
        entries += page["entries"]
        after = page.get("next")
    link.close()
    return entries


def workers_of(pid):
    """The processes that a server with `--workers` has started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill_worker(server, rng):
    """kill -9 of one of them, and which."""
    victim = rng.choice(workers_of(server.pid))
    os.kill(victim, signal.SIGKILL)
    return victim

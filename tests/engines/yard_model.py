"""An engine to run programs on, and a model of it in plain dicts and lists."""

import asyncio
import copy
import threading
from functools import cache

from toolyard import (
    Effects,
    Invocation,
    MultiToolEngine,
    PythonToolEngine,
    Tool,
    ToolEngine,
    ToolLoader,
    ToolRegistry,
    function_tool,
)
from toolyard.sessions.sessions import Sessions

KEYS = ["a", "b"]


class Changing(ToolLoader):
    """Tools that differ from one load to the next: `say` answers with its version, `extra` comes and goes."""

    def __init__(self):
        self.namespace = "py"
        self.version = 1
        self.with_extra = True

    def load(self):
        tools = tools_of(self.version)
        return tools if self.with_extra else tools[:1]


@cache
def tools_of(version):
    """Cached, since deriving schemas took nearly half of a program's time."""

    def say(text: str) -> dict:
        return {"text": text, "version": version}

    def extra() -> int:
        return version

    return [function_tool(function, namespace="py", effects=Effects.READ) for function in (say, extra)]


class Counter(ToolEngine):
    """Keeps numbers and lists in the session; some calls change them and then fail."""

    type_name = "counter"

    def answer(self, invocation: Invocation):
        key, state = invocation.arguments["key"], invocation.state
        if invocation.tool.name == "add":
            state[key] = state.get(key, 0) + 1
            return [state[key], len(invocation.history())]
        if invocation.tool.name == "push":
            # Changed in place, without assigning it again.
            state.setdefault("list", [])
            state["list"].append(key)
            return len(state["list"])
        if invocation.tool.name == "drop":
            del state[key]
            return None
        state[key] = "never kept"
        raise ValueError("after a change")


class Stuck:
    """Tools that do not return until they are released."""

    def __init__(self):
        self.inside = threading.Event()
        self.let_go = threading.Event()

    def blocked(self, text: str) -> str:
        self.inside.set()
        self.let_go.wait(60)
        return text

    async def waiting(self, text: str) -> str:
        self.inside.set()
        while not self.let_go.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.001)
        return text


class Yard:
    """An application with two engines over the same sessions, to cover both ways of `execute`."""

    def __init__(self, store=None):
        self.loader = Changing()
        self.stuck = Stuck()
        self.registry = ToolRegistry()
        self.registry.attach(self.loader)
        parameters = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
        for name in ("add", "push", "drop", "fail"):
            self.registry.add(Tool(name, "count", parameters=parameters, effects=Effects.WRITE))
        for function in (self.stuck.blocked, self.stuck.waiting):
            self.registry.add(function_tool(function, namespace="py", effects=Effects.WRITE))
        self.sessions = Sessions(store)
        self.quick = PythonToolEngine(self.registry, sessions=self.sessions)
        engines = {"py": PythonToolEngine(self.registry), "count": Counter(self.registry)}
        self.multi = MultiToolEngine(self.registry, engines, sessions=self.sessions)

    def close(self):
        self.stuck.let_go.set()
        self.quick.threads.close()
        self.multi.close()


class Model:
    """Expected behaviour of a yard. Everything is copied, which keeps the model simple."""

    def __init__(self):
        self.sessions = {}
        self.version = 1
        self.with_extra = True

    def setup(self, name, like=None):
        empty = {"entries": [], "state": {}}
        self.sessions[name] = empty if like is None else copy.deepcopy(self.sessions[like])

    def run(self, name, calls):
        """Execute: return the outcomes and record them in the session."""
        session = self.sessions[name]
        outcomes = []
        for call in calls:
            outcome = self._answer(session, call)
            session["entries"].append((call.name, call.arguments, call.call_id, *outcome))
            outcomes.append(outcome)
        return outcomes

    def interrupt(self, name, call):
        self.sessions[name]["entries"].append((call.name, call.arguments, call.call_id, None, "tool.interrupted"))

    def simulate(self, name, calls):
        kept = copy.deepcopy(self.sessions[name])
        try:
            return self.run(name, calls)
        finally:
            self.sessions[name] = kept

    def _answer(self, session, call):
        known = {"py::say", "py::blocked", "py::waiting", *(["py::extra"] if self.with_extra else [])}
        if call.name not in known | {"count::add", "count::push", "count::drop", "count::fail"}:
            return None, "tool.not_found"
        wanted = {"py::extra": set()}.get(call.name, {"key"} if call.name.startswith("count") else {"text"})
        if wanted - call.arguments.keys():
            return None, "tool.invalid_args"
        return self._good_answer(session, call.name, call.arguments)

    def _good_answer(self, session, name, arguments):
        if name == "py::say":
            return {"text": arguments["text"], "version": self.version}, None
        if name == "py::extra":
            return self.version, None
        key, state = arguments["key"], session["state"]
        if name == "count::add":
            state[key] = state.get(key, 0) + 1
            return [state[key], len(session["entries"])], None
        if name == "count::push":
            state.setdefault("list", []).append(key)
            return len(state["list"]), None
        if name == "count::drop" and key in state:
            del state[key]
            return None, None
        return None, "tool.execution_error"

    def shown(self, name):
        """The expected `get_session_state` in the model's form; None if the session does not exist."""
        session = self.sessions.get(name)
        return None if session is None else (session["entries"], session["state"])


def outcome(result):
    return result.result, None if result.error_info is None else result.error_info.code


def shown(state):
    """`get_session_state` in the model's form."""
    if state is None:
        return None
    entries = []
    for entry in state.pop("tool_executions"):
        call, output = entry["tool_call"], entry["tool_output"]
        info = output.get("error_info")
        assert output["call_id"] == call["call_id"]
        assert (info is None) == (output["error"] is None)
        code = None if info is None else info["code"]
        assert code != "tool.interrupted" or info["effect"] == "unknown"
        entries.append((call["name"], call["arguments"], call["call_id"], output["result"], code))
    kept = state.pop("counter", {})
    assert not state
    return entries, kept

"""A yard of difficult tools, with a call of each whose result every adapter must pass on to the model unchanged."""

import asyncio
from typing import Any, NamedTuple

from toolyard import (
    Content,
    Policy,
    PythonToolEngine,
    Rule,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    Unavailable,
    function_tool,
)
from toolyard.model.call import audio, image, resource_link, text

PICTURE = bytes(range(256))
LONG = "0123456789abcdef" * 12_800  # 200 KB

TREE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Node"}},
    "required": ["tree"],
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["name"],
        }
    },
}
POINT = {
    "type": "object",
    "properties": {"at": {"$ref": "#/$defs/Point"}, "by": {"$ref": "#/$defs/Point"}},
    "required": ["at"],
    "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
}
UNION = {
    "oneOf": [
        {"type": "object", "properties": {"email": {"type": "string"}}, "required": ["email"]},
        {"type": "object", "properties": {"phone": {"type": "integer"}}, "required": ["phone"]},
    ]
}
ODD_KEYS = {
    "type": "object",
    "properties": {"filter[id]": {"type": "string"}, "$top": {"type": "integer"}, "größe": {"type": "number"}},
    "required": ["filter[id]"],
}
WORDS = ("args", "callbacks", "config", "context", "ctx", "kwargs", "name", "run_manager", "self", "tool_call_id")
FRAMEWORK_WORDS = {
    "type": "object",
    "properties": {word: {"type": "string"} for word in WORDS},
    "required": list(WORDS),
}
CHOICE = {
    "type": "object",
    "properties": {
        "size": {"enum": ["s", "m", "l", None], "default": "m"},
        "count": {"type": ["integer", "null"], "minimum": 0, "default": 1},
    },
}


class Case(NamedTuple):
    """A call, and its name in the table."""

    id: str
    call: ToolCall


def make_cases() -> tuple[list[Tool], list[Case]]:
    """The tools, and a call of each."""
    tools: list[Tool] = []
    cases: list[Case] = []

    def add(case: str, fn: Any, arguments: dict[str, Any], *, pinned: bool = False, **options: Any) -> None:
        made = function_tool(fn, **{"namespace": "desk", "name": case.replace(" ", "_"), **options})
        tools.append(made)
        overload = made.fingerprint if pinned else None
        cases.append(Case(case, ToolCall(made.qualified_name, arguments, f"call_{len(cases)}", overload)))

    def echo(**given: Any) -> dict[str, Any]:
        return given

    def add_odd(case: str, arguments: dict[str, Any], parameters: dict[str, Any], **options: Any) -> None:
        add(case, echo, arguments, parameters=parameters, **options)

    _add_names(add, add_odd)
    _add_schemas(add, add_odd)
    _add_results(add)
    _add_failures(add)
    return tools, cases


def _add_names(add: Any, add_odd: Any) -> None:
    add("plain", lambda: {"sum": 3}, {})
    add(
        "overload by number",
        lambda **_: "number",
        {"id": 7},
        name="find",
        pinned=True,
        parameters=_one("id", "integer"),
    )
    add(
        "overload by text", lambda **_: "text", {"key": "a"}, name="find", pinned=True, parameters=_one("key", "string")
    )
    add("dots in the name", lambda: "read", {}, name="files.read.v2")
    add("spaces in the name", lambda: "sent", {}, name="send an e-mail")
    add("slashes in the name", lambda: [1, 2], {}, name="repos/{owner}/list")
    add("no Latin name", lambda: "晴れ", {}, name="天気")
    add("a long name", lambda: True, {}, name="a" * 128)
    add("an odd namespace", lambda: 1.5, {}, namespace="My API (v2.1)", name="get")
    add_odd("odd argument names", {"filter[id]": "x", "$top": 3, "größe": 1.5}, ODD_KEYS)
    add_odd("arguments named as a framework's", dict.fromkeys(WORDS, "w"), FRAMEWORK_WORDS)


def _add_schemas(add: Any, add_odd: Any) -> None:
    add_odd("$ref", {"at": {"x": 1.5}, "by": {"x": 2}}, POINT)
    add_odd("recursive $ref", {"tree": {"name": "a", "kids": [{"name": "b", "kids": []}]}}, TREE)
    add_odd("union at the root", {"phone": 5}, UNION)
    add_odd("defaults", {}, CHOICE)
    add_odd("null and enum", {"size": None, "count": None}, CHOICE)
    add_odd("repaired arguments", {"size": "s", "count": "5"}, CHOICE)
    add_odd("any object", {"deep": {"er": [1, {"x": None}]}, "n": 1e100}, {"type": "object"})


def _add_results(add: Any) -> None:
    async def tell(ctx: ToolContext) -> str:
        ctx.report(1, 2, "half")
        await asyncio.sleep(0)
        ctx.log("nearly")
        return "told"

    add("image", lambda: Content([text("a picture"), image(PICTURE, "image/png")]), {})
    add("sound", lambda: Content([audio(PICTURE, "audio/wav")]), {})
    add("link", lambda: Content([resource_link("file:///a.txt", "a")], value={"at": "a.txt"}), {})
    add("200 KB", lambda: LONG, {})
    add("nothing", lambda: None, {})
    add("JSON in text", lambda: '{"a": 1}', {})
    add("odd characters", lambda: {"said": 'ünï"\\\n\u2028 \U0001f600'}, {})
    add("like an error", lambda: {"error": {"code": "x", "message": "y", "retryable": False, "effect": "none"}}, {})
    add("progress", tell, {})


def _add_failures(add: Any) -> None:
    def fail() -> str:
        raise RuntimeError("the printer is on fire")

    def miss() -> str:
        raise Unavailable("the shop is closed", retry_after=3)

    async def hang() -> str:
        await asyncio.sleep(600)
        return "late"

    add("error", fail, {})
    add("unavailable", miss, {})
    add("timeout", hang, {})
    add("wrong arguments", lambda **_: 1, {"id": "seven"}, parameters=_one("id", "integer"))
    add("wrong result", lambda: "five", {}, output_parameters={"type": "integer"})
    add("denied", lambda: "never", {})
    add(
        "held",
        lambda **_: "refunded",
        {"order": 1042},
        name="refund",
        parameters=_one("order", "integer"),
        effects="write",
    )


def _one(name: str, kind: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


TOOLS, CASES = make_cases()


def case_of(name: str) -> Case:
    """The case of that name."""
    return next(case for case in CASES if case.id == name)


HELD = case_of("held")


class YardEngine(PythonToolEngine):
    """Records the sessions that were opened."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.begun: list[str] = []

    def setup(self, session_id: str, *arguments: Any, **options: Any) -> None:
        super().setup(session_id, *arguments, **options)
        self.begun.append(session_id)

    def histories(self) -> list[list[tuple[str | None, Any]]]:
        """For each session, the ids of its calls and their results."""
        found = [self.get_session_history(session_id) for session_id in self.begun]
        return [[(entry.tool_call.call_id, entry.tool_output.result) for entry in entries] for entries in found]


def make_engine() -> YardEngine:
    """An engine with all the tools."""
    # Tools that are denied for everyone are not offered, so one session may call it.
    allow = Rule("allow", "desk::denied", sessions=["somebody else's"])
    policy = Policy([Rule("ask", "desk::refund"), allow, Rule("deny", "desk::denied")])
    return YardEngine(ToolRegistry(TOOLS), policy=policy, timeout=1, output_check="strict")


def answer_of(case: Case) -> Any:
    """The result of `execute` in a new yard."""
    engine = make_engine()
    engine.setup("plain")
    return engine.execute("plain", [case.call])[0]

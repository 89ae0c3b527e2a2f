"""`toolyard call`: run one tool."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout, suppress
from typing import Annotated

from cyclopts import Parameter

from toolyard.cli.output import fail_call, print_json, warn, working
from toolyard.cli.yard import ConfigOption, JsonOption, OwnerOption, SkipOption, open_yard
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import InvalidArguments, SessionError, SessionExistsError
from toolyard.registry.prepared import read_arguments

_ALONE = "toolyard-call"
"""The session of a call that is in none; it lives as long as the command."""


def call(
    name: str,
    arguments: Annotated[str, Parameter(allow_leading_hyphen=True)] = "{}",
    /,
    *,
    session: Annotated[str | None, Parameter(name=["--session", "-s"])] = None,
    simulate: Annotated[bool, Parameter(negative="")] = False,
    timeout: float | None = None,
    owner: OwnerOption = None,
    config: ConfigOption = None,
    skip_bad: SkipOption = False,
    json: JsonOption = False,
) -> int:
    """Call a tool and print its result; exits 1 if the call failed.

    Parameters
    ----------
    name
        Qualified name, or a bare name that only one namespace has.
    arguments
        A JSON object, or - to read it from standard input.
    session
        Make the call in this session, which is set up if there is none, and keep it there. Without a `sessions`
        block in the config, sessions are kept in a file of the user's.
    simulate
        Answer as the session would now, and leave it as it was. A session that is named must be there.
    timeout
        Seconds the call may take.
    """
    if session == "":
        raise SessionError("--session needs the name of a session, and it is empty")
    request = ToolCall(name, _read_arguments(sys.stdin.read() if arguments == "-" else arguments))
    with open_yard(config, skip_bad=skip_bad, durable=session is not None) as yard:
        engine, session_id = yard.tool_engine, session or _ALONE
        # A simulation leaves no trace, so it begins no session either: one that is not there is an error.
        if session is None or not simulate:
            # Asking first would not help: another process may be setting it up at this moment.
            with suppress(SessionExistsError):
                engine.setup(session_id, owner=owner)
        ask = engine.simulate if simulate else engine.execute
        # Standard output is for the answer alone, whatever the tool prints.
        with redirect_stdout(sys.stderr), working(f"calling {name}"):
            result = ask(session_id, [request], timeout=timeout, owner=owner)[0]
    return _show_result(result, json)


def _read_arguments(text: str) -> dict[str, object] | str:
    """The arguments as an object; text that is none stays text, which the call path refuses and records."""
    try:
        return read_arguments(text)
    except InvalidArguments:
        return text


def _show_result(result: ToolResult, json: bool) -> int:
    if json:
        print_json(result.to_dict())
    elif result.error_info is not None:
        fail_call(result.error_info)
    else:
        if "simulated_by" in result.metadata:
            warn(f"{result.name} was not run; answered by {result.metadata['simulated_by']}")
        print_json(result.result)
    return 1 if result.is_error else 0

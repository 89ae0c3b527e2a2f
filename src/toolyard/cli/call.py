"""`toolyard call`: runs a tool and prints its result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from inspect import signature
from itertools import chain
from typing import Annotated, Any
from uuid import uuid4

from cyclopts import Parameter
from msgspec.structs import replace

from toolyard.app.toolyard import Toolyard
from toolyard.calls.call_path import SCHEMA_SIMULATOR
from toolyard.cli.approvals import ask_at_terminal, describe_decision
from toolyard.cli.options import YARD, OwnerOption, SkipOption, ToolName, YardOptions, read_word
from toolyard.cli.output import fail_call, print_json, visible, warn, working
from toolyard.cli.yard import choose_owner, missing_session, open_yard, warn_of_default_tools
from toolyard.dialects.wire_names import read_wire_call
from toolyard.engines.base import ToolEngine
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import (
    ConfigError,
    InvalidArguments,
    SessionExistsError,
    UnknownSessionError,
    UnknownToolError,
)
from toolyard.model.json_schema import pointer_of
from toolyard.model.names import find_similar
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import find_overloads
from toolyard.registry.prepared import read_arguments
from toolyard.schema.compile import CompiledSchema
from toolyard.words.redactor import Redactor

_ARGUMENTS = "write the arguments as KEY=VALUE, each of them, or all of them as one JSON object"
HELD = 3
"""Exit status if the call waits for approval."""


def _check_wait(_: object, seconds: float | None) -> None:
    if seconds is not None and not seconds >= 0:
        raise ValueError("must be a number of seconds, 0 or more")


def _check_session(_: object, name: str | None) -> None:
    if name == "":
        raise ValueError("--session needs the name of a session, and it is empty")


_ArgumentWords = Annotated[
    str,
    Parameter(
        allow_leading_hyphen=True,
        help="Arguments as KEY=VALUE; values are read as JSON if they are JSON and the tool accepts that, else as "
        "text. Or one JSON object, or - to read it from standard input.",
    ),
]
_SessionOption = Annotated[
    str | None,
    Parameter(
        name=["--session", "-s"],
        validator=_check_session,
        help="Run the call in this session and record it there. The session is created if it does not exist. "
        "Without a `sessions` block in the config, sessions are stored in your home directory.",
    ),
]


_WaitOption = Annotated[
    float | None,
    Parameter(
        validator=_check_wait,
        help="If the call needs approval: wait this many seconds for a decision made elsewhere, without asking here.",
    ),
]


def call(
    name: ToolName,
    /,
    *arguments: _ArgumentWords,
    session: _SessionOption = None,
    simulate: Annotated[
        bool, Parameter(help="Simulate the call; nothing is recorded. With --session, the session must exist.")
    ] = False,
    timeout: Annotated[float | None, Parameter(help="Deadline of the call in seconds.")] = None,
    wait: _WaitOption = None,
    owner: OwnerOption = None,
    skip_bad: SkipOption = False,
    options: YardOptions = YARD,
) -> int:
    """Call a tool and print its result; exits 1 if the call failed, 3 if it must be approved first."""
    given = _read_arguments(arguments)
    approver = ask_at_terminal if wait is None and sys.stdin.isatty() and sys.stderr.isatty() else None
    stored = session is not None
    with open_yard(options.config, skip_bad=skip_bad, durable=stored, approver=approver, tool=name) as yard:
        called = read_wire_call(yard.tool_registry.snapshot, ToolCall(name))
        request = replace(called, arguments=_decode_values(given, yard.tool_registry, called.name))
        engine, session_id = yard.tool_engine, session or f"call-{uuid4().hex}"
        whose = owner if session is None else choose_owner(engine.sessions, session, owner, options.config, begins=True)
        # A simulation must not create a session, so a missing one is an error.
        if session is None or not simulate:
            _begin_session(engine, session_id, whose, alone=session is None)
        make = engine.simulate if simulate else engine.execute
        ask = partial(make, session_id, [request], timeout=timeout, owner=whose)
        asks = approver is not None and engine.policy is not None and engine.policy.asks
        with working(f"calling {name}", spins=not asks), ExitStack() as leaving:
            if session is None:  # a temporary session
                leaving.callback(engine.teardown, session_id, owner=owner)
            try:
                result = _ask_until_decided(engine, ask, wait, options)
            except UnknownSessionError:
                raise missing_session(engine.sessions.store, session_id, owner, options.config) from None
    typed = {"-c": options.config, "--session": session, "--owner": owner, "--timeout": timeout, "--skip-bad": skip_bad}
    repeat = _write_repeat_command(typed, [name, *arguments], request, yard)
    return _show_result(result, options, repeat, simulated=simulate)


def _is_held(result: ToolResult) -> bool:
    return result.error_info is not None and result.error_info.approval_id is not None


def _ask_until_decided(
    engine: ToolEngine, ask: Callable[[], list[ToolResult]], wait: float | None, options: YardOptions
) -> ToolResult:
    [result] = ask()
    if wait is None or result.error_info is None or not _is_held(result):
        return result
    approval = result.error_info.details["approval"]
    warn(f"{result.name} waits; {describe_decision(approval, options.config)}")
    engine.approvals.wait_for(approval["id"], wait)
    return ask()[0]


def _write_repeat_command(
    typed: Mapping[str, object], words: Sequence[str], request: ToolCall, yard: Toolyard
) -> str | None:
    """The command that repeats the call.

    None if part of it was not typed, or it may contain secrets.
    """
    given = [[option] if value is True else [option, str(value)] for option, value in typed.items() if value]
    text = shlex.join(["toolyard", "call", *chain(*given), *words])
    redactor = Redactor(yard.config.secrets if yard.config else ())
    plain = redactor.text(text) == text and redactor.value(request.arguments) == request.arguments
    return text if plain and "-" not in words and visible(text) == text else None


def _begin_session(engine: ToolEngine, session_id: str, owner: str | None, *, alone: bool) -> None:
    # Checking first would not help, since another process may create it meanwhile.
    with suppress(SessionExistsError):
        engine.setup(session_id, owner=owner)
    # Approvals of a temporary session must apply to the next command.
    engine.sessions.find(session_id, owner).is_alone = alone


_OPTIONS = [
    f"--{name.replace('_', '-')}"
    for name, parameter in signature(call).parameters.items()
    for name in ([name] if name != "options" else YardOptions.__dataclass_fields__)
    if parameter.kind is parameter.KEYWORD_ONLY
]


class _TypedArguments(dict[str, str]):
    """KEY=VALUE arguments, with values as typed."""


def _read_arguments(given: tuple[str, ...]) -> _TypedArguments | dict[str, object] | str:
    """The arguments as an object; invalid JSON stays text, which the call path refuses and records."""
    for word in given:
        if word.startswith("--"):
            option = word.partition("=")[0]
            near = find_similar(option, _OPTIONS) if len(option) > len("--a") else ()  # too short to suggest another
            raise ConfigError(f"there is no option {word}; {f'did you mean {near[0]}?' if near else _ARGUMENTS}")
    if given and not given[0].startswith("{") and all("=" in word for word in given):
        words = _TypedArguments()
        for key, _, value in (word.partition("=") for word in given):
            if key in words:
                raise ConfigError(f"{key}=... is given twice; a list is written {key}='[1, 2]'")
            words[key] = value
        return words
    text = given[0] if given else "{}"
    if len(given) > 1 or text[:1].isalnum():
        raise ConfigError(f"{next(word for word in given if '=' not in word)!r}: {_ARGUMENTS}")
    text = sys.stdin.read() if text == "-" else text
    try:
        return read_arguments(text)
    except InvalidArguments:
        return text


def _decode_values(
    given: _TypedArguments | dict[str, object] | str, registry: ToolRegistry, name: str
) -> dict[str, Any] | str:
    """Values as JSON where the tool accepts that, else as text where it accepts that, else as JSON."""
    if not isinstance(given, _TypedArguments):
        return given
    read = tried = {key: read_word(text) for key, text in given.items()}
    with suppress(UnknownToolError):  # reported by the call
        for candidate in find_overloads(registry.snapshot, name):
            as_text = {key: given[key] for key in _find_wrong(candidate.compiled, read)}
            no_text = _find_wrong(candidate.compiled, read | as_text)
            tried = read | {key: text for key, text in as_text.items() if key not in no_text}
            if candidate.compiled.accepts(tried):
                break
    return tried


def _find_wrong(compiled: CompiledSchema, arguments: dict[str, Any]) -> list[str]:
    """The arguments that the schema refuses, in whole or in part."""
    wrong = {violation.pointer for violation in compiled.violations(arguments)}
    return [key for key in arguments if any(f"{at}/".startswith(f"{pointer_of([key])}/") for at in wrong)]


def _show_result(result: ToolResult, options: YardOptions, again: str | None, *, simulated: bool) -> int:
    info, held = result.error_info, _is_held(result)
    maker = result.metadata.get("simulated_by")
    if maker is not None and (simulated or maker != SCHEMA_SIMULATOR):
        warn(f"{result.name} was not run; answered by {maker}")
    elif maker is not None and info is None:
        warn("generated by the simulator: this tool has no implementation")
    if options.json:
        print_json(result.to_dict())
    elif info is not None:
        if held:
            decide = describe_decision(info.details["approval"], options.config)
            info = replace(info, hint=f"{decide} && {again}" if again else f"{decide}, then call again")
        fail_call(info, result.name, options.config)
        if info.code == UnknownToolError.code:
            warn_of_default_tools(options.config)
    else:
        print_json(result.result)
    return HELD if held else 1 if result.is_error else 0

"""`toolyard call`: runs a tool; `toolyard calls`: lists or follows the call log in the session store."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import msgspec
from cyclopts import Parameter, Token
from msgspec.structs import replace

from toolyard.app.config import read_anything
from toolyard.app.toolyard import Toolyard
from toolyard.calls.answerer import SCHEMA_SIMULATOR
from toolyard.calls.call_log import CallFilter, CallRow
from toolyard.calls.journal import CallLogOptions, Journal
from toolyard.calls.sql_journal import open_journal
from toolyard.calls.tracer import read_log_options
from toolyard.cli.approvals import ask_at_terminal, tell_how_to_decide
from toolyard.cli.options import YARD, OwnerOption, SkipOption, YardOptions, read_word
from toolyard.cli.output import fail_call, print_json, print_list, visible, warn, working
from toolyard.cli.yard import choose_owner, config_path, missing_session, open_sessions, open_yard, tell_of_default
from toolyard.dialects.wire_names import read_wire_call
from toolyard.engines.base import ToolEngine
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import (
    ConfigError,
    Effect,
    Held,
    InvalidArguments,
    SessionExistsError,
    UnknownSessionError,
    UnknownToolError,
)
from toolyard.model.names import nearest, pointer_of
from toolyard.model.tool import Effects
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import find_overloads
from toolyard.registry.prepared import read_arguments
from toolyard.schema.compile import CompiledSchema
from toolyard.words.redactor import Redactor

_ARGUMENTS = "write the arguments as KEY=VALUE, each of them, or all of them as one JSON object"
HELD = 3
"""Exit status if the call waits for approval."""
_EVERYTHING = CallLogOptions(days=36_500)
_PAGE = 10_000
_LOOK = 0.5
"""Seconds between reads of a log that is followed."""
_LATE = 5.0
"""Seconds by which rows may be delayed after later ones, since each process writes its own."""
_COLUMNS = ["time", "tool", "ms", "outcome", "mode", "session", "key", "id"]

_TIMES = "2026-01-31, 2026-01-31T08:30 or 2026-01-31T08:30:00+01:00"


def _check_wait(_: object, seconds: float | None) -> None:
    if seconds is not None and not seconds >= 0:
        raise ValueError("must be a number of seconds, 0 or more")


def _check_session(_: object, name: str | None) -> None:
    if name == "":
        raise ValueError("--session needs the name of a session, and it is empty")


_WaitOption = Annotated[
    float | None,
    Parameter(
        validator=_check_wait,
        help="If the call needs approval: wait this many seconds for a decision made elsewhere, without asking here.",
    ),
]


def call(
    name: str,
    /,
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    session: Annotated[str | None, Parameter(name=["--session", "-s"], validator=_check_session)] = None,
    simulate: Annotated[bool, Parameter(negative="")] = False,
    timeout: Annotated[float | None, Parameter(help="Deadline of the call in seconds.")] = None,
    wait: _WaitOption = None,
    owner: OwnerOption = None,
    skip_bad: SkipOption = False,
    options: YardOptions = YARD,
) -> int:
    """Call a tool and print its result; exits 1 if the call failed, 3 if it must be approved first.

    Parameters
    ----------
    name
        Qualified name, or a bare name that only one namespace has.
    arguments
        Arguments as KEY=VALUE; values are read as JSON if they are JSON and the tool accepts that, else as text. Or
        one JSON object, or - to read it from standard input.
    session
        Run the call in this session and record it there. The session is created if it does not exist. Without a
        `sessions` block in the config, sessions are stored in your home directory.
    simulate
        Simulate the call; nothing is recorded. With --session, the session must exist.
    """
    given = _read_arguments(arguments)
    approver = ask_at_terminal if wait is None and sys.stdin.isatty() and sys.stderr.isatty() else None
    with open_yard(options.config, skip_bad=skip_bad, durable=session is not None, approver=approver) as yard:
        called = read_wire_call(yard.tool_registry.snapshot, ToolCall(name))
        request = replace(called, arguments=_settle_values(given, yard.tool_registry, called.name))
        engine, session_id = yard.tool_engine, session or f"call-{uuid4().hex}"
        whose = owner if session is None else choose_owner(yard, session, owner, options.config, begins=True)
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
                raise missing_session(yard, session_id, owner, options.config) from None
    typed = {"-c": options.config, "--session": session, "--owner": owner, "--timeout": timeout, "--skip-bad": skip_bad}
    return _show_result(result, options, _write_again(typed, [name, *arguments], request, yard), simulated=simulate)


def _is_held(result: ToolResult) -> bool:
    return result.error_info is not None and result.error_info.code == Held.code


def _ask_until_decided(
    engine: ToolEngine, ask: Callable[[], list[ToolResult]], wait: float | None, options: YardOptions
) -> ToolResult:
    [result] = ask()
    if wait is None or result.error_info is None or not _is_held(result):
        return result
    approval = result.error_info.details["approval"]
    warn(f"{result.name} waits; {tell_how_to_decide(approval, options.config)}")
    engine.approvals.wait_for(approval["id"], wait)
    return ask()[0]


def _write_again(typed: Mapping[str, object], words: Sequence[str], request: ToolCall, yard: Toolyard) -> str | None:
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


class _Words(dict[str, str]):
    """KEY=VALUE arguments, with values as typed."""


def _read_arguments(given: tuple[str, ...]) -> _Words | dict[str, object] | str:
    """The arguments as an object; invalid JSON stays text, which the call path refuses and records."""
    for word in given:
        if word.startswith("--"):
            option = word.partition("=")[0]
            near = nearest(option, _OPTIONS) if len(option) > len("--a") else ()  # too short to suggest another
            raise ConfigError(f"there is no option {word}; {f'did you mean {near[0]}?' if near else _ARGUMENTS}")
    if given and not given[0].startswith("{") and all("=" in word for word in given):
        words = _Words()
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


def _settle_values(given: _Words | dict[str, object] | str, registry: ToolRegistry, name: str) -> dict[str, Any] | str:
    """Values as JSON where the tool accepts that, else as text where it accepts that, else as JSON."""
    if not isinstance(given, _Words):
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
            decide = tell_how_to_decide(info.details["approval"], options.config)
            info = replace(info, hint=f"{decide} && {again}" if again else f"{decide}, then call again")
        fail_call(info)
        if info.code == UnknownToolError.code:
            tell_of_default(options.config)
    else:
        print_json(result.result)
    return HELD if held else 1 if result.is_error else 0


def _read_time(_: object, tokens: Sequence[Token]) -> datetime:
    try:
        return datetime.fromisoformat(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value!r} is no time; write {_TIMES}") from None


def calls(
    *,
    tool: Annotated[str | None, Parameter(help="Only calls of these tools: a glob of qualified names.")] = None,
    namespace: Annotated[str | None, Parameter(help="Only calls of tools in this namespace.")] = None,
    session: Annotated[str | None, Parameter(help="Only calls in this session.")] = None,
    key: Annotated[str | None, Parameter(help="Only calls made with the key of this id.")] = None,
    code: Annotated[str | None, Parameter(help="Only calls that failed with this code.")] = None,
    mode: Annotated[Mode | None, Parameter(help="Only calls of this kind.")] = None,
    effect: Annotated[Effect | None, Parameter(help="Only failed calls with this effect.")] = None,
    effects: Annotated[Effects | None, Parameter(help="Only calls of tools with these effects.")] = None,
    since: Annotated[
        datetime | None, Parameter(converter=_read_time, help=f"Calls that ended then or later: {_TIMES}.")
    ] = None,
    until: Annotated[
        datetime | None, Parameter(converter=_read_time, help="Only calls that ended before this time.")
    ] = None,
    errors: Annotated[bool, Parameter(negative="", help="Only failed calls.")] = False,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="Maximum number of calls.")] = 100,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], negative="", help="Print new calls as they are made.")
    ] = False,
    options: YardOptions = YARD,
) -> int:
    """List the calls that a server with this config logged, newest last. With --follow, JSON is one object per line."""
    wanted = CallFilter(
        tool=tool,
        namespace=namespace,
        session_id=session,
        owner=key,
        code=code,
        mode=mode,
        effect=effect,
        effects=None if effects is None else effects.value,
        since=None if since is None else since.timestamp(),
        until=None if until is None else until.timestamp(),
        errors=errors,
    )
    with open_sessions(options.config) as sessions:
        log = open_journal(sessions.store, _EVERYTHING)
        if follow:
            return _follow(log, wanted, limit, as_json=options.json)
        rows = _read_rows(log, wanted, limit)
    print_list(options.json, "call", map(CallRow.to_dict, rows), _COLUMNS, map(_describe, rows))
    if not rows and not options.json and wanted == CallFilter():
        _explain_nothing(options.config)
    return 0


_IN_SESSIONS = "`toolyard session show SESSION` shows the calls of a session, logged or not"


def _explain_nothing(config: Path | None) -> None:
    path = config_path(config)
    read = None if path is None else read_anything(path)
    if read is not None and read.tracing.log is False:
        warn(f"no calls are logged without `tracing: {{log: true}}`; {_IN_SESSIONS}")
    elif read is None or read.sessions.store == "memory":
        warn(
            "without a `sessions` block a server keeps its log in memory, and shows it at /console/calls and /v1/calls;"
            " `sessions: {store: sqlite, path: FILE}` keeps it where this command finds it;"
            f" {_IN_SESSIONS}"
        )
    elif read_log_options(read.tracing.log, serving=False) is None:
        warn(f"only calls of servers are logged without `tracing: {{log: true}}`; {_IN_SESSIONS}")


def _read_rows(log: Journal, wanted: CallFilter, limit: int) -> list[CallRow]:
    rows: list[CallRow] = []
    page = log.list_calls(wanted, limit)
    rows += page.rows
    while page.next is not None and len(rows) < limit:
        page = log.list_calls(wanted, limit - len(rows), page.next)
        rows += page.rows
    return rows[::-1]


def _follow(log: Journal, wanted: CallFilter, limit: int, *, as_json: bool) -> int:
    shown: dict[int, CallRow] = {}
    rows = _read_rows(log, wanted, limit)
    while True:
        for row in rows:
            if row.number not in shown:
                shown[row.number] = row
                _print_line(row, as_json=as_json)
        newest = max((row.time + row.duration for row in shown.values()), default=time.time()) - _LATE
        shown = {number: row for number, row in shown.items() if row.time + row.duration >= newest}
        try:
            time.sleep(_LOOK)
        except KeyboardInterrupt:
            return 0
        recent = replace(wanted, since=max(newest, wanted.since or 0.0))
        rows = _read_rows(log, recent, _PAGE)


def _print_line(row: CallRow, *, as_json: bool) -> None:
    text = msgspec.json.encode(row.to_dict()).decode() if as_json else "  ".join(map(visible, _describe(row)))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _describe(row: CallRow) -> tuple[str, ...]:
    shown = row.to_dict()
    outcome = "ok" if row.code is None else row.code if row.effect is None else f"{row.code} ({row.effect})"
    return (shown["time"], row.tool, str(shown["duration_ms"]), outcome, row.mode, row.session_id, row.owner, row.id)

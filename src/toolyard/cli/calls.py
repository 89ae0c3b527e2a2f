"""`toolyard calls`: lists or follows the call log in the session store."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter, Token
from msgspec.structs import replace

from toolyard.app.blocks import MEMORY
from toolyard.calls.journal import TIMES, CallFilter, CallLogOptions, CallRow, Journal, read_time
from toolyard.calls.sql_journal import open_journal
from toolyard.calls.tracer import read_log_options
from toolyard.cli.options import YARD, YardOptions
from toolyard.cli.output import print_list, visible, warn
from toolyard.cli.yard import open_sessions, read_named
from toolyard.model.call import Mode
from toolyard.model.errors import ConfigError, Effect
from toolyard.model.tool import Effects

_EVERYTHING = CallLogOptions(days=36_500)
_PAGE = 10_000
_POLL_SECONDS = 0.5
"""Seconds between reads of a log that is followed."""
_DELAY_SECONDS = 5.0
"""Seconds by which rows may be delayed after later ones, since each process writes its own."""
_COLUMNS = ["time", "tool", "ms", "outcome", "mode", "session", "key", "id"]


def _read_time(_: object, tokens: Sequence[Token]) -> datetime:
    return datetime.fromtimestamp(read_time(tokens[0].value), UTC)


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
        datetime | None, Parameter(converter=_read_time, help=f"Calls that ended then or later: {TIMES}.")
    ] = None,
    until: Annotated[
        datetime | None, Parameter(converter=_read_time, help="Only calls that ended before this time.")
    ] = None,
    errors: Annotated[bool, Parameter(help="Only failed calls.")] = False,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="Maximum number of calls.")] = 100,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], help="Print new calls as they are made.")] = False,
    options: YardOptions = YARD,
) -> int:
    """List the calls that a server with this config logged, newest last. With --follow, JSON is one object per line."""
    if limit < 1:
        raise ConfigError(f"--limit must be 1 or more, not {limit}")
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
        _explain_empty_log(options.config)
    return 0


_IN_SESSIONS = "`toolyard session show SESSION` shows the calls of a session, logged or not"


def _explain_empty_log(config: Path | None) -> None:
    _, read = read_named(config)
    if read.tracing.log is False:
        warn(f"no calls are logged without `tracing: {{log: true}}`; {_IN_SESSIONS}")
    elif read.sessions.store == MEMORY:
        warn(
            "without a `sessions` block a server keeps its log in memory, and shows it at /console/calls and /v1/calls;"
            " `sessions: {store: sqlite, path: FILE}` keeps it where this command finds it;"
            f" {_IN_SESSIONS}"
        )
    elif read_log_options(read.tracing.log, serving=False) is None:
        warn(f"only calls of servers are logged without `tracing: {{log: true}}`; {_IN_SESSIONS}")


def _read_rows(log: Journal, wanted: CallFilter, limit: int) -> list[CallRow]:
    page = log.list_calls(wanted, limit)
    rows = [*page.rows]
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
        newest = max((row.time + row.duration for row in shown.values()), default=time.time()) - _DELAY_SECONDS
        shown = {number: row for number, row in shown.items() if row.time + row.duration >= newest}
        try:
            time.sleep(_POLL_SECONDS)
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

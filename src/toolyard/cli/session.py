"""`toolyard session`: the history of sessions, and forks of them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from toolyard.cli.options import YARD, OwnerOption, YardOptions
from toolyard.cli.output import (
    counted,
    print_either,
    print_json,
    print_list,
    print_table,
    print_text,
    shorten,
    working,
    write_time,
)
from toolyard.cli.yard import choose_owner, config_path, missing_session, open_sessions, open_yard
from toolyard.sessions.sessions import Sessions

_SHOWN = 200
_WIDE = 160
SessionName = Annotated[str, Parameter(help="The session.")]


def list_(*, owner: OwnerOption = None, options: YardOptions = YARD) -> int:
    """List the stored sessions of one owner or of all; without a store in the config, those of the file."""
    with open_sessions(options.config) as sessions:
        found = [] if sessions.store is None else sessions.store.sessions(owner)
        if owner is None and sessions.yard and config_path(options.config):
            found = [item for item in found if item.owner in ("", sessions.yard)]
    entries = [{**msgspec.structs.asdict(item), "used": write_time(item.used)} for item in found]
    rows = (list(map(str, entry.values())) for entry in entries)
    return print_list(options.json, "session", entries, ["session", "owner", "calls", "last used"], rows)


def show_(session_id: SessionName, /, *, owner: OwnerOption = None, options: YardOptions = YARD) -> int:
    """Show a session: each call with its time and result, then the state of the engines."""
    with open_sessions(options.config) as sessions:
        state, owner = _read_state(sessions, session_id, owner, options.config)
        executions = [call.to_dict() for call in sessions.calls(session_id, owner)]
        digest = sessions.state_hash(session_id, owner)
    if options.json:
        print_json({"session_id": session_id, "state_hash": digest, **state, "tool_executions": executions})
        return 0
    del state["tool_executions"]
    rows = [(str(entry["seq"]), *_time_row(entry), *_entry_row(entry)) for entry in executions[-_SHOWN:]]
    print_table(f"Session {session_id}", ["#", "time", "took", "tool", "arguments", "result"], rows)
    if len(executions) > _SHOWN:
        print_text(f"... the last {_SHOWN} of {len(executions):,} calls; --json lists all")
    for engine, values in state.items():
        print_text(f"{engine}: {shorten(values, _WIDE)}")
    print_text(f"{counted(len(executions), 'call')}, state {digest[:16]}")
    return 0


def fork_(
    session_id: Annotated[str, Parameter(help="The session to fork.")],
    new_id: Annotated[str, Parameter(help="Name of the fork.")],
    /,
    *,
    at: Annotated[int | None, Parameter(help="Number of calls to keep; by default all.")] = None,
    owner: OwnerOption = None,
    options: YardOptions = YARD,
) -> int:
    """Open a session where another one now is, or was; nothing is copied."""
    with open_yard(options.config, durable=True) as yard:
        _, owner = _read_state(yard.tool_engine.sessions, session_id, owner, options.config)
        yard.tool_engine.setup(new_id, fork_of=session_id, at=at, owner=owner)
        digest = yard.tool_engine.state_hash(new_id, owner=owner)
    point = {} if at is None else {"at": at}
    made = {"session_id": new_id, "fork_of": session_id, **point, "state_hash": digest}
    text = f"{new_id} is a fork of {_name_point(session_id, at)}, state {digest[:16]}"
    return print_either(options.json, made, text)


def diff_(
    session_id: Annotated[str, Parameter(help="First session.")],
    other_id: Annotated[
        str | None, Parameter(help="Second session; by default the first, to compare two of its entries.")
    ] = None,
    /,
    *,
    at_a: Annotated[int | None, Parameter(help="Use only this many calls of the first session.")] = None,
    at_b: Annotated[int | None, Parameter(help="Use only this many calls of the second session.")] = None,
    owner: OwnerOption = None,
    options: YardOptions = YARD,
) -> int:
    """Show where two sessions diverge, and how their worlds differ; exits 1 if they do."""
    points = ((session_id, at_a), (session_id if other_id is None else other_id, at_b))
    with open_sessions(options.config) as sessions:
        _, owner = _read_state(sessions, session_id, owner, options.config)
        calls = [_read_state(sessions, name, owner, options.config)[0]["tool_executions"][:at] for name, at in points]
        left, right = (sessions.world(name, owner, at=at).to_dict() for name, at in points)
        world = sessions.world_diff(session_id, other_id, owner, at_a=at_a, at_b=at_b)
    parted = (number for number, (one, other) in enumerate(zip(*calls, strict=False)) if one != other)
    common = next(parted, min(map(len, calls)))
    same = len(calls[0]) == len(calls[1]) == common and left == right
    names = [_name_point(name, at) for name, at in points]
    rest = [made[common:] for made in calls]
    if options.json:
        entries, states = (dict(zip(names, sides, strict=True)) for sides in (rest, (left, right)))
        print_json({"equal": same, "common": common, "entries": entries, "state": states, "world": world.to_dict()})
        return 0 if same else 1
    print_text(f"{counted(common, 'call')} in common")
    for sign, name, made in zip("<>", names, rest, strict=True):
        for number, entry in enumerate(made[:_SHOWN], common + 1):
            print_text(f"{sign} {name} {number}: {'  '.join(_entry_row(entry))}")
    for change in world.changes:
        print_text(change.describe())
    if world.left_out:
        print_text(f"... and {counted(world.left_out, 'change')} more")
    return 0 if same else 1


def export_(session_id: SessionName, /, *, owner: OwnerOption = None, options: YardOptions = YARD) -> int:
    """Print a session as one JSON document, which `setup(initial_state=...)` accepts."""
    with open_sessions(options.config) as sessions, working(f"exporting {session_id}"):
        state, _ = _read_state(sessions, session_id, owner, options.config)
    print_json(state)
    return 0


def delete_(session_id: SessionName, /, *, owner: OwnerOption = None, options: YardOptions = YARD) -> int:
    """End a session and delete everything that only it uses."""
    with open_yard(options.config, durable=True) as yard:
        _, owner = _read_state(yard.tool_engine.sessions, session_id, owner, options.config)
        yard.tool_engine.teardown(session_id, owner=owner)
    return print_either(options.json, {"deleted": session_id}, f"{session_id} is deleted")


def _name_point(session_id: str, at: int | None) -> str:
    return session_id if at is None else f"{session_id}@{at}"


def _read_state(
    sessions: Sessions, session_id: str, owner: str | None, config: Path | None
) -> tuple[dict[str, Any], str | None]:
    """The state and the owner of a session."""
    whose = choose_owner(sessions, session_id, owner, config)
    state = sessions.state(session_id, whose)
    if state is None:
        raise missing_session(sessions.store, session_id, owner, config)
    return state, whose


def _entry_row(entry: dict[str, Any]) -> tuple[str, str, str]:
    call, output = entry["tool_call"], entry["tool_output"]
    info = output.get("error_info")
    answer = f"{info['code']}: {output['error']}" if info else shorten(output["result"], _WIDE)
    return call["name"], shorten(call["arguments"], _WIDE), answer[:_WIDE]


def _time_row(entry: dict[str, Any]) -> tuple[str, str]:
    """When a call was recorded, and how long it took; empty if unknown."""
    at, took = entry.get("at"), entry.get("took")
    when = "" if at is None else write_time(datetime.fromisoformat(at).timestamp())
    return when, "" if took is None else f"{took:.2f} s" if took >= 1 else f"{took * 1000:.1f} ms"

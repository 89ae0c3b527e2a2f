"""`toolyard approvals`: list, show and decide held calls; and the approval prompt of `toolyard call`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from toolyard.calls.approval import Approval, Preview, WantedState, format_time
from toolyard.calls.approvals import Approvals
from toolyard.calls.policy import Ask
from toolyard.cli.options import YARD, YardOptions
from toolyard.cli.output import print_json, print_list, print_text, shorten, visible, warn, write_command
from toolyard.cli.yard import describe_store, open_sessions
from toolyard.model.errors import UnknownApprovalError
from toolyard.sessions.records import open_records
from toolyard.sessions.store.sql import steady_clock

_MOST = 1000
_WIDE = 120
ApprovalName = Annotated[str, Parameter(help="Id of the approval.")]
ReasonOption = Annotated[str | None, Parameter(name="--reason", help="Reason, shown to the caller.")]


def list_(
    *,
    state: Annotated[WantedState, Parameter(help="State of the approvals to list.")] = "pending",
    options: YardOptions = YARD,
) -> int:
    """List the calls that wait for approval, newest first."""
    with _open_approvals(options.config) as approvals:
        found = approvals.list(state=state, limit=_MOST).approvals
    columns = ["id", "state", "tool", "arguments", "caller", "session", "from", "expires"]
    if not found:
        warn(f"looked in {describe_store(options.config)}")
    return print_list(options.json, "approval", map(Approval.to_dict, found), columns, map(_list_cells, found))


def _list_cells(one: Approval) -> tuple[str, ...]:
    expires = format_time(one.expires) if one.state in ("pending", "approved") else ""
    arguments = shorten(one.arguments, _WIDE)
    return one.id, one.state, one.tool, arguments, one.caller, one.session_id, one.yard, expires


def show_(
    approval_id: Annotated[str, Parameter(help="Id of the approval; see `toolyard approvals list`.")],
    /,
    *,
    options: YardOptions = YARD,
) -> int:
    """Show an approval: the call, what it would change, and its outcome."""
    with _open_approvals(options.config) as approvals:
        return _print_approval(approvals.get(approval_id), options)


def approve_(approval_id: ApprovalName, /, *, reason: ReasonOption = None, options: YardOptions = YARD) -> int:
    """Let a call run, once: a waiting `toolyard call --wait` continues, otherwise repeat the call."""
    with _open_approvals(options.config) as approvals:
        return _print_approval(approvals.approve(approval_id, reason=reason), options)


def deny_(approval_id: ApprovalName, /, *, reason: ReasonOption = None, options: YardOptions = YARD) -> int:
    """Refuse a call, also if it is repeated before the approval expires."""
    with _open_approvals(options.config) as approvals:
        return _print_approval(approvals.deny(approval_id, reason=reason), options)


def ask_at_terminal(ask: Ask) -> bool:
    """Show the call and what it would change, and ask for a decision; end of input denies it."""
    approval = ask.approval
    lines = [] if approval is None else _describe_call(approval)
    sys.stderr.write(visible("\n".join([f"{ask.tool.qualified_name} needs your approval:", *lines])) + "\n")
    while True:
        sys.stderr.write("[a]pprove / [d]eny: ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        word = answer.strip().lower()
        if not answer or word in ("d", "deny", "a", "approve"):
            return word.startswith("a")


def describe_decision(approval: Mapping[str, str], config: Path | None) -> str:
    """The command that approves a held call, with its deadline."""
    command = write_command(config, "approvals", "approve", approval["id"])
    return f"approve it before {approval['expires']}, or deny it:\n    {command}"


@contextmanager
def _open_approvals(config: Path | None) -> Iterator[Approvals]:
    """The approvals in the config's session store; tools are not loaded."""
    with open_sessions(config) as sessions:
        records = open_records(sessions.store, clock=steady_clock(sessions.store, dated=True))
        with closing(Approvals(records)) as approvals:
            try:
                yield approvals
            except UnknownApprovalError as error:
                raise UnknownApprovalError(f"{error} in {describe_store(config)}") from None


def _print_approval(approval: Approval, options: YardOptions) -> int:
    if options.json:
        print_json(approval.to_dict())
        return 0
    session = f" in session {approval.session_id}" if approval.session_id else ""
    file = f" from {approval.yard}" if approval.yard else ""
    print_text(f"{approval.tool}, called by {approval.caller}{session}{file} at {format_time(approval.created)}")
    print_text("\n".join([*_describe_call(approval), f"  {approval.state_words}"]))
    if approval.outcome is not None:
        print_text("\n".join(f"    {line}" for line in (*approval.outcome.changes, *approval.outcome.differences)))
    return 0


def _describe_call(approval: Approval) -> list[str]:
    return [
        f"  arguments: {json.dumps(approval.arguments, ensure_ascii=False)}",
        f"  rule: {approval.rule}",
        *(() if approval.preview is None else _describe_preview(approval.preview)),
    ]


def _describe_preview(preview: Preview) -> list[str]:
    if preview.maker is None:
        return [f"  cannot be predicted: {preview.why_not}"]
    return [
        f"  predicted by {preview.maker}: {preview.code} {shorten(preview.result, _WIDE)}",
        *(f"    {line}" for line in preview.changes or ("nothing in the session changes",)),
    ]

"""`Approval`: one call that waits for a person's decision: what it is bound to, what it would do, what became of it.

Who may decide is said here, once, for every face (`check_decider`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.call import Mode
from toolyard.model.errors import ApprovalForbiddenError, Effect
from toolyard.model.names import glob_matcher
from toolyard.model.tool import digest

ApprovalState = Literal["pending", "approved", "denied", "expired", "used"]
TIMES = ("created", "expires", "decided_at", "used_at")
"""What of an approval is a time."""


class Preview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the call would do, as far as that can be foreseen; its maker is named, or else why there is none."""

    maker: str | None = None
    is_stand_in: bool = False
    """True if the maker is not what will answer the call: it has a separate world."""
    why_not: str | None = None
    code: str | None = None
    """`ok`, or the code of the error that it would end with."""
    result: Any = None
    changes: tuple[str, ...] = ()
    """Of the session's world, such as `orders.1042.status: "paid" -> "refunded"`."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What really happened."""

    code: str
    """`ok`, or the code of the error."""
    effect: Effect | None = None
    """Of a call that failed: whether the world may have changed."""
    changes: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    """Where that is not what was foreseen, in words; empty also where nothing was."""


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call that waits, or waited, for approval. Nothing in it is secret: arguments are redacted."""

    id: str = ""
    state: ApprovalState = "pending"
    owner: str
    """Id of the key that the call was made with; empty for the program itself, and over a wire without keys."""
    caller: str
    """The name of that key; `program`, or `anonymous`."""
    session_id: str
    """Empty for a call without a session."""
    tool: str
    yard: str = ""
    """The file that the call was made from, where yards share a store; empty where the store is the yard's own."""
    created: float = 0.0
    expires: float = 0.0
    definition_hash: str
    digest: str
    """SHA-256 of the canonical JSON of the arguments, after coercion and defaults."""
    arguments: dict[str, Any]
    """To be shown to the person who decides; not what runs."""
    mode: Mode = "execute"
    call_id: str | None = None
    rule_number: int = -1
    """Which of the policy's rules asks; -1 for its default."""
    rule: str = ""
    approvers: tuple[str, ...] = ()
    """Globs of the keys that may decide; empty for every key with the verb `approve`."""
    self_allowed: bool = False
    decided_at: float | None = None
    decided_by: str | None = None
    reason: str | None = None
    used_at: float | None = None
    preview: Preview | None = None
    outcome: Outcome | None = None
    """None for one that is used: it is running, or its process ended before it could say; then it is not known."""

    @property
    def namespace(self) -> str:
        """Of the tool."""
        return self.tool.partition(TOOL_NAMESPACE_SEP)[0]

    @property
    def binding(self) -> str:
        """The same for every sending of the same call by the same caller, and for no other."""
        bound = (self.owner, self.caller, self.session_id, self.tool, self.definition_hash, self.digest, self.mode)
        # What was held before there were yards, or in a separate store, keeps the place that it has.
        return digest(*bound, *filter(None, [self.yard]))[:24]

    @property
    def state_words(self) -> str:
        """What became of it, for people."""
        if self.state == "pending":
            return f"waits for a decision until {format_time(self.expires)}"
        if self.state == "expired":
            undecided = "nobody decided" if self.decided_at is None else f"approved by {self.decided_by}, but not used"
            return f"expired: {undecided} before {format_time(self.expires)}"
        decided = f"{self.decided_by} at {format_time(self.decided_at or 0.0)}"
        decided += f": {self.reason}" if self.reason else ""
        if self.state != "used":
            return f"{self.state} by {decided}"
        code = "its outcome is not known" if self.outcome is None else f"the call ended with {self.outcome.code}"
        return f"used at {format_time(self.used_at or 0.0)}, approved by {decided}; {code}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, everything in it, times as text, and `state_words`."""
        data: dict[str, Any] = msgspec.to_builtins({name: getattr(self, name) for name in self.__struct_fields__})
        for name in TIMES:
            if data[name] is not None:
                data[name] = datetime.fromtimestamp(data[name], UTC).isoformat(timespec="milliseconds")
        return {**data, "state_words": self.state_words}


def format_time(moment: float) -> str:
    """A moment as people and programs read it, in UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class Decider(msgspec.Struct, frozen=True, kw_only=True):
    """A person or program that looks at approvals, or decides: the operator, or the holder of a key (or of none)."""

    name: str
    owner: str = ""
    """Id of the key."""
    keys: tuple[str, ...] = ()
    """Its id and its name, as `approvers` are compared with."""
    is_operator: bool = False
    approves: Callable[[str], bool] = lambda namespace: False
    """True for the namespaces for which it has the verb `approve`."""

    def is_caller_of(self, approval: Approval) -> bool:
        """True if the call is their own; all who come without a key are one."""
        return not self.is_operator and self.owner == approval.owner and approval.caller != PROGRAM


PROGRAM = "program"
ANONYMOUS = "anonymous"
OPERATOR = Decider(name="operator", is_operator=True)
"""The program itself and the person at its terminal."""


_WITHOUT_KEYS = (
    "without keys all who come are one caller: say so in the rule ({{ask: ..., self: true}}), give callers keys "
    "(toolyard key create, with the verb approve), or decide at the server's terminal (toolyard approvals approve {}), "
    "which finds it only if the config has a store that both use (sessions: {{store: sqlite, path: FILE}})"
)


def check_decider(approval: Approval, decider: Decider) -> None:
    """Raise unless they may decide; every face asks here.

    The operator always may. No caller decides on their own call, unless its rule says `self: true`. All others
    needs the verb `approve` for the tool's namespace, and where the rule names `approvers`, a key that is one.
    """
    if decider.is_operator:
        return
    if decider.is_caller_of(approval):
        if not approval.self_allowed:
            who = "somebody else must decide" if decider.owner else _WITHOUT_KEYS.format(approval.id)
            raise ApprovalForbiddenError(f"{approval.id} is about a call of your own; {who}")
    elif not decider.approves(approval.namespace):
        raise ApprovalForbiddenError(f"this key has no verb approve for the namespace {approval.namespace}")
    elif approval.approvers and not any(map(glob_matcher(approval.approvers), decider.keys)):
        raise ApprovalForbiddenError(f"the rule ({approval.rule}) leaves the decision to other keys")


def may_see(approval: Approval, decider: Decider) -> bool:
    """True if they may see it: it is their own call, or in a namespace for which they may decide."""
    return decider.is_operator or decider.is_caller_of(approval) or decider.approves(approval.namespace)

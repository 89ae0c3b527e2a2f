"""`Approval`: the record of a call that needs a person's decision: what it is bound to, its preview and its outcome.

All interfaces use `check_decider` to check who may decide.
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
WantedState = Literal[ApprovalState, "all"]
"""What a list of approvals is asked for."""
TIMES = ("created", "expires", "decided_at", "used_at")
"""The fields of an approval that are times."""


class Preview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prediction of what the call would do: `maker` names what made it, or `why_not` says why there is none."""

    maker: str | None = None
    is_stand_in: bool = False
    """True if the maker is not what will run the call, and so has a separate world."""
    why_not: str | None = None
    code: str | None = None
    """`ok`, or the error code that the call would end with."""
    result: Any = None
    changes: tuple[str, ...] = ()
    """Of the session's world, such as `orders.1042.status: "paid" -> "refunded"`."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the call did."""

    code: str
    """`ok`, or the code of the error."""
    effect: Effect | None = None
    """For a failed call: whether it may have taken effect."""
    changes: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    """How that differs from the preview, in words; empty if there was no preview."""


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call that needs, or needed, approval. It holds no secrets: arguments are redacted."""

    id: str = ""
    state: ApprovalState = "pending"
    owner: str
    """Id of the caller's key; empty for the program itself, and for remote callers without keys."""
    caller: str
    """Name of that key, or `program` or `anonymous`."""
    session_id: str
    """Empty for a call without a session."""
    tool: str
    yard: str = ""
    """Path of the yard's file if several yards share the store, else empty."""
    created: float = 0.0
    expires: float = 0.0
    definition_hash: str
    digest: str
    """SHA-256 of the canonical JSON of the arguments, after coercion and defaults."""
    arguments: dict[str, Any]
    """For display to the person who decides; the call runs with its own."""
    mode: Mode = "execute"
    call_id: str | None = None
    rule_number: int = -1
    """Index of the policy's rule that requires approval; -1 for its default."""
    rule: str = ""
    approvers: tuple[str, ...] = ()
    """Globs of names or ids of keys that may decide; empty for every key with the verb `approve`."""
    self_allowed: bool = False
    decided_at: float | None = None
    decided_by: str | None = None
    reason: str | None = None
    used_at: float | None = None
    preview: Preview | None = None
    outcome: Outcome | None = None
    """None in state `used`: the call is running, or its process ended and the outcome is unknown."""

    @property
    def namespace(self) -> str:
        """Namespace of the tool."""
        return self.tool.partition(TOOL_NAMESPACE_SEP)[0]

    @property
    def binding(self) -> str:
        """A hash that is equal for repeats of the same call by the same caller, and for no other call."""
        bound = (self.owner, self.caller, self.session_id, self.tool, self.definition_hash, self.digest, self.mode)
        # An empty yard is left out, so that records stored before the field existed keep their binding.
        return digest(*bound, *filter(None, [self.yard]))[:24]

    @property
    def state_words(self) -> str:
        """The state in words, for people."""
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
        """All fields as plain JSON, with times as text, plus `state_words`."""
        data: dict[str, Any] = msgspec.to_builtins({name: getattr(self, name) for name in self.__struct_fields__})
        for name in TIMES:
            if data[name] is not None:
                data[name] = datetime.fromtimestamp(data[name], UTC).isoformat(timespec="milliseconds")
        return {**data, "state_words": self.state_words}


def format_time(moment: float) -> str:
    """A time in seconds since the epoch, as ISO 8601 in UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class Decider(msgspec.Struct, frozen=True, kw_only=True):
    """A person or program that reads or decides approvals: the operator, or a remote caller with or without a key."""

    name: str
    owner: str = ""
    """Id of the key."""
    keys: tuple[str, ...] = ()
    """Its id and name, to match against `approvers`."""
    is_operator: bool = False
    approves: Callable[[str], bool] = lambda namespace: False
    """Returns True for namespaces for which the key has the verb `approve`."""

    def is_caller_of(self, approval: Approval) -> bool:
        """True if the call is their own; remote callers without a key count as one caller."""
        return not self.is_operator and self.owner == approval.owner and approval.caller != PROGRAM


PROGRAM = "program"
ANONYMOUS = "anonymous"
OPERATOR = Decider(name="operator", is_operator=True)
"""The program itself and the person at its terminal."""


_WITHOUT_KEYS = (
    "without keys all callers count as one: allow it in the rule ({{ask: ..., self: true}}), give callers keys "
    "(toolyard key create, with the verb approve), or decide at the server's terminal (toolyard approvals approve {}), "
    "which finds it only if the config has a store that both use (sessions: {{store: sqlite, path: FILE}})"
)


def check_decider(approval: Approval, decider: Decider) -> None:
    """Raise `ApprovalForbiddenError` unless `decider` may decide on the approval.

    The operator always may. A caller may decide on its own call only if the rule says `self: true`. All others need a
    key with the verb `approve` for the tool's namespace, and one of the `approvers` if the rule names any.
    """
    if decider.is_operator:
        return
    if decider.is_caller_of(approval):
        if not approval.self_allowed:
            who = "another person must decide" if decider.owner else _WITHOUT_KEYS.format(approval.id)
            raise ApprovalForbiddenError(f"{approval.id} is about a call of your own; {who}")
    elif not decider.approves(approval.namespace):
        raise ApprovalForbiddenError(f"this key has no verb approve for the namespace {approval.namespace}")
    elif approval.approvers and not any(map(glob_matcher(approval.approvers), decider.keys)):
        raise ApprovalForbiddenError(f"the rule ({approval.rule}) leaves the decision to other keys")


def may_see(approval: Approval, decider: Decider) -> bool:
    """True for the operator, for the caller's own calls, and for namespaces with the verb `approve`."""
    return decider.is_operator or decider.is_caller_of(approval) or decider.approves(approval.namespace)

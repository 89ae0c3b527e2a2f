"""`Policy`: which calls may run. The first rule that matches decides; then budgets apply, then approvals.

A refusal is a `Denied` that names the rule and what to change. It never contains values of the call's arguments, since
it is sent to a model, the history and logs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolyard.calls.approval import Approval
from toolyard.calls.approvals import KEEP
from toolyard.calls.budgets import NO_BUDGETS, Budget, Ledger
from toolyard.model.call import Mode
from toolyard.model.errors import ConfigError, Denied
from toolyard.model.json_schema import list_given
from toolyard.model.names import ToolGlobs, glob_matcher
from toolyard.model.tool import Effects, Tool
from toolyard.schema.options import Text, check_fields, read_option, read_options

Action = Literal["allow", "deny", "ask"]

_ACTIONS: tuple[Action, ...] = get_args(Action)
_CONDITIONS = ("effects", "tags", "keys", "sessions")
_ASKING = ("expires", "approvers", "self_approval", "preview")
"""Keys that only a rule `ask` may have."""
_EXPIRES = 900.0
_REMEMBERED = 4096

_SomeEffects = Annotated[
    tuple[Effects, ...],
    Meta(min_length=1, description="Match only tools with one of these effects.", extra={"one": True}),
]
_SomeTags = Annotated[
    tuple[Text, ...], Meta(min_length=1, description="Match only tools with one of these tags.", extra={"one": True})
]
_SomeKeys = Annotated[
    tuple[Text, ...],
    Meta(
        min_length=1,
        description="Match only calls with a key of these names or ids (globs).",
        extra={"one": True},
    ),
]
_SomeSessions = Annotated[
    tuple[Text, ...],
    Meta(
        min_length=1,
        description="Match only calls in sessions with these ids (globs). Remote callers choose the id, "
        "so a rule that allows by it applies to them only together with `keys`.",
        extra={"one": True},
    ),
]
_Seconds = Annotated[
    float,
    Meta(gt=0, le=KEEP, description="For `ask`: seconds until a pending or approved call expires."),
]
_Approvers = Annotated[
    tuple[Text, ...],
    Meta(
        min_length=1,
        description="For `ask`: globs of names or ids of keys that may decide. These keys also need the "
        "verb `approve`. By default, every key with that verb may decide.",
        extra={"one": True},
    ),
]
_SelfApproval = Annotated[bool, Meta(description="For `ask`: callers may approve their own calls.")]
_Previews = Annotated[bool, Meta(description="For `ask`: predict what the call would change, if possible.")]


class Rule(msgspec.Struct, frozen=True):
    """One rule of a policy: what to do with calls that match all of its conditions.

    `tools` are globs of qualified names, case-sensitive, where `*` also matches `::` (write `[[]` for a literal
    bracket). `tags` matches tools with any of them. `keys` are globs of the name or id of the caller's key, `sessions`
    globs of session ids.

    Remote callers choose the ids of their sessions, so an id must never grant them anything: without `keys`, a rule
    that allows by `sessions` applies only to the program itself.
    """

    action: Action
    tools: ToolGlobs | str = ("*",)
    effects: _SomeEffects | None = None
    tags: _SomeTags | None = None
    sessions: _SomeSessions | str | None = None
    keys: _SomeKeys | str | None = None
    expires: _Seconds = _EXPIRES
    approvers: _Approvers | str | None = None
    self_approval: _SelfApproval = False
    preview: _Previews = True

    def __post_init__(self) -> None:
        check_fields(self, "Rule")

    def __str__(self) -> str:
        given = [f"{key} {', '.join(getattr(self, key))}" for key in _CONDITIONS if getattr(self, key) is not None]
        return "; ".join([f"{self.action} {', '.join(self.tools)}", *given])

    @property
    def chosen_by_callers(self) -> str | None:
        """A warning if the rule depends on session ids, which remote callers choose; else None."""
        if self.sessions is None or "*" in self.sessions or self.keys is not None:
            return None
        if self.action == "allow":
            return "remote callers choose their session ids, so it allows them nothing; add keys to say whose sessions"
        return "remote callers choose their session ids, and can avoid it by another id; add keys to say whose sessions"


class RuleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with calls that match all given conditions."""

    allow: Annotated[ToolGlobs | UnsetType, Meta(description="Tools to allow: globs of qualified names.")] = UNSET
    deny: Annotated[ToolGlobs | UnsetType, Meta(description="Tools to deny: globs of qualified names.")] = UNSET
    ask: Annotated[ToolGlobs | UnsetType, Meta(description="Tools that need approval: globs of qualified names.")] = (
        UNSET
    )
    effects: _SomeEffects | UnsetType = UNSET
    tags: _SomeTags | UnsetType = UNSET
    sessions: _SomeSessions | UnsetType = UNSET
    keys: _SomeKeys | UnsetType = UNSET
    expires: _Seconds | UnsetType = UNSET
    approvers: _Approvers | UnsetType = UNSET
    self_approval: _SelfApproval | UnsetType = msgspec.field(default=UNSET, name="self")
    preview: _Previews | UnsetType = UNSET

    schema_rules: ClassVar[dict[str, Any]] = {"oneOf": [{"required": [action]} for action in _ACTIONS]}

    def __post_init__(self) -> None:
        given = self._actions
        if len(given) != 1:
            found = f"it has {' and '.join(given)}" if given else "it has none"
            raise ConfigError(f"a rule has exactly one of allow, deny, ask with the tools it is about; {found}")
        if self.ask is UNSET and (asking := self._given(_ASKING)):
            raise ConfigError(f"only a rule that asks has {' and '.join(asking).replace('self_approval', 'self')}")

    def _given(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not UNSET}

    @property
    def _actions(self) -> dict[Action, Any]:
        return cast("dict[Action, Any]", self._given(_ACTIONS))

    @property
    def rule(self) -> Rule:
        """These options as a `Rule`."""
        [(action, tools)] = self._actions.items()
        return Rule(action, tools, **self._given((*_CONDITIONS, *_ASKING)))


class PolicyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls may run."""

    default: Annotated[Action, Meta(description="Applies to calls that no rule matches.")] = "allow"
    rules: Annotated[
        tuple[RuleOptions, ...],
        Meta(description="Rules, checked in order; the first that matches decides."),
    ] = ()
    budgets: Annotated[tuple[Budget, ...], Meta(description="Limits on the number of calls.")] = ()


class Ask(msgspec.Struct, frozen=True):
    """The question to an approver: may this tool run with these arguments? Its repr omits the arguments."""

    tool: Tool
    session_id: str
    arguments: Mapping[str, Any]
    mode: Mode
    approval: Approval | None = None
    """The record of the call, with its preview."""

    def __repr__(self) -> str:
        return f"Ask({self.tool.qualified_name!r}, session_id={self.session_id!r}, mode={self.mode!r})"


Approver = Callable[[Ask], bool | Coroutine[Any, Any, bool]]
"""Approves by returning True, at once or when awaited. Anything else, including an exception, refuses."""


class RuleLine:
    """A rule with its globs compiled. Number -1 is the default, which matches everything."""

    __slots__ = ("action", "effects", "for_all_callers", "keys", "number", "rule", "sessions", "tags", "text", "tools")

    def __init__(self, number: int, rule: Rule) -> None:
        self.number = number
        self.rule = rule
        self.text = str(rule)
        self.action = rule.action
        self.tools = glob_matcher(rule.tools)
        self.effects = None if rule.effects is None else frozenset(rule.effects)
        self.tags = None if rule.tags is None else frozenset(rule.tags)
        self.keys = None if rule.keys is None else glob_matcher(rule.keys)
        self.sessions = None if rule.sessions is None or "*" in rule.sessions else glob_matcher(rule.sessions)
        self.for_all_callers = self.keys is None and self.sessions is None

    def fits(self, tool: Tool, name: str) -> bool:
        """True when every condition on the tool itself holds."""
        if self.effects is not None and tool.effects not in self.effects:
            return False
        if self.tags is not None and self.tags.isdisjoint(tool.tags):
            return False
        return bool(self.tools(name))

    def holds_for(self, session_id: str, keys: Sequence[str] | None) -> bool:
        """True when every condition on session and key holds; `keys` as in `Policy.check`."""
        if self.keys is not None and not any(map(self.keys, keys or ())):
            return False
        if self.sessions is None:
            return True
        # Remote callers choose the session id, so it must not allow them anything.
        chosen = keys is not None and self.keys is None and self.action == "allow"
        return not chosen and bool(self.sessions(session_id))

    def may_hold_for(self, keys: Sequence[str] | None) -> bool:
        """True if it holds in at least one session for a caller with these keys; `keys` as in `Policy.check`."""
        if self.keys is not None:
            return keys is not None and any(map(self.keys, keys))
        return keys is None or self.sessions is None or self.action != "allow"


class Policy:
    """Rules, budgets and an approver, checked before every call. Immutable and thread-safe.

    Without rules, `default` decides, which allows all calls unless it is set to `"deny"` or `"ask"`.
    """

    __slots__ = ("_approver", "_ledger", "_lines", "_plans", "_rules")

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        default: Action = "allow",
        budgets: Iterable[Budget] = (),
        approver: Approver | None = None,
    ) -> None:
        read_option(PolicyOptions, "default", default, "Policy.default")
        self._rules = tuple(list_given(rules, "rules"))
        limits = tuple(list_given(budgets, "budgets"))
        given: list[tuple[type, object]] = [*((Rule, rule) for rule in self._rules), *((Budget, one) for one in limits)]
        for kind, one in given:
            if not isinstance(one, kind):
                hint = "; Policy.from_config reads a `policy` block" if isinstance(one, dict) else ""
                raise ConfigError(f"expected a list of {kind.__name__}, got {type(one).__name__}{hint}")
        if approver is not None and not callable(approver):
            raise ConfigError("approver: must be a function that gets an Ask and returns True or False")
        self._approver = approver
        self._lines = [
            *(RuleLine(number, rule) for number, rule in enumerate(self._rules)),
            RuleLine(-1, Rule(default)),
        ]
        self._ledger = Ledger(limits) if limits else NO_BUDGETS
        self._plans: dict[tuple[str, str, Effects, tuple[str, ...]], tuple[RuleLine, ...]] = {}

    # Read-only: an assignment would have no effect, but look as if it had made the policy stricter.

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in the order in which they are tried."""
        return self._rules

    @property
    def default(self) -> Action:
        """The action for calls that no rule matches."""
        return self._lines[-1].action

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets, in the order given; errors refer to them by index."""
        return self._ledger.budgets

    @property
    def trivial(self) -> bool:
        """True if `check` never refuses a call, so that it can be skipped."""
        return not self.budgets and all(line.action == "allow" for line in self._lines)

    @property
    def asks(self) -> bool:
        """True if some calls may need approval."""
        return any(line.action == "ask" for line in self._lines)

    @property
    def approver(self) -> Approver | None:
        """The function that decides held calls at once, if any; else they wait for a person."""
        return self._approver

    @property
    def counts_calls(self) -> bool:
        """True if a budget applies per session, so that `check` needs `counts`."""
        return self._ledger.counts_calls

    @classmethod
    def from_config(cls, block: Any, where: str = "policy", *, approver: Approver | None = None) -> Policy:
        """The policy of a `policy` block; `where` names the block in errors, such as `yard.yaml: policy`."""
        return cls.from_options(read_options(PolicyOptions, block, where), approver)

    @classmethod
    def from_options(cls, options: PolicyOptions, approver: Approver | None = None) -> Policy:
        """The policy of a parsed `policy` block."""
        return cls([line.rule for line in options.rules], options.default, options.budgets, approver)

    def counts_of(self, owner: str) -> dict[str, int]:
        """Live counts of an owner's calls without a session, by tool; passed to `check` as `counts` and `shared`."""
        return self._ledger.by_owner.setdefault(owner, {})

    def check(
        self,
        tool: Tool,
        *,
        session_id: str,
        counts: Mapping[str, int],
        keys: Sequence[str] | None = None,
        shared: dict[str, int] | None = None,
    ) -> RuleLine | None:
        """Raise `Denied` unless the call may run. Returns the rule if the call needs approval first, else None.

        `keys` are id and name of the caller's key: empty for a remote caller without one, None for the program itself.
        `counts` are the numbers of calls in this session so far, by qualified name; read only if `counts_calls`.
        A call that may run is counted at once, against whole-process budgets and in `shared`; one that needs approval
        is counted by `spend` once it is approved.
        """
        line = self._find_line(tool, session_id, keys)
        if line.action == "deny":
            raise deny_call(tool.qualified_name, line)
        if self._ledger.budgets:
            self._ledger.check(tool.qualified_name, counts)
        if line.action == "ask":
            # After the budgets: do not ask people about a call that would be refused anyway.
            return line
        if self._ledger.budgets:
            self._ledger.spend(tool.qualified_name, shared)
        return None

    def spend(self, tool: Tool, shared: dict[str, int] | None) -> Callable[[], None]:
        """Count an approved call; `Denied` if a budget was used up in the meantime.

        Returns a function that undoes the count, for a call that never begins.
        """
        self._ledger.spend(tool.qualified_name, shared)
        return partial(self._ledger.refund, tool.qualified_name, shared)

    @property
    def looks_at_keys(self) -> bool:
        """True if a rule depends on the caller's key."""
        return any(line.keys is not None for line in self._lines)

    def always_denies(self, tool: Tool, keys: Sequence[str] | None) -> bool:
        """True if calls of the tool with these keys are denied in every session, whatever the arguments."""
        if any(self.budgets[number].max_calls == 0 for number in self._ledger.matching(tool.qualified_name)):
            return True
        for line in self._lines_for(tool):
            if not line.may_hold_for(keys):
                continue
            if line.action != "deny":
                return False
            if line.sessions is None:
                return True
        raise AssertionError("the default matches every call")

    def list_offered(self, tools: Iterable[Tool]) -> list[Tool]:
        """The tools to offer a model: all that are not always denied to the program itself."""
        return [tool for tool in tools if not self.always_denies(tool, None)]

    def foresee_action(self, tool: Tool) -> Action:
        """The action for a call by the program itself, in a session that no rule names."""
        return self._find_line(tool, "", None).action

    def may_ask(self, tool: Tool, keys: Sequence[str]) -> bool:
        """True if remote calls of the tool with these keys need approval in at least some sessions."""
        for line in self._lines_for(tool):
            if line.may_hold_for(keys):
                if line.action == "ask":
                    return True
                if line.sessions is None:
                    return False
        raise AssertionError("the default matches every call")

    def _find_line(self, tool: Tool, session_id: str, keys: Sequence[str] | None) -> RuleLine:
        for line in self._lines_for(tool):
            if line.for_all_callers or line.holds_for(session_id, keys):
                return line
        raise AssertionError("the default matches every call")

    def _lines_for(self, tool: Tool) -> tuple[RuleLine, ...]:
        """The lines that may decide on this tool: those that match it, up to the first that holds for all callers."""
        # The key has everything that rules check of a tool, so a redefined tool of the same name is evaluated again.
        key = (tool.namespace, tool.name, tool.effects, tool.tags)
        plan = self._plans.get(key)
        if plan is None:
            fitting: list[RuleLine] = []
            for line in self._lines:
                if line.fits(tool, tool.qualified_name):
                    fitting.append(line)
                    if line.for_all_callers:
                        break
            if len(self._plans) >= _REMEMBERED:
                self._plans.clear()
            plan = self._plans[key] = tuple(fitting)
        return plan

    def ask_approver(self, ask: Ask) -> object:
        """The approver's answer, or a coroutine for it."""
        # Pass a copy, so that the approver cannot change the arguments that will be used.
        return cast("Approver", self._approver)(msgspec.structs.replace(ask, arguments=copy.deepcopy(ask.arguments)))

    def check_answer(self, line: RuleLine, tool: Tool, answer: object) -> None:
        """Raise `Denied` unless the approver's answer, or the exception that it raised, is a yes."""
        name = tool.qualified_name
        if isinstance(answer, BaseException):
            # Only the type: the message may quote the arguments. It is available as the cause.
            why = f"needs approval, and asking failed with {type(answer).__name__}"
            raise deny_call(name, line, why, "see the approver's own log, then call again") from answer
        if not isinstance(answer, bool):
            why = f"needs approval, and the approver returned {type(answer).__name__}"
            raise deny_call(name, line, why, "have it return True or False")
        if not answer:
            raise deny_call(name, line, "was not approved", "go on without this call")


def deny_call(name: str, line: RuleLine, why: str = "is denied", remedy: str | None = None, **details: Any) -> Denied:
    """The error for a call that a rule denies, or that was not approved under it."""
    if line.number < 0:
        place = f"policy.default ({line.action}), since no rule matches"
        change = f"add a rule that allows it, such as {{allow: {name!r}}}"
    else:
        place = f"policy.rules[{line.number}] ({line.text})"
        change = "change that rule, or put one that allows the call before it"
    return Denied(
        f"{name} {why}: {place}",
        hint=f"{remedy}; or {change}" if remedy else change,
        details=details
        | ({"rule": {"number": line.number, "text": line.text}} if line.number >= 0 else {"default": line.action}),
    )

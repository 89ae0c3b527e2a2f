"""`Visibility`: which tools lists and searches show to whom, on every face."""

from __future__ import annotations

from collections.abc import Callable

from toolyard.calls.policy import Policy
from toolyard.model.tool import Tool
from toolyard.serving.identity import Principal, Scopes, scope_of

Shows = Callable[[Tool], bool]


class Visibility:
    """Shows what a caller's key lists, without what the policy denies them whatever they send.

    To call such a tool is denied, and says why; it is only left out where nobody asked for it by its name.
    """

    def __init__(self, policy: Policy | None) -> None:
        self._policy = policy

    def filter_for(self, principal: Principal) -> Shows | None:
        """True for the tools that are shown; None if all are."""
        scope, policy = scope_of(principal), self._policy
        if policy is None:
            return None if scope is None else scope.lists
        keys = principal.policy_keys
        return lambda tool: (scope is None or scope.lists(tool)) and not policy.always_denies(tool, keys)

    def is_held(self, principal: Principal, tool: Tool) -> bool:
        """True if a call of it by them waits for somebody's word, at least in some sessions."""
        return self._policy is not None and self._policy.may_ask(tool, principal.policy_keys)

    def slot(self, principal: Principal) -> tuple[Scopes, tuple[str, ...]]:
        """Equal for callers who are shown the same of one catalog."""
        looks_at_keys = self._policy is not None and self._policy.looks_at_keys
        return principal.scopes, principal.policy_keys if looks_at_keys else ()

"""Results of calls as every wire shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from toolyard.model.call import ToolResult
from toolyard.model.errors import ErrorInfo, Held


def collect_error_details(info: ErrorInfo) -> dict[str, Any]:
    """Return everything an error has beyond code and message as one object, for wires with a single details field."""
    details = {key: value for key, value in info.details.items() if key != "violations"}
    if info.effect != "none":
        details["effect"] = info.effect
    if info.hint is not None:
        details["hint"] = info.hint
    if info.retry_after is not None:
        details["retry_after"] = info.retry_after
    return details


def find_approval_id(result: ToolResult) -> str | None:
    """Return the id of the approval that a call is held for; None if it is not held."""
    info = result.error_info
    if info is None or info.code != Held.code:
        return None
    approval_id: str | None = info.details.get("approval", {}).get("id")
    return approval_id


def add_approval_url(result: ToolResult, find_base_url: Callable[[], str]) -> ToolResult:
    """Return the result of a held call with the absolute URL of its approval; any other result unchanged."""
    approval_id, info = find_approval_id(result), result.error_info
    if approval_id is None or info is None:
        return result
    path, base = f"/v1/approvals/{approval_id}", find_base_url()
    approval = {**info.details["approval"], "url": f"{base}{path}"}
    hint = None if info.hint is None else info.hint.replace(f" {path}", f" {base}{path}")
    return replace(result, error_info=replace(info, hint=hint, details={**info.details, "approval": approval}))


def make_approval_location(root: str, results: Sequence[ToolResult]) -> dict[str, str] | None:
    """Return a `Location` header for the approval of a held call; None if it is not held or there are several calls."""
    approval_id = find_approval_id(results[0]) if len(results) == 1 else None
    return None if approval_id is None else {"location": f"{root}/v1/approvals/{approval_id}"}

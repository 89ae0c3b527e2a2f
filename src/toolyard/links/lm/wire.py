"""`ProviderWire`: how one provider's HTTP interface is spoken; one file for each, all of one shape."""

from __future__ import annotations

from typing import Any, Protocol

from toolyard.links.lm.shapes import LMAnswer, LMRequest, Usage
from toolyard.model.errors import ToolFailed


class ProviderWire(Protocol):
    """Requests written and answers read."""

    path: str
    """Where conversations are continued, below the base URL."""
    key_header: tuple[str, str]
    """The header that the API key goes into, and what stands before it there."""
    headers: tuple[tuple[str, str], ...]
    """What every request says."""

    def write(self, request: LMRequest) -> dict[str, Any]:
        """The body of a request."""

    def read(self, data: dict[str, Any]) -> LMAnswer:
        """What the body of an answer says; `ToolFailed` if it says nothing."""


def schema_of(request: LMRequest) -> dict[str, Any] | None:
    """The schema that the answer must fit, or that of any object; None if text is asked for."""
    form = request.response_format
    if form is None:
        return None
    schema: dict[str, Any] = {"type": "object"}
    if form["type"] == "json_schema":
        schema = form["json_schema"]["schema"]
    return schema


def given(**values: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {key: value for key, value in values.items() if value is not None}


def counted(data: Any, prompt: str, completion: str) -> Usage:
    """Tokens, where the server counts them."""
    data = data if isinstance(data, dict) else {}
    numbers = (data.get(prompt), data.get(completion))
    return Usage(*(number if type(number) is int and number >= 0 else 0 for number in numbers))


def text_of(value: Any) -> str:
    """The value if it is text, else none."""
    return value if isinstance(value, str) else ""


def nothing_said(why: str) -> ToolFailed:
    """The answer holds nothing of the model's."""
    return ToolFailed(f"the language model's server answered, but {why}", effect="none")

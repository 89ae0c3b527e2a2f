"""`ToolCall` and `ToolResult`: what goes in and what comes out, on every path."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from toolyard.model.errors import DefinitionError, ErrorInfo

Mode = Literal["execute", "simulate"]
"""Whether a call is made for its effect, or to see what it would answer."""


class ToolCall(msgspec.Struct, frozen=True):
    """A call issued by a model.

    `arguments` is an object. Text that a provider sent and that is not valid JSON is kept as it came,
    so that the one call path can refuse it as `tool.invalid_args` and record it like any other call.
    `overload` pins one overload by its fingerprint; None lets the arguments decide.
    """

    name: str
    arguments: dict[str, Any] | str = {}
    call_id: str | None = None
    overload: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `overload` only where set."""
        data: dict[str, Any] = {"name": self.name, "arguments": self.arguments, "call_id": self.call_id}
        if self.overload is not None:
            data["overload"] = self.overload
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ToolCall:
        """Inverse of `to_dict`; an unknown key is an error, not a loss."""
        return _convert(cls, data)


class ToolResult(msgspec.Struct, frozen=True):
    """The answer to one call: `result` (plain JSON), or `error` with its `error_info`."""

    call_id: str | None
    name: str
    result: Any = None
    error: str | None = None
    metadata: dict[str, Any] = {}
    error_info: ErrorInfo | None = None
    overload: str | None = None
    """The overload the call was pinned to, copied from it; some wires name it in the answer."""

    @property
    def is_error(self) -> bool:
        """True when the call failed, whatever `result` holds."""
        return self.error is not None or self.error_info is not None

    @classmethod
    def failed(cls, call: ToolCall, info: ErrorInfo, **metadata: Any) -> ToolResult:
        """The result of `call` when it failed with `info`."""
        return cls(call.call_id, call.name, None, info.message, metadata, info, call.overload)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `error_info` and `overload` only where set."""
        data: dict[str, Any] = {
            "call_id": self.call_id,
            "name": self.name,
            "result": self.result,
            "error": self.error,
            "metadata": self.metadata,
        }
        if self.error_info is not None:
            data["error_info"] = self.error_info.to_dict()
        if self.overload is not None:
            data["overload"] = self.overload
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ToolResult:
        """Inverse of `to_dict`; an unknown key is an error, not a loss."""
        return _convert(cls, data)


_T = TypeVar("_T", ToolCall, ToolResult)


def _convert(cls: type[_T], data: dict[str, Any]) -> _T:
    unknown = sorted(set(data) - set(cls.__struct_fields__))
    if unknown:
        raise DefinitionError(f"{cls.__name__} has no field {unknown[0]!r}; it has {', '.join(cls.__struct_fields__)}")
    try:
        return msgspec.convert(data, cls)
    except msgspec.ValidationError as error:
        raise DefinitionError(f"not a {cls.__name__}: {error}") from None

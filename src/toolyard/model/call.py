"""`ToolCall` and `ToolResult`: the input and output of every call path.

`Content` is a result that is more than JSON: blocks of text, images, audio and resources:

    @tool
    def chart(year: int) -> Content:
        return Content([text("sales"), image(draw(year), "image/png")])

Blocks are plain data in MCP's format, so they are recorded and served unchanged.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from toolyard.model.bases import DataclassStruct
from toolyard.model.errors import DefinitionError, ErrorInfo
from toolyard.model.tool import Tool

Mode = Literal["execute", "simulate"]
"""Whether a call takes effect, or only predicts its result."""


class ToolCall(DataclassStruct, frozen=True):
    """A call issued by a model.

    `arguments` is an object. Text from a provider that is not valid JSON is kept verbatim, so that the call
    path rejects it as `tool.invalid_args` and records it like any other call.
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


class ToolResult(DataclassStruct, frozen=True):
    """The result of one call: `result` (plain JSON), or `error` with its `error_info`."""

    call_id: str | None
    name: str
    result: Any = None
    error: str | None = None
    metadata: dict[str, Any] = {}
    error_info: ErrorInfo | None = None
    overload: str | None = None
    """The overload that the call was pinned to, copied from the call; some wires include it in the response."""

    @property
    def is_error(self) -> bool:
        """True if the call failed, whatever `result` holds."""
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


Block = dict[str, Any]

CONTENT = "content"
"""Key of `ToolResult.metadata` that holds the content blocks, if they say more than the result."""
_AS_RESULT = "result"


class Content(msgspec.Struct, frozen=True):
    """Returned by a tool or an engine when JSON is not enough: images, audio, links, resources.

    `value` is the result for programs. It defaults to the joined text if every block is text, else to the blocks.
    """

    blocks: Sequence[Block]
    value: Any | UnsetType = UNSET

    @property
    def result(self) -> Any:
        """The value for `ToolResult.result`."""
        if self.value is not UNSET:
            return self.value
        texts = [block.get("text") for block in self.blocks if block.get("type") == "text"]
        if texts and len(texts) == len(self.blocks) and all(isinstance(line, str) for line in texts):
            return "\n".join(map(str, texts))
        return self.blocks

    @property
    def kept(self) -> list[Block] | str | None:
        """The value for `metadata["content"]`: the blocks, `"result"` if those are the result, or None."""
        result = self.result
        if result is not self.blocks:
            is_plain_text = len(self.blocks) == 1 and self.blocks[0] == {"type": "text", "text": result}
            return None if is_plain_text else list(self.blocks)
        return _AS_RESULT


def blocks_of(result: ToolResult) -> list[Block] | None:
    """The content blocks of a result; None if it is plain JSON."""
    kept = result.metadata.get(CONTENT)
    if kept == _AS_RESULT:
        kept = result.result
    return kept if isinstance(kept, list) and all(isinstance(block, dict) for block in kept) else None


def text(value: str) -> Block:
    """A text block."""
    return {"type": "text", "text": value}


def image(data: bytes, mime_type: str) -> Block:
    """An image block."""
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": mime_type}


def audio(data: bytes, mime_type: str) -> Block:
    """An audio block."""
    return {"type": "audio", "data": base64.b64encode(data).decode(), "mimeType": mime_type}


def resource_link(uri: str, name: str, *, mime_type: str | None = None, description: str | None = None) -> Block:
    """A link to a resource that the reader can fetch."""
    optional = {"mimeType": mime_type, "description": description}
    given = {key: value for key, value in optional.items() if value is not None}
    return {"type": "resource_link", "uri": uri, "name": name, **given}


def resource(uri: str, data: str | bytes, *, mime_type: str | None = None) -> Block:
    """An embedded resource: text, or bytes as base64."""
    inner: Block = {"uri": uri}
    if mime_type is not None:
        inner["mimeType"] = mime_type
    if isinstance(data, str):
        inner["text"] = data
    else:
        inner["blob"] = base64.b64encode(data).decode()
    return {"type": "resource", "resource": inner}


Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Progress(msgspec.Struct, frozen=True):
    """Progress of a running call, out of `total` if that is known."""

    progress: float
    total: float | None = None
    message: str | None = None


class LogLine(msgspec.Struct, frozen=True):
    """A log message from a tool to its caller while the call runs."""

    data: Any
    level: Level = "info"
    logger: str | None = None


Notice = Progress | LogLine
"""Messages that a tool may send while a call runs."""

Notify = Callable[[Notice], None]
"""Delivers a notice. Returns without blocking; may be called from any thread."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Passed to a tool that declares a `ctx` parameter. Models never see or set it."""

    tool: Tool
    call_id: str | None = None
    session_id: str | None = None
    mode: Mode = "execute"
    """`simulate` occurs only in tools that declare that they simulate themselves; they must change nothing then."""
    context: Mapping[str, Any] = {}
    """Caller data sent with the call (flow state, locale, ...)."""
    trace: Mapping[str, Any] = {}
    """The caller's correlation ids."""
    notify: Notify | None = None
    """Receives progress and log messages; None if the caller did not ask for them."""

    def report(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the caller, if it asked for progress."""
        if self.notify is not None:
            self.notify(Progress(progress, total, message))

    def log(self, data: Any, level: Level = "info", logger: str | None = None) -> None:
        """Send the caller a message before the result, if it asked for messages."""
        if self.notify is not None:
            self.notify(LogLine(data, level, logger))

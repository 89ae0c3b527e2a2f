"""`Content`: an answer that is more than JSON, as blocks of text, pictures, sound and resources.

    @tool
    def chart(year: int) -> Content:
        return Content([text("sales"), image(draw(year), "image/png")])

Blocks are plain data in the spelling of MCP, so they can be recorded and served on as they are.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from toolyard.model.call import ToolResult

Block = dict[str, Any]

CONTENT = "content"
"""The key of a result's metadata under which blocks are kept that say more than the result itself."""
_AS_RESULT = "result"


class Content(msgspec.Struct, frozen=True):
    """What a tool or an engine returns where JSON is not all there is to say.

    `value` is the answer for programs. Without one it is the text, if there is nothing but text, else the blocks.
    """

    blocks: Sequence[Block]
    value: Any | UnsetType = UNSET

    @property
    def result(self) -> Any:
        """What stands in `ToolResult.result`."""
        return _value_of(self.blocks) if self.value is UNSET else self.value

    @property
    def kept(self) -> list[Block] | str | None:
        """What stands in the metadata beside it; None if the result says it all."""
        result = self.result
        if result is not self.blocks:
            is_plain_text = len(self.blocks) == 1 and self.blocks[0] == {"type": "text", "text": result}
            return None if is_plain_text else list(self.blocks)
        return _AS_RESULT


def blocks_of(result: ToolResult) -> list[Block] | None:
    """The blocks of a result; None for one that is JSON and no more."""
    kept = result.metadata.get(CONTENT)
    if kept == _AS_RESULT:
        kept = result.result
    return kept if isinstance(kept, list) and all(isinstance(block, dict) for block in kept) else None


def text(value: str) -> Block:
    """A block of text."""
    return {"type": "text", "text": value}


def image(data: bytes, mime_type: str) -> Block:
    """A picture."""
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": mime_type}


def audio(data: bytes, mime_type: str) -> Block:
    """Something to be heard."""
    return {"type": "audio", "data": base64.b64encode(data).decode(), "mimeType": mime_type}


def resource_link(uri: str, name: str, *, mime_type: str | None = None, description: str | None = None) -> Block:
    """Where something can be read."""
    optional = {"mimeType": mime_type, "description": description}
    given = {key: value for key, value in optional.items() if value is not None}
    return {"type": "resource_link", "uri": uri, "name": name, **given}


def resource(uri: str, data: str | bytes, *, mime_type: str | None = None) -> Block:
    """Something to be read, itself."""
    inner: Block = {"uri": uri}
    if mime_type is not None:
        inner["mimeType"] = mime_type
    if isinstance(data, str):
        inner["text"] = data
    else:
        inner["blob"] = base64.b64encode(data).decode()
    return {"type": "resource", "resource": inner}


def _value_of(blocks: Sequence[Block]) -> Any:
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    if blocks and len(texts) == len(blocks) and all(isinstance(line, str) for line in texts):
        return "\n".join(map(str, texts))
    return blocks

"""The domain of tools that the MCP conformance suite asks a server for, written as anybody would write them."""

import asyncio
import os
import signal
import struct
import zlib

from toolyard import Effects, ToolContext, function_tool
from toolyard.model.call import Content, audio, image, resource, text
from toolyard.model.errors import ToolFailed

TEXT = {"type": "string"}
WITH_ALL_KEYWORDS = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": TEXT, "city": TEXT}},
    },
    "properties": {
        "name": TEXT,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": TEXT,
        "email": TEXT,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
WITH_HEADER = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": TEXT},
    "required": ["region"],
    "additionalProperties": False,
}
LOADS = []


def _png():
    """A picture of one red dot."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", head),
            chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00")),
            chunk(b"IEND", b""),
        ]
    )


def _wav():
    """A moment of silence."""
    data = bytes(8)
    form = struct.pack("<HHIIHH", 1, 1, 8000, 8000, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def test_simple_text() -> str:
    """A text."""
    return "This is a simple text response for testing."


def test_image_content() -> Content:
    """A picture."""
    return Content([image(_png(), "image/png")])


def test_audio_content() -> Content:
    """Something to be heard."""
    return Content([audio(_wav(), "audio/wav")])


def test_embedded_resource() -> Content:
    """Something to be read."""
    said = "This is an embedded resource content."
    return Content([resource("test://embedded-resource", said, mime_type="text/plain")])


def test_multiple_content_types() -> Content:
    """All of them."""
    return Content(
        [
            text("Multiple content types test:"),
            image(_png(), "image/png"),
            resource("test://mixed-content-resource", '{"test":"data","value":123}', mime_type="application/json"),
        ]
    )


async def test_tool_with_logging(ctx: ToolContext) -> str:
    """Says what it does."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log(line)
        await asyncio.sleep(0.05)
    return "done"


async def test_logging_tool(ctx: ToolContext) -> str:
    """Says what it does to who asked for it."""
    ctx.log("working")
    return "done"


def test_error_handling() -> str:
    """Always fails."""
    raise ToolFailed("This tool intentionally returns an error for testing")


async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Says how far it is."""
    for done in (0, 50, 100):
        ctx.report(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "done"


def test_missing_capability() -> str:
    """Needs a client that can sample."""
    return "can sample"


async def test_streaming_elicitation(ctx: ToolContext) -> str:
    """Takes its time."""
    ctx.report(1, 2)
    await asyncio.sleep(0.05)
    return "done"


def test_trigger_tool_change() -> str:
    """Has the server load its sources again."""
    os.kill(os.getpid(), signal.SIGHUP)
    return "changed"


def test_header_tool(region: str, **rest) -> str:
    """Has an argument that a header repeats."""
    return f"{region}: {rest.get('query', '')}"


def json_schema_2020_12_tool(**given) -> str:
    """Takes what only a whole JSON Schema can say."""
    return ", ".join(sorted(given))


def test_changed() -> str:
    """Is there every other time that the tools are loaded."""
    return "changed"


def load_tools():
    """Every tool; each time it is asked for them, there is one more or one less."""
    LOADS.append(None)
    readers = [
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
    ]
    others = [
        test_tool_with_logging,
        test_logging_tool,
        test_error_handling,
        test_tool_with_progress,
        test_streaming_elicitation,
        test_trigger_tool_change,
    ]
    changing = [test_changed] if len(LOADS) % 2 == 0 else []
    return [
        *(function_tool(fn, namespace="conformance_yard", effects=Effects.READ) for fn in readers),
        *(function_tool(fn, namespace="conformance_yard") for fn in [*others, *changing]),
        function_tool(
            test_missing_capability, namespace="conformance_yard", metadata={"mcp": {"requires": {"sampling": {}}}}
        ),
        function_tool(test_header_tool, namespace="conformance_yard", parameters=WITH_HEADER),
        function_tool(json_schema_2020_12_tool, namespace="conformance_yard", parameters=WITH_ALL_KEYWORDS),
    ]

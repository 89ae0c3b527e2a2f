"""What callers on the other side of a wire are told of a tool's own exception: where the log has it, no more.

The text of an exception nobody meant for them may hold paths, queries and other people's data. A tool that has
something to say to its caller raises `ToolFailed`.
"""

from __future__ import annotations

import logging
import secrets
import traceback

import msgspec

from toolyard.model.errors import CallError, ErrorInfo, ToolFailed
from toolyard.model.tool import Tool
from toolyard.words.redactor import Redactor

_log = logging.getLogger(__name__)

_READ = 20_000
"""Characters of an exception's text that are looked at."""
_SHOWN = 500
"""Characters of it that are logged."""
_FRAMES = 20
_TRACE = 2000
"""Characters of a traceback of another process that are logged, from its end."""


def is_own_exception(error: CallError) -> bool:
    """True if the tool raised something that was not meant as an answer."""
    return isinstance(error, ToolFailed) and error.unforeseen


def told_discreetly(error: CallError, tool: Tool, redactor: Redactor) -> ErrorInfo:
    """Log the exception under an id, and tell the caller the id."""
    cause, number = error.__cause__ or error, secrets.token_hex(6)
    told = one_line(cause, redactor)
    kind = type(cause).__name__
    if isinstance(cause, ToolFailed) and cause.trace:
        # It was raised in another process, where its type and its frames are.
        kind = str(cause.info.details.get("exception", kind))
        told = (
            f"{_escaped(kind)}: {_cut(ascii(redactor.text(str(cause))))} at {_end(ascii(redactor.text(cause.trace)))}"
        )
    _log.error("%s failed; error id %s: %s", tool.qualified_name, number, told)
    return msgspec.structs.replace(
        error.info,
        message=f"{tool.qualified_name} failed with {_escaped(kind)}; the server's log has it as {number}",
        details={**error.info.details, "error_id": number},
    )


def one_line(error: BaseException, redactor: Redactor) -> str:
    """Kind, text and frames of an exception, the innermost first.

    Whoever made a tool fail may have written its text: it is quoted, so that it can neither begin a line of its own
    nor reach a terminal, and cut.
    """
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    where = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    kind, text = _escaped(type(error).__name__), ascii(redactor.text(_text(error)))
    return f"{kind}: {_cut(text)} at {_escaped(redactor.text(where))}"


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_READ]
    except Exception as odd:  # noqa: BLE001 - a tool's own exception may raise anything when it is asked for its text
        return f"(it cannot be shown: {type(odd).__name__})"


def _escaped(text: str) -> str:
    return text if text.isascii() and text.isprintable() else ascii(text)


def _end(text: str) -> str:
    return text if len(text) <= _TRACE else f"...{text[-_TRACE:]}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."

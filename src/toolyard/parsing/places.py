"""From an offset in a text to the line and column a person looks for."""

from __future__ import annotations

from toolyard.model.errors import MalformedSource


def fault_at(text: str, index: int, message: str, what: str) -> MalformedSource:
    """The error at a character of `text`; lines and columns count from 1."""
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index)
    return MalformedSource(message, where=f"{what}:{line}:{column}")


def undecodable(data: bytes, error: UnicodeDecodeError, what: str) -> MalformedSource:
    """The error for bytes that are not UTF-8."""
    before = data[: error.start].decode().removeprefix("\ufeff")
    message = f"byte 0x{data[error.start]:02x} is not valid UTF-8; save the text as UTF-8"
    return fault_at(before, len(before), message, what)


def encode_utf8(text: str, what: str) -> bytes:
    """`text` in UTF-8; refuses lone surrogates, which no encoding can write."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"U+{code:04X} is half of a surrogate pair, not a character; decode the text with its right encoding"
        raise fault_at(text, error.start, message, what) from error

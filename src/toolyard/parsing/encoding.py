"""Text as UTF-8 bytes and back, with the place of what cannot be converted."""

from __future__ import annotations

from toolyard.model.errors import MalformedSource

BOM = b"\xef\xbb\xbf"


def decode_utf8(data: bytes, what: str) -> str:
    """The text of UTF-8 bytes; `MalformedSource` with the place of a byte that is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix("\ufeff")
        message = f"byte 0x{data[error.start]:02x} is not valid UTF-8; save the text as UTF-8"
        raise MalformedSource.at_character(before, len(before), message, what) from error


def encode_utf8(text: str, what: str) -> bytes:
    """`text` in UTF-8; `MalformedSource` for lone surrogates, which UTF-8 cannot encode."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"U+{code:04X} is half of a surrogate pair, not a character; decode the text with its right encoding"
        raise MalformedSource.at_character(text, error.start, message, what) from error


def normalise_lines(source: bytes) -> bytes:
    """The text without a byte order mark and with every line ended by a line feed, as the YAML scanners expect."""
    source = source.removeprefix(BOM)
    if b"\r" in source:
        source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return source if source.endswith(b"\n") else source + b"\n"

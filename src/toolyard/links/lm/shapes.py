"""What is asked of a language model and what it answers, whoever runs it."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

Role = Literal["system", "user", "assistant"]

_encode = msgspec.json.Encoder(order="deterministic").encode
_BYTES_A_TOKEN = 4
_TOKENS_A_MESSAGE = 4


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: Role
    content: str


class LMRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation to continue.

    `response_format` is `{"type": "json_object"}` or `{"type": "json_schema", "json_schema": {"name", "schema"}}`;
    None asks for text. What is None is left to the model's server. `extra` goes into the body as it is.
    """

    model: str
    messages: tuple[Message, ...]
    response_format: dict[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra: dict[str, Any] = {}

    @property
    def key(self) -> str:
        """A hash of all of it: equal for equal requests, in every process."""
        return hashlib.sha256(_encode(self)).hexdigest()

    @property
    def likely_tokens(self) -> int:
        """About as many tokens as the messages are; only the model's own server knows exactly."""
        return sum(likely_tokens(message.content) for message in self.messages)


class Usage(msgspec.Struct, frozen=True):
    """Tokens, as the server counted them."""

    prompt: int = 0
    completion: int = 0


class LMAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said."""

    text: str
    usage: Usage = Usage()
    model: str = ""
    """As the server calls it."""
    finish_reason: str = ""
    """`length` if it was cut off; else in the server's words."""
    cached: bool = False
    """True if it comes out of the journal and nobody was asked."""


def likely_tokens(text: str) -> int:
    """About as many tokens as a message of this text is."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return size // _BYTES_A_TOKEN + _TOKENS_A_MESSAGE

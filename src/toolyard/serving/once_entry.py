"""What is stored under an idempotency key: first who carries the request out, then its answer."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from toolyard.serving.once_faults import conflict
from toolyard.serving.response import Response

REPLAYED = (b"idempotent-replayed", b"true")


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What is stored under a key."""

    digest: bytes
    """Of the request: the same key with another request is a mistake."""
    claim: str | None = None
    """Who runs it: a holder's name and a number; None once it is over."""
    guess: bool = False
    """The answer is `interrupted`, on the evidence of a lock."""
    status: int = 0
    content_type: bytes = b""
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


_encode = msgspec.msgpack.Encoder().encode
read_entry = msgspec.msgpack.Decoder(Entry).decode


def claim(digest: bytes, who: str) -> bytes:
    """The request is being carried out."""
    return _encode(Entry(digest, who))


def stored_name(key: str) -> str:
    """The key itself if every store can keep it, else a hash of it that no such key looks like."""
    if len(key) <= 200 and key.isascii() and key.isprintable() and not key.startswith("#"):
        return key
    return "#" + blake2b(key.encode(errors="surrogatepass"), digest_size=32).hexdigest()


def answer(digest: bytes, response: Response, *, guess: bool = False) -> bytes:
    """The request is over."""
    return _encode(Entry(digest, None, guess, response.status, response.content_type, response.body, response.headers))


def response_of(entry: Entry) -> Response:
    """The answer as it was."""
    return Response(entry.status, entry.body, entry.content_type, entry.headers)


def replay(entry: Entry, digest: bytes) -> Response:
    """The answer for one who asks again; a 409 if the request is not the same."""
    if entry.digest != digest:
        raise conflict()
    return replayed(response_of(entry))


def replayed(response: Response) -> Response:
    """The same, marked as not of this request's making."""
    if REPLAYED in response.headers:
        return response
    return Response(response.status, response.body, response.content_type, (*response.headers, REPLAYED))

"""What is stored under an idempotency key: first a claim by the process that runs the request, then its answer."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from toolyard.serving.http_fault import HttpFault

REPLAYED = (b"idempotent-replayed", b"true")
_OF_THE_BODY = (b"content-length", b"content-type")


class StoredAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The entry of an idempotency key: a claim, and later the response, to be replayed."""

    digest: bytes = b""
    """The digest of the request, to detect another request with the same key."""
    claim: str | None = None
    """The name of the process that runs the request, and a number; None once there is an answer."""
    guess: bool = False
    """True if the answer is an `interrupted` given because the process had lost its lock."""
    status: int = 200
    content_type: bytes = b""
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    unfinished: bytes = b""
    """The results of a request with held calls, as JSON. Such an answer is not replayed: a repeat runs the held calls,
    and its claim keeps these results.
    """

    @classmethod
    def of(cls, response: Response, unfinished: bytes = b"") -> StoredAnswer:
        """Return the entry to store for a response."""
        kind = dict(response.raw_headers).get(b"content-type", b"")
        rest = tuple(header for header in response.raw_headers if header[0] not in _OF_THE_BODY)
        return cls(
            status=response.status_code,
            content_type=kind,
            body=bytes(response.body),
            headers=rest,
            unfinished=unfinished,
        )

    def to_response(self) -> Response:
        """Return the stored response."""
        response = Response(self.body, self.status)
        if self.body:
            response.raw_headers.append((b"content-type", self.content_type))
        response.raw_headers += self.headers
        return response


encode_entry = msgspec.msgpack.Encoder().encode
read_entry = msgspec.msgpack.Decoder(StoredAnswer).decode


def withdraw_claim(claim: bytes) -> bytes | None:
    """Return the entry to restore when a claim is withdrawn; None if there was none before."""
    entry = read_entry(claim)
    return encode_entry(replace(entry, claim=None)) if entry.unfinished else None


def stored_name(key: str) -> str:
    """Return the key if every store can hold it, else its hash, which no accepted key can equal."""
    if len(key) <= 200 and key.isascii() and key.isprintable() and not key.startswith("#"):
        return key
    return "#" + blake2b(key.encode(errors="surrogatepass"), digest_size=32).hexdigest()


def replay_answer(entry: StoredAnswer, digest: bytes) -> StoredAnswer:
    """Return the stored answer for a repeat; raises 409 if the request is a different one."""
    if entry.digest != digest:
        raise make_key_conflict()
    return mark_replayed(entry)


def mark_replayed(response: StoredAnswer) -> StoredAnswer:
    """Return the answer with the `Idempotent-Replayed` header."""
    if REPLAYED in response.headers:
        return response
    return replace(response, headers=(*response.headers, REPLAYED))


def make_key_conflict() -> HttpFault:
    """Return the 409 for a key that was used for a different request."""
    return HttpFault(
        409,
        "request.conflict",
        "another request was made with this idempotency key or invocation_id",
        hint="repeat a request unchanged, or use a new key or id for a new one",
    )


def make_in_progress() -> HttpFault:
    """Return the 409 for a request that another process is still running."""
    return HttpFault(
        409,
        "request.in_progress",
        "a request with this idempotency key is still being carried out",
        hint="repeat it with the same key to get its answer",
        retry_after=1,
    )


def make_stopping() -> HttpFault:
    """Return the 503 for a request that was not begun, or had no effect, when the server stopped."""
    return HttpFault(503, "server.stopping", "the server is stopping; nothing was changed", retry_after=1)


def make_store_unavailable() -> HttpFault:
    """Return the 503 for a request that was not begun, because its claim could not be stored."""
    message = "the store does not answer, so the request was not begun"
    return HttpFault(503, "server.store_unavailable", message, retry_after=1)


def make_unrecorded() -> HttpFault:
    """Return the 500 for a request that ran, but whose answer could not be stored."""
    return HttpFault(
        500,
        "request.unrecorded",
        "the request was carried out, but its answer could not be stored",
        details={"effect": "unknown"},
        hint="repeat it with the same idempotency key only: that gives the answer, and runs nothing again",
    )

"""What is stored under an idempotency key: first who carries the request out, then its answer."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from toolyard.serving.http_fault import HttpFault

REPLAYED = (b"idempotent-replayed", b"true")
_OF_THE_BODY = (b"content-length", b"content-type")


class StoredAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What is stored under a key: who carries the request out, and then the answer as data, to be given again."""

    digest: bytes = b""
    """Of the request: the same key with another request is a mistake."""
    claim: str | None = None
    """Who runs it: a holder's name and a number; None once it is over."""
    guess: bool = False
    """The answer is `interrupted`, on the evidence of a lock."""
    status: int = 200
    content_type: bytes = b""
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    unfinished: bytes = b""
    """What came of calls of which some are held: no answer to be given again, and sent again, only those run.

    A claim keeps it for the request that goes on from there.
    """

    @classmethod
    def of(cls, response: Response, unfinished: bytes = b"") -> StoredAnswer:
        """What is to be stored of an answer."""
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
        """The answer again."""
        response = Response(self.body, self.status)
        if self.body:
            response.raw_headers.append((b"content-type", self.content_type))
        response.raw_headers += self.headers
        return response


encode_entry = msgspec.msgpack.Encoder().encode
read_entry = msgspec.msgpack.Decoder(StoredAnswer).decode


def withdraw_claim(claim: bytes) -> bytes | None:
    """What is to be there again if nothing came of a claim; None: nothing."""
    entry = read_entry(claim)
    return encode_entry(replace(entry, claim=None)) if entry.unfinished else None


def stored_name(key: str) -> str:
    """The key itself if every store can keep it, else a hash of it that no such key looks like."""
    if len(key) <= 200 and key.isascii() and key.isprintable() and not key.startswith("#"):
        return key
    return "#" + blake2b(key.encode(errors="surrogatepass"), digest_size=32).hexdigest()


def replay_answer(entry: StoredAnswer, digest: bytes) -> StoredAnswer:
    """The answer for one who asks again; a 409 if the request is not the same."""
    if entry.digest != digest:
        raise key_conflict()
    return mark_replayed(entry)


def mark_replayed(response: StoredAnswer) -> StoredAnswer:
    """The same, marked as not of this request's making."""
    if REPLAYED in response.headers:
        return response
    return replace(response, headers=(*response.headers, REPLAYED))


def key_conflict() -> HttpFault:
    """The key was used for another request."""
    return HttpFault(
        409,
        "request.conflict",
        "another request was made with this idempotency key",
        hint="repeat a request unchanged, or use a new key for a new one",
    )


def still_in_progress() -> HttpFault:
    """Another process has been busy with it for long."""
    return HttpFault(
        409,
        "request.in_progress",
        "a request with this idempotency key is still being carried out",
        hint="repeat it with the same key to get its answer",
        retry_after=1,
    )


def server_stopping() -> HttpFault:
    """It was not begun, or could be begun again without harm."""
    return HttpFault(
        503,
        "server.stopping",
        "the server is stopping; nothing was changed",
        retry_after=1,
    )


def store_unavailable() -> HttpFault:
    """It was not begun, since that could not have been recorded."""
    return HttpFault(
        503,
        "server.store_unavailable",
        "the store does not answer, so the request was not begun",
        retry_after=1,
    )


def answer_unrecorded() -> HttpFault:
    """It ran, and must not be thought of as if it had not."""
    return HttpFault(
        500,
        "request.unrecorded",
        "the request was carried out, but its answer could not be stored",
        details={"effect": "unknown"},
        hint="repeat it with the same idempotency key only: that gives the answer, and runs nothing again",
    )

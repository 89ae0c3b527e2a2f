"""`RemoteEmbedder`: a server with an `/embeddings` endpoint, such as OpenAI, vLLM, llama.cpp or Ollama."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from http import HTTPStatus
from typing import Any

import msgspec
import numpy as np

from toolyard.insight.arrays import Matrix, normalise_rows
from toolyard.links.http.addresses import read_url, with_port
from toolyard.links.http.auth import Bearer
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import RETRYABLE, Credential, Incoming, Outgoing, retry_after
from toolyard.links.lm.config import read_lm_config
from toolyard.loop.pacing import backoff_delay
from toolyard.model.errors import CallError, ConfigError, EnrichmentError
from toolyard.model.tool import digest

KEYS = ("type", "model_id_or_path", "base_url", "api_key", "headers", "verify", "ca", "timeout", "retries", "extra")
AT_ONCE = 64
"""Texts per request."""
REQUESTS = 4
"""Requests in flight at the same time."""
_MAX_ANSWER = 64 * 1024 * 1024
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_MAX_QUOTED = 300
_MAX_LISTED = 8
_MOST_LETTERS = 24_000
"""Longest text, in characters: servers reject texts too long for their model, and one tool must not fail all."""
_RETRYABLE = RETRYABLE | {500, 529}


class RemoteEmbedder:
    """Gets vectors from the server of a `model` block, which has keys of `lm_config`.

    `extra` is merged into every request. The operator configured the host, so private addresses are allowed. `sleep` is
    replaceable for tests.
    """

    drifts = True
    """The server may change the model behind a name without any version telling so."""

    def __init__(self, block: Mapping[str, Any], *, sleep: Callable[[float], None] = time.sleep) -> None:
        if block.get("type") != "openai":
            raise ConfigError(f"model.type: must be 'openai', which embedding servers speak, not {block.get('type')!r}")
        for key in block:
            if key not in KEYS:
                raise ConfigError(f"model: unknown key {key!r}; known: {', '.join(KEYS)}")
        self._config = read_lm_config(block, "model")
        self._sleep = sleep
        self._url = f"{self._config.base_url}/embeddings"
        target = read_url(self._config.base_url)
        self._origin = target.origin
        self._named = (with_port(target.host, target.port),)
        api_key = self._config.api_key
        self._credential: Credential | None = None if api_key is None else Bearer(target.origin, api_key)
        self._client = GuardedClient(verify=self._config.verify, max_bytes=_MAX_ANSWER, pool=REQUESTS)
        # Callers get an embedder from its options and do not know that it must be closed.
        weakref.finalize(self, self._client.close)
        self.batch = AT_ONCE * REQUESTS

    @property
    def name(self) -> str:
        """The model's name on the server."""
        return self._config.model

    @property
    def version(self) -> str:
        """A hash of the server's URL and the extra request fields."""
        return digest("openai", 1, self._config.base_url, self._config.extra)[:16]

    @cached_property
    def dimensions(self) -> int:
        """The length of the server's vectors; requested once."""
        return int(self.encode(["tool"]).shape[1])

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return one row per text; `EnrichmentError` if the server fails."""
        parts = [texts[at : at + AT_ONCE] for at in range(0, len(texts), AT_ONCE)]
        if len(parts) <= 1:
            rows = [self._request_vectors(part) for part in parts]
        else:
            with ThreadPoolExecutor(REQUESTS, "toolyard-embed") as pool:
                rows = list(pool.map(self._request_vectors, parts))
        widths = {part.shape[1] for part in rows}
        if len(widths) > 1:
            raise EnrichmentError(f"{self._origin} gave vectors of different lengths: {sorted(widths)}")
        return normalise_rows(np.concatenate(rows)) if rows else np.empty((0, self.dimensions), np.float32)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __repr__(self) -> str:
        return f"<RemoteEmbedder {self.name} at {self._origin}>"

    def _request_vectors(self, texts: Sequence[str]) -> Matrix:
        attempt = 0
        while True:
            attempt += 1
            last = attempt > self._config.retries
            pause = backoff_delay(attempt, _FIRST_PAUSE, _LONGEST_PAUSE)
            try:
                incoming = self._client.send(self._build_request(texts))
            except CallError as error:
                if last or not error.info.retryable:
                    raise EnrichmentError(f"the embedding model {self.name}: {error.info.message}") from None
            else:
                if incoming.status == HTTPStatus.OK:
                    return self._read_vectors(incoming.body, len(texts))
                if last or incoming.status not in _RETRYABLE:
                    raise self._explain_refusal(incoming)
                asked = retry_after(incoming.header("retry-after"), time.time())
                pause = pause if asked is None else min(asked, _LONGEST_PAUSE)
            self._sleep(pause)

    def _build_request(self, texts: Sequence[str]) -> Outgoing:
        # Servers reject empty texts.
        sendable = [text[:_MOST_LETTERS].encode("utf-8", "replace").decode() or " " for text in texts]
        return Outgoing(
            method="POST",
            url=self._url,
            headers=(("content-type", "application/json"), *self._config.headers),
            body=msgspec.json.encode({"model": self._config.model, "input": sendable, **self._config.extra}),
            deadline=time.monotonic() + self._config.timeout,
            credential=self._credential,
            named=self._named,
        )

    def _read_vectors(self, body: bytes, count: int) -> Matrix:
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except msgspec.DecodeError as error:
            raise EnrichmentError(f"the answer of {self._url} holds no embeddings: {error}") from None
        found = self._in_order(answer.data, count)
        widths = sorted({len(vector) for vector in found})
        if len(widths) != 1 or 0 in widths:
            raise EnrichmentError(f"{self._url} answered one request with vectors of these lengths: {widths}")
        matrix = np.array(found, np.float32)
        if not np.isfinite(matrix).all():
            raise EnrichmentError(f"{self._url} answered with numbers that are not finite")
        return matrix

    def _in_order(self, items: Sequence[_Item], count: int) -> list[list[float]]:
        """Order the vectors by their `index`, or keep their order if none has one."""
        if len(items) != count:
            raise EnrichmentError(f"{self._url} was given {count} texts and answered with {len(items)} vectors")
        places = [item.index for item in items if item.index is not None]
        if not places:
            return [item.embedding for item in items]
        if sorted(places) != list(range(count)):
            some = f"{', '.join(map(str, places[:_MAX_LISTED]))}{', ...' if count > _MAX_LISTED else ''}"
            said = "some have none" if len(places) < count else f"they are {some}"
            raise EnrichmentError(
                f"{self._url} answered with vectors whose `index` does not say which text they are of: {said}; each"
                f" of the {count} has its own, from 0 on, or none has any"
            )
        vectors = {item.index: item.embedding for item in items}
        return [vectors[place] for place in range(count)]

    def _explain_refusal(self, incoming: Incoming) -> EnrichmentError:
        said = " ".join(incoming.body.decode("utf-8", "replace").split())
        for secret in self._config.secrets:
            said = said.replace(secret, "***")
        remedy = ""
        if incoming.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            remedy = "; give model an api_key that the server takes"
        elif incoming.status == HTTPStatus.NOT_FOUND:
            remedy = "; look at base_url and model_id_or_path of model"
        return EnrichmentError(f"{self._url} answered {incoming.status}: {said[:_MAX_QUOTED]}{remedy}")


class _Item(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Item]

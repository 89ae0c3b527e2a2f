"""`HttpBackend`: one try at having a model's server answer, through the guarded client."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any

import msgspec

from toolyard.links.http.addresses import with_port
from toolyard.links.http.auth import ApiKey
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Credential, Incoming, Outgoing
from toolyard.links.http.retry import RETRYABLE, retry_after
from toolyard.links.http.url import read_url
from toolyard.links.lm.config import LMConfig
from toolyard.links.lm.shapes import LMAnswer, LMRequest
from toolyard.links.lm.wire import ProviderWire
from toolyard.model.errors import CallError, MalformedSource, ToolFailed, Unavailable
from toolyard.parsing import parse_json

MAX_ANSWER_BYTES = 8 * 1024 * 1024
_SAID = 300
_OVERLOADED = 529
_AGAIN = RETRYABLE | {500, _OVERLOADED}
"""To ask a model twice does no harm, so a server that stumbled is asked again, too."""
_encode = msgspec.json.encode


class HttpBackend:
    """Speaks one provider's interface. The operator named the server, so it may be anywhere."""

    def __init__(self, config: LMConfig, wire: ProviderWire) -> None:
        self._wire = wire
        self._url = f"{config.base_url}{wire.path}"
        target = read_url(config.base_url)
        self._origin = target.origin
        self._named = (with_port(target.host, target.port),)
        self._secrets = config.secrets
        self._headers = (("content-type", "application/json"), *wire.headers, *config.headers)
        self._credential: Credential | None = None
        if config.api_key is not None:
            name, before = wire.key_header
            self._credential = ApiKey(target.origin, "header", name, f"{before}{config.api_key}")
        self._client = GuardedClient(verify=config.verify, max_bytes=MAX_ANSWER_BYTES, pool=config.max_concurrent)

    async def complete(self, request: LMRequest, deadline: float | None) -> LMAnswer:
        """Ask once; a `CallError` says whether to ask again is worth it."""
        outgoing = Outgoing(
            method="POST",
            url=self._url,
            headers=self._headers,
            body=_encode(self._wire.write(request)),
            deadline=deadline,
            credential=self._credential,
            named=self._named,
        )
        incoming = await self._client.asend(outgoing)
        if incoming.status != HTTPStatus.OK:
            raise self._refusal(incoming)
        return self._wire.read(self._object(incoming.body))

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        await self._client.aclose()

    def _object(self, body: bytes) -> dict[str, Any]:
        try:
            data = parse_json(body, what="answer")
        except MalformedSource:
            data = None
        if not isinstance(data, dict):
            raise ToolFailed(f"the answer of {self._origin} is not a JSON object", effect="none")
        return data

    def _refusal(self, incoming: Incoming) -> CallError:
        status = incoming.status
        said = self._said(incoming.body)
        message = f"{self._origin} answered {status}{f': {said}' if said else ''}"
        if status in _AGAIN:
            return Unavailable(message, retry_after=retry_after(incoming.header("retry-after"), time.time()))
        hint = None
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            hint = "the operator gives lm_config an api_key that the server takes"
        elif status == HTTPStatus.NOT_FOUND:
            hint = "look at base_url and model_id_or_path of lm_config"
        elif status == HTTPStatus.BAD_REQUEST:
            hint = "a server that cannot be held to a schema needs response_format: json_object, or text, in lm_config"
        return ToolFailed(message, effect="none", retryable=False, hint=hint, details={"status": status})

    def _said(self, body: bytes) -> str:
        """What the server says went wrong, on one line and without secrets."""
        try:
            value = parse_json(body, what="answer")
        except MalformedSource:
            return ""
        for key in ("error", "message"):
            if isinstance(value, dict) and key in value:
                value = value[key]
        if not isinstance(value, str):
            return ""
        for secret in self._secrets:
            value = value.replace(secret, "***")
        line = " ".join(value.split())
        return line if len(line) <= _SAID else f"{line[:_SAID]}..."

"""OAuth 2 client credentials: an access token that is fetched when it is needed, by one caller for all that wait."""

from __future__ import annotations

import asyncio
import base64
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any
from urllib.parse import quote_plus, urlencode

import msgspec

from toolyard.links.http.addresses import Blocked
from toolyard.links.http.messages import Credential, Headers, Incoming, Outgoing, Send, set_header
from toolyard.links.http.url import Target, read_url
from toolyard.model.errors import CallError, CallTimeout, ConfigError, MalformedSource, Unavailable
from toolyard.parsing import parse_json

UNSAID_SECONDS = 300.0
"""How long a token is used whose server does not say."""
_EARLIER_SECONDS = 30.0
_EARLIER_PART = 0.1
_LONGEST = 7 * 24 * 3600.0
_TOKEN = re.compile(r"[!-~]{1,8192}")
_CODE = re.compile(r"[a-z_]{1,40}")
_OK = 200
_SERVER_FAULT = 500
_TOO_MANY = 429

Outcome = CallError | None
"""What became of a fetch, for those who waited: None means that there may be a token now, look again."""


_RECENT = 8


class NoToken(Unavailable):
    """The server that gives out tokens cannot be had; nothing is known of the one the token is for."""


class Token:
    """The token of one credential; thread safe, for any number of loops."""

    def __init__(
        self,
        origin: str,
        url: str,
        form: Sequence[tuple[str, str]],
        basic: str | None,
        clock: Callable[[], float],
    ) -> None:
        self._origin = origin
        self._url = url
        self._where = read_url(url).origin
        self._form = urlencode(form).encode()
        self._basic = basic
        self._clock = clock
        self._lock = threading.Lock()
        self._value: str | None = None
        self._until = 0.0
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._fetching: Future[Outcome] | None = None

    def current(self) -> str | None:
        """The token, if there is one that lasts."""
        with self._lock:
            return self._value if self._clock() < self._until else None

    def latest(self) -> str | None:
        """The token, even if it ran out since it was got."""
        return self._value

    def forget(self) -> None:
        """The token is of no use any more; it stays known, so that nobody is shown it."""
        with self._lock:
            self._until = 0.0

    def recent(self) -> tuple[str, ...]:
        """The last few tokens: calls that were sent with an older one may still be under way."""
        return tuple(self._recent)

    async def get(self, send: Send, outgoing: Outgoing) -> None:
        """See to it that there is a token."""
        while self.current() is None:
            mine, fetch = self._join_fetch()
            if not mine:
                try:
                    async with asyncio.timeout(_seconds_left(outgoing)):
                        # Shielded: a cancelled waiter must not cancel the fetch that others wait for.
                        outcome = await asyncio.shield(asyncio.wrap_future(fetch))
                except TimeoutError:
                    raise self._late_token() from None
                self._settle_fetch(outcome)
                continue
            outcome = None
            try:
                self._keep_token(await send(self._token_request(outgoing)))
            except CallError as error:
                outcome = self._explain_for_call(error)
            finally:
                # One caller's lack of time is not the others'.
                self._leave_fetch(fetch, None if isinstance(outcome, CallTimeout) else outcome)
            self._settle_fetch(outcome)
            return

    def _join_fetch(self) -> tuple[bool, Future[Outcome]]:
        """The fetch under way, and whether it is the caller's to make."""
        with self._lock:
            if self._fetching is not None:
                return False, self._fetching
            self._fetching = Future()
            return True, self._fetching

    def _leave_fetch(self, fetch: Future[Outcome], outcome: Outcome) -> None:
        with self._lock:
            self._fetching = None
        # Never an exception: asyncio complains of those that nobody has looked at.
        fetch.set_result(outcome)

    def _settle_fetch(self, outcome: Outcome) -> None:
        if outcome is not None:
            # Raised in several threads at once, so each gets its own.
            again = type(outcome)(outcome.info.message)
            again.info = outcome.info
            raise again

    def _token_request(self, outgoing: Outgoing) -> Outgoing:
        headers = [("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")]
        if self._basic is not None:
            headers.append(("authorization", f"Basic {self._basic}"))
        return Outgoing(
            method="POST",
            url=self._url,
            headers=tuple(headers),
            body=self._form,
            deadline=outgoing.deadline,
            named=outgoing.named,
        )

    def _keep_token(self, incoming: Incoming) -> None:
        try:
            data: Any = parse_json(incoming.body, what="token")
        except MalformedSource:
            data = None
        data = data if isinstance(data, dict) else {}
        if incoming.status != _OK:
            code = data.get("error")
            said = f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
            raise Unavailable(
                f"{self._where} answered {incoming.status}{said}",
                retryable=incoming.status >= _SERVER_FAULT or incoming.status == _TOO_MANY,
            )
        token, kind, seconds = data.get("access_token"), data.get("token_type", "bearer"), data.get("expires_in")
        if not (isinstance(token, str) and _TOKEN.fullmatch(token) and str(kind).lower() == "bearer"):
            raise Unavailable(f"{self._where} answered without a bearer token", retryable=False)
        lasts = _read_seconds(seconds)
        with self._lock:
            self._value = token
            self._recent.append(token)
            self._until = self._clock() + lasts - min(_EARLIER_SECONDS, lasts * _EARLIER_PART)

    def _explain_for_call(self, error: CallError) -> CallError:
        """The same failure, said of the call that needed the token, which was not sent."""
        text = f"no access token for {self._origin}: {error.info.message}"
        again = (NoToken if isinstance(error, Unavailable) else type(error))(text)
        again.info = msgspec.structs.replace(error.info, message=text, effect="none")
        return again

    def _late_token(self) -> CallTimeout:
        return CallTimeout(f"no access token for {self._origin} in time", effect="none")


class ClientCredentials(Credential):
    """OAuth 2 client credentials: a token fetched from `token_url`, kept until it runs out, fetched once for all.

    The secret goes to `token_url`, so that must come from the operator, never from a specification. With
    `in_body` the client's id and secret are sent in the form, for servers that do not take basic authorization.
    """

    def __init__(
        self,
        origin: str,
        token_url: str,
        client_id: str,
        client_secret: str,
        scopes: Sequence[str] = (),
        *,
        in_body: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(origin)
        form = [("grant_type", "client_credentials")]
        if scopes:
            form.append(("scope", " ".join(scopes)))
        self._client_secret = client_secret
        basic: str | None = None
        if in_body:
            form += [("client_id", client_id), ("client_secret", client_secret)]
        else:
            pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
            basic = base64.b64encode(pair.encode()).decode()
        self._basic = basic
        try:
            self._token: Token = Token(self.origin, token_url, form, basic, clock)
        except Blocked as error:
            raise ConfigError(f"token_url: {error}") from None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The client's secret, as it is sent too, and the token there is now."""
        sent = (self._client_secret, quote_plus(self._client_secret), self._basic, *self._token.recent())
        return tuple(dict.fromkeys(secret for secret in sent if secret))

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header, to the token that `prepare` got."""
        token = self._token.latest()
        if token is not None:
            set_header(headers, "authorization", f"Bearer {token}")
        return target

    async def prepare(self, send: Send, outgoing: Outgoing) -> None:
        """Fetch a token if there is none that lasts."""
        await self._token.get(send, outgoing)

    def refused(self) -> None:
        """Forget the token: the next request fetches another."""
        self._token.forget()


def _read_seconds(value: object) -> float:
    """`expires_in`, which some servers write as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return UNSAID_SECONDS
    return float(min(max(value, 1.0), _LONGEST))


def _seconds_left(outgoing: Outgoing) -> float | None:
    return None if outgoing.deadline is None else max(outgoing.deadline - time.monotonic(), 0.0)

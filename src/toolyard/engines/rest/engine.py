"""`RESTToolEngine`: HTTP requests, through the guarded client."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta

from toolyard.calls.flow import drive_or_await
from toolyard.calls.invocation import Invocation
from toolyard.calls.waits import Flow, WaitPair
from toolyard.dialects.telemetry import carry_trace
from toolyard.engines.effectful import OutwardEngine
from toolyard.engines.rest.operation import RestOperation, read_answer
from toolyard.links.http.addresses import AddressRule, read_base_url
from toolyard.links.http.auth import TokenUnavailable
from toolyard.links.http.auth_entry import AuthEntry, join_credentials, read_auth
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Credential, Incoming, Outgoing
from toolyard.loop.pacing import Breaker
from toolyard.model.bindings import RestBinding
from toolyard.model.errors import CallError, CallTimeout, Denied, NoEngine, SessionError, Unavailable
from toolyard.model.tool import Effects, Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.schema.common_options import AllowHosts, TlsOptions, check_headers, read_trust
from toolyard.schema.options import read_arguments
from toolyard.sessions.store.base import Key
from toolyard.words.redactor import find_credentials

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
_MAX_OPERATIONS = 8192
_CHANGING = frozenset({"PUT", "PATCH", "DELETE"})
_MIN_SECRET_LENGTH = 6
"""Minimum length of a header value that is treated as a secret."""
_MAX_SESSIONS = 10_000
_MAX_FETCHED = 256
_SERVER_FAULT = 500
_PATIENT_SECONDS = 1.0
"""A timeout shorter than this does not count as a failure of the server."""


def _make_client(reach: Mapping[str, Any], tls: Mapping[str, Any], max_bytes: int, pool: int) -> GuardedClient:
    return GuardedClient(
        AddressRule.of(reach["allow_hosts"], reach["allow_networks"]),
        verify=read_trust(tls["verify"], tls["ca"]),
        cert=tuple(tls["cert"]) if isinstance(tls["cert"], list) else tls["cert"],
        max_bytes=max_bytes,
        pool=pool,
        http2=reach["http2"],
    )


class ChosenCredentials:
    """The credentials chosen for a call."""

    __slots__ = ("credential", "named", "unplaced", "withheld")

    def __init__(self, entries: Sequence[AuthEntry], origin: str, *, withheld: bool = False) -> None:
        self.withheld = withheld
        """True if others are not sent, because neither they nor the operator name this origin."""
        self.credential: Credential | None = join_credentials(entries, origin)
        self.named = tuple(name for entry in entries for name in entry.named)
        self.unplaced = any(entry.origin is None for entry in entries)
        """True if one of them does not state which origin it is for."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not be shown, including any token fetched meanwhile."""
        return () if self.credential is None else self.credential.secrets


def choose_credentials(
    operation: RestOperation, own: Sequence[AuthEntry], shared: Sequence[AuthEntry] = ()
) -> ChosenCredentials:
    """The credentials that the operation requires: the session's own if they suffice, else those of the engine, too.

    The first alternative of the specification that is satisfied in full is used. If there is none, or it requires none,
    credentials without a `scheme` are sent: the operator may know the service better than its specification does.
    """
    mine = [entry for entry in own if entry.may_be_sent_to(operation.origin, operation.trusted)]
    everything = [*mine, *(entry for entry in shared if entry.may_be_sent_to(operation.origin, operation.trusted))]
    for available in (mine, everything):
        for alternative in operation.binding.security:
            found = _meet_alternative(operation, alternative, available)
            if found:
                return ChosenCredentials(found, operation.origin)
    slots: dict[tuple[str, str], AuthEntry] = {}
    for entry in everything:
        if entry.scheme is None:
            slots.setdefault(entry.slot, entry)
    withheld = not operation.trusted and any(entry.origin is None for entry in (*own, *shared))
    return ChosenCredentials(list(slots.values()), operation.origin, withheld=withheld)


def _meet_alternative(
    operation: RestOperation, alternative: Sequence[str], available: Sequence[AuthEntry]
) -> list[AuthEntry] | None:
    found: list[AuthEntry] = []
    for name in alternative:
        scheme = operation.binding.schemes.get(name)
        # A credential configured for the scheme by name comes before one that merely fits.
        fitting = sorted(
            (entry for entry in available if entry.matches_scheme(name, scheme)), key=lambda e: e.scheme is None
        )
        if not fitting:
            return None
        if fitting[0] not in found:
            found.append(fitting[0])
    return found


class _SentRequest(NamedTuple):
    """A request, and what is needed to read its response."""

    operation: RestOperation
    chosen: ChosenCredentials
    outgoing: Outgoing
    since: float


CallAuth = Annotated[
    Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    Meta(description="One credential or several: mappings with the type bearer, basic, api_key or oauth2."),
]
CallBaseUrl = Annotated[
    str | None, Meta(description="Base URL of the service for all tools, in place of that of their source.")
]
AllowNetworks = Annotated[Sequence[str], Meta(description="Private networks that may be called, such as 10.0.0.0/8.")]
IdempotencyHeader = Annotated[str | None, Meta(description="Header with an idempotency key, which makes retries safe.")]
BreakerFailures = Annotated[int, Meta(ge=1, description="Consecutive failures after which the circuit breaker opens.")]


@register_tool_engine("rest")
class RESTToolEngine(OutwardEngine):
    """Sends the HTTP request of a tool and returns the response: JSON, text, or bytes with their media type.

    `auth` is a credential or a list of them: `{"type": "bearer", "token": ...}`, `basic` (`user`, `password`),
    `api_key` (`in`, `name`, `value`) or `oauth2` (`token_url`, `client_id`, `client_secret`, `scopes`); each may
    have an `origin` and the `scheme` of the specification that it is for. Without an origin, a credential is sent only
    to hosts that the operator configured, by `base_url` here or at the source, and never to one that only the
    specification names. The same applies to `headers`.

    Calls may go to public addresses, and to those allowed by `base_url`, `allow_hosts` and `allow_networks`. `base_url`
    here overrides that of every tool. `ca` is a file of certificate authorities, `cert` a client certificate: a file,
    or certificate, key and password.

    Failed calls are retried up to `retries` times if that is safe: READ tools, and with `idempotency_header` calls that
    have an id, which is then sent under that name. After `breaker_failures` failures in a row a server gets no requests
    for `breaker_pause` seconds.
    """

    option_structs: ClassVar[tuple[type, ...]] = (TlsOptions,)

    type_name = "rest"

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        auth: CallAuth = None,
        base_url: CallBaseUrl = None,
        allow_hosts: AllowHosts = (),
        allow_networks: AllowNetworks = (),
        verify: bool = True,
        ca: str | None = None,
        cert: str | Sequence[str] | None = None,
        headers: Mapping[str, str] | None = None,
        user_agent: Annotated[str | None, Meta(description="Name of the engine.")] = None,
        timeout: float | None = 30.0,
        retries: int = 2,
        max_response_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of a response.")] = MAX_RESPONSE_BYTES,
        max_connections: Annotated[int, Meta(ge=1, description="Maximum number of open connections.")] = 100,
        http2: Annotated[bool, Meta(description="Offer HTTP/2.")] = True,
        idempotency_header: IdempotencyHeader = None,
        breaker_failures: BreakerFailures = 5,
        breaker_pause: Annotated[float, Meta(ge=0, description="Seconds that the circuit breaker stays open.")] = 30.0,
        **settings: Any,
    ) -> None:
        super().__init__(registry, timeout=timeout, retries=retries, **settings)
        tls = read_arguments(TlsOptions, headers=headers, verify=verify, ca=ca, cert=cert)
        reach: dict[str, Any] = {"allow_hosts": allow_hosts, "allow_networks": allow_networks, "http2": http2}
        breaker: dict[str, Any] = {"breaker_failures": breaker_failures, "breaker_pause": breaker_pause}
        read = read_arguments(RESTToolEngine, **reach, **breaker)
        self.base_url = None if base_url is None else read_base_url(base_url, "base_url")
        self._auth = read_auth(auth, "auth")
        self._headers: tuple[tuple[str, str], ...] = tuple(tls["headers"].items())
        # A header may identify the caller, which is no secret; responses must not repeat the credentials in it.
        self._header_secrets = tuple(value for _, value in self._headers if len(value) >= _MIN_SECRET_LENGTH)
        self._header_credentials = tuple(part for item in self._headers for part in find_credentials(*item))
        agent = {} if user_agent is None else {"user-agent": user_agent}
        self._agent = tuple(check_headers(agent, "user_agent").items())
        check_headers({} if idempotency_header is None else {idempotency_header: ""}, "idempotency_header")
        self._key_header = idempotency_header
        self.idempotent = idempotency_header is not None
        self._breaker = Breaker(time.monotonic, read["breaker_failures"], read["breaker_pause"])
        self._client: GuardedClient = self._keep_part(_make_client(read, tls, max_response_bytes, max_connections))
        self._operations: dict[int, tuple[RestBinding, RestOperation, ChosenCredentials]] = {}
        self._sessions: OrderedDict[Key, tuple[AuthEntry, ...]] = OrderedDict()
        self._fetched: OrderedDict[str, None] = OrderedDict()
        self._own_origins: tuple[int, frozenset[str]] = (-1, frozenset())
        self._lock = threading.Lock()
        self._hide_secrets(self.secrets)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Configured values that must not be shown."""
        return (*(secret for entry in self._auth for secret in entry.secrets), *self._header_secrets)

    def takes(self, tool: Tool) -> bool:
        """True for HTTP operations only."""
        return type(tool.binding) is RestBinding

    def only_reads(self, tool: Tool) -> bool:
        """False for methods that are meant to change something, even if the tool is labelled READ."""
        binding = tool.binding
        changes = isinstance(binding, RestBinding) and binding.method.upper() in _CHANGING
        return super().only_reads(tool) and not changes

    def blocks(self, tool: Tool) -> bool:
        """False: `answer` returns a coroutine on an event loop, and enforces the deadline itself elsewhere."""
        return False

    def set_credentials(
        self,
        session_id: str,
        auth: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
        *,
        owner: str | None = None,
    ) -> None:
        """Set the credentials of one session, in the form of the option `auth`; None removes them.

        They take precedence over the engine's own, live in memory only, and end with the session. Forks do not inherit
        them.
        """
        entries, key = read_auth(auth, "credentials"), Key(owner or "", session_id)
        with self._lock:
            if entries and key not in self._sessions and len(self._sessions) >= _MAX_SESSIONS:
                # To drop another's would let its calls go out in the engine's own name.
                raise SessionError(f"{_MAX_SESSIONS:,} sessions have their own credentials, the maximum")
            self._drop_credentials(key)
            if entries:
                self._sessions[key] = entries
                for secret in (secret for entry in entries for secret in entry.secrets):
                    self._root._path.redactor.add_passing(secret)

    def ended(self, session_id: str, owner: str | None = None) -> None:
        """Forget the session's credentials."""
        super().ended(session_id, owner)
        with self._lock:
            self._drop_credentials(Key(owner or "", session_id))

    def _drop_credentials(self, key: Key) -> None:
        for entry in self._sessions.pop(key, ()):
            for secret in entry.secrets:
                self._root._path.redactor.forget(secret)

    def _hide_fetched(self, chosen: ChosenCredentials) -> None:
        """Redact fetched tokens, keeping only the most recent ones, since tokens change."""
        for secret in chosen.secrets:
            if secret not in self._fetched:
                with self._lock:
                    self._fetched[secret] = None
                    self._root._path.redactor.add_passing(secret)
                    if len(self._fetched) > _MAX_FETCHED:
                        self._root._path.redactor.forget(self._fetched.popitem(last=False)[0])

    def answer(self, invocation: Invocation) -> Any:
        """The value; if an event loop is running, a coroutine for it."""
        return drive_or_await(self._exchange_messages(invocation, self._write_request(invocation)))

    def _exchange_messages(self, invocation: Invocation, sent: _SentRequest) -> Flow:
        client, outgoing = self._client, sent.outgoing
        try:
            incoming = yield WaitPair(lambda: client.send(outgoing), lambda: client.asend(outgoing))
        except CallError as error:
            self._count_failure(sent, error)
            raise
        # Read after sending, since a token may have been fetched for the request.
        invocation.secrets = (*sent.chosen.secrets, *self._header_credentials)
        return self._read_answer(sent, incoming)

    def _write_request(self, invocation: Invocation) -> _SentRequest:
        tool = invocation.tool
        if type(tool.binding) is not RestBinding:
            raise NoEngine(
                f"{tool.qualified_name} has no HTTP operation behind it",
                hint="load the tool with RESTToolLoader, or give its source another engine",
            )
        operation, chosen = self._prepare_operation(tool.binding)
        own = self._sessions.get(invocation.session.key)
        if own is not None:
            chosen = choose_credentials(operation, own, self._auth)
        url, headers, body = operation.write(invocation.arguments)
        more = self._agent + self._headers if operation.trusted else self._agent
        more += tuple(carry_trace({}).items())
        if more:
            given = {name.lower() for name, _ in headers}
            headers += tuple(item for item in more if item[0].lower() not in given)
        if chosen.unplaced or (operation.trusted and self._headers):
            self._check_single_origin(operation)
        if self._key_header is not None and tool.effects is not Effects.READ:
            key = invocation.idempotency_key
            if key is not None:
                headers = (*headers, (self._key_header, key))
        self._breaker.check(operation.origin)
        outgoing = Outgoing(
            method=operation.method,
            url=url,
            headers=headers,
            body=body,
            deadline=invocation.deadline,
            credential=chosen.credential,
            named=operation.hosts + chosen.named,
        )
        return _SentRequest(operation, chosen, outgoing, time.monotonic())

    def _prepare_operation(self, binding: RestBinding) -> tuple[RestOperation, ChosenCredentials]:
        known = self._operations.get(id(binding))
        if known is not None:
            return known[1], known[2]
        operation = RestOperation(binding, self.base_url)
        chosen = choose_credentials(operation, self._auth)
        if len(self._operations) >= _MAX_OPERATIONS:
            self._operations.clear()
        # Keep the binding, so that its id is not reused for another.
        self._operations[id(binding)] = (binding, operation, chosen)
        return operation, chosen

    def _check_single_origin(self, operation: RestOperation) -> None:
        """Refuse to send a secret without an origin if the tools of this engine have several."""
        registry = self._root.tool_registry
        if self._own_origins[0] != registry.generation:
            self._own_origins = (registry.generation, self._find_own_origins(registry))
        others = self._own_origins[1] - {operation.origin}
        if others:
            raise Denied(
                f"the credentials of engine {self.name!r} do not say whether they are for {operation.origin} "
                f"or for {min(others)}, where its tools are too",
                hint="set `origin` on each of them, or give each service its own engine",
            )

    def _find_own_origins(self, registry: ToolRegistry) -> frozenset[str]:
        """The origins that the operator configured for tools of this engine."""
        found = set()
        for tool in registry:
            if type(tool.binding) is RestBinding and self._routes_here(tool):
                # An invalid address is reported when its tool is called.
                with suppress(NoEngine):
                    operation = self._prepare_operation(tool.binding)[0]
                    if operation.trusted:
                        found.add(operation.origin)
        return frozenset(found)

    def _routes_here(self, tool: Tool) -> bool:
        try:
            return self._root.route(tool) is self
        except NoEngine:
            return False

    def _read_answer(self, sent: _SentRequest, incoming: Incoming) -> Any:
        if sent.chosen.named:
            self._hide_fetched(sent.chosen)
        if incoming.status >= _SERVER_FAULT:
            self._breaker.record_failure(sent.operation.origin)
        else:
            self._breaker.record_success(sent.operation.origin)
        secrets = (*sent.chosen.secrets, *self._header_secrets)
        return read_answer(incoming, sent.operation, secrets, time.time(), withheld=sent.chosen.withheld)

    def _count_failure(self, sent: _SentRequest, error: CallError) -> None:
        """Count an error that suggests that the server is in trouble."""
        if isinstance(error, TokenUnavailable):
            return
        patient = time.monotonic() - sent.since >= _PATIENT_SECONDS
        if (isinstance(error, Unavailable) and error.info.retryable) or (isinstance(error, CallTimeout) and patient):
            self._breaker.record_failure(sent.operation.origin)

    def close(self) -> None:
        """Close all connections, and forget the credentials of sessions."""
        self._sessions.clear()
        super().close()

"""What the operator said of a REST engine: where services are, how they are reached, and who asks.

Which credential goes with a call is chosen by what the tool's specification asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolyard.engines.options import RestEngineOptions
from toolyard.engines.rest.request import RestOperation
from toolyard.links.http.addresses import AddressRule
from toolyard.links.http.auth_entry import AuthEntry, join_credentials
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Credential
from toolyard.schema.common_options import read_trust
from toolyard.schema.options import read_arguments


def make_client(max_bytes: int, pool: int, **given: Any) -> GuardedClient:
    """The client these options describe."""
    read = read_arguments(RestEngineOptions, **given)
    return GuardedClient(
        AddressRule.of(read["allow_hosts"], read["allow_networks"]),
        verify=read_trust(read["verify"], read["ca"]),
        cert=tuple(read["cert"]) if isinstance(read["cert"], list) else read["cert"],
        max_bytes=max_bytes,
        pool=pool,
        http2=read["http2"],
    )


class Chosen:
    """What goes along with a call."""

    __slots__ = ("credential", "named", "unplaced")

    def __init__(self, entries: Sequence[AuthEntry], origin: str) -> None:
        self.credential: Credential | None = join_credentials(entries, origin)
        self.named = tuple(name for entry in entries for name in entry.named)
        self.unplaced = any(entry.origin is None for entry in entries)
        """Something of it does not say which origin it is for."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown of it; a token that was fetched meanwhile counts."""
        return () if self.credential is None else self.credential.secrets


def choose_credentials(operation: RestOperation, own: Sequence[AuthEntry], shared: Sequence[AuthEntry] = ()) -> Chosen:
    """What the operation asks for, of the session's own credentials if these are enough, else of all.

    An alternative of the specification that can be met whole is. If none can, or it asks for nothing, what is not
    meant for a certain scheme goes along: the operator knows the service better than its specification may.
    """
    mine = [entry for entry in own if entry.serves(operation.origin, operation.trusted)]
    everything = [*mine, *(entry for entry in shared if entry.serves(operation.origin, operation.trusted))]
    for available in (mine, everything):
        for alternative in operation.binding.security:
            found = _meet_alternative(operation, alternative, available)
            if found:
                return Chosen(found, operation.origin)
    slots: dict[tuple[str, str], AuthEntry] = {}
    for entry in everything:
        if entry.scheme is None:
            slots.setdefault(entry.slot, entry)
    return Chosen(list(slots.values()), operation.origin)


def _meet_alternative(
    operation: RestOperation, alternative: Sequence[str], available: Sequence[AuthEntry]
) -> list[AuthEntry] | None:
    found: list[AuthEntry] = []
    for name in alternative:
        scheme = operation.binding.schemes.get(name)
        # One that is meant for the scheme by name before one that merely fits.
        fitting = sorted((entry for entry in available if entry.fits(name, scheme)), key=lambda e: e.scheme is None)
        if not fitting:
            return None
        if fitting[0] not in found:
            found.append(fitting[0])
    return found

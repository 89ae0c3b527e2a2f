"""`Service`: the parts of one server, put together once, and handed to whoever uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from toolyard.app.blocks import ServerBlock
from toolyard.app.toolyard import Toolyard
from toolyard.serving.admission import Admission, BodyBudget
from toolyard.serving.background import BackgroundTasks, Work
from toolyard.serving.catalog_view import CatalogView, SnapshotCache
from toolyard.serving.idempotency import Idempotency
from toolyard.serving.invoke import Invoker
from toolyard.serving.keys import KeyRing
from toolyard.serving.loaded_catalog import LoadedCatalog
from toolyard.serving.mcp.server import McpServer
from toolyard.serving.mcp.state import McpState
from toolyard.serving.metrics import Metrics
from toolyard.serving.registered_tools import Registrations
from toolyard.serving.served_names import CurrentNames
from toolyard.serving.session_quota import SessionQuota
from toolyard.sessions.open import open_records
from toolyard.sessions.records import Records

_READS = 8
_LARGE_BODIES = 16


@dataclass(frozen=True)
class Service:
    """Everything of a server but its wires. None of the parts knows this class."""

    yard: Toolyard
    block: ServerBlock
    records: Records
    keys: KeyRing | None
    metrics: Metrics | None
    admission: Admission
    """Places in which tools run."""
    reads: Admission
    """Places for reading what costs much, apart from those in which tools run."""
    body_budget: BodyBudget
    quota: SessionQuota
    idempotency: Idempotency
    names: CurrentNames
    catalog: CatalogView
    invoker: Invoker
    registrations: Registrations
    loaded: LoadedCatalog
    mcp: McpServer
    background: BackgroundTasks
    failing: dict[str, str]
    """What goes on beside the requests and does not work at the moment, with the kind of its error."""

    async def start(self) -> None:
        """Load what was registered, and begin to look after what others change."""
        await self.loaded.start()
        if self.keys is not None:
            await asyncio.to_thread(self.keys.load)
        self.background.start()

    async def stop(self) -> None:
        """End what goes on beside the requests."""
        await self.background.stop()
        await self.idempotency.close()


def make_service(
    yard: Toolyard, block: ServerBlock | None = None, *, with_keys: bool | None = None, secrets: Sequence[str] = ()
) -> Service:
    """The service of an open yard. `secrets` are texts that no report may show.

    Where `with_keys` does not say, there are keys if the sessions are stored: those that end with the process could be
    given to nobody.
    """
    block = block or ServerBlock()
    registry, engine = yard.tool_registry, yard.tool_engine
    # Whoever calls from outside is told what was meant for them, and no more.
    engine.discreet = True
    records = open_records(engine.sessions.store)
    keys = KeyRing(records) if (records.shared if with_keys is None else with_keys) else None
    if keys is not None:
        keys.load()
    admission = Admission(
        *(block.max_requests, block.max_waiting), rate=block.rate, burst=block.burst, concurrency=block.concurrency
    )
    reads = Admission(_READS, block.max_waiting)
    metrics = _make_metrics(yard, admission) if block.metrics else None
    idempotency = Idempotency(records)
    names, cache = CurrentNames(registry, yard.domains), SnapshotCache()
    invoker = Invoker(yard, names, idempotency, metrics, block.call_timeout)
    quota = SessionQuota(engine.sessions, block.sessions_per_key)
    registrations = Registrations(registry, records)
    loaded = LoadedCatalog(yard, records, registrations, secrets)
    mcp = McpServer(
        McpState(
            *(yard, block),
            records=records,
            keys=keys,
            admission=admission,
            reads=reads,
            quota=quota,
            invoker=invoker,
            served_names=names,
            cache=cache,
        )
    )
    failing: dict[str, str] = {}
    work: dict[str, Work] = {"answers": idempotency.tend, "mcp": partial(mcp.tend, failing, "mcp")}
    work |= {"other processes": partial(loaded.follow_others, failing, "other processes")} if records.shared else {}
    work |= {} if keys is None else {"keys": keys.watch}
    work |= {} if metrics is None else {"metrics": metrics.run}
    return Service(
        *(yard, block, records, keys, metrics, admission, reads, BodyBudget(_LARGE_BODIES * block.max_body_bytes)),
        *(quota, idempotency, names, CatalogView(registry, names, cache), invoker, registrations, loaded, mcp),
        *(BackgroundTasks(work, failing), failing),
    )


def _make_metrics(yard: Toolyard, admission: Admission) -> Metrics:
    metrics = Metrics(yard.tool_registry.__contains__)
    metrics.watch("running", lambda: admission.running)
    metrics.watch("waiting", lambda: admission.waiting)
    metrics.watch("aside", lambda: admission.aside)
    metrics.watch("sessions", lambda: len(yard.tool_engine.sessions))
    metrics.watch("tools", lambda: len(yard.tool_registry))
    return metrics

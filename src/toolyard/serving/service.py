"""`Service`: the parts of one server, put together once, and what goes on beside the requests as long as it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from toolyard.app.blocks import PluginEntry, ServerBlock
from toolyard.app.config import Config
from toolyard.app.toolyard import Toolyard, build_parts
from toolyard.calls.journal import CallLogOptions
from toolyard.calls.tracer import read_log_options
from toolyard.engines.base import ToolEngine
from toolyard.model.errors import ConfigError, ToolyardError
from toolyard.model.report import LoadReport
from toolyard.serving.admission import Admission, BodyBudget
from toolyard.serving.approval_view import ApprovalView
from toolyard.serving.catalog_view import CatalogView, LoadedCatalog, Registrations, SnapshotCache, Visibility
from toolyard.serving.idempotency import Idempotency
from toolyard.serving.identity import KeyRing
from toolyard.serving.invoke import CurrentNames, Invoker
from toolyard.serving.mcp.builtin_tools import make_builtin_tools
from toolyard.serving.mcp.server import McpEndpoint
from toolyard.serving.metrics import Metrics
from toolyard.serving.routes.events import EventFeed
from toolyard.serving.session_view import SessionQuota
from toolyard.serving.webhook import NAME as WEBHOOK, Webhook
from toolyard.sessions.records import Records, open_records

Work = Callable[[], Coroutine[Any, Any, None]]

_PAUSE = 1.0
_log = logging.getLogger(__name__)


class BackgroundTasks:
    """Work that must not end: whatever stops it is logged, stands in `failing`, and it begins again."""

    def __init__(self, work: Mapping[str, Work], failing: MutableMapping[str, str]) -> None:
        self._work = dict(work)
        self._failing = failing
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, on the running loop."""
        self._tasks = [asyncio.create_task(self._keep_up(name, work)) for name, work in self._work.items()]

    async def stop(self) -> None:
        """End all of it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_up(self, name: str, work: Work) -> None:
        while True:
            try:
                await work()
                return
            except Exception as error:  # noqa: BLE001 - nobody awaits this task; silence would be the worst of all
                self._failing[name] = type(error).__name__
                _log.error("%s: failed with %s: %s; it goes on", name, type(error).__name__, error)
            await asyncio.sleep(_PAUSE)


_READS = 8
_LARGE_BODIES = 16
_SHOWN = 20


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
    mcp: McpEndpoint
    events: EventFeed
    background: BackgroundTasks
    failing: dict[str, str]
    """What goes on beside the requests and does not work at the moment, with the kind of its error."""
    approvals: ApprovalView
    webhook: Webhook | None

    async def start(self) -> None:
        """Load what was registered, and begin to look after what others change."""
        await self.loaded.start()
        if self.keys is not None:
            await asyncio.to_thread(self.keys.load)
        self.background.start()

    def end_waits(self) -> None:
        """Let nobody wait for news of a server that stops."""
        self.mcp.subscribers.end_all()
        self.invoker.end_waits()

    async def stop(self) -> None:
        """End what goes on beside the requests."""
        if self.webhook is not None:
            await self.webhook.drain()
        await self.background.stop()
        await self.idempotency.close()


def make_service(
    yard: Toolyard,
    block: ServerBlock | None = None,
    *,
    with_keys: bool | None = None,
    log: bool | CallLogOptions | UnsetType = UNSET,
) -> Service:
    """The service of an open yard. `log` is as in `tracing.log`.

    Where `with_keys` does not say, there are keys if the sessions are stored: those that end with the process could be
    given to nobody.
    """
    block = block or ServerBlock()
    registry, engine = yard.tool_registry, _prepare_engine(yard.tool_engine, log)
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
    names = CurrentNames(registry, yard.domains)
    catalog = CatalogView(registry, names, SnapshotCache(), Visibility(engine.policy))
    invoker = Invoker(yard, names, idempotency, metrics, block.call_timeout)
    quota = SessionQuota(engine.sessions, block.sessions_per_key)
    registrations = Registrations(registry, records)
    loaded = LoadedCatalog(yard, records, registrations)
    mcp = McpEndpoint(
        *(yard, block, make_builtin_tools(block.mcp)),
        records=records,
        keys=keys,
        admission=admission,
        reads=reads,
        quota=quota,
        invoker=invoker,
        catalog=catalog,
    )
    failing: dict[str, str] = {}
    events = EventFeed(yard)
    webhook = _make_webhook(engine, block, failing)
    work = _list_work(failing, idempotency, mcp, events, loaded if records.shared else None, keys, metrics, webhook)
    return Service(
        *(yard, block, records, keys, metrics, admission, reads, BodyBudget(_LARGE_BODIES * block.max_body_bytes)),
        *(quota, idempotency, names, catalog, invoker, registrations, loaded, mcp),
        *(events, BackgroundTasks(work, failing), failing, ApprovalView(engine.approvals), webhook),
    )


def _make_webhook(engine: ToolEngine, block: ServerBlock, failing: dict[str, str]) -> Webhook | None:
    hook = block.approvals.webhook
    # An approver decides on every call at once: nobody has to be fetched.
    is_decided = engine.policy is not None and engine.policy.approver is not None
    return None if hook is None or is_decided else Webhook(engine.approvals, hook, failing)


def _prepare_engine(engine: ToolEngine, log: bool | CallLogOptions | UnsetType) -> ToolEngine:
    # Whoever calls from outside is told what was meant for them, and no more.
    engine.discreet = True
    if engine.journal is None and (options := read_log_options(log, serving=True)):
        engine.keep_journal(options)
    return engine


def _list_work(
    failing: dict[str, str],
    idempotency: Idempotency,
    mcp: McpEndpoint,
    events: EventFeed,
    shared: LoadedCatalog | None,
    keys: KeyRing | None,
    metrics: Metrics | None,
    webhook: Webhook | None,
) -> dict[str, Work]:
    """What goes on beside the requests."""
    work: dict[str, Work] = {"answers": idempotency.tend, "mcp": partial(mcp.tend, failing, "mcp")}
    work["events"] = partial(events.tend, failing, "events")
    work |= {} if shared is None else {"other processes": partial(shared.follow_others, failing, "other processes")}
    work |= {} if webhook is None else {WEBHOOK: webhook.tend}
    work |= {} if keys is None else {"keys": keys.watch}
    return work | ({} if metrics is None else {"metrics": metrics.run})


def _make_metrics(yard: Toolyard, admission: Admission) -> Metrics:
    metrics = Metrics(yard.tool_registry.__contains__)
    metrics.watch("running", lambda: admission.running)
    metrics.watch("waiting", lambda: admission.waiting)
    metrics.watch("aside", lambda: admission.aside)
    metrics.watch("sessions", lambda: len(yard.tool_engine.sessions))
    metrics.watch("tools", lambda: len(yard.tool_registry))
    return metrics


def build_service(config: Config, block: ServerBlock) -> Service:
    """Everything a config names, built and opened, with what stands around it on a server.

    What cannot be loaded is left out and listed in the service's report, unless the block is strict.
    """
    registry, engine, report = build_parts(_with_domains(config, block), lenient=not block.strict)
    with ExitStack() as undo:
        yard = undo.enter_context(Toolyard(registry, engine))
        if block.strict and not report.ok:
            raise ConfigError("strict: " + "; ".join(list_problems(report)))
        service = make_service(yard, block, log=config.tracing.log)
        undo.pop_all()
    return service


def _with_domains(config: Config, block: ServerBlock) -> Config:
    if not block.domains:
        return config
    options = {"domains": list(block.domains), "on_error": "raise" if block.strict else "skip"}
    return msgspec.structs.replace(config, loaders=[PluginEntry("domains", options, "domains"), *config.loaders])


async def reload_sources(loaded: LoadedCatalog) -> None:
    """Load every source again; what goes wrong is logged, and the last good tools stay."""
    try:
        await loaded.reload()
    except ToolyardError as error:
        _log.warning("the sources could not be loaded again: %s", error)
    for line in list_problems(loaded.registry.report):
        _log.warning("%s", line)


def list_problems(report: LoadReport) -> list[str]:
    """One line for each source and definition that is not served, and why."""
    lines = [f"{source.source}: {source.state}: {source.error}" for source in report.sources if source.state != "ok"]
    lines += [f"{item.where}: left out: {item.reason}" for item in report.rejected]
    if len(lines) > _SHOWN:
        lines = [*lines[:_SHOWN], f"... and {len(lines) - _SHOWN:,} more; GET /v1/report lists all"]
    return lines

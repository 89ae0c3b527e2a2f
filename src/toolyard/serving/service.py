"""`Service`: the parts of one server, put together once, and what goes on beside the requests as long as it runs."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import ExitStack
from functools import partial

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
from toolyard.serving.admission import Admission
from toolyard.serving.approval_view import ApprovalView
from toolyard.serving.catalog_view import CatalogView, SnapshotCache, Visibility
from toolyard.serving.event_feed import EventFeed
from toolyard.serving.idempotency import Idempotency
from toolyard.serving.invoke import CurrentNames, Invoker
from toolyard.serving.keys import KeyRing
from toolyard.serving.loaded_catalog import LoadedCatalog
from toolyard.serving.mcp.builtin_tools import make_builtin_tools
from toolyard.serving.mcp.server import McpEndpoint
from toolyard.serving.metrics import Metrics
from toolyard.serving.registrations import Registrations
from toolyard.serving.request_body import BodyBudget
from toolyard.serving.session_view import SessionQuota
from toolyard.serving.webhook import Webhook
from toolyard.sessions.records import open_records

Step = Callable[[], Awaitable[float | None]]
"""Gives the seconds until the next, if they are others than usual."""

_ALLOCATIONS = 10_000
"""Of the collector, between two looks; by itself it takes 700, which are fewer than those of a few requests."""
_log = logging.getLogger(__name__)


class BackgroundTasks:
    """Steps that are taken again and again; one that fails is logged and stands in `failing` until it works again."""

    def __init__(self, steps: Iterable[tuple[str, float, Step]], failing: MutableMapping[str, str]) -> None:
        self._steps = tuple(steps)
        """For each its name, the seconds between two of them, and what to do."""
        self._failing = failing
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, on the running loop."""
        self._tasks = [asyncio.create_task(self._repeat(*step)) for step in self._steps]

    async def stop(self) -> None:
        """End all of it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, name: str, every: float, step: Step) -> None:
        while True:
            wait = None
            try:
                wait = await step()
                self._failing.pop(name, None)
            except Exception as error:  # noqa: BLE001 - no task awaits this one; a silent failure would be worse
                if name not in self._failing:
                    _log.warning("%s: failed with %s: %s; it is tried again", name, type(error).__name__, error)
                self._failing[name] = type(error).__name__
            await asyncio.sleep(every if wait is None else wait)


_READS = 8
_LARGE_BODIES = 16
_SHOWN = 20


class Service:
    """Everything of a server but its wires, put together around an open yard. None of the parts knows this class.

    `log` is as in `tracing.log`.
    """

    def __init__(
        self,
        yard: Toolyard,
        block: ServerBlock | None = None,
        *,
        log: bool | CallLogOptions | UnsetType = UNSET,
    ) -> None:
        self.yard = yard
        self.block = block = block or ServerBlock()
        registry, engine = yard.tool_registry, yard.tool_engine
        _prepare_engine(engine, log)
        self.records = open_records(engine.sessions.store)
        self.keys = KeyRing(self.records)
        self.keys.load()
        self.admission = Admission(
            *(block.max_requests, block.max_waiting), rate=block.rate, burst=block.burst, concurrency=block.concurrency
        )
        """Places in which tools run."""
        self.reads = Admission(_READS, block.max_waiting)
        """Places for reading what costs much, apart from those in which tools run."""
        self.body_budget = BodyBudget(_LARGE_BODIES * block.max_body_bytes)
        self.metrics = _make_metrics(yard, self.admission) if block.metrics else None
        self.quota = SessionQuota(engine.sessions, block.sessions_per_key)
        self.idempotency = Idempotency(self.records)
        self.names = CurrentNames(registry, yard.domains)
        self.catalog = CatalogView(registry, self.names, SnapshotCache(), Visibility(engine.policy))
        self.invoker = Invoker(yard, self.names, self.idempotency, self.metrics, block.call_timeout)
        self.registrations = Registrations(registry, self.records)
        self.loaded = LoadedCatalog(yard, self.records, self.registrations)
        self.mcp = McpEndpoint(
            *(yard, block, make_builtin_tools(block.mcp)),
            records=self.records,
            keys=self.keys,
            admission=self.admission,
            reads=self.reads,
            quota=self.quota,
            invoker=self.invoker,
            catalog=self.catalog,
        )
        self.events = EventFeed(yard)
        self.approvals = ApprovalView(engine.approvals)
        self.failing: dict[str, str] = {}
        """What goes on beside the requests and does not work at the moment, with the kind of its error."""
        self.webhook = _make_webhook(engine, block, self.failing)
        self._background = BackgroundTasks(self._list_steps(), self.failing)

    def _list_steps(self) -> Iterator[tuple[str, float, Step]]:
        """What goes on beside the requests."""
        yield "answers", 1.0, self.idempotency.poll
        yield "mcp", 0.05, self.mcp.poll
        yield "events", 0.2, self.events.poll
        yield "keys", self.keys.every, self.keys.poll
        if self.records.shared:
            yield "other processes", 0.2, self.loaded.follow_others
        if self.webhook is not None:
            yield "webhook", 0.1, self.webhook.send_waiting
        if self.metrics is not None and self.metrics.shared is not None:
            yield "metrics", 1.0, partial(asyncio.to_thread, self.metrics.write_shared)

    async def start(self) -> None:
        """Load what was registered, and begin to look after what others change."""
        await self.loaded.start()
        await asyncio.to_thread(self.keys.load)
        self._background.start()

    def end_waits(self) -> None:
        """End streams and waits: the server stops."""
        self.mcp.subscribers.end_all()
        self.invoker.end_waits()

    async def stop(self) -> None:
        """End what goes on beside the requests."""
        if self.webhook is not None:
            await self.webhook.drain()
        await self._background.stop()
        await self.idempotency.close()


def _prepare_engine(engine: ToolEngine, log: bool | CallLogOptions | UnsetType) -> None:
    # Remote callers see what a tool meant for them, and no more.
    engine.discreet = True
    if engine.journal is None and (options := read_log_options(log, serving=True)):
        engine.keep_journal(options)


def _make_webhook(engine: ToolEngine, block: ServerBlock, failing: dict[str, str]) -> Webhook | None:
    hook = block.approvals.webhook
    # An approver decides on every call at once: there is no one to notify.
    is_decided = engine.policy is not None and engine.policy.approver is not None
    return None if hook is None or is_decided else Webhook(engine.approvals, hook, failing)


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

    What cannot be loaded is left out and listed in the service's report, unless the block is strict, or it is all.
    """
    registry, engine, report = build_parts(_with_domains(config, block), lenient=not block.strict)
    with ExitStack() as undo:
        yard = undo.enter_context(Toolyard(registry, engine))
        if block.strict and not report.ok:
            raise ConfigError("strict: " + "; ".join(list_problems(report)))
        if _is_one_file(config) and any(source.state != "ok" for source in report.sources):
            raise ConfigError("; ".join(list_problems(report)))
        service = Service(yard, block, log=config.tracing.log)
        undo.pop_all()
    return service


def _is_one_file(config: Config) -> bool:
    """Whether tools were named in place of a config: without them there is nothing to serve, and none to wait for."""
    return len(config.loaders) == 1 and config.loaders[0].where == config.where


def _with_domains(config: Config, block: ServerBlock) -> Config:
    if not block.domains:
        return config
    options = {"domains": list(block.domains), "on_error": "raise" if block.strict else "skip"}
    return msgspec.structs.replace(config, loaders=[PluginEntry("domains", options, "domains"), *config.loaders])


async def reload_sources(loaded: LoadedCatalog) -> None:
    """Reload all sources; what goes wrong is logged, and the last good tools stay."""
    try:
        await loaded.reload()
    except ToolyardError as error:
        _log.warning("the sources could not be loaded again: %s", error)
    for line in list_problems(loaded.registry.report):
        _log.warning("%s", line)


def settle_memory() -> None:
    """For a process that has loaded all and now serves: what is there stays, and the collector need not look at it."""
    gc.collect()
    gc.freeze()
    # Requests leave few circles behind. Those that wait would be looked at, and moved on to the old ones, all the time.
    gc.set_threshold(_ALLOCATIONS)


def list_problems(report: LoadReport) -> list[str]:
    """One line for each source and definition that is not served, and why."""
    lines = [f"{source.source}: {source.state}: {source.error}" for source in report.sources if source.state != "ok"]
    lines += [f"{item.where}: left out: {item.reason}" for item in report.rejected]
    if len(lines) > _SHOWN:
        lines = [*lines[:_SHOWN], f"... and {len(lines) - _SHOWN:,} more; GET /v1/report lists all"]
    return lines

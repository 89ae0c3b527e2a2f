"""`Service`: assembles the parts of one server, and runs its background tasks."""

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
from toolyard.serving.catalog_view import CatalogView
from toolyard.serving.idempotency import Idempotency
from toolyard.serving.invoke import CurrentNames, Invoker
from toolyard.serving.keys import POLL_SECONDS, KeyRing
from toolyard.serving.mcp.builtin_tools import make_builtin_tools
from toolyard.serving.mcp.server import McpEndpoint
from toolyard.serving.monitoring import Metrics
from toolyard.serving.registrations import LoadedCatalog, Registrations
from toolyard.serving.routes.approvals import ApprovalView
from toolyard.serving.routes.events import EventFeed
from toolyard.serving.routing import BodyBudget
from toolyard.serving.session_view import SessionQuota
from toolyard.serving.webhook import Webhook
from toolyard.sessions.records import open_records

Step = Callable[[], Awaitable[float | None]]
"""A background step. It may return the seconds until its next run, in place of the usual interval."""

_ALLOCATIONS = 10_000
"""Allocations between garbage collections. Python's default of 700 is reached within a few requests."""
_log = logging.getLogger(__name__)


class BackgroundTasks:
    """Runs steps periodically. A step that fails is logged, and listed in `failing` until it succeeds again."""

    def __init__(self, steps: Iterable[tuple[str, float, Step]], failing: MutableMapping[str, str]) -> None:
        self._steps = tuple(steps)
        """For each step its name, the seconds between runs, and the function."""
        self._failing = failing
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks on the running loop."""
        self._tasks = [asyncio.create_task(self._repeat(*step)) for step in self._steps]

    async def stop(self) -> None:
        """Cancel the tasks and wait for them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, name: str, every: float, step: Step) -> None:
        while True:
            wait = None
            try:
                wait = await step()
                self._failing.pop(name, None)
            except Exception as error:  # noqa: BLE001 - nothing awaits this task, so a failure would go unnoticed
                if name not in self._failing:
                    _log.warning("%s: failed with %s: %s; it is tried again", name, type(error).__name__, error)
                self._failing[name] = type(error).__name__
            await asyncio.sleep(every if wait is None else wait)


_MAX_READS = 8
_MAX_LARGE_BODIES = 16
_MAX_PROBLEMS = 20


class Service:
    """The parts of a server around an open yard, without its routes. None of the parts refers to this class.

    `log` takes the values of `tracing.log`.
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
        # Remote callers get no messages of a tool's unexpected exceptions, only an id under which they are logged.
        engine.discreet = True
        if engine.journal is None and (options := read_log_options(log, serving=True)):
            engine.keep_journal(options)
        self.records = open_records(engine.sessions.store)
        self.keys = KeyRing(self.records)
        self.keys.load()
        self.admission = Admission(
            *(block.max_requests, block.max_waiting), rate=block.rate, burst=block.burst, concurrency=block.concurrency
        )
        """Limits requests that run tools."""
        self.reads = Admission(_MAX_READS, block.max_waiting)
        """Limits expensive reads, independently of `admission`."""
        self.body_budget = BodyBudget(_MAX_LARGE_BODIES * block.max_body_bytes)
        self.metrics = _make_metrics(yard, self.admission) if block.metrics else None
        self.quota = SessionQuota(engine.sessions, block.sessions_per_key)
        self.idempotency = Idempotency(self.records)
        self.names = CurrentNames(registry, yard.domains)
        self.catalog = CatalogView(registry, self.names, engine.policy)
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
        """Background steps that fail at the moment, with the type of their error."""
        self.webhook = _make_webhook(engine, block, self.failing)
        self._background = BackgroundTasks(self._list_steps(), self.failing)

    def _list_steps(self) -> Iterator[tuple[str, float, Step]]:
        """Yield name, interval in seconds and function of each background step."""
        yield "answers", 1.0, self.idempotency.poll
        yield "mcp", 0.05, self.mcp.poll
        yield "events", 0.2, self.events.poll
        yield "keys", POLL_SECONDS, self.keys.poll
        if self.records.shared:
            yield "other processes", 0.2, self.loaded.follow_others
        if self.webhook is not None:
            yield "webhook", 0.1, self.webhook.send_waiting
        if self.metrics is not None and self.metrics.shared is not None:
            yield "metrics", 1.0, partial(asyncio.to_thread, self.metrics.write_shared)

    async def start(self) -> None:
        """Load registered tools and keys, and start the background tasks."""
        await self.loaded.start()
        await asyncio.to_thread(self.keys.load)
        policy, namespaces = self.yard.tool_engine.policy, self.yard.tool_registry.namespaces()
        for text in self.keys.find_idle(() if policy is None else policy.rules, namespaces):
            _log.warning("%s", text)
        self._background.start()

    def end_waits(self) -> None:
        """End open streams and waits for approvals, because the server stops."""
        self.mcp.subscribers.end_all()
        self.invoker.end_waits()

    async def stop(self) -> None:
        """Send what the webhook still has, stop the background tasks, and record unfinished requests."""
        if self.webhook is not None:
            await self.webhook.drain()
        await self._background.stop()
        await self.idempotency.close()


def _make_webhook(engine: ToolEngine, block: ServerBlock, failing: dict[str, str]) -> Webhook | None:
    hook = block.approvals.webhook
    # With an approver in the policy, held calls are decided at once, and nobody needs to be notified.
    is_decided = engine.policy is not None and engine.policy.approver is not None
    return None if hook is None or is_decided else Webhook(engine.approvals, hook, failing)


def _make_metrics(yard: Toolyard, admission: Admission) -> Metrics:
    metrics = Metrics(yard.tool_registry.__contains__)
    metrics.watch_gauge("running", lambda: admission.running)
    metrics.watch_gauge("waiting", lambda: admission.waiting)
    metrics.watch_gauge("aside", lambda: admission.aside)
    metrics.watch_gauge("sessions", lambda: len(yard.tool_engine.sessions))
    metrics.watch_gauge("tools", lambda: len(yard.tool_registry))
    return metrics


def build_service(config: Config, block: ServerBlock) -> Service:
    """Build the yard of a config, open it, and return a service around it.

    Sources that cannot be loaded are skipped and listed in the report; with `strict`, or if the config is a single file
    of tools, that is a `ConfigError`.
    """
    registry, engine, report = build_parts(_with_domains(config, block), lenient=not block.strict)
    with ExitStack() as undo:
        yard = undo.enter_context(Toolyard(registry, engine))
        if block.strict and not report.ok:
            raise ConfigError("strict: " + "; ".join(list_problems(report)))
        # A file of tools was given instead of a config; if it cannot be loaded, there is nothing to serve.
        is_one_file = len(config.loaders) == 1 and config.loaders[0].where == config.where
        if is_one_file and any(source.state != "ok" for source in report.sources):
            raise ConfigError("; ".join(list_problems(report)))
        service = Service(yard, block, log=config.tracing.log)
        undo.pop_all()
    return service


def _with_domains(config: Config, block: ServerBlock) -> Config:
    if not block.domains:
        return config
    options = {"domains": list(block.domains), "on_error": "raise" if block.strict else "skip"}
    return msgspec.structs.replace(config, loaders=[PluginEntry("domains", options, "domains"), *config.loaders])


async def reload_sources(loaded: LoadedCatalog) -> None:
    """Reload all sources; failures are logged, and the last good tools stay."""
    try:
        await loaded.reload()
    except ToolyardError as error:
        _log.warning("the sources could not be loaded again: %s", error)
    for line in list_problems(loaded.registry.report):
        _log.warning("%s", line)


def freeze_memory() -> None:
    """Exempt all objects loaded so far from garbage collection, and collect less often. Call once, before serving."""
    gc.collect()
    gc.freeze()
    # Requests create few reference cycles, and frequent collections would move waiting requests to older generations.
    gc.set_threshold(_ALLOCATIONS)


def list_problems(report: LoadReport) -> list[str]:
    """Return a line for each source and definition that is not served, with the reason."""
    lines = [f"{source.source}: {source.state}: {source.error}" for source in report.sources if source.state != "ok"]
    lines += [f"{item.where}: left out: {item.reason}" for item in report.rejected]
    if len(lines) > _MAX_PROBLEMS:
        lines = [*lines[:_MAX_PROBLEMS], f"... and {len(lines) - _MAX_PROBLEMS:,} more; GET /v1/report lists all"]
    return lines

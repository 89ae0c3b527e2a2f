"""The config, registry and sessions that a command works on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from toolyard.app.blocks import MEMORY, SessionsBlock
from toolyard.app.config import Config, read_anything
from toolyard.app.toolyard import Toolyard, build_parts, build_registry, make_sessions, survey
from toolyard.calls.policy import Approver, Policy, PolicyOptions
from toolyard.cli.options import DEFAULT_CONFIG
from toolyard.cli.output import NotFoundError, counted, describe_missing, warn, working, write_command
from toolyard.constants import TOOL_DEFAULT_NAMESPACE, TOOL_NAMESPACE_SEP
from toolyard.engines.python import PythonToolEngine
from toolyard.model.errors import ConfigError, UnknownSessionError
from toolyard.model.report import LoadReport
from toolyard.parsing.files import file_of
from toolyard.registry import ToolRegistry
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sql import SessionStore
from toolyard.sources.domains import DomainToolLoader, enabled_domains


def read_named(config: Path | None) -> tuple[Path | None, Config]:
    """The file that a command works on, and its config; an empty config if there is no file."""
    path = config_path(config)
    return path, Config(where="", base=Path(), loaders=[]) if path is None else read_anything(path)


def config_path(config: Path | None, *, must_exist: bool = True) -> Path | None:
    """The given file, that of the environment, or that in the current folder; None for the enabled domains."""
    path = config
    if config is None and (named := os.environ.get("TOOLYARD_CONFIG")):
        path = Path(named)
        if must_exist and not os.path.exists(file_of(path)):
            raise ConfigError(f"TOOLYARD_CONFIG: {named}: no such file; name one with -c, or unset the variable")
    return DEFAULT_CONFIG if path is None and DEFAULT_CONFIG.is_file() else path


def open_registry(config: Path | None, *, skip_bad: bool = False) -> ToolRegistry:
    """The registry that a command works on; reports on standard error how many entries were left out.

    Entries are left out only with `skip_bad`, or if a source is configured to skip bad ones.
    """
    path = config_path(config)
    with working("loading tools"):
        if path is None:
            return domain_registry(skip_bad=skip_bad)
        registry = survey(path, enrich=True)[0] if skip_bad else build_registry(path)
        _warn_of_rejected(registry.report, path)
        return registry


@contextmanager
def open_yard(
    config: Path | None,
    *,
    skip_bad: bool = False,
    durable: bool = False,
    approver: Approver | None = None,
    tool: str = "",
) -> Iterator[Toolyard]:
    """The yard that a command works on; with `durable`, sessions are stored even if the config has no store.

    The same applies if calls may have to wait for approval. If only one `tool` is needed, servers of others may be left
    out.
    """
    with working("loading tools"):
        path, read = read_named(config)
        if path is None:
            registry = domain_registry(skip_bad=skip_bad)
            sessions = make_sessions(_default_sessions(read, path, durable))
            yard = Toolyard(registry, PythonToolEngine(registry, sessions=sessions))
        else:
            durable = durable or Policy.from_options(read.policy).asks
            wired = msgspec.structs.replace(_keep_servers(read, tool), sessions=_default_sessions(read, path, durable))
            registry, engine, report = build_parts(wired, approver, lenient=skip_bad)
            _warn_of_rejected(report, path)
            yard = Toolyard(registry, engine)
    with yard:
        yield yard


def _keep_servers(config: Config, tool: str) -> Config:
    """The config without MCP servers whose namespace is not the tool's, which would only be waited for.

    All stay if the tool is not certain to be of a server, or if another part of the config depends on all tools.
    """
    namespace, qualified, _ = tool.partition(TOOL_NAMESPACE_SEP)
    spaces = [
        entry.options.get("namespace", TOOL_DEFAULT_NAMESPACE) if entry.type == "mcp" else None
        for entry in config.loaders
    ]
    if not qualified or namespace not in spaces:
        return config
    if config.enrichments or config.engines or config.policy != PolicyOptions():
        return config
    kept = [entry for entry, space in zip(config.loaders, spaces, strict=True) if space in (namespace, None)]
    return msgspec.structs.replace(config, loaders=kept)


def choose_owner(
    sessions: Sessions, session_id: str, owner: str | None, config: Path | None, *, begins: bool = False
) -> str | None:
    """The owner of the session that is meant; in the store that files without one share, by default the file itself.

    Sessions without an owner, from older versions, belong to all files. If no file was given, a unique session id
    is enough, unless the command may create the session (`begins`).
    """
    if owner is not None or not sessions.yard or sessions.store is None:
        return owner
    for known in (sessions.yard, None):
        with suppress(UnknownSessionError):
            sessions.find(session_id, known)
            return known
    owners = [] if begins or config_path(config) else _list_owners(sessions.store, session_id, None)
    return owners[0] if len(owners) == 1 else sessions.yard


def _list_owners(store: SessionStore | None, session_id: str, owner: str | None) -> list[str]:
    return [] if store is None else [one.owner for one in store.sessions(owner) if one.session_id == session_id]


def missing_session(
    store: SessionStore | None, session_id: str, owner: str | None, config: Path | None
) -> UnknownSessionError:
    """The error about a missing session, with its actual owners or similar ids."""
    if owners := _list_owners(store, session_id, owner):
        whose = " and ".join(owners)
        return UnknownSessionError(f"session {session_id!r} is of {whose}; say --owner {shlex.quote(owners[0])}")
    known = [] if store is None else [item.session_id for item in store.sessions(owner)]
    told = describe_missing("session", session_id, known, write_command(config, "session", "list"))
    return UnknownSessionError(f"{told}; looked in {describe_store(config)}")


@contextmanager
def open_sessions(config: Path | None) -> Iterator[Sessions]:
    """The stored sessions that a command works on, without loading tools."""
    path, read = read_named(config)
    with closing(make_sessions(_default_sessions(read, path, durable=True))) as sessions:
        yield sessions


def describe_store(config: Path | None) -> str:
    """Which store `open_sessions` opens, for messages about sessions that are not in it."""
    path, read = read_named(config)
    whose = f"no file was named, and there is no {DEFAULT_CONFIG} here" if path is None else f"{path} names no store"
    if read.sessions.store == MEMORY:
        return f"{_users_sessions()} ({whose})"
    # The address of a database may be secret.
    return f"{read.sessions.options.get('path', f'the {read.sessions.store} store')} (of {path})"


def _default_sessions(config: Config, path: Path | None, durable: bool) -> SessionsBlock:
    """The config's own sessions; or the user's, which all files without a store share."""
    block = config.sessions
    if not durable or block.store != MEMORY:
        return block
    yard = ",".join(enabled_domains()) if path is None else str(path.resolve())
    return msgspec.structs.replace(block, store="sqlite", options={"path": _users_sessions()}, yard=yard)


def _users_sessions() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "toolyard" / "sessions.db"


def _warn_of_rejected(report: LoadReport, path: Path) -> None:
    if report.rejected:
        warn(f"{counted(len(report.rejected), 'bad definition')} left out; `toolyard check {path}` lists them")


def domain_registry(*, skip_bad: bool = False) -> ToolRegistry:
    """The tools of the enabled domains; those that could not be loaded are reported on standard error."""
    loader = DomainToolLoader(enabled_domains(), on_duplicate="skip" if skip_bad else "raise")
    registry = ToolRegistry.from_loaders([loader])
    for rejected in registry.report.rejected:
        warn(f"{rejected.where}: {rejected.reason}")
    return registry


def warn_of_default_tools(config: Path | None) -> None:
    """Warn that the default tools were searched, if no file was given."""
    if config_path(config) is None:
        domains = ", ".join(enabled_domains())
        warn(
            f"there is no {DEFAULT_CONFIG} here and no file was named, "
            f"so these are the tools that ship with toolyard ({domains})"
        )


def require_known(
    registry: ToolRegistry,
    config: Path | None,
    *,
    namespace: str | Iterable[str] | None = None,
    tag: str | Iterable[str] | None = None,
) -> None:
    """Refuse a namespace or tag that no tool has, with similar ones."""
    for what, asked, known in (
        ("namespace", namespace, {tool.namespace for tool in registry}),
        ("tag", tag, {tag for tool in registry for tag in tool.tags}),
    ):
        for name in (asked,) if isinstance(asked, str) else asked or ():
            if name not in known:
                raise NotFoundError(describe_missing(what, name, sorted(known), write_command(config, "tools")))

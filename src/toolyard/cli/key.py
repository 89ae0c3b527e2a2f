"""`toolyard key`: the API keys of a server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from toolyard.app.blocks import MEMORY
from toolyard.app.toolyard import make_sessions
from toolyard.calls.journal import read_span
from toolyard.cli.options import YARD, YardOptions
from toolyard.cli.output import (
    NotFoundError,
    describe_missing,
    print_either,
    print_json,
    print_list,
    print_text,
    warn,
    write_command,
    write_time,
)
from toolyard.cli.yard import open_registry, read_named
from toolyard.model.errors import ConfigError, ToolyardError
from toolyard.model.names import glob_matcher
from toolyard.serving.identity import KeyLimits, Scopes, read_scopes
from toolyard.serving.keys import POLL_SECONDS, ApiKey, KeyRing
from toolyard.sessions.records import open_records

ScopeOption = Annotated[
    list[str],
    Parameter(
        name="--scope",
        help="Namespace and verbs, such as hr:list,execute or `'*:*'`. Verbs: list, simulate, execute, "
        "approve, admin. May be repeated.",
    ),
]


def create_(
    name: Annotated[str, Parameter(help="Name of the key, shown in lists and logs.")],
    /,
    *,
    scope: ScopeOption,
    expires: Annotated[str | None, Parameter(help="Lifetime: 90s, 15m, 12h, 30d, 8w. By default unlimited.")] = None,
    rate: Annotated[float | None, Parameter(help="Requests per second; by default the server's limit.")] = None,
    burst: Annotated[float | None, Parameter(help="Burst of requests beyond the rate.")] = None,
    concurrency: Annotated[int | None, Parameter(help="Concurrent requests.")] = None,
    options: YardOptions = YARD,
) -> int:
    """Create a key and print its token, this once; running servers accept it by the time this returns."""
    scopes = read_scopes(scope)
    until = None if expires is None else time.time() + _read_lifetime(expires)
    with _open_ring(options.config) as ring:
        key, token = ring.create(name, scopes, expires=until, limits=KeyLimits(rate, burst, concurrency))
        _wait_for_servers()
    if options.json:
        print_json({**_describe_key(key), "token": token})
        return 0
    print_text(token)
    _warn_of_namespaces(options.config, scopes)
    _warn_of_idle_rules(options.config, ring)
    # Standard output contains only the token, for use in scripts.
    warn(f"key {key.id} ({key.name}) for {' '.join(key.scopes)}; the token is not shown again")
    return 0


def list_(*, options: YardOptions = YARD) -> int:
    """List the keys, without their tokens."""
    with _open_ring(options.config) as ring:
        keys = ring.list()
    _warn_of_idle_rules(options.config, ring)
    entries = [_describe_key(key) for key in keys]
    columns = ["id", "name", "scopes", "state", "created", "expires"]
    rows = (
        [
            entry["id"],
            entry["name"],
            " ".join(entry["scopes"]),
            entry["state"],
            entry["created"],
            entry["expires"] or "never",
        ]
        for entry in entries
    )
    return print_list(options.json, "key", entries, columns, rows)


def revoke_(
    key_id: Annotated[str, Parameter(help="Id of the key (see `toolyard key list`), or its name if that is unique.")],
    /,
    *,
    options: YardOptions = YARD,
) -> int:
    """Revoke a key. Every running server refuses it by the time this returns."""
    with _open_ring(options.config) as ring:
        key = ring.revoke(key_id) or ring.revoke(_find_named(ring, key_id))
        if key is None:
            command = write_command(options.config, "key", "list")
            raise NotFoundError(describe_missing("key", key_id, [known.id for known in ring.list()], command))
        _wait_for_servers()
    return print_either(options.json, _describe_key(key), f"{key.id} ({key.name}) is revoked")


def _wait_for_servers() -> None:
    # Servers poll every POLL_SECONDS; the second period allows for the poll itself.
    time.sleep(2 * POLL_SECONDS)


def _find_named(ring: KeyRing, name: str) -> str:
    """The id of the only active key with that name; empty if there is none."""
    named = [key.id for key in ring.list() if key.name == name and key.revoked is None]
    if len(named) > 1:
        raise ConfigError(f"{len(named)} keys are called {name!r}; say which by its id: {', '.join(named)}")
    return named[0] if named else ""


def _warn_of_namespaces(config: Path | None, scopes: Scopes) -> None:
    """Warn of scopes for namespaces that no tool of the config has now."""
    named = [grant.namespaces for grant in scopes.grants if grant.namespaces != "*"]
    if not named:
        return
    try:
        with open_registry(config, skip_bad=True) as registry:
            known = registry.namespaces()
    except ToolyardError as error:
        warn(f"cannot check whether these namespaces exist: {error}")
        return
    for glob in named:
        if not any(map(glob_matcher((glob,)), known)):
            warn(describe_missing("namespace", glob, known, write_command(config, "tools")))


def _warn_of_idle_rules(config: Path | None, ring: KeyRing) -> None:
    for text in ring.find_idle(options.rule for options in read_named(config)[1].policy.rules):
        warn(text)


@contextmanager
def _open_ring(config: Path | None) -> Iterator[KeyRing]:
    path, read = read_named(config)
    if read.sessions.store == MEMORY:
        where = "there is no config" if path is None else f"{path} keeps sessions in memory"
        raise ConfigError(
            f"{where}, and keys must be kept where servers find them; add `sessions: {{store: sqlite}}`"
            " or `store: postgres` to the config that is served, and name it with --config"
        )
    with closing(make_sessions(read.sessions)) as sessions, closing(open_records(sessions.store)) as records:
        yield KeyRing(records)


def _read_lifetime(text: str) -> float:
    seconds = read_span(text)
    if not seconds:
        raise ConfigError(f"--expires {text!r}: write a number and a unit, such as 90s, 15m, 12h, 30d or 8w")
    return seconds


def _describe_key(key: ApiKey) -> dict[str, Any]:
    times = {"created": key.created, "expires": key.expires, "revoked": key.revoked}
    return {
        "id": key.id,
        "name": key.name,
        "scopes": list(key.scopes),
        "state": key.state(time.time()),
        **{name: None if at is None else write_time(at) for name, at in times.items()},
        **msgspec.structs.asdict(key.limits),
    }

"""The config: the `tools:` block and those beside it, with `${VAR}` expanded, and the options of plugins.

Reading is strict and opens nothing. Secret values of variables are collected on the way, and removed from errors and
reports.
"""

from __future__ import annotations

import os
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from toolyard.app.blocks import (
    MEMORY,
    TOOLS_KEYS,
    TOP_KEYS,
    MemoryOptions,
    PluginEntry,
    ServerBlock,
    SessionsBlock,
    is_config,
)
from toolyard.calls.policy import PolicyOptions
from toolyard.calls.tracer import TracingOptions
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.links.http.auth_entry import is_blank
from toolyard.model.errors import CallError, ConfigError, MalformedSource, ToolyardError
from toolyard.model.json_schema import file_type
from toolyard.model.names import find_similar, suggest
from toolyard.model.report import LoadReport, SourceReport
from toolyard.parsing import parse_json, parse_yaml, read_bytes
from toolyard.parsing.files import file_of
from toolyard.parsing.json_text import is_json_lines
from toolyard.plugins import SESSION_STORES, parameters_of
from toolyard.schema.options import (
    VARIABLE,
    ConfigOption,
    Text,
    Variable,
    check_keys,
    expand,
    expand_place,
    option_type,
    options_of,
    read_given,
    read_option,
    read_options,
    read_value,
)
from toolyard.sources.base import recognise_document
from toolyard.words.redactor import Redactor, looks_secret, names_a_secret

_WIRED = ("registry", "name", "sessions", "policy", "tracer", "redactor")
"""Options of engines that are set from other parts of the config."""
_ROUTES = ("engines", "sources", "bindings", "default")


def list_wired_options(cls: type) -> tuple[str, ...]:
    """Options of the plugin that a config cannot set, because they come from its other parts."""
    if not issubclass(cls, ToolEngine):
        return ()
    return (*_WIRED, *_ROUTES) if issubclass(cls, MultiToolEngine) else _WIRED


@lru_cache(maxsize=256)
def plugin_options(cls: Any) -> Mapping[str, ConfigOption]:
    """The options that a config may give, by name.

    Description and limits come from the annotation: `Annotated[int, Meta(ge=1, description="...")]`. Those of shared
    options are in the `option_structs` of the class and its bases, unless the annotation says something else.
    """
    hints, hidden = _annotations_of(cls), list_wired_options(cls)
    structs = [struct for owner in reversed(cls.__mro__) for struct in vars(owner).get("option_structs", ())]
    shared = {key: option for struct in structs for key, option in options_of(struct).items()}
    found: dict[str, ConfigOption] = {}
    for name, parameter in parameters_of(cls).items():
        if name in hidden or parameter.kind is parameter.VAR_KEYWORD:
            continue
        said = hints.get(name, Any)
        wanted = option_type(said)
        if name in shared and typing.get_origin(said) is not Annotated and wanted.may_be(shared[name].type):
            wanted = shared[name].type
        if parameter.default is None and all(branch.kind not in ("null", "any") for branch in wanted.all):
            wanted = msgspec.structs.replace(wanted, others=(*wanted.others, option_type(None)))
        needed = parameter.default is parameter.empty
        found[name] = ConfigOption(name, wanted, msgspec.NODEFAULT if needed else parameter.default, needed)
    return found


def read_plugin_options(cls: type, given: Mapping[str, Any], where: str, base: Path | None = None) -> dict[str, Any]:
    """The options converted to the class's types; unknown ones are passed on, for the plugin table to refuse."""
    known = plugin_options(cls)
    return {
        name: read_value(known[name].type if name in known else option_type(Any), value, f"{where}.{name}", base=base)
        for name, value in given.items()
    }


def _annotations_of(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        init = owner.__dict__.get("__init__")
        if init is None or owner is object:
            continue
        try:
            found.update(typing.get_type_hints(init, include_extras=True))
        except (NameError, TypeError):
            continue  # ignore annotations that only type checkers can resolve
    return found


T = TypeVar("T")
MAX_CONFIG_BYTES = 4 * 1024 * 1024
_SUFFIXES = (".yaml", ".yml", ".json")
_CATALOG_ONLY = (".jsonl", ".ndjson")
ConfigLike = str | Path | Mapping[str, Any]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A config that was read, with variables expanded; its plugins are not created yet."""

    where: str
    base: Path
    loaders: list[PluginEntry]
    engines: dict[str, PluginEntry] = {}
    enrichments: list[PluginEntry] = []
    sessions: SessionsBlock = SessionsBlock()
    policy: PolicyOptions = PolicyOptions()
    tracing: TracingOptions = TracingOptions()
    server: ServerBlock = ServerBlock()
    secrets: tuple[str, ...] = ()
    """Values that must not appear in errors, logs or traces."""

    def __repr__(self) -> str:
        return f"Config({self.where!r}, {len(self.loaders)} sources, {len(self.engines)} engines)"


def store_names() -> list[str]:
    """The names of session stores."""
    return [MEMORY, *SESSION_STORES.names()]


def options_of_store(store: str) -> Mapping[str, ConfigOption]:
    """Options in a `sessions` block that are specific to that store."""
    if store == MEMORY:
        return options_of(MemoryOptions)
    cls: type = SESSION_STORES.get(store)
    return plugin_options(cls)


def common_options() -> dict[str, ConfigOption]:
    """Options in a `sessions` block for all stores."""
    known = options_of(SessionsBlock)
    return {key: known[key] for key in ("store", "ttl", "max_open")}


def read_sessions(block: Mapping[str, Any], where: str, base: Path) -> SessionsBlock:
    """Check a `sessions` block; relative paths are resolved against `base`."""
    store = str(read_option(SessionsBlock, "store", block.get("store", MEMORY), f"{where}.store"))
    if store != MEMORY and store not in SESSION_STORES:
        raise ConfigError(
            f"{where}.store: no such choice {store[:80]!r}; {suggest(store, store_names(), 'write one of ')}"
        )
    own, common = options_of_store(store), common_options()
    for key in block:
        owners = [] if key in own or key in common else [one for one in store_names() if key in options_of_store(one)]
        if owners:
            raise ConfigError(f"{where}.{key}: is for store: {owners[0]}, and the store is {store}")
    # Default paths are resolved against the config's folder, too.
    located = {
        key: option.default for key, option in own.items() if option.type.extra_value("locate") and not option.required
    }
    given = read_given({**common, **own}, {"store": store, **located, **block}, where, base=base)
    for key, option in own.items():
        if option.required and key not in given:
            raise ConfigError(f"{where}: store: {store} needs a {key}: {option.description}")
    options = {key: given.pop(key) for key in list(given) if key in own}
    return SessionsBlock(options=options, **given)


def read_config_file(path: Path, max_bytes: int = MAX_CONFIG_BYTES) -> Any:
    """The parsed document, before variables are expanded; None if it is JSON Lines, as only catalogs are."""
    data = read_bytes(path, max_bytes=max_bytes)
    suffix = path.suffix.lower()
    if suffix in _CATALOG_ONLY or (suffix == ".json" and is_json_lines(data)):
        return None
    parse = parse_json if suffix == ".json" else parse_yaml
    try:
        return parse(data, what=str(path))
    except MalformedSource as error:
        if suffix in _SUFFIXES:
            raise
        raise ConfigError(f"{error}; a config is written in YAML or JSON") from None


def read_config(document: Any, *, base: Path, where: str = "config", env: Mapping[str, str] | None = None) -> Config:
    """Read a parsed document; relative paths are resolved against `base`."""
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: a config is a mapping with a 'tools' key, not {file_type(document)}")
    reader = _ConfigReader(where, base, env, find_variable_defaults(document))
    # The list is evaluated when an error is raised, and then contains the secrets found so far.
    with hide_secrets(reader.secrets):
        return reader.read(dict(document))


def read_anything(config: ConfigLike, *, env: Mapping[str, str] | None = None) -> Config:
    """Read a config from a file or a mapping; a catalog or a Python file becomes a config with one source."""
    if isinstance(config, Mapping):
        return read_config(config, base=Path(), env=env)
    path = Path(expand_place(config, "config"))
    if file_of(path).suffix == ".py":
        return Config(where=str(path), base=Path(), loaders=[PluginEntry("python", {"target": str(path)}, str(path))])
    # Catalogs may have hundreds of megabytes and are parsed once, by their loader; configs are never that large.
    is_short = not os.path.exists(path) or path.stat().st_size <= MAX_CONFIG_BYTES
    document = read_config_file(path) if is_short else None
    if not is_config(document) or recognise_document(document) is not None:
        # Not the catalog's folder, since its path is already relative to the working directory.
        return Config(where=str(path), base=Path(), loaders=[PluginEntry("file", {"path": str(path)}, str(path))])
    return read_config(document, base=path.parent, where=str(path), env=env)


class _ConfigReader:
    """Reads one document, and collects the secrets in it."""

    def __init__(self, where: str, base: Path, env: Mapping[str, str] | None, defaults: set[str]) -> None:
        self.where = where
        self.base = base
        self.env = env
        self.defaults = defaults
        self.secrets: list[str] = []

    def read(self, document: dict[str, Any]) -> Config:
        if inner := next((key for key in TOOLS_KEYS if key in document), None):
            beside = "" if inner == "registry" else ", beside 'registry', the sources"
            raise ConfigError(f"{self.where}: unknown key {inner!r}; it stands under 'tools'{beside}")
        check_keys(document, TOP_KEYS, self.where)
        tools = document.get("tools")
        tools = {"registry": tools} if isinstance(tools, list) else tools
        if not isinstance(tools, dict):
            must = "must be a list or a mapping of sources, such as - {type: python, target: my_tools.py}"
            raise ConfigError(f"{self.where}: 'tools' {must}, not {file_type(tools)}")
        check_keys(tools, TOOLS_KEYS, f"{self.where}: tools")
        engines = self.read_engines(tools.get("engines"))
        enrichments = tools.get("enrichments")
        return Config(
            where=self.where,
            base=self.base,
            loaders=self.read_sources(tools.get("registry"), engines),
            engines=engines,
            enrichments=self.read_plugins([] if enrichments is None else enrichments, "tools.enrichments"),
            sessions=read_sessions(self.expand_block(document, "sessions"), f"{self.where}: sessions", self.base),
            policy=self.read_block(document, "policy", PolicyOptions),
            tracing=self.read_block(document, "tracing", TracingOptions),
            server=self.read_block(document, "server", ServerBlock),
            secrets=tuple(dict.fromkeys(self.secrets)),
        )

    def read_block(self, document: Mapping[str, Any], key: str, struct: type[T]) -> T:
        """The block under that key, which may be missing or empty."""
        return read_options(struct, self.expand_block(document, key), f"{self.where}: {key}")

    def expand_block(self, document: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = {} if document.get(key) is None else document[key]
        if not isinstance(value, dict):
            raise ConfigError(f"{self.where}: {key} must be a mapping, not {file_type(value)}")
        return self.expand_variables(value, f"{self.where}: {key}")

    def read_sources(self, items: Any, engines: dict[str, PluginEntry]) -> list[PluginEntry]:
        if not isinstance(items, list):
            raise ConfigError(f"{self.where}: tools.registry must be a list of sources, not {file_type(items)}")
        found = []
        for entry, item in zip(self.read_plugins(items, "tools.registry", but="engine"), items, strict=True):
            engine = item.get("engine")
            if engine is not None and (not isinstance(engine, str) or engine not in engines):
                named = repr(engine) if isinstance(engine, str) else f"of the type {file_type(engine)}"
                known = f"({', '.join(engines) or 'none'}), where each has its name: {{NAME: {{type: lm, ...}}}}"
                raise ConfigError(f"{entry.where}: engine {named} is not among tools.engines {known}")
            if entry.type == "rest" and (auth := entry.options.get("auth")) and not is_blank(auth):
                engine = self.lend_credential(auth, engine, entry.where, engines)
            found.append(msgspec.structs.replace(entry, engine=engine))
        return found

    def lend_credential(self, auth: Any, engine: str | None, where: str, engines: dict[str, PluginEntry]) -> str:
        """A copy, with this credential, of an engine without one; of the engine `rest` for a source that names none."""
        copied = engines.get(engine or "rest")
        options = copied.options if copied is not None and copied.type == "rest" else {}
        if engine is not None and (engines[engine].type != "rest" or "auth" in options):
            return engine
        lent = PluginEntry("rest", {**options, "auth": auth}, where, engine or "rest")
        # Sources with equal credentials share a copy: they may be namespaces of one document.
        same = (name for name, entry in engines.items() if msgspec.structs.replace(entry, where=where) == lent)
        name = next(same, where.removeprefix(f"{self.where}: "))
        engines.setdefault(name, lent)
        return name

    def read_engines(self, block: Any) -> dict[str, PluginEntry]:
        if block is not None and not isinstance(block, dict):
            raise ConfigError(f"{self.where}: tools.engines must be a mapping, not {file_type(block)}")
        found: dict[str, PluginEntry] = {}
        for name, options in (block or {}).items():
            place = f"{self.where}: tools.engines.{name}"
            found[read_value(option_type(Text), name, place)] = self.read_plugin(options, place)
        return found

    def read_plugins(self, items: Any, key: str, but: str | None = None) -> list[PluginEntry]:
        where = f"{self.where}: {key}"
        listed = read_value(option_type(list[Any]), items, where)
        return [self.read_plugin(item, f"{where}[{index}]", but) for index, item in enumerate(listed)]

    def read_plugin(self, item: Any, place: str, but: str | None = None) -> PluginEntry:
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            near = (
                [key for key in find_similar("type", map(str, item)) if key != "type"] if isinstance(item, dict) else []
            )
            meant = f"; did you mean that by {near[0]!r}?" if near else "; `toolyard add` writes it" if but else ""
            raise ConfigError(f"{place}: needs a 'type', the name of what is to be made: {{type: ..., ...}}{meant}")
        options = {key: value for key, value in item.items() if key not in ("type", but)}
        return PluginEntry(item["type"], self.expand_variables(options, place), place)

    def expand_variables(self, value: dict[str, Any], place: str) -> dict[str, Any]:
        made: dict[str, Any] = expand(value, where=place, env=self.env, found=self.note_variable, whole=Variable)
        self.collect_secrets(made, secret=False)
        return made

    def note_variable(self, name: str, value: str, default: bool) -> None:
        if not default:
            self.secrets += find_secrets(name, value, defaults=self.defaults, base=self.base)
        elif looks_secret(name):
            self.secrets.append(value)

    def collect_secrets(self, value: Any, *, secret: bool) -> None:
        """Collect every text under a key that indicates a secret."""
        if isinstance(value, dict):
            for key, item in value.items():
                self.collect_secrets(item, secret=secret or looks_secret(str(key)))
        elif isinstance(value, list):
            for item in value:
                self.collect_secrets(item, secret=secret)
        elif secret and isinstance(value, str):
            self.secrets.append(value)


_MIN_LENGTH = 6
_TRUNCATED_AT = 60
_PREFIX_LENGTH = 16
_FLAG_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null"})
_CONFIG_WORDS = frozenset(
    {
        *("memory", "sqlite", "postgres", "normal", "strict", "release", "session", "python", "inline"),
        *("warning", "critical", "external", "toolyard", "localhost", "default"),
    }
)
"""Words of the config format itself; hiding one of them as a secret would hide it everywhere."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\]):\d{1,5}")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.-]*")
_PASSWORD = re.compile(r"(?i)password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))")


def find_secrets(name: str, value: str, *, defaults: Iterable[str] = (), base: Path | None = None) -> list[str]:
    """Texts to hide for a value that the environment gave for `${name}`; none if it is clearly not secret.

    If the name indicates a secret, almost any value is hidden. Otherwise it is hidden as well, unless its form shows
    that it is not secret, or the config has the same word as a default.
    """
    text = value.strip()
    if not text or text.lower() in _FLAG_WORDS:
        return []
    if not looks_secret(name):
        if _is_public_location(text, base):
            return []
        if not names_a_secret(name) and _is_harmless(text, defaults):
            return []
    return [value, *_find_passwords(text)]


def _is_harmless(text: str, defaults: Iterable[str]) -> bool:
    if len(text) < _MIN_LENGTH or text.lower() in _CONFIG_WORDS:
        return True
    if _NUMBER.fullmatch(text) or _HOST_AND_PORT.fullmatch(text):
        return True
    return bool(_IDENTIFIER.fullmatch(text)) and text in defaults


def _is_public_location(text: str, base: Path | None) -> bool:
    """True for a URL without credentials, or a path that exists or could exist."""
    try:
        if "://" in text:
            url = urlsplit(text)
            return "@" not in text and not url.query and not url.fragment and bool(url.netloc or url.path)
        path = Path(text)
        if path.is_absolute() and len(path.parts) > 2 and path.parent.is_dir():
            return True
        return path.exists() or ((base or Path()) / path).exists()
    except (OSError, ValueError):
        return False


def _find_passwords(text: str) -> list[str]:
    """The parts of a connection string that errors may quote on their own."""
    found = [part for match in _PASSWORD.finditer(text) for part in match.groups() if part]
    if "://" in text and "@" in text:
        user = text.split("://", 1)[1].rpartition("@")[0]
        password = user.partition(":")[2]
        found += [password, unquote(password)]
    return [part for part in found if len(part) >= _MIN_LENGTH]


@contextmanager
def hide_secrets(secrets: Iterable[str]) -> Iterator[None]:
    """Remove secrets from any `ToolyardError` raised inside. The error keeps its identity, class and fields.

    `secrets` is read when the error is raised, so it may be extended inside the block.
    """
    try:
        yield
    except ToolyardError as error:
        _clean_error(error, _make_redactor(secrets))
        raise


def clean_report(report: LoadReport, secrets: Iterable[str]) -> LoadReport:
    """The report without secrets in its errors and rejections."""
    return LoadReport(tuple(_clean_source(source, secrets) for source in report.sources))


def _clean_source(report: SourceReport, secrets: Iterable[str]) -> SourceReport:
    if not report.rejected and report.error is None:
        return report
    text = _make_redactor(secrets).text
    rejected = tuple(
        msgspec.structs.replace(item, where=text(item.where), reason=text(item.reason)) for item in report.rejected
    )
    error = None if report.error is None else text(report.error)
    return msgspec.structs.replace(report, source=text(report.source), rejected=rejected, error=error)


def _make_redactor(secrets: Iterable[str]) -> Redactor:
    known = list(secrets)
    # Errors show long values truncated, so match them by their beginning.
    long = [secret.strip() for secret in known if len(secret.strip()) > _TRUNCATED_AT]
    starts = {start for secret in long for start in (secret[:_PREFIX_LENGTH], repr(secret)[1:-1][:_PREFIX_LENGTH])}
    return Redactor(known, patterns=[re.escape(start) + r"[^\s'\"]*" for start in sorted(starts)])


def _clean_error(error: ToolyardError, redactor: Redactor) -> None:
    chain = list(_list_chained_errors(error))
    error.args = tuple(_clean_value(value, redactor) for value in error.args)
    for name, value in list(vars(error).items()):
        setattr(error, name, _clean_value(value, redactor))
    if isinstance(error, CallError):
        error.info = msgspec.convert(redactor.value(msgspec.to_builtins(error.info)), type(error.info))
    if any(_shows_secret(other, redactor) for other in chain):
        error.__cause__ = error.__context__ = None
        error.__suppress_context__ = True


def _clean_value(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(value)
    if type(value) in (list, tuple):
        return type(value)(_clean_value(item, redactor) for item in value)
    return value


def _list_chained_errors(error: BaseException) -> Iterator[BaseException]:
    """Every exception chained to this one, directly or indirectly."""
    seen = {id(error)}
    waiting = [error.__cause__, error.__context__]
    while waiting:
        other = waiting.pop()
        if other is not None and id(other) not in seen:
            seen.add(id(other))
            yield other
            waiting += [other.__cause__, other.__context__]


def _shows_secret(error: BaseException, redactor: Redactor) -> bool:
    try:
        text = f"{error} {error!r} {vars(error)!r} {getattr(error, 'filename', '')}"
    except Exception:  # noqa: BLE001 - if it cannot be checked, do not pass it on
        return True
    return redactor.text(text) != text


def find_variable_defaults(value: Any) -> set[str]:
    """All defaults of variables in a config."""
    if isinstance(value, str):
        return {match[2] for match in VARIABLE.finditer(value) if match[2]}
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {default for item in items for default in find_variable_defaults(item)}

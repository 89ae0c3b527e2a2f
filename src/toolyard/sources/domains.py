"""Domains as a source: modules that export `load_tools() -> list[Tool]`, enabled by name.

core         a module of `toolyard.tools`
weather      an entry point of the group `toolyard.domains`: a module or a function that returns the tools
acme.tools   the path of any importable module
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource
from toolyard.model.json_schema import file_type
from toolyard.model.names import show, suggest
from toolyard.model.tool import Tool
from toolyard.plugins import entry_points_of, import_existing
from toolyard.schema.normalise import Change
from toolyard.sources.base import Intake, ToolLoader

DEFAULT_DOMAINS = ("core",)
DOMAINS_VARIABLE = "TOOL_REGISTRY_DOMAINS"

_GROUP = "toolyard.domains"
_BUILT_IN = "toolyard.tools"
_EXPORTS = "load_tools() -> list[Tool]"


def enabled_domains(env: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The domains in `TOOL_REGISTRY_DOMAINS`, separated by commas; `core` if it is not set."""
    return _split_domains(env.get(DOMAINS_VARIABLE) or DEFAULT_DOMAINS)


class DomainToolLoader(ToolLoader):
    """Loads domains, each into a namespace with its name: `acme.weather` becomes `weather::...`.

    A domain is a module of `toolyard.tools`, else an entry point of the group `toolyard.domains`, else a module path;
    `domains` is a list of them, or text separated by commas. A domain that cannot be loaded is rejected with the
    reason, and the others are loaded; on a later load it keeps the tools of its last successful one.
    """

    def __init__(
        self,
        domains: Annotated[
            Sequence[str] | str, Meta(description="Domains to load: a list, or comma-separated text.")
        ] = DEFAULT_DOMAINS,
        *,
        namespaces: str = "open",
        on_error: str = "skip",
        on_duplicate: str = "raise",
    ) -> None:
        self.domains = _split_domains(domains)
        given = [*self.domains, *(domain.rpartition(".")[2] for domain in self.domains)]
        self._set_policies(on_error, on_duplicate, namespaces, given)
        self._last_tools: dict[str, list[Tool]] = {}

    @property
    def source(self) -> str:
        """`domains:` and their names."""
        return f"domains:{','.join(self.domains)}"

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of the tools from the last load."""
        return frozenset(candidate.tool.namespace for candidate in self.admitted)

    def load(self) -> list[Tool]:
        """The tools of every domain, in the order of the domains."""
        intake = Intake(self, own=False)
        given: dict[str, list[Tool]] = {}
        for domain in self.domains:
            where = f"domains:{domain}"
            try:
                namespace, tools = _load_domain(domain)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - see below
                # This is third-party code; whatever it raises is an error of this domain only.
                kept = self._last_tools.get(domain, [])
                note = "; the tools it gave last are kept" if kept else ""
                intake.reject(MalformedSource(f"{_describe_error(error, domain)}{note}"), where)
                for tool in kept:
                    intake.take(tool, where)
                given[domain] = kept
            else:
                given[domain] = self._take_all(intake, tools, namespace, where)
        self._last_tools = given
        return intake.finish()

    def _take_all(self, intake: Intake, tools: Sequence[Any], namespace: str, where: str) -> list[Tool]:
        taken = []
        for index, found in enumerate(tools):
            if not isinstance(found, Tool):
                kind = type(found).__name__
                problem = f"load_tools()[{index}] is a {kind}, not a Tool; make it with function_tool(...)"
                intake.reject(MalformedSource(problem), where)
                continue
            tool = found.replace(namespace=namespace, source=self.source)
            moved = found.namespace != namespace
            if moved and self._is_locked and found.namespace != TOOL_DEFAULT_NAMESPACE:
                claim = f"claims the namespace {show(found.namespace)}, and that of its domain is locked"
                intake.reject(DefinitionError(claim), where, tool.name)
                continue
            changes = [Change("/namespace", f"namespace {show(found.namespace)} read as {namespace!r}")]
            intake.take(tool, f"{where}.{tool.name}", changes if moved else ())
            taken.append(tool)
        return taken


def _split_domains(domains: Sequence[str] | str) -> tuple[str, ...]:
    if isinstance(domains, str):
        names = [part.strip() for part in domains.split(",")]
        return tuple(dict.fromkeys(filter(None, names)))
    if isinstance(domains, (bytes, Mapping)) or not isinstance(domains, Sequence):
        raise ConfigError(f"domains must be a list of names or text with commas, not {file_type(domains)}")
    for name in domains:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"domains lists {name!r}, which names no domain; write names such as 'core'")
    return tuple(dict.fromkeys(name.strip() for name in domains))


def _load_domain(domain: str) -> tuple[str, Sequence[Any]]:
    """The namespace of a domain and the result of its `load_tools`."""
    namespace, found = _find_domain(domain)
    load_tools = getattr(found, "load_tools", None)
    if load_tools is None and callable(found):
        load_tools = found
    if not callable(load_tools) or inspect.iscoroutinefunction(load_tools):
        fault = "an async load_tools" if callable(load_tools) else "no function load_tools"
        raise MalformedSource(f"{domain} has {fault}; a domain exports {_EXPORTS}")
    tools = load_tools()
    if not isinstance(tools, (list, tuple)):
        raise MalformedSource(f"load_tools() of {domain} returned a {type(tools).__name__}, not a list of Tool")
    return namespace, tools


def _find_domain(domain: str) -> tuple[str, Any]:
    """The namespace of a domain, and the module or other object that provides its tools."""
    if domain.isidentifier():
        built_in = import_existing(f"{_BUILT_IN}.{domain}")
        if built_in is not None:
            return domain, built_in
    targets = {value for name, value in entry_points_of(_GROUP) if name == domain}
    if len(targets) > 1:
        raise MalformedSource(
            f"several packages give a domain of this name ({', '.join(sorted(targets))}); name its module instead"
        )
    for target in targets:
        from importlib.metadata import EntryPoint

        if EntryPoint.pattern.match(target) is None:
            raise MalformedSource(f"the entry point of {domain} is {show(target)}; write module or module:object")
        return domain, EntryPoint(domain, target, _GROUP).load()
    if all(part.isidentifier() for part in domain.split(".")):
        module = import_existing(domain)
        if module is not None:
            return domain.rpartition(".")[2], module
    raise MalformedSource(_explain_unknown(domain))


def _explain_unknown(domain: str) -> str:
    import pkgutil

    built_in = importlib.import_module(_BUILT_IN)
    packages = [module.name for module in pkgutil.iter_modules(built_in.__path__) if module.ispkg]
    known = sorted({*packages, *(name for name, _ in entry_points_of(_GROUP))})
    hint = suggest(domain, known, "known are ")
    return f"no domain is called {show(domain)}, and no module can be imported by that name; {hint}"


def _describe_error(error: BaseException, domain: str) -> str:
    if isinstance(error, MalformedSource):
        return str(error)
    try:
        text = str(error)
    except Exception as unprintable:  # noqa: BLE001 - the original error is more important
        text = f"(its text cannot be shown: {type(unprintable).__name__})"
    return f"{domain} cannot be loaded: {type(error).__name__}{text and f': {text}'}"

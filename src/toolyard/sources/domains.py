"""Domains as a source: modules that export `load_tools() -> list[Tool]`, enabled by name.

core         a module of `toolyard.tools`
weather      an entry point of the group `toolyard.domains`: a module, or what gives the tools
acme.tools   any module that can be imported, by its path
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource
from toolyard.model.names import json_type, show, suggest
from toolyard.model.tool import Tool
from toolyard.plugins import entry_points_of
from toolyard.schema.normalise import Change
from toolyard.sources.base import Intake, LoaderOptions, ToolLoader

DEFAULT_DOMAINS = ("core",)
DOMAINS_VARIABLE = "TOOL_REGISTRY_DOMAINS"

_GROUP = "toolyard.domains"
_SHIPPED = "toolyard.tools"
_EXPORTS = "load_tools() -> list[Tool]"


def enabled_domains(env: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """What the environment enables: `TOOL_REGISTRY_DOMAINS`, a list with commas; `core` if it is not set."""
    return _split_domains(env.get(DOMAINS_VARIABLE) or DEFAULT_DOMAINS)


class DomainOptions(LoaderOptions, frozen=True, kw_only=True):
    """Of the domains that packages bring."""

    domains: Annotated[
        Sequence[str] | str, Meta(description="Domains of tools: names, or text with commas between them.")
    ]


class DomainToolLoader(ToolLoader):
    """Tools of domains, each in a namespace named after its domain: `acme.weather` gives `weather::...`.

    A domain is a module of `toolyard.tools`, else an entry point of the group `toolyard.domains`, else a module
    path; `domains` lists them, or is text with commas between them. One that cannot be loaded is rejected with
    the reason, and the others go on; on a later load it keeps the tools it gave last.
    """

    option_structs: ClassVar[tuple[type, ...]] = (DomainOptions,)

    def __init__(
        self,
        domains: Sequence[str] | str = DEFAULT_DOMAINS,
        *,
        namespaces: str = "open",
        on_error: str = "skip",
        on_duplicate: str = "raise",
    ) -> None:
        self.domains = _split_domains(domains)
        self._lock_namespaces(namespaces, [*self.domains, *(domain.rpartition(".")[2] for domain in self.domains)])
        self._set_policies(on_error, on_duplicate)
        self._given: dict[str, list[Tool]] = {}

    @property
    def source(self) -> str:
        """`domains:` and their names."""
        return f"domains:{','.join(self.domains)}"

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of the tools that the last load gave."""
        return frozenset(candidate.tool.namespace for candidate in self.admitted)

    def load(self) -> list[Tool]:
        """The tools of every domain, in the order of the domains."""
        intake = Intake(self, own=False)
        given: dict[str, list[Tool]] = {}
        for domain in self.domains:
            where = f"domains:{domain}"
            try:
                namespace, load_tools = _find_domain(domain)
                tools = _call_factory(load_tools, domain)
            except MalformedSource as error:
                kept = self._given.get(domain, [])
                note = "; the tools it gave last are kept" if kept else ""
                intake.reject(MalformedSource(f"{error}{note}"), where)
                for tool in kept:
                    intake.take(tool, where)
                given[domain] = kept
            else:
                given[domain] = self._take_all(intake, tools, namespace, where)
        self._given = given
        return intake.finish()

    def _take_all(self, intake: Intake, tools: Sequence[Any], namespace: str, where: str) -> list[Tool]:
        taken = []
        for index, found in enumerate(tools):
            if not isinstance(found, Tool):
                intake.reject(
                    MalformedSource(
                        f"load_tools()[{index}] is {_with_article(found)}, not a Tool; make it with function_tool(...)"
                    ),
                    where,
                    _name_of(found),
                )
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
        raise ConfigError(f"domains must be a list of names or text with commas, not {json_type(domains)}")
    for name in domains:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"domains lists {name!r}, which names no domain; write names such as 'core'")
    return tuple(dict.fromkeys(name.strip() for name in domains))


def _find_domain(domain: str) -> tuple[str, Any]:
    """The namespace of a domain, and its `load_tools`."""
    if domain.isidentifier():
        shipped = _import_module(f"{_SHIPPED}.{domain}")
        if shipped is not None:
            return domain, _exported_tools(shipped)
    targets = {value for name, value in entry_points_of(_GROUP) if name == domain}
    if len(targets) > 1:
        raise MalformedSource(
            f"several packages give a domain of this name ({', '.join(sorted(targets))}); name its module instead"
        )
    for target in targets:
        return domain, _exported_tools(_load_entry_point(target))
    if all(part.isidentifier() for part in domain.split(".")):
        module = _import_module(domain)
        if module is not None:
            return domain.rpartition(".")[2], _exported_tools(module)
    raise MalformedSource(_explain_unknown(domain))


def _import_module(path: str) -> ModuleType | None:
    """The module of that path; None if there is none."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        # Only "this very path is no module" means that; a module that lacks another one is broken.
        if error.name is not None and f"{path}.".startswith(f"{error.name}."):
            return None
        raise MalformedSource(f"{path} needs a module that is not installed: {error}") from error
    except (Exception, SystemExit) as error:
        # Somebody else's code runs here; whatever it raises is what is wrong with this domain, and with no other.
        raise MalformedSource(f"{path} cannot be imported: {_describe_error(error)}") from error


def _load_entry_point(target: str) -> Any:
    path, _, attributes = (part.strip() for part in target.partition("[")[0].partition(":"))
    found: Any = _import_module(path)
    if found is None:
        raise MalformedSource(f"its entry point names {target}, and there is no module {path!r}")
    for part in filter(None, attributes.split(".")):
        found = _read_attribute(found, part)
        if found is None:
            raise MalformedSource(f"its entry point names {target}, and {path} has no {attributes}")
    return found


def _read_attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception as error:
        # A module may have a `__getattr__` of its own, which runs here.
        raise MalformedSource(f"{name} of {_called_by(holder)} cannot be had: {_describe_error(error)}") from error


def _exported_tools(found: Any) -> Any:
    """`load_tools` of a module, or of any object that has one; what can be called and has none is it itself."""
    load_tools = _read_attribute(found, "load_tools")
    if load_tools is None and callable(found):
        return found
    if not callable(load_tools):
        fault = "has no load_tools()" if load_tools is None else f"has a load_tools that is {_with_article(load_tools)}"
        raise MalformedSource(f"{_called_by(found)} {fault}; a domain exports {_EXPORTS}")
    return load_tools


def _call_factory(load_tools: Callable[[], Any], domain: str) -> Sequence[Any]:
    try:
        tools = load_tools()
    except (Exception, SystemExit) as error:
        # As above: somebody else's code, and the fault of this domain alone.
        raise MalformedSource(f"load_tools() of {domain} raised {_describe_error(error)}") from error
    if inspect.iscoroutine(tools):
        tools.close()
        raise MalformedSource(f"load_tools() of {domain} is async; write a plain function: {_EXPORTS}")
    if not isinstance(tools, (list, tuple)):
        raise MalformedSource(f"load_tools() of {domain} returned {_with_article(tools)}, not a list of Tool")
    return tools


def _explain_unknown(domain: str) -> str:
    import pkgutil

    shipped = importlib.import_module(_SHIPPED)
    packages = [module.name for module in pkgutil.iter_modules(shipped.__path__) if module.ispkg]
    known = sorted({*packages, *(name for name, _ in entry_points_of(_GROUP))})
    hint = suggest(domain, known, "known are ")
    return f"no domain is called {show(domain)}, and no module can be imported by that name; {hint}"


def _describe_error(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as unprintable:  # noqa: BLE001 - the fault to tell about is the other one
        text = f"(its text cannot be shown: {type(unprintable).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _with_article(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _called_by(found: Any) -> str:
    return getattr(found, "__name__", None) or type(found).__name__


def _name_of(found: Any) -> str | None:
    name = found.get("name") if isinstance(found, Mapping) else getattr(found, "__name__", None)
    return name if isinstance(name, str) else None

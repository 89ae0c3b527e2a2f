"""Python code as a source: a module, a class or its instance, functions, or a typed `Registry`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.errors import DefinitionError, MalformedSource, SourceUnavailable
from toolyard.model.tool import Tool, digest
from toolyard.registry.functions import spec_of, tool_from
from toolyard.registry.typed import Registry
from toolyard.sources.base import Intake, ToolLoader
from toolyard.sources.options import PythonOptions


class PythonToolLoader(ToolLoader):
    """Tools from Python objects.

    `target` is a module, its dotted path (`"pkg.mod"`, `"pkg.mod:attribute"`) or its file (`"tools.py"`, run
    anew by every load): its `@tool` functions; a class or an instance: its `@tool` methods; a function or a
    list of functions; a typed `Registry`.
    """

    option_structs: ClassVar[tuple[type, ...]] = (PythonOptions,)

    def __init__(
        self,
        target: Any,
        namespace: str = TOOL_DEFAULT_NAMESPACE,
        *,
        on_error: str = "raise",
        on_duplicate: str = "raise",
    ) -> None:
        self.target = target
        self.namespace = namespace
        self._set_policies(on_error, on_duplicate)

    @property
    def source(self) -> str:
        """`python:` and the target's name."""
        target = self.target
        if isinstance(target, str):
            return f"python:{target}"
        name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or type(target).__name__
        return f"python:{name}"

    def load(self) -> list[Tool]:
        """The tools of the target, in definition order."""
        target = _import_target(self.target, self.source) if isinstance(self.target, str) else self.target
        intake = Intake(self)
        if isinstance(target, Registry):
            for tool in target.tools(self.namespace):
                intake.take(tool.replace(source=self.source), f"{self.source}.{tool.name}")
            return intake.finish()
        for name, found in _list_members(target, self.source):
            self._take_function(intake, name, found)
        return intake.finish()

    def _take_function(self, intake: Intake, name: str, found: Any) -> None:
        where = f"{self.source}.{name}"
        try:
            tool = tool_from(found, self.namespace)
        except DefinitionError as error:
            intake.reject(error, where, name)
        else:
            intake.take(tool.replace(source=self.source), where)


def _import_target(path: str, source: str) -> Any:
    if path.endswith(".py"):
        return _run_file(Path(path), source)
    module_path, _, attribute = path.partition(":")
    try:
        found: Any = _import_longest(module_path)
        for part in filter(None, attribute.split(".")):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SourceUnavailable(f"{source}: cannot import {path!r}: {error}") from error
    except (Exception, SystemExit) as error:
        raise MalformedSource(f"{type(error).__name__} while importing it: {error}", where=source) from error
    return found


def _run_file(path: Path, source: str) -> ModuleType:
    try:
        code = path.read_bytes()
    except OSError as error:
        raise SourceUnavailable(f"{source}: {error.strerror}") from error
    # A name of its own, so that the file hides no installed module; compiled here, because a cached
    # compilation may be older than an edit within the same second.
    module = ModuleType(f"toolyard_file_{path.stem}_{digest(str(path.resolve()))[:8]}")
    module.__file__ = str(path)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # annotations and dataclasses look their module up there
    try:
        exec(compile(code, str(path), "exec"), module.__dict__)  # noqa: S102 - running the file is what was asked for
    except (Exception, SystemExit) as error:
        sys.modules.pop(module.__name__)
        if before is not None:
            sys.modules[module.__name__] = before
        raise MalformedSource(f"{type(error).__name__} while running it: {error}", where=source) from error
    return module


def _import_longest(path: str) -> Any:
    """`pkg.mod.Class` as well as `pkg.mod`: the longest part that is a module, then attributes."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        try:
            found: Any = importlib.import_module(name)
        except ModuleNotFoundError as error:
            # Only "this very path is no module" means that the rest are attributes.
            if length == 1 or error.name is None or not name.startswith(error.name):
                raise
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(f"no module named {path!r}")


def _list_members(target: Any, source: str) -> Iterator[tuple[str, Any]]:
    if isinstance(target, (list, tuple)) or (isinstance(target, Sequence) and not isinstance(target, (str, bytes))):
        return iter([(getattr(item, "__name__", str(index)), item) for index, item in enumerate(target)])
    if spec_of(target) is not None and not isinstance(target, type):
        return iter([(getattr(target, "__name__", "tool"), target)])
    holder = _make_instance(target, source) if isinstance(target, type) else target
    marked = [(name, getattr(holder, name)) for name in _list_names(holder) if _is_marked(holder, name)]
    if marked:
        # One function under two names is one tool.
        once: dict[Any, str] = {}
        for name, found in marked:
            once.setdefault(found, name)
        return iter([(name, found) for found, name in once.items()])
    if callable(holder) and not isinstance(holder, ModuleType):
        return iter([(getattr(holder, "__name__", type(holder).__name__), holder)])
    raise MalformedSource("no function or method is decorated with @tool", where=source)


def _list_names(holder: Any) -> list[str]:
    """Attribute names in definition order; a base class's come first."""
    if isinstance(holder, ModuleType):
        return list(vars(holder))
    classes = reversed(type(holder).__mro__)
    return list(dict.fromkeys([name for cls in classes for name in vars(cls)] + list(getattr(holder, "__dict__", {}))))


def _is_marked(holder: Any, name: str) -> bool:
    # getattr_static first: reading every attribute would run properties.
    found = inspect.getattr_static(holder, name, None)
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    return callable(found) and spec_of(found) is not None


def _make_instance(cls: type, source: str) -> Any:
    try:
        return cls()
    except TypeError as error:
        raise MalformedSource(
            f"{cls.__name__} cannot be made without arguments ({error}); pass an instance instead", where=source
        ) from error

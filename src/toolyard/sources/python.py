"""Python code as a source: a module, a class or its instance, functions, or a typed `Registry`."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.bindings import PythonBinding
from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource, SourceUnavailable
from toolyard.model.names import check_namespace, find_similar
from toolyard.model.tool import Tool, digest
from toolyard.parsing.files import read_bytes
from toolyard.plugins import FailurePolicy, import_existing
from toolyard.registry.functions import spec_of, tool_from
from toolyard.registry.typed import Registry
from toolyard.schema.normalise import Change
from toolyard.schema.options import expand_place, locate_file
from toolyard.sources.base import Intake, ToolLoader
from toolyard.words.identifiers import snake_case

_TYPING_MODULES = frozenset({"types", "typing", "typing_extensions"})
"""Modules whose callable objects, such as `Literal["a"]`, are types."""
_FILE = re.compile(r"(.*\.py)((?::.*)?)", re.DOTALL)


def locate_script(value: Any, base: Path) -> Any:
    """For `locate`: resolve a Python file against the config's folder; return a module name unchanged."""
    if not isinstance(value, str) or (split := _FILE.fullmatch(value)) is None:
        return value
    return f"{locate_file(split[1], base)}{split[2]}"


class PythonToolLoader(ToolLoader):
    """Loads Python functions.

    `target` is a module, its dotted path (`"pkg.mod"`, `"pkg.mod:attribute"`) or its file (`"tools.py"`,
    `"tools.py:attribute"`, executed again by every load): its `@tool` functions; a class or an instance: its `@tool`
    methods; a function or a list of functions; a typed `Registry`.

    If nothing is decorated, all public functions are tools: those listed in `__all__` or, without it, those defined
    there whose names do not begin with `_`. As they were not chosen individually, one that cannot be a tool is reported
    and left out, unless `on_error` is given as "raise".
    """

    def __init__(
        self,
        target: Annotated[
            Any,
            Meta(
                extra={"locate": locate_script},
                description="Module or Python file: its `@tool` functions or, if none is decorated, all public "
                "functions.",
            ),
        ],
        namespace: str = TOOL_DEFAULT_NAMESPACE,
        *,
        on_error: Annotated[
            FailurePolicy | None,
            Meta(
                description="raise: an invalid function is an error. skip: it is rejected and reported. By "
                "default it is an error only if it is decorated."
            ),
        ] = None,
        on_duplicate: str = "raise",
        namespaces: str = "open",
    ) -> None:
        if target is None or isinstance(target, (bool, int, float, bytes, dict, Tool)):
            raise ConfigError(
                f"target: must be a module, its name, a file, functions or a Registry, not {type(target).__name__}"
            )
        check_namespace(namespace)
        self.target = expand_place(target, "target") if isinstance(target, str) else target
        self.namespace = namespace
        self._set_policies(on_error or "raise", on_duplicate, namespaces, namespace)
        self._reports_undecorated = on_error is None

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
        if isinstance(target, Registry):
            intake = Intake(self)
            for tool in target.tools(self.namespace):
                intake.take(tool.replace(source=self.source), f"{self.source}.{tool.name}")
            return intake.finish()
        chosen = _list_decorated(target, self.source)
        intake = Intake(self, lenient=not chosen and self._reports_undecorated)
        for name, found in chosen or _list_public(target, self.source):
            # An object without a name, such as a partial, gets its name in the module.
            nameless = not chosen and getattr(found, "__name__", "<lambda>") == "<lambda>"
            where = f"{self.source}.{name}"
            try:
                tool = tool_from(found, self.namespace, name if nameless else None)
            except DefinitionError as error:
                intake.reject(error, where, name)
            else:
                intake.take(tool.replace(source=self.source), where, _list_left_out(tool))
        return intake.finish()


def _list_left_out(tool: Tool) -> list[Change]:
    names = tool.binding.left_out if isinstance(tool.binding, PythonBinding) else ()
    why = "left out, since no JSON value fits its type; calls use its default"
    return [Change(f"/parameters/properties/{name}", f"parameter {name!r} {why}") for name in names]


def _import_target(path: str, source: str) -> Any:
    if (file := _FILE.fullmatch(path)) is not None:
        return _find_attribute(_run_file(Path(file[1]), source), file[2].strip(":"), source)
    module_path, _, attribute = path.partition(":")
    if module_path.startswith("."):
        raise SourceUnavailable(
            f"{source}: is no module; a file is written with its ending, .py; a folder of scripts has the type scripts"
        )
    try:
        found: Any = _import_longest(module_path)
    except (ImportError, AttributeError) as error:
        # What is missing may also be a package that the module imports.
        is_target = isinstance(error, ModuleNotFoundError) and f"{module_path}.".startswith(
            f"{error.name or module_path}."
        )
        hint = f"; a file is written with its ending, {module_path}.py" if is_target else ""
        raise SourceUnavailable(f"{source}: cannot be imported: {error}{hint}") from error
    except (Exception, SystemExit) as error:
        raise MalformedSource(f"{type(error).__name__} while importing it: {error}", where=source) from error
    return _find_attribute(found, attribute, source)


def _find_attribute(found: Any, attribute: str, source: str) -> Any:
    for part in filter(None, attribute.split(".")):
        try:
            found = getattr(found, part)
        except ImportError as error:
            raise SourceUnavailable(f"{source}: cannot be imported: {error}") from error
        except AttributeError as error:
            near = find_similar(part, dir(found))
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SourceUnavailable(f"{source}: cannot be imported: it has no attribute {part!r}{hint}") from error
    return found


def _run_file(path: Path, source: str) -> ModuleType:
    code = read_bytes(path)
    # A distinct name, so that the file shadows no installed module. Compiled here, because a cached compilation may be
    # older than an edit within the same second.
    module = ModuleType(f"toolyard_file_{path.stem}_{digest(str(path.resolve()))[:8]}")
    module.__file__ = str(path)
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # neighbouring files can be imported, but do not shadow installed modules
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # annotations and dataclasses look up their module there
    try:
        exec(compile(code, str(path), "exec"), module.__dict__)  # noqa: S102 - the operator asked to run this file
    except (Exception, SystemExit) as error:
        sys.modules.pop(module.__name__)
        if before is not None:
            sys.modules[module.__name__] = before
        raise MalformedSource(
            f"{type(error).__name__} while running it{_find_line(error, path)}: {error}", where=source
        ) from error
    return module


def _find_line(error: BaseException, path: Path) -> str:
    """The line in the file where the error occurred; empty for syntax errors, whose messages include it."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    return f", in line {lines[-1]}" if lines else ""


def _import_longest(path: str) -> Any:
    """`pkg.mod.Class` as well as `pkg.mod`: import the longest part that is a module, then get attributes."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        found: Any = import_existing(".".join(parts[:length]))
        if found is not None:
            for part in parts[length:]:
                found = getattr(found, part)
            return found
    raise ModuleNotFoundError(f"No module named {parts[0]!r}")


def _list_decorated(target: Any, source: str) -> list[tuple[str, Any]]:
    """The functions that were given explicitly or are decorated; empty if there are none."""
    if isinstance(target, (list, tuple)) or (isinstance(target, Sequence) and not isinstance(target, (str, bytes))):
        return [(getattr(item, "__name__", str(index)), item) for index, item in enumerate(target)]
    if spec_of(target) is not None and not isinstance(target, type):
        return [(getattr(target, "__name__", "tool"), target)]
    holder = _make_instance(target, source) if isinstance(target, type) else target
    marked = _list_once(holder, [name for name in _list_names(holder) if _is_marked(holder, name)])
    if not marked and callable(holder) and not isinstance(holder, ModuleType) and not _list_methods(holder):
        return [(getattr(holder, "__name__", type(holder).__name__), holder)]
    return marked


def _list_public(target: Any, source: str) -> list[tuple[str, Any]]:
    """The public functions of a module, or methods of a class, without decorated ones."""
    holder = _make_instance(target, source) if isinstance(target, type) else target
    called = [(snake_case(type(holder).__name__), holder)] if callable(holder) else []
    found = called + _list_methods(holder)
    if not found:
        package = holder.__name__.partition(".")[0] if isinstance(holder, ModuleType) else None
        public = [
            fn for name, fn in getattr(holder, "__dict__", {}).items() if name[0] != "_" and inspect.isfunction(fn)
        ]
        homes = sorted({fn.__module__ for fn in public if fn.__module__.partition(".")[0] == package})
        hint = f"; for the functions that it imports, name {' or '.join(homes[:3])}" if homes else ""
        raise MalformedSource(
            f"nothing is decorated with @tool, and no public function is defined there{hint}", where=source
        )
    return found


def _list_methods(holder: Any) -> list[tuple[str, Any]]:
    is_module = isinstance(holder, ModuleType)
    home = holder.__name__ if is_module else type(holder).__module__
    named = getattr(holder, "__all__", None) if is_module else None
    names = [name for name in _list_names(holder) if (name in named if named is not None else not name.startswith("_"))]
    return _list_once(holder, [name for name in names if _is_function(holder, name, None if named else home)])


def _list_once(holder: Any, names: list[str]) -> list[tuple[str, Any]]:
    """A function with two names is one tool, under the first name."""
    once: dict[Any, tuple[str, Any]] = {}
    for name in names:
        found = getattr(holder, name)
        # Other objects may be equal or not hashable.
        once.setdefault(found if inspect.isroutine(found) else id(found), (name, found))
    return list(once.values())


def _list_names(holder: Any) -> list[str]:
    """Attribute names in definition order; those of base classes come first."""
    if isinstance(holder, ModuleType):
        return list(vars(holder))
    classes = reversed(type(holder).__mro__)
    return list(dict.fromkeys([name for cls in classes for name in vars(cls)] + list(getattr(holder, "__dict__", {}))))


def _is_marked(holder: Any, name: str) -> bool:
    found = _read_static(holder, name)
    return callable(found) and spec_of(found) is not None


def _is_function(holder: Any, name: str, home: str | None) -> bool:
    """A function of the module `home`, or one wrapped by `functools.cache`; without `home`, anything callable."""
    found = _read_static(holder, name)
    if home is None and callable(found):
        return not isinstance(found, type) and type(found).__module__ not in _TYPING_MODULES
    found = found if inspect.isfunction(found) else inspect.getattr_static(found, "__wrapped__", None)
    return inspect.isfunction(found) and found.__name__ != "<lambda>" and home in (None, found.__module__)


def _read_static(holder: Any, name: str) -> Any:
    # Normal attribute access would run properties.
    found = inspect.getattr_static(holder, name, None)
    return found.__func__ if isinstance(found, (staticmethod, classmethod)) else found


def _make_instance(cls: type, source: str) -> Any:
    try:
        return cls()
    except TypeError as error:
        raise MalformedSource(
            f"{cls.__name__} cannot be made without arguments ({error}); pass an instance instead", where=source
        ) from error

"""A script as a module: executed from its bytes, never from a file."""

from __future__ import annotations

import os
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from typing import Any

PREFIX = "toolyard_script_"
_ENTRY, _ENTRY_END, _DIGITS = "TOOLS[", "]", 6
_MESSAGE, _TRACE = 2000, 20000


class ScriptRefused(Exception):
    """The script is not as it should be; the text says why."""


def name_of(file: str) -> str:
    """What the module of a file is called: as no other module is."""
    return PREFIX + "".join(char if char.isalnum() else "_" for char in os.path.basename(file).removesuffix(".py"))


def execute(file: str, source: bytes | ast.Module | types.CodeType) -> types.ModuleType:
    """Run the top of a script, under a name that hides no other module."""
    module = types.ModuleType(name_of(file))
    module.__file__ = file
    sys.modules[module.__name__] = module
    code = source if isinstance(source, types.CodeType) else compile(source, file, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - it is what a worker is for
    return module


def handler_of(module: types.ModuleType, name: str) -> Any:
    """What answers calls: a function of that name, or the handler of `TOOLS[n]`."""
    digits = name[len(_ENTRY) : -1] if name.startswith(_ENTRY) and name.endswith(_ENTRY_END) else ""
    if digits.isdecimal() and len(digits) <= _DIGITS:
        tools = getattr(module, "TOOLS", ())
        number = int(digits)
        handler = tools[number]["handler"] if number < len(tools) else None
    else:
        handler = getattr(module, name, None)
    if not callable(handler):
        raise ScriptRefused(f"{name} is not a function there")
    return handler


def get_ready() -> None:
    """Import what `described` needs while there is memory for it, and nothing of a script has been run."""
    import linecache  # noqa: F401
    import traceback  # noqa: F401


def described(error: BaseException, file: str, source: bytes) -> dict[str, Any]:
    """An exception as data; the trace starts at the script."""
    import linecache
    import traceback

    text = source.decode("utf-8", "replace")
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    try:
        message = str(error)
        lines = "".join(traceback.format_exception(type(error), error, trace, limit=20))
    except BaseException as worse:  # noqa: BLE001 - an exception of a script may be anything
        message, lines = f"an exception that cannot be shown ({type(worse).__name__})", ""
    return {
        "type": type(error).__name__,
        "message": clean(message[:_MESSAGE]),
        "trace": clean(lines[-_TRACE:]),
        "line": trace.tb_lineno if trace is not None else getattr(error, "lineno", None),
    }


def clean(text: str) -> str:
    """Text that can be sent: what is no Unicode is shown escaped."""
    return text.encode("utf-8", "backslashreplace").decode()

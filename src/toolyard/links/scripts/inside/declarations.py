"""Read what scripts declare, so that no script can change the declarations of another (but see note (2) of `sandbox`).

Each file is executed in its own fork.
"""

from __future__ import annotations

import gc
import mmap
import os
import sys
import types
from builtins import len  # noqa: A004 - a script may replace it, and is heard all the same
from contextlib import suppress
from signal import SIGKILL

from . import kernel, serving
from .serving import ENVELOPE_BYTES, OUT, ScriptRefused, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .serving import Config

_IMPORT = rb"(?m)^(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+))"
_NEVER_PRELOADED = frozenset({"antigravity", "this", "idlelib", "test", "turtledemo", "__main__", "readline"})
_FLAGS = {"timeout": "TOOL_TIMEOUT", "effects": "TOOL_EFFECTS", "tags": "TOOL_TAGS", "version": "TOOL_VERSION"}
_HEAD = 8
_COROUTINE = 0x80
"""The code flag of coroutine functions."""
_SWITCHES = {"no_background": "NO_BACKGROUND", "allow_repeat": "ALLOW_REPEAT"}
_CONSTANTS = {"TOOL_NAME", "TOOL_DESCRIPTION", "TOOL_PARAMETERS", "TOOL_OUTPUT", "TOOL_ALIASES", *_FLAGS.values()}
"""Reserved names; every other `TOOL_...` is a flag of the script's author."""


def serve(config: Config) -> None:
    """Respond to one frame for each file until the pipe is closed."""
    kernel.adopt_orphans()
    serving.write_frame(OUT, b'{"ready":true}')
    tried: set[str] = set(_NEVER_PRELOADED)
    # The memory reserved for the result is not available to the file.
    limit = min(config["max_answer_bytes"], config["memory_bytes"] // 4)
    while (frame := serving.read_frame(serving.IN)) is not None:
        file, source = frame["file"], frame["code"].encode("latin-1")
        _preload_imports(source, tried)
        body, clean = _read_in_fork(file, source, limit)
        serving.flush()
        head = b'{"token":"%s","again":%s,"body":' % (frame["token"].encode(), b"true" if clean else b"false")
        serving.write_frame(OUT, head + body + b"}")
    os._exit(0)


def _preload_imports(source: bytes, tried: set[str]) -> None:
    """Import modules that a file imports, once for all files: these belong to the operator, not to scripts."""
    import importlib
    import re

    for match in re.finditer(_IMPORT, source):
        for part in (match[1] or match[2]).split(b","):
            words = part.split()
            name = words[0].decode("ascii", "replace") if words else ""
            if not name or name in tried or name.split(".")[0] in _NEVER_PRELOADED or name in sys.modules:
                continue
            tried.add(name)
            # If it cannot be imported, the file will report that itself.
            with suppress(Exception):
                importlib.import_module(name)


def _read_in_fork(file: str, source: bytes, limit: int) -> tuple[bytes, bool]:
    serving.flush()
    try:
        # Not a pipe, since a process that the file leaves behind could keep the other end open.
        memory = mmap.mmap(-1, _HEAD + limit + ENVELOPE_BYTES)
        pid = os.fork()
    except OSError as error:
        # Another file may have used up the process limit of scripts.
        return encode({"unforked": f"a process could not be forked: {error.strerror}"}).encode(), True
    if pid == 0:
        _run_reader(file, source, limit, memory)
    # It has exited but is not reaped, so its process group id cannot be reused yet.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    kernel.kill_group(pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with memory:
        size = int.from_bytes(memory[:_HEAD], "big")
        body = memory[_HEAD : _HEAD + size]
    if code or not 0 < size <= limit + ENVELOPE_BYTES:
        body = encode({"ended": code}).encode()
    return body, _has_no_children()


def _run_reader(file: str, source: bytes, limit: int, memory: mmap.mmap) -> None:
    try:
        os.setpgid(0, 0)
        kernel.die_with_parent(SIGKILL)
        os.close(serving.IN)
        os.close(OUT)
        gc.disable()
        body = encode(_declare(file, source, limit)).encode()
        serving.flush()
        memory[: _HEAD + len(body)] = len(body).to_bytes(_HEAD, "big") + body
    finally:
        os._exit(0)


def _has_no_children() -> bool:
    """Whether everything that the fork started is gone. If not, the fork server, which may read `/proc`, ends it."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _declare(file: str, source: bytes, limit: int) -> dict[str, Any]:
    """The result of reading a file, whatever it raises."""
    try:
        tools = read_tools(vars(serving.execute(file, source)))
        size = len(encode(tools).encode())
        if size > limit:
            raise ScriptRefused(f"it declares {size} bytes, more than the {limit} that are allowed")
    except BaseException as error:  # noqa: BLE001 - the top level of a file may raise anything
        return {"fault": serving.describe_error(error, file, source)}
    return {"tools": tools}


def read_tools(names: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools that the names of a module declare."""
    if "TOOLS" in names:
        entries = names["TOOLS"]
        if not isinstance(entries, list | tuple) or not all(isinstance(entry, dict) for entry in entries):
            raise ScriptRefused("TOOLS must be a list of dicts")
        tools = [_read_tool(dict(entry), names, f"TOOLS[{number}]") for number, entry in enumerate(entries)]
    elif "TOOL_NAME" in names:
        entry = {"name": names["TOOL_NAME"], "handler": names.get("run")}
        for key in ("description", "parameters", "output"):
            if f"TOOL_{key.upper()}" in names:
                entry[key] = names[f"TOOL_{key.upper()}"]
        tools = [_read_tool(entry, names, "run")]
    else:
        raise ScriptRefused(
            "it declares no tool: it needs TOOL_NAME, TOOL_DESCRIPTION, TOOL_PARAMETERS and run, or TOOLS"
        )
    _add_aliases(tools, names.get("TOOL_ALIASES", ()))
    return tools


def _read_tool(entry: dict[str, Any], names: dict[str, Any], handler: str) -> dict[str, Any]:
    where = "run" if handler == "run" else f"{handler}['handler']"
    function = entry.pop("handler", None)
    if not callable(function):
        raise ScriptRefused(f"{where} must be a function" if function is not None else f"{where} is missing")
    tool = {"name": entry.pop("name", None), "description": entry.pop("description", "")}
    tool["parameters"] = entry.pop("parameters", None)
    tool["output"] = entry.pop("output", None)
    for key, constant in _FLAGS.items():
        tool[key] = entry.pop(key, names.get(constant))
    for key, kinds in (("name", str), ("description", str), ("parameters", dict)):
        if not isinstance(tool[key], kinds):
            constant = f"TOOL_{key.upper()}" if handler == "run" else f"{handler}[{key!r}]"
            raise ScriptRefused(
                f"{constant} must be a {kinds.__name__}" + ("" if tool[key] is not None else ": it is missing")
            )
    _check_flags(tool, handler)
    tool["flags"], tool["left_out"] = _read_own_flags(names)
    for key, constant in _SWITCHES.items():
        tool["flags"][key] = bool(entry.pop(key, names.get(constant, tool["flags"].get(key, False))))
    for key in [key for key, value in entry.items() if isinstance(value, bool)]:
        tool["flags"][str(key)] = entry.pop(key)
    tool["aliases"] = _read_texts(entry.pop("aliases", ()), f"{handler}['aliases']")
    if entry:
        raise ScriptRefused(f"{handler} has keys that are not known: {', '.join(sorted(map(str, entry)))}")
    tool |= {"handler": handler, "takes_ctx": serving.takes_ctx(function)}
    tool["is_async"] = _is_async(function)
    return tool


def _read_own_flags(names: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """`TOOL_COST = 3` as `{"cost": 3}`, and the names of values that are not JSON."""
    flags: dict[str, Any] = {}
    left_out = []
    for name, value in names.items():
        if name.startswith("TOOL_") and name.isupper() and name not in _CONSTANTS:
            try:
                encode(value).encode()
                flags[name.removeprefix("TOOL_").lower()] = value
            except (TypeError, ValueError, RecursionError):
                left_out.append(name)
    return flags, left_out


def _is_async(function: Any) -> bool:
    if type(function) is types.FunctionType:
        return bool(function.__code__.co_flags & _COROUTINE)
    import inspect

    return inspect.iscoroutinefunction(function)


def _check_flags(tool: dict[str, Any], handler: str) -> None:
    timeout = tool["timeout"]
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0):
        raise ScriptRefused(f"the timeout of {handler} must be a number of seconds above 0")
    if tool["output"] is not None and not isinstance(tool["output"], dict):
        raise ScriptRefused(f"the output schema of {handler} must be a dict")
    for key in ("effects", "version"):
        if tool[key] is not None and not isinstance(tool[key], str):
            raise ScriptRefused(f"the {key} of {handler} must be a str")
    tool["tags"] = _read_texts(tool["tags"] or (), f"the tags of {handler}")


def _add_aliases(tools: list[dict[str, Any]], aliases: Any) -> None:
    """Add the aliases of a file: a list for its only tool, or a dict of alias to name or name to aliases."""
    if isinstance(aliases, dict):
        by_name = {tool["name"]: tool for tool in tools}
        for key, value in aliases.items():
            name, more = (value, [key]) if isinstance(value, str) else (key, value)
            if name not in by_name:
                raise ScriptRefused(
                    f"TOOL_ALIASES names {serving.escape_surrogates(str(name))!r}, which is no tool of this file"
                )
            by_name[name]["aliases"] += _read_texts(more, "TOOL_ALIASES")
        return
    more = _read_texts(aliases, "TOOL_ALIASES")
    if more and len(tools) != 1:
        raise ScriptRefused("TOOL_ALIASES must be a dict of alias to name in a file of several tools")
    for tool in tools:
        tool["aliases"] += more


def _read_texts(value: Any, what: str) -> list[str]:
    if isinstance(value, list | tuple | set | frozenset) and all(isinstance(item, str) for item in value):
        return sorted(value) if isinstance(value, set | frozenset) else list(value)
    raise ScriptRefused(f"{what} must be a list of str")

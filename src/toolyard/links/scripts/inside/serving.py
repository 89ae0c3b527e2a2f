"""A worker: executes one script as a module, once, and calls its handlers.

It is asked, and answers, in frames: four bytes of length, then JSON.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
import traceback
import types
from _thread import _count
from builtins import len, type  # noqa: A004 - a script may replace them, and still gets its answer
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from typing import Any

    Config = dict[str, Any]

IN, OUT = 3, 4
PREFIX = "toolyard_script_"
_ENTRY, _ENTRY_END, _DIGITS = "TOOLS[", "]", 6
_MESSAGE, _TRACE = 2000, 20000
ENVELOPE_BYTES = 256 * 1024
"""Bytes of a response besides the result: its token, or the message and the trace of an exception."""

_WAIT = os.waitpid
_NOHANG = os.WNOHANG
_PLAIN = frozenset({str, dict, list, int, float, bool, type(None)})


_CHUNK = 65536
_TEXTS = frozenset({"decimal", "fractions", "ipaddress", "uuid"})


def _convert_unknown(value: Any) -> Any:
    """Convert values that JSON cannot express, as for other Python tools. Detected by attributes, without imports."""
    kind = type(value)
    if kind.__module__ in _TEXTS:
        return str(value)
    for method in ("tolist", "isoformat", "__fspath__", "decode"):
        if hasattr(kind, method):
            return getattr(value, method)()
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(kind, "__members__"):
        return value.value
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    if hasattr(kind, "__iter__"):
        return dict(value) if hasattr(kind, "keys") else list(value)
    raise TypeError(f"Object of type {kind.__name__} is not JSON serializable")


_Encoder = partial(json.JSONEncoder, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
encode = _Encoder().encode
encode_answer = _Encoder(default=_convert_unknown).encode
"""May run code of the script and hang, so it is not used for declarations."""
_decode = json.JSONDecoder().decode


def decode(text: str) -> dict[str, Any]:
    """Decode the object in a frame."""
    frame: dict[str, Any] = _decode(text)
    return frame


def read_frame(fd: int) -> dict[str, Any] | None:
    """The next frame; None at the end of the stream."""
    data = os.read(fd, _CHUNK)
    while 0 < len(data) < 4:
        data += _more(fd, 4 - len(data))
    if not data:
        return None
    size = int.from_bytes(data[:4], "big")
    if len(data) == size + 4:
        return decode(data[4:].decode())
    parts, missing = [data[4:]], size - len(data) + 4
    while missing > 0:
        parts.append(_more(fd, min(missing, _CHUNK * 16)))
        missing -= len(parts[-1])
    return decode(b"".join(parts).decode())


def write_frame(fd: int, body: bytes) -> None:
    """Write a frame."""
    data = len(body).to_bytes(4, "big") + body
    sent = os.write(fd, data)
    while sent < len(data):
        sent += os.write(fd, data[sent : sent + _CHUNK])


def _more(fd: int, size: int) -> bytes:
    data = os.read(fd, size)
    if not data:
        os._exit(0)  # the sender is gone
    return data


class ScriptRefused(Exception):
    """The script is invalid; the text says why."""


def execute(file: str, source: bytes | ast.Module | types.CodeType) -> types.ModuleType:
    """Execute a script as a module, under a name that shadows no other module."""
    stem = os.path.basename(file).removesuffix(".py")
    module = types.ModuleType(PREFIX + "".join(char if char.isalnum() else "_" for char in stem))
    module.__file__ = file
    sys.modules[module.__name__] = module
    code = source if isinstance(source, types.CodeType) else compile(source, file, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - executing scripts is the purpose of a worker
    return module


def find_handler(module: types.ModuleType, name: str) -> Any:
    """The handler of calls: a function with that name, or the handler of `TOOLS[n]`."""
    digits = name[len(_ENTRY) : -1] if name.startswith(_ENTRY) and name.endswith(_ENTRY_END) else ""
    if digits.isdecimal() and len(digits) <= _DIGITS:
        tools = getattr(module, "TOOLS", ())
        number = int(digits)
        handler = tools[number]["handler"] if number < len(tools) else None
    else:
        handler = getattr(module, name, None)
    if not callable(handler):
        raise ScriptRefused(f"{name} is not a function of the script")
    return handler


def describe_error(error: BaseException, file: str, source: bytes) -> dict[str, Any]:
    """An exception as data; the trace starts at the script."""
    text = source.decode("utf-8", "replace")
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    try:
        message = str(error)
        lines = "".join(traceback.format_exception(type(error), error, trace, limit=20))
    except BaseException as worse:  # noqa: BLE001 - an exception of a script may raise anything when it is formatted
        message, lines = f"an exception that cannot be shown ({type(worse).__name__})", ""
    return {
        "type": type(error).__name__,
        "message": escape_surrogates(message[:_MESSAGE]),
        "trace": escape_surrogates(lines[-_TRACE:]),
        "line": trace.tb_lineno if trace is not None else getattr(error, "lineno", None),
        "refused": isinstance(error, ScriptRefused),
    }


def escape_surrogates(text: str) -> str:
    """The text with surrogates escaped, so that it can be sent."""
    return text.encode("utf-8", "backslashreplace").decode()


class Ctx:
    """The argument of a handler's `ctx` parameter."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.call_id: str | None = given.get("call_id")
        self.session_id: str | None = given.get("session_id")
        self.mode: str = given.get("mode") or "execute"
        self.context: dict[str, Any] = given.get("context") or {}
        self.trace: dict[str, Any] = given.get("trace") or {}


class Handler:
    """A function of the script, and whether it takes `ctx`."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.takes_ctx = takes_ctx(function)

    def __call__(self, arguments: dict[str, Any], ctx: dict[str, Any] | None) -> Any:
        """The return value, awaited if necessary."""
        if self.takes_ctx:
            if "ctx" in arguments:
                raise ScriptRefused("ctx is not an argument: it is filled in here")
            value = self.function(**arguments, ctx=Ctx(ctx or {}))
        else:
            value = self.function(**arguments)
        if type(value) in _PLAIN:
            return value
        # Like `inspect.isawaitable`; importing `inspect` would take longer than a script.
        is_awaitable = type(value) is types.CoroutineType or hasattr(type(value), "__await__")
        return run_awaitable(value) if is_awaitable else value


class Script:
    """The script of this process."""

    def __init__(self, frame: dict[str, Any], limit: int) -> None:
        self.file: str = frame["file"]
        self.source = frame["code"].encode("latin-1")
        self._limit = limit
        self._module: types.ModuleType | None = None
        self._handlers: dict[str, Handler] = {}

    def answer(self, frame: dict[str, Any]) -> bytes:
        """The body of the response to a call."""
        token = frame["token"]
        try:
            handler = self._handlers.get(frame["handler"]) or self._find(frame["handler"])
            value = handler(frame["arguments"], frame["ctx"])
        except BaseException as error:  # noqa: BLE001 - a script may also fail with SystemExit and the like
            return self._failed(token, error)
        try:
            result = encode_answer(value).encode()
            again = b"true" if _is_quiet() else b"false"
        except BaseException as error:  # noqa: BLE001 - encoding the result may run code of the script, such as a generator
            why = describe_error(error, self.file, self.source)["message"]
            text = f"it returned a {type(value).__name__} that is not JSON: {why}"
            return self._failed(token, ScriptRefused(text))
        if len(result) > self._limit:
            text = f"it returned {len(result)} bytes, more than the {self._limit} of max_answer_bytes"
            return self._failed(token, ScriptRefused(text))
        return b'{"token":"%s","again":%s,"value":%s}' % (token.encode(), again, result)

    def _find(self, name: str) -> Handler:
        if self._module is None:
            self._module = execute(self.file, self.source)
        self._handlers[name] = handler = Handler(find_handler(self._module, name))
        return handler

    def _failed(self, token: str, error: BaseException) -> bytes:
        fault = describe_error(error, self.file, self.source)
        again = self._module is not None and isinstance(error, Exception) and not isinstance(error, MemoryError)
        return encode({"token": token, "fault": fault, "again": again and _is_quiet()}).encode()


def serve(config: Config) -> None:
    """Respond to calls until the pipe is closed."""
    _watch_threads()
    # Line buffered, so that the output is not lost if the script is ended.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    write_frame(OUT, b'{"ready":true}')
    script: Script | None = None
    while (frame := read_frame(IN)) is not None:
        if script is None:
            script = Script(frame, config["max_answer_bytes"])
        body = script.answer(frame)
        flush()
        write_frame(OUT, body)
    os._exit(0)


def run_awaitable(value: Any) -> Any:
    """The result of an awaitable, run on a new loop."""
    import asyncio

    async def wait() -> Any:
        return await value

    with asyncio.Runner() as runner:
        return runner.run(wait())


def takes_ctx(function: Any) -> bool:
    """Whether a function can take `ctx` by name."""
    if type(function) is types.FunctionType and not function.__dict__:
        code = function.__code__
        return "ctx" in code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    import inspect

    try:
        parameter = inspect.signature(function).parameters.get("ctx")
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def flush() -> None:
    """Flush the output before the response is sent."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - a script may replace these by objects that raise anything
        return


def _is_quiet() -> bool:
    """Whether no thread or process of the script is left. Otherwise the next call needs another worker."""
    if _count() or _loose:
        return False
    # Ask the kernel every time, since not every way to start a process can be intercepted.
    try:
        _WAIT(-1, _NOHANG)
    except ChildProcessError:
        return True
    return False


_loose: list[str] = []
"""Not empty once a thread was started without `threading`; it may not be counted before the call ends."""


def _watch_threads() -> None:
    """Record direct starts of threads. `threading` waits until its threads are counted, so those need no record."""
    import _thread

    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        start = getattr(_thread, name, None)
        if start is None:  # The last one exists since Python 3.13.
            continue

        def start_recorded(function: Any, *more: Any, start: Any = start, **named: Any) -> Any:
            if getattr(function, "__name__", "") != "_bootstrap":
                _loose.append("a thread")
            return start(function, *more, **named)

        setattr(_thread, name, start_recorded)

"""What a call raises when a worker could not answer it."""

from __future__ import annotations

import signal

from toolyard.links.scripts.settings import Ended
from toolyard.links.scripts.worker import Flooded, Late, Trouble, WorkerExchange, WorkerFault
from toolyard.model.errors import CallError, CallTimeout, ToolFailed


class ScriptFailed(ToolFailed):
    """The script raised, or its process ended. What it printed is for the trace, not for the caller."""

    stdout: str = ""
    stderr: str = ""
    trace: str = ""


class ScriptTimeout(CallTimeout):
    """The script was ended at its deadline."""

    stdout: str = ""
    stderr: str = ""
    trace: str = ""


def raised(file: str, fault: WorkerFault, exchange: WorkerExchange) -> ScriptFailed:
    """The script raised, or returned what cannot be an answer."""
    text = f"{file}: {fault.message}" if fault.refused else f"{file}: {fault.type}: {fault.message}".removesuffix(": ")
    error = ScriptFailed(text, details={} if fault.refused else {"exception": fault.type})
    error.unforeseen = not fault.refused
    error.stdout, error.stderr, _ = exchange.printed()
    error.trace = fault.trace
    return error


def troubled(file: str, trouble: Trouble, ended: Ended, exchange: WorkerExchange, seconds: float) -> CallError:
    """The exchange itself failed."""
    error: ScriptFailed | ScriptTimeout
    if isinstance(trouble, Late):
        error = ScriptTimeout(f"{file} did not answer within {seconds:.3g} s and was ended")
    elif isinstance(trouble, Flooded):
        error = ScriptFailed(f"{file} printed more than its limit and was ended", hint="print less, or to a file")
    else:
        error = ScriptFailed(f"{file} {how(ended, trouble)}")
    error.stdout, error.stderr, _ = exchange.printed()
    return error


def how(ended: Ended, trouble: Trouble | None = None, *, doing: str = "it answered") -> str:
    """How a process came to its end, in words."""
    words = str(trouble or "")
    if words:
        return f"wrote to the pipe of its answers, which is not its own: {words}"
    if ended.fault is not None:
        return f"could not be run: {ended.fault}"
    if ended.status is None:
        return f"lost its process before {doing}"
    if ended.status < 0:
        try:
            name = signal.Signals(-ended.status).name
        except ValueError:
            name = f"signal {-ended.status}"
        return f"was ended by {name} before {doing}"
    return f"ended its process with status {ended.status} before {doing}"

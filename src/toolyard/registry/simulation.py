"""Whether code runs inside a simulation: what it calls from there must change nothing either."""

from __future__ import annotations

from contextvars import ContextVar

from toolyard.model.errors import Denied
from toolyard.model.tool import Effects, Tool

_SIMULATION: ContextVar[bool | None] = ContextVar("toolyard_simulation", default=None)

current_simulation = _SIMULATION.get
"""None outside a simulation; inside, whether whoever asked for it may also execute."""


class simulating:  # noqa: N801 - it stands behind `with`, like the functions of contextlib, and costs a third of them
    """Within it, and in threads and tasks begun from it by an engine, calls are simulated, however they are made."""

    __slots__ = ("_may_execute", "_token")

    def __init__(self, may_execute: bool = True) -> None:
        self._may_execute = may_execute

    def __enter__(self) -> None:
        # One simulation inside another has no more rights than that.
        self._token = _SIMULATION.set(self._may_execute and _SIMULATION.get() is not False)

    def __exit__(self, *_error: object) -> None:
        _SIMULATION.reset(self._token)


def check_dispatch(tool: Tool) -> None:
    """Refuse to call a function that writes from inside a simulation.

    One whose effects are unknown is called: whoever calls it has said what it does itself, or may be run for real.
    """
    if tool.effects is Effects.WRITE and _SIMULATION.get() is not None:
        raise Denied(
            f"{tool.qualified_name} writes, so it is not called from inside a simulation",
            hint="call it through an engine, which has its answer made up, or look at ctx.mode first",
        )

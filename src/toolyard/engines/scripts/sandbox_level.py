"""What holds the scripts among some tools."""

from __future__ import annotations

from collections.abc import Iterable

from toolyard.model.bindings import ScriptBinding
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool


def weakest_level(tools: Iterable[Tool]) -> str:
    """The level in force where it is weakest: `inprocess` if nothing holds a script, `none` if there is no script."""
    ways = {
        "inprocess" if binding.isolation == "inprocess" else getattr(binding.settings, "sandbox", "auto")
        for binding in (tool.binding for tool in tools)
        if type(binding) is ScriptBinding
    }
    if not ways or "inprocess" in ways:
        return "inprocess" if ways else "none"
    from toolyard.links.scripts import LEVELS, probe_level

    found: list[str] = []
    for way in ways:
        try:
            found.append(probe_level(way))
        except ConfigError:
            # It cannot be had here, so none of those scripts is run.
            continue
    return max(found, key=lambda level: [str(each) for each in LEVELS].index(level), default="none")

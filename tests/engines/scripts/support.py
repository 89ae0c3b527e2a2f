"""Script directories with an engine: real files and workers."""

import os
import textwrap
from contextlib import contextmanager

from script_folder import Folder
from waiting import until

from toolyard import ScriptToolEngine, ScriptToolLoader, ToolCall, ToolRegistry
from toolyard.links.scripts import LEVELS, find_obstacle

AVAILABLE = [level for level in LEVELS if find_obstacle(level) is None]
IS_ROOT = os.geteuid() == 0
HEAD = """
TOOL_NAME = "{name}"
TOOL_DESCRIPTION = "Does {name}."
TOOL_PARAMETERS = {{"type": "object"}}
"""


def put(folder, name, body):
    """Write a script with one tool, and add it to the manifest."""
    file = f"{name}.py"
    text = HEAD.format(name=name) + textwrap.dedent(body)
    (folder.path / file).write_text(text)
    known = folder.allowed() if folder.manifest.exists() else []
    folder.allow(*dict.fromkeys([*known, file]))
    return folder.path / file


@contextmanager
def yard(path, scripts, *, engine=ScriptToolEngine, options=None, **settings):
    """A registry of a directory with these scripts, and an engine with a session `s`."""
    folder = Folder(path)
    for name, body in scripts.items():
        put(folder, name, body)
    loader = ScriptToolLoader(path, **(options or {}))
    with ToolRegistry.from_loaders([loader]) as registry:
        assert not registry.report.rejected, registry.report.rejected
        with engine(registry, **settings) as made:
            made.setup("s")
            yield folder, registry, made


def call(engine, name, arguments=None, session="s", **more):
    """One call and its result."""
    return engine.execute(
        session, [ToolCall(name, arguments or {}, "c1" if more.pop("with_id", False) else None)], **more
    )[0]


async def acall(engine, name, arguments=None, session="s", **more):
    """`call` for a task."""
    return (await engine.aexecute(session, [ToolCall(name, arguments or {})], **more))[0]


def ends_late(attempt):
    """Whether a call times out after it has begun; tried again if it had not begun, as on a busy machine."""

    def attempted():
        found = code(attempt())
        assert found is not None and found[0] == "tool.timeout", found
        return found[1] == "unknown"

    return until(attempted)


async def aends_late(attempt):
    """`ends_late` for a task."""
    found = code(await attempt())
    while found == ("tool.timeout", "none"):
        found = code(await attempt())
    return found == ("tool.timeout", "unknown")


def code(result):
    """The error code and the effect of a result; None for success."""
    return None if result.error_info is None else (result.error_info.code, result.error_info.effect)

"""Shared by tests of recording."""

from engines.engine_support import registry_of
from toolyard import PythonToolEngine, ReplayToolEngine

MATCHES = ["arguments", "fifo", "strict"]


def counting(*failures):
    """A tool that counts its calls and fails the first few as given."""
    made = []

    def look(place: str = "here") -> dict:
        """Look somewhere."""
        made.append(place)
        if len(made) <= len(failures):
            raise failures[len(made) - 1]
        return {"number": len(made)}

    return registry_of(look)


def recorded(tape, registry, calls, mode="record", behind=None, **options):
    inner = PythonToolEngine(registry, **(behind or {}))
    with ReplayToolEngine(registry, cassette=tape, mode=mode, engine=inner, **options) as engine:
        engine.setup("s")
        return engine.execute("s", calls)


def replayed(tape, registry, calls, **options):
    with ReplayToolEngine(registry, cassette=tape, **options) as engine:
        engine.setup("s")
        return engine.execute("s", calls)


def told(results):
    return [result.error or result.result for result in results]

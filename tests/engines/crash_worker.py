"""A process to be killed: makes calls in several sessions from several threads, and reports each when it is durable.

    crash_worker.py sqlite|postgres ADDRESS SCHEMA ROUND FIRST|AGAIN SESSION...

It writes each line with one `write` to standard output: `begun` inside a WRITE tool, `done` after `execute` returns,
`fork` after `setup` returns. So a line is read completely if it was written before the kill.
"""

import itertools
import os
import sys
import threading
import time

from toolyard.engines.python import PythonToolEngine
from toolyard.model.bindings import PythonBinding
from toolyard.model.call import ToolCall
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry
from toolyard.sessions.sessions import Sessions

PARAMETERS = {
    "type": "object",
    "properties": {"who": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["who", "n"],
}


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def write(who, n):
    say("begun", who, n)
    time.sleep(0.001 * (n % 3))
    return n


def read(who, n):
    return n


def registry():
    return ToolRegistry(
        [
            Tool(
                name=function.__name__,
                namespace="crash",
                parameters=PARAMETERS,
                effects=effects,
                binding=PythonBinding(function, plain=True),
            )
            for function, effects in ((write, Effects.WRITE), (read, Effects.READ))
        ]
    )


def open_store(kind, address, schema):
    if kind == "sqlite":
        from toolyard.sessions.store.sqlite import SqliteStore

        return SqliteStore(address)
    from toolyard.sessions.store.postgres import PostgresStore

    return PostgresStore(address, schema=schema)


def call(engine, session, who, n):
    """Execute batches of one and two calls, of both effects, and report them when they return."""
    names = ["crash::read"] if n % 4 == 0 else ["crash::write"]
    numbers = [n] if n % 5 else [n, n + 1_000_000]
    results = engine.execute(session, [ToolCall(names[0], {"who": who, "n": number}) for number in numbers])
    assert [result.result for result in results] == numbers, results
    for number in numbers:
        say("done", session, who, number)


def talk(engine, session, who):
    for n in itertools.count(1):
        call(engine, session, who, n)


def fork(engine, session, who):
    for n in itertools.count(1):
        call(engine, session, who, n)
        name = f"{session}/{who}.{n}"
        engine.setup(name, fork_of=session)
        say("fork", name, session, who, n)
        call(engine, name, f"{who}.{n}", 1)
        if n % 3 == 0:
            engine.setup(f"{name}/twig", fork_of=name)
            say("fork", f"{name}/twig", name, f"{who}.{n}", 1)
        time.sleep(0.005)


def main():
    kind, address, schema, number, again, *sessions = sys.argv[1:]
    engine = PythonToolEngine(registry(), sessions=Sessions(open_store(kind, address, schema)))
    if again == "FIRST":
        for session in sessions:
            engine.setup(session)
    say("ready")
    jobs = [(talk, sessions[index % len(sessions)], f"r{number}t{index}") for index in range(len(sessions) + 1)]
    jobs.append((fork, sessions[0], f"r{number}f"))
    threads = [threading.Thread(target=job, args=(engine, session, who)) for job, session, who in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()

"""A process that is meant to be killed: it carries out requests with keys that another process has too.

    idempotency_worker.py sqlite|postgres ADDRESS SCHEMA LEDGER FIRST LAST

Each run leaves a line in the ledger, which is the effect; each answer is told on standard output once it is there.
"""

import asyncio
import os
import sys
import time

from toolyard.serving.idempotency import Idempotency, KeyedRequest
from toolyard.serving.stored_answers import StoredAnswer
from toolyard.sessions.records import open_records


def open_store(kind, address, schema):
    if kind == "sqlite":
        from toolyard.sessions.store.sqlite import SqliteStore

        return SqliteStore(address)
    from toolyard.sessions.store.postgres import PostgresStore

    return PostgresStore(address, schema=schema)


def interrupted():
    return StoredAnswer(status=500, body=b"interrupted")


class Requests:
    """Asks for keys by number, a few at a time."""

    def __init__(self, place, ledger):
        self.store = open_store(*place)
        self.once = Idempotency(open_records(self.store))
        self.ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def ask(self, number):
        async def make():
            os.write(self.ledger, b"%d\n" % number)
            await asyncio.sleep(0.001 * (number % 4))
            return StoredAnswer(status=200, body=b"%d:%d:%d" % (number, os.getpid(), time.monotonic_ns()))

        request = KeyedRequest(owner="ann", key=f"k{number}", digest=b"d", make=make, interrupted=interrupted)
        response = await self.once.answer(request)
        return response.body.decode()

    async def tell(self, numbers):
        for number in numbers:
            body = await self.ask(number)
            os.write(1, f"{number} {body}\n".encode())


async def main():
    kind, address, schema, ledger, first, last = sys.argv[1:]
    requests = Requests((kind, address, schema), ledger)
    os.write(1, b"ready\n")
    await asyncio.gather(*(requests.tell(range(int(first) + lane, int(last), 4)) for lane in range(4)))
    await requests.once.close()
    requests.store.close()


if __name__ == "__main__":
    asyncio.run(main())

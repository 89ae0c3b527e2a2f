"""A request with a key is carried out once: in memory, in a file, in Postgres, and whatever dies when."""

import asyncio
import gc
import logging

import pytest
from msgspec.structs import replace
from sessions import conftest as places
from sessions.store.test_postgres import Cut, kill_connections
from waiting import SOON, Clock

from conftest import chosen_way, ways_to_try
from toolyard.model.errors import SessionBusyError, SessionError
from toolyard.serving import idempotency as once_module
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.idempotency import Idempotency, KeyedRequest
from toolyard.serving.stored_answers import StoredAnswer
from toolyard.sessions.records import open_records

REPLAYED = (b"idempotent-replayed", b"true")


def Response(status, body, content_type=b"", headers=()):
    """An answer, as a request's `make` gives it."""
    return StoredAnswer(status=status, content_type=content_type, body=body, headers=headers)


INTERRUPTED = Response(500, b"interrupted")

postgres_place, sqlite_place = places.postgres_place, places.sqlite_place
STORES = ways_to_try("sqlite", "postgres")
"""That they keep records alike is shown by `sessions/test_records.py`."""


class Tool:
    """A request that counts how often it was carried out, and can be made to wait."""

    def __init__(self, waits=False, error=None):
        self.runs = 0
        self.error = error
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        if not waits:
            self.go.set()

    async def __call__(self):
        self.runs += 1
        self.began.set()
        await asyncio.wait_for(self.go.wait(), SOON)
        if self.error is not None:
            raise self.error
        return Response(201, b"run %d" % self.runs, b"text/plain", ((b"location", b"/x"),))


class Server:
    """One process that serves: a store of its own on the place, and `Idempotency` on it."""

    def __init__(self, place=None, **options):
        self.store = None if place is None else place.open()
        self.records = open_records(self.store)
        self.once = Idempotency(self.records, **options)

    def ask(self, tool, key="k", digest=b"d", *, repeatable=False, owner="ann"):
        options = {"owner": owner, "key": key, "digest": digest, "repeatable": repeatable}
        return self.once.answer(KeyedRequest(**options, make=tool, interrupted=lambda: INTERRUPTED))

    def asks(self, tool, *args, **options):
        return asyncio.create_task(self.ask(tool, *args, **options))

    def die(self):
        """As kill -9 leaves it: no lock, and no further word to the store."""
        self.store.close()

    def fail(self, *, failing=True):
        """The file can, or can again, not be written to."""
        self.store._writer.execute(f"PRAGMA query_only = {int(failing)}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(once_module, "_PROBE_SECONDS", 0.05)


@pytest.fixture(params=STORES)
def place(request):
    return request.getfixturevalue(f"{chosen_way(request)}_place")


@pytest.fixture(params=["memory", *STORES])
def server(request):
    kind = chosen_way(request)
    return Server(None if kind == "memory" else request.getfixturevalue(f"{kind}_place"))


@pytest.fixture
def pair(place):
    return Server(place), Server(place)


async def seen(condition):
    limit = asyncio.get_running_loop().time() + SOON
    while not condition():
        assert asyncio.get_running_loop().time() < limit, "it never came to pass"
        await asyncio.sleep(0.002)


async def test_the_first_answer_is_given_again_without_running(server):
    tool = Tool()
    first = await server.ask(tool)
    again = await server.ask(tool)
    assert first == Response(201, b"run 1", b"text/plain", ((b"location", b"/x"),))
    assert replace(again, digest=b"") == Response(201, b"run 1", b"text/plain", ((b"location", b"/x"), REPLAYED))
    assert tool.runs == 1
    assert await server.ask(tool, "other") == Response(201, b"run 2", b"text/plain", ((b"location", b"/x"),))
    assert (await server.ask(tool, owner="bob")).body == b"run 3", "keys of two owners have nothing in common"


async def test_another_request_under_the_same_key_is_a_conflict(server):
    tool = Tool()
    await server.ask(tool)
    with pytest.raises(HttpFault) as caught:
        await server.ask(tool, digest=b"other")
    assert (caught.value.status, caught.value.code, tool.runs) == (409, "request.conflict", 1)


async def test_a_duplicate_meanwhile_waits_for_the_first(server):
    tool = Tool(waits=True)
    first = server.asks(tool)
    await tool.began.wait()
    second = server.asks(tool)
    with pytest.raises(HttpFault, match="another request"):
        await server.ask(tool, digest=b"other")
    await asyncio.sleep(0.01)
    tool.go.set()
    assert (await first).body == (await second).body == b"run 1"
    assert REPLAYED in (await second).headers and REPLAYED not in (await first).headers
    assert (tool.runs, server.once._running) == (1, {})


@pytest.mark.parametrize("who", [0, 1])
async def test_whoever_gives_up_takes_neither_the_work_nor_the_other_along(server, who):
    tool = Tool(waits=True)
    asked = [server.asks(tool)]
    await tool.began.wait()
    asked.append(server.asks(tool))
    await asyncio.sleep(0)
    asked[who].cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked[who]
    tool.go.set()
    assert (await asked[1 - who]).body == b"run 1"
    assert (await server.ask(tool)).body == b"run 1"
    assert tool.runs == 1


async def test_what_nobody_waits_for_is_still_stored(server):
    tool = Tool(waits=True)
    asked = server.asks(tool)
    await tool.began.wait()
    asked.cancel()
    await asyncio.wait([asked])
    tool.go.set()
    await seen(lambda: not server.once._running)
    assert (await server.ask(tool)).body == b"run 1"
    assert tool.runs == 1


@pytest.mark.parametrize("error", [HttpFault(503, "x.y", "later", retryable=True), SessionBusyError("busy")])
async def test_an_error_that_says_nothing_ran_goes_to_all_who_wait_and_leaves_the_key_unused(server, error):
    tool = Tool(waits=True, error=error)
    asked = [server.asks(tool), server.asks(tool)]
    await tool.began.wait()
    tool.go.set()
    assert await asyncio.gather(*asked, return_exceptions=True) == [error, error]
    assert tool.runs == 1
    tool.error = None
    assert (await server.ask(tool, digest=b"other")).body == b"run 2"


async def test_an_error_that_says_nothing_of_the_kind_is_not_run_again(server):
    tool = Tool(error=SessionError("the tool ran, and its result could not be recorded"))
    with pytest.raises(SessionError):
        await server.ask(tool)
    tool.error = None
    assert (await server.ask(tool)).body == b"interrupted"
    assert tool.runs == 1
    reads = Tool(error=ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        await server.ask(reads, "reads", repeatable=True)
    reads.error = None
    assert (await server.ask(reads, "reads", repeatable=True)).body == b"run 2"


async def leave_early(server, tool):
    """Ask, and be gone before the tool ends."""
    asked = server.asks(tool)
    await tool.began.wait()
    asked.cancel()
    tool.go.set()
    return asked


async def test_an_error_that_nobody_waits_for_is_logged(server, caplog):
    await leave_early(server, Tool(waits=True, error=ValueError("a bug")))
    with caplog.at_level(logging.ERROR):
        await seen(lambda: not server.once._running)
    assert "after its client had gone" in caplog.text


async def test_a_refusal_without_a_waiting_request_is_not_logged(server, caplog):
    asked = await leave_early(server, Tool(waits=True, error=HttpFault(400, "request.invalid_body", "no")))
    with caplog.at_level(logging.DEBUG):
        await seen(lambda: not server.once._running)
        gc.collect()
    assert asked.cancelled() and not caplog.records


async def test_any_text_is_a_key_and_large_answers_are_kept(server):
    async def large():
        return Response(200, b"x" * 2_000_000)

    keys = ["", "#", "x" * 5000, "nul\0nul", "\ud800", "é", "#" + "0" * 64, "a b"]
    for key in (key + end for key in keys for end in ("", "!")):
        assert (await server.ask(Tool(), key)).body == (await server.ask(None, key)).body == b"run 1"
    assert len((await server.ask(large, "large")).body) == 2_000_000
    assert len((await server.ask(None, "large")).body) == 2_000_000


async def test_an_answer_given_by_one_process_is_the_others_too(pair):
    tool = Tool()
    assert (await pair[0].ask(tool)).body == (await pair[1].ask(tool)).body == b"run 1"
    with pytest.raises(HttpFault, match="another request"):
        await pair[1].ask(tool, digest=b"other")
    assert tool.runs == 1


async def test_a_duplicate_in_another_process_waits_for_the_first(pair):
    tool = Tool(waits=True)
    first = pair[0].asks(tool)
    await tool.began.wait()
    second = pair[1].asks(tool)
    await asyncio.sleep(0.2)
    assert not second.done()
    tool.go.set()
    assert (await first).body == (await second).body == b"run 1"
    assert tool.runs == 1


async def test_of_two_processes_with_the_same_request_one_runs_it(pair):
    tool = Tool()
    for number in range(20):
        answers = await asyncio.gather(*(server.ask(tool, f"k{number}") for server in (*pair, *pair)))
        assert {answer.body for answer in answers} == {b"run %d" % (number + 1)}
    assert tool.runs == 20


async def test_what_a_dead_process_began_is_answered_as_interrupted_for_ever(pair):
    tool = Tool(waits=True)
    lost = pair[0].asks(tool)
    await tool.began.wait()
    waits = pair[1].asks(tool)
    await asyncio.sleep(0.05)
    assert not waits.done()
    pair[0].die()
    assert (await waits).body == (await pair[1].ask(tool)).body == b"interrupted"
    assert tool.runs == 1
    tool.go.set()
    with pytest.raises(HttpFault) as caught:
        await lost
    assert (caught.value.code, caught.value.retryable) == ("request.unrecorded", False)


async def test_what_a_dead_process_began_runs_again_if_that_changes_nothing(pair):
    tool = Tool(waits=True)
    lost = pair[0].asks(tool, repeatable=True)
    await tool.began.wait()
    pair[0].die()
    tool.go.set()
    assert (await pair[1].ask(tool, repeatable=True)).body == b"run 2"
    await asyncio.wait([lost])
    lost.exception()


async def test_a_process_that_was_taken_for_dead_puts_its_answer_in_the_place_of_the_guess(postgres_place):
    one, two = Server(postgres_place), Server(postgres_place)
    tool = Tool(waits=True)
    first = one.asks(tool)
    await tool.began.wait()
    kill_connections(postgres_place.address)
    assert (await two.ask(tool)).body == b"interrupted"
    tool.go.set()
    assert (await first).body == (await two.ask(tool)).body == b"run 1"
    assert tool.runs == 1


async def test_a_process_that_lost_its_lock_shows_again_that_it_lives(postgres_place):
    one, two = Server(postgres_place), Server(postgres_place)
    tool = Tool(waits=True)
    first = one.asks(tool)
    await tool.began.wait()
    kill_connections(postgres_place.address)
    await one.once.poll()
    second = two.asks(tool)
    await asyncio.sleep(0.2)
    assert not second.done()
    tool.go.set()
    assert (await first).body == (await second).body == b"run 1"


async def test_of_two_answers_to_a_request_that_could_be_repeated_the_first_stored_is_everybodys(postgres_place):
    one, two = Server(postgres_place), Server(postgres_place)
    tool = Tool(waits=True)
    first = one.asks(tool, repeatable=True)
    await tool.began.wait()
    kill_connections(postgres_place.address)
    other = Tool()
    other.runs = 7
    assert (await two.ask(other, repeatable=True)).body == b"run 8"
    tool.go.set()
    assert (await first).body == b"run 8"


async def test_without_a_store_to_claim_in_nothing_is_begun(sqlite_place):
    server, tool = Server(sqlite_place), Tool()
    server.fail()
    with pytest.raises(HttpFault) as caught:
        await server.ask(tool)
    assert (caught.value.status, caught.value.retryable, tool.runs) == (503, True, 0)
    server.fail(failing=False)
    assert (await server.ask(tool)).body == b"run 1"


async def test_an_answer_that_cannot_be_stored_is_not_given_and_not_lost(sqlite_place):
    server, other, tool = Server(sqlite_place), Server(sqlite_place), Tool(waits=True)
    first = server.asks(tool)
    await tool.began.wait()
    server.fail()
    tool.go.set()
    for ask in (first, server.ask(tool)):
        with pytest.raises(HttpFault) as caught:
            await ask
        assert (caught.value.status, caught.value.code) == (500, "request.unrecorded")
        assert not caught.value.retryable
        assert caught.value.details == {"effect": "unknown"}
    with pytest.raises(SessionError):
        await server.once.poll()
    waits = other.asks(tool)
    await asyncio.sleep(0.1)
    assert not waits.done()
    server.fail(failing=False)
    assert (await server.ask(tool)).body == (await waits).body == b"run 1"
    assert tool.runs == 1


async def test_an_answer_that_could_not_be_stored_is_stored_later_without_being_asked_for(sqlite_place):
    server, other, tool = Server(sqlite_place), Server(sqlite_place), Tool(waits=True)
    first = server.asks(tool)
    await tool.began.wait()
    server.fail()
    tool.go.set()
    await asyncio.wait([first])
    first.exception()
    server.fail(failing=False)
    await server.once.poll()
    assert (await other.ask(tool)).body == b"run 1"
    assert tool.runs == 1


async def test_a_claim_that_could_not_be_withdrawn_is_withdrawn_later(sqlite_place):
    server, other = Server(sqlite_place), Server(sqlite_place)
    tool = Tool(waits=True, error=HttpFault(429, "x.y", "later"))
    first = server.asks(tool)
    await tool.began.wait()
    server.fail()
    tool.go.set()
    with pytest.raises(HttpFault, match="later"):
        await first
    with pytest.raises(HttpFault, match="not begun"):
        await server.ask(tool)
    server.fail(failing=False)
    tool.error = None
    await server.once.poll()
    assert (await other.ask(tool)).body == b"run 2"


@pytest.mark.parametrize("remembered", [10_000, 0])
async def test_a_claim_that_may_have_been_stored_has_run_nothing(postgres_place, monkeypatch, remembered):
    monkeypatch.setattr(once_module, "_MAX_UNSETTLED", remembered)
    server, tool = Server(postgres_place), Tool()
    await server.ask(Tool(), "other")
    dsn = server.store._address._dsn
    Cut(server.store, done=True)
    server.store._address._dsn = "host=/nowhere"
    with pytest.raises(HttpFault) as caught:
        await server.ask(tool)
    assert (caught.value.status, caught.value.retryable, tool.runs) == (503, True, 0)
    server.store._address._dsn = dsn
    assert server.records.get("answer", "ann", "k") is not None, "it was stored"
    assert (await server.ask(tool)).body == b"run 1"


async def test_waiting_for_another_process_ends_with_a_409(place):
    one, two, tool = Server(place), Server(place, patience=0.05), Tool(waits=True)
    first = one.asks(tool)
    await tool.began.wait()
    with pytest.raises(HttpFault) as caught:
        await two.ask(tool)
    assert (caught.value.status, caught.value.code, caught.value.retryable) == (409, "request.in_progress", True)
    tool.go.set()
    await first


async def test_answers_are_forgotten_when_they_are_old(server):
    clock, monotonic = Clock(1_000_000.0), Clock(1_000_000.0)
    once = Idempotency(server.records, keep=100.0, monotonic=monotonic)
    server.records.clock = clock
    server.once, tool = once, Tool()
    await server.ask(tool)
    for moment in (clock, monotonic):
        moment.now += 601
    await once.poll()
    assert (await server.ask(tool)).body == b"run 2"


async def test_closing_cancels_running_requests_and_refuses_new_ones(server):
    writes, reads, unbegun = Tool(waits=True), Tool(waits=True), Tool()
    asked = [server.asks(writes), server.asks(reads, "r", repeatable=True)]
    await asyncio.gather(writes.began.wait(), reads.began.wait())
    asked.append(server.asks(unbegun, "u"))
    await asyncio.sleep(0)
    await server.once.close()
    answered, stopped, refused = await asyncio.gather(*asked, return_exceptions=True)
    assert answered.body == b"interrupted"
    assert (stopped.code, stopped.retryable) == ("server.stopping", True)
    assert (unbegun.runs, refused.code) == (0, "server.stopping")
    with pytest.raises(HttpFault, match="stopping"):
        await server.ask(Tool(), "new")
    after = Server()
    after.once = Idempotency(server.records)
    assert (await after.ask(writes)).body == b"interrupted"
    reads.go.set()
    assert (await after.ask(reads, "r", repeatable=True)).body == b"run 2"


async def test_closing_does_not_wait_for_another_process(pair):
    tool = Tool(waits=True)
    first = pair[0].asks(tool)
    await tool.began.wait()
    second = pair[1].asks(tool)
    await asyncio.sleep(0.05)
    await pair[1].once.close()
    with pytest.raises(HttpFault, match="stopping"):
        await second
    tool.go.set()
    assert (await first).body == b"run 1"


async def test_what_could_not_be_stored_is_stored_when_the_store_is_back(sqlite_place):
    server = Server(sqlite_place)
    await server.ask(Tool())
    server.once._unsettled["ann", "x"] = (b"", None)
    server.fail()
    with pytest.raises(SessionError):
        await server.once.poll()
    server.fail(failing=False)
    await server.once.poll()
    assert not server.once._unsettled

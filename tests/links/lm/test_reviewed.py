"""What a review found in asking models: money that was not counted, and waits that held others up."""

import asyncio
import sqlite3

import pytest

from links.lm.model_server import ModelServer
from toolyard.links.lm import LMClient, Message, Spent
from toolyard.links.lm.limits import Limits
from toolyard.model.errors import ToolFailed, Unavailable


def client_of(server, **config):
    return LMClient({"type": "openai", "model_id_or_path": "m", "base_url": server.url, **config})


def question(client, text="?"):
    return client.request((Message("user", text),))


async def test_what_was_asked_is_paid_for_even_if_another_answered_first(tmp_path):
    both = asyncio.Barrier(2)

    async def asked(client):
        find = client._journal.find

        async def late(request):
            found = await find(request)
            await both.wait()
            return found

        client._journal.find = late
        return await client.complete(question(client))

    with ModelServer("one", "two") as server:
        path = str(tmp_path / "lm.sqlite")
        async with client_of(server, journal=path) as here, client_of(server, journal=path) as there:
            first, second = await asyncio.gather(asked(here), asked(there))
            assert here.ledger.spent == there.ledger.spent == {"m": Spent(1, 0, 10, 5)}
    assert first.text == second.text


async def test_an_answer_in_the_journal_that_cannot_be_read_is_a_failure_of_a_call(tmp_path):
    path = tmp_path / "lm.sqlite"
    with ModelServer("one") as server:
        async with client_of(server, journal=str(path)) as client:
            await client.complete(question(client))
            with sqlite3.connect(path) as link:
                link.execute("UPDATE answers SET answer = ?", (b"{",))
            link.close()
            with pytest.raises(ToolFailed, match="the journal of the language model cannot be used"):
                await client.complete(question(client))


async def test_a_server_that_asks_for_a_day_keeps_nobody_waiting_for_it():
    with ModelServer((429, {"Retry-After": "86400"}, "x"), "yes") as server:
        slept = []

        async def sleep(seconds):
            slept.append(seconds)

        settings = {"type": "openai", "model_id_or_path": "m", "base_url": server.url}
        async with LMClient(settings, sleep=sleep) as client:
            with pytest.raises(Unavailable):
                await client.complete(question(client))
            assert (await client.complete(question(client, "other"))).text == "yes"
    assert slept and all(seconds <= 60 for seconds in slept)


def test_what_is_given_back_can_be_taken_again():
    limits = Limits(requests_per_minute=1, tokens_per_minute=100, clock=lambda: 5.0)
    assert limits.reserve(100, None) == 0
    assert limits.reserve(100, None) == pytest.approx(60)
    limits.give_back(100)
    assert limits.reserve(100, None) == pytest.approx(60)


async def test_who_goes_while_waiting_gives_its_turn_back():
    with ModelServer("one", "two") as server:
        async with client_of(server, requests_per_minute=1) as client:
            await client.complete(question(client))
            waiting = [asyncio.create_task(client.complete(question(client, f"{at}"))) for at in range(5)]
            await asyncio.sleep(0.05)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            wait = client._limits.reserve(0, None)
    assert wait <= 60

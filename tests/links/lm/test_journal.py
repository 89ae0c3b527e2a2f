"""The journal: equal requests are answered from it, in every process."""

import asyncio
import json
import sqlite3
import subprocess

import pytest
from warm_python import warm_toolyard

from links.lm.model_server import ModelServer
from toolyard.links.lm import LMClient, Message, Spent
from toolyard.model.errors import ConfigError, ToolFailed


def client_of(server, path, **config):
    return LMClient(
        {
            "type": "openai",
            "model_id_or_path": "m",
            "base_url": server.url,
            "journal": str(path),
            "api_key": "sk-hidden",
        }
        | config
    )


def question(client, text="?", form=None):
    return client.request((Message("user", text),), form)


async def test_the_same_request_is_answered_without_asking_anybody(tmp_path):
    path = tmp_path / "runs" / "lm.sqlite"
    with ModelServer("one", "two") as server:
        async with client_of(server, path) as client:
            first = await client.complete(question(client))
            again = await client.complete(question(client))
            other = await client.complete(question(client, "else"))
        assert client.ledger.spent == {"m": Spent(2, 1, 20, 10)}
    # The server is gone, and the run can still be replayed.
    async with client_of(server, path, retries=0) as client:
        replayed = await client.complete(question(client))
    assert (first.text, other.text, len(server.asked)) == ("one", "two", 2)
    assert again.cached and replayed.cached and not first.cached
    assert replayed.text == again.text == "one"


@pytest.mark.parametrize(
    "change", [{"temperature": 0.1}, {"model_id_or_path": "other"}, {"seed": 3}, {"max_tokens": 9}, {"extra": {"a": 1}}]
)
async def test_whatever_changes_the_request_is_another_request(tmp_path, change):
    with ModelServer("one", "two") as server:
        async with client_of(server, tmp_path / "j") as client:
            await client.complete(question(client))
        async with client_of(server, tmp_path / "j", **change) as client:
            assert (await client.complete(question(client))).text == "two"


async def test_another_form_is_another_request_and_another_server_is_not(tmp_path):
    with ModelServer("one", "two") as server, ModelServer("three") as second:
        async with client_of(server, tmp_path / "j") as client:
            await client.complete(question(client))
            assert (await client.complete(question(client, form={"type": "json_object"}))).text == "two"
        async with client_of(second, tmp_path / "j") as client:
            assert (await client.complete(question(client))).text == "one"
    assert second.asked == []


async def test_failures_are_not_kept(tmp_path):
    with ModelServer((400, {}, "no"), "yes") as server:
        async with client_of(server, tmp_path / "j") as client:
            with pytest.raises(ToolFailed):
                await client.complete(question(client))
            assert (await client.complete(question(client))).text == "yes"


async def test_the_file_holds_requests_and_no_key(tmp_path):
    with ModelServer("one") as server:
        async with client_of(server, tmp_path / "j") as client:
            await client.complete(question(client, "what?"))
    link = sqlite3.connect(tmp_path / "j")
    (request,) = link.execute("SELECT request FROM answers").fetchone()
    link.close()
    assert json.loads(request)["messages"] == [{"role": "user", "content": "what?"}]
    assert b"sk-hidden" not in (tmp_path / "j").read_bytes()


def test_a_file_that_is_not_a_journal_is_refused_at_once(tmp_path):
    (tmp_path / "j").write_text("notes " * 1000)
    with ModelServer() as server, pytest.raises(ConfigError, match="cannot be opened as a journal"):
        client_of(server, tmp_path / "j")


WORKER = """
import asyncio, sys
from toolyard.links.lm import LMClient, Message

async def main():
    url, path = sys.argv[1:]
    async with LMClient({"type": "openai", "model_id_or_path": "m", "base_url": url, "journal": path}) as client:
        for number in range(30):
            answer = await client.complete(client.request((Message("user", str(number)),)))
            print(answer.text)

asyncio.run(main())
"""


@pytest.mark.process
def test_processes_that_share_a_journal_agree_on_every_answer(tmp_path):
    count = iter(range(10_000))
    with ModelServer(otherwise=lambda asked: f"{asked.messages[0][1]} by {next(count)}") as server:
        words = ["-c", WORKER, server.url, tmp_path / "j"]
        workers = [warm_toolyard().start(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        said = [worker.communicate(timeout=60)[0].splitlines() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert said[0] == said[1] == said[2]
    assert [line.split(" by ")[0] for line in said[0]] == [str(number) for number in range(30)]


async def test_a_journal_that_breaks_is_said_so_in_the_result(tmp_path):
    with ModelServer("one") as server:
        async with client_of(server, tmp_path / "j") as client:
            link = sqlite3.connect(tmp_path / "j", isolation_level=None)
            link.execute("DROP TABLE answers")
            link.close()
            with pytest.raises(ToolFailed, match="the journal of the language model cannot be used"):
                await client.complete(question(client))


def test_the_journal_is_readable_by_its_owner_only(tmp_path):
    with ModelServer() as server:
        client_of(server, tmp_path / "j").close()
    assert (tmp_path / "j").stat().st_mode & 0o077 == 0


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
        path = tmp_path / "lm.sqlite"
        async with client_of(server, path) as here, client_of(server, path) as there:
            first, second = await asyncio.gather(asked(here), asked(there))
            assert here.ledger.spent == there.ledger.spent == {"m": Spent(1, 0, 10, 5)}
    assert first.text == second.text


async def test_an_answer_in_the_journal_that_cannot_be_read_is_a_failure_of_a_call(tmp_path):
    path = tmp_path / "lm.sqlite"
    with ModelServer("one") as server:
        async with client_of(server, path) as client:
            await client.complete(question(client))
            with sqlite3.connect(path) as link:
                link.execute("UPDATE answers SET answer = ?", (b"{",))
            link.close()
            with pytest.raises(ToolFailed, match="the journal of the language model cannot be used"):
                await client.complete(question(client))

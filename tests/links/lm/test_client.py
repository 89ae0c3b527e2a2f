"""`LMClient`: retries, limits, the usage ledger, and its errors."""

import asyncio
import ssl
import time

import pytest
from hypothesis import given, strategies as st
from waiting import Clock, until

from links.lm.model_server import ModelServer, openai_says
from toolyard.links.lm import LMClient, Message, Spent
from toolyard.links.lm.client import RateLimits
from toolyard.model.errors import CallTimeout, ToolFailed, Unavailable


def client_of(server, **config):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        await asyncio.sleep(0)

    settings = {"type": "openai", "model_id_or_path": "m", "base_url": server.url, "api_key": "sk-hidden", **config}
    client = LMClient(settings, sleep=sleep)
    return client, slept


def question(client, text="?"):
    return client.request((Message("user", text),))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_busy_server_is_asked_again_after_a_growing_pause(status):
    with ModelServer((status, {}, "x"), (status, {}, "x"), "yes") as server:
        client, slept = client_of(server)
        async with client:
            answer = await client.complete(question(client))
    assert answer.text == "yes"
    assert len(server.asked) == 3
    assert 0.25 <= slept[0] <= 0.5 <= slept[1] <= 1.0


async def test_retry_after_delays_all_requests():
    with ModelServer((429, {"Retry-After": "7"}, "x"), "yes", "yes") as server:
        client, slept = client_of(server)
        async with client:
            await client.complete(question(client))
            assert slept[0] == 7.0
            await client.complete(question(client, "another"))
    # The pause was not slept through here, so both later requests still had it before them.
    assert all(6 < seconds <= 7 for seconds in slept[1:])
    assert len(slept) == 3


async def test_a_server_that_hangs_up_is_asked_again():
    with ModelServer(None, "yes") as server:
        client, _ = client_of(server)
        async with client:
            assert (await client.complete(question(client))).text == "yes"


async def test_retries_end():
    with ModelServer(otherwise=lambda asked: (503, {}, {"error": {"message": "no GPU for sk-hidden"}})) as server:
        client, slept = client_of(server, retries=2)
        async with client:
            with pytest.raises(Unavailable) as caught:
                await client.complete(question(client))
    assert len(server.asked) == 3 and len(slept) == 2
    assert str(caught.value) == f"{server.url} answered 503: no GPU for [redacted]"


async def test_a_pause_past_the_deadline_is_not_begun_and_told_to_the_caller():
    with ModelServer((429, {"Retry-After": "60"}, "x")) as server:
        client, slept = client_of(server)
        async with client:
            with pytest.raises(Unavailable) as caught:
                await client.complete(question(client), deadline=time.monotonic() + 20)
    assert slept == []
    assert caught.value.info.retry_after == 60.0


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "api_key"), (404, "base_url"), (400, "response_format"), (418, None)]
)
async def test_a_refusal_is_not_repeated_and_shows_no_secret(status, hint):
    with ModelServer((status, {}, {"error": {"message": "bad key\nsk-hidden"}})) as server:
        client, _ = client_of(server)
        async with client:
            with pytest.raises(ToolFailed) as caught:
                await client.complete(question(client))
    info = caught.value.info
    assert len(server.asked) == 1
    assert info.message.endswith(f"answered {status}: bad key [redacted]")
    assert (info.effect, info.retryable) == ("none", False)
    assert hint is None or hint in info.hint


async def test_a_placeholder_for_a_key_does_not_garble_what_the_server_said():
    said = "the key k is unknown, and so is sk-1234567890"
    with ModelServer((401, {}, {"error": {"message": said}})) as server:
        client, _ = client_of(server, api_key="k")
        async with client:
            with pytest.raises(ToolFailed, match=r"the key k is unknown, and so is \[redacted\]$"):
                await client.complete(question(client))


async def test_one_request_may_take_so_long_and_a_late_one_is_not_repeated():
    with ModelServer("late", delay=5) as server:
        client, _ = client_of(server, timeout=0.2)
        async with client:
            with pytest.raises(CallTimeout) as caught:
                await client.complete(question(client))
    assert len(server.asked) == 1
    assert caught.value.info.effect == "none"


async def test_no_more_than_allowed_are_asked_at_once():
    with ModelServer(otherwise=lambda asked: asked.messages[0][1], delay=0.02) as server:
        client, _ = client_of(server, max_concurrent=3)
        async with client:
            answers = await asyncio.gather(*(client.complete(question(client, str(n))) for n in range(12)))
    assert [answer.text for answer in answers] == [str(n) for n in range(12)]
    assert server.most == 3


async def test_waiting_for_a_place_past_the_deadline_is_an_error():
    with ModelServer(otherwise=lambda asked: "x", delay=3) as server:
        client, _ = client_of(server, max_concurrent=1)
        async with client:
            first = asyncio.ensure_future(client.complete(question(client)))
            await asyncio.to_thread(until, lambda: server.asked)
            with pytest.raises(Unavailable, match="not asked before the deadline"):
                await client.complete(question(client), deadline=time.monotonic() + 0.05)
            first.cancel()
    assert len(server.asked) == 1


async def test_the_ledger_counts_tokens_and_money_by_model():
    says = openai_says("x", prompt=1_000, completion=500)
    with ModelServer(says, says) as server:
        client, _ = client_of(server, prices={"prompt": 2, "completion": 8})
        async with client:
            await client.complete(question(client))
            await client.complete(question(client))
    assert client.ledger.spent == {"m": Spent(2, 0, 2_000, 1_000, pytest.approx(0.012))}


async def test_requests_a_minute_are_kept():
    now, slept = [time.monotonic()], []

    async def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    with ModelServer(otherwise=lambda asked: "x") as server:
        settings = {"type": "openai", "model_id_or_path": "m", "base_url": server.url, "requests_per_minute": 60}
        async with LMClient(settings, sleep=sleep, clock=lambda: now[0]) as client:
            for _ in range(60):
                await client.complete(question(client))
            before = len(slept)
            await client.complete(question(client))
    assert before == 0
    assert slept == [pytest.approx(1.0)]


async def test_one_client_serves_several_loops():
    with ModelServer(otherwise=lambda asked: "x") as server:
        client, _ = client_of(server)
        await client.complete(question(client))

        def elsewhere():
            with asyncio.Runner() as runner:
                return runner.run(client.complete(question(client))).text

        assert await asyncio.to_thread(elsewhere) == "x"
        await client.aclose()


async def test_a_request_without_time_to_wait_reserves_nothing():
    with ModelServer(otherwise=lambda asked: "x") as server:
        client, slept = client_of(server, requests_per_minute=6)
        async with client:
            for _ in range(6):
                await client.complete(question(client))
            with pytest.raises(Unavailable, match="the rate limit of the language model is used up") as caught:
                await client.complete(question(client), deadline=time.monotonic() + 1)
            await client.complete(question(client))
    assert 5 < caught.value.info.retry_after <= 10
    assert len(slept) == 1 and slept[0] <= 10


async def test_tls_is_judged_by_the_authority_that_the_operator_names(certificate):
    key, cert = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with ModelServer("yes", tls=context) as server:
        client, _ = client_of(server, ca=str(cert))
        async with client:
            assert (await client.complete(question(client))).text == "yes"
        client, _ = client_of(server, retries=0)
        async with client:
            with pytest.raises(Unavailable, match="certificate is not trusted"):
                await client.complete(question(client))


async def test_closing_twice_is_allowed():
    with ModelServer() as server:
        client, _ = client_of(server)
        client.close()
        client.close()
        await client.aclose()
        assert server.asked == []


async def test_a_retry_after_of_a_day_does_not_block_other_requests():
    with ModelServer((429, {"Retry-After": "86400"}, "x"), "yes") as server:
        client, slept = client_of(server)
        async with client:
            with pytest.raises(Unavailable):
                await client.complete(question(client))
            assert (await client.complete(question(client, "other"))).text == "yes"
    assert slept and all(seconds <= 60 for seconds in slept)


async def test_a_cancelled_wait_gives_its_reservation_back():
    with ModelServer("one", "two") as server:
        settings = {"type": "openai", "model_id_or_path": "m", "base_url": server.url, "requests_per_minute": 1}
        async with LMClient(settings) as client:
            await client.complete(question(client))
            waiting = [asyncio.create_task(client.complete(question(client, f"{at}"))) for at in range(5)]
            await asyncio.sleep(0.05)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            wait = client._limits.reserve(0, None)
    assert wait <= 60


def test_a_minutes_worth_may_be_asked_at_once_and_then_as_it_fills():
    clock = Clock(100.0)
    limits = RateLimits(requests_per_minute=6, clock=clock)
    assert [limits.reserve(0, None) for _ in range(8)] == [0, 0, 0, 0, 0, 0, pytest.approx(10), pytest.approx(20)]
    clock.now += 30
    assert limits.reserve(0, None) == pytest.approx(0)


def test_tokens_are_reserved_by_estimate_and_put_right_afterwards():
    clock = Clock(100.0)
    limits = RateLimits(tokens_per_minute=600, clock=clock)
    assert limits.reserve(600, None) == 0
    limits.settle(600, 300)
    assert limits.reserve(300, None) == pytest.approx(0)
    assert limits.reserve(60, None) == pytest.approx(6)


def test_a_request_larger_than_the_bucket_waits_for_a_full_one_and_goes():
    limits = RateLimits(tokens_per_minute=100, clock=Clock(100.0))
    assert limits.reserve(1_000, None) == 0
    assert limits.reserve(1, None) > 60


def test_what_would_be_past_the_deadline_takes_nothing():
    clock = Clock(100.0)
    limits = RateLimits(requests_per_minute=1, clock=clock)
    limits.reserve(0, None)
    for _ in range(3):
        with pytest.raises(Unavailable) as caught:
            limits.reserve(0, clock.now + 10)
        assert caught.value.info.retry_after == pytest.approx(60)
    clock.now += 60
    assert limits.reserve(0, clock.now + 10) == pytest.approx(0)


def test_a_pause_holds_everybody():
    clock = Clock(100.0)
    limits = RateLimits(clock=clock)
    limits.pause(5)
    limits.pause(2)
    assert limits.reserve(0, None) == pytest.approx(5)
    clock.now += 5
    assert limits.reserve(0, None) == 0


@given(st.integers(1, 50), st.lists(st.floats(0, 30), min_size=1, max_size=80))
def test_no_minute_exceeds_the_limit_by_more_than_one_burst(rate, gaps):
    clock = Clock(100.0)
    limits = RateLimits(requests_per_minute=rate, clock=clock)
    made = []
    for gap in gaps:
        clock.now += gap
        made.append(clock.now + limits.reserve(0, None))
    for index, start in enumerate(made):
        within = [moment for moment in made[index:] if moment <= start + 60]
        # What the bucket held at most, and what came in meanwhile.
        assert len(within) <= 2 * rate + 1


def test_what_is_given_back_can_be_taken_again():
    limits = RateLimits(requests_per_minute=1, tokens_per_minute=100, clock=lambda: 5.0)
    assert limits.reserve(100, None) == 0
    assert limits.reserve(100, None) == pytest.approx(60)
    limits.cancel(100)
    assert limits.reserve(100, None) == pytest.approx(60)

"""Shared links: counted, and closed by the last release."""

import pytest
from waiting import is_alive

from links.mcp.conftest import raw_server, text_of
from toolyard.links.mcp import Handlers, LinkLimits, give_back, lease
from toolyard.loop.home import link_loop
from toolyard.loop.pacing import ReconnectBackoff
from toolyard.model.errors import SyncInAsyncError

pytestmark = pytest.mark.process


def test_equal_servers_share_a_link_which_the_last_one_closes():
    first, second = lease(raw_server("plain")), lease(raw_server("plain"))
    assert first is second
    pid = int(text_of(first.call("pid", {})))
    give_back(first)
    assert is_alive(pid)
    give_back(second)
    assert not is_alive(pid)
    give_back(second)  # once more is no harm
    third = lease(raw_server("plain"))
    assert third is not first
    give_back(third)


def test_other_options_are_another_link():
    made = [
        lease(raw_server("plain")),
        lease(raw_server("plain", env=(("A", "b"),))),
        lease(raw_server("plain"), limits=LinkLimits(max_pages=3)),
        lease(raw_server("plain"), handlers=Handlers(roots=print)),
    ]
    assert len(set(map(id, made))) == 4
    for link in made:
        give_back(link)


def test_the_sync_way_on_the_links_own_loop_names_its_twin(links):
    link = links(raw_server("plain"))

    async def wrong():
        link.call("echo", {})

    with pytest.raises(SyncInAsyncError, match="acall"):
        link_loop.run(wrong(), twin="x")


def test_backoff_grows_is_spread_and_is_forgotten_after_a_healthy_time():
    now = [100.0]
    backoff = ReconnectBackoff(1.0, 8.0, 60.0, clock=lambda: now[0], chance=lambda: 1.0)
    for _ in range(3):
        backoff.record_connection()
        backoff.record_failure()
        assert backoff.seconds_left() == 0  # the first losses cost nothing
    waits = []
    for _ in range(5):
        backoff.record_failure()
        waits.append(backoff.seconds_left())
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0]
    backoff.record_connection()
    now[0] += 10
    backoff.record_failure()
    assert backoff.seconds_left() == 8.0  # it did not hold
    backoff.record_connection()
    now[0] += 60
    backoff.record_failure()
    assert backoff.seconds_left() == 0
    low = ReconnectBackoff(1.0, 8.0, 60.0, clock=lambda: now[0], chance=lambda: 0.0)
    low.record_failure()
    assert low.seconds_left() == 0.5

"""Servers that run as processes: calls, misbehaviour, and how they end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time

import msgspec
import pytest
from waiting import SOON, is_alive, until

from conftest import forget_starts, list_starts
from links.mcp.conftest import SECRET, in_seconds, raw_server, text_of
from toolyard.dialects.mcp_protocol import LISTEN
from toolyard.links.mcp import Handlers
from toolyard.loop.home import link_loop
from toolyard.model.bindings import McpServer
from toolyard.model.call import LogLine, Progress
from toolyard.model.errors import CallTimeout, Denied, Interrupted, InvalidArguments, ToolFailed, Unavailable

pytestmark = pytest.mark.process

ENV = (("API_KEY", SECRET),)


@pytest.fixture
def link(links):
    return links(raw_server("plain", env=ENV))


def test_an_old_server_is_listed_through_every_page_and_called(link):
    listing = link.list_tools()
    assert [tool["name"] for tool in listing.tools] == ["echo", "second"]
    assert (listing.complete, listing.notes) == (True, [])
    assert text_of(link.call("echo", {"text": "hé"})) == "hé"
    assert (link.state, link.protocol) == ("up", "2025-11-25")


def test_the_oldest_version_is_accepted(links):
    link = links(raw_server("oldest"))
    link.list_tools()
    assert link.protocol == "2024-11-05"


def test_a_version_from_the_future_is_refused_with_both_sides_named(links):
    link = links(raw_server("future"))
    with pytest.raises(Unavailable, match="speaks protocol '2099-01-01'; known are 2024-11-05"):
        link.list_tools()


@pytest.mark.parametrize("mode", ["choke_exit", "choke_hang", "choke_refuse"])
def test_a_server_that_chokes_on_the_probe_is_started_again_and_met_the_old_way(links, mode):
    link = links(raw_server(mode), connect_seconds=5, close_seconds=0.1)
    assert text_of(link.call("echo", {"text": "a"})) == "a"
    # Remembered: the next process is not probed, so it is there before a probe could have timed out.
    with pytest.raises(Interrupted):
        link.call("die", {})
    assert text_of(link.call("echo", {"text": "b"}, deadline=in_seconds(2.9))) == "b"


def test_a_slow_starter_is_not_taken_for_one_that_chokes(links):
    link = links(raw_server("slow"), connect_seconds=5)
    first = link.call("pid", {})
    assert link.call("pid", {}) == first


def test_a_server_has_all_its_time_to_start_in_and_it_is_said_what_is_waited_for(links, caplog):
    # 3.5 of 5 s: longer than one that has read the questions may think about them, and than the listing may take.
    link = links(raw_server("slow", env=(("START_SECONDS", "3.5"),)), connect_seconds=5)
    assert link.list_tools(timeout=3).tools
    assert "waiting for stdio: slow to start, up to 5 s (connect_timeout)" in caplog.messages
    assert link.protocol is not None and len(caplog.messages) == 1


def test_a_mute_server_fails_within_the_time_to_connect(links):
    link = links(raw_server("mute"), connect_seconds=1, close_seconds=0.1)
    with pytest.raises(Unavailable, match=r"did not answer within 1 s; connect_timeout gives it longer") as caught:
        link.list_tools(timeout=SOON)
    assert caught.value.info.effect == "none"
    assert link.state == "down"


def test_a_call_waits_for_a_connection_no_longer_than_its_deadline(links):
    link = links(raw_server("mute"), connect_seconds=20, close_seconds=0.1)
    with pytest.raises(CallTimeout, match=r"within 0\.[23]\d? s") as caught:
        link.call("echo", {}, deadline=in_seconds(0.3))
    assert caught.value.info.effect == "none"


def test_a_server_that_exits_says_its_last_words_without_the_secret(links):
    link = links(raw_server("exit", env=ENV))
    with pytest.raises(
        Unavailable,
        match=r"ended with status 1 before it answered; its last words: (\| hi \|\n){9}bad start, key \[redacted\]",
    ):
        link.list_tools()
    assert SECRET not in str(link.error) + repr(link)


@pytest.mark.parametrize("name", ["fail", "fail_late"])
def test_what_a_server_wrote_when_a_call_failed_is_logged_once_without_the_secret(link, caplog, name):
    link.call("remark", {})
    assert caplog.messages == [], "what goes well is nobody's business"
    link.call(name, {})
    until(lambda: caplog.messages)
    [said] = caplog.messages
    assert said.startswith("stdio: plain wrote to its standard error:\n  remark ")
    assert f"li{name} " in said and said.count("key [redacted]\\x1b[2J") == 2 and SECRET not in said
    link.call(name, {})
    until(lambda: len(caplog.messages) == 2)
    assert "remark" not in caplog.messages[1] and caplog.messages[1].count("[redacted]") == 1


def test_the_greeting_of_an_old_server_that_works_is_not_logged(links, caplog):
    link = links(raw_server("junk"))
    link.call("echo", {"text": "a"})
    link.close()
    assert caplog.messages == []


def test_a_failure_right_before_the_end_is_logged_too(link, caplog):
    link.call("fail", {})
    link.close()
    assert len(caplog.messages) == 1 and "[redacted]" in caplog.messages[0]


def test_a_flood_on_standard_error_is_cut_to_its_end(links, caplog):
    link = links(raw_server("plain"), stderr_bytes=100)
    for _ in range(20):
        link.call("remark", {})
    link.call("fail", {})
    link.close()
    # What came late is told at the close.
    assert all(len(said) < 200 for said in caplog.messages) and "fail" in caplog.messages[-1]


def test_a_missing_program_is_named(links):
    link = links(McpServer(name="stdio: nothing", transport="stdio", command="no-such-program-here"))
    with pytest.raises(Unavailable, match="no program 'no-such-program-here'") as caught:
        link.call("echo", {})
    assert not caught.value.info.retryable


def test_a_missing_folder_is_named(links):
    link = links(raw_server("plain", cwd="/no/such/folder"))
    with pytest.raises(Unavailable, match="no folder '/no/such/folder'"):
        link.call("echo", {})


def test_the_environment_is_a_short_list_and_what_is_given(links, monkeypatch):
    monkeypatch.setenv("TOOLYARD_TEST_LEAK", "leaked")
    link = links(raw_server("plain", env=ENV))
    seen = json.loads(text_of(link.call("env", {})))
    assert seen["API_KEY"] == SECRET
    assert set(seen) - {"LC_CTYPE", "PWD", "SHLVL", "_"} <= {
        "API_KEY",
        "HOME",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "USER",
    }


def test_junk_on_the_output_is_ignored(links):
    link = links(raw_server("junk"))
    assert text_of(link.call("echo", {"text": "a"})) == "a"


def test_death_during_a_call_fails_it_at_once_and_the_next_call_finds_a_new_process(link):
    pid = text_of(link.call("pid", {}))
    with pytest.raises(
        Interrupted, match=r"ended with status 3 before it answered; .*the key was \[redacted\]"
    ) as caught:
        link.call("die", {})
    assert caught.value.info.effect == "unknown"
    assert text_of(link.call("pid", {})) != pid


def test_death_during_a_call_that_only_reads_has_no_effect(link):
    with pytest.raises(Interrupted) as caught:
        link.call("die", {}, reads=True)
    assert (caught.value.info.effect, caught.value.info.retryable) == ("none", True)


def test_death_fails_every_call_in_flight(link):
    link.list_tools()
    failed = []

    def wait():
        with pytest.raises(Interrupted):
            link.call("silent", {})
        failed.append(1)

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    with pytest.raises(Interrupted):
        link.call("die", {})
    for thread in threads:
        thread.join(SOON)
    assert len(failed) == 5


@pytest.mark.parametrize("name", ["huge", "huge_last"])
def test_a_result_that_is_too_large_fails_only_its_own_call(link, name):
    link.list_tools()
    others = []
    thread = threading.Thread(
        target=lambda: others.extend(text_of(link.call("echo", {"text": str(n)})) for n in range(50))
    )
    thread.start()
    with pytest.raises(ToolFailed, match="larger than 16,777,216 bytes"):
        link.call(name, {}, deadline=in_seconds(30))
    thread.join()
    assert others == [str(n) for n in range(50)]


@pytest.mark.parametrize("name", ["nested", "garbage"])
def test_a_result_that_cannot_be_read_fails_only_its_own_call(link, name):
    with pytest.raises(ToolFailed, match="no JSON-RPC message"):
        link.call(name, {}, deadline=in_seconds(10))
    assert text_of(link.call("echo", {"text": "still"})) == "still"


def test_an_answer_over_several_lines_fails_its_call_with_the_reason(link):
    with pytest.raises(ToolFailed, match="wrote its answer over several lines") as caught:
        link.call("indented", {}, deadline=in_seconds(SOON))
    assert "each message is one line" in caught.value.info.hint
    assert text_of(link.call("echo", {"text": "still"})) == "still"


def test_a_server_that_indents_all_its_answers_fails_to_connect_with_the_reason(links):
    with pytest.raises(ToolFailed, match="wrote its answer over several lines"):
        links(raw_server("indented")).list_tools()


def test_results_for_other_requests_are_ignored(link):
    assert text_of(link.call("other_id", {})) == "for you"


def test_a_call_that_is_never_answered_ends_at_its_deadline_and_the_server_is_told(link):
    link.list_tools()
    with pytest.raises(CallTimeout, match=r"did not answer within 0\.[12]\d? s") as caught:
        link.call("silent", {}, deadline=in_seconds(0.2))
    assert caught.value.info.effect == "unknown"
    assert len(json.loads(text_of(link.call("cancelled", {})))) == 1


def test_a_server_that_hangs_is_restarted_after_a_call_timed_out(links):
    link = links(raw_server("plain"), silence_seconds=0.3, close_seconds=0.1)
    pid = text_of(link.call("pid", {}))
    with pytest.raises(CallTimeout):
        link.call("sleep", {"seconds": 600}, deadline=in_seconds(0.2))
    with pytest.raises(Interrupted, match=r"was ended \(it wrote nothing for 0\.3 s after a call had timed out\)"):
        link.call("echo", {}, deadline=in_seconds(SOON))
    assert text_of(link.call("pid", {})) != pid


def test_a_server_that_hangs_is_restarted_although_its_subscription_is_pending(links):
    link = links(raw_server("modern"), silence_seconds=0.3, close_seconds=0.1)
    link.watch(lambda change: None)
    assert link.list_tools().tools and link.protocol == "2026-07-28"
    pending = link._connection.wire._mailbox._waiting
    until(lambda: any(request.method == LISTEN for request, _ in list(pending.values())))
    with pytest.raises(CallTimeout):
        link.call("sleep", {"seconds": 600}, deadline=in_seconds(0.2))
    with pytest.raises(Interrupted, match="was ended"):
        link.call("echo", {}, deadline=in_seconds(SOON))


def test_a_server_that_answers_a_ping_after_a_timeout_is_not_restarted(links):
    link = links(raw_server("plain"), silence_seconds=0.3, close_seconds=0.1)
    pid = text_of(link.call("pid", {}))
    with pytest.raises(CallTimeout):
        link.call("silent", {}, deadline=in_seconds(0.2))
    time.sleep(0.5)
    assert text_of(link.call("pid", {})) == pid


def test_a_server_that_is_busy_with_an_earlier_call_is_not_restarted(links):
    link = links(raw_server("plain"), silence_seconds=0.1)
    link.list_tools()
    slept = []
    thread = threading.Thread(target=lambda: slept.append(text_of(link.call("sleep", {"seconds": 1}))))
    thread.start()
    until(lambda: link._connection.peer.calls)
    with pytest.raises(CallTimeout):
        link.call("echo", {}, deadline=in_seconds(0.1))
    thread.join(SOON)
    assert slept == ["slept"]


async def test_cancelling_the_awaiting_task_tells_the_server(link):
    await link.alist_tools()
    task = asyncio.create_task(link.acall("silent", {}))
    await asyncio.sleep(0)
    # Sent behind it on the same pipe, and answered: so the server has both.
    assert json.loads(text_of(await link.acall("cancelled", {}))) == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(100):
        told = json.loads(text_of(await link.acall("cancelled", {})))
        if told:
            break
    assert len(told) == 1


def test_an_error_of_the_protocol_is_a_failed_tool_without_secrets(link):
    with pytest.raises(ToolFailed, match=r"\(-32602\): no such thing") as caught:
        link.call("refuse", {})
    assert caught.value.info.details == {"code": -32602, "data": {"seen": "[redacted]"}}


def test_an_error_that_another_toolyard_sent_is_that_error_again(link):
    with pytest.raises(Denied, match="policy says no") as caught:
        link.call("ours", {})
    assert caught.value.info.code == "tool.denied"


@pytest.mark.parametrize("name", ["odd_error", "odd_result"])
def test_odd_answers_are_failed_tools(link, name):
    with pytest.raises(ToolFailed):
        link.call(name, {})


def test_a_result_that_says_it_is_an_error_is_returned(link):
    assert link.call("is_error", {})["isError"] is True


def test_arguments_that_are_no_json_are_refused_before_anything_is_sent(link):
    with pytest.raises(InvalidArguments):
        link.call("echo", {"text": object()})
    with pytest.raises(InvalidArguments):
        link.call("echo", {"text": "\ud800"})


def test_progress_and_log_lines_reach_who_called(link):
    seen = []
    assert text_of(link.call("progress", {}, notify=seen.append)) == "done"
    steps = [Progress(1.0, 2.0, "step 1"), Progress(2.0, 2.0, "step 2")]
    assert seen == [*steps, LogLine("key [redacted]", "warning", "raw")]


def test_a_flood_of_notifications_is_survived(link):
    assert text_of(link.call("flood", {}, deadline=in_seconds(60))) == "flooded"


def test_ping_is_answered(link):
    assert json.loads(text_of(link.call("ask", {"method": "ping"}))) == {"id": "a1", "result": {}, "error": None}


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list", "made/up"])
def test_requests_of_the_server_without_a_handler_are_refused_cleanly(link, method):
    answer = json.loads(text_of(link.call("ask", {"method": method})))
    assert answer["error"]["code"] == -32601
    assert text_of(link.call("echo", {"text": "on"})) == "on"


def sync_roots(params):
    return {"roots": [params]}


async def async_roots(params):
    await asyncio.sleep(0)
    return {"roots": [params]}


@pytest.mark.parametrize("roots", [sync_roots, async_roots])
def test_requests_of_the_server_are_answered_by_a_handler(links, roots):
    link = links(raw_server("plain"), Handlers(roots=roots))
    answer = json.loads(text_of(link.call("ask", {"method": "roots/list"})))
    assert answer["result"] == {"roots": [{"hello": 1}]}


def denied(params):
    raise Denied("not today")


def broken(params):
    return 1 // 0


@pytest.mark.parametrize(("handler", "code"), [(denied, -1), (broken, -32603)])
def test_a_handler_that_fails_is_an_error_to_the_server(links, handler, code):
    link = links(raw_server("plain"), Handlers(sampling=handler))
    answer = json.loads(text_of(link.call("ask", {"method": "sampling/createMessage"})))
    assert answer["error"]["code"] == code


def test_watchers_hear_of_changes_and_of_coming_and_going(link):
    heard = []
    stop = link.watch(heard.append)
    link.call("change", {})
    until(lambda: "changed" in heard)
    with pytest.raises(Interrupted):
        link.call("die", {})
    until(lambda: heard == ["up", "changed", "down", "up"])
    stop()
    link.call("change", {})
    link.call("echo", {})
    assert len(heard) == 4


def test_begin_connects_without_a_call(link):
    link.begin()
    assert until(lambda: link.state == "up")


@pytest.mark.parametrize(
    ("mode", "tools", "note"),
    [("loop", 2, "lead back"), ("endless", 20, "more than 20 pages"), ("strange", 1, "no list of tools")],
)
def test_lists_that_lead_nowhere_are_ended_and_said_so(links, mode, tools, note):
    listing = links(raw_server(mode), max_pages=20).list_tools()
    assert len(listing.tools) == tools + (1 if mode == "loop" else 0)
    assert not listing.complete
    assert note in listing.notes[0]


def test_more_tools_than_allowed_are_left_out(links):
    listing = links(raw_server("endless"), max_tools=7).list_tools()
    assert len(listing.tools) == 7
    assert "more than 7 tools" in listing.notes[0]


def test_a_first_page_that_is_no_list_is_an_error(links):
    with pytest.raises(ToolFailed, match="no list of tools"):
        links(raw_server("no_list")).list_tools()


def test_many_threads_share_one_process(link):
    link.list_tools()
    found = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(text_of(link.call("echo", {"text": str(n)}))))
        for n in range(32)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=int) == [str(n) for n in range(32)]


def test_closing_ends_the_process_and_its_children(link):
    pid, child = int(text_of(link.call("pid", {}))), int(text_of(link.call("child", {})))
    assert is_alive(pid) and is_alive(child)
    link.close()
    assert not is_alive(pid) and not is_alive(child)
    assert link.state == "closed"
    with pytest.raises(Unavailable, match="closed"):
        link.call("echo", {})


def test_closing_ends_a_process_that_ignores_the_end_of_its_input_and_being_asked(links):
    link = links(raw_server("stubborn"), close_seconds=0.3)
    pid = int(text_of(link.call("pid", {})))
    link.close()
    assert not is_alive(pid)


def test_children_of_a_server_that_died_are_ended(link):
    child = int(text_of(link.call("child", {})))
    with pytest.raises(Interrupted):
        link.call("die", {})
    until(lambda: not is_alive(child))


def test_no_process_is_left_when_the_interpreter_ends_without_closing():
    code = (
        "import sys\n"
        "from toolyard.links.mcp import McpLink\n"
        "from toolyard.model.bindings import McpServer\n"
        f"server = McpServer(name='x', transport='stdio', command=sys.executable, args={raw_server('stubborn').args!r})\n"
        "link = McpLink(server)\n"
        "print(link.call('pid', {})['content'][0]['text'], link.call('child', {})['content'][0]['text'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for pid in done.stdout.split():
        until(lambda pid=pid: not is_alive(int(pid)))


def test_a_server_that_keeps_dying_is_left_alone_for_a_while(links):
    link = links(raw_server("exit"), backoff_seconds=30, max_backoff_seconds=60)
    with pytest.raises(Unavailable):
        link.list_tools()
    forget_starts()
    with pytest.raises(Unavailable, match="last words") as caught:
        link.list_tools()
    assert 0 < caught.value.info.retry_after <= 1  # who asks need not wait out the whole pause
    assert not list_starts()


def test_lines_for_people_do_not_spoil_the_call_that_waits(links):
    link = links(raw_server("junk"))
    assert text_of(link.call("chatter", {}, deadline=in_seconds(10))) == "after all"


def test_a_process_that_died_unnoticed_is_replaced_before_the_next_call_is_sent(link):
    for _ in range(3):
        pid = int(text_of(link.call("pid", {})))
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: not is_alive(pid))
        assert int(text_of(link.call("pid", {}, deadline=in_seconds(10)))) != pid


def test_a_process_of_whose_death_the_loop_has_not_heard_yet_is_sent_nothing(link):
    pid = int(text_of(link.call("pid", {})))

    async def kill_and_call():
        os.kill(pid, signal.SIGKILL)
        while is_alive(pid):  # without a step of the loop, so that it cannot know
            pass
        return await link.acall("pid", {}, deadline=in_seconds(10))

    assert int(text_of(link_loop.run(kill_and_call(), twin="kill_and_call"))) != pid


def test_a_program_that_is_not_on_the_path_is_looked_for_beside_the_interpreter(links, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    server = raw_server("plain", env=ENV)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "a-server").symlink_to(server.command)
    link = links(msgspec.structs.replace(server, command="a-server"))
    assert text_of(link.call("echo", {"text": "a"})) == "a"

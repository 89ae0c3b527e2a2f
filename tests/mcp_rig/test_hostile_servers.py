"""Servers that mean no good, over both wires: each trick is contained and reported, and who stands beside is unaffected."""

import asyncio
import contextlib
import http.server
import json
import threading

import pytest
from waiting import until

from conftest import SOAK
from mcp_rig.processes import START, hostile_command, new_mark, start_url_server, wait_until_gone
from mcp_rig.real_servers import stdio_source
from mcp_rig.yards import yard_of
from toolyard import MCPToolEngine, MCPToolLoader, ToolCall, ToolRegistry

pytestmark = pytest.mark.process

WAYS = ("stdio", "http")
MEGA = 1 << 20


@contextlib.contextmanager
def bad_source(way, listing, env=None, **more):
    """The config entry of a hostile server in the namespace `bad`."""
    if way == "stdio":
        yield stdio_source("bad", hostile_command("stdio", listing), env=env or {}, **more)
    else:
        with start_url_server(hostile_command("http", listing), env) as (url, _):
            yield {"type": "mcp", "namespace": "bad", "url": url, "connect_timeout": START, **more}


GOOD = stdio_source("good", hostile_command("stdio", "plain"))


@pytest.fixture(scope="module", params=WAYS)
def yard(request):
    """A server whose tools are tricks, and a good one beside it."""
    with bad_source(request.param, "plain") as bad, yard_of(bad, GOOD) as made:
        made.way = request.param
        yield made


@pytest.fixture
def listed(request):
    """A yard with a trick played while its tools are listed, by the parameters (way, listing, options)."""
    way, listing, options = request.param
    with bad_source(way, listing, **options) as bad, yard_of(bad, GOOD) as made:
        assert made.value("good::fine") == "fine"
        made.bad = made.registry.report.sources[0]
        yield made


def tricks(listing, ways=WAYS if SOAK else WAYS[:1], **options):
    """By one way where the trick is in the list itself, which is read by the same code however it came."""
    return pytest.mark.parametrize(
        "listed", [pytest.param((way, listing, options), id=way) for way in ways], indirect=True
    )


def whole(report):
    return json.dumps(report.to_dict(), ensure_ascii=False)


class TestListing:
    @tricks("page_loop")
    def test_a_cursor_that_repeats_ends_the_listing_with_a_report(self, listed):
        assert set(listed.tools("bad")) <= {"looped_0", "looped_1", "looped_2"}
        assert "lead back" in whole(listed.bad)

    @tricks("endless")
    def test_endless_pages_are_cut_off(self, listed):
        assert "page" in whole(listed.bad)

    @tricks("twins")
    def test_the_second_of_two_equal_tools_is_rejected(self, listed):
        assert len(listed.registry.get("bad::twin")) == 2
        assert [rejection.tool for rejection in listed.bad.rejected] == ["bad::twin"]
        assert listed.value("bad::fine") == "fine"

    @pytest.mark.soak
    @tricks("many", timeout=60)
    def test_a_hundred_thousand_tools_are_loaded_or_counted(self, listed):
        assert listed.bad.loaded == len(listed.tools("bad"))
        assert listed.bad.loaded == 100_000 or "100" in whole(listed.bad)
        assert listed.value(f"bad::{next(reversed(listed.tools('bad')))}")

    @tricks("bad_names")
    def test_invalid_names_are_rejected_one_by_one(self, listed):
        assert set(listed.tools("bad")) == {"fine"}
        assert len(listed.bad.rejected) == 10
        shown = whole(listed.bad)
        assert not [char for char in "\u202e\u200b\x07" if char in shown]

    @tricks("bad_schemas")
    def test_invalid_schemas_are_rejected_one_by_one(self, listed):
        assert "fine" in listed.tools("bad") and listed.bad.entries == 10
        assert listed.bad.rejected

    @tricks("bombs")
    def test_schemas_that_are_costly_to_check_are_rejected_or_harmless(self, listed):
        assert listed.value("bad::fine") == "fine"
        assert listed.bad.entries == 4
        for name in set(listed.tools("bad")) - {"fine"}:
            listed.call(f"bad::{name}", x=1)  # one that explodes is never answered

    @tricks("huge_text", WAYS)
    def test_a_description_of_five_megabytes_affects_no_other_tool(self, listed):
        assert listed.value("bad::fine") == "fine"
        assert listed.bad.entries == 3

    @tricks("too_large", WAYS)
    def test_a_list_of_fifty_megabytes_is_refused(self, listed):
        assert not listed.tools("bad")
        assert listed.bad.state == "failed" and "16,777,216 bytes" in listed.bad.error

    @pytest.mark.parametrize(
        "listed",
        [
            pytest.param((way, trick, {}), id=f"{way}-{trick}")
            for way in WAYS
            for trick in ("no_list", "deep_json", "error")
        ],
        indirect=True,
    )
    def test_an_invalid_list_fails_only_its_source(self, listed):
        assert listed.bad.state == "failed" and listed.bad.error
        assert not listed.tools("bad")

    @pytest.mark.parametrize(
        "listed",
        [
            pytest.param((way, trick, {"timeout": 1, "connect_timeout": 1}), id=f"{way}-{trick}")
            for way in WAYS
            for trick in ("mute", "deaf")
        ],
        indirect=True,
    )
    def test_a_server_that_never_answers_fails_at_the_timeout(self, listed):
        assert listed.bad.state == "failed" and listed.bad.error

    @pytest.mark.parametrize("way", WAYS)
    def test_a_schema_elsewhere_is_never_fetched(self, way):
        asked = []

        class Bait(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_error(404)

            def log_message(self, *words):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bait) as bait:
            threading.Thread(target=bait.serve_forever, args=(0.02,), daemon=True).start()
            env = {"BAIT": f"http://127.0.0.1:{bait.server_port}"}
            with bad_source(way, "remote_ref", env) as bad, yard_of(bad, GOOD) as yard:
                assert yard.value("bad::fine") == "fine"
                for name in yard.tools("bad"):
                    yard.call(f"bad::{name}", a=1)
                assert {"baited", "bait"} - set(yard.tools("bad")) <= {
                    rejection.tool for rejection in yard.registry.report.rejected
                }
            bait.shutdown()
        assert asked == []


class TestCalls:
    def test_responses_with_foreign_ids_are_ignored(self, yard):
        assert yard.value("bad::stray") == "stray"
        assert yard.value("bad::twice") == "twice"

    def test_a_call_that_is_never_answered_ends_at_its_deadline(self, yard):
        late = asyncio.run(yard.ask("bad::mute", {}, within=0.3))
        assert late.error_info.code == "tool.timeout"

    def test_a_response_of_fifty_megabytes_fails_only_its_call(self, yard):
        results = yard.many([("bad::fine", {}), ("bad::huge", {}), ("bad::fine", {}), ("good::fine", {})])
        assert [result.result for result in results] == ["fine", None, "fine", "fine"]
        assert results[1].error_info.code == "tool.execution_error" and "16,777,216 bytes" in results[1].error

    def test_a_deeply_nested_response_is_an_error(self, yard):
        assert yard.code("bad::nested") in {"tool.execution_error", "tool.invalid_output"}

    def test_invalid_lines_between_messages_are_ignored(self, yard):
        assert yard.value("bad::junk") == "junk"

    def test_requests_without_a_handler_are_refused_and_unknown_notifications_ignored(self, yard):
        assert yard.value("bad::chatty") == "chatty"

    def test_results_of_a_wrong_shape_are_errors_or_kept_unchanged(self, yard):
        assert yard.code("bad::odd") in {"tool.execution_error", "tool.invalid_output"}
        assert not yard.call("bad::blocks").is_error or yard.code("bad::blocks") in {
            "tool.execution_error",
            "tool.invalid_output",
        }
        assert yard.code("bad::error") == "tool.execution_error"

    @pytest.fixture(autouse=True)
    def _everybody_else_goes_on(self, yard):
        yield
        assert yard.value("bad::fine") == "fine"
        assert yard.value("good::fine") == "fine"


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_dies_during_a_call_fails_the_call_at_once(way):
    mark = new_mark()
    with bad_source(way, "plain", mark) as bad, yard_of(bad, GOOD) as yard:
        results = yard.many([("bad::mute", {}), ("bad::die", {}), ("good::fine", {})])
        codes = [result.error_info and result.error_info.code for result in results]
        assert codes[2] is None
        assert set(codes[:2]) <= {"tool.execution_error", "tool.unavailable", "tool.interrupted"}
        assert all(result.error_info.effect == "unknown" for result in results[:2])
        if way == "stdio":
            until(lambda: yard.call("bad::fine").result == "fine")
        else:
            assert yard.code("bad::fine") == "tool.unavailable"
        assert yard.value("good::fine") == "fine"
    wait_until_gone(mark)


@pytest.mark.parametrize("way", WAYS)
def test_a_cancelled_call_is_cancelled_on_the_server_too(way, tmp_path):
    log = tmp_path / "log"
    with bad_source(way, "plain", {"HOSTILE_LOG": str(log)}) as bad, yard_of(bad) as yard:
        late = asyncio.run(yard.ask("bad::mute", {}, within=0.2))
        assert late.error_info.code == "tool.timeout"
        until(lambda: "notifications/cancelled" in log.read_text())
        said = [json.loads(line) for line in log.read_text().splitlines()]
        call = next(message for message in said if message["method"] == "tools/call")
        cancelled = next(message for message in said if message["method"] == "notifications/cancelled")
        assert cancelled["params"]["requestId"] == call["id"]


@pytest.mark.parametrize("way", WAYS)
class TestRugPull:
    """A description that was agreed to, and is another one later."""

    def test_a_tool_whose_definition_changes_after_approval_is_missing_until_approved_again(self, way, tmp_path):
        with bad_source(way, "rug_pull", approved=str(tmp_path / "approved.json")) as bad:
            loader = MCPToolLoader(**{key: value for key, value in bad.items() if key != "type"})
            with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as engine:
                engine.setup("s")
                assert "Adds two numbers." in registry.get("bad::add")[0].description
                engine.execute("s", [ToolCall("bad::rug")])
                until(lambda: "bad::add" not in registry)
                assert [(rejection.tool, "approved" in rejection.reason) for rejection in registry.report.rejected] == [
                    ("add", True)
                ]
                assert engine.execute("s", [ToolCall("bad::add")])[0].error_info.code == "tool.not_found"
                assert engine.execute("s", [ToolCall("bad::fine")])[0].result == "fine"
                loader.approve("add")
                until(lambda: "bad::add" in registry)
                assert "secret" in registry.get("bad::add")[0].description

    def test_without_approvals_a_changed_definition_is_reported(self, way):
        with bad_source(way, "rug_pull") as bad, yard_of(bad, GOOD) as yard:
            yard.call("bad::rug")
            until(lambda: "secret" in yard.tools("bad")["add"].description)
            assert [rewrite.change for rewrite in yard.registry.report.rewrites if rewrite.tool == "bad::add"]


def test_a_server_process_ends_with_its_yard_even_if_it_never_answered():
    mark = new_mark()
    with bad_source("stdio", "deaf", mark, connect_timeout=1, timeout=1) as bad, yard_of(bad, GOOD) as yard:
        assert yard.value("good::fine") == "fine"
    wait_until_gone(mark)

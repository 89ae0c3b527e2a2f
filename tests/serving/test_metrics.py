"""What the service counts, and that clients cannot make the count grow without bounds."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from prometheus_client.parser import text_string_to_metric_families

from toolyard.serving.metrics import MAX_CODES, MAX_ROUTES, MAX_TOOLS, SHARED_VARIABLE, Metrics


def samples(metrics):
    """Every sample by name and labels, as a Prometheus server would read them."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def every_name(name):
    return True


def test_requests_are_counted_by_route_and_status_and_timed_by_route():
    metrics = Metrics(every_name)
    metrics.count_request("/v1/tools", 200, 0.002)
    metrics.count_request("/v1/tools", 200, 0.2)
    metrics.count_request("/v1/tools", 429, 0.0001)
    seen = samples(metrics)
    assert seen["toolyard_requests_total", ("route", "/v1/tools"), ("status", "200")] == 2
    assert seen["toolyard_requests_total", ("route", "/v1/tools"), ("status", "429")] == 1
    assert seen["toolyard_request_seconds_count", ("route", "/v1/tools")] == 3
    assert seen["toolyard_request_seconds_sum", ("route", "/v1/tools")] == pytest.approx(0.2021)
    assert seen["toolyard_request_seconds_bucket", ("le", "0.001"), ("route", "/v1/tools")] == 1
    assert seen["toolyard_request_seconds_bucket", ("le", "0.0025"), ("route", "/v1/tools")] == 2
    assert seen["toolyard_request_seconds_bucket", ("le", "+Inf"), ("route", "/v1/tools")] == 3


def test_calls_are_counted_by_tool_mode_and_code():
    metrics = Metrics(every_name)
    metrics.count_call("core::echo", "execute", "ok", 0.01)
    metrics.count_call("core::echo", "simulate", "tool.denied", 100)
    seen = samples(metrics)
    assert seen["toolyard_calls_total", ("code", "ok"), ("mode", "execute"), ("tool", "core::echo")] == 1
    assert seen["toolyard_calls_total", ("code", "tool.denied"), ("mode", "simulate"), ("tool", "core::echo")] == 1
    assert seen["toolyard_call_seconds_count", ("tool", "core::echo")] == 2


def test_a_tool_that_does_not_exist_has_no_label_of_its_own():
    metrics = Metrics({"core::echo"}.__contains__)
    for number in range(50):
        metrics.count_call(f"made::up{number}", "execute", "tool.not_found", 0.01)
    tools = {labels for name, *labels in samples(metrics) if name == "toolyard_calls_total" for labels in [labels[-1]]}
    assert tools == {("tool", "other")}


def test_labels_are_bounded_whatever_is_counted():
    metrics = Metrics(every_name)
    for number in range(MAX_TOOLS + 500):
        metrics.count_call(f"a::{number}", "execute", f"code.{number}", 0.01)
        metrics.count_request(f"/{number}", 200, 0.01)
    seen = samples(metrics)
    labels = {(name, *pair) for name, *pairs in seen for pair in pairs}
    assert sum(name == "toolyard_calls_total" and key == "tool" for name, key, _ in labels) == MAX_TOOLS + 1
    assert sum(name == "toolyard_calls_total" and key == "code" for name, key, _ in labels) == MAX_CODES + 1
    assert sum(name == "toolyard_requests_total" and key == "route" for name, key, _ in labels) == MAX_ROUTES + 1
    assert sum(value for (name, *_), value in seen.items() if name == "toolyard_calls_total") == MAX_TOOLS + 500


@given(st.lists(st.tuples(st.text(max_size=20), st.floats(0, 100)), max_size=20))
def test_any_tool_name_can_be_read_back_and_no_call_is_lost(calls):
    metrics = Metrics(every_name)
    for tool, seconds in calls:
        metrics.count_call(tool, "execute", "ok", seconds)
    seen = {key: value for key, value in samples(metrics).items() if key[0] == "toolyard_calls_total"}
    assert {dict(labels)["tool"] for _, *labels in seen} == {tool for tool, _ in calls}
    assert sum(seen.values()) == len(calls)


def test_gauges_say_what_is_so_when_they_are_read():
    metrics = Metrics(every_name)
    running = [1]
    metrics.watch_gauge("running", lambda: running[0])
    assert samples(metrics)["toolyard_requests_running",] == 1
    running[0] = 5
    assert samples(metrics)["toolyard_requests_running",] == 5
    with pytest.raises(ValueError, match="no gauge is called 'runing'; there are running"):
        metrics.watch_gauge("runing", lambda: 0)


def test_the_process_and_the_version_are_exported_too():
    names = {name for name, *_ in samples(Metrics(every_name))}
    assert {"toolyard_info", "process_resident_memory_bytes"} <= names


@pytest.mark.process
def test_a_server_that_counts_does_not_load_prometheus_until_somebody_reads():
    code = "import sys, toolyard.serving.metrics as m; x = m.Metrics(bool); x.count_request('/', 200, 1); "
    code += "assert 'prometheus_client' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.process
def test_processes_that_share_a_folder_are_added_up(tmp_path, monkeypatch):
    code = (
        "from toolyard.serving.metrics import Metrics\n"
        "metrics = Metrics(bool)\n"
        "metrics.count_request('/', 200, 0.5)\n"
        "metrics.count_call('core::echo', 'execute', 'ok', 0.5)\n"
        "metrics.watch_gauge('running', lambda: 3)\n"
        "metrics.watch_gauge('tools', lambda: 7)\n"
        "metrics.write_shared()\n"
    )
    monkeypatch.setenv(SHARED_VARIABLE, str(tmp_path))
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], check=True)
    metrics = Metrics(every_name)
    metrics.count_request("/", 200, 0.5)
    metrics.watch_gauge("running", lambda: 1)
    metrics.watch_gauge("tools", lambda: 7)
    seen = samples(metrics)
    assert seen["toolyard_requests_total", ("route", "/"), ("status", "200")] == 3
    assert seen["toolyard_calls_total", ("code", "ok"), ("mode", "execute"), ("tool", "core::echo")] == 2
    assert seen["toolyard_requests_running",] == 7
    assert seen["toolyard_tools",] == 7


def test_of_a_process_that_is_gone_the_counts_stay_and_the_gauges_do_not(tmp_path, monkeypatch):
    now = [1000.0]
    gone = Metrics(every_name, shared=tmp_path, clock=lambda: now[0])
    gone.count_request("/", 200, 0.5)
    gone.watch_gauge("running", lambda: 3)
    monkeypatch.setattr("toolyard.serving.metrics.os.getpid", lambda: 1)
    gone.write_shared()
    monkeypatch.undo()
    now[0] += 60
    metrics = Metrics(every_name, shared=tmp_path, clock=lambda: now[0])
    metrics.watch_gauge("running", lambda: 1)
    seen = samples(metrics)
    assert seen["toolyard_requests_total", ("route", "/"), ("status", "200")] == 1
    assert seen["toolyard_requests_running",] == 1


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["count", "scrape", "restart"])), max_size=30))
def test_no_counter_goes_down_whichever_process_is_asked(steps):
    with tempfile.TemporaryDirectory() as folder:
        processes = [Metrics(every_name, shared=Path(folder)) for _ in range(3)]
        before = {}
        for which, step in steps:
            if step == "restart":
                # A process that is killed leaves what it wrote last; the next may have its number.
                processes[which] = Metrics(every_name, shared=Path(folder))
            elif step == "count":
                processes[which].count_request("/", 200, 0.1)
                processes[which].count_call("core::echo", "execute", "ok", 0.7)
            else:
                seen = samples(processes[which])
                assert all(seen[key] >= value for key, value in before.items())
                before = {key: value for key, value in seen.items() if key[0].endswith(("_total", "_bucket", "_sum"))}


def test_a_single_process_shares_no_metrics():
    assert Metrics(every_name).shared is None

"""`read_bytes` reads regular files, locked changes lose nothing, and `paused_gc` gives back the state it found."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import SOON

from toolyard.model.errors import MalformedSource, SourceUnavailable
from toolyard.parsing import paused_gc, read_bytes
from toolyard.parsing.files import MAX_BYTES, lock_file, replace_file


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    path = tmp_path / "tools.json"
    path.write_bytes(content)
    assert read_bytes(path) == content
    assert read_bytes(str(path), max_bytes=len(content)) == content


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert read_bytes(tmp_path / "empty") == b""


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert read_bytes(tmp_path / "link") == b"x"


def test_a_file_that_hides_its_size_is_read_and_limited() -> None:
    status = Path("/proc/self/status")
    assert b"Name:" in read_bytes(status)
    with pytest.raises(MalformedSource, match="larger than the limit of 10 bytes"):
        read_bytes(status, max_bytes=10)


def test_a_file_over_the_limit_is_refused_with_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"x" * 1001)
    with pytest.raises(MalformedSource, match="larger than the limit of 1,000 bytes") as caught:
        read_bytes(path, max_bytes=1000)
    assert caught.value.where == str(path)


def test_a_sparse_file_over_the_default_limit_costs_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(MalformedSource, match="larger than the limit"):
        read_bytes(tmp_path / "huge")


def test_a_missing_file_is_unavailable_and_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"no such file; .* has no 'nowhere'$"):
        read_bytes(tmp_path / "nowhere" / "tools.json")


def test_the_message_about_a_missing_file_repeats_no_part_of_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, says in [
        ("tools.json", f"tools.json: no such file in {tmp_path}"),
        (f"{tmp_path}/tools.json", f"{tmp_path}/tools.json: no such file"),
    ]:
        with pytest.raises(SourceUnavailable) as caught:
            read_bytes(path)
        assert str(caught.value) == says


def test_a_link_that_leads_nowhere_says_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("gone.json")
    with pytest.raises(SourceUnavailable, match=r"no such file; the link points to gone\.json"):
        read_bytes(tmp_path / "link")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_cannot_be_a_path_is_unavailable(path: str) -> None:
    with pytest.raises(SourceUnavailable, match="is no path"):
        read_bytes(path)


def test_a_file_used_as_a_folder_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceUnavailable, match="cannot be read"):
        read_bytes(tmp_path / "file" / "tools.json")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MalformedSource, match="this is a directory; name a file"):
        read_bytes(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MalformedSource, match="this is a pipe"):
        read_bytes(tmp_path / "pipe")


def test_a_device_is_refused() -> None:
    with pytest.raises(MalformedSource, match="this is a device"):
        read_bytes("/dev/zero")


def test_a_socket_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(SourceUnavailable, match="cannot be read"):
            read_bytes("s")


@pytest.fixture(autouse=True)
def collector_running() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_the_collector_stands_still_inside_and_runs_after() -> None:
    with paused_gc():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_only_the_outermost_block_resumes() -> None:
    with paused_gc():
        with paused_gc():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_inside_resumes_all_the_same() -> None:
    with pytest.raises(ZeroDivisionError), paused_gc():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_process_without_collector_stays_without() -> None:
    gc.disable()
    with paused_gc():
        pass
    assert not gc.isenabled()


def test_overlapping_threads_resume_when_the_last_one_ends() -> None:
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    seen: list[bool] = []

    def first() -> None:
        with paused_gc():
            first_in.set()
            second_in.wait(SOON)
        first_out.set()

    def second() -> None:
        first_in.wait(SOON)
        with paused_gc():
            second_in.set()
            first_out.wait(SOON)
            seen.append(gc.isenabled())

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [False]
    assert gc.isenabled()


def count_young(built: list[list[int]]) -> int:
    mine = set(map(id, built))
    return sum(id(one) in mine for generation in (0, 1) for one in gc.get_objects(generation))


def test_many_new_objects_move_to_the_oldest_generation_and_few_do_not() -> None:
    gc.unfreeze()
    with paused_gc():
        few = [[number] for number in range(100)]
    assert count_young(few) == 100
    with paused_gc():
        many = [[number] for number in range(60_000)]
    assert count_young(many) == 0
    assert gc.get_freeze_count() == 0, "a cycle among them is found in the end"


def test_objects_frozen_by_the_program_stay_frozen() -> None:
    kept = [[number] for number in range(1000)]
    gc.freeze()
    with paused_gc():
        built = [[number] for number in range(60_000)]
    assert gc.get_freeze_count() >= len(kept)
    assert count_young(built) == len(built)


ADD = """
import sys
from pathlib import Path
from toolyard.parsing.files import lock_file, replace_file
path = Path(sys.argv[1])
for _ in range(20):
    with lock_file(path):
        replace_file(path, str(int(path.read_text()) + 1).encode())
"""


@pytest.mark.process
def test_processes_that_change_a_file_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_text("0")
    running = [subprocess.Popen([sys.executable, "-c", ADD, str(path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert path.read_text() == "60"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(item.name for item in tmp_path.iterdir()) == [".count.lock", "count"]


def test_a_change_that_fails_leaves_the_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with lock_file(path):
        replace_file(path, b"old")
    with pytest.raises(TypeError), lock_file(path):
        replace_file(path, "no bytes")
    assert path.read_bytes() == b"old"
    assert sorted(item.name for item in tmp_path.iterdir()) == [".kept.lock", "kept"]


def test_a_lock_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".kept.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), lock_file(tmp_path / "kept"):
        pass
    assert not (tmp_path / "elsewhere").exists()

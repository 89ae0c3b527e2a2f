"""Files that several processes change at once: no change is lost or half written, and failures are reported."""

import json
import os
import subprocess
import sys
import threading

import pytest
from waiting import SOON

from toolyard.links.mcp.authorization import TokenFile
from toolyard.model.errors import CallError, ConfigError
from toolyard.parsing.files import lock_file, replace_file

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
def test_processes_that_change_a_file_at_once_lose_nothing(tmp_path):
    path = tmp_path / "count"
    path.write_text("0")
    running = [subprocess.Popen([sys.executable, "-c", ADD, str(path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert path.read_text() == "60"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(item.name for item in tmp_path.iterdir()) == [".count.lock", "count"]


def test_a_change_that_fails_leaves_the_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "kept"
    with lock_file(path):
        replace_file(path, b"old")
    with pytest.raises(TypeError), lock_file(path):
        replace_file(path, "no bytes")
    assert path.read_bytes() == b"old"
    assert sorted(item.name for item in tmp_path.iterdir()) == [".kept.lock", "kept"]


def test_a_lock_that_leads_elsewhere_is_not_followed(tmp_path):
    (tmp_path / ".kept.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), lock_file(tmp_path / "kept"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_stores_of_many_servers_in_one_file_keep_every_token(tmp_path):
    path = tmp_path / "new" / "tokens.json"
    stores = [TokenFile(str(path), f"s{number}") for number in range(8)]
    together = threading.Barrier(len(stores))

    def save(store):
        together.wait(SOON)
        for number in range(5):
            store.save(tokens={"access_token": str(number)})

    threads = [threading.Thread(target=save, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    found = json.loads(path.read_text())
    assert found == {f"s{number}": {"tokens": {"access_token": "4"}} for number in range(8)}


def test_a_store_that_cannot_be_changed_is_an_error_of_the_call(tmp_path):
    path = tmp_path / "tokens.json"
    store = TokenFile(str(path), "a")
    path.write_text("{")
    os.chmod(path, 0o600)
    with pytest.raises(CallError, match="is not one"):
        store.save(tokens={"access_token": "hidden-one"})
    path.unlink()
    path.mkdir()
    with pytest.raises(CallError, match="token store") as raised:
        store.save(tokens={"access_token": "hidden-one"})
    assert "hidden-one" not in str(raised.value)
    assert raised.value.info.hint
    with pytest.raises(ConfigError):
        TokenFile(str(path), "b")  # said when it is configured, not with the first call

"""The manifest: the gate before a script directory, and the only way to open it."""

import fcntl
import json
import os
import signal
import subprocess
import threading

import pytest
from hypothesis import given, strategies as st
from script_folder import Folder, script
from waiting import until
from warm_python import warm_toolyard

from toolyard import ManifestError
from toolyard.sources.scripts import manifest as changes
from toolyard.sources.scripts.manifest import (
    MAX_SCRIPT_BYTES,
    Manifest,
    ScriptDirectory,
    check_name,
    load_allowlist,
    name_problem,
    read_manifest,
    review_directory,
    sha256_of,
)

CORRUPT = ["", "{", "[]", "null", '{"allow": null}', '{"allow": "a.py"}', '{"allow": [1]}', '{"allow": {"a.py": "md5:0"}}', '{"allow": ["a.py"], "allow": []}', "\xff"]  # fmt: skip
NO_SCRIPTS = {
    "../x.py": "path",
    "/etc/x.py": "path",
    "a/b.py": "path",
    "a\\b.py": "path",
    "__init__.py": "package",
    "_manifest.json": "not the name of a script",
    "notes.txt": "not the name of a script",
    ".hidden.py": "not the name of a script",
    ".py": "not the name of a script",
    "a\0b.py": "cannot be shown",
    "a\nb.py": "cannot be shown",
    "\u202efoo.py": "cannot be shown",
    "": "cannot be shown",
    "json.py": "module of Python",
    "JSON.py": "module of Python",
    "os.py": "module of Python",
    "tools.py": "this program",
    "toolyard.py": "this program",
    "x" * 300 + ".py": "longer than",
}


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "tools")


def reviewed(folder):
    with ScriptDirectory(folder.path) as directory:
        return {item.file: item for item in review_directory(directory, read_manifest(directory))}


def read(folder):
    with ScriptDirectory(folder.path) as directory:
        return read_manifest(directory)


@pytest.mark.parametrize("name", NO_SCRIPTS, ids=ascii)
def test_a_name_that_is_no_scripts_is_refused_with_the_reason(name, folder):
    folder.allow("good.py")
    assert NO_SCRIPTS[name] in name_problem(name)
    before = folder.manifest.read_bytes()
    with pytest.raises(ManifestError, match=NO_SCRIPTS[name]):
        changes.append_script(name, folder.path)
    assert folder.manifest.read_bytes() == before
    folder.allow("good.py", name)
    folder.put("good.py", script("good"))
    found = reviewed(folder)
    assert found[name].state == "refused" and NO_SCRIPTS[name] in found[name].reason
    assert found["good.py"].state == "ok"
    assert load_allowlist(folder.path) == {"good.py"}


@pytest.mark.parametrize("name", ["foo.py", "get_weather.py", "a-b.py", "1.py", "wetter_für_heute.py", "_private.py"])
def test_names_of_scripts_are_accepted(name):
    assert check_name(name) == name


@given(st.text())
def test_no_name_that_is_accepted_leads_out_of_the_directory(name):
    if name_problem(name) is None:
        assert os.path.basename(name) == name
        assert os.path.dirname(os.path.normpath(f"/tools/{name}")) == "/tools"


@pytest.mark.parametrize("text", CORRUPT)
def test_a_corrupt_manifest_allows_nothing_and_is_never_overwritten(folder, text, caplog):
    folder.manifest.write_bytes(text.encode("latin-1"))
    folder.put("a.py", script("a"))
    before = folder.manifest.read_bytes()
    assert load_allowlist(folder.path) == set()
    assert "no script is allowed" in caplog.text
    for act in (
        lambda: changes.append_script("new.py", folder.path),
        lambda: changes.disallow_scripts(folder.path, ["a.py"]),
        lambda: changes.create_manifest(folder.path),
    ):
        with pytest.raises(ManifestError):
            act()
        assert folder.manifest.read_bytes() == before


def test_a_missing_manifest_allows_nothing_and_cannot_be_appended_to(folder, caplog):
    assert load_allowlist(folder.path) == set()
    assert f"there is no manifest; `toolyard manifest init {folder.path}` makes one" in caplog.text
    with pytest.raises(FileNotFoundError):
        changes.append_script("a.py", folder.path)
    assert list(folder.path.iterdir()) == []


def test_a_missing_directory_allows_nothing_and_cannot_be_appended_to(tmp_path, caplog):
    assert load_allowlist(tmp_path / "nowhere") == set()
    assert "nowhere" in caplog.text
    with pytest.raises(FileNotFoundError):
        changes.append_script("a.py", tmp_path / "nowhere")


def test_a_manifest_without_an_allow_list_allows_nothing_and_gets_one(folder):
    folder.manifest.write_text('{"note": "kept"}')
    assert load_allowlist(folder.path) == set()
    changes.append_script("a.py", folder.path)
    assert json.loads(folder.manifest.read_text()) == {"note": "kept", "allow": ["a.py"]}


def test_keys_of_others_and_the_order_stay(folder):
    document = {"version": 3, "allow": ["z.py", "a.py"], "owner": {"name": "ops", "n": 12345678901234567890}}
    folder.manifest.write_text(json.dumps(document))
    changes.append_script("m.py", folder.path)
    document["allow"].append("m.py")
    assert json.loads(folder.manifest.read_text()) == document
    assert folder.allowed() == ["z.py", "a.py", "m.py"]


def test_a_file_that_is_allowed_already_is_not_written_again(folder):
    folder.allow("a.py")
    before = folder.manifest.stat().st_ino
    changes.append_script("a.py", folder.path)
    assert folder.manifest.stat().st_ino == before
    assert folder.allowed() == ["a.py"]


def test_the_permissions_of_the_manifest_stay(folder):
    folder.allow("a.py")
    folder.manifest.chmod(0o640)
    changes.append_script("b.py", folder.path)
    assert folder.manifest.stat().st_mode & 0o777 == 0o640


def test_threads_that_append_and_remove_at_once_lose_nothing(folder):
    folder.allow(*(f"old{n}.py" for n in range(8)))

    def work(n):
        changes.append_script(f"new{n}.py", folder.path)
        changes.disallow_scripts(folder.path, [f"old{n}.py"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(folder.allowed()) == sorted(f"new{n}.py" for n in range(8))


@pytest.mark.process
def test_a_writer_killed_at_any_moment_leaves_a_whole_manifest_and_no_lock(folder):
    folder.allow()
    code = (
        "import sys, itertools; from toolyard.scripts import append_tool_manifest as append\n"
        "print('ready', flush=True)\n"
        "for n in itertools.count(): append(f'{sys.argv[2]}_{n}.py', sys.argv[1])"
    )
    before = 0
    for turn in range(4):
        writer = warm_toolyard().start(["-c", code, folder.path, f"w{turn}"], stdout=subprocess.PIPE)
        assert writer.stdout.readline()
        until(lambda least=before + turn: len(folder.allowed()) > least)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        before = len(folder.allowed())
    changes.append_script("last.py", folder.path)
    assert folder.allowed()[-1] == "last.py" and len(folder.allowed()) == before + 1
    assert {path.name for path in folder.path.iterdir()} == {"_manifest.json"}


def test_a_file_may_be_allowed_before_it_is_there(folder):
    folder.allow()
    changes.append_script("later.py", folder.path)
    assert reviewed(folder)["later.py"].state == "missing"
    folder.put("later.py", script("later"))
    assert reviewed(folder)["later.py"].state == "ok"


def test_names_that_differ_only_in_case_are_refused(folder):
    folder.allow("Foo.py", "foo.py", "bar.py")
    for name in folder.allowed():
        folder.put(name, script("x"))
    found = reviewed(folder)
    assert [found[name].state for name in ("Foo.py", "foo.py", "bar.py")] == ["refused", "refused", "ok"]
    assert "foo.py" in found["Foo.py"].reason and "only in case" in found["Foo.py"].reason
    folder.allow("bar.py")
    with pytest.raises(ManifestError, match="only in case"):
        changes.append_script("BAR.py", folder.path)
    with pytest.raises(ManifestError, match="only in case"):
        changes.allow_scripts(folder.path, ["one.py", "ONE.py"])
    assert folder.allowed() == ["bar.py"]


def test_a_link_is_refused_whatever_it_leads_to(folder, tmp_path):
    outside = tmp_path / "evil.py"
    outside.write_text(script("evil"))
    folder.put("target.py", script("target"))
    (folder.path / "out.py").symlink_to(outside)
    (folder.path / "within.py").symlink_to("target.py")
    (folder.path / "dangling.py").symlink_to("nowhere.py")
    folder.allow("out.py", "within.py", "dangling.py", "target.py")
    found = reviewed(folder)
    for name in ("out.py", "within.py", "dangling.py"):
        assert found[name].state == "refused" and "symbolic link" in found[name].reason
        assert found[name].data == b""
    assert found["target.py"].state == "ok"
    with pytest.raises(ManifestError, match="symbolic link"):
        changes.allow_scripts(folder.path, ["out.py"])


def test_pipes_directories_and_devices_are_refused_without_waiting(folder):
    os.mkfifo(folder.path / "pipe.py")
    (folder.path / "directory.py").mkdir()
    folder.allow("pipe.py", "directory.py")
    found = reviewed(folder)
    assert "a pipe" in found["pipe.py"].reason
    assert "a directory" in found["directory.py"].reason
    assert {item.state for item in found.values()} == {"refused"}


def test_a_manifest_that_is_a_link_a_pipe_or_a_directory_allows_nothing(folder, tmp_path):
    elsewhere = tmp_path / "other.json"
    elsewhere.write_text('{"allow": ["a.py"]}')
    for make in (
        lambda: folder.manifest.symlink_to(elsewhere),
        lambda: os.mkfifo(folder.manifest),
        lambda: folder.manifest.mkdir(),
    ):
        make()
        assert load_allowlist(folder.path) == set()
        with pytest.raises(ManifestError):
            changes.append_script("b.py", folder.path)
        if folder.manifest.is_dir() and not folder.manifest.is_symlink():
            folder.manifest.rmdir()
        else:
            folder.manifest.unlink()
    assert elsewhere.read_text() == '{"allow": ["a.py"]}'


def test_what_everybody_may_write_to_is_refused(folder):
    folder.put("a.py", script("a")).chmod(0o646)
    folder.put("b.py", script("b"))
    folder.allow("a.py", "b.py")
    found = reviewed(folder)
    assert found["a.py"].state == "refused" and "it is writable by everyone" in found["a.py"].reason
    assert found["b.py"].state == "ok"
    folder.manifest.chmod(0o666)
    assert load_allowlist(folder.path) == set()
    with pytest.raises(ManifestError, match="it is writable by everyone"):
        changes.append_script("c.py", folder.path)
    folder.manifest.chmod(0o644)
    folder.path.chmod(0o777)
    assert load_allowlist(folder.path) == set()
    with pytest.raises(ManifestError, match="it is writable by everyone"):
        changes.append_script("c.py", folder.path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused_unless_the_directory_is_theirs_too(folder):
    os.chown(folder.put("a.py", script("a")), 12345, 12345)
    folder.allow("a.py")
    found = reviewed(folder)["a.py"]
    assert found.state == "refused" and "belongs to user 12345" in found.reason
    os.chown(folder.path, 12345, 12345)
    assert reviewed(folder)["a.py"].state == "ok"


def test_a_file_with_a_second_name_is_refused_unless_its_hash_is_known(folder, tmp_path):
    path = folder.put("a.py", script("a"))
    os.link(path, tmp_path / "elsewhere.py")
    folder.allow("a.py")
    assert "hard links" in reviewed(folder)["a.py"].reason
    folder.allow(**{"a.py": sha256_of(path.read_bytes())})
    assert reviewed(folder)["a.py"].state == "ok"


def test_a_file_that_is_too_large_is_refused(folder):
    with folder.put("big.py", "").open("wb") as file:
        file.truncate(MAX_SCRIPT_BYTES + 1)
    folder.allow("big.py")
    assert "larger than" in reviewed(folder)["big.py"].reason


def test_the_bytes_that_are_hashed_are_the_bytes_that_are_handed_on(folder):
    path = folder.put("a.py", script("a"))
    folder.allow(**{"a.py": sha256_of(path.read_bytes())})
    found = reviewed(folder)["a.py"]
    path.write_text("raise SystemExit")
    assert found.sha256 == sha256_of(found.data) == found.pinned
    changed = reviewed(folder)["a.py"]
    assert (changed.state, changed.data) == ("changed", b"")
    assert changed.sha256 != changed.pinned


def test_appending_to_a_hashed_manifest_keeps_the_hash_of_what_is_there(folder):
    folder.manifest.write_text('{"allow": {}}')
    path = folder.put("a.py", script("a"))
    changes.append_script("a.py", folder.path)
    changes.append_script("later.py", folder.path)
    assert folder.allowed() == {"a.py": sha256_of(path.read_bytes()), "later.py": None}
    folder.put("later.py", script("later"))
    assert reviewed(folder)["later.py"].state == "unpinned", "nobody has said yet which bytes are meant"
    changes.append_script("later.py", folder.path)
    assert reviewed(folder)["later.py"].state == "ok"


def test_a_manifest_can_be_made_to_keep_hashes(folder):
    for name in ("a.py", "b.py"):
        folder.put(name, script(name))
    (folder.path / "link.py").symlink_to("a.py")
    folder.allow("a.py", "link.py", "gone.py")
    changes.allow_scripts(folder.path, ["b.py"], hashed=True)
    allowed = folder.allowed()
    assert allowed["a.py"].startswith("sha256:") and allowed["b.py"].startswith("sha256:")
    assert allowed["link.py"] is None and allowed["gone.py"] is None


def test_a_first_manifest_lists_what_can_be_loaded_and_says_what_cannot(folder):
    folder.put("a.py", script("a"))
    folder.put("json.py", script("b"))
    folder.put("__init__.py", "")
    folder.put("readme.txt", "")
    (folder.path / "link.py").symlink_to("a.py")
    manifest, refused = changes.create_manifest(folder.path, hashed=True)
    assert list(manifest.allow) == ["a.py"] == list(folder.allowed())
    assert set(refused) == {"json.py", "link.py"}
    with pytest.raises(ManifestError, match="already"):
        changes.create_manifest(folder.path)


def test_removing_a_name_that_is_not_there_names_the_nearest(folder):
    folder.allow("weather.py")
    with pytest.raises(ManifestError, match=r"did you mean weather\.py"):
        changes.disallow_scripts(folder.path, ["wether.py"])


def test_files_that_nobody_allowed_are_named(folder):
    folder.put("stray.py", script("stray"))
    folder.put("__init__.py", "")
    folder.put(".#edited.py", "")
    folder.put("_helper.txt", "")
    folder.allow()
    found = reviewed(folder)
    assert list(found) == ["stray.py"] and found["stray.py"].state == "stray"


NAMES = st.sampled_from([f"t{n}.py" for n in range(6)])


@given(st.lists(st.tuples(st.sampled_from(["append", "remove"]), NAMES), max_size=20), st.booleans())
def test_a_manifest_is_what_its_changes_say(tmp_path_factory, steps, hashed):
    folder = Folder(tmp_path_factory.mktemp("tools"))
    folder.manifest.write_text('{"allow": {}}' if hashed else '{"allow": []}')
    expected = []
    for step, name in steps:
        if step == "append":
            changes.append_script(name, folder.path)
            expected += [name] if name not in expected else []
        elif name in expected:
            changes.disallow_scripts(folder.path, [name])
            expected.remove(name)
        else:
            with pytest.raises(ManifestError):
                changes.disallow_scripts(folder.path, [name])
        assert list(read(folder).allow) == expected
    assert read(folder).hashed is hashed


def test_the_directory_may_be_reached_by_a_link_and_is_held_open(folder, tmp_path):
    folder.put("a.py", script("a"))
    folder.allow("a.py")
    link = tmp_path / "current"
    link.symlink_to(folder.path)
    with ScriptDirectory(link) as directory:
        other = Folder(tmp_path / "other").allow("evil.py")
        other.put("evil.py", script("evil"))
        link.unlink()
        link.symlink_to(other.path)
        assert [item.file for item in review_directory(directory, read_manifest(directory))] == ["a.py"]


def test_a_manifest_reads_back_as_it_was_written(folder):
    for manifest in (Manifest({"a.py": None}), Manifest({"a.py": "sha256:" + "0" * 64, "b.py": None}, True)):
        folder.manifest.write_bytes(manifest.to_json())
        again = read(folder)
        assert (again.allow, again.hashed) == (manifest.allow, manifest.hashed)


def test_a_folder_with_the_name_of_a_leftover_is_in_nobodys_way(folder):
    folder.allow("a.py")
    left = folder.path / f"{changes._TEMPORARY}x"
    left.mkdir()
    (folder.path / f"{changes._TEMPORARY}y").touch()
    changes.append_script("b.py", folder.path)
    assert folder.allowed() == ["a.py", "b.py"]
    assert [path.name for path in folder.path.glob(f"{changes._TEMPORARY}*")] == [left.name]


def test_a_writer_waits_for_another_and_says_so_if_that_takes_too_long(folder, monkeypatch):
    folder.allow("a.py")
    monkeypatch.setattr(changes, "_LOCK_SECONDS", 0.0)
    holder = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(ManifestError, match="another writer has held the manifest"):
            changes.append_script("b.py", folder.path)
    finally:
        os.close(holder)
    changes.append_script("b.py", folder.path)
    assert folder.allowed() == ["a.py", "b.py"]

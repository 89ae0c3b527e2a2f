"""Manifests from the command line: made, changed and checked by people, and by programs with --json."""

import json

import pytest
from script_folder import Folder, script

from toolyard.cli.main import run
from toolyard.sources.scripts.manifest import sha256_of


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path / "tools")
    made.put("a.py", script("a"))
    made.put("b.py", script("b"))
    return made


@pytest.fixture
def told(capsys, folder):
    def told(command, *arguments):
        code = run(["manifest", command, str(folder.path), *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return told


@pytest.fixture
def plain(told):
    def plain(command, *arguments):
        code, out, _ = told(command, *arguments, "--json")
        return code, json.loads(out)

    return plain


def test_init_allows_what_is_there(plain, folder):
    assert plain("init") == (
        0,
        {"manifest": str(folder.manifest), "hashed": False, "allow": {"a.py": None, "b.py": None}, "refused": {}},
    )
    assert folder.allowed() == ["a.py", "b.py"]


def test_init_can_begin_empty_or_keep_hashes(plain, told, folder):
    assert plain("init", "--empty")[1]["allow"] == {}
    folder.manifest.unlink()
    code, made = plain("init", "--hashed")
    assert code == 0 and made["hashed"] is True
    assert folder.allowed()["a.py"] == sha256_of((folder.path / "a.py").read_bytes())
    code, _, err = told("init")
    assert code == 2 and "already" in err


def test_init_says_what_it_refuses_and_exits_1(told, folder):
    (folder.path / "link.py").symlink_to("a.py")
    code, out, _ = told("init")
    assert code == 1
    assert "link.py\t" in out and "symbolic link" in out
    assert "2 files allowed, 1 refused" in out


def test_add_allows_files_and_approves_changed_ones(told, plain, folder):
    plain("init", "--empty", "--hashed")
    assert plain("add", "a.py", "later.py", "--absent")[1]["allow"]["later.py"] is None
    folder.put("a.py", script("a", "changed"))
    assert plain("verify")[0] == 1
    assert plain("add", "a.py")[0] == 0
    folder.put("later.py", script("later"))
    code, out, _ = told("add", "later.py")
    assert code == 0 and "1 file added, 2 files allowed" in out
    assert plain("verify")[0] == 0


def test_add_hashed_alone_pins_what_is_allowed_already(plain, folder):
    folder.allow("a.py", "b.py")
    code, made = plain("add", "--hashed")
    assert code == 0 and made["hashed"] is True
    assert all(pin.startswith("sha256:") for pin in folder.allowed().values())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["add"], "name the files"),
        (["remove"], "name the files"),
        (["add", "../a.py"], "is a path"),
        (["add", "A.py"], "only in case"),
        (["remove", "aa.py"], "did you mean a.py"),
        (["add", "a.py", "aa.py"], "did you mean a.py"),
        (["add", "nope.py"], "--absent"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_says_why_and_changes_nothing(told, folder, arguments, reason):
    folder.allow("a.py", "b.py")
    before = folder.manifest.read_bytes()
    code, out, err = told(*arguments)
    assert code == (1 if arguments[-1] in ("aa.py", "nope.py") else 2) and reason in err and out == ""
    assert folder.manifest.read_bytes() == before


def test_list_shows_what_is_allowed(told, plain, folder):
    folder.allow("a.py", "b.py")
    assert list(plain("list")[1]["allow"]) == ["a.py", "b.py"]
    code, out, _ = told("list")
    assert code == 0 and "a.py" in out and ": 2 files allowed" in out


def test_remove_leaves_the_file_where_it_is(told, plain, folder):
    folder.allow("a.py", "b.py")
    code, out, _ = told("remove", "a.py")
    assert code == 0 and "1 file removed, 1 file allowed" in out
    assert folder.allowed() == ["b.py"] and (folder.path / "a.py").exists()
    assert plain("remove", "b.py")[1]["allow"] == {}


def test_verify_names_every_file_and_what_is_wrong_with_it(told, plain, folder):
    plain("init", "--hashed")
    assert plain("verify") == (0, [entry(folder, "a.py"), entry(folder, "b.py")])
    folder.put("a.py", "raise SystemExit")
    (folder.path / "b.py").unlink()
    code, found = plain("verify")
    assert code == 1
    assert [(item["file"], item["state"]) for item in found] == [("a.py", "changed"), ("b.py", "missing")]
    code, out, _ = told("verify")
    assert code == 1 and "2 files allowed, 2 cannot be loaded" in out


def entry(folder, name):
    sha256 = sha256_of((folder.path / name).read_bytes())
    return {"file": name, "state": "ok", "reason": "", "sha256": sha256, "pinned": sha256}


def test_diff_shows_where_directory_and_manifest_part(told, plain, folder):
    plain("init", "--hashed")
    assert plain("diff") == (0, [])
    folder.put("a.py", "changed = True")
    folder.put("stray.py", script("stray"))
    (folder.path / "b.py").unlink()
    code, found = plain("diff")
    assert code == 1
    assert {item["file"]: item["state"] for item in found} == {
        "a.py": "changed",
        "b.py": "missing",
        "stray.py": "stray",
    }
    code, out, _ = told("diff")
    assert code == 1 and "stray.py\tstray\t" in out and "3 differences" in out


def test_diff_shows_entries_that_are_refused(told, plain, folder):
    plain("init")
    (folder.path / "a.py").chmod(0o666)
    code, found = plain("diff")
    assert code == 1 and [(item["file"], item["state"]) for item in found] == [("a.py", "refused")]
    code, out, _ = told("diff")
    assert code == 1 and "a.py\trefused\t" in out and "1 difference" in out


@pytest.mark.parametrize("command", ["add", "remove", "verify", "diff"])
def test_without_a_manifest_the_commands_say_how_to_make_one(told, command):
    names = ["a.py"] if command in ("add", "remove") else []
    code, _, err = told(command, *names)
    assert code == 2 and "toolyard manifest init" in err


def test_a_corrupt_manifest_is_an_error_in_json_too(told, folder):
    folder.manifest.write_text("{")
    code, out, _ = told("verify", "--json")
    assert code == 2
    assert json.loads(out)["error"]["type"] == "ManifestError"


def test_a_directory_that_is_not_there_is_an_error(capsys, tmp_path):
    assert run(["manifest", "verify", str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err

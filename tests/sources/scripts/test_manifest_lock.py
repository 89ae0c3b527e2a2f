"""The lock of a manifest: a file that somebody else may have put there first."""

import os

import pytest
from script_folder import Folder

from toolyard import ManifestError
from toolyard.sources.scripts import manifest

SOMEBODY = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "tools").allow("a.py")


@pytest.fixture
def lock(folder):
    return folder.path / manifest.LOCK


@needs_root
def test_a_lock_that_is_another_name_of_a_file_elsewhere_is_refused_and_the_file_stays_whose_it_is(
    folder, lock, tmp_path
):
    secret = tmp_path / "secret"
    secret.write_text("s3cr3t")
    os.chown(folder.path, SOMEBODY, SOMEBODY)
    os.chown(folder.manifest, SOMEBODY, SOMEBODY)
    os.link(secret, lock)
    with pytest.raises(ManifestError, match="2 names"):
        manifest.append_script("b.py", folder.path)
    assert secret.stat().st_uid == 0
    assert folder.allowed() == ["a.py"]


@needs_root
def test_only_a_lock_that_was_just_made_is_given_to_who_owns_the_directory(folder, lock):
    os.chown(folder.path, SOMEBODY, SOMEBODY)
    os.chown(folder.manifest, SOMEBODY, SOMEBODY)
    manifest.append_script("b.py", folder.path)
    assert lock.stat().st_uid == SOMEBODY
    os.chown(lock, 0, 0)
    manifest.append_script("c.py", folder.path)
    assert lock.stat().st_uid == 0
    assert folder.allowed() == ["a.py", "b.py", "c.py"]


@needs_root
def test_a_lock_of_somebody_else_is_refused(folder, lock):
    lock.touch(0o600)
    os.chown(lock, SOMEBODY, SOMEBODY)
    with pytest.raises(ManifestError, match=f"belongs to user {SOMEBODY}"):
        manifest.append_script("b.py", folder.path)


@pytest.mark.parametrize(("kind", "words"), [("pipe", "a pipe"), ("link", "symbolic link"), ("folder", "a directory")])
def test_a_lock_that_is_no_regular_file_is_refused(folder, lock, tmp_path, kind, words):
    if kind == "pipe":
        os.mkfifo(lock)
    elif kind == "link":
        lock.symlink_to(tmp_path / "victim")
    else:
        lock.mkdir()
    with pytest.raises(ManifestError, match=words):
        manifest.append_script("b.py", folder.path)
    assert not (tmp_path / "victim").exists()
    assert folder.allowed() == ["a.py"]


def test_a_folder_with_the_name_of_a_leftover_is_in_nobodys_way(folder):
    left = folder.path / f"{manifest._TEMPORARY}x"
    left.mkdir()
    (folder.path / f"{manifest._TEMPORARY}y").touch()
    manifest.append_script("b.py", folder.path)
    assert folder.allowed() == ["a.py", "b.py"]
    assert [path.name for path in folder.path.glob(f"{manifest._TEMPORARY}*")] == [left.name]

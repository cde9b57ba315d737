"""Files are written whole or not at all; paths are checked without failing; refusals come with remedies."""

import codecs
import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from core.base import files
from core.base.errors import TargetError, UserError

not_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="rights to files, for want of a user who isn't root",
)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path, taken = tmp_path / "exit.json", tmp_path / "taken"
    files.write_atomically(path, b"first and long")
    files.write_atomically(path, b"second")
    with pytest.raises(TypeError):
        files.write_atomically(path, "a text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"second"
    taken.mkdir()
    with pytest.raises(OSError, match="taken"):
        files.write_atomically(taken, b"x")
    assert sorted(tmp_path.iterdir()) == [path, taken]
    files.remove(path)
    files.remove(path)
    assert not path.exists()


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own = [Path(tempfile.mkdtemp(prefix=files.temporary_prefix("ranks")))]
    names = ("hone-reading-abc", f"other-{ended.pid}-abc", f"hone-reading-{10**20}-abc")
    own += map(tmp_path.joinpath, names)
    for folder in (f"hone-ranks-{ended.pid}-x", f"hone-sample-{ended.pid}-x", *names):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log").write_text("a rank's")
    (tmp_path / f"hone-reading-{ended.pid}-y").write_text("a place")
    if os.name != "nt":  # links need a right of their own there
        own.append(tmp_path / f"hone-ranks-{ended.pid}-link")
        own[-1].symlink_to(own[2], target_is_directory=True)
        if os.geteuid() == 0:
            own.append(tmp_path / f"hone-ranks-{ended.pid}-z")
            own[-1].mkdir()
            os.chown(own[-1], 12345, 12345)
    files.remove_left_over()
    assert sorted(tmp_path.iterdir()) == sorted(own)
    assert (own[2] / "log").exists()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_file_may_be_read_by_whom_other_new_files_may_be_read(tmp_path):
    before = os.umask(0o022)
    try:
        files.write_atomically(tmp_path / "run.toml", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run.toml").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "content",
    [
        "Größe\n".encode(),
        "Größe\n".encode("utf-8-sig"),
        codecs.BOM_UTF16_LE + "Größe\r\n".encode("utf-16-le"),
    ],
)
def test_texts_of_every_encoding_read_alike(content, tmp_path):
    path = tmp_path / "my.hone"
    path.write_bytes(content)
    assert files.read_text(path) == "Größe\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".", ""),
        ("none.csv", "there is no file or folder at "),
        ("file/model", "there is no file or folder at "),
        ("x" * 5000, "can't be read: "),
        ("a\0b", "is not a valid path"),
    ],
)
def test_a_path_says_why_it_can_not_be_used(name, reason, tmp_path):
    (tmp_path / "file").touch()
    found = files.why_missing(tmp_path / name)
    assert reason in found
    assert (files.is_there(tmp_path / name), bool(found)) == (not reason, bool(reason))


@not_root
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        files.write_atomically(tmp_path / "x", b"")
    tmp_path.chmod(0o600)
    assert "can't be read" in files.why_missing(tmp_path / "data.csv")
    assert not files.is_there(tmp_path / "data.csv")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_files_that_the_system_makes_up_are_not_read():
    """Such as /proc/kmsg, which waits for messages; all of them are ordinary files of no length."""
    assert Path("/proc/self/status").read_bytes()
    assert files.read_small(Path("/proc/self/status")) == b""


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.EACCES, TargetError, "another folder"),
        (errno.EROFS, TargetError, "another folder"),
        (errno.ENOSPC, UserError, "is full"),
        (errno.EIO, UserError, os.strerror(errno.EIO)),
    ],
)
def test_what_the_system_refuses_is_explained_with_its_remedy(tmp_path, number, kind, text):
    target = tmp_path / "x.html"
    with pytest.raises(UserError) as caught, files.writing(target):
        raise OSError(number, os.strerror(number), str(tmp_path / ".x.html.0123"))
    assert type(caught.value) is kind
    for part in ("x.html can't be written", text, str(target)):
        assert part in str(caught.value)
    assert "0123" not in str(caught.value), "the temporary file"

import codecs
import errno
import os
import stat
from pathlib import Path

import pytest

from core.base.errors import TargetError, UserError
from core.base.files import (
    is_there,
    read_small,
    read_text,
    remove,
    why_missing,
    without_tilde,
    write_atomically,
    writing,
)


def test_a_file_is_replaced_whole_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "exit.json"
    write_atomically(path, b"first and long")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "exit.json"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "a text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_taking_away_what_is_not_there_is_fine(tmp_path):
    remove(tmp_path / "none")


@pytest.mark.skipif(
    os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do all"
)
def test_a_folder_one_may_not_write_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        write_atomically(tmp_path / "x", b"")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_file_may_be_read_by_whom_other_new_files_may_be_read(tmp_path):
    before = os.umask(0o022)
    try:
        write_atomically(tmp_path / "run.toml", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run.toml").stat().st_mode) == 0o644


def test_a_rename_that_fails_leaves_nothing_beside(tmp_path):
    taken = tmp_path / "taken"
    taken.mkdir()
    with pytest.raises(OSError, match="taken"):
        write_atomically(taken, b"x")
    assert list(tmp_path.iterdir()) == [taken]


@pytest.mark.parametrize(
    "content",
    [
        "Größe\n".encode(),
        "Größe\n".encode("utf-8-sig"),
        codecs.BOM_UTF16_LE + "Größe\r\n".encode("utf-16-le"),
    ],
)
def test_texts_of_every_kind_read_alike(content, tmp_path):
    path = tmp_path / "my.hone"
    path.write_bytes(content)
    assert read_text(path) == "Größe\n"


def test_what_is_there_has_no_reason_to_be_missing(tmp_path):
    assert is_there(tmp_path)
    assert why_missing(tmp_path) == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none.csv", "there is no file or folder at "),
        ("x" * 5000, "can't be read: "),
        ("a\0b", "is not a valid path"),
    ],
)
def test_a_path_with_nothing_behind_it_says_why(name, reason, tmp_path):
    assert reason in why_missing(tmp_path / name)
    assert not is_there(tmp_path / name)


def test_what_lies_behind_a_file_is_missing(tmp_path):
    (tmp_path / "file").touch()
    assert "there is no model folder at" in why_missing(tmp_path / "file" / "model", "model folder")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do all")
def test_a_folder_one_may_not_enter_is_told(tmp_path):
    tmp_path.chmod(0o600)
    assert "can't be read" in why_missing(tmp_path / "data.csv")
    assert not is_there(tmp_path / "data.csv")


def test_a_tilde_without_such_a_person_is_part_of_the_name():
    assert without_tilde("~nobody-is-called-so.csv") == Path("~nobody-is-called-so.csv")
    assert without_tilde("~/data.csv").is_absolute()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_what_the_system_makes_up_is_not_read():
    """Such as /proc/kmsg, which waits for messages; all of them are ordinary files of no length."""
    assert Path("/proc/self/status").read_bytes()
    assert read_small(Path("/proc/self/status")) == b""


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.EACCES, TargetError, "another folder"),
        (errno.EROFS, TargetError, "another folder"),
        (errno.ENOSPC, UserError, "is full"),
        (errno.EIO, UserError, ""),
    ],
)
def test_what_the_system_refuses_is_told_with_its_remedy(tmp_path, number, kind, said):
    target = tmp_path / "x.html"
    with pytest.raises(UserError) as caught, writing(target):
        raise _refusal(number, tmp_path / ".x.html.0123")
    assert type(caught.value) is kind
    assert (caught.value.title, (said or os.strerror(number)) in str(caught.value)) == (
        "x.html can't be written",
        True,
    )
    assert str(target) in str(caught.value)
    assert "0123" not in str(caught.value)


def _refusal(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))

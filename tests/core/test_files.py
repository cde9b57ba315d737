import os
from pathlib import Path

import pytest

from core.files import remove, write_atomically


def test_a_file_is_replaced_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    write_atomically(path, b"first and long")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "a text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_taking_away_what_is_not_there_is_fine(tmp_path: Path) -> None:
    remove(tmp_path / "none")


@pytest.mark.skipif(
    os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do all"
)
def test_a_folder_one_may_not_write_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        write_atomically(tmp_path / "x", b"")

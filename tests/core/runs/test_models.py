"""Which checkpoints count: all files there in their size, and none that leads elsewhere."""

import json
from pathlib import Path

import pytest

from core.engine.training.checkpoints import seal
from core.runs.folder import RunFolder
from core.runs.models import MARKER, incomplete, is_undamaged, newest, newest_first


def saved(run: RunFolder, step: int, *, sealed: bool = True) -> Path:
    folder = run.checkpoints / f"checkpoint-{step}"
    (folder / "inner").mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    (folder / "inner" / "weights").write_bytes(b"12345")
    if sealed:
        seal(folder)
    return folder


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path / "run")


def test_a_run_without_checkpoints_begins_anew(run):
    assert newest(run) is None


def test_the_newest_is_that_of_the_highest_step_which_is_complete(run):
    saved(run, 9)
    folder = saved(run, 10)
    half = saved(run, 11, sealed=False)
    found = newest(run)
    assert found is not None
    assert (found.step, found.path, found.bytes) == (10, folder, len('{"global_step": 10}') + 5)
    assert [one.step for one in newest_first(run.checkpoints)] == [10, 9]
    assert incomplete(run.checkpoints) == [half]


def test_damage_that_leaves_the_size_is_found_by_the_hash(run):
    folder = saved(run, 1)
    assert is_undamaged(folder)
    (folder / "inner" / "weights").write_bytes(b"12346")
    assert newest(run) is not None
    assert not is_undamaged(folder)


def test_one_without_trainers_state_can_not_be_gone_on_from(run):
    folder = saved(run, 1, sealed=False)
    (folder / "trainer_state.json").unlink()
    seal(folder)
    assert newest(run) is None


@pytest.mark.parametrize(
    "name",
    ["../checkpoint-1/inner/weights", "inner/../inner/weights", "C:weights", "inner\\weights", "", "."],
)
def test_a_name_that_leads_out_makes_it_none(name, run):
    folder = saved(run, 1)
    _list_also(folder, name)
    assert newest(run) is None


def test_an_absolute_name_and_a_link_make_it_none(run, tmp_path):
    elsewhere = tmp_path / "weights"
    elsewhere.write_bytes(b"12345")
    folder = saved(run, 1)
    _list_also(folder, str(elsewhere))
    assert newest(run) is None
    other = saved(run, 2)
    (other / "linked").symlink_to(elsewhere)
    _list_also(other, "linked")
    assert newest(run) is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"a": 1}', b"\xff", b"[" * 100_000])
def test_a_marker_that_says_nothing(content, run):
    folder = saved(run, 1)
    (folder / MARKER).write_bytes(content)
    assert newest(run) is None


def _list_also(folder: Path, name: str) -> None:
    listed = json.loads((folder / MARKER).read_text())
    listed[name] = listed["inner/weights"]
    (folder / MARKER).write_text(json.dumps(listed))

"""The self-test from the source: its samples, what it holds against the engine's output, and two quick checks."""

import os
import sys

import msgspec
import pytest
from PIL import Image

from core.reports import JobProgress, MachineReport
from core.selftest import samples
from core.selftest.asking import judged
from core.selftest.checking import Failed
from core.selftest.command import ENGINE_CHECKS, all_checks, main, own_home
from core.selftest.untouched import Untouched, own_folders
from tests.fakes.command import hone

PROGRESS = msgspec.json.encode(JobProgress(done=1, total=2)) + b"\n"
ANSWER = msgspec.json.encode(MachineReport(devices=(), automatic="cpu")) + b"\n"


def test_two_quick_checks_of_the_real_engine(tmp_path):
    done = hone("--selftest", "--keep", str(tmp_path), "read-csv", "untouched")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "read-csv: 24 samples read as CSV" in done.stdout
    assert "All 2 checks passed" in done.stdout
    assert (tmp_path / "data" / "reviews.csv").is_file()


def test_an_unknown_check_is_a_wrong_request(capsys):
    assert main(["no-such"]) == 2
    assert "no-such" in capsys.readouterr().err


def test_every_check_has_a_name_of_its_own_and_needs_only_earlier_ones():
    names = [check.name for check in all_checks(Untouched([]))]
    assert len(set(names)) == len(names)
    assert all(names.index(need) < names.index(check.name) for check in ENGINE_CHECKS for need in check.needs)


def test_images_are_real_and_classes_differ(tmp_path):
    place = samples.write_class_folders(tmp_path)
    pictures = [Image.open(next((place / label).glob("*.png"))) for label in samples.LABELS]
    assert {picture.size for picture in pictures} == {(samples.SIDE, samples.SIDE)}
    assert pictures[0].tobytes() != pictures[1].tobytes()


def test_an_answer_is_found_behind_progress():
    assert judged("devices", [PROGRESS, ANSWER], MachineReport).automatic == "cpu"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([b"{'loss': 0.5}\n", ANSWER], "no protocol"),
        ([ANSWER, b"Done!\n"], "no protocol"),
        ([PROGRESS], "can't be read"),
        ([], "can't be read"),
    ],
)
def test_anything_else_on_standard_output_is_found_out(lines, words):
    with pytest.raises(Failed, match=words):
        judged("devices", lines, MachineReport)


def test_what_comes_goes_or_changes_in_the_programs_folder_is_named(tmp_path):
    for name in ("kept", "changed", "gone"):
        (tmp_path / name).write_text(name)
    untouched = Untouched([tmp_path])
    assert "3 files" in untouched.check(tmp_path)
    (tmp_path / "changed").write_text("otherwise")
    (tmp_path / "gone").unlink()
    (tmp_path / "come").touch()
    with pytest.raises(Failed, match=r"^3 files changed: \S+changed, \S+come, \S+gone$"):
        untouched.check(tmp_path)


def test_a_bundles_own_folder_is_the_whole_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    program = tmp_path / "Hone.app" / "Contents" / "MacOS" / "hone"
    monkeypatch.setattr(sys, "executable", str(program))
    assert own_folders() == [tmp_path / "Hone.app"]
    monkeypatch.setattr(sys, "executable", str(tmp_path / "hone" / "hone"))
    assert own_folders() == [tmp_path / "hone"]


def test_a_self_test_leaves_home_and_variables_as_they_were(monkeypatch):
    monkeypatch.setenv("HONE_HOME", "/somewhere")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with own_home(None) as folder:
        assert os.environ["HONE_HOME"] == str(folder / "home")
        assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ["HONE_HOME"] == "/somewhere"
    assert "HF_HUB_OFFLINE" not in os.environ
    assert not folder.exists()

import pytest

from core.run_summary import summarize
from core.runs import read_story
from core.story import State
from gui.pages.new_run_header import DIGITS
from gui.screenshot_runs import TOTAL_STEPS, InventedJob, make_run
from gui.screenshots import main
from tests.fakes.asking import FakeJob


def test_the_invented_runs_read_as_real_ones(tmp_path):
    finished = make_run(tmp_path / "done", DIGITS, TOTAL_STEPS)
    live = make_run(tmp_path / "live", DIGITS, 60)
    assert summarize(finished).state is State.FINISHED
    assert summarize(live).state is State.TRAINING
    assert read_story(live).step == 60


@pytest.mark.parametrize("arguments", [[], ["--help"], ["one", "two"]])
def test_a_folder_has_to_be_named(capsys, arguments):
    assert main(arguments) == 2
    assert "FOLDER" in capsys.readouterr().err
    assert {"ask", "kill"} <= set(dir(InventedJob)) & set(dir(FakeJob))

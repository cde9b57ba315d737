"""`hone new --preset`: a run file that begins with what a preset sets."""

from pathlib import Path

import pytest

from core.cli.main import main
from core.options import run_file
from core.options.choices import Task
from core.options.validate import read_options


def test_a_preset_says_what_is_learned(tmp_path: Path) -> None:
    path = tmp_path / "guide.hone"
    assert main(["new", "--preset", "published-guide", "-o", str(path)]) == 0
    options, problems = read_options(run_file.read_tree(path))
    assert options is not None, problems
    assert options.task is Task.TEXT_CLASSIFICATION
    assert options.data.padding == "fixed"


def test_a_preset_for_any_task(tmp_path: Path) -> None:
    path = tmp_path / "small.hone"
    assert main(["new", "--task", "token-classification", "--preset", "fits-in-8-gb", "-o", str(path)]) == 0
    options, problems = read_options(run_file.read_tree(path))
    assert options is not None, problems
    assert (options.task, options.memory.batch_size) == (Task.TOKEN_CLASSIFICATION, 2)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--preset", "slowest"], "there is no slowest; there are fits-in-8-gb"),
        (
            ["--preset", "published-guide", "--task", "chat"],
            "published-guide is for text-classification, got chat",
        ),
        (["--preset", "fastest"], "say which one with --task"),
        ([], "say which one with --task"),
    ],
)
def test_one_that_does_not_fit_is_refused(
    asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", *asked]) == 2
    assert said in capsys.readouterr().err

"""Which run is meant by what the command line is given."""

from pathlib import Path

import pytest

from core.base.errors import OptionsError
from core.cli.runs import find_run


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for folder, name in (("2026-01-01-sea", "my sea"), ("2026-02-02-a", "twice"), ("2026-03-03-b", "twice")):
        (tmp_path / "runs" / folder).mkdir(parents=True)
        (tmp_path / "runs" / folder / "run.toml").write_text(f'task = "chat"\n[output]\nname = "{name}"\n')
    return tmp_path / "runs"


def refusal(name: str) -> str:
    with pytest.raises(OptionsError) as caught:
        find_run(name)
    return caught.value.detail


def test_by_folder_path_and_given_name(runs: Path) -> None:
    for name in ("2026-01-01-sea", str(runs / "2026-01-01-sea"), "my sea"):
        assert find_run(name).path == runs / "2026-01-01-sea"


def test_a_name_that_is_not_there(runs: Path) -> None:
    assert refusal("my see") == "there is no run my see; did you mean 2026-01-01-sea?"
    assert refusal("zzzzzz") == "there is no run zzzzzz; `hone runs` lists them"
    assert refusal("") == "name a run; `hone runs` lists them"


def test_a_folder_that_is_no_run_is_said_to_be_none(runs: Path) -> None:
    (runs.parent / "empty").mkdir()
    (runs / "hollow").mkdir()
    assert refusal("empty").startswith(f"{runs.parent / 'empty'} is no run: there is neither run.toml")
    assert refusal("hollow").startswith(f"{runs / 'hollow'} is no run")


def test_a_name_that_two_have(runs: Path) -> None:
    assert refusal("twice") == "several runs are called twice; name one of 2026-03-03-b, 2026-02-02-a"


def test_a_changed_name_counts_and_a_damaged_file_does_not(runs: Path) -> None:
    (runs / "2026-03-03-b" / "run.toml").write_text("[output\n")
    assert find_run("twice").path == runs / "2026-02-02-a"

from pathlib import Path

import msgspec
import pytest

from core.base.errors import OptionsError
from core.cli.runs import find_run
from core.options import RunOptions, past_runs
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.past_runs import RunNotes, asked_title, read, retagged, tags_in, title_of, write
from core.options.sections import ModelOptions
from core.runs.folder import RunFolder
from core.runs.queue import LiveRuns
from core.runs.summary import summarize
from tests.fakes.run_stories import keep_alive
from tests.fakes.runs import digits_options, new_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    return new_run(tmp_path / "runs")


SAID = RunNotes(title="The long one", tags=("night", "lr"), text="Slower, and\nno better.")


def test_what_was_written_is_read_and_told_wherever_the_run_is_named(run: RunFolder) -> None:
    write(run.path, SAID)
    assert read(run.path) == SAID
    summary = summarize(run)
    assert (summary.title, summary.tags, summary.note) == (SAID.title, SAID.tags, SAID.text)
    assert find_run("The long one") == run
    keep_alive(run)
    live = LiveRuns()
    live.follow(run)
    assert live.live[0].title == SAID.title
    write(run.path, msgspec.structs.replace(SAID, title="Renamed while it trains"))
    live.look(run.path.parent)
    assert live.live[0].title == "Renamed while it trains"


def test_without_another_name_a_run_goes_by_its_own(run: RunFolder) -> None:
    write(run.path, msgspec.structs.replace(SAID, title=""))
    assert title_of(run.path, digits_options("Digits")) == "Digits"
    assert title_of(run.path, digits_options(None)) == "resnet18 on digits"
    assert title_of(run.path, None) == run.name


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\x00\xff", b"[]", b'{"tags": 3}', b'{"title": null}', b'{"title": "\xff"}'),
        b" " * (past_runs.LARGEST_FILE + 1),
    ],
)
def test_a_damaged_file_says_nothing(run: RunFolder, content: bytes) -> None:
    (run.path / "notes.json").write_bytes(content)
    assert read(run.path) == RunNotes()
    write(run.path, SAID)
    assert read(run.path) == SAID


def test_no_more_of_a_strangers_file_is_shown_than_the_limits_allow(run: RunFolder) -> None:
    wild = RunNotes(title="a\nb" * 500, tags=("x y", *(f"t{n}" * 40 for n in range(90))), text="z" * 30_000)
    (run.path / "notes.json").write_bytes(msgspec.json.encode(wild))
    found = read(run.path)
    assert "\n" not in found.title
    assert len(found.title) <= past_runs.LONGEST_TITLE
    assert len(found.tags) <= past_runs.MOST_TAGS
    assert found.tags[0] == "x-y"
    assert max(map(len, found.tags)) <= past_runs.LONGEST_TAG
    assert len(found.text) == past_runs.LONGEST_NOTE


def test_a_run_from_another_one_is_named_after_what_that_is_called(run: RunFolder, tmp_path: Path) -> None:
    def asked(source: str) -> str:
        return asked_title(
            RunOptions(
                task=Task.CHAT, model=ModelOptions(source=source), data=DataOptions(train="/d/chat.jsonl")
            )
        )

    past = tmp_path / "2026-11-21-2344-llama-small-on-text"
    past.mkdir()
    (past / "run.toml").write_text('[model]\nsource = "scratch:llama-small"\n[data]\ntrain = "/d/text.txt"\n')
    assert asked(f"run:{past}") == "llama-small on text on chat"
    write(past, RunNotes(title="Sea"))
    assert asked(f"run:{past}") == "Sea on chat"
    (past / "notes.json").unlink()
    (past / "run.toml").write_text(f'[model]\nsource = "run:{past}"\n[data]\ntrain = "/d/text.txt"\n')
    assert asked(f"run:{past}").count(" on text") == past_runs.MOST_GENERATIONS, (
        "a stranger's may name itself"
    )
    (past / "run.toml").unlink()
    assert asked(f"run:{past}") == f"{past.name} on chat"


@pytest.mark.parametrize(
    "notes",
    [
        RunNotes(title="x" * 121),
        RunNotes(tags=("x" * 33,)),
        RunNotes(tags=("two words",)),
        RunNotes(tags=tuple(map(str, range(17)))),
        RunNotes(text="x" * 20_001),
    ],
)
def test_what_is_too_long_is_refused_and_nothing_changes(run: RunFolder, notes: RunNotes) -> None:
    write(run.path, SAID)
    with pytest.raises(OptionsError):
        write(run.path, notes)
    assert read(run.path) == SAID


def test_tags_are_parted_by_spaces_and_commas_and_each_is_there_once() -> None:
    assert tags_in("#night, lr  Night,,") == ("night", "lr")
    assert retagged(SAID, ["New", "LR"], ["NIGHT"]).tags == ("lr", "New")

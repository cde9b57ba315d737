"""`hone try`: what is printed, what is refused, and when it waits."""

from pathlib import Path

import pytest

from core.cli import models, runs
from core.cli.main import main
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.services.chat import Ask, Chat, Image, Load, Texts, TryProcess, Which, Writing
from tests.fakes.try_process import command


class Started:
    """Starts the fake process, and keeps what it was told."""

    def __init__(self) -> None:
        self.loads: list[Load] = []
        self.asked: list[Ask] = []

    def __call__(self, load: Load) -> TryProcess:
        started = self
        self.loads.append(load)

        class Listening(TryProcess):
            def say(self, said: object) -> None:
                started.asked += [said] if isinstance(said, Ask) else []
                super().say(said)  # type: ignore[arg-type]

        return Listening(load, command())


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    started = Started()
    monkeypatch.setattr(models, "TryProcess", started)
    return started


def made(folder: Path, task: Task = Task.CHAT) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    options = RunOptions(task=task, model=ModelOptions(source="a/b"), data=DataOptions(train="c.csv"))
    run_file.write(options, folder / "run.toml")
    return str(folder)


def test_an_answer_is_printed_and_what_it_took_told_apart(
    tmp_path: Path, started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--prompt", "Hello", "--system", "Be kind", "--seed", "7", "--stop", "END", "--before")
    assert main(["try", made(tmp_path / "one"), *asked]) == 0
    said = capsys.readouterr()
    assert said.out == "Answer 1 of resnet18, drawn with 7.\n"
    assert "resnet18: 5 tokens in 0.50 s (10 a second), cpu, fp32" in said.err
    assert started.loads == [Load(run=str(tmp_path / "one"), which=Which.BEFORE)]
    [question] = started.asked
    assert isinstance(question.given, Chat)
    assert question.given.system == "Be kind"
    assert question.writing == Writing(seed=7, stop_at=("END",))


def test_lines_that_are_typed_are_one_conversation(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["Hello", " ", "And then?"])

    def typed(_prompt: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["try", made(tmp_path / "one")]) == 0
    assert "Answer 2 of" in capsys.readouterr().out
    last = started.asked[-1].given
    assert isinstance(last, Chat)
    assert [turn.text for turn in last.turns][::2] == ["Hello", "And then?"]
    assert last.turns[1].text.startswith("Answer 1")


def test_labels_are_printed_with_their_chances(
    tmp_path: Path, started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path / "one", Task.TEXT_CLASSIFICATION)
    assert main(["try", folder, "--prompt", "a", "--prompt", "b"]) == 0
    assert capsys.readouterr().out == "  90.0%  yes\n  10.0%  no\n"
    assert started.asked[0].given == Texts(texts=("a", "b"))
    image = tmp_path / "a.png"
    image.touch()
    assert main(["try", made(tmp_path / "two", Task.IMAGE_CLASSIFICATION), "--file", str(image)]) == 0
    assert started.asked[1].given == Image(path=str(image))
    assert "seven" in capsys.readouterr().out


REFUSED = {
    "reads texts": (Task.CHAT, "--file", "a.png"),
    "reads images": (Task.IMAGE_CLASSIFICATION, "--prompt", "a"),
    "there is no file": (Task.IMAGE_CLASSIFICATION, "--file", "nowhere.png"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_the_model_doesn_t_read_is_refused(
    tmp_path: Path, started: Started, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    task, *arguments = REFUSED[why]
    assert main(["try", made(tmp_path / "one", task), *arguments]) == 2
    assert why in capsys.readouterr().err
    assert started.loads == []


def test_it_waits_while_a_run_trains(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path / "one")
    monkeypatch.setattr(models, "that_train", lambda _folder: (runs.find_run(folder),))
    assert main(["try", folder, "--prompt", "Hello"]) == 1
    assert "b on c is training" in capsys.readouterr().err
    assert started.loads == []
    assert main(["try", folder, "--prompt", "Hello", "--cpu"]) == 0
    assert started.loads[0].on_cpu


def test_a_question_that_can_t_be_answered(
    tmp_path: Path, started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path / "one", Task.TEXT_CLASSIFICATION)
    assert main(["try", folder, "--prompt", "refuse"]) == 1
    assert "Nothing to read" in capsys.readouterr().err

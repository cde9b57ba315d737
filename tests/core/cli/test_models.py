"""`hone try`, `hone export` and `hone hub`."""

import io
import json

import msgspec
import pytest

from core.base import settings
from core.base.jobs import JobProgress
from core.cli import models, runs
from core.cli.main import main
from core.cli.output import JobOutput
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.services.chat import Ask, Chat, Image, Load, Texts, TryProcess, Which, Writing
from core.services.export import Agreement, Compared, ExportKind, ExportReport, Wanted
from core.services.hub import Pace
from tests.fakes.hub import a_hub
from tests.fakes.machines import FakeClock
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
def started(monkeypatch):
    started = Started()
    monkeypatch.setattr(models, "TryProcess", started)
    return started


def made(folder, task=Task.CHAT, **data):
    folder.mkdir(parents=True, exist_ok=True)
    options = RunOptions(task=task, model=ModelOptions(source="a/b"), data=DataOptions(train="c.csv", **data))
    run_file.write(options, folder / "run.toml")
    return str(folder)


def test_an_answer_is_printed_and_what_it_took_told_apart(tmp_path, started, capsys):
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


def test_lines_that_are_typed_are_one_conversation(tmp_path, started, monkeypatch, capsys):
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


def test_labels_are_printed_with_their_chances(tmp_path, started, capsys):
    folder = made(tmp_path / "one", Task.TEXT_CLASSIFICATION)
    assert main(["try", folder, "--prompt", "a", "--prompt", "b"]) == 0
    assert capsys.readouterr().out == "  90.0%  yes\n  10.0%  no\n"
    assert started.asked[0].given == Texts(texts=("a", "b"))
    image = tmp_path / "a.png"
    image.touch()
    assert main(["try", made(tmp_path / "two", Task.IMAGE_CLASSIFICATION), "--file", str(image)]) == 0
    assert started.asked[1].given == Image(path=str(image))
    assert "seven" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reason", "task", "arguments"),
    [
        ("reads texts", Task.CHAT, ["--file", "a.png"]),
        ("reads images", Task.IMAGE_CLASSIFICATION, ["--prompt", "a"]),
        ("there is no file", Task.IMAGE_CLASSIFICATION, ["--file", "nowhere.png"]),
        ("reads pairs of texts", Task.TEXT_CLASSIFICATION, ["--prompt", "a"]),
    ],
)
def test_what_the_model_does_not_read_is_refused(reason, task, arguments, tmp_path, started, capsys):  # noqa: PLR0917
    folder = made(tmp_path / "one", task, text_columns=("a", "b") if "pairs" in reason else ())
    assert main(["try", folder, *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert started.loads == []


def test_it_waits_while_a_run_trains(tmp_path, started, monkeypatch, capsys):
    folder = made(tmp_path / "one")
    monkeypatch.setattr("core.services.chat.that_train", lambda _folder: (runs.find_run(folder),))
    assert main(["try", folder, "--prompt", "Hello"]) == 1
    assert "b on c is training" in capsys.readouterr().err
    assert started.loads == []
    assert main(["try", folder, "--prompt", "Hello", "--cpu"]) == 0
    assert started.loads[0].on_cpu


def test_a_question_that_can_t_be_answered(tmp_path, started, capsys):
    folder = made(tmp_path / "one", Task.TEXT_CLASSIFICATION)
    assert main(["try", folder, "--prompt", "refuse"]) == 1
    assert "Nothing to read" in capsys.readouterr().err


AGREEMENT = Agreement(
    examples=16,
    held_out=4,
    compared=Compared.TOKENS,
    equal=383,
    counted=384,
    largest=0.0123,
    allowed=0.05,
    why="Rounded.",
    holds=True,
)


class Answering:
    """An export that says twice what it does and comes to this report."""

    def __init__(self, report: ExportReport) -> None:
        self.report = report

    def __call__(self, wanted: Wanted) -> "Answering":
        self.wanted = wanted
        return self

    def run(self, tell) -> ExportReport:
        for _ in range(2):
            tell(JobProgress(done=1, total=6, what="Writing the model"))
        return self.report


def report(**more) -> ExportReport:
    return ExportReport(
        **{"kind": ExportKind.FOLDER, "path": "/there", "files": ("a", "b"), "size": 5 << 20, **more}
    )


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """Runs `hone export` with an export that comes to this report."""
    run_file.write(RunOptions(task=Task.CHAT, model=ModelOptions(source="some/model")), tmp_path / "run.toml")

    def export(report: ExportReport, *more: str) -> int:
        monkeypatch.setattr(models, "Export", Answering(report))
        return main(["export", str(tmp_path), "--to", "folder", "--folder", "/there", *more])

    return export


def test_it_tells_what_came_of_it(exported, capsys):
    assert exported(report(agreement=AGREEMENT, notes=("Next.",))) == 0
    said = capsys.readouterr()
    assert said.err.count("Writing the model") == 1
    assert said.out.splitlines() == [
        "Model folder: 2 files, 5.0 MB, in /there",
        "Checked against the trained model: 383 of 384 next tokens are the same, on 16 examples, 4 of them from the "
        "validation split, the others random. The largest difference of logits is 0.012, 0.05 is allowed.",
        "Rounded.",
        "Next.",
    ]


def test_what_is_missing_ends_with_one(exported, capsys):
    found = report(
        kind=ExportKind.GGUF, unchecked="Not checked: why.", missing="No converter.", notes=("Then run: it",)
    )
    assert exported(found) == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["Not checked: why.", "No converter.", "Then run: it"]


def test_metrics_are_csv_or_parquet(exported, tmp_path, capsys):
    exported(report())
    assert main(["export", str(tmp_path), "--metrics", str(tmp_path / "a.xyz")]) == 2
    assert ".csv or .parquet; got a.xyz" in capsys.readouterr().err
    assert not (tmp_path / "a.xyz").exists()


def test_json(exported, capsys):
    assert exported(report(agreement=AGREEMENT), "--json") == 0
    said = capsys.readouterr()
    assert not said.err
    assert msgspec.json.decode(said.out, type=ExportReport).agreement == AGREEMENT


def test_without_a_kind_it_lists_them(tmp_path, capsys):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").touch()
    options = RunOptions(task=Task.CHAT, model=ModelOptions(source="some/model"))
    run_file.write(options, tmp_path / "run.toml")
    assert main(["export", str(tmp_path)]) == 0
    lines = capsys.readouterr().out
    assert "gguf     GGUF." in lines
    assert "Not for this run: This run trained no LoRA adapter" in lines
    assert main(["export", str(tmp_path), "--json"]) == 0
    assert {one["kind"] for one in json.loads(capsys.readouterr().out)} == set(ExportKind)
    assert main(["export", str(tmp_path), "--to", "adapter", "--folder", str(tmp_path / "out")]) == 1
    assert "no LoRA adapter" in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--to", "folder", "--folder", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with a_hub(tmp_path, monkeypatch) as serving:
        yield serving


def test_found_downloaded_listed_and_removed(hub, capsys, tmp_path):
    assert main(["hub", "tiny", "--task", "text-classification"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:2] == ["MODEL", "SIZE"]
    assert table[1].split()[:6] == ["org/tiny", "3.9", "KB", "1,010", "500", "7"]
    assert main(["hub", "--download", "org/tiny"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("3 files, 1.0 MB, in ")
    assert "1.0 MB of 1.0 MB" in told.err
    assert main(["hub", "--list", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [repo["id"] for repo in report["repos"]] == ["org/tiny"]
    assert main(["hub", "--remove", "org/tiny", "--yes"]) == 0
    assert capsys.readouterr().out == "1.0 MB freed\n"
    assert not list((tmp_path / "hub").glob("models--*"))


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [(["--remove", "org/tiny"], 2, "--yes"), (["zebra"], 1, "has “zebra” in its name")],
)
def test_hub_refusals(arguments, status, message, hub, capsys):
    assert main(["hub", *arguments]) == status
    assert message in capsys.readouterr().err


def test_work_offline_forbids_it(hub):
    settings.save(settings.Settings(offline=True))
    assert main(["hub", "tiny"]) == 1
    assert hub.asked == []


def test_whose_token_it_is(hub, capsys, monkeypatch):
    hub.people["hf_good_token"] = "ada"
    monkeypatch.setenv("HF_TOKEN", "hf_good_token")
    assert main(["hub", "--account"]) == 0
    assert capsys.readouterr().out == "ada, by the token in HF_TOKEN\n"


def test_a_token_that_can_t_be_kept_is_not_printed(hub, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("hf_Secret42\n"))
    assert main(["hub", "--sign-in"]) == 1
    told = capsys.readouterr()
    assert "no keychain" in told.err
    assert "hf_Secret42" not in told.out + told.err


def test_a_download_without_a_terminal_prints_a_line_every_tenth(capsys):
    output = JobOutput(is_download=True)
    for done in range(0, 1001, 10):
        output.show(JobProgress(done=done << 20, total=1000 << 20))
    assert len(capsys.readouterr().err.splitlines()) == 11


def test_the_pace_is_that_of_the_last_seconds():
    clock = FakeClock()
    pace = Pace(clock.monotonic)
    assert pace.speed is None
    for second, done in enumerate((0, 100, 200, 300, 400, 500, 600, 5_600, 10_600, 15_600, 20_600, 25_600)):
        clock.now = float(second)
        pace.add(JobProgress(done=done, total=50_600))
    assert pace.speed == 5000
    assert pace.left(JobProgress(done=25_600, total=50_600)) == 5

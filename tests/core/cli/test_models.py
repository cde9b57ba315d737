"""`hone try`, `hone export` and `hone hub`."""

import io
import json

import msgspec
import pytest

from core.base.errors import UserError
from core.base.jobs import JobProgress
from core.cli import models, runs
from core.cli.main import main
from core.cli.output import JobOutput
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.services.chat import Ask, Chat, Image, Load, Texts, TryProcess, Which, Writing
from core.services.export import Agreement, Compared, ExportKind, ExportReport
from core.services.hub import (
    Account,
    AccountRequest,
    Cached,
    CacheReport,
    Downloaded,
    DownloadRequest,
    Found,
    Kind,
    Pace,
    Removed,
    RemoveRequest,
    SearchAnswer,
    SearchRequest,
    TokenPlace,
)
from tests.fakes.machines import FakeClock
from tests.fakes.try_process import command


def run_folder(folder, task=Task.CHAT, **data):
    folder.mkdir(parents=True, exist_ok=True)
    options = RunOptions(task=task, model=ModelOptions(source="a/b"), data=DataOptions(train="c.csv", **data))
    run_file.write(options, folder / "run.toml")
    return str(folder)


# --- hone try


class Recorder(TryProcess):
    """The fake process; `loads` and `asked` are what it was sent."""

    loads: list[Load] = []
    asked: list[Ask] = []

    def __init__(self, load: Load) -> None:
        self.loads.append(load)
        super().__init__(load, command())

    def say(self, said: object) -> None:
        if isinstance(said, Ask):
            self.asked.append(said)
        super().say(said)


@pytest.fixture
def process(monkeypatch):
    monkeypatch.setattr(models, "TryProcess", Recorder)
    for name in ("loads", "asked"):
        monkeypatch.setattr(Recorder, name, [])
    return Recorder


def test_an_answer_is_printed_and_its_time_to_standard_error(tmp_path, process, capsys):
    asked = ("--prompt", "Hello", "--system", "Be kind", "--seed", "7", "--stop", "END", "--before")
    assert main(["try", run_folder(tmp_path), *asked]) == 0
    out, err = capsys.readouterr()
    assert out == "Answer 1 of resnet18, drawn with 7.\n"
    assert "resnet18: 5 tokens in 0.50 s (10 a second), cpu, fp32" in err
    assert process.loads == [Load(run=str(tmp_path), which=Which.BEFORE)]
    [question] = process.asked
    assert question.given.system == "Be kind"
    assert question.writing == Writing(seed=7, stop_at=("END",))


def test_lines_that_are_typed_are_one_conversation(tmp_path, process, monkeypatch, capsys):
    typed = iter(["Hello", " ", "And then?"])

    def read_line(_prompt):
        line = next(typed, None)
        if line is None:
            raise EOFError
        return line

    monkeypatch.setattr("builtins.input", read_line)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["try", run_folder(tmp_path)]) == 0
    assert "Answer 2 of" in capsys.readouterr().out
    last = process.asked[-1].given
    assert isinstance(last, Chat)
    assert [turn.text for turn in last.turns][::2] == ["Hello", "And then?"]
    assert last.turns[1].text.startswith("Answer 1")


def test_labels_of_texts_and_images_are_printed_with_their_chances(tmp_path, process, capsys):
    texts = run_folder(tmp_path / "one", Task.TEXT_CLASSIFICATION)
    assert main(["try", texts, "--prompt", "a", "--prompt", "b"]) == 0
    assert capsys.readouterr().out == "  90.0%  yes\n  10.0%  no\n"
    (image := tmp_path / "a.png").touch()
    assert main(["try", run_folder(tmp_path / "two", Task.IMAGE_CLASSIFICATION), "--file", str(image)]) == 0
    assert "seven" in capsys.readouterr().out
    assert [ask.given for ask in process.asked] == [Texts(texts=("a", "b")), Image(path=str(image))]
    assert main(["try", texts, "--prompt", "refuse"]) == 1
    assert "Nothing to read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reason", "task", "arguments"),
    [
        ("reads texts", Task.CHAT, ["--file", "a.png"]),
        ("reads images", Task.IMAGE_CLASSIFICATION, ["--prompt", "a"]),
        ("there is no file", Task.IMAGE_CLASSIFICATION, ["--file", "nowhere.png"]),
        ("reads pairs of texts", Task.TEXT_CLASSIFICATION, ["--prompt", "a"]),
    ],
)
@pytest.mark.usefixtures("process")
def test_what_the_model_does_not_read_is_refused(reason, task, arguments, tmp_path, capsys):
    folder = run_folder(tmp_path, task, text_columns=("a", "b") if "pairs" in reason else ())
    assert main(["try", folder, *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert Recorder.loads == []


def test_it_waits_while_a_run_trains(tmp_path, process, monkeypatch, capsys):
    folder = run_folder(tmp_path)
    monkeypatch.setattr("core.services.chat.that_train", lambda _folder: (runs.find_run(folder),))
    assert main(["try", folder, "--prompt", "Hello"]) == 1
    assert "b on c is training" in capsys.readouterr().err
    assert process.loads == []
    assert main(["try", folder, "--prompt", "Hello", "--cpu"]) == 0
    assert process.loads[0].on_cpu


# --- hone export

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


@pytest.fixture
def export(tmp_path, monkeypatch):
    """Runs `hone export --to folder` with an export that results in a report of these fields."""
    folder = run_folder(tmp_path)

    class FakeExport:
        def __init__(self, _wanted):
            pass

        def run(self, on_progress):
            for _ in range(2):
                on_progress(JobProgress(done=1, total=6, what="Writing the model"))
            return report

    def run(*arguments, **fields):
        nonlocal report
        fields = {"kind": ExportKind.FOLDER, "path": "/there", "files": ("a", "b"), "size": 5 << 20, **fields}
        report = ExportReport(**fields)
        return main(["export", folder, "--to", "folder", "--folder", "/there", *arguments])

    report = None
    monkeypatch.setattr(models, "Export", FakeExport)
    return run


def test_the_result_of_an_export_is_printed(export, capsys):
    assert export(agreement=AGREEMENT, notes=("Next.",)) == 0
    out, err = capsys.readouterr()
    assert err.count("Writing the model") == 1
    first, checked, *rest = out.splitlines()
    assert first == "Model folder: 2 files, 5.0 MB, in /there"
    assert checked.startswith("Checked against the trained model: 383 of 384 next tokens are the same")
    assert rest == ["Rounded.", "Next."]
    assert export("--json", agreement=AGREEMENT) == 0
    out, err = capsys.readouterr()
    assert not err
    assert msgspec.json.decode(out, type=ExportReport).agreement == AGREEMENT
    assert export(unchecked="Not checked: why.", missing="No converter.", notes=("Then run: it",)) == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["Not checked: why.", "No converter.", "Then run: it"]


def test_without_a_kind_an_export_lists_them(tmp_path, capsys):
    folder = run_folder(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").touch()
    assert main(["export", folder]) == 0
    out = capsys.readouterr().out
    assert "gguf     GGUF." in out
    assert "Not for this run: This run trained no LoRA adapter" in out
    assert main(["export", folder, "--json"]) == 0
    assert {offer["kind"] for offer in json.loads(capsys.readouterr().out)} == set(ExportKind)


# --- hone hub


@pytest.fixture
def requests(monkeypatch):
    """What the Hub's jobs are asked; they answer from a table."""
    requests = []
    answers = {
        SearchRequest: SearchAnswer(
            found=(Found(id="org/tiny", size=3_994, parameters=1_010, downloads=500),)
        ),
        DownloadRequest: Downloaded(path="/cache", files=3, size=1 << 20),
        type(None): CacheReport(
            folder="/cache", repos=(Cached(id="org/tiny", kind=Kind.MODEL, size=1 << 20),)
        ),
        RemoveRequest: Removed(freed=1 << 20),
        AccountRequest: Account(place=TokenPlace.ENVIRONMENT, name="ada"),
    }

    def run_job(_name, request, _answer, on_progress=lambda _: None):
        requests.append(request)
        on_progress(JobProgress(done=1 << 20, total=1 << 20))
        if getattr(request, "token", ""):
            raise UserError("This computer has no keychain")
        return SearchAnswer() if request == SearchRequest(words="zebra") else answers[type(request)]

    monkeypatch.setattr(models, "run_job", run_job)
    return requests


def test_a_model_is_found_downloaded_listed_and_removed(requests, capsys):
    assert main(["hub", "tiny", "--task", "text-classification"]) == 0
    assert requests == [SearchRequest(words="tiny", task="text-classification")]
    table = capsys.readouterr().out.splitlines()
    assert table[1].split()[:5] == ["org/tiny", "3.9", "KB", "1,010", "500"]
    assert main(["hub", "--download", "org/tiny", "--data", "--subset", "en"]) == 0
    assert requests[-1] == DownloadRequest(id="org/tiny", kind=Kind.DATASET, subset="en")
    out, err = capsys.readouterr()
    assert out == "3 files, 1.0 MB, in /cache\n"
    assert "1.0 MB of 1.0 MB" in err
    assert main(["hub", "--list", "--json"]) == 0
    assert [repo["id"] for repo in json.loads(capsys.readouterr().out)["repos"]] == ["org/tiny"]
    assert main(["hub", "--list"]) == 0
    assert "org/tiny" in capsys.readouterr().out
    assert main(["hub", "--remove", "org/tiny"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert main(["hub", "--remove", "org/tiny", "--yes"]) == 0
    assert capsys.readouterr().out == "1.0 MB freed\n"
    assert main(["hub", "zebra"]) == 1
    assert "has “zebra” in its name" in capsys.readouterr().err


@pytest.mark.usefixtures("requests")
def test_whose_token_it_is_and_one_that_can_t_be_kept_is_not_printed(capsys, monkeypatch):
    assert main(["hub", "--account"]) == 0
    assert capsys.readouterr().out == "ada, by the token in HF_TOKEN\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("hf_Secret42\n"))
    assert main(["hub", "--sign-in"]) == 1
    output = "".join(capsys.readouterr())
    assert "no keychain" in output
    assert "hf_Secret42" not in output


def test_a_download_without_a_terminal_prints_a_line_every_tenth(capsys):
    output = JobOutput(is_download=True)
    for done in range(0, 1001, 10):
        output.show(JobProgress(done=done << 20, total=1000 << 20))
    assert len(capsys.readouterr().err.splitlines()) == 11


def test_the_speed_of_a_download_is_that_of_the_last_seconds():
    clock = FakeClock()
    pace = Pace(clock.monotonic)
    assert pace.speed is None
    for second, done in enumerate((0, 100, 200, 300, 400, 500, 600, 5_600, 10_600, 15_600, 20_600, 25_600)):
        clock.now = float(second)
        pace.add(JobProgress(done=done, total=50_600))
    assert pace.speed == 5000
    assert pace.left(JobProgress(done=25_600, total=50_600)) == 5

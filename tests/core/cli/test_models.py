"""`hone try`, `hone export` and `hone hub`."""

import io

import msgspec
import pytest

from core.base.errors import UserError
from core.base.jobs import JobProgress
from core.cli import models, runs
from core.cli.output import JobOutput
from core.jobs.chat import Ask, Chat, Image, Load, Texts, Which, Writing
from core.jobs.export import Compared, ExportAgreement, ExportKind, ExportReport
from core.jobs.hub import (
    Account,
    AccountRequest,
    Cached,
    CacheReport,
    Downloaded,
    DownloadRequest,
    Found,
    Removed,
    RemoveRequest,
    SearchAnswer,
    SearchRequest,
    TokenPlace,
)
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.hub import RepoKind
from core.options.sections import ModelOptions
from core.services.chat import TryProcess
from core.services.downloads import DownloadPace
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
    monkeypatch.setattr("core.services.chat.TryProcess", Recorder)
    for name in ("loads", "asked"):
        monkeypatch.setattr(Recorder, name, [])
    return Recorder


def test_an_answer_is_printed_and_its_time_to_standard_error(tmp_path, process, hone):
    asked = ("--prompt", "Hello", "--system", "Be kind", "--seed", "7", "--stop", "END", "--before")
    out, err = hone("try", run_folder(tmp_path), *asked)
    assert out == "Answer 1 of resnet18, drawn with 7.\n"
    assert "resnet18: 5 tokens in 500 ms · 10.0 tokens/s · CPU, fp32" in err
    assert process.loads == [Load(run=str(tmp_path), which=Which.BEFORE)]
    [question] = process.asked
    assert question.given.system == "Be kind"
    assert question.writing == Writing(seed=7, stop_at=("END",))


def test_lines_that_are_typed_are_one_conversation(tmp_path, process, monkeypatch, hone):
    typed = iter(["Hello", " ", "And then?"])

    def read_line(_prompt):
        line = next(typed, None)
        if line is None:
            raise EOFError
        return line

    monkeypatch.setattr("builtins.input", read_line)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert "Answer 2 of" in hone("try", run_folder(tmp_path)).out
    last = process.asked[-1].given
    assert isinstance(last, Chat)
    assert [turn.text for turn in last.turns][::2] == ["Hello", "And then?"]
    assert last.turns[1].text.startswith("Answer 1")


def test_labels_of_texts_and_images_are_printed_with_their_chances(tmp_path, process, hone):
    texts = run_folder(tmp_path / "one", Task.TEXT_CLASSIFICATION)
    assert hone("try", texts, "a", "b").out == "  90.0%  yes\n  10.0%  no\n"
    (image := tmp_path / "a.png").touch()
    images = run_folder(tmp_path / "two", Task.IMAGE_CLASSIFICATION)
    assert "seven" in hone("try", images, "--file", image).out
    assert [ask.given for ask in process.asked] == [Texts(texts=("a", "b")), Image(path=str(image))]
    assert "Nothing to read" in hone("try", texts, "--prompt", "refuse", status=1).err


def test_options_may_stand_before_the_text(tmp_path, process, hone):
    texts = run_folder(tmp_path, Task.TEXT_CLASSIFICATION)
    for arguments in (("--before", "a"), ("a", "--before")):
        assert "90.0%  yes" in hone("try", texts, *arguments).out
    assert [load.which for load in process.loads] == [Which.BEFORE] * 2
    assert "unrecognized arguments: --bevore" in hone("try", texts, "a", "--bevore", status=2).err


def test_files_are_answered_as_csv_on_standard_output_or_in_a_new_file(tmp_path, process, hone):
    images = run_folder(tmp_path / "one", Task.IMAGE_CLASSIFICATION)
    for name in ("a.png", "b.png"):
        (tmp_path / name).touch()
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    printed = hone("try", images, "--file", *files).out.splitlines()
    rows = [f"{path},seven,0.7500" for path in files]
    assert printed == ["file,predicted,probability", *rows]
    texts = run_folder(tmp_path / "two", Task.TEXT_CLASSIFICATION)
    (tmp_path / "new.csv").write_text("id,text\n1,good\n")
    output = tmp_path / "answers.csv"
    out, err = hone("try", texts, "--file", tmp_path / "new.csv", "-o", output)
    assert (out, output.read_text(encoding="utf-8-sig").splitlines()[1]) == ("", "1,good,yes,0.9000")
    assert "500 ms" in err
    asked = process.asked[-1].given
    assert (asked.paths, asked.in_pairs) == ((str(tmp_path / "new.csv"),), False)
    again = hone("try", texts, "--file", tmp_path / "new.csv", "-o", output, status=2)
    assert "answers.csv" in again.err, "nothing is overwritten"
    assert "--output goes with --file" in hone("try", texts, "a", "-o", output, status=2).err


@pytest.mark.parametrize(
    ("reason", "task", "arguments"),
    [
        ("only a model that classifies", Task.CHAT, ["--file", "a.png"]),
        ("reads images", Task.IMAGE_CLASSIFICATION, ["--prompt", "a"]),
        ("there is no file", Task.IMAGE_CLASSIFICATION, ["--file", "nowhere.png"]),
        ("reads pairs of texts", Task.TEXT_CLASSIFICATION, ["a"]),
        ("in quotes", Task.TEXT_CLASSIFICATION, ["a", "wonderful", "film"]),
    ],
)
@pytest.mark.usefixtures("process")
def test_what_the_model_does_not_read_is_refused(reason, task, arguments, tmp_path, hone):
    folder = run_folder(tmp_path, task, text_columns=("a", "b") if "pairs" in reason else ())
    assert reason in hone("try", folder, *arguments, status=2).err
    assert Recorder.loads == []


def test_it_waits_while_a_run_trains(tmp_path, process, monkeypatch, hone):
    folder = run_folder(tmp_path)
    monkeypatch.setattr("core.services.chat.that_train", lambda _folder: (runs.find_run(folder),))
    assert "b on c is running" in hone("try", folder, "--prompt", "Hello", status=1).err
    assert process.loads == []
    hone("try", folder, "--prompt", "Hello", "--cpu")
    assert process.loads[0].on_cpu


# --- hone export

AGREEMENT = ExportAgreement(
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
def export(tmp_path, monkeypatch, hone):
    """Runs `hone export --to folder` with an export that results in a report of these fields."""
    folder = run_folder(tmp_path)

    class FakeExport:
        def __init__(self, _wanted):
            pass

        def run(self, on_progress):
            for _ in range(2):
                on_progress(JobProgress(done=1, total=6, what="Writing the model"))
            return report

    def run(*arguments, status=0, **fields):
        nonlocal report
        report = ExportReport(kind=ExportKind.FOLDER, path="/there", files=("a", "b"), size=5 << 20, **fields)
        return hone("export", folder, "--to", "folder", "--folder", "/there", *arguments, status=status)

    report = None
    monkeypatch.setattr(models, "Export", FakeExport)
    return run


def test_the_result_of_an_export_is_printed(export):
    out, err = export(agreement=AGREEMENT, notes=("Next.",))
    assert err.count("Writing the model") == 1
    first, checked, *rest = out.splitlines()
    assert first == "Model folder: 2 files, 5.00 MB, in /there"
    assert checked.startswith(
        "Checked against the trained model: 383 of 384 tokens that the trained model writes are the same"
    )
    assert rest == ["Rounded.", "Next."]
    out, err = export("--json", agreement=AGREEMENT)
    assert not err
    assert msgspec.json.decode(out, type=ExportReport).agreement == AGREEMENT
    unchecked = export(unchecked="Not checked: why.", notes=("Then: it",))
    assert unchecked.out.splitlines()[1:] == ["Not checked: why.", "Then: it"]


def test_without_a_kind_an_export_lists_them(tmp_path, hone):
    folder = run_folder(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(bytes(3 << 20))
    out = hone("export", folder).out
    assert "gguf        GGUF." in out
    assert "About: auto 3.00 MB" in out
    assert "Not for this run: This run trained no LoRA adapter" in out
    assert {offer["kind"] for offer in hone("export", folder, "--json").json} == set(ExportKind)


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
            folder="/cache", repos=(Cached(id="org/tiny", kind=RepoKind.MODEL, size=1 << 20),)
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


def test_a_model_is_found_downloaded_listed_and_removed(requests, hone):
    table = hone("hub", "tiny", "--task", "text-classification").out.splitlines()
    assert requests == [SearchRequest(words="tiny", task="text-classification")]
    assert table[1].split()[:5] == ["org/tiny", "3.90", "KB", "1,010", "500"]
    out, err = hone("hub", "--download", "org/tiny", "--data", "--subset", "en")
    assert requests[-1] == DownloadRequest(id="org/tiny", kind=RepoKind.DATASET, subset="en")
    assert out == "3 files, 1.00 MB, in /cache\n"
    assert "1.00 MB of 1.00 MB" in err
    assert [repo["id"] for repo in hone("hub", "--list", "--json").json["repos"]] == ["org/tiny"]
    assert "org/tiny" in hone("hub", "--list").out
    assert "--yes" in hone("hub", "--remove", "org/tiny", status=2).err
    assert hone("hub", "--remove", "org/tiny", "--yes").out == "1.00 MB freed\n"
    assert "has “zebra” in its name" in hone("hub", "zebra", status=1).err


@pytest.mark.usefixtures("requests")
def test_whose_token_it_is_and_one_that_can_t_be_kept_is_not_printed(monkeypatch, hone):
    assert "HF_TOKEN is used. It is valid: it belongs to ada." in hone("hub", "--account").out
    monkeypatch.setattr("sys.stdin", io.StringIO("hf_Secret42\n"))
    output = "".join(hone("hub", "--sign-in", status=1))
    assert "no keychain" in output
    assert "hf_Secret42" not in output


def test_a_download_without_a_terminal_prints_a_line_every_tenth(capsys):
    output = JobOutput(is_download=True)
    for done in range(0, 1001, 10):
        output.show(JobProgress(done=done << 20, total=1000 << 20))
    assert len(capsys.readouterr().err.splitlines()) == 11


def test_the_speed_of_a_download_is_that_of_the_last_seconds():
    clock = FakeClock()
    pace = DownloadPace(clock.monotonic)
    assert pace.speed is None
    for second, done in enumerate((0, 100, 200, 300, 400, 500, 600, 5_600, 10_600, 15_600, 20_600, 25_600)):
        clock.now = float(second)
        pace.add(JobProgress(done=done, total=50_600))
    assert pace.speed == 5000
    assert pace.left(JobProgress(done=25_600, total=50_600)) == 5

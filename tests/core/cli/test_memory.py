"""`hone forecast`, `measure` and `fit`, with an engine that answers from a table."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.base.errors import DataError, Problem, UserError
from core.base.jobs import EngineCrashed
from core.cli import memory
from core.engine.devices.choose import report
from core.jobs.hub import ConfigFetched
from core.jobs.inspect import DataFinding, DataReport, FindingLevel
from core.memory.model import ModelReport, Room
from core.options import run_file
from core.options.catalogue import with_changes
from core.options.choices import Padding, Task
from core.options.method_rules import starting_options
from tests.fakes.machines import M1
from tests.fakes.memory import FILE, GB, MB, MEASURED, TRACED, DryRuns
from tests.fakes.model_shapes import MODEL, asked


@pytest.fixture
def padded(engine, tmp_path):
    """A run file whose texts are of 87 tokens at most and filled up to 512, which is too much."""
    engine.room = Room(free=GB, ceiling=2 * GB)
    engine.model = MODEL
    engine.traced = replace(TRACED, length=512, longest_text=87)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for name in ("model.safetensors", "texts.csv"):
        (tmp_path / name).touch()
    data = {"train": str(tmp_path / "texts.csv"), "max_length": 512, "padding": "fixed"}
    run_file.write(asked(model={"source": str(tmp_path)}, data=data), tmp_path / "padded.hone")
    return tmp_path / "padded.hone"


# --- hone forecast


def test_a_forecast_is_a_table_of_parts_or_json(engine, hone):
    out = hone("forecast", FILE).out
    lines = map(str.split, out.splitlines()[1:10])
    rows = {" ".join(words[:-2]): " ".join(words[-2:]) for words in lines}
    figures = [rows[name] for name in ("Weights", "Activations", "Total", "Free now", "Total memory")]
    assert figures == ["45.0 MB", "800 MB", "1.54 GB", "8.00 GB", "16.0 GB"]
    assert out.endswith("It fits.\n")
    answer = hone("forecast", FILE, "--json").json
    assert answer["parts"]["activations"] == 800 * MB
    assert (answer["total"], answer["free"], answer["ceiling"]) == (1580 * MB, 8 * GB, 16 * GB)
    assert (answer["fits"], answer["method"], answer["ladder"]) == (True, "formula", [])


def test_a_forecast_says_what_it_assumed_and_why_there_are_no_gradients(engine, hone):
    engine.traced = replace(engine.traced, parts=replace(engine.traced.parts, gradients=0))
    assert "There are no gradients yet at this run's peak" in hone("forecast", FILE).out
    engine.traced = replace(engine.traced, parts=replace(engine.traced.parts, gradients=MB))
    assert "There are no gradients yet" not in hone("forecast", FILE).out
    engine.traced = replace(engine.traced, length=64, longest_text=None)
    out = hone("forecast", FILE).out
    assert "Examples have at most 64 tokens." in out
    assert "The longest example" not in out


def test_the_memory_of_a_model_that_mlx_can_not_train_is_that_of_pytorch(engine, hone, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "correction", {"Apple M1": 1.25, "Apple M1, MLX": 1.5}.__getitem__)
    run = tmp_path / "text.hone"
    options = starting_options(Task.CAUSAL_LM)
    changes = {"model.source": "scratch:llama-tiny", "model.method": "full", "data.train": "synthetic:8x4"}
    run_file.write(with_changes(options, changes), run)
    engine.machine, engine.model = report(M1), MODEL

    def found(*more):
        answer = hone("forecast", run, "--quick", "--json", *more).json
        return answer["correction"], answer["total"]

    torch, mlx = (found("--set", f"device.backend={name}") for name in ("torch", "mlx"))
    assert (torch[0], mlx[0]) == (1.25, 1.5)
    assert torch[1] != mlx[1]
    assert found() == mlx
    engine.model = replace(MODEL, why_not_mlx="the architecture opt is not in mlx-lm")
    assert found() == torch


TOO_LARGE = ("It doesn't fit.", "--set memory.batch_size=", "memory.activation_checkpointing=true")


@pytest.mark.parametrize(
    ("answers", "arguments", "status", "texts"),
    [
        ({"room": Room(free=1 * GB, ceiling=16 * GB)}, [], 3, TOO_LARGE),
        ({"traced": EngineCrashed("forecast", 1, "")}, [], 0, ("could not be read",)),
        ({"model": ModelReport()}, [], 1, ("isn't on this computer yet",)),
        ({"model": ModelReport(architecture="OddModel")}, [], 1, ("how OddModel is built",)),
        ({}, ["--set", "memory.batch_size=0"], 2, ("memory.batch_size",)),
        ({"traced": KeyError()}, ["--quick"], 0, ("It fits",)),  # the data isn't read
    ],
    ids=range(6),
)
def test_other_forecasts(answers, arguments, status, texts, engine, hone):  # noqa: PLR0917
    vars(engine).update(answers)
    output = "".join(hone("forecast", FILE, *arguments, status=status))
    assert [text for text in texts if text not in output] == []


SOUND = DataReport(source="", format="CSV", rows=300)
NO_ANSWER = DataFinding(
    code="empty-answer",
    level=FindingLevel.PROBLEM,
    message="1 example: an empty answer.",
    count=1,
    rows=(238,),
)
CUT = DataFinding(code="cut", level=FindingLevel.WARNING, message="9 examples are cut.", count=9)


@pytest.mark.parametrize(
    ("data", "arguments", "status", "says"),
    [
        (SOUND, [], 0, ""),
        (replace(SOUND, findings=(CUT,)), [], 0, ""),
        (replace(SOUND, findings=(CUT, NO_ANSWER)), [], 1, "row 238"),
        (replace(SOUND, problems=(Problem("data.label_column", "is missing"),)), [], 1, "data.label_column"),
        (DataError("texts.csv is empty"), [], 1, "texts.csv is empty"),
        (DataError("texts.csv is empty"), ["--quick"], 0, ""),
    ],
    ids=["sound", "a warning", "a row", "a column", "no data", "not read"],
)
def test_a_forecast_names_what_would_stop_the_run_in_its_data(
    *, engine, hone, padded, data, arguments, status, says
):
    engine.room, engine.data = Room(free=64 * GB, ceiling=64 * GB), data
    out = hone("forecast", padded, *arguments, status=status).out
    assert "It fits." in out
    assert ("the run would stop at its data" in out) is bool(says)
    assert says in out
    assert "9 examples" not in out
    answer = hone("forecast", padded, *arguments, "--json", status=status).json
    assert (answer["fits"], bool(answer["problems"])) == (True, bool(says))
    engine.room = Room(free=1 * GB, ceiling=1 * GB)
    out = hone("forecast", padded, *arguments, status=3).out
    assert ("The run would also stop at its data" in out) is bool(says)
    assert "But the run" not in out
    engine.room = None
    assert ("But the run would stop" in hone("forecast", padded, *arguments, status=status).out) is bool(says)


def test_a_crash_while_the_data_is_read_ends_no_forecast(engine, hone, padded):
    engine.room, engine.data = Room(free=64 * GB, ceiling=64 * GB), EngineCrashed("inspect", 1, "")
    out, err = hone("forecast", padded)
    assert "could not be read, so this is for examples of the maximum length" in err
    assert "It fits." in out


# --- hone measure


def test_memory_and_time_are_measured(engine, monkeypatch, hone):
    monkeypatch.setattr(memory, "DryRun", runs := DryRuns(lambda _: 2 * GB))
    out = hone("measure", FILE).out
    for text in (
        "An ordinary step takes 0.25 s.",
        "300 steps take about 1 min 15 s",
    ):
        assert text in out
    assert runs.asked[0].device.name == "cpu", "the guard has to know whose memory it watches"
    monkeypatch.setattr(memory, "DryRun", DryRuns(lambda _: 9 * GB))
    answer = hone("measure", FILE, "--json", status=3).json
    assert (answer["verdict"], answer["measurement"]["peak"]) == ("too_large", 9 * GB)
    assert answer["ladder"][-1]["name"] == "model"
    for remedy in answer["ladder"]:
        total = remedy["saves"] + sum(remedy["forecast"]["parts"].values())
        assert total == pytest.approx(9 * GB, rel=1e-6), "it saves from what was measured"


# --- hone fit


@pytest.fixture
def file(tmp_path):
    return Path(shutil.copy(FILE, tmp_path / "mine.hone"))


@pytest.fixture
def fit(engine, monkeypatch, hone):
    """Runs `hone fit`, by default with memory for 4 images at a time."""

    def run(*arguments, status=0, peak=lambda options: (2 if options.memory.batch_size <= 4 else 9) * GB):
        monkeypatch.setattr(memory, "DryRun", DryRuns(peak))
        return hone("fit", *arguments, status=status)

    return run


def test_a_changed_run_file_is_written(fit, file, tmp_path):
    before = file.read_bytes()
    out, err = fit(file)
    assert file.read_bytes() == before
    written, options = run_file.read(file.with_name("mine.fits.hone")), run_file.read(file)
    assert written.memory.batch_size <= 4
    assert written.effective_batch == options.effective_batch
    assert err.startswith("Try 1 of at most 6: As requested\n  Too large: ")
    assert "mine.fits.hone" in out
    comment = file.with_name("mine.fits.hone").read_text().splitlines()[0]
    assert comment.startswith(f"# Made by `hone fit` of {file}. It fits with --set memory.batch_size=")
    answer = fit(file, "--json", "-o", tmp_path / "out.hone").json
    assert answer["file"] == str(tmp_path / "out.hone")
    assert answer["tries"][0]["verdict"] == "too_large"
    fitting = [done["changes"] for done in answer["tries"] if done["verdict"] == "fits"]
    assert answer["changes"] == fitting[0]


def test_a_file_is_never_overwritten(engine, fit, file, tmp_path):
    (tmp_path / "other.hone").write_text("precious")
    for target in (tmp_path / "other.hone", file):
        fit(file, "-o", target, status=2)
    assert (tmp_path / "other.hone").read_text() == "precious"
    assert engine.asked == [], "refused before anything is measured"


def test_needless_padding_is_said_and_tried_without(engine, fit, padded, hone):
    assert "512 tokens; the longest has 87." in hone("forecast", padded, status=3).out
    engine.room = Room(free=8 * GB, ceiling=16 * GB)
    fit(padded, peak=lambda options: (2 if options.data.padding is Padding.DYNAMIC else 9) * GB)
    written = run_file.read(padded.with_name("padded.fits.hone"))
    assert (written.data.padding, written.memory.batch_size) == (Padding.DYNAMIC, 16)


def test_a_run_that_fits_already_is_written_only_where_that_is_wanted(fit, file, tmp_path):
    assert fit(file, peak=lambda _: 2 * GB).out == "It fits as it is.\nNothing was written.\n"
    assert [path.name for path in file.parent.glob("*.hone")] == ["mine.hone"]
    fit(file, "-o", tmp_path / "same.hone", peak=lambda _: 2 * GB)
    assert run_file.read(tmp_path / "same.hone") == run_file.read(file)


def test_what_never_fits_ends_with_3_and_dry_runs_that_fail_with_1(fit, file):
    def fail(_options):
        raise UserError("The data has one class only")

    assert "choose a smaller" in fit(file, peak=lambda _: 20 * GB, status=3).err
    assert "It fails for other reasons than memory" in fit(file, peak=fail, status=1).err
    assert not file.with_name("mine.fits.hone").exists()


# --- Models on the Hub


@pytest.fixture
def from_hub(engine, tmp_path, monkeypatch):
    """A run of a model on the Hub of which nothing is here; fetching puts its config.json into an empty cache."""
    repository = tmp_path / "hub" / "models--org--tiny"
    config = repository / "snapshots" / "abc" / "config.json"

    def fetch(_source):
        config.parent.mkdir(parents=True)
        config.write_text("{}")
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("abc")
        return ConfigFetched(path=str(config))

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE")
    engine.fetch = fetch
    engine.model = MODEL
    (tmp_path / "texts.csv").write_text("text,label\na,1\nb,2\n")
    data = {"train": str(tmp_path / "texts.csv"), "max_length": 64}
    run_file.write(asked(model={"source": "org/tiny"}, data=data), tmp_path / "mine.hone")
    return str(tmp_path / "mine.hone")


def test_a_forecast_downloads_what_describes_the_model_and_says_so(engine, from_hub, hone):
    printed = hone("forecast", from_hub, "--json")
    assert engine.asked == ["devices", "fetch-config", "check-model", "inspect", "forecast"]
    assert printed.err == "Downloading config.json (a few KB) of org/tiny from huggingface.co…\n"
    assert printed.json["method"] == "formula"
    hone("forecast", from_hub, "--offline", "--quick")  # it is here now


@pytest.mark.parametrize("variable", ["", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_nothing_is_downloaded_where_that_is_forbidden(variable, engine, from_hub, monkeypatch, hone):
    if variable:
        monkeypatch.setenv(variable, "1")
    err = hone("forecast", from_hub, *([] if variable else ["--offline"]), status=1).err
    assert engine.asked == ["devices"]
    assert "org/tiny isn't on this computer, or" in err
    assert ("HF_HUB_OFFLINE (--offline) forbids" if variable else "--offline forbids") in err


@pytest.mark.parametrize("command", ["measure", "fit"])
def test_a_dry_run_needs_the_weights_and_downloads_nothing(command, engine, from_hub, hone):
    for has_config in (False, True):
        if has_config:
            engine.fetch("org/tiny")
        engine.asked.clear()
        err = hone(command, from_hub, status=1).err
        assert engine.asked == (["devices", "check-model"] if has_config else ["devices"])
        assert err.startswith(
            "error: org/tiny isn't on this computer yet\nA run downloads it; so does `hf download"
        )


def test_the_step_on_the_longest_batch_is_told_of_texts_and_not_of_images():
    def told(found):
        return [line for line in memory.measurement_lines(found) if "longest batch" in line]

    assert told(MEASURED) == ["A step on the longest batch takes 0.9 s."]
    assert told(replace(MEASURED, longest=None)) == []

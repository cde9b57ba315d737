"""`hone forecast`, `measure` and `fit`, with an engine that answers from a table."""

import json

import pytest
from msgspec.structs import replace

from core.base.errors import UserError
from core.base.jobs import EngineCrashed
from core.cli import memory
from core.cli.main import main
from core.memory.model import ModelReport, Room
from core.options import run_file
from core.options.choices import Padding
from core.services.hub import ConfigFetched
from tests.fakes.memory import FILE, GB, MB, TRACED, DryRuns
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


def test_a_forecast_is_a_table_of_parts_or_json(engine, capsys):
    assert main(["forecast", str(FILE)]) == 0
    out = capsys.readouterr().out
    rows = dict(line.rsplit(maxsplit=1) for line in out.splitlines()[:10])
    figures = [rows[name] for name in ("Weights", "Activations", "Total", "Free now", "Ceiling")]
    assert figures == ["45", "800", "1,580", "8,192", "16,384"]
    assert out.endswith("On cpu, forecast.\nIt fits.\n")
    assert main(["forecast", str(FILE), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["parts"]["activations"] == 800 * MB
    assert (answer["total"], answer["free"], answer["ceiling"]) == (1580 * MB, 8 * GB, 16 * GB)
    assert (answer["fits"], answer["method"], answer["ladder"]) == (True, "formula", [])


TOO_LARGE = ("It doesn't fit.", "--set memory.batch_size=", "memory.activation_checkpointing=true")


@pytest.mark.parametrize(
    ("answers", "arguments", "status", "texts"),
    [
        ({"room": Room(free=1 * GB, ceiling=16 * GB)}, [], 3, TOO_LARGE),
        ({"traced": EngineCrashed("forecast", 1, "")}, [], 0, ("On cpu, forecast.", "could not be read")),
        ({"model": ModelReport()}, [], 1, ("isn't on this computer yet",)),
        ({"model": ModelReport(architecture="OddModel")}, [], 1, ("how OddModel is built",)),
        ({}, ["--set", "memory.batch_size=0"], 2, ("memory.batch_size",)),
        ({"traced": KeyError()}, ["--quick"], 0, ("It fits",)),  # the data isn't read
    ],
    ids=range(6),
)
def test_other_forecasts(answers, arguments, status, texts, engine, capsys):  # noqa: PLR0917
    vars(engine).update(answers)
    assert main(["forecast", str(FILE), *arguments]) == status
    output = "".join(capsys.readouterr())
    assert [text for text in texts if text not in output] == []


# --- hone measure


def test_memory_and_time_are_measured(engine, monkeypatch, capsys):
    monkeypatch.setattr(memory, "DryRun", runs := DryRuns(lambda _: 2 * GB))
    assert main(["measure", str(FILE)]) == 0
    out = capsys.readouterr().out
    for text in (
        "measured by a dry run",
        "An ordinary step takes 0.25 s.",
        "300 steps take about 1 min 15 s",
    ):
        assert text in out
    assert runs.asked[0].device.name == "cpu", "the guard has to know whose memory it watches"
    monkeypatch.setattr(memory, "DryRun", DryRuns(lambda _: 9 * GB))
    assert main(["measure", str(FILE), "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["measurement"]["peak"]) == ("too_large", 9 * GB)
    assert answer["ladder"][-1]["name"] == "model"


# --- hone fit


@pytest.fixture
def file(tmp_path):
    copied = tmp_path / "mine.hone"
    copied.write_bytes(FILE.read_bytes())
    return copied


@pytest.fixture
def fit(engine, monkeypatch):
    """Runs `hone fit`, by default with memory for 4 images at a time."""

    def run(file, *more, peak=lambda options: (2 if options.memory.batch_size <= 4 else 9) * GB):
        monkeypatch.setattr(memory, "DryRun", DryRuns(peak))
        return main(["fit", str(file), *map(str, more)])

    return run


def test_a_changed_run_file_is_written(fit, file, tmp_path, capsys):
    before = file.read_bytes()
    assert fit(file) == 0
    assert file.read_bytes() == before
    written, options = run_file.read(file.with_name("mine.fits.hone")), run_file.read(file)
    assert written.memory.batch_size <= 4
    assert written.effective_batch == options.effective_batch
    out, err = capsys.readouterr()
    assert err.startswith("Try 1: As requested\n  Too large: ")
    assert "mine.fits.hone" in out
    comment = file.with_name("mine.fits.hone").read_text().splitlines()[0]
    assert comment.startswith(f"# Made by `hone fit` of {file}. It fits with --set memory.batch_size=")
    assert fit(file, "--json", "-o", tmp_path / "out.hone") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["file"] == str(tmp_path / "out.hone")
    assert answer["tries"][0]["verdict"] == "too_large"
    fitting = [one["changes"] for one in answer["tries"] if one["verdict"] == "fits"]
    assert answer["changes"] == fitting[0]


def test_a_file_is_never_overwritten(engine, file, tmp_path):
    (tmp_path / "other.hone").write_text("precious")
    assert main(["fit", str(file), "-o", str(tmp_path / "other.hone")]) == 2
    assert main(["fit", str(file), "-o", str(file)]) == 2
    assert (tmp_path / "other.hone").read_text() == "precious"
    assert engine.asked == [], "refused before anything is measured"


def test_padding_is_tried_where_it_is_needless(engine, fit, padded):
    engine.room = Room(free=8 * GB, ceiling=16 * GB)
    assert fit(padded, peak=lambda options: (2 if options.data.padding is Padding.DYNAMIC else 9) * GB) == 0
    written = run_file.read(padded.with_name("padded.fits.hone"))
    assert (written.data.padding, written.memory.batch_size) == (Padding.DYNAMIC, 16)


def test_a_run_that_fits_already_is_written_only_where_that_is_wanted(fit, file, tmp_path, capsys):
    assert fit(file, peak=lambda _: 2 * GB) == 0
    assert capsys.readouterr().out == "It fits as it is.\nNothing was written.\n"
    assert [path.name for path in file.parent.glob("*.hone")] == ["mine.hone"]
    assert fit(file, "-o", tmp_path / "same.hone", peak=lambda _: 2 * GB) == 0
    assert run_file.read(tmp_path / "same.hone") == run_file.read(file)


def test_what_never_fits_ends_with_3_and_dry_runs_that_fail_with_1(fit, file, capsys):
    def fail(_options):
        raise UserError("The data has one class only")

    for peak, status, reason in (
        (lambda _: 20 * GB, 3, "choose a smaller"),
        (fail, 1, "It fails for other reasons than memory"),
    ):
        assert fit(file, peak=peak) == status
        assert reason in capsys.readouterr().err
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


def test_a_forecast_downloads_what_describes_the_model_and_says_so(engine, from_hub, capsys):
    assert main(["forecast", from_hub, "--json"]) == 0
    assert engine.asked == ["devices", "fetch-config", "check-model", "forecast"]
    out, err = capsys.readouterr()
    assert err == "Downloading config.json (a few KB) of org/tiny from huggingface.co ...\n"
    assert json.loads(out)["method"] == "formula"
    assert main(["forecast", from_hub, "--offline", "--quick"]) == 0  # it is here now


@pytest.mark.parametrize("variable", ["", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_nothing_is_downloaded_where_that_is_forbidden(variable, engine, from_hub, monkeypatch, capsys):
    if variable:
        monkeypatch.setenv(variable, "1")
    assert main(["forecast", from_hub, *([] if variable else ["--offline"])]) == 1
    assert engine.asked == ["devices"]
    err = capsys.readouterr().err
    assert "org/tiny isn't on this computer, or" in err
    assert ("HF_HUB_OFFLINE (--offline) forbids" if variable else "--offline forbids") in err


@pytest.mark.parametrize("command", ["measure", "fit"])
def test_a_dry_run_needs_the_weights_and_downloads_nothing(command, engine, from_hub, capsys):
    for has_config in (False, True):
        if has_config:
            engine.fetch("org/tiny")
        engine.asked.clear()
        assert main([command, from_hub]) == 1
        assert engine.asked == (["devices", "check-model"] if has_config else ["devices"])
        err = capsys.readouterr().err
        assert err.startswith("org/tiny isn't on this computer yet\nA run downloads it; so does `hf download")

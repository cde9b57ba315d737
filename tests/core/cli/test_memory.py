"""`hone forecast`, `measure` and `fit`, with an engine that answers from a table."""

import msgspec
import pytest

from core.base.errors import UserError
from core.base.jobs import EngineCrashed
from core.cli import memory
from core.cli.main import main
from core.cli.memory import measurement_lines, remedy_lines
from core.memory.model import Basis, Forecast, Measurement, ModelReport, Parts, Room
from core.memory.remedies import Remedy
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
    engine.traced = msgspec.structs.replace(TRACED, length=512, longest_text=87)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for name in ("model.safetensors", "texts.csv"):
        (tmp_path / name).touch()
    data = {"train": str(tmp_path / "texts.csv"), "max_length": 512, "padding": "fixed"}
    run_file.write(asked(model={"source": str(tmp_path)}, data=data), tmp_path / "padded.hone")
    return tmp_path / "padded.hone"


class TestForecast:
    def test_a_table_of_parts(self, engine, capsys):
        assert main(["forecast", str(FILE)]) == 0
        out = capsys.readouterr().out
        rows = dict(line.rsplit(maxsplit=1) for line in out.splitlines()[:10])
        figures = [rows[name] for name in ("Weights", "Activations", "Total", "Free now", "Ceiling")]
        assert figures == ["45", "800", "1,580", "8,192", "16,384"]
        assert out.endswith("On cpu, forecast.\nIt fits.\n")

    def test_needless_padding(self, engine, padded, capsys):
        main(["forecast", str(padded)])
        out = capsys.readouterr().out
        for text in (
            "512 tokens with padding; the longest text has 87.",
            "Rows of 88 tokens",
            "Pad to the batch",
        ):
            assert text in out

    def test_json(self, engine, capsys):
        assert main(["forecast", str(FILE), "--json"]) == 0
        answer = msgspec.json.decode(capsys.readouterr().out)
        assert answer["parts"]["activations"] == 800 * MB
        assert (answer["total"], answer["free"], answer["ceiling"]) == (1580 * MB, 8 * GB, 16 * GB)
        assert (answer["fits"], answer["method"], answer["ladder"]) == (True, "formula", [])

    def test_what_does_not_fit_ends_with_3_and_remedies(self, engine, capsys):
        engine.room = Room(free=1 * GB, ceiling=16 * GB)
        assert main(["forecast", str(FILE)]) == 3
        out = capsys.readouterr().out
        for text in ("It doesn't fit.", "--set memory.batch_size=", "memory.activation_checkpointing=true"):
            assert text in out

    def test_quick_does_not_read_the_data(self, engine):
        assert main(["forecast", str(FILE), "--quick", "--set", "memory.batch_size=4"]) == 0
        assert engine.asked == ["devices", "check-model"]

    def test_unreadable_data(self, engine, capsys):
        engine.traced = EngineCrashed("forecast", 1, "no such operator")
        main(["forecast", str(FILE)])
        out, err = capsys.readouterr()
        assert "On cpu, forecast." in out
        assert "could not be read" in err

    def test_a_wrong_request(self, engine, capsys):
        assert main(["forecast", str(FILE), "--set", "memory.batch_size=0"]) == 2
        assert "memory.batch_size" in capsys.readouterr().err
        assert engine.asked == []

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (ModelReport(), "isn't on this computer yet"),
            (ModelReport(architecture="OddModel"), "how OddModel is built"),
        ],
        ids=["missing", "unknown"],
    )
    def test_a_model_without_a_shape(self, model, message, engine, capsys):
        engine.model = model
        assert main(["forecast", str(FILE)]) == 1
        assert message in capsys.readouterr().err


class TestMeasure:
    def measure(self, monkeypatch, dry_runs, *more):
        monkeypatch.setattr(memory, "DryRun", dry_runs)
        return main(["measure", str(FILE), *more])

    def test_memory_and_time(self, engine, monkeypatch, capsys):
        assert self.measure(monkeypatch, runs := DryRuns(lambda _: 2 * GB)) == 0
        out = capsys.readouterr().out
        for text in (
            "measured by a dry run",
            "An ordinary step takes 0.25 s.",
            "300 steps take about 1 min 15 s",
        ):
            assert text in out
        assert runs.asked[0].device.name == "cpu", "the guard has to know whose memory it watches"

    def test_out_of_memory(self, engine, monkeypatch, capsys):
        assert self.measure(monkeypatch, DryRuns(lambda _: 9 * GB)) == 3
        out = capsys.readouterr().out
        assert out.startswith("Memory ran out.\nA batch of 16 rows didn't fit.")
        assert "--set memory.batch_size=" in out
        assert self.measure(monkeypatch, DryRuns(lambda _: 9 * GB), "--json") == 3
        answer = msgspec.json.decode(capsys.readouterr().out)
        assert (answer["verdict"], answer["measurement"]["peak"]) == ("too_large", 9 * GB)
        assert answer["ladder"][-1]["name"] == "model"


class TestFit:
    @pytest.fixture
    def file(self, tmp_path):
        copied = tmp_path / "mine.hone"
        copied.write_bytes(FILE.read_bytes())
        return copied

    @pytest.fixture
    def fit(self, monkeypatch):
        """Runs `hone fit`, by default with memory for 4 images at a time."""

        def run(file, *more, peak=lambda options: (2 if options.memory.batch_size <= 4 else 9) * GB):
            monkeypatch.setattr(memory, "DryRun", DryRuns(peak))
            return main(["fit", str(file), *map(str, more)])

        return run

    def test_a_changed_run_file_is_written(self, engine, fit, file, capsys):
        before = file.read_bytes()
        assert fit(file) == 0
        assert file.read_bytes() == before
        written, options = run_file.read(file.with_name("mine.fits.hone")), run_file.read(file)
        assert written.memory.batch_size <= 4
        assert written.effective_batch == options.effective_batch
        out, err = capsys.readouterr()
        assert err.startswith("Try 1: As requested\n  Too large: ")
        assert "fits" in err
        assert "mine.fits.hone" in out
        comment = file.with_name("mine.fits.hone").read_text().splitlines()[0]
        assert comment.startswith(f"# Made by `hone fit` of {file}. It fits with --set memory.batch_size=")

    def test_a_file_is_never_overwritten(self, engine, file, tmp_path):
        (tmp_path / "other.hone").write_text("precious")
        assert main(["fit", str(file), "-o", str(tmp_path / "other.hone")]) == 2
        assert main(["fit", str(file), "-o", str(file)]) == 2
        assert (tmp_path / "other.hone").read_text() == "precious"
        assert engine.asked == [], "refused before anything is measured"

    def test_padding_is_tried_where_it_is_needless(self, engine, fit, padded):
        engine.room = Room(free=8 * GB, ceiling=16 * GB)
        dynamic = lambda options: options.data.padding is Padding.DYNAMIC  # noqa: E731
        assert fit(padded, peak=lambda options: (2 if dynamic(options) else 9) * GB) == 0
        written = run_file.read(padded.with_name("padded.fits.hone"))
        assert (written.data.padding, written.memory.batch_size) == (Padding.DYNAMIC, 16)

    def test_nothing_fits(self, engine, fit, file, capsys):
        assert fit(file, peak=lambda _: 20 * GB) == 3
        assert "choose a smaller" in capsys.readouterr().err
        assert not file.with_name("mine.fits.hone").exists()

    def test_dry_runs_that_fail_end_with_1(self, engine, fit, file, capsys):
        def fail(_options):
            raise UserError("The data has one class only")

        assert fit(file, peak=fail) == 1
        assert "It fails for other reasons than memory" in capsys.readouterr().err

    def test_a_run_that_fits_already(self, engine, fit, file, tmp_path, capsys):
        assert fit(file, peak=lambda _: 2 * GB) == 0
        assert capsys.readouterr().out == "It fits as it is.\nNothing was written.\n"
        assert [path.name for path in file.parent.glob("*.hone")] == ["mine.hone"]
        assert fit(file, "--json", peak=lambda _: 2 * GB) == 0
        answer = msgspec.json.decode(capsys.readouterr().out)
        assert (answer["changes"], answer["file"]) == ({}, None)
        assert fit(file, "-o", tmp_path / "same.hone", peak=lambda _: 2 * GB) == 0
        assert run_file.read(tmp_path / "same.hone") == run_file.read(file)

    def test_json_has_every_try(self, engine, fit, file, tmp_path, capsys):
        assert fit(file, "--json", "-o", tmp_path / "out.hone") == 0
        answer = msgspec.json.decode(capsys.readouterr().out)
        assert answer["file"] == str(tmp_path / "out.hone")
        assert answer["tries"][0]["verdict"] == "too_large"
        fitting = [one["changes"] for one in answer["tries"] if one["verdict"] == "fits"]
        assert answer["changes"] == fitting[0]


@pytest.fixture
def from_hub(engine, tmp_path, monkeypatch):
    """A run of a model on the Hub of which nothing is here; fetching puts its config.json into an empty cache."""
    repository = tmp_path / "hub" / "models--org--tiny"
    snapshot = repository / "snapshots" / "abc"

    def fetch(_source):
        snapshot.mkdir(parents=True)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("abc")
        (snapshot / "config.json").write_text("{}")
        return ConfigFetched(path=str(snapshot / "config.json"))

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE")
    engine.fetch = fetch
    engine.model = MODEL
    (tmp_path / "texts.csv").write_text("text,label\na,1\nb,2\n")
    file = tmp_path / "mine.hone"
    run_file.write(
        asked(model={"source": "org/tiny"}, data={"train": str(tmp_path / "texts.csv"), "max_length": 64}),
        file,
    )
    return file


class TestModelsOnTheHub:
    def test_a_forecast_fetches_what_describes_it_and_says_so(self, engine, from_hub, capsys):
        assert main(["forecast", str(from_hub), "--json"]) == 0
        assert engine.asked == ["devices", "fetch-config", "check-model", "forecast"]
        told = capsys.readouterr()
        assert told.err == "Downloading config.json (a few KB) of org/tiny from huggingface.co ...\n"
        assert msgspec.json.decode(told.out)["method"] == "formula"
        assert main(["forecast", str(from_hub), "--offline", "--quick"]) == 0  # it is here now

    def test_a_cache_without_the_newest_version_is_as_good_as_none(self, engine, from_hub, tmp_path):
        old = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "old"
        old.mkdir(parents=True)
        (old / "config.json").write_text("{}")
        assert main(["forecast", str(from_hub), "--quick"]) == 0
        assert engine.asked == ["devices", "fetch-config", "check-model"]

    @pytest.mark.parametrize("by", ["--offline", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
    def test_nothing_is_fetched_where_the_person_forbids_it(self, by, engine, from_hub, monkeypatch, capsys):
        if by != "--offline":
            monkeypatch.setenv(by, "1")
        assert main(["forecast", str(from_hub), *(["--offline"] if by == "--offline" else [])]) == 1
        assert engine.asked == ["devices"]
        err = capsys.readouterr().err
        assert "org/tiny isn't on this computer, or" in err
        assert ("--offline forbids" if by == "--offline" else "HF_HUB_OFFLINE (--offline) forbids") in err

    def test_what_stands_in_the_way_is_told(self, engine, from_hub, monkeypatch, capsys):
        def fail(_):
            raise UserError("huggingface.co can't be reached", "Is this computer online?")

        engine.fetch = fail
        assert main(["forecast", str(from_hub)]) == 1
        assert capsys.readouterr().err.endswith("huggingface.co can't be reached\nIs this computer online?\n")

    @pytest.mark.parametrize("command", ["measure", "fit"])
    @pytest.mark.parametrize("is_described", [False, True])
    def test_a_dry_run_needs_the_weights_and_fetches_nothing(
        self, command, is_described, engine, from_hub, capsys
    ):
        if is_described:
            engine.fetch("org/tiny")
        assert main([command, str(from_hub)]) == 1
        assert engine.asked == (["devices", "check-model"] if is_described else ["devices"])
        err = capsys.readouterr().err
        assert err.startswith("org/tiny isn't on this computer yet\nA run downloads it; so does `hf download")


MEASURED = Measurement(
    device="cpu",
    parts=Parts(weights=GB),
    peak=GB,
    base=0,
    longest_step_seconds=2.0,
    step_seconds=1.5,
    total_steps=100,
    run_seconds=150.0,
)


def remedy(title, total, **more):
    after = Forecast(
        basis=Basis.FORMULA,
        device="cpu",
        parts=Parts(weights=total),
        room=Room(free=10 * GB, ceiling=16 * GB),
    )
    given = {"help": "", "changes": {"memory.batch_size": 4}, **more}
    return Remedy(name="batch", title=title, forecast=after, **given)


def test_remedies_that_are_enough():
    rungs = (
        remedy("Small", 4 * GB),
        remedy("Middling", int(9.5 * GB)),
        remedy("Large", 12 * GB),
        remedy("Advice", 12 * GB, changes={}, help="Choose another."),
    )
    lines = remedy_lines(rungs)[1].splitlines()
    assert [line.split()[5] for line in lines[1:4]] == ["yes", "barely", "no"]
    assert lines[4].endswith("Choose another.")


def test_an_ordinary_step_that_lasts_longer_than_the_longest_is_remarked_on():
    assert not any("busy" in line for line in measurement_lines(MEASURED))
    disturbed = msgspec.structs.replace(MEASURED, step_seconds=3.0)
    assert any("other programs were busy" in line for line in measurement_lines(disturbed))

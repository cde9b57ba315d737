"""`hone forecast`, `measure` and `fit`, with an engine that answers from a table."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.errors import UserError
from core.base.jobs import EngineCrashed
from core.cli import memory
from core.cli.main import main
from core.cli.memory import ladder_lines, measurement_lines
from core.memory.model import Basis, Forecast, Measurement, ModelReport, Parts, Room
from core.memory.remedies import Remedy
from core.options import RunOptions, run_file
from core.options.choices import Padding
from core.services.hub import ConfigFetched
from tests.fakes.asked_of_bert import MODEL, asked
from tests.fakes.told_memory import FILE, GB, MB, TRACED, DryRuns


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
    def test_a_table_of_parts_with_how_it_is_known(self, engine, capsys):
        assert main(["forecast", str(FILE)]) == 0
        out = capsys.readouterr().out
        rows = dict(line.rsplit(maxsplit=1) for line in out.splitlines()[:10])
        assert rows["Weights"] == "45"
        assert rows["Activations"] == "800"
        assert rows["Total"] == "1,580"
        assert (rows["Free now"], rows["Ceiling"]) == ("8,192", "16,384")
        assert "On cpu, forecast." in out
        assert out.rstrip().endswith("It fits.")

    def test_padding_that_nothing_needs_is_told_and_can_be_left_out(self, engine, padded, capsys):
        main(["forecast", str(padded)])
        out = capsys.readouterr().out
        assert "The longest row has 512 tokens, padding counted; the longest text has 87." in out
        assert "Rows of 88 tokens" in out
        assert "Pad to the batch's longest" in out

    def test_json_for_programs(self, engine, capsys):
        assert main(["forecast", str(FILE), "--json"]) == 0
        told = msgspec.json.decode(capsys.readouterr().out)
        assert told["parts"]["activations"] == 800 * MB
        assert (told["total"], told["free"], told["ceiling"]) == (1580 * MB, 8 * GB, 16 * GB)
        assert (told["fits"], told["method"]) == (True, "formula")
        assert told["ladder"] == []

    def test_what_does_not_fit_ends_with_3_and_the_ladder(self, engine, capsys):
        engine.room = Room(free=1 * GB, ceiling=16 * GB)
        assert main(["forecast", str(FILE)]) == 3
        out = capsys.readouterr().out
        assert "It doesn't fit." in out
        assert "--set memory.batch_size=" in out
        assert "--set memory.activation_checkpointing=true" in out

    def test_quick_does_not_look_at_the_data(self, engine, capsys):
        assert main(["forecast", str(FILE), "--quick", "--set", "memory.batch_size=4"]) == 0
        assert engine.asked == ["devices", "check-model"]
        assert "On cpu, forecast." in capsys.readouterr().out

    def test_data_that_can_t_be_read_is_said_and_rows_taken_to_be_as_long_as_allowed(self, engine, capsys):
        engine.traced = EngineCrashed("forecast", 1, "no such operator")
        main(["forecast", str(FILE)])
        told = capsys.readouterr()
        assert "On cpu, forecast." in told.out
        assert "could not be read" in told.err

    def test_a_wrong_request_is_said_at_the_option(self, engine, capsys):
        assert main(["forecast", str(FILE), "--set", "memory.batch_size=0"]) == 2
        assert "memory.batch_size" in capsys.readouterr().err
        assert engine.asked == []

    def test_a_model_that_is_not_here_is_said(self, engine, capsys):
        engine.model = ModelReport()
        assert main(["forecast", str(FILE)]) == 1
        assert "isn't on this computer yet" in capsys.readouterr().err


class TestMeasure:
    def measure(self, dry_runs: DryRuns, *more: str) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "DryRun", dry_runs)
            return main(["measure", str(FILE), *more])

    def test_memory_and_time(self, engine, capsys):
        assert self.measure(runs := DryRuns(lambda _: 2 * GB)) == 0
        out = capsys.readouterr().out
        assert "measured by a dry run" in out
        assert "An ordinary step takes 0.25 s." in out
        assert "300 steps take about 1 min 15 s" in out
        assert runs.asked[0].device.name == "cpu", "the guard has to know whose memory it watches"

    def test_memory_that_runs_out_is_an_answer_with_the_ladder(self, engine, capsys):
        assert self.measure(DryRuns(lambda _: 9 * GB)) == 3
        out = capsys.readouterr().out
        assert out.startswith("Memory ran out.\nA batch of 16 rows didn't fit.")
        assert "--set memory.batch_size=" in out

    def test_json(self, engine, capsys):
        assert self.measure(DryRuns(lambda _: 9 * GB), "--json") == 3
        told = msgspec.json.decode(capsys.readouterr().out)
        assert told["verdict"] == "too_large"
        assert told["measurement"]["peak"] == 9 * GB
        assert told["ladder"][-1]["name"] == "model"


def large(options: RunOptions) -> int:
    """More than is free with more than 4 images at a time."""
    return (2 if options.memory.batch_size <= 4 else 9) * GB


class TestFit:
    @pytest.fixture
    def file(self, tmp_path):
        copied = tmp_path / "mine.hone"
        copied.write_bytes(FILE.read_bytes())
        return copied

    def fit(self, file: Path, output: Path | None = None, *, as_json: bool = False, peak: Any = large) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "DryRun", DryRuns(peak))
            more = [*(["-o", str(output)] if output else []), *(["--json"] if as_json else [])]
            return main(["fit", str(file), *more])

    def test_the_changed_run_file_is_written_beside_and_the_first_left_alone(self, engine, file, capsys):
        before = file.read_bytes()
        assert self.fit(file) == 0
        assert file.read_bytes() == before
        written = run_file.read(file.with_name("mine.fits.hone"))
        asked = run_file.read(file)
        assert written.memory.batch_size <= 4
        assert written.effective_batch == asked.effective_batch
        told = capsys.readouterr()
        assert told.err.startswith("Try 1: As asked\n  Too large: ")
        assert "fits" in told.err
        assert "mine.fits.hone" in told.out

    def test_a_file_that_is_there_is_never_overwritten(self, engine, file, tmp_path, monkeypatch):
        (tmp_path / "other.hone").write_text("precious")
        assert main(["fit", str(file), "-o", str(tmp_path / "other.hone")]) == 2
        assert main(["fit", str(file), "-o", str(file)]) == 2
        assert (tmp_path / "other.hone").read_text() == "precious"
        assert engine.asked == [], "said before anything is measured"

    def test_nothing_that_fits_ends_with_3_and_writes_nothing(self, engine, file, capsys):
        assert self.fit(file, peak=lambda _: 20 * GB) == 3
        assert "choose a smaller" in capsys.readouterr().err
        assert not file.with_name("mine.fits.hone").exists()

    def test_padding_is_tried_where_the_data_says_that_it_is_wasted(self, engine, padded):
        engine.room = Room(free=8 * GB, ceiling=16 * GB)

        def held(options: RunOptions) -> int:
            return 2 * GB if options.data.padding is Padding.DYNAMIC else 9 * GB

        assert self.fit(padded, peak=held) == 0
        written = run_file.read(padded.with_name("padded.fits.hone"))
        assert (written.data.padding, written.memory.batch_size) == (Padding.DYNAMIC, 16)

    def test_dry_runs_that_fail_otherwise_end_with_1(self, engine, file, capsys):
        def fails(_options: RunOptions) -> int:
            raise UserError("The data has one class only")

        assert self.fit(file, peak=fails) == 1
        assert "It fails for another reason than memory" in capsys.readouterr().err

    def test_a_run_that_fits_as_it_is_needs_no_other_file(self, engine, file, capsys):
        assert self.fit(file, peak=lambda _: 2 * GB) == 0
        assert capsys.readouterr().out == "It fits as it is.\nNothing was written.\n"
        assert [path.name for path in file.parent.glob("*.hone")] == ["mine.hone"]
        assert self.fit(file, as_json=True, peak=lambda _: 2 * GB) == 0
        told = msgspec.json.decode(capsys.readouterr().out)
        assert (told["changes"], told["file"]) == ({}, None)

    def test_but_the_file_that_was_asked_for_by_name_is_there(self, engine, file, tmp_path, capsys):
        named = tmp_path / "same.hone"
        assert self.fit(file, named, peak=lambda _: 2 * GB) == 0
        assert capsys.readouterr().out == f"It fits as it is.\nThe run file is {named}\n"
        assert run_file.read(named) == run_file.read(file)

    def test_the_file_says_where_it_came_from(self, engine, file):
        assert self.fit(file) == 0
        head = file.with_name("mine.fits.hone").read_text().splitlines()[0]
        assert head.startswith(f"# Made by `hone fit` of {file}. It fits with --set memory.batch_size=")

    def test_json_has_every_try(self, engine, file, tmp_path, capsys):
        assert self.fit(file, tmp_path / "out.hone", as_json=True) == 0
        told = msgspec.json.decode(capsys.readouterr().out)
        assert told["file"] == str(tmp_path / "out.hone")
        assert told["tries"][0]["verdict"] == "too_large"
        fitting = [one["changes"] for one in told["tries"] if one["verdict"] == "fits"]
        assert told["changes"] == fitting[0]


@pytest.fixture
def from_hub(engine, tmp_path, monkeypatch):
    """A run of a model on the Hub of which nothing is here; fetching puts its config.json into an empty cache."""
    repository = tmp_path / "hub" / "models--org--tiny"
    snapshot = repository / "snapshots" / "abc"

    def fetch(source: str) -> ConfigFetched:
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
        assert (
            told.err == "Fetching what describes org/tiny (config.json, a few KB) from huggingface.co ...\n"
        )
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
        def fail(_: str) -> ConfigFetched:
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
        assert err.startswith("org/tiny isn't on this computer yet\nA run fetches it; so does `hf download")

    def test_a_model_of_an_unknown_build_says_so(self, engine, from_hub, capsys):
        engine.model = ModelReport(architecture="OddForSequenceClassification")
        assert main(["forecast", str(from_hub)]) == 1
        assert "how OddForSequenceClassification is built" in capsys.readouterr().err


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


def remedy(title: str, total: int, **more: object) -> Remedy:
    after = Forecast(
        basis=Basis.FORMULA,
        device="cpu",
        parts=Parts(weights=total),
        room=Room(free=10 * GB, ceiling=16 * GB),
    )
    given = {"help": "", "changes": {"memory.batch_size": 4}, **more}
    return Remedy(name="batch", title=title, forecast=after, **given)


def test_a_ladder_says_which_remedies_are_enough():
    rungs = (
        remedy("Small", 4 * GB),
        remedy("Middling", int(9.5 * GB)),
        remedy("Large", 12 * GB),
        remedy("Advice", 12 * GB, changes={}, help="Choose another."),
    )
    lines = ladder_lines(rungs)[1].splitlines()
    assert [line.split()[5] for line in lines[1:4]] == ["yes", "barely", "no"]
    assert lines[4].endswith("Choose another.")


def test_an_ordinary_step_that_lasts_longer_than_the_longest_is_remarked_on():
    assert not any("busy" in line for line in measurement_lines(MEASURED))
    disturbed = msgspec.structs.replace(MEASURED, step_seconds=3.0)
    assert any("other programs were busy" in line for line in measurement_lines(disturbed))

"""`hone forecast`, `hone measure` and `hone fit`, with an engine that answers from a table."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.errors import UserError
from core.base.jobs import EngineCrashed
from core.cli import memory
from core.cli.main import main
from core.memory.model import ModelReport, Room
from core.options import RunOptions, run_file
from core.options.choices import Padding
from tests.fakes.asked_of_bert import MODEL, asked
from tests.fakes.told_memory import FILE, GB, MB, TRACED, DryRuns, Engine


@pytest.fixture
def padded(engine: Engine, tmp_path: Path) -> Path:
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
    def test_a_table_of_parts_with_how_it_is_known(
        self, engine: Engine, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["forecast", str(FILE)]) == 0
        out = capsys.readouterr().out
        rows = dict(line.rsplit(maxsplit=1) for line in out.splitlines()[:10])
        assert rows["Weights"] == "45"
        assert rows["Activations"] == "800"
        assert rows["Total"] == "1,580"
        assert (rows["Free now"], rows["Ceiling"]) == ("8,192", "16,384")
        assert "On cpu, forecast." in out
        assert out.rstrip().endswith("It fits.")

    def test_padding_that_nothing_needs_is_told_and_can_be_left_out(
        self, engine: Engine, padded: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        main(["forecast", str(padded)])
        out = capsys.readouterr().out
        assert "The longest row has 512 tokens, padding counted; the longest text has 87." in out
        assert "Rows of 88 tokens" in out
        assert "Pad to the batch's longest" in out

    def test_json_for_programs(self, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["forecast", str(FILE), "--json"]) == 0
        told = msgspec.json.decode(capsys.readouterr().out)
        assert told["parts"]["activations"] == 800 * MB
        assert (told["total"], told["free"], told["ceiling"]) == (1580 * MB, 8 * GB, 16 * GB)
        assert (told["fits"], told["method"]) == (True, "formula")
        assert told["ladder"] == []

    def test_what_does_not_fit_ends_with_3_and_the_ladder(
        self, engine: Engine, capsys: pytest.CaptureFixture[str]
    ) -> None:
        engine.room = Room(free=1 * GB, ceiling=16 * GB)
        assert main(["forecast", str(FILE)]) == 3
        out = capsys.readouterr().out
        assert "It doesn't fit." in out
        assert "--set memory.batch_size=" in out
        assert "--set memory.activation_checkpointing=true" in out

    def test_quick_does_not_look_at_the_data(
        self, engine: Engine, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["forecast", str(FILE), "--quick", "--set", "memory.batch_size=4"]) == 0
        assert engine.asked == ["devices", "check-model"]
        assert "On cpu, forecast." in capsys.readouterr().out

    def test_data_that_can_t_be_read_is_said_and_rows_taken_to_be_as_long_as_allowed(
        self, engine: Engine, capsys: pytest.CaptureFixture[str]
    ) -> None:
        engine.traced = EngineCrashed("forecast", 1, "no such operator")
        main(["forecast", str(FILE)])
        told = capsys.readouterr()
        assert "On cpu, forecast." in told.out
        assert "could not be read" in told.err

    def test_a_wrong_request_is_said_at_the_option(
        self, engine: Engine, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["forecast", str(FILE), "--set", "memory.batch_size=0"]) == 2
        assert "memory.batch_size" in capsys.readouterr().err
        assert engine.asked == []

    def test_a_model_that_is_not_here_is_said(
        self, engine: Engine, capsys: pytest.CaptureFixture[str]
    ) -> None:
        engine.model = ModelReport()
        assert main(["forecast", str(FILE)]) == 1
        assert "isn't on this computer yet" in capsys.readouterr().err


class TestMeasure:
    def measure(self, dry_runs: DryRuns, *more: str) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "DryRun", dry_runs)
            return main(["measure", str(FILE), *more])

    def test_memory_and_time(self, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.measure(runs := DryRuns(lambda _: 2 * GB)) == 0
        out = capsys.readouterr().out
        assert "measured by a dry run" in out
        assert "An ordinary step takes 0.25 s." in out
        assert "300 steps take about 1 min 15 s" in out
        assert runs.asked[0].device.name == "cpu", "the guard has to know whose memory it watches"

    def test_memory_that_runs_out_is_an_answer_with_the_ladder(
        self, engine: Engine, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.measure(DryRuns(lambda _: 9 * GB)) == 3
        out = capsys.readouterr().out
        assert out.startswith("Memory ran out.\nA batch of 16 rows didn't fit.")
        assert "--set memory.batch_size=" in out

    def test_json(self, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
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
    def file(self, tmp_path: Path) -> Path:
        copied = tmp_path / "mine.hone"
        copied.write_bytes(FILE.read_bytes())
        return copied

    def fit(self, file: Path, output: Path | None = None, *, as_json: bool = False, peak: Any = large) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "DryRun", DryRuns(peak))
            more = [*(["-o", str(output)] if output else []), *(["--json"] if as_json else [])]
            return main(["fit", str(file), *more])

    def test_the_changed_run_file_is_written_beside_and_the_first_left_alone(
        self, engine: Engine, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
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

    def test_a_file_that_is_there_is_never_overwritten(
        self, engine: Engine, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "other.hone").write_text("precious")
        assert main(["fit", str(file), "-o", str(tmp_path / "other.hone")]) == 2
        assert main(["fit", str(file), "-o", str(file)]) == 2
        assert (tmp_path / "other.hone").read_text() == "precious"
        assert engine.asked == [], "said before anything is measured"

    def test_nothing_that_fits_ends_with_3_and_writes_nothing(
        self, engine: Engine, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.fit(file, peak=lambda _: 20 * GB) == 3
        assert "choose a smaller" in capsys.readouterr().err
        assert not file.with_name("mine.fits.hone").exists()

    def test_padding_is_tried_where_the_data_says_that_it_is_wasted(
        self, engine: Engine, padded: Path
    ) -> None:
        engine.room = Room(free=8 * GB, ceiling=16 * GB)

        def held(options: RunOptions) -> int:
            return 2 * GB if options.data.padding is Padding.DYNAMIC else 9 * GB

        assert self.fit(padded, peak=held) == 0
        written = run_file.read(padded.with_name("padded.fits.hone"))
        assert (written.data.padding, written.memory.batch_size) == (Padding.DYNAMIC, 16)

    def test_dry_runs_that_fail_otherwise_end_with_1(
        self, engine: Engine, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fails(_options: RunOptions) -> int:
            raise UserError("The data has one class only")

        assert self.fit(file, peak=fails) == 1
        assert "It fails for another reason than memory" in capsys.readouterr().err

    def test_a_run_that_fits_as_it_is_needs_no_other_file(
        self, engine: Engine, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.fit(file, peak=lambda _: 2 * GB) == 0
        assert capsys.readouterr().out == "It fits as it is.\nNothing was written.\n"
        assert [path.name for path in file.parent.glob("*.hone")] == ["mine.hone"]
        assert self.fit(file, as_json=True, peak=lambda _: 2 * GB) == 0
        told = msgspec.json.decode(capsys.readouterr().out)
        assert (told["changes"], told["file"]) == ({}, None)

    def test_but_the_file_that_was_asked_for_by_name_is_there(
        self, engine: Engine, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        named = tmp_path / "same.hone"
        assert self.fit(file, named, peak=lambda _: 2 * GB) == 0
        assert capsys.readouterr().out == f"It fits as it is.\nThe run file is {named}\n"
        assert run_file.read(named) == run_file.read(file)

    def test_the_file_says_where_it_came_from(self, engine: Engine, file: Path) -> None:
        assert self.fit(file) == 0
        head = file.with_name("mine.fits.hone").read_text().splitlines()[0]
        assert head.startswith(f"# Made by `hone fit` of {file}. It fits with --set memory.batch_size=")

    def test_json_has_every_try(
        self, engine: Engine, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.fit(file, tmp_path / "out.hone", as_json=True) == 0
        told = msgspec.json.decode(capsys.readouterr().out)
        assert told["file"] == str(tmp_path / "out.hone")
        assert told["tries"][0]["verdict"] == "too_large"
        fitting = [one["changes"] for one in told["tries"] if one["verdict"] == "fits"]
        assert told["changes"] == fitting[0]

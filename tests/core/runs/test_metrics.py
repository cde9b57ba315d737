"""Tables of a run's metrics: their rows, and the CSV and Parquet files."""

import csv
import io
import math
import tracemalloc
from typing import Any

import pytest
from pyarrow import parquet

from core.cli.main import main
from core.runs.event_log import EventReader
from core.runs.events import (
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    Evaluated,
    MemorySampled,
    Pressure,
    RunStarted,
    Source,
    StepFinished,
    TurnAwaited,
    TurnCame,
)
from core.runs.folder import RunFolder
from core.runs.metrics import STEP_COLUMNS, MetricsTable, What, write_csv
from tests.fakes import runs as fake_runs
from tests.fakes.runs import write_events


def step(number: int, **figures: Any) -> StepFinished:
    return fake_runs.step(number, **{"time": 100.0 + number, **figures})


def rows(run: RunFolder, what: What = What.STEPS) -> list[dict[str, Any]]:
    table = MetricsTable(run, what)
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows()]


def as_csv(run: RunFolder, what: What = What.STEPS) -> list[dict[str, str]]:
    stream = io.StringIO()
    write_csv(MetricsTable(run, what), stream)
    return list(csv.DictReader(io.StringIO(stream.getvalue())))


def test_a_step_is_a_row_with_the_time_since_work_began_by_either_file(run):
    parts = ("data_seconds", "forward_seconds", "backward_seconds", "optimizer_seconds")
    figures = {"loss": 0.7, "grad_norm": 2.0, "tokens": 64, **dict.fromkeys(parts, 0.1)}
    write_events(run.machine_file, DiskSampled(time=88.0, free=7, total=9))
    write_events(run.events_file, RunStarted(time=90.0), step(1, **figures))
    [row] = rows(run)
    assert list(row) == [column.name for column in STEP_COLUMNS]
    assert row == {
        **figures,
        **{"step": 1, "epoch": 0.1, "attempt": 1, "time": 101.0, "learning_rate": 1e-3, "samples": 8},
        **{"seconds_since_start": 13.0, "seconds": 0.5, "compile_seconds": 0.0},
    }


def test_missing_figures_are_empty_and_a_loss_that_is_not_finite_is_named(run):
    write_events(run.events_file, step(1, non_finite="nan"), step(2, non_finite="inf"))
    with run.events_file.open("ab") as file:
        file.write(b'{"type":"run_started","attempt":"no number"}\nnonsense\n')
    write_events(run.events_file, step(3))
    table = MetricsTable(run, What.STEPS)
    assert (len(list(table.rows())), table.skipped) == (3, 2)
    assert [(row["loss"], row["tokens"]) for row in as_csv(run)] == [("NaN", ""), ("inf", ""), ("", "")]


def test_steps_that_were_trained_again_are_there_once(run):
    write_events(run.events_file, RunStarted(time=90.0), *(step(n, loss=1.0) for n in (1, 2, 3, 4)))
    again = (step(n, loss=2.0, time=300.0 + n) for n in (3, 4, 5))
    write_events(run.events_file, RunStarted(time=300.0, from_step=2), *again, attempt=2)
    last = step(5, loss=3.0, time=501.0)
    write_events(run.events_file, RunStarted(time=500.0, from_step=4), last, attempt=3)
    found = [(row["step"], row["attempt"], row["loss"]) for row in rows(run)]
    assert found == [(1, 1, 1.0), (2, 1, 1.0), (3, 2, 2.0), (4, 2, 2.0), (5, 3, 3.0)]
    assert rows(run)[-1]["seconds_since_start"] == 14.0 + 5.0 + 1.0, "worked, in all attempts"


@pytest.mark.parametrize("what", What)
def test_the_time_a_run_waited_for_its_turn_does_not_count(run, what):
    write_events(
        run.machine_file,
        TurnAwaited(time=10.0, ahead=1),
        TurnCame(time=99.0),
        DiskSampled(time=101.0, free=7, total=9),
    )
    evaluated = Evaluated(time=101.0, step=1, epoch=1.0, metrics={"eval_loss": 0.5}, seconds=2.0)
    write_events(run.events_file, RunStarted(time=100.0), step(1), evaluated)
    assert [row["seconds_since_start"] for row in rows(run, what)] == [1.0]


def test_evaluations_have_a_column_for_every_metric(run):
    for number, metrics in ((4, {"eval_loss": 0.5}), (8, {"eval_loss": None, "eval_f1": 0.75})):
        evaluated = Evaluated(step=number, epoch=1.0, metrics=metrics, seconds=2.0)
        write_events(run.events_file, evaluated, step(number))
    found = [(row["step"], row["eval_loss"], row["eval_f1"]) for row in rows(run, What.EVALUATIONS)]
    assert found == [(4, 0.5, None), (8, None, 0.75)]


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
def test_another_persons_text_is_no_formula_in_a_spreadsheet(run, sign):
    formula = f'{sign}HYPERLINK("http://example.com","loss")'
    write_events(run.events_file, Evaluated(step=4, epoch=1.0, metrics={formula: -0.5}, seconds=2.0))
    write_events(run.machine_file, DeviceSampled(time=1.0, source=Source.NVML, name=formula))
    assert as_csv(run, What.EVALUATIONS)[0][f"'{formula}"] == "-0.5"
    assert as_csv(run, What.MACHINE)[0]["name"] == f"'{formula}"


def test_samples_of_the_machine_are_in_the_order_of_time(run):
    write_events(
        run.machine_file,
        MemorySampled(time=101.0, source=Source.SYSTEM, bytes=5, pressure=Pressure.WARN),
        DeviceSampled(time=103.0, source=Source.NVML, name="GPU", busy=0.5, throttled=("heat", "power")),
        BatterySampled(time=104.0, share=0.5, is_plugged=False),
        DiskSampled(time=105.0, free=7, total=9),
    )
    write_events(run.events_file, MemorySampled(time=102.0, source=Source.TORCH, bytes=6), step(1))
    found = rows(run, What.MACHINE)
    assert [(row["sample"], row["source"], row["memory_bytes"]) for row in found] == [
        ("memory", "system", 5),
        ("memory", "torch", 6),
        ("device", "nvml", None),
        ("battery", None, None),
        ("disk", None, None),
    ]
    assert (found[0]["memory_pressure"], found[2]["name"]) == ("warn", "GPU")
    assert (found[2]["device_busy"], found[2]["device_throttled"]) == (0.5, "heat, power")
    assert (found[3]["battery_is_plugged"], found[4]["disk_free"]) == (False, 7)


def test_a_run_four_times_as_long_takes_no_more_memory(run, monkeypatch):
    plain = EventReader.read
    monkeypatch.setattr(EventReader, "read", lambda reader, limit=0: plain(reader, limit=1 << 14))
    peaks = []
    for steps in (1000, 4000):
        write_events(run.events_file, *(step(number, loss=0.5) for number in range(1, steps + 1)))
        table = MetricsTable(run, What.STEPS)
        tracemalloc.start()
        assert sum(1 for _ in table.rows()) >= steps
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_the_command_writes_csv_to_a_new_file_or_to_the_terminal(run, tmp_path, capsys):
    write_events(run.events_file, step(1, loss=0.5), step(2, loss=0.25))
    write_events(run.machine_file, DiskSampled(free=7, total=9))
    target = tmp_path / "steps.csv"
    command = ["export", str(run.path), "--metrics"]
    assert main([*command, str(target)]) == 0
    with target.open(newline="", encoding="utf-8") as file:
        assert [row["loss"] for row in csv.DictReader(file)] == ["0.5", "0.25"]
    assert b"\r" not in target.read_bytes()
    before = target.read_bytes()
    assert main([*command, str(target)]) == main([*command, str(tmp_path / "no" / "steps.csv")]) == 2
    assert target.read_bytes() == before
    assert main(["export", "nothing", "--metrics", "-"]) == 2
    capsys.readouterr()
    assert main([*command, "-", "--rows", "machine"]) == 0
    assert capsys.readouterr().out.startswith("attempt,time,seconds_since_start,sample,source,name,memory_")


def test_the_command_writes_parquet(run, tmp_path, monkeypatch):
    monkeypatch.setattr("core.runs.metrics.ROWS_AT_ONCE", 2)
    target = tmp_path / "steps.parquet"
    command = ["export", str(run.path), "--metrics", str(target)]
    assert main(command) == 0
    assert parquet.read_table(target).num_rows == 0
    target.unlink()
    write_events(run.events_file, step(1, non_finite="nan"), step(2), step(3, loss=0.5, tokens=9))
    assert main(command) == 0
    table = parquet.read_table(target)
    losses = table.column("loss").to_pylist()
    assert math.isnan(losses[0])
    assert losses[1:] == [None, 0.5], "missing is not NaN"
    assert table.column("tokens").to_pylist() == [None, None, 9]
    assert str(table.schema.field("step").type) == "int64"
    assert parquet.ParquetFile(target).num_row_groups == 2

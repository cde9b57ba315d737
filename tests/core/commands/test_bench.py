"""`hone bench` with a fake engine job: tables at the end, Ctrl-C, refusals, what was measured before."""

import csv
import io
import json
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.benchmark import result as benchmark_result
from core.benchmark import runner
from core.benchmark.conditions import Lookout
from core.benchmark.plan import Plan, methods_plan
from core.benchmark.result import Surroundings
from core.benchmark.runner import Taking, Underway
from core.cli import benchmark
from core.cli.benchmark import BenchProgress
from core.cli.main import main
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from tests.fakes.bench import measured, result, rung
from tests.fakes.sampling_job import MB
from tests.fakes.told_memory import Engine

FAKES = Path(__file__).parents[2] / "fakes"
TWO = ("bench", "devices", "--models", "resnet18", "--images", "8", "--batch", "4", "--sides", "precisions")
"""Two rungs, in fp32 and in bf16."""

TINY = ("bench", "methods", "--model", "tiny", "--steps", "4", "--passes", "1", "--no-compile")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(benchmark, "run_job", Engine().run_job)
    play(monkeypatch, "answer")
    return tmp_path / "home"


def play(monkeypatch: pytest.MonkeyPatch, scenario: str) -> None:
    command = [sys.executable, "-P", str(FAKES / "sampling_job.py"), scenario]
    monkeypatch.setattr(benchmark, "Taking", partial(Taking, command=command, lookout=Blind))


class Blind(Lookout):
    """Sees nothing, so that no table tells of what else this computer does."""

    def follow(self, pid: int) -> None: ...

    def begin_timed(self) -> None: ...

    def end_timed(self) -> None: ...

    def stop(self) -> Surroundings:
        return Surroundings()


def few(*asked: Any, **named: Any) -> Plan:
    """The ladder's plan with three of its rungs."""
    found = methods_plan(*asked, **named)
    rungs = [rung for rung in found.rungs if rung.name in ("plain", "bf16", "bf16-compile")]
    return msgspec.structs.replace(found, rungs=tuple(rungs))


def test_the_ladder_ends_with_a_table_and_is_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "methods_plan", few)
    assert main(TINY) == 0
    said = capsys.readouterr()
    table = said.out.split("\n\n")[1].splitlines()
    assert table[0].split("  ")[0] == "METHOD"
    assert [line.split()[:3] for line in table[1:3]] == [["plain", "64.0", "s"], ["bf16", "32.0", "s"]]
    assert "+ compile: left out as asked" in said.out
    assert "plain, pass 1 (1 of 2)" in said.err
    assert "  bf16: 16.0 samples/s, 100 MB" in said.err
    (one,) = benchmark_result.kept()
    assert str(one.path) in said.err
    assert one.result is not None
    assert one.result.is_whole
    assert queue.benchmarks() == []


@pytest.mark.skipif(os.name != "posix", reason="ends a process with a POSIX signal")
def test_a_killed_rung_is_a_row_with_its_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, "die-at-bf16")
    assert main((*TWO, "--json")) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    told = {row["rung"]["name"]: row["passes"][0] for row in rows if row["passes"]}
    assert told["resnet18-4-fp32"]["sample"]["peak"] == 200 * MB
    failed = told["resnet18-4-bf16"]
    assert "memory" in (failed["problem"] or failed["sample"]["out_of_memory"])


@pytest.mark.skipif(os.name != "posix", reason="sends itself a POSIX signal")
def test_ctrl_c_keeps_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    begin = BenchProgress.begin

    def interrupt(progress: BenchProgress, underway: Underway) -> None:
        begin(progress, underway)
        heard.append(underway.rung.name)
        if underway.done == 1:
            play_now()
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.wait(10)

    stopped = threading.Event()
    stop = runner.Bench.stop

    def told(one: runner.Bench) -> None:
        stop(one)
        stopped.set()

    def play_now() -> None:
        play(monkeypatch, "hang")

    monkeypatch.setattr(BenchProgress, "begin", interrupt)
    monkeypatch.setattr(runner.Bench, "stop", told)
    assert main(TINY) == 130
    said = capsys.readouterr()
    assert len(heard) == 2
    assert "It was ended before all passes were made." in said.out
    assert "plain    " in said.out
    (one,) = benchmark_result.kept()
    assert one.result is not None
    assert [len(row.passes) for row in one.result.rows][:2] == [1, 0]
    assert not one.result.is_whole


def test_it_is_not_measured_beside_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    queue.hold(RunFolder(Path("/runs/digits").absolute()), "cpu", KeeperRecord.of(os.getpid()))
    assert main(TWO) == 1
    said = capsys.readouterr()
    assert "digits is training\nFigures measured beside it would be worth nothing." in said.err
    assert "--beside" in said.err
    assert main((*TWO, "--beside", "--markdown")) == 0
    assert capsys.readouterr().out.startswith("### fp32 against bf16")


def test_the_table_goes_to_a_new_csv_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "table.csv"
    assert main((*TWO, "--csv", str(target))) == 0
    said = capsys.readouterr()
    assert "SPEED-UP" in said.out
    assert [line["side"] for line in csv.DictReader(io.StringIO(target.read_text()))] == ["fp32", "bf16"]
    assert main((*TWO, "--csv", str(target))) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("methods", "--steps", "0"), "must be a number from 1 to 1,000,000; got '0'"),
        (("methods", "--passes", "-1"), "got '-1'"),
        (("methods", "--model", "gpt-9"), "'bert-large', 'bert-base', 'minilm', 'tiny'"),
        (("methods", "--model", "tiny", "--run", "mine.hone"), "not allowed with"),
        (("devices", "--batch", "4,x"), "got 'x'"),
        (("devices", "--images", "0"), "got '0'"),
        (("devices", "--models", "resnet18,gpt-9"), "no model called 'gpt-9' is timed; there are "),
        (("devices", "--sides", "sideways"), "precisions"),
        (("devices", "--sides", "devices"), "CUDA can't be measured: "),
        (("methods", "--device", "cuda:7"), "cuda:7"),
        (("methods", "--run", "/nowhere/mine.hone"), "mine.hone"),
        (("show",), "1 is no result: none is kept yet"),
        (("show", "yesterday"), "yesterday is no result"),
        (("compare", "1"), "RESULT"),
        ((), "WHAT"),
    ],
)
def test_a_wrong_request_says_what_there_is_to_choose(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(("bench", *arguments))
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
    assert status == 2
    assert said in capsys.readouterr().err
    assert benchmark_result.kept() == []


class TestKept:
    def test_they_are_listed_shown_and_compared(self, capsys: pytest.CaptureFixture[str]) -> None:
        for begun, second in ((1_760_000_000.0, 1.0), (1_760_009_000.0, 0.5)):
            benchmark_result.save(result(measured(rung("plain"), *[second] * 4), begun=begun))
        (benchmark_result.folder() / "broken.json").write_text("{")
        assert main(("bench", "results")) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == ["NAME", "1", "2", "3"]
        assert "Tiny BERT, 64 rows  1 of 1  Test GPU, 24 GB" in lines[1]
        assert "is damaged. It isn't" in lines[3]
        assert main(("bench", "show")) == 0
        assert "4.00 s" in capsys.readouterr().out
        assert main(("bench", "show", "2")) == 0
        assert "8.00 s" in capsys.readouterr().out
        assert main(("bench", "compare", "1", "2")) == 0
        row = capsys.readouterr().out.splitlines()[1]
        assert row.split()[:5] == ["Plain", "8.00", "16.0", "2.00", "x"]
        assert "faster" in row
        assert main(("bench", "show", "3")) == 1
        assert "damaged" in capsys.readouterr().err
        assert main(("bench", "compare", "1", "1")) == 2
        assert "the same result" in capsys.readouterr().err

    def test_none_is_no_failure(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(("bench", "results")) == 0
        assert "Nothing was measured yet" in capsys.readouterr().out
        assert main(("bench", "results", "--json")) == 0
        assert json.loads(capsys.readouterr().out) == []

    def test_a_file_elsewhere_is_shown_too(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = benchmark_result.save(result(measured(rung("plain")))).rename(tmp_path / "sent.json")
        assert main(("bench", "show", str(path), "--json")) == 0
        assert json.loads(capsys.readouterr().out)["plan"]["title"] == "Tiny BERT, 64 rows"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_bar_tells_the_time_left() -> None:
    progress = BenchProgress(stream := Terminal())
    progress.begin(Underway(rung("plain"), 2, done=3, total=8, seconds_left=125.4))
    progress.tick()
    progress.measured(result(measured(rung("plain"), 0.5, 0.5)), 0)
    progress.close()
    text = stream.getvalue()
    assert "Plain, pass 2 |" in text
    assert "3 of 8, about 2 min 05 s left" in text
    assert "  Plain: 16.0 samples/s, 100 MB" in text


def test_a_benchmark_stands_in_the_queue_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    entry = queue.Entry(
        run="/benchmarks/1", device="auto", keeper=KeeperRecord.of(os.getpid()), benchmark="BERT-tiny"
    )
    queue.measure(entry)
    assert main(("queue",)) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "Benchmark",
        "measuring",
        "BERT-tiny",
        "-",
        "auto",
    ]
    assert main(("queue", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["measuring"] == [{"title": "BERT-tiny", "device": "auto"}]

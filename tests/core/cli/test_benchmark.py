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

import msgspec
import pytest

from core.benchmark import result as results
from core.benchmark.conditions import Watch
from core.benchmark.plan import methods_plan
from core.benchmark.result import Conditions
from core.benchmark.runner import Bench, EnginePass, Progress
from core.cli import benchmark
from core.cli.main import main
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from tests.fakes.bench import measured, result, variant
from tests.fakes.memory import Engine
from tests.fakes.runs import FAKES
from tests.fakes.sampling_job import MB

TWO = ("bench", "devices", "--models", "resnet18", "--images", "8", "--batch", "4", "--sides", "precisions")
"""Two variants, in fp32 and in bf16."""

TINY = ("bench", "methods", "--model", "tiny", "--steps", "4", "--passes", "1", "--no-compile")


class Blind(Watch):
    """Sees nothing, so that no table tells what else this computer does."""

    def follow(self, pid): ...

    def mark(self): ...

    def stop(self):
        return Conditions()


def play(monkeypatch, scenario):
    command = [sys.executable, "-P", str(FAKES / "sampling_job.py"), scenario]
    monkeypatch.setattr(benchmark, "EnginePass", partial(EnginePass, command=command, watch=Blind))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(benchmark, "run_job", Engine().run_job)
    play(monkeypatch, "answer")


def few(*asked, **named):
    """The ladder's plan with three of its variants."""
    found = methods_plan(*asked, **named)
    chosen = [one for one in found.variants if one.name in ("plain", "bf16", "bf16-compile")]
    return msgspec.structs.replace(found, variants=tuple(chosen))


def test_the_ladder_ends_with_a_table_and_is_saved(capsys, monkeypatch):
    monkeypatch.setattr(benchmark, "methods_plan", few)
    assert main(TINY) == 0
    said = capsys.readouterr()
    table = said.out.split("\n\n")[1].splitlines()
    assert table[0].split("  ")[0] == "METHOD"
    assert [line.split()[:4] for line in table[1:3]] == [
        ["plain", "1", "min", "04"],
        ["bf16", "32.0", "s", "16.0"],
    ]
    assert "+ compile: left out as requested" in said.out
    assert "1 of 2: plain, pass 1" in said.err
    assert "  16.0 samples/s, 100 MB" in said.err
    (one,) = results.saved()
    assert str(one.path) in said.err
    assert one.result.is_whole
    assert queue.benchmarks() == []


@pytest.mark.skipif(os.name != "posix", reason="ends a process with a POSIX signal")
def test_a_killed_variant_is_a_row_with_its_reason(capsys, monkeypatch):
    play(monkeypatch, "die-at-bf16")
    assert main((*TWO, "--json")) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    told = {row["rung"]["name"]: row["passes"][0] for row in rows if row["passes"]}
    assert told["resnet18-4-fp32"]["sample"]["peak"] == 200 * MB
    failed = told["resnet18-4-bf16"]
    assert "memory" in (failed["problem"] or failed["sample"]["out_of_memory"])


@pytest.mark.skipif(os.name != "posix", reason="sends itself a POSIX signal")
def test_ctrl_c_keeps_what_is_done(capsys, monkeypatch):
    stopped, stop, print_progress = threading.Event(), Bench.stop, benchmark.print_progress

    def interrupt(progress):
        print_progress(progress)
        if progress.done == 1:
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.wait(10)
        else:
            play(monkeypatch, "hang")

    monkeypatch.setattr(benchmark, "print_progress", interrupt)
    monkeypatch.setattr(Bench, "stop", lambda one: (stop(one), stopped.set()))
    assert main(TINY) == 130
    said = capsys.readouterr()
    assert "It ended before all passes were made." in said.out
    (one,) = results.saved()
    assert [len(row.passes) for row in one.result.rows][:2] == [1, 0]
    assert not one.result.is_whole


def test_it_is_not_measured_beside_a_run(capsys):
    queue.hold(RunFolder(Path("/runs/digits").absolute()), "cpu", KeeperRecord.of(os.getpid()))
    assert main(TWO) == 1
    said = capsys.readouterr()
    assert "digits is training" in said.err
    assert "--beside" in said.err
    assert main((*TWO, "--beside", "--csv")) == 0
    lines = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert [line["side"] for line in lines] == ["fp32", "bf16"]


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
        (("results", "1"), "there is no result 1"),
        (("results", "yesterday"), "there is no result yesterday"),
        (("results", "--json", "--csv"), "not allowed with"),
        ((), "WHAT"),
    ],
)
def test_a_wrong_request_says_what_there_is_to_choose(arguments, said, capsys):
    try:
        status = main(("bench", *arguments))
    except SystemExit as left:
        status = left.code
    assert status == 2
    assert said in capsys.readouterr().err
    assert results.saved() == []


def test_results_are_listed_shown_and_compared(tmp_path, capsys):
    assert main(("bench", "results")) == 0
    assert "Nothing was measured yet" in capsys.readouterr().out
    for begun, second in ((1_760_000_000.0, 1.0), (1_760_009_000.0, 0.5)):
        path = results.save(result(measured(variant("plain"), *[second] * 4), begun=begun))
    (results.folder() / "broken.json").write_text("{")

    def said(*arguments, status=0):
        assert main(("bench", "results", *arguments)) == status
        found = capsys.readouterr()
        return found.err if status else found.out

    lines = said().splitlines()
    assert [line.split()[0] for line in lines] == ["WHAT", "1", "2", "3"]
    assert lines[1].endswith("1 of 1, complete  Test GPU, 24 GB")
    assert "is damaged. It isn't" in lines[3]
    assert [one["title"] for one in json.loads(said("--json"))][2] == "broken.json"
    assert "4.00 s" in said("1")
    assert "8.00 s" in said("2")
    row = said("1", "2").splitlines()[1]
    assert row.split()[:6] == ["Plain", "8.00", "16.0", "2.00", "×", "faster"]
    assert said("2", "1", "--markdown").startswith("| Row |")
    sent = path.rename(tmp_path / "sent.json")
    assert json.loads(said(str(sent), "--json"))["plan"]["title"] == "Tiny BERT, 64 rows"
    assert "damaged" in said("2", status=1)
    assert "the same result" in said("1", "1", status=2)
    assert "only two" in said("1", "1", "1", status=2)


def test_progress_says_the_time_left(capsys):
    benchmark.print_progress(Progress(variant("plain", side="CPU"), 2, done=3, total=8, seconds_left=125.4))
    assert capsys.readouterr().err == "4 of 8: Plain, CPU, pass 2, about 2 min 05 s left\n"


def test_a_benchmark_is_listed_in_the_queue(capsys):
    keeper = KeeperRecord.of(os.getpid())
    queue.measure(queue.Entry(run="/benchmarks/1", device="auto", keeper=keeper, benchmark="BERT-tiny"))
    assert main(("queue",)) == 0
    words = capsys.readouterr().out.splitlines()[1].split()
    assert words == ["Benchmark", "measuring", "BERT-tiny", "–", "auto"]
    assert main(("queue", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["measuring"] == [{"title": "BERT-tiny", "device": "auto"}]

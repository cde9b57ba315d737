"""`hone bench` with a fake engine job: tables at the end, Ctrl-C, refusals, what was measured before."""

import csv
import io
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.benchmark import result as results
from core.benchmark.plan import methods_plan
from core.benchmark.result import Conditions
from core.benchmark.runner import Bench, EnginePass, Watch
from core.cli import benchmark
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from tests.fakes.bench import measured, result, variant
from tests.fakes.memory import Engine
from tests.fakes.runs import FAKES

TINY = ("bench", "methods", "--model", "tiny", "--steps", "4", "--passes", "1", "--no-compile")


class Blind(Watch):
    """Sees nothing, so that no table depends on what else this computer does."""

    def follow(self, pid): ...

    def mark(self): ...

    def stop(self):
        return Conditions()


def play(monkeypatch, scenario):
    command = [sys.executable, "-P", str(FAKES / "measuring_job.py"), scenario]
    monkeypatch.setattr(benchmark, "EnginePass", partial(EnginePass, command=command, watch=Blind))


def few(*arguments, **options):
    """The ladder's plan with three of its variants."""
    plan = methods_plan(*arguments, **options)
    chosen = [variant for variant in plan.variants if variant.name in ("plain", "bf16", "bf16-compile")]
    return replace(plan, variants=tuple(chosen))


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    monkeypatch.setattr(benchmark, "run_job", Engine().run_job)
    monkeypatch.setattr(benchmark, "methods_plan", few)
    play(monkeypatch, "sample")


def test_the_ladder_ends_with_a_table_and_is_saved(hone):
    out, err = hone(*TINY)
    table = out.split("\n\n")[1].splitlines()
    assert [line.split()[:4] for line in table[1:3]] == [
        ["plain", "8.00", "s", "8.00"],
        ["bf16", "8.00", "s", "8.00"],
    ]
    assert "+ compile: left out as requested" in out
    assert "1 of 2: plain, pass 1" in err
    [saved] = results.saved()
    assert str(saved.path) in err
    assert saved.result.is_whole
    assert queue.benchmarks() == []


@pytest.mark.skipif(os.name != "posix", reason="sends itself a POSIX signal")
def test_ctrl_c_keeps_what_is_done(monkeypatch, hone):
    stopped, stop, print_progress = threading.Event(), Bench.stop, benchmark.print_progress

    def interrupt(progress):
        print_progress(progress)
        if progress.done == 1:
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.wait(10)
        else:
            play(monkeypatch, "hang")

    monkeypatch.setattr(benchmark, "print_progress", interrupt)
    monkeypatch.setattr(Bench, "stop", lambda bench: (stop(bench), stopped.set()))
    assert "It ended before all passes were made." in hone(*TINY, status=130).out
    [saved] = results.saved()
    assert [len(row.passes) for row in saved.result.rows][:2] == [1, 0]
    assert not saved.result.is_whole


def test_it_is_measured_beside_a_run_only_where_that_is_wanted(hone):
    queue.hold(RunFolder(Path("/runs/digits").absolute()), "cpu", KeeperRecord.of(os.getpid()))
    devices = (
        "bench",
        "devices",
        "--models",
        "resnet18",
        "--images",
        "8",
        "--batch",
        "4",
        "--sides",
        "precisions",
    )
    err = hone(*devices, status=1).err
    assert "digits is running" in err
    assert "--beside" in err
    lines = csv.DictReader(io.StringIO(hone(*devices, "--beside", "--csv").out))
    assert [line["side"] for line in lines] == ["fp32", "bf16"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("methods", "--steps", "0"), "must be a number from 1 to 1,000,000, not '0'"),
        (("methods", "--model", "gpt-9"), "'bert-large', 'bert-base', 'minilm', 'tiny'"),
        (("methods", "--model", "tiny", "--run", "mine.hone"), "not allowed with"),
        (("devices", "--batch", "4,x"), "not 'x'"),
        (("devices", "--models", "resnet18,gpt-9"), "no model called 'gpt-9' is timed; there are "),
        (("devices", "--sides", "sideways"), "precisions"),
        (("devices", "--sides", "devices"), "CUDA can't be measured: "),
        (("methods", "--device", "cuda:7"), "cuda:7"),
        (("methods", "--run", "/nowhere/mine.hone"), "mine.hone"),
        (("results", "1"), "there is no result 1"),
        (("results", "--json", "--csv"), "not allowed with"),
        ((), "WHAT"),
    ],
)
def test_a_wrong_request_says_what_there_is_to_choose(arguments, message, hone):
    assert message in hone("bench", *arguments, status=2).err
    assert results.saved() == []


def test_results_are_listed_shown_and_compared(tmp_path, hone):
    bench = partial(hone, "bench", "results")
    assert "Nothing was measured yet" in bench().out
    for begun, second in ((1_760_000_000.0, 1.0), (1_760_009_000.0, 0.5)):
        path = results.save(result(measured(variant("plain"), *[second] * 4), begun=begun))
    (results.folder() / "broken.json").write_text("{")
    lines = bench().out.splitlines()
    assert [line.split()[0] for line in lines] == ["WHAT", "1", "2", "3"]
    assert lines[1].endswith("1 of 1, complete  Test GPU, 24 GB")
    assert "is damaged" in lines[3]
    assert bench("--json").json[2]["title"] == "broken.json"
    assert "4.00 s" in bench("1").out
    row = bench("1", "2").out.splitlines()[1]
    assert row.split()[:6] == ["Plain", "8.00", "16.0", "2.00", "×", "faster"]
    assert bench("2", "1", "--markdown").out.startswith("| Row |")
    sent = path.rename(tmp_path / "sent.json")
    assert bench(sent, "--json").json["plan"]["title"] == "Tiny BERT, 64 rows"
    assert "damaged" in bench("2", status=1).err
    assert "the same result" in bench("1", "1", status=2).err
    assert "only two" in bench("1", "1", "1", status=2).err


def test_a_benchmark_is_listed_in_the_queue(hone):
    keeper = KeeperRecord.of(os.getpid())
    queue.measure(queue.Entry(run="/benchmarks/1", device="auto", keeper=keeper, benchmark="BERT-tiny"))
    row = hone("queue").out.splitlines()[1].split()
    assert row == ["Benchmark", "measuring", "BERT-tiny", "–", "auto"]
    assert hone("queue", "--json").json["measuring"] == [{"title": "BERT-tiny", "device": "auto"}]

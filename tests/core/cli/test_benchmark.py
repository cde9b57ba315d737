"""`hone bench` with fake engines: the table at the end, refusals, what was measured before."""

import csv
import io
import os
from dataclasses import replace
from functools import partial

import msgspec
import pytest

from core.base import settings
from core.benchmark.methods import methods_plan
from core.benchmark.plan import list_benchmarks
from core.cli import benchmark
from core.options import past_runs
from core.runs.library import list_runs
from core.runs.words import ONLY_IF_IT_FITS
from tests.fakes.bench import make_benchmark
from tests.fakes.memory import Engine

TINY = ("bench", "methods", "--model", "tiny", "--steps", "4", "--no-compile")


def few(*arguments, **options):
    """The ladder's plan with three of its rows."""
    plan = methods_plan(*arguments, **options)
    rows = [row for row in plan.benchmark.rows if row.name in ("plain", "bf16", "bf16-compile")]
    chosen = {name: one for name, one in plan.options.items() if name in ("plain", "bf16")}
    return replace(plan, benchmark=msgspec.structs.replace(plan.benchmark, rows=tuple(rows)), options=chosen)


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    monkeypatch.setattr(benchmark, "run_job", Engine().run_job)
    monkeypatch.setattr(benchmark, "methods_plan", few)


def test_the_ladder_is_queued_and_ends_with_a_table(hone):
    out, err = hone(*TINY)
    title, table, *_ = out.split("\n\n")
    assert title == "BERT-tiny, 512 examples of 512 tokens"
    assert [line.split()[0] for line in table.splitlines()[1:3]] == ["plain", "bf16"]
    assert "bf16 + sdpa + compile: left out as requested" in out
    assert "2 runs of 4 timed steps. One more is left out; the table says why." in err
    assert ONLY_IF_IT_FITS not in os.environ, "a row that may not fit is measured, as in the window"
    runs = list_runs(settings.runs_folder())
    assert [past_runs.read(run.path).tags for run in runs] == [("methods-1",)] * 2
    lines = csv.DictReader(io.StringIO(hone("bench", "results", "1", "--csv").out))
    assert [line["name"] for line in lines] == ["plain", "bf16", "bf16-compile"]


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
    assert not list_benchmarks(settings.runs_folder())


def test_results_are_listed_and_shown(hone):
    bench = partial(hone, "bench", "results")
    assert "Nothing was measured yet" in bench().out
    first, _second = (make_benchmark(settings.runs_folder(), done=done) for done in (None, 2))
    lines = bench().out.splitlines()
    assert [line.split()[0] for line in lines] == ["WHAT", "1", "2"]
    assert lines[1].endswith("2 of 10")
    assert lines[2].startswith("2  Methods, BERT-large ")
    assert list(bench("--json").json) == ["Methods, BERT-large 2", "Methods, BERT-large"]
    assert "3.04" in bench("2").out
    assert "Tesla V100" in bench("2", "--published").out
    assert bench("2", "--markdown").out.startswith(f"### {first.benchmark.title}")
    assert bench("2", "--json").json[0]["samples_per_second"] == pytest.approx(3.04, abs=0.05)

"""Every developer's benchmark, declared once: what it measures, against whom, its goal, and how it is run."""

from collections.abc import Iterable
from typing import NamedTuple


class Benchmark(NamedTuple):
    """One benchmark.

    `name` is what a person asks for; `what` is measured, against `peer` ("" where there is none), and `goal` says in
    words what it has to come to: the figures bring it along in numbers. `script` is its file, run
    with `arguments`, or in the short form, which only shows that it works, with `quick`. Both get `--json FILE`, where
    its figures are read from (`suite.figures`). Where `data` isn't None the script needs the folder of data
    sets, of which it takes this part as `--data`.
    """

    name: str
    what: str
    peer: str
    goal: str
    script: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    data: str | None = None


BENCHMARKS = (
    Benchmark(
        "window-lateness",
        "how late a 16 ms timer of the window is while a model trains",
        "the same training in a thread of the window",
        "p99 <= 16 ms, worst <= 50 ms, the window's CPU <= 10 % of a core",
        "window_lateness.py",
        quick=("--seconds", "3", "--repeats", "1"),
    ),
    Benchmark(
        "window-flood",
        "the same at 1,000 events a second into 1,000,000 steps, eight charts in view",
        "",
        "p99 <= 16 ms, worst <= 50 ms",
        "window_flood.py",
        quick=("--seconds", "3", "--repeats", "1", "--steps", "20000"),
    ),
    Benchmark(
        "window-form",
        "from a changed field to the repainted forecast of memory",
        "",
        "median <= 50 ms",
        "window_form.py",
        quick=("--changes", "10"),
    ),
    Benchmark(
        "window-start",
        "from the command to the first painted window",
        'python -c "import torch"',
        "<= 1 s, and less than the peer",
        "window_start.py",
        quick=("--repeats", "1"),
    ),
    Benchmark(
        "plain-trainer",
        "a training step, and the loss of each",
        "the same run as a plain Trainer script",
        "ratio of paces >= 0.99, the same losses to the bit",
        "plain_trainer.py",
        quick=("--rounds", "1", "--steps", "12", "--eval-samples", "32"),
    ),
    Benchmark(
        "first-step",
        "from the click to the end of the first step",
        "the plain script, from its process's start",
        "ratio <= 1.1",
        "first_step.py",
        quick=("--rounds", "1"),
    ),
    Benchmark(
        "events",
        "events that are read and folded into a run's story a second",
        "json.loads of the same lines",
        "no slower than the peer, at least 10,000 a second",
        "events_a_second.py",
        quick=("--rounds", "1", "--steps", "5000"),
    ),
    Benchmark(
        "long-run",
        "opening a run of 1,000,000 steps in the window",
        "",
        "first paint <= 1 s, <= 200 MB, no point lost",
        "long_run.py",
        quick=("--steps", "20000", "--repeats", "1"),
    ),
    Benchmark(
        "monitoring",
        "a step while the run is watched, by turns within one run",
        "the same step with all watching off",
        "ratio of paces >= 0.99",
        "monitoring_turns.py",
        quick=("--turns", "6"),
    ),
    Benchmark(
        "forecast",
        "how far forecasts of memory are from what runs take",
        "the measured peak",
        "median within 10 %, worst within 20 %",
        "forecast.py",
        quick=("--only", "4 x 64", "--no-trace"),
    ),
    Benchmark(
        "faults-mutations",
        "damaged run files, events and folders, read by all that reads a run",
        "",
        "each opened, or refused with a reason",
        "faults/__main__.py",
        ("mutations",),
        ("mutations", "--count", "5", "--every", "5"),
    ),
    Benchmark(
        "faults-kills",
        "runs whose engine was killed, and which then went on",
        "the run that was left alone",
        "the same losses, weights and metrics, no event lost",
        "faults/__main__.py",
        ("kills",),
        ("kills", "--count", "1"),
    ),
    Benchmark(
        "faults-windows",
        "windows killed while a run trains",
        "",
        "the run goes on, the next window shows all of it",
        "faults/__main__.py",
        ("windows",),
        ("windows", "--count", "1"),
    ),
    Benchmark(
        "faults-disk",
        "runs that met a full disk, and went on once there was room",
        "the run that was left alone",
        "nothing damaged, the same losses",
        "faults/__main__.py",
        ("disk",),
        ("disk", "--count", "1"),
    ),
    Benchmark(
        "million-rows",
        "looking into data of a million rows, each kind",
        "a thousandth of the rows",
        "",
        "check_million.py",
        quick=("--rows", "2000", "--kind", "labels-csv"),
    ),
    Benchmark(
        "digits",
        "the first example, as a person trains it",
        "",
        "<= 90 s, accuracy >= 0.95",
        "digits.py",
    ),
    Benchmark(
        "compiled",
        "a step with torch.compile, and what compiling takes",
        "the same run uncompiled",
        "",
        "compiled.py",
        quick=("--steps", "6", "--rounds", "1"),
    ),
    Benchmark(
        "automatic",
        "MRPC with nothing chosen by hand",
        "the published script's settings",
        "5 times its throughput, mean losses within 0.01",
        "automatic.py",
        quick=("--steps", "4"),
        data="mrpc",
    ),
    Benchmark(
        "mrpc",
        "three epochs of MRPC",
        "a Trainer script written by hand",
        "ratio of throughputs >= 0.99",
        "mrpc.py",
        quick=("--rows", "64", "--epochs", "1"),
        data="mrpc",
    ),
    Benchmark(
        "tasks",
        "one run of each task on real data",
        "the first evaluation of each",
        "each task's own",
        "tasks.py",
        quick=("digits",),
        data="",
    ),
)


class UnknownNameError(LookupError):
    """No benchmark, and no group of them, is called so."""


def chosen(names: Iterable[str]) -> tuple[Benchmark, ...]:
    """Those that are called so, or whose group is (`faults` are all of them); without names all.

    Raises:
        UnknownNameError: One of the names is nobody's.
    """
    asked = set(names)
    unknown = {name for name in asked if not any(_is_called(one, name) for one in BENCHMARKS)}
    if unknown:
        raise UnknownNameError(", ".join(sorted(unknown)))
    return tuple(one for one in BENCHMARKS if not asked or any(_is_called(one, name) for name in asked))


def _is_called(benchmark: Benchmark, name: str) -> bool:
    return benchmark.name == name or benchmark.name.startswith(f"{name}-")

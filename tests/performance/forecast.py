"""How near the forecasts of memory come to what runs really take, in one invocation.

    .venv/bin/python tests/performance/forecast.py [--data FOLDER] [--only WORD ...] [--measured FILE]
    .venv/bin/python tests/performance/forecast.py --gpu

The runs of forecast_runs.py, each trained a few steps on the CPU in a fresh engine process as `hone train`
does it, in two groups: those the formulas were written with, and those held out. Measured is the peak of the process
(resident memory) less what it held when its libraries were loaded. Beside it stands the forecast, less what it counts
for the libraries, with its signed error; then the median and the worst error, by group. Goal: median within 10 %, worst
within 20 %; the exit status is 1 where one is missed. With `--measured` peaks are kept in a file, and runs found in it
are not trained again.

With `--gpu` the nine rows that transformers' guide on training with one GPU has measured (BERT-large, 512 tokens) are
trained on this computer's NVIDIA GPU, where there is one: what the allocator reserved and CUDA's context, measured,
forecast and as published.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from forecast_runs import BERT_LARGE, GROUPS, ROOT, Run, asked, cpu_runs, model_folder

from core.base.jobs import run_job
from core.benchmark.published import GUIDE
from core.memory import estimate
from core.memory.model import Forecast, ModelReport, model_request
from core.options import RunOptions
from core.options.device_support import DeviceReport, MachineReport
from tests.performance.suite.figures import Figure, add_json, at_most, figure, hand_over

MEDIAN_GOAL, WORST_GOAL = 0.10, 0.20
MIB = 1 << 20

GUIDE_MB: dict[str, tuple[int, dict[str, Any]]] = {
    "batch 4": (GUIDE["plain"].megabytes, {"memory.batch_size": 4}),
    "1 x 4": (GUIDE["accumulation"].megabytes, {"memory.gradient_accumulation_steps": 4}),
    "1 x 4, recomputed": (
        GUIDE["checkpointing"].megabytes,
        {"memory.gradient_accumulation_steps": 4, "memory.activation_checkpointing": True},
    ),
    "batch 4, fp16": (GUIDE["half"].megabytes, {"memory.batch_size": 4, "device.precision": "fp16"}),
    "1 x 4, recomputed, fp16": (
        GUIDE["all"].megabytes,
        {
            "memory.gradient_accumulation_steps": 4,
            "memory.activation_checkpointing": True,
            "device.precision": "fp16",
        },
    ),
    "batch 4, Adafactor": (
        GUIDE["adafactor"].megabytes,
        {"memory.batch_size": 4, "training.optimizer": "adafactor"},
    ),
    "all, Adafactor": (
        GUIDE["all-adafactor"].megabytes,
        {
            "memory.gradient_accumulation_steps": 4,
            "memory.activation_checkpointing": True,
            "device.precision": "fp16",
            "training.optimizer": "adafactor",
        },
    ),
    "batch 4, 8-bit": (
        GUIDE["adamw-8bit"].megabytes,
        {"memory.batch_size": 4, "training.optimizer": "adamw-8bit"},
    ),
    "all, 8-bit": (
        GUIDE["all-adamw-8bit"].megabytes,
        {
            "memory.gradient_accumulation_steps": 4,
            "memory.activation_checkpointing": True,
            "device.precision": "fp16",
            "training.optimizer": "adamw-8bit",
        },
    ),
}
"""Published figures in MB, and the options that give them. They were read from nvidia-smi on a V100."""


class Compared(NamedTuple):
    """Bytes beside the libraries."""

    run: Run
    measured: int
    base: int
    forecast: int


def main() -> int:
    arguments = read_arguments()
    if arguments.train_into:
        return train_here(arguments.run, arguments.train_into)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HONE_HOME"] = folder  # nothing is learned from other runs, nor taught
        return on_gpu(Path(folder)) if arguments.gpu else on_cpu(arguments, Path(folder))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with msr_paraphrase_train.txt")
    parser.add_argument("--only", nargs="*", default=(), help="words that a run's group and name must have")
    parser.add_argument("--gpu", action="store_true", help="the guide's nine rows on an NVIDIA GPU")
    parser.add_argument("--measured", type=Path, help="file that keeps what was measured")
    add_json(parser)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--train-into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def on_cpu(arguments: argparse.Namespace, folder: Path) -> int:
    """The tables of runs on this computer's CPU."""
    cpu, known = device("cpu"), read_measured(arguments.measured)
    found = []
    for group in GROUPS:
        print(f"{group:38}{'measured':>9}{'forecast':>10}{'error':>8}{'libraries':>11}")
        for run in cpu_runs(group, arguments.data, folder):
            if all(word in f"{group}: {run.name}" for word in arguments.only):
                if run.name not in known:
                    known[run.name] = trained(run, folder)
                    keep_measured(arguments.measured, known)
                found.append(compared(run, known[run.name], cpu))
                print(row(found[-1]), flush=True)
        print()
    print(f"MB beside the libraries, which the forecast takes to hold {estimate.LIBRARIES / MIB:,.0f} MB.")
    figures = [
        one for group in GROUPS for one in judged(group, [two for two in found if two.run.group == group])
    ]
    hand_over(arguments.json, figures)
    return int(any(one.reached is False for one in figures))


def read_measured(file: Path | None) -> dict[str, dict[str, int]]:
    """Bytes by the names of runs."""
    return json.loads(file.read_text()) if file is not None and file.exists() else {}


def keep_measured(file: Path | None, known: dict[str, dict[str, int]]) -> None:
    if file is not None:
        file.write_text(json.dumps(known, indent=1))


def compared(run: Run, measured: dict[str, int], where: DeviceReport) -> Compared:
    """Forecast a run that was measured."""
    told = forecast_of(run.options, where).parts.total - estimate.libraries_bytes(run.options)
    return Compared(run, measured["peak"] - measured["base"], measured["base"], told)


def forecast_of(options: RunOptions, where: DeviceReport) -> Forecast:
    report = run_job("check-model", model_request(options), ModelReport)
    if report.shape is None:
        raise SystemExit(f"{options.model.source}: {report.problems}")
    return estimate.forecast(options, report.shape, where)


def device(name: str) -> DeviceReport:
    machine = run_job("devices", None, MachineReport)
    return next(one for one in machine.devices if one.name == name)


def trained(run: Run, folder: Path) -> dict[str, int]:
    """Train it in a fresh process: `base` and `peak` in bytes."""
    from core.runs.library import create

    made = create(run.options, folder, Path(tempfile.mkdtemp(dir=folder)) / "run")
    out = made.path.parent / "measured.json"
    command = [sys.executable, __file__, "--run", str(made.path), "--train-into", str(out)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{run.name}:\n{done.stderr[-3000:]}")
    shutil.rmtree(made.path)
    return json.loads(out.read_text())


def train_here(path: Path, out: Path) -> int:
    """The engine's job `train`, with a look at the memory between its imports and its work."""
    from core.engine.environment import leave_aside, prepare_environment, prepare_torchvision
    from core.engine.reporter import Reporter
    from core.runs.event_log import EventReader
    from core.runs.folder import RunFolder

    run = RunFolder(path)
    options = run.options()
    prepare_environment(options)
    leave_aside(options)
    prepare_torchvision()
    from core.engine.memory.weigh import HeldMemory, gpu_used
    from core.engine.training.train import load_libraries, train_run

    load_libraries(options)
    used = gpu_used()
    with HeldMemory(options.device.name.partition(":")[0], gpu_used_before=used) as held:
        status = train_run(run, options, Reporter(run))
        peak = held.most()[0]
    if status:
        return status
    finished = EventReader(run.events_file).read_all()[-1]
    assert options.device.name != "cpu" or abs(finished.peak_bytes - peak) < MIB
    out.write_text(json.dumps({"base": held.base, "peak": peak}))
    return 0


def row(found: Compared) -> str:
    return (
        f"{found.run.name:38}{found.measured / MIB:9,.0f}{found.forecast / MIB:10,.0f}"
        f"{error(found.forecast, found.measured):+8.1%}{found.base / MIB:11,.0f}"
    )


def error(forecast: int, measured: int) -> float:
    """Positive: the forecast was too high."""
    return (forecast - measured) / measured


def judged(group: str, found: list[Compared]) -> list[Figure]:
    """Print median and worst error of a group; returns them as figures, in percent."""
    if not found:
        return []
    errors = [error(one.forecast, one.measured) for one in found]
    median, worst = statistics.median(map(abs, errors)), max(errors, key=abs)
    print(
        f"{group}: median {median:.1%} (goal {MEDIAN_GOAL:.0%}), worst {worst:+.1%}"
        f" (goal {WORST_GOAL:.0%}), {len(errors)} runs"
    )
    name = f"{group} ({len(found)} runs)"
    return [
        figure(f"{name}: median error", 100 * median, "%", goal=at_most(100 * MEDIAN_GOAL)),
        figure(f"{name}: worst error", 100 * abs(worst), "%", goal=at_most(100 * WORST_GOAL)),
    ]


def on_gpu(folder: Path) -> int:
    """The guide's rows on an NVIDIA GPU, against the guide's own figures and the forecast's."""
    gpu = device("cuda:0")
    if not gpu.available:
        print(f"The guide's rows are measured on an NVIDIA GPU only. {gpu.reason}")
        return 0
    source = str(model_folder(folder / "bert-large", BERT_LARGE))
    plain = {
        "task": "text-classification",
        "model.source": source,
        "data.train": "synthetic:512x512",
        "data.max_length": 512,
        "data.eval_fraction": 0.0,
        "memory.batch_size": 1,
    }
    print(f"{gpu.title}\n{'':28}{'guide':>9}{'measured':>10}{'forecast':>10}{'error':>8}")
    for words, (published, changes) in GUIDE_MB.items():
        run = Run(f"BERT-large, {words}", asked({**plain, **changes}, "cuda:0"))
        measured = trained(run, folder)["peak"]
        total = forecast_of(run.options, gpu).parts.total
        shown = f"{measured / MIB:10,.0f}{total / MIB:10,.0f}{error(total, measured):+8.1%}"
        print(f"{words:28}{published:9,}{shown}", flush=True)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())

"""What one NVIDIA card shows, in parts that together take 35 minutes or less: `python3 start.py bench --gpu`.

    python -m tests.performance.gpu PART [--device cpu] [--minutes 5]

`--device cpu` tries every part without a card, with tiny models: it shows that they work, and its figures say nothing.
A part begins nothing new once its minutes are over, and names what it left out. Nothing is downloaded: the weights are
random, made from a config.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from core.base.jobs import run_job
from core.benchmark import table
from core.benchmark.figures import read_result
from core.benchmark.methods import methods_plan
from core.benchmark.plan import BenchmarkKind, Measured, create
from core.jobs.devices import CHECK_SECONDS, DeviceCheckReport, DeviceCheckRequest
from core.options.device_support import DeviceReport, MachineReport, machine_problems
from core.options.device_support import find_device as device_in
from core.runs.event_log import EventReader
from core.runs.events import Action, StepFinished, WhatRan
from core.runs.folder import RunFolder
from core.runs.status import State
from tests.performance import forecast
from tests.performance.faults.training import Attended, losses, new_run
from tests.performance.figures import (
    ROOT,
    Figure,
    at_least,
    at_most,
    figure,
    main,
    medians,
    own_home,
    progress,
)

MIB = 1 << 20
STEPS = 12
PAUSED_AT = 4


class Part(NamedTuple):
    """What a part needs: the device, whether it is the dry run on a CPU, its home, and when it begins nothing new."""

    device: DeviceReport
    machine: MachineReport
    is_dry: bool
    folder: Path
    deadline: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.deadline


# --- The tests that need a card


def tests(part: Part) -> list[Figure]:
    """The tests marked `gpu`; without a card they are skipped."""
    return marked(part, "gpu", "tests/core/engine/devices")


def marked(part: Part, marker: str, folder: str) -> list[Figure]:
    report = part.folder / "tests.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:pytest-qt",
        "-q",
        "-m",
        marker,
        "-p",
        "no:cacheprovider",
        folder,
    ]
    with subprocess.Popen([*command, f"--junitxml={report}"], cwd=ROOT, stdout=sys.stderr) as process:
        process.wait()
    suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    total, failed, skipped = (
        int(suite.get("tests", 0)),
        int(suite.get("failures", 0)) + int(suite.get("errors", 0)),
        int(suite.get("skipped", 0)),
    )
    ran = None if part.is_dry else at_least(total)
    return [
        figure(f"tests marked {marker} that passed", total - failed - skipped, f"of {total}", goal=ran),
        figure("that failed", failed, goal=at_most(0)),
    ]


# --- Whether the card computes what the CPU computes


def check(part: Part) -> list[Figure]:
    """The device check, in full; in the dry run the short one."""
    return checked(part, short=part.is_dry)


def checked(part: Part, *, short: bool) -> list[Figure]:
    request = DeviceCheckRequest(device=part.device.name, short=short)
    report = run_job("check-device", request, DeviceCheckReport, timeout=CHECK_SECONDS)
    figures = [
        figure(
            f"{each.name} ({each.agreement.value}): relative error",
            each.worst_error,
            goal=at_most(each.tolerance),
        )
        for each in report.comparisons
        if each.worst_error is not None
    ]
    differing = sum(each.differs for each in report.comparisons)
    left_out = sum(not each.agrees and not each.differs for each in report.comparisons)
    return [
        *figures,
        figure("comparisons that differ", differing, goal=at_most(0)),
        figure("comparisons that were not made", left_out),
    ]


# --- The guide's ladder


def ladder(part: Part) -> list[Figure]:
    """BERT-large on 512 random tokens: the guide's nine rows and today's, beside the guide's figures (a V100)."""
    plan = methods_plan(
        part.machine,
        size="tiny" if part.is_dry else "bert-large",
        device=part.device.name,
        steps=1 if part.is_dry else None,
    )
    measured, done = create(plan, part.folder / "ladder"), dict[str, RunFolder]()
    for name, run in measured.runs.items():
        if part.is_over or (part.is_dry and len(done) == len(IN_DRY_RUN)):
            break
        progress(f"{name} ...")
        done[name] = trained(run)
    figures = []
    for one in read_result(Measured(measured.benchmark, done)).rows:
        title, speed = one.row.full_title, one.samples_per_second
        if speed is None or one.peak is None:
            figures.append(left_out(title, one.row.refusal or one.problem))
            continue
        theirs = table.published_row(BenchmarkKind.METHODS, one.row) or {}
        figures.append(
            figure(f"{title}: speed", speed.median, "samples/s", peer=theirs.get("samples_per_second"))
        )
        figures.append(figure(f"{title}: memory", one.peak / MIB, "MiB", peer=theirs.get("megabytes")))
    return figures


def left_out(title: str, reason: str) -> Figure:
    """A row without figures, and why."""
    return figure(f"{title}: left out ({reason or 'the time was over'})", 0.0)


# --- What ran


class Method(NamedTuple):
    """A method: the options that ask for it, what the run said of it, and the pattern that this has to match."""

    changes: forecast.Changes
    ran: Callable[[WhatRan], str]
    expected: str


def numbers(ran: WhatRan) -> str:
    return f"{ran.autocast_dtype}, loss scale {ran.loss_scale}"


SIXTEEN_BITS: forecast.Changes = {"model.frozen_precision": "bf16"}
METHODS = {
    "fp32": Method({}, numbers, "None, loss scale None"),
    "bf16": Method(forecast.BF16, numbers, "bfloat16, loss scale None"),
    "fp16": Method({"device.precision": "fp16"}, numbers, r"float16, loss scale \d+.*"),
    "tf32": Method({"device.precision": "tf32"}, lambda ran: ran.matmul, "tf32"),
    "sdpa": Method({"model.attention": "sdpa"}, lambda ran: str(ran.attention), "sdpa"),
    "FlashAttention 2": Method(
        {"model.attention": "flash_attention_2", **forecast.BF16},
        lambda ran: str(ran.attention),
        "flash_attention_2",
    ),
    "8-bit AdamW": Method(forecast.EIGHT_BIT, lambda ran: ran.optimizer, ".*8-bit.*"),
    "paged 8-bit AdamW": Method(
        {"training.optimizer": "paged-adamw-8bit"}, lambda ran: ran.optimizer, ".*8-bit.*paged.*"
    ),
    "8-bit AdamW of torchao": Method(
        {"training.optimizer": "adamw-8bit-torchao"}, lambda ran: ran.optimizer, ".*8bit.*torchao.*"
    ),
    "Adafactor": Method({"training.optimizer": "adafactor"}, lambda ran: ran.optimizer, "Adafactor.*"),
    "pinned memory": Method({"data.pin_memory": "on"}, lambda ran: str(ran.pinned), "True"),
    "workers": Method({"data.workers": 2}, lambda ran: str(len(ran.workers)), "2"),
    "checkpointing": Method(forecast.RECOMPUTED, lambda ran: f"{ran.recomputed} modules", "[1-9].*"),
    "LoRA, 16-bit base": Method(
        {**forecast.LORA, **SIXTEEN_BITS},
        lambda ran: ran.parameter_dtype,
        r"bfloat16 \+ float32",
    ),
    "QLoRA": Method(forecast.QLORA, lambda ran: ran.adapter, r"QLoRA \(nf4\).*"),
    "compile": Method({"device.compile": True}, lambda ran: ran.compiled, "inductor.*"),
}
IN_DRY_RUN = ("fp32", "LoRA, 16-bit base")


def methods(part: Part) -> list[Figure]:
    """A short run of a small Llama for each method: the time of a step, and what the run says that it ran."""
    source = forecast.model(part.folder, "bert-small" if part.is_dry else "llama")
    size = (64, 32, 4) if part.is_dry else (1024, 256, 16)
    figures, plain, wrong = [], None, 0
    for name, method in METHODS.items():
        if part.is_dry and name not in IN_DRY_RUN:
            continue
        options = forecast.options_of(
            {**forecast.text(source, *size), **method.changes}, part.device.name, STEPS if part.is_dry else 30
        )
        refusals = machine_problems(part.machine, options)
        if reason := next((problem.message for problem in refusals), ""):
            figures.append(left_out(name, reason))
            continue
        if part.is_over:
            figures.append(left_out(name, ""))
            continue
        progress(f"{name} ...")
        run = trained(new_run(options, part.folder / "methods" / re.sub(r"\W+", "-", name)))
        events = EventReader(run.events_file).read_all()
        steps = [event.seconds for event in events if isinstance(event, StepFinished)]
        ran = next((event for event in events if isinstance(event, WhatRan)), None)
        said = method.ran(ran) if ran else f"failed: {run.log_file.read_text('utf-8').splitlines()[-1:]}"
        if re.fullmatch(method.expected, said) is None:
            wrong, said = wrong + 1, f"NOT AS ASKED: {said}"
        if steps:
            step = medians([{"seconds": seconds} for seconds in steps[len(steps) // 2 :]])["seconds"]
            plain = plain or step
            figures.append(figure(f"{name}: {said}", 1000 * step, "ms a step", peer=1000 * plain))
        else:
            figures.append(left_out(name, said))
    return [*figures, figure("methods that ran otherwise than asked", wrong, goal=at_most(0))]


def trained(run: RunFolder) -> RunFolder:
    attended = Attended(run)
    try:
        attended.until_over()
    finally:
        attended.end()
    return run


# --- The forecast of memory


GUIDE_CHANGES: dict[str, forecast.Changes] = {
    "plain": {"memory.batch_size": 4},
    "accumulation": {"memory.gradient_accumulation_steps": 4},
    "checkpointing": {"memory.gradient_accumulation_steps": 4, **forecast.RECOMPUTED},
    "half": {"memory.batch_size": 4, "device.precision": "fp16"},
    "adafactor": {"memory.batch_size": 4, "training.optimizer": "adafactor"},
    "adamw-8bit": {"memory.batch_size": 4, **forecast.EIGHT_BIT},
}
GUIDE_CHANGES["all"] = {**GUIDE_CHANGES["checkpointing"], "device.precision": "fp16"}
GUIDE_CHANGES["all-adafactor"] = {**GUIDE_CHANGES["all"], "training.optimizer": "adafactor"}
GUIDE_CHANGES["all-adamw-8bit"] = {**GUIDE_CHANGES["all"], **forecast.EIGHT_BIT}
"""What each row of the guide changes of batch 1 in fp32. Its figures were read from nvidia-smi on a V100."""


def memory_runs(part: Part) -> dict[str, forecast.Changes]:
    """Twelve runs by name: the guide's nine, and three of today; in the dry run a small one."""
    if part.is_dry:
        small = forecast.text(forecast.model(part.folder, "bert-small"), 32, 32, 2)
        return {"small BERT, LoRA": {**small, **forecast.LORA}}
    plain, guide = (
        forecast.text(forecast.model(part.folder, "bert-large"), 512, 512, 1),
        table.published()["methods"],
    )
    runs = {
        f"{row} (guide: {guide[row]['megabytes']:,} MB)": {**plain, **changes}
        for row, changes in GUIDE_CHANGES.items()
    }
    decoder = {**forecast.text(forecast.model(part.folder, "llama-1b"), 64, 512, 4), **forecast.BF16}
    runs["1B decoder, LoRA, 16-bit base"] = {**decoder, **forecast.LORA, **SIXTEEN_BITS}
    runs["1B decoder, QLoRA"] = {**decoder, **forecast.QLORA}
    return {**runs, "ResNet-50, 32 x 224 px": forecast.images("resnet50", 256, 224, 32)}


def forecasts(part: Part) -> list[Figure]:
    """Forecast and peak of each run: what the allocator reserved, and CUDA's context."""
    figures, errors = [], []
    for name, changes in memory_runs(part).items():
        if part.is_over:
            figures.append(left_out(name, ""))
            continue
        options = forecast.options_of(changes, part.device.name)
        peak = forecast.trained(options, part.folder)["peak"]
        total = forecast.forecast_parts(options, part.device).total
        errors.append(abs(total - peak) / peak)
        progress(f"{name}: {peak / MIB:,.0f} MiB, forecast {total / MIB:,.0f} MiB")
        figures.append(figure(f"{name}: forecast, against the peak", total / MIB, "MiB", peer=peak / MIB))
    worst = None if part.is_dry else at_most(20)
    return [*figures, figure("worst error", 100 * max(errors, default=0.0), "%", goal=worst)]


# --- Pause and resume


def resume(part: Part) -> list[Figure]:
    asked = forecast.text(forecast.model(part.folder, "bert-small"), 128, 64, 4)
    return resumed(part, {**asked, "training.deterministic": True})


def resumed(part: Part, asked: forecast.Changes) -> list[Figure]:
    """A run that is paused after four steps and resumed, against the same run left alone."""
    asked = {**asked, "output.save_steps": 4}
    options = forecast.options_of(asked, part.device.name, STEPS)
    alone = losses(trained(new_run(options, part.folder / "alone")))
    attended = Attended(new_run(options, part.folder / "paused"))
    try:
        attended.until(lambda: len(losses(attended.run)) >= PAUSED_AT)
        attended.run.request(Action.PAUSE)
        attended.until_over()
        paused = attended.follower.state is State.PAUSED
        if paused:
            attended.resume()
            attended.until_over()
    finally:
        attended.end()
    again = losses(attended.run)
    apart = [abs((again.get(step) or 0.0) - (loss or 0.0)) for step, loss in alone.items()]
    return [
        figure("the run was paused (1) and not over before (0)", float(paused), goal=at_least(1)),
        figure("steps compared", len(alone), goal=at_least(STEPS)),
        figure("largest difference of a step's loss", max(apart, default=1.0), goal=at_most(0)),
    ]


# --- Command line


PARTS: dict[str, Callable[[Part], list[Figure]]] = {
    "tests": tests,
    "check": check,
    "ladder": ladder,
    "methods": methods,
    "forecast": forecasts,
    "resume": resume,
}


def measure(
    parts: Mapping[str, Callable[[Part], list[Figure]]], arguments: argparse.Namespace
) -> list[Figure]:
    """Measure one of `parts`. SystemExit if the device isn't there."""
    machine = run_job("devices", None, MachineReport)
    device = device_in(machine, arguments.device)
    if device is None or not device.available:
        raise SystemExit(f"{arguments.device} isn't available here. {device.reason if device else ''}")
    with own_home() as home, tempfile.TemporaryDirectory(prefix="hone-gpu-", dir=home) as folder:
        deadline = time.monotonic() + 60 * arguments.minutes
        is_dry = device.name == "cpu"
        return parts[arguments.part](Part(device, machine, is_dry, Path(folder), deadline))


def add_part(names: Iterable[str], parser: argparse.ArgumentParser) -> None:
    parser.add_argument("part", choices=list(names))


if __name__ == "__main__":
    defaults = {"device": "cuda:0", "minutes": 5.0}
    main(__doc__, partial(measure, PARTS), defaults, partial(add_part, PARTS))

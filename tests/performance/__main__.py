"""The developers' benchmarks: `python3 start.py bench`.

Each runs in a process of its own (`python -m tests.performance.NAME`), which writes its figures into a file. A file
under tests/performance/results/ keeps the results of a machine and a day.
"""

import argparse
import contextlib
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from core.base import formats
from core.base.files import write_atomically
from core.base.jobs import run_job
from core.base.settings import VERSION
from core.memory.model import BUSY
from core.options.device_support import MachineReport
from tests.performance.figures import ROOT, Figure, table

RESULTS = ROOT / "tests" / "performance" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
BEGIN = "<!-- benchmarks: made by `python3 start.py bench --page` -->"
END = "<!-- benchmarks: end -->"
IDLE_SECONDS = 1.0
"""For how long the load by other programs is sampled."""
LAST_LINES = 12
VERSIONS_SHOWN = ("hone", "torch", "transformers", "PySide6-Essentials", "PySide6", "python", "Python")


class Benchmark(NamedTuple):
    """One benchmark: what it measures and against what, its module, its arguments and those of its short form.

    `data` is the part of the folder of data sets that it needs; None if it needs no data. `seconds` is the most it may
    take; None: as long as it takes.
    """

    name: str
    what: str
    peer: str
    module: str
    arguments: str = ""
    quick: str = ""
    data: str | None = None
    seconds: float | None = None


GPU = "gpu"
"""The group of benchmarks that need an NVIDIA card; they aren't run unless they are named."""
GPU_PARTS = {
    "tests": ("the tests that need a card", "", 5),
    "check": ("what the card computes", "the CPU", 2),
    "ladder": ("BERT-large, 512 tokens, by each method", "the guide's V100", 9),
    "methods": ("a step of each method, and what it says that it ran", "the first row", 7),
    "forecast": ("forecasts of memory for twelve runs", "the measured peak", 8),
    "resume": ("a paused and resumed run", "the run that was left alone", 2),
}
"""Parts of `tests.performance.gpu`: what each measures, against what, and in how many minutes: 33 together."""
MAC = "mac"
"""The group of benchmarks that need a Mac with Apple silicon; likewise."""
MAC_PARTS = {
    "tests": ("the tests that need Apple silicon", "", 3),
    "check": ("what the GPU computes with MLX and with PyTorch", "the CPU", 2),
    "ladder": ("a Llama by MLX, plainly, with LoRA and with QLoRA", "PyTorch on MPS", 8),
    "forecast": ("forecasts of memory for twelve runs on MLX", "the measured peak", 8),
    "resume": ("a paused and resumed run on MLX", "the run that was left alone", 2),
    "heat": ("steps a minute after ten minutes of training", "the first minute", 12),
}
"""Parts of `tests.performance.mac`: 35 minutes together."""

BENCHMARKS = (
    Benchmark(
        "window-lateness",
        "how late a 16 ms timer of the window is while a model trains",
        "the same training in a thread of the window",
        "window_lateness",
        quick="--seconds 3 --repeats 1",
    ),
    Benchmark(
        "window-form",
        "from a changed field to the repainted forecast of memory",
        "",
        "window_form",
        quick="--changes 10",
    ),
    Benchmark(
        "window-start",
        "from the command to the first painted window",
        'python -c "import torch"',
        "window_start",
        quick="--repeats 1",
    ),
    Benchmark(
        "plain-trainer",
        "a training step, and the loss of each",
        "the same run as a plain Trainer script",
        "plain_trainer",
        quick="--rounds 1 --steps 12 --eval-samples 32",
    ),
    Benchmark(
        "first-step",
        "from the click to the end of the first step",
        "the plain script, from its process's start",
        "plain_trainer",
        "--first-step",
        "--first-step --rounds 1",
    ),
    Benchmark(
        "events",
        "events that are read and folded into a run's state a second",
        "json.loads of the same lines",
        "events_a_second",
        quick="--rounds 1 --steps 5000",
    ),
    Benchmark(
        "long-run",
        "opening a run of 1,000,000 steps in the window",
        "",
        "long_run",
        quick="--steps 20000 --repeats 1",
    ),
    Benchmark(
        "forecast",
        "how far forecasts of memory are from what runs take",
        "the measured peak",
        "forecast",
        quick="--only '4 x 64'",
    ),
    Benchmark(
        "faults-mutations",
        "damaged run files, events and folders, read by all that reads a run",
        "",
        "faults",
        "mutations",
        "mutations --count 5 --every 5",
    ),
    Benchmark(
        "faults-kills",
        "runs whose engine was killed, and which then went on",
        "the run that was left alone",
        "faults",
        "kills",
        "kills --count 1",
    ),
    Benchmark(
        "faults-windows", "windows killed while a run trains", "", "faults", "windows", "windows --count 1"
    ),
    Benchmark(
        "faults-disk",
        "runs that met a full disk, and went on once there was room",
        "the run that was left alone",
        "faults",
        "disk",
        "disk --count 1",
    ),
    Benchmark(
        "hosts",
        "runs on other computers whose connection, keeper, ranks or cable fail",
        "the run that was left alone",
        "hosts",
        quick="connections --count 2 --good",
    ),
    Benchmark(
        "digits",
        "the first example, as a person trains it",
        "its first evaluation",
        "tasks",
        "digits",
        "digits",
    ),
    Benchmark(
        "mrpc",
        "three epochs of MRPC",
        "a Trainer script written by hand",
        "mrpc",
        quick="--rows 64 --epochs 1",
        data="mrpc",
    ),
    Benchmark(
        "tasks",
        "one run of each task on real data",
        "the first evaluation of each",
        "tasks",
        quick="digits",
        data="",
    ),
    *(
        Benchmark(
            f"{group}-{part}",
            what,
            peer,
            group,
            f"{part} --minutes {minutes - 0.5}",
            f"{part} --device cpu",
            seconds=60.0 * minutes,
        )
        for group, parts in ((GPU, GPU_PARTS), (MAC, MAC_PARTS))
        for part, (what, peer, minutes) in parts.items()
    ),
)


class Form(StrEnum):
    """How much was measured."""

    FULL = "full"
    QUICK = "quick"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one benchmark. `begun` is unix seconds, `seconds` its duration.

    `busy_before` and `busy_after` are the share of all cores (0 to 1) that other programs kept busy right before it and
    right after it. `problem` says why there are no figures; empty if there are some.
    """

    name: str
    what: str
    peer: str
    form: Form
    begun: float
    seconds: float = 0.0
    busy_before: float = 0.0
    busy_after: float = 0.0
    figures: tuple[Figure, ...] = ()
    problem: str = ""

    @property
    def is_reached(self) -> bool:
        return not self.problem and not any(row.reached is False for row in self.figures)

    @property
    def was_disturbed(self) -> bool:
        return max(self.busy_before, self.busy_after) > BUSY


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The computer that figures were measured on."""

    title: str
    processor: str = ""
    cores: int = 0
    memory: int = 0
    accelerator: str = ""
    system: str = ""
    versions: dict[str, str] = {}


def this_machine(report: MachineReport) -> Machine:
    """Describe this computer."""
    titles = {device.name: device.title for device in report.devices}
    processor = titles.get("cpu") or platform.processor() or platform.machine()
    gpus = [device for device in report.devices if device.available and device.name != "cpu"]
    accelerator = gpus[0].title if gpus else ""
    if gpus and gpus[0].memory_bytes:
        accelerator += f", {formats.memory(gpus[0].memory_bytes)}"
    if len(gpus) > 1:
        accelerator = f"{len(gpus)} x {accelerator}"
    memory = int(psutil.virtual_memory().total)
    mac = platform.mac_ver()[0]
    return Machine(
        title=f"{accelerator or processor}, {formats.memory(memory)}",
        processor=processor,
        cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 0,
        memory=memory,
        accelerator=accelerator,
        system=f"macOS {mac}" if mac else f"{platform.system()} {platform.release()}",
        versions={"hone": VERSION, **report.versions},
    )


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of a day on a machine, in the order of `BENCHMARKS`."""

    date: str
    machine: Machine
    outcomes: tuple[Outcome, ...] = ()
    schema: int = 1

    def with_outcome(self, new: Outcome) -> "Record":
        """The same with one more outcome, which replaces one of the same benchmark in the same form."""
        place = {benchmark.name: number for number, benchmark in enumerate(BENCHMARKS)}
        kept = [old for old in self.outcomes if (old.name, old.form) != (new.name, new.form)]
        ordered = sorted(
            [*kept, new], key=lambda outcome: (outcome.form, place.get(outcome.name, len(place)))
        )
        return msgspec.structs.replace(self, outcomes=tuple(ordered))


def main(arguments: list[str]) -> int:
    """Run what was requested; 0 if all goals were reached, 1 if one was missed or a benchmark failed."""
    parser = argparse.ArgumentParser(
        prog="start.py bench",
        description="Run the developers' benchmarks, print a table each, and keep the figures under "
        "tests/performance/results/. The exit status is 1 if a goal is missed.",
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="which; default: all, which takes hours")
    add(
        "--gpu",
        action="store_true",
        help="what an NVIDIA card shows in 35 minutes; --quick tries it on the CPU",
    )
    add(
        "--mac",
        action="store_true",
        help="what a Mac with Apple silicon shows in 35 minutes; --quick tries it on the CPU",
    )
    add("--list", action="store_true", help="only name them, with what each measures")
    add("--quick", action="store_true", help="short forms, which only show that they work")
    add("--data", type=Path, metavar="FOLDER", help="data sets, for those that need some")
    add("--results", type=Path, metavar="FOLDER", default=RESULTS, help="keep them here")
    add(
        "--page",
        action="store_true",
        help="only put the newest results into docs/benchmarks.md and README.md",
    )
    options = parser.parse_args(arguments)
    if options.list:
        rows = [
            (each.name, each.what, each.peer or "-", "" if each.data is None else "--data")
            for each in BENCHMARKS
        ]
        print(formats.table(("name", "measures", "against", "needs"), rows))
        return 0
    if options.page:
        PAGE.write_text(with_results(PAGE.read_text("utf-8"), newest(options.results)), "utf-8")
        README.write_text(
            with_results(README.read_text("utf-8"), newest(options.results, of_gpu=True)), "utf-8"
        )
        return 0
    options.names += [GPU] if options.gpu else []
    options.names += [MAC] if options.mac else []
    unknown = [name for name in options.names if not by_name([name])]
    if unknown:
        print(f"There is no benchmark called {', '.join(unknown)}. --list names them all.", file=sys.stderr)
        return 2
    wanted = by_name(options.names)
    without_data = [each.name for each in wanted if each.data is not None and options.data is None]
    if without_data and options.names:
        print(f"{', '.join(without_data)}: name the folder of data sets with --data.", file=sys.stderr)
        return 2
    if without_data:
        print(f"Left out, because they need data sets (--data): {', '.join(without_data)}.")
    runnable = [each for each in wanted if each.name not in without_data]
    form = Form.QUICK if options.quick else Form.FULL
    report = run_job("devices", None, MachineReport)
    needs_mac = [each for each in runnable if group_of(each.name) == MAC and form is Form.FULL]
    if needs_mac and not any(device.available and device.name == "mps" for device in report.devices):
        print("Left out, because this is no Mac with Apple silicon; --quick tries them on the CPU:")
        print(", ".join(each.name for each in needs_mac))
        runnable = [each for each in runnable if each not in needs_mac]
        if not runnable:
            return 0
    return run_all(runnable, form, options.data, options.results, this_machine(report))


def by_name(names: Iterable[str]) -> list[Benchmark]:
    """The benchmarks of these names or groups (`faults`); without names all that need neither a card nor a Mac."""
    wanted = set(names) or {group_of(each.name) for each in BENCHMARKS} - {GPU, MAC}
    return [each for each in BENCHMARKS if wanted & {each.name, group_of(each.name)}]


def group_of(name: str) -> str:
    return name.partition("-")[0]


def run_all(
    wanted: Iterable[Benchmark], form: Form, data: Path | None, folder: Path, machine: Machine
) -> int:
    """Run benchmarks one after the other, keeping the outcome of each as soon as it is there."""
    # A kernel's local name is left out: `Linux 6.1.0`.
    machine = msgspec.structs.replace(machine, system=machine.system.partition("-")[0])
    day = date.today()
    file = file_for(folder, machine, day)
    record = Record(date=day.isoformat(), machine=machine)
    if file.exists():
        record = msgspec.structs.replace(read(file), machine=machine)
    is_reached = True
    for benchmark in wanted:
        print(f"\n{benchmark.name}: {benchmark.what} ...", flush=True)
        outcome = run(benchmark, form, data)
        is_reached &= outcome.is_reached
        shown = f"NO FIGURES: {outcome.problem}" if outcome.problem else table(outcome.figures)
        print(f"\n{shown}", flush=True)
        if outcome.was_disturbed:
            print("Other programs were busy: its times say little.")
        record = record.with_outcome(outcome)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    print(f"\nkept in {file}", flush=True)
    return 0 if is_reached else 1


def run(benchmark: Benchmark, form: Form, data: Path | None) -> Outcome:
    """Run a benchmark in a home of its own, passing its messages on to this process's standard error."""
    before, begun = busy(), time.time()
    with tempfile.TemporaryDirectory(prefix="hone-bench-") as folder:
        out = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"tests.performance.{benchmark.module}"]
        command += shlex.split(benchmark.quick if form is Form.QUICK else benchmark.arguments)
        if data is not None and benchmark.data is not None:
            command += ["--data", str((data / benchmark.data).resolve())]
        last: deque[str] = deque(maxlen=LAST_LINES)
        with subprocess.Popen(
            [*command, "--json", str(out)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "HONE_HOME": str(Path(folder) / "home")},
        ) as process:
            assert process.stderr is not None
            limit = threading.Timer(benchmark.seconds or threading.TIMEOUT_MAX, end, [process.pid])
            limit.daemon = True  # else the program would wait for it after Ctrl-C
            limit.start()
            for line in process.stderr:
                print(line, end="", file=sys.stderr, flush=True)
                last.append(line.rstrip())
            limit.cancel()
        figures, problem = (), "\n".join([f"it ended with status {process.returncode}", *last])
        if out.exists():
            figures, problem = msgspec.json.decode(out.read_bytes(), type=tuple[Figure, ...]), ""
    return Outcome(
        name=benchmark.name,
        what=benchmark.what,
        peer=benchmark.peer,
        form=form,
        begun=begun,
        seconds=time.time() - begun,
        busy_before=before,
        busy_after=busy(),
        figures=figures,
        problem=problem,
    )


def end(pid: int) -> None:
    """End a benchmark that takes too long, with the engines it started."""
    process = psutil.Process(pid)
    for each in [*process.children(recursive=True), process]:
        with contextlib.suppress(psutil.Error):
            each.kill()


def busy() -> float:
    """The share of all cores (0 to 1) that is busy now, while this process waits."""
    return psutil.cpu_percent(interval=IDLE_SECONDS) / 100


def file_for(folder: Path, machine: Machine, day: date) -> Path:
    """The file for the results of a machine and a day: `DATE-MACHINE.json`."""
    words = (
        machine.processor or machine.title,
        f"{machine.cores} cores",
        machine.accelerator,
        machine.system.partition(" ")[0],
    )
    plain = re.sub(r"[^a-z0-9]+", "-", " ".join(filter(None, words)).lower()).strip("-")
    return folder / f"{day.isoformat()}-{plain[:80].strip('-')}.json"


def read(file: Path) -> Record:
    """Raises msgspec.MsgspecError if the file holds something else."""
    return msgspec.json.decode(file.read_bytes(), type=Record)


def newest(folder: Path, *, of_gpu: bool = False) -> Record | None:
    """The results that were measured last, of the benchmarks that need a card or of those that need no accelerator.

    None without any.
    """
    records = []
    for file in folder.glob("*.json"):
        with contextlib.suppress(msgspec.MsgspecError):
            record = read(file)
            kept = tuple(
                old
                for old in record.outcomes
                if (group_of(old.name) == GPU if of_gpu else group_of(old.name) not in (GPU, MAC))
            )
            records += [msgspec.structs.replace(record, outcomes=kept)] if kept else []
    return max(records, key=lambda record: max(old.begun for old in record.outcomes), default=None)


def with_results(page: str, record: Record | None) -> str:
    """A page with the results in full form between its marks."""
    before, _begin, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    full = [outcome for outcome in record.outcomes if outcome.form is Form.FULL] if record else []
    inner = markdown(record, full) if record and full else "No results are kept yet."
    return f"{before}{BEGIN}\n\n{inner}\n\n{END}{after}"


def markdown(record: Record, outcomes: list[Outcome]) -> str:
    """Outcomes as a table in Markdown, with the machine and the date."""
    machine = record.machine
    parts = [machine.processor or machine.title, formats.counted(machine.cores, "core")]
    parts += [formats.memory(machine.memory)] if machine.memory else []
    parts += [machine.accelerator or "no GPU", machine.system]
    parts += [f"{name} {machine.versions[name]}" for name in VERSIONS_SHOWN if name in machine.versions]
    lines = [
        f"Measured on {', '.join(filter(None, parts))}, on {record.date}.",
        "",
        "| benchmark | against | figure | Hone | peer | ratio | goal | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        head = f"`{outcome.name}`: {outcome.what} | {outcome.peer or '-'}"
        if outcome.problem:
            reason = outcome.problem.splitlines()[-1].replace("|", "/")
            lines.append(f"| {head} | no figures: {reason} | | | | | |")
        for row in outcome.figures:
            lines.append(f"| {head} | {' | '.join(row.cells())} |")
            head = " | "
    if disturbed := ", ".join(outcome.name for outcome in outcomes if outcome.was_disturbed):
        lines += ["", f"Other programs computed at the same time: {disturbed}. Their times say little."]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

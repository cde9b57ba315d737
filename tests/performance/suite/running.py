"""Running one benchmark: its script in a process of its own, whose figures are read back."""

import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import msgspec
import psutil

from tests.performance.suite.entries import Benchmark
from tests.performance.suite.figures import Figure, taken_from
from tests.performance.suite.record import Form, Outcome

ROOT = Path(__file__).resolve().parents[3]
LOOK_SECONDS = 1.0
"""How long the processors are watched before and after, for what others do."""

LAST_LINES = 12


def run(benchmark: Benchmark, form: Form, data: Path | None) -> Outcome:
    """Run a benchmark to its end, its own words going where this process's go."""
    before, begun = busy(), time.time()
    figures, problem = _measure(benchmark, form, data)
    seconds = time.time() - begun
    return Outcome(
        name=benchmark.name,
        what=benchmark.what,
        peer=benchmark.peer,
        form=form,
        begun=begun,
        seconds=seconds,
        busy_before=before,
        busy_after=busy(),
        figures=figures,
        problem=problem,
    )


def busy() -> float:
    """The share of all cores (0 to 1) that is busy now, while this process waits."""
    return psutil.cpu_percent(interval=LOOK_SECONDS) / 100


def command_of(benchmark: Benchmark, form: Form, data: Path | None, out: Path) -> list[str]:
    """What starts it."""
    arguments = benchmark.quick if form is Form.QUICK else benchmark.arguments
    where = ["--data", str((data / benchmark.data).resolve())] if data and benchmark.data is not None else []
    script = ROOT / "tests" / "performance" / benchmark.script
    return [sys.executable, str(script), *arguments, *where, "--json", str(out)]


def _measure(benchmark: Benchmark, form: Form, data: Path | None) -> tuple[tuple[Figure, ...], str]:
    """Its figures, and why there are none."""
    with tempfile.TemporaryDirectory(prefix="hone-bench-") as folder:
        out = Path(folder) / "figures.json"
        status, said = _run_to_end(command_of(benchmark, form, data, out), Path(folder) / "home")
        try:
            return taken_from(out), ""
        except FileNotFoundError:
            return (), "\n".join([f"it ended with status {status}", *said])
        except msgspec.MsgspecError as error:
            return (), f"its figures can't be read: {error}"


def _run_to_end(command: list[str], home: Path) -> tuple[int, deque[str]]:
    """Run a script in a home of its own, passing its messages on; returns its status and the last of them."""
    last: deque[str] = deque(maxlen=LAST_LINES)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HONE_HOME": str(home)}
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, errors="replace", env=environment
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            last.append(line.rstrip())
    return process.returncode, last

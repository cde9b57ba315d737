"""Stops the runs of a folder when whoever started this process ends, however it ends.

    python tests/performance/window_guard.py FOLDER [SECONDS] < PIPE

A run goes on by design when the window is closed, and so it would when a benchmark is interrupted or killed. The
benchmark holds the other end of the pipe: the end of the pipe is the end of the benchmark. A run has SECONDS (10) to
end by itself.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from core.runs.folder import (  # noqa: E402
    Action,
    RunFolder,
)
from core.runs.library import list_runs  # noqa: E402 - the checkout is on the path only now

PATIENCE_SECONDS = 10.0


@contextlib.contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Leave no run of `folder` behind; returns once they have all ended."""
    guard = subprocess.Popen(
        [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        guard.communicate()


def main() -> int:
    """Wait for the end of the pipe, then stop what still runs."""
    sys.stdin.buffer.read()
    patience = float(sys.argv[2]) if len(sys.argv) > 2 else PATIENCE_SECONDS
    for run in list_runs(Path(sys.argv[1])):
        stop(run, patience)
    return 0


def stop(run: RunFolder, patience: float) -> None:
    """Let the keeper end the engine; where that takes too long end both."""
    keeper = run.keeper_record()
    if keeper is None or not run.keeper_is_alive():
        return
    family = processes_of(keeper.pid)
    with contextlib.suppress(OSError):
        run.ask(Action.KILL)
        wait_for_end(run, patience)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, patience)


def processes_of(pid: int) -> list[psutil.Process]:
    """A process and all below it."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def wait_for_end(run: RunFolder, patience: float) -> None:
    """Wait until a keeper has written how its run ended."""
    deadline = time.monotonic() + patience
    while run.keeper_is_alive() and run.exit_record() is None and time.monotonic() < deadline:
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())

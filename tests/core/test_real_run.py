"""The whole chain with nothing faked: command line, keeper, engine, torch."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from core import jobs, run_file
from core.follow import RunFollower
from core.runs import RunFolder, create, summarize
from core.story import State
from tests.fakes.runs import follow_until

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "resources" / "examples" / "digits.hone"
SMALL = ("data.max_train_samples=96", "data.max_eval_samples=32", "training.max_steps=3")


def test_the_command_line_trains_a_model(tmp_path: Path) -> None:
    pairs = [part for pair in SMALL for part in ("--set", pair)]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "gui",
            "train",
            str(DIGITS),
            "--run-dir",
            str(tmp_path / "run"),
            "--json",
            *pairs,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    assert [event["step"] for event in events if event["type"] == "step_finished"] == [1, 2, 3]
    assert events[-1]["time"] >= events[0]["time"]
    assert "Finished after 3 steps" in done.stderr
    summary = summarize(RunFolder(tmp_path / "run"))
    assert summary.state is State.FINISHED
    assert summary.metric == "eval_accuracy"
    assert summary.peak_bytes is not None
    assert summary.peak_bytes > 100 << 20


@pytest.mark.skipif(os.name != "posix", reason="ends a process with a POSIX signal")
def test_a_killed_engine_is_a_crash_within_2_s(tmp_path: Path) -> None:
    run = create(run_file.read(DIGITS), tmp_path)
    keeper = jobs.start(run)
    follower = RunFollower(run)
    follow_until(follower, keeper, lambda: follower.story.step >= 1 or follower.is_over, seconds=60)
    assert follower.story.engine_pid is not None
    killed = time.monotonic()
    os.kill(follower.story.engine_pid, signal.SIGKILL)
    follow_until(follower, keeper, lambda: follower.is_over)
    assert time.monotonic() - killed < 2.0
    assert keeper.wait(10) == 0
    assert follower.state is State.CRASHED
    assert follower.exit_record is not None
    assert follower.exit_record.signal == "SIGKILL"


@pytest.mark.parametrize("content", ["", "text,label\n"])
def test_what_is_wrong_with_the_data_comes_back_as_a_refusal(content: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "gui", "inspect", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "data.csv" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr

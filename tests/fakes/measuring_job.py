"""A stand-in for the engine's dry run and measurement: `python measuring_job.py SCENARIO`, the request on its input.

Scenarios: `answer`, `sample` (a measurement, which tells of each step), `grow` (takes memory without end), `die` (as
the kernel ends what takes too much), `crash`, `refuse` (says what the person can mend), `hang`.
"""

import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from core.base.jobs import FailureReport, JobFailure, JobProgress
from core.benchmark.result import Sample, SampleRequest
from core.memory.model import Measurement, OptionsRequest, Parts

PIECE = 10 << 20
MOST = 40
"""So many pieces at most: where nobody ends it, it ends itself."""


def answer(request: OptionsRequest) -> bytes:
    """A measurement that tells, as its batch, how ready the kernel is to end this process."""
    score = Path("/proc/self/oom_score_adj")
    known = int(score.read_text()) if score.exists() else 0
    found = Measurement(
        device=request.asked["device"]["name"],
        parts=Parts(weights=70, overhead=30),
        peak=100,
        base=30,
        total_steps=known,
    )
    return msgspec.json.encode(found)


def sample(request: SampleRequest) -> bytes:
    """Steps of a second, without making them."""
    total = request.warm_up + request.steps
    for done in range(1, total + 1):
        sys.stdout.buffer.write(msgspec.json.encode(JobProgress(done=done, total=total)) + b"\n")
    found = Sample(
        device=request.asked["device"]["name"], seconds=(1.0,) * request.steps, samples_a_step=8, rows=64
    )
    return msgspec.json.encode(found)


def grow() -> None:
    held = []
    for _ in range(MOST):
        held.append(b"x" * PIECE)  # written to, so that it is there
        time.sleep(0.01)


if __name__ == "__main__":
    asked = sys.stdin.buffer.read()
    match sys.argv[1]:
        case "answer":
            sys.stdout.buffer.write(answer(msgspec.json.decode(asked, type=OptionsRequest)))
        case "sample":
            sys.stdout.buffer.write(sample(msgspec.json.decode(asked, type=SampleRequest)))
        case "grow":
            grow()
        case "die":
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        case "crash":
            raise RuntimeError("a bug in the fake dry run")
        case "refuse":
            error = FailureReport(title="The data has one class only")
            sys.stdout.buffer.write(msgspec.json.encode(JobFailure(error=error)))
            sys.exit(1)
        case "hang":
            time.sleep(60)

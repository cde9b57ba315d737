"""A stand-in for the engine's dry run and measurement: `python measuring_job.py SCENARIO`, the request on its input.

Scenarios: `answer`, `grow` (takes memory without end), `die` (as the kernel ends what takes too much), `crash`,
`refuse` (says what the person can mend), `hang`.
"""

import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from core.base.jobs import FailureReport, JobFailure
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

"""A stand-in for the engine's job `sample`: `python sampling_job.py SCENARIO`, the request on standard input.

Scenarios: `answer` (half precision is twice as fast and holds half as much), `hang`, and `die-at-bf16` (as the kernel
ends what takes too much, at every variant in bf16).
"""

import os
import signal
import sys
import time

import msgspec

from core.base.jobs import JobProgress
from core.benchmark.result import Sample, SampleRequest
from core.memory.model import Parts

MB = 1 << 20


def answer(request: SampleRequest) -> bytes:
    half = request.asked["device"]["precision"] == "bf16"
    peak = 100 * MB if half else 200 * MB
    found = Sample(
        device=request.asked["device"]["name"],
        seconds=(0.25 if half else 0.5,) * request.steps,
        warm_up_seconds=(0.6,) * request.warm_up,
        samples_a_step=4,
        rows=512,
        losses=(0.7,) * (request.steps + request.warm_up),
        first_loss=0.7,
        parts=Parts(weights=peak // 2, overhead=peak // 2),
        peak=peak,
    )
    return msgspec.json.encode(found) + b"\n"


def tell(request: SampleRequest) -> None:
    total = request.warm_up + request.steps
    for done in range(1, total + 1):
        sys.stdout.buffer.write(msgspec.json.encode(JobProgress(done=done, total=total)) + b"\n")


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=SampleRequest)
    if sys.argv[1] == "hang":
        time.sleep(60)
    if sys.argv[1] == "die-at-bf16" and asked.asked["device"]["precision"] == "bf16":
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    tell(asked)
    sys.stdout.buffer.write(answer(asked))

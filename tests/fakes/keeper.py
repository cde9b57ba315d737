"""The real keeper with a fake engine: `python keeper.py SCENARIO RUN_DIR [--queue]`.

One that waits for its turn looks often.

In the scenario `page` it finds the computer's memory full, looks often and has little patience; in `stuck` it soon
misses the next step. In `hang` neither the GPU's driver nor the disk ever answers.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from core.base import ceiling
from core.base.system import SystemMemory
from core.monitor import keeper as keeping
from core.monitor import sampler, system_rules
from core.monitor.keeper import Keeper
from core.runs import queue
from core.runs.folder import RunFolder
from core.runs.start import QUEUE_FLAG

GB = 1 << 30


def fill_memory() -> None:
    sampler.system_memory = lambda: SystemMemory(used=int(15.5 * GB), total=16 * GB, swap=GB)
    keeping.SAMPLE_SECONDS = 0.05
    system_rules.PAGING_ALONE_SECONDS = 0.2


def miss_steps() -> None:
    keeping.SAMPLE_SECONDS = 0.05
    system_rules.SILENT_SECONDS = 0.5


def never_answer() -> None:
    def hang(*_: object) -> None:
        threading.Event().wait()

    keeping.gpu_of = hang
    sampler.psutil.disk_usage = hang
    keeping.SAMPLE_SECONDS = 0.05


if __name__ == "__main__":
    scenario, run_dir, *flags = sys.argv[1:]
    if scenario == "page":
        fill_memory()
    if scenario == "stuck":
        miss_steps()
    if scenario == "hang":
        never_answer()
    if scenario in ("spin", "eat"):
        ceiling.SECONDS[ceiling.Pace.QUICK] = 1.0 if scenario == "spin" else 60.0
        keeping.room_for_reading = lambda _memory: 200 << 20
    queue.LOOK_SECONDS, queue.LIFE_SECONDS, queue.CHECK_SECONDS = 0.02, 0.1, 0.1
    engine = Path(__file__).with_name("engine.py")
    os.chdir(run_dir)
    command = [sys.executable, "-P", str(engine), scenario, "."]
    keeper = Keeper(RunFolder(Path()), command, queued=QUEUE_FLAG in flags)
    signal.signal(signal.SIGTERM, lambda *_: keeper.request_stop())
    keeper.keep()

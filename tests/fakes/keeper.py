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

from core import ceiling, turn
from core import keeper as keeping
from core.keeper import Keeper
from core.machine import computer
from core.machine.memory import SystemMemory
from core.run_folder import RunFolder
from core.starting import QUEUE_FLAG
from core.watchers import thresholds

GB = 1 << 30


def fill_memory() -> None:
    computer.system_memory = lambda: SystemMemory(used=int(15.5 * GB), total=16 * GB, swap=GB)
    keeping.SAMPLE_SECONDS = 0.05
    thresholds.PAGING_ALONE_SECONDS = 0.2


def miss_steps() -> None:
    keeping.SAMPLE_SECONDS = 0.05
    thresholds.SILENT_SECONDS = 0.5


def never_answer() -> None:
    def hang(*_: object) -> None:
        threading.Event().wait()

    keeping.gpu_of = hang
    computer.psutil.disk_usage = hang
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
    turn.LOOK_SECONDS, turn.LIFE_SECONDS, turn.CHECK_SECONDS = 0.02, 0.1, 0.1
    engine = Path(__file__).with_name("engine.py")
    os.chdir(run_dir)
    command = [sys.executable, "-P", str(engine), scenario, "."]
    keeper = Keeper(RunFolder(Path()), command, queued=QUEUE_FLAG in flags)
    signal.signal(signal.SIGTERM, lambda *_: keeper.ask_stop())
    keeper.keep()

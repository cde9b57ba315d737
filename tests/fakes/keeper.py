"""The real keeper with a fake engine: `python keeper.py SCENARIO RUN_DIR`."""

import signal
import sys
from pathlib import Path

from core.keeper import Keeper
from core.run_folder import RunFolder

if __name__ == "__main__":
    scenario, run_dir = sys.argv[1:]
    engine = Path(__file__).with_name("engine.py")
    keeper = Keeper(RunFolder(Path(run_dir)), [sys.executable, "-P", str(engine), scenario, run_dir])
    signal.signal(signal.SIGTERM, lambda *_: keeper.ask_stop())
    keeper.keep()

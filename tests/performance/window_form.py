"""How long the New run page takes to follow a choice: from the changed field to the repainted forecast of memory.

The page has the answers that a real engine gave about a text model and this computer, with the list of remedies
open; the batch size is changed again and again.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

import msgspec

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
from PySide6.QtWidgets import QApplication

from core.base.jobs import run_job
from core.base.settings import Appearance
from core.memory import estimate
from core.memory.model import ModelReport, Room, question_about
from core.memory.remedies import ladder
from core.options.device_support import MachineReport
from core.options.validate import read_options
from gui.base.theme import Theme
from gui.new_run.memory_state import MemoryTools
from gui.new_run.page import NewRunPage
from tests.fakes.jobs import FakeEngine
from tests.performance.figures import Figure, at_most, figure, main, minilm, own_home

SMALL_ROOM = Room(free=900 << 20, ceiling=4 << 30)
"""So little that remedies are shown."""


def measure(arguments: argparse.Namespace) -> list[Figure]:
    with own_home():
        model = {"source": str(minilm())}
        tree = {"task": "text-classification", "model": model, "data": {"train": "synthetic:512x128"}}
        options, _ = read_options(tree)
        assert options is not None
        machine = run_job("devices", None, MachineReport)
        report = run_job("check-model", question_about(options), ModelReport)
        device = next(device for device in machine.devices if device.name == machine.automatic)
        engine = FakeEngine()
        engine.answers |= {"devices": machine, "check-model": report}
        application = QApplication(["hone"])
        page = NewRunPage(
            Theme(Appearance.LIGHT),
            engine,
            MemoryTools(room=lambda _device, _options: SMALL_ROOM),
        )
        page.resize(1100, 760)
        page.show()
        page.set_machine(machine)
        page.load_tree(msgspec.to_builtins(options))
        until = time.monotonic() + 2.0
        while time.monotonic() < until:  # for answers and timers
            application.processEvents()
            time.sleep(0.01)
        numbers = iter(range(arguments.changes))

        def change() -> None:
            page.options.form.set_values({"memory.batch_size": 8 + next(numbers) % 50})
            application.processEvents()

        changes = milliseconds(change, arguments.changes)
        forecasts = milliseconds(lambda: estimate.forecast(options, report.shape, device), 50)
        remedies = milliseconds(lambda: ladder(options, report, device, SMALL_ROOM), 50)
        page.end_work()
    return [
        figure("a change until it is painted, median", statistics.median(changes), "ms", goal=at_most(50.0)),
        figure("the worst", max(changes), "ms"),
        figure("the forecast in it", statistics.median(forecasts), "ms"),
        figure("the remedies in it", statistics.median(remedies), "ms"),
    ]


def milliseconds(work: Callable[[], object], times: int) -> list[float]:
    durations = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        durations.append(1000 * (time.perf_counter() - begun))
    return durations


if __name__ == "__main__":
    main(__doc__, measure, {"changes": 60})

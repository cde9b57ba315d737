"""How long the New run page takes to follow a choice: from the changed field to the repainted forecast of memory.

The page has the answers a real engine gave about a text model and this computer, with the list of remedies open; the
batch size is changed again and again.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import msgspec

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
from PySide6.QtWidgets import QApplication

from core.base.jobs import run_job
from core.base.settings import Appearance
from core.memory import estimate
from core.memory.model import ModelReport, Room
from core.memory.remedies import ladder
from core.options.device_support import MachineReport
from core.options.validate import read_options
from core.services.hub import question_about
from gui.base.theme import Theme
from gui.new_run.memory_state import MemoryTools
from gui.new_run.page import NewRunPage
from tests.performance.figures import Figure, at_most, figure, main, minilm, use_home

SMALL_ROOM = Room(free=900 << 20, ceiling=4 << 30)
"""So little that remedies are shown."""


class Replay:
    """An engine job that has answered already."""

    def __init__(self, answers: dict[str, msgspec.Struct], job: str) -> None:
        self._answer = answers.get(job)

    def ask(self, request: bytes = b"", tell: object = None) -> bytes:
        return msgspec.json.encode(self._answer)

    def kill(self) -> None:
        """It has ended."""


def measure(arguments: argparse.Namespace) -> list[Figure]:
    with tempfile.TemporaryDirectory() as home:
        use_home(home)
        tree = {
            "task": "text-classification",
            "model": {"source": str(minilm())},
            "data": {"train": "synthetic:512x128"},
        }
        options, _ = read_options(tree)
        assert options is not None
        question = question_about(options)
        assert question is not None
        machine, model = (
            run_job("devices", None, MachineReport),
            run_job("check-model", question, ModelReport),
        )
        device = next(found for found in machine.devices if found.name == machine.automatic)
        application = QApplication(["hone"])
        page = NewRunPage(
            Theme(Appearance.LIGHT),
            lambda job: Replay({"check-model": model}, job),
            MemoryTools(room=lambda _device, _options: SMALL_ROOM),
        )
        page.resize(1100, 760)
        page.show()
        page.set_machine(machine)
        page.load_tree(msgspec.to_builtins(options))
        until = time.monotonic() + 2.0
        while time.monotonic() < until:  # answers come and timers run out
            application.processEvents()
            time.sleep(0.01)
        numbers = iter(range(arguments.changes))

        def change() -> None:
            page._options.form.set_values({"memory.batch_size": 8 + next(numbers) % 50})
            application.processEvents()

        taken = milliseconds(change, arguments.changes)
        estimated = milliseconds(lambda: estimate.forecast(options, model.shape, device), 50)
        remedies = milliseconds(lambda: ladder(options, model, device, SMALL_ROOM), 50)
        page.close_questions()
    middle = statistics.median(taken)
    return [
        figure("a change until it is painted, median", middle, "ms", goal=at_most(50.0)),
        figure("the worst", max(taken), "ms"),
        figure("the forecast in it", statistics.median(estimated), "ms"),
        figure("the remedies in it", statistics.median(remedies), "ms"),
    ]


def milliseconds(work: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - begun))
    return taken


if __name__ == "__main__":
    main(__doc__, measure, {"changes": 60})

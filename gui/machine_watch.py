"""The worker thread of the machine strip: reads the machine every two seconds and tells the window what it found.

It is no QThread: one that hangs in a driver could never be destroyed, and the program would not end. A daemon thread of
Python's is left behind.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from core.events import Event
from core.machine.picture import MachineView
from core.machine.sampler import Sampler, gpu_of

SAMPLE_SECONDS = 2.0
FIRST_SECONDS = 0.5
"""After this long the first load of the processor is known."""

FINISH_SECONDS = 5.0
"""How long the thread waits for what is read in the background when it ends. Nobody waits for the thread so long."""

TRAINING_SECONDS = 10.0
"""How often the runs are looked at, and only while the computer runs on its battery."""


class Sampling(Protocol):
    """Reads the machine; `core.machine.sampler.Sampler` is the real one."""

    def sample(self) -> list[Event]:
        """The figures of this moment."""

    def finish(self, seconds: float | None = None) -> None:
        """Wait until nothing is read in the background."""


def sampler_for(device: str | None) -> Sampling:
    """What reads the computer, and the GPU where `device` (as in `device.name`) is one of NVIDIA's."""
    if device is None or not device.startswith("cuda"):
        return Sampler()
    return Sampler(find_gpu=partial(gpu_of, device))


class MachineWatch(QObject):
    """Looks at the machine until it is told to end. What starts programs or wakes a GPU happens in its thread.

    Signals:
        looked: A `core.machine.picture.MachinePicture`, and whether a run trains while on battery.

    Args:
        view: Keeps what was seen, longer than this thread lasts.
        make: Makes what reads the machine, within this thread: finding a GPU takes a moment.
        trains: Tells whether a run trains; called in this thread.
    """

    looked = Signal(object, bool)

    def __init__(self, view: MachineView, make: Callable[[], Sampling], trains: Callable[[], bool]) -> None:
        super().__init__()
        self._view = view
        self._make = make
        self._trains = trains
        self._stopping = threading.Event()
        self._next_look = 0.0
        self._is_training = False
        self._thread = threading.Thread(target=self._run, name="machine watch", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether the thread is there."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; wait for it with `wait`."""
        self._stopping.set()

    def wait(self, seconds: float) -> None:
        """Wait until the thread has ended, or for so many seconds."""
        self._thread.join(seconds)

    def _run(self) -> None:
        sampler = self._make()
        pause = FIRST_SECONDS
        while not self._stopping.is_set():
            self._look(sampler)
            self._stopping.wait(pause)
            pause = SAMPLE_SECONDS
        sampler.finish(FINISH_SECONDS)

    def _look(self, sampler: Sampling) -> None:
        self._view.take(sampler.sample())
        picture = self._view.picture(time.time())
        on_battery = picture.battery is not None and picture.battery.is_plugged is False
        is_training = on_battery and self._looks_training()
        with contextlib.suppress(RuntimeError):  # it hung while the window was closed, and Qt with it
            self.looked.emit(picture, is_training)

    def _looks_training(self) -> bool:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + TRAINING_SECONDS
            self._is_training = self._trains()
        return self._is_training

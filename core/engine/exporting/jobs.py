"""The engine's jobs about exports: one writes and checks, the other sends to the Hub. Both tell what they do."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from core.exporting import ExportRequest, PushRequest
from core.jobs import JobProgress

STEPS = 5
"""About so many things are done one after the other."""
ALIVE_SECONDS = 20.0
"""So often the job says that it lives: one that is silent for minutes would be given up."""


def export(descriptor: int) -> msgspec.Struct:
    """Export this run's model into this folder."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ExportRequest)
    _prepare(request)
    from core.engine.exporting.exporting import export

    with _telling(descriptor) as tell:
        return export(request, tell.say)


def push(descriptor: int) -> msgspec.Struct:
    """Send this folder to the Hub."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=PushRequest)
    from core.engine.environment import prepare_fetching

    prepare_fetching()
    from core.engine.exporting.push import push

    with _telling(descriptor) as tell:
        return push(request, tell.say)


def _prepare(request: ExportRequest) -> None:
    """Get this process ready to load the run's model, without a network and away from the GPU."""
    from core.engine.environment import prepare_environment, stay_offline
    from core.engine.libraries import leave_aside
    from core.export_offers import find_source
    from core.options import DeviceOptions
    from core.run_folder import RunFolder

    options = find_source(RunFolder(Path(request.run)), request.checkpoint).options
    on_cpu = msgspec.structs.replace(options, device=DeviceOptions(name="cpu"))
    prepare_environment(on_cpu)  # before torch is imported
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    stay_offline()
    leave_aside(on_cpu)
    from core.engine.torchvision_ops import prepare_torchvision

    prepare_torchvision()  # before transformers is imported


class _Telling:
    """Says on a line of its own what is being done, and says it again while that takes long."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._done = 0
        self._what = ""

    def say(self, what: str) -> None:
        with self._lock:
            self._done, self._what = min(self._done + 1, STEPS), what
        self.again()

    def again(self) -> None:
        with self._lock:
            told = JobProgress(done=self._done, total=STEPS + 1, what=self._what)
            os.write(self._descriptor, msgspec.json.encode(told) + b"\n")


@contextmanager
def _telling(descriptor: int) -> Iterator[_Telling]:
    telling, ended = _Telling(descriptor), threading.Event()

    def stay_alive() -> None:
        while not ended.wait(ALIVE_SECONDS):
            telling.again()

    thread = threading.Thread(target=stay_alive, name="alive", daemon=True)
    thread.start()
    try:
        yield telling
    finally:
        ended.set()
        thread.join()

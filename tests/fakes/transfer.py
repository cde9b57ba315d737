"""A download that goes as far as a test wants."""

import threading
from collections.abc import Callable

from core.base.errors import UserError
from core.base.jobs import JobCancelled, JobProgress
from core.services.hub import Downloaded, DownloadRequest

MB = 1 << 20


class FakeTransfers:
    """Makes downloads that tell half, then wait until `go_on` is set or they are ended; `begun` are their requests.

    `failure` is raised in place of going on.
    """

    def __init__(self) -> None:
        self.begun: list[DownloadRequest] = []
        self.go_on = threading.Event()
        self.failure: UserError | None = None

    def __call__(self, request: DownloadRequest) -> "FakeTransfer":
        self.begun.append(request)
        return FakeTransfer(self)


class FakeTransfer:
    def __init__(self, made_by: FakeTransfers) -> None:
        self._made_by = made_by
        self._killed = threading.Event()

    def run(self, tell: Callable[[JobProgress], None]) -> Downloaded:
        tell(JobProgress(done=120 * MB, total=268 * MB, what="model.safetensors"))
        if self._made_by.failure is not None:
            raise self._made_by.failure
        while not self._made_by.go_on.wait(0.005):
            if self._killed.is_set():
                raise JobCancelled("hub-download")
        return Downloaded(path="/cache", files=3, size=268 * MB)

    def kill(self) -> None:
        self._killed.set()

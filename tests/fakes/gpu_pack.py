"""A GPU pack as the window sees it, without one: it goes as far as a test wants; and one that is filled at once."""

import sys
import threading
from collections.abc import Callable

from core.base.errors import UserError
from core.base.jobs import Checked, Filled, JobCancelled, Needs, Pack, Standing
from core.services.gpu_install import Card, Offer, PackProgress, Place, Situation, Step, offer

GB = 1 << 30
CARD = Card("NVIDIA GeForce RTX 3060", (8, 6), 580)
BUNDLE = Place("win32", "AMD64", frozen=True)
OFFERED = Situation(offer(BUNDLE, CARD), Standing(), free=90 * GB)
OLD_DRIVER = Situation(offer(BUNDLE, Card(CARD.name, CARD.capability, 470)), Standing())
CHECKOUT = Situation(Offer("This Hone runs from its source."), Standing())
PACK = Pack(
    hone="0.1.0",
    filled=Filled(
        needs=Needs(python="3.11", build="cu130", requirements=()), interpreter="python/bin/python3.11"
    ),
    checked=Checked(torch="2.13.0+cu130", cuda="13.0", device=CARD.name),
    size=5 * GB,
)
USED = Situation(OFFERED.offer, Standing(PACK))
OUTDATED = Situation(OFFERED.offer, Standing(PACK, "The GPU pack was made by Hone 0.0.9.", can_renew=True))


class FakePack:
    """Tools whose installation tells half, then waits until `go_on` is set or it is ended."""

    def __init__(self, situation: Situation = OFFERED) -> None:
        self.situation = situation
        self.failure: UserError | None = None
        self.go_on = threading.Event()
        self.calls: list[str] = []

    def look(self) -> Situation:
        return self.situation

    def installation(self, offer: Offer | None) -> "FakeInstallation":
        self.calls.append(f"install {offer.build if offer else ''}")
        return FakeInstallation(self)

    def remove(self) -> int:
        self.calls.append("remove")
        self.situation = OFFERED
        return PACK.size

    def drop_begun(self) -> int:
        self.calls.append("drop")
        self.situation = OFFERED
        return GB


class FakeInstallation:
    def __init__(self, tools: FakePack) -> None:
        self._tools = tools
        self._killed = threading.Event()

    def run(self, tell: Callable[[PackProgress], None]) -> Pack:
        tell(PackProgress(done=0, total=0, step=Step.PYTHON))
        tell(PackProgress(done=3 * GB, total=6 * GB, step=Step.LIBRARIES))
        if self._tools.failure is not None:
            raise self._tools.failure
        while not self._tools.go_on.wait(0.005):
            if self._killed.is_set():
                self._tools.situation = Situation(OFFERED.offer, Standing(), begun=GB, free=90 * GB)
                raise JobCancelled("gpu-pack")
        self._tools.situation = USED
        return PACK

    def kill(self) -> None:
        self._killed.set()


class StubTool:
    """Fills a pack at once, without pip: what is tested stands before or after."""

    growing = None

    def __init__(self, body=None, then=lambda: None):
        self.body, self.then = body, then

    def bring_python(self, target, needs, run):
        return sys._base_executable

    def bring_libraries(self, target, interpreter, needs, run):
        self.then()
        package = target / "libraries" / "torch"
        package.mkdir(parents=True)
        body = (
            self.body
            or "__version__ = '9'\nclass version: cuda = None\nclass cuda:\n    is_available = bool\n"
        )
        (package / "__init__.py").write_text(body)

"""Installing PyTorch with CUDA without uv and without a network: a stand-in for uv, and tools for the window."""

import sys
import threading
from pathlib import Path

from core.base.errors import UserError
from core.base.jobs import GpuEnvironment, JobCancelled, JobProgress, TellProgress, gpu_folder
from core.base.settings import VERSION
from core.engine.hub import web
from core.services.gpu_install import GB, Card, GpuState

CARD = Card("NVIDIA GeForce RTX 3060", (8, 6), 580)
ENVIRONMENT = GpuEnvironment(hone=VERSION, torch="2.13.0+cu130", cuda="13.0", device=CARD.name, size=5 * GB)
OFFERED = GpuState(card=CARD, free=90 * GB)
USED = GpuState(card=CARD, installed=ENVIRONMENT)
OUTDATED = GpuState(card=CARD, installed=GpuEnvironment(hone="0.0.9", torch="2.12.0", cuda="12.6"))
OLD_DRIVER = GpuState("NVIDIA GeForce RTX 3060 has driver 470, which is too old.", CARD)
CHECKOUT = GpuState("This Hone runs from its source.")

UV = f"""#!{sys.executable}
import json, os, pathlib, subprocess, sys, sysconfig, time
cache = pathlib.Path(os.environ["UV_CACHE_DIR"])
cache.mkdir(exist_ok=True)
(cache / "calls").open("a").write(json.dumps(sys.argv[1:]) + "\\n")
what = os.environ.get("FAKE_UV", "")
if "venv" in sys.argv:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", sys.argv[-1]], check=True)
elif what == "waits":
    time.sleep(600)
elif what.startswith("error"):
    sys.exit(what)
else:
    python = pathlib.Path(sys.argv[sys.argv.index("--python") + 1])
    libraries = next(python.parents[1].glob("[Ll]ib*/**/site-packages"))
    (libraries / "fake_torch.py").write_text(what or "cuda = '13.0'")
    (libraries / "installed_here.pth").write_text(sysconfig.get_paths()["purelib"])
"""

CHECK = """
import fake_torch, json, core.base.settings
print(json.dumps({"torch": "2.13.0", "cuda": fake_torch.cuda, "device": "", "problem": ""}))
"""


def put_fake_uv() -> Path:
    """Put it where a uv that was fetched would be."""
    gpu_folder().mkdir(parents=True, exist_ok=True)
    program = web.uv_program(gpu_folder())
    program.write_text(UV)
    program.chmod(0o755)
    return program


class FakeGpuTools:
    """Tools whose installation tells half, then waits until `go_on` is set or it is ended."""

    def __init__(self, state: GpuState = OFFERED) -> None:
        self.state = state
        self.failure: UserError | None = None
        self.go_on = threading.Event()
        self.calls: list[str] = []

    def look(self) -> GpuState:
        return self.state

    def installation(self, state: GpuState | None = None) -> "FakeInstall":
        self.calls.append("install")
        return FakeInstall(self)

    def remove(self) -> int:
        self.calls.append("remove")
        self.state = OFFERED
        return ENVIRONMENT.size


class FakeInstall:
    def __init__(self, tools: FakeGpuTools) -> None:
        self._tools = tools
        self._killed = threading.Event()
        self.kill = self._killed.set

    def run(self, tell: TellProgress) -> GpuEnvironment:
        tell(JobProgress(done=3 * GB, total=6 * GB, what="Downloading PyTorch with CUDA"))
        if self._tools.failure is not None:
            raise self._tools.failure
        while not self._tools.go_on.wait(0.005):
            if self._killed.is_set():
                self._tools.state = GpuState(card=CARD, begun=GB, free=90 * GB)
                raise JobCancelled("gpu-install")
        self._tools.state = USED
        return ENVIRONMENT

"""What torchao's CPUOffloadOptimizer promises, on one device: an optimizer of optimizers that steps on copies.

Written against torchao's README; the real one asserts CUDA. Like it, this one never calls `Optimizer.__init__`.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from core.base import uv
from core.base.errors import UserError
from core.base.jobs import GpuEnvironment, JobCancelled, JobProgress, TellProgress, gpu_folder
from core.base.settings import VERSION
from core.services.gpu_install import GB, GpuState, NvidiaCard

# --- Installing PyTorch with CUDA without uv and without a network: a stand-in for uv


CARD = NvidiaCard("NVIDIA GeForce RTX 3060", (8, 6), 580)
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
    program = gpu_folder() / f"{uv.VERSION}-{uv.PROGRAM}"
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


# --- What torchao's CPUOffloadOptimizer promises, on one device


class CPUOffloadOptimizer(torch.optim.Optimizer):
    def __init__(
        self,
        params: Any,
        optimizer_class: Any = torch.optim.AdamW,
        *,
        minimal_size: int = 4096,
        **kwargs: Any,
    ) -> None:
        self.optim_dict: dict[torch.nn.Parameter, torch.optim.Optimizer] = {}
        self.d_opt: torch.optim.Optimizer | None = None
        small = []
        for group in params:
            rest = {name: value for name, value in group.items() if name != "params"}
            large = [weight for weight in group["params"] if weight.numel() >= minimal_size]
            for weight in large:
                copy = torch.nn.Parameter(weight.detach().clone())
                self.optim_dict[weight] = optimizer_class([{"params": [copy], **rest}], **kwargs)
            small.append({"params": [w for w in group["params"] if w.numel() < minimal_size], **rest})
        self.d_opt = optimizer_class(small, **kwargs)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        inside = [*self.optim_dict.values(), self.d_opt]
        return [group for part in inside if part is not None for group in part.param_groups]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.d_opt.step()
        for weight, part in self.optim_dict.items():
            [copy] = part.param_groups[0]["params"]
            copy.grad = weight.grad.clone()
            part.step()
            weight.copy_(copy)

    def zero_grad(self, set_to_none: bool = True) -> None:
        assert set_to_none
        for weight in self.optim_dict:
            weight.grad = None
        self.d_opt.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        offloaded = [part.state_dict() for part in self.optim_dict.values()]
        return {"offloaded": offloaded, "on-device": self.d_opt.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, state in zip(self.optim_dict.values(), state_dict["offloaded"], strict=True):
            part.load_state_dict(state)
        self.d_opt.load_state_dict(state_dict["on-device"])


# --- A device that is told of work in no time and does it later, on a clock of its own


class AsynchronousDevice:
    """Takes the place of CUDA and of the module `time`. `now` is this process's clock in seconds, set it freely."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits = 0
        self._done_at = 0.0

    def clock(self) -> float:
        """What the clock says."""
        return self.now

    perf_counter = monotonic = clock

    def compute(self, seconds: float, told_in: float) -> None:
        """Tell it of work: `told_in` seconds of this process, then `seconds` of the device after all else it has."""
        self.now += told_in
        self._done_at = max(self._done_at, self.now) + seconds

    def wait(self) -> None:
        """Wait until it has done all it was told of."""
        self.waits += 1
        self.now = max(self.now, self._done_at)


# --- A Mac's GPU whose causal attention is wrong, on the CPU


def leaky_attention() -> Callable[..., torch.Tensor]:
    """Torch's sdpa as in pytorch issue 195910: one mask for four queries, in half precision and without gradients."""
    attention = torch.nn.functional.scaled_dot_product_attention

    def leaking(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **more: Any) -> torch.Tensor:
        is_half = query.dtype != torch.float32 or torch.is_autocast_enabled(query.device.type)
        if more.get("is_causal") and is_half and not torch.is_grad_enabled():
            place = torch.arange(query.shape[-2])
            seen = place <= (place // 4 * 4 + 3).unsqueeze(1)
            more |= {"is_causal": False, "attn_mask": seen}
        return attention(query, key, value, **more)

    return leaking

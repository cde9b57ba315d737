"""A stand-in for the engine's short jobs: answers at once, or when the test lets it."""

import subprocess
import sys
import threading
from collections.abc import Callable

import msgspec

from core.base.jobs import JobCancelled, JobProgress, TellProgress
from core.jobs.devices import Agreement, DeviceCheckReport, DeviceComparison
from core.jobs.hub import Account, CacheReport
from core.jobs.inspect import DataColumn, DataColumnKind, DataReport, InspectRequest, Lengths
from core.memory.model import Basis, Forecast, OptionsRequest, Parts
from core.options.device_support import DeviceReport, MachineReport, Settled
from tests.fakes.model_shapes import MODEL
from tests.fakes.runs import FAKES

# --- A stand-in for the engine's short jobs: answers at once, or when the test lets it


CPU_ONLY = MachineReport(
    devices=(
        DeviceReport(
            name="cuda:0", title="NVIDIA GPU", available=False, reason="No NVIDIA driver was found."
        ),
        DeviceReport(
            name="mps", title="Apple GPU", available=False, reason="MPS is the GPU of Apple computers."
        ),
        DeviceReport(
            name="cpu",
            title="Old processor",
            available=True,
            memory_bytes=2**34,
            refusals={
                "device.precision": {"fp16": "needs a GPU", "tf32": "needs an NVIDIA GPU"},
                "device.compile": {"true": "needs a compiler"},
                "device.compile_backend": {"cudagraphs": "needs CUDA"},
                "device.processes": {"*": "Hone trains in one process."},
                "model.method": {"qlora": "needs the package bitsandbytes"},
                "training.optimizer": {
                    "adamw-8bit": "needs the package bitsandbytes",
                    "lion-8bit": "needs the package bitsandbytes",
                    "adamw-8bit-torchao": "needs the package torchao",
                },
                "data.pin_memory": {"on": "serves NVIDIA GPUs"},
                "device.backend": {"mlx": "MLX computes on the GPU of Apple silicon"},
                "model.quantization": dict.fromkeys(
                    ("affine4", "affine8"), "MLX computes on the GPU of Apple silicon"
                ),
            },
            cautions={
                "device.precision": {"bf16": "This CPU has no bf16 units: it works, slower than fp32."}
            },
            automatic={
                "device.backend": Settled("torch", "MLX computes on the GPU of Apple silicon"),
                "model.quantization": Settled("nf4", "the 4-bit format of PyTorch"),
                "device.precision": Settled("fp32", "this CPU has no bf16 hardware"),
                "data.group_by_length": Settled("on", "little padding is left to compute"),
                "data.pin_memory": Settled("off", "only NVIDIA GPUs fetch from pinned memory"),
                "data.workers": Settled("0", "loading in other processes would take cores from the training"),
            },
        ),
    ),
    automatic="cpu",
    choices={
        "device.compile_backend": ("inductor", "cudagraphs"),
        "device.compile_mode": ("default", "lite"),
    },
    versions={"python": "3.11", "torch": "2.13.0"},
)

PAIRS = DataReport(
    source="pairs.tsv",
    format="TSV",
    rows=400,
    columns=tuple(
        DataColumn(name=name, kind=kind, distinct=5, empty=0, examples=("one", "two"))
        for name, kind in (
            ("first", DataColumnKind.TEXT),
            ("second", DataColumnKind.TEXT),
            ("same", DataColumnKind.NUMBER),
        )
    ),
    preview=(("a", "b", "1"), ("c", "d", "0")),
    text_columns=("first", "second"),
    label_column="same",
    labels={"1": 270, "0": 130},
    lengths=Lengths(unit="tokens", edges=(0, 600), counts=(400,), longest=600, median=40),
)

DIGITS = DataReport(source="builtin:digits", format="digits", rows=1797, labels={"0": 900, "1": 897})

MB = 1 << 20

TRACED = Forecast(
    basis=Basis.FORMULA,
    device="cpu",
    parts=Parts(
        weights=400 * MB,
        gradients=400 * MB,
        optimizer=800 * MB,
        activations=300 * MB,
        temporary=50 * MB,
        overhead=250 * MB,
    ),
    length=64,
    longest_text=64,
)

CHECKED = DeviceCheckReport(
    device="cpu",
    title="Old processor",
    reference="1 thread",
    software="PyTorch 2.13.0",
    conclusion="The gradients differ",
    comparisons=(
        DeviceComparison(name="Loss", explanation="One.", agreement=Agreement.AGREES, worst_error=1.25e-7),
        DeviceComparison(name="Gradients", explanation="Two.", agreement=Agreement.DIFFERS, worst_error=0.5),
        DeviceComparison(name="Mask", explanation="Three.", agreement=Agreement.NOT_RUN, detail="No time."),
    ),
    seconds=3.2,
)


class FakeEngine:
    """Makes jobs that answer `answers[job]`, a struct or an error to raise; `requests` are those it was asked.

    While `gate` is not set, jobs wait for it, and a killed one is cancelled.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[bytes], msgspec.Struct] | msgspec.Struct | Exception] = {
            "devices": CPU_ONLY,
            "inspect": _inspect,
            "check-device": CHECKED,
            "check-model": MODEL,
            "forecast": TRACED,
            "hub-cached": CacheReport(folder="/cache"),
            "hub-account": Account(keychain="Keychain"),
        }
        self.progress: tuple[JobProgress, ...] = ()
        self.requests: list[tuple[str, bytes]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, job: str) -> "FakeJob":
        return FakeJob(self, job)

    def inspected(self) -> list[InspectRequest]:
        """What it was asked to look into."""
        return [
            msgspec.json.decode(body, type=InspectRequest) for job, body in self.requests if job == "inspect"
        ]

    def traced(self) -> list[OptionsRequest]:
        """The runs it was asked to trace."""
        return [
            msgspec.json.decode(body, type=OptionsRequest) for job, body in self.requests if job == "forecast"
        ]

    def looked_at(self) -> list[OptionsRequest]:
        """The models it was asked about."""
        return [
            msgspec.json.decode(body, type=OptionsRequest)
            for job, body in self.requests
            if job == "check-model"
        ]


class FakeJob:
    def __init__(self, engine: FakeEngine, job: str) -> None:
        self._engine = engine
        self._job = job
        self._killed = threading.Event()

    def ask(self, request: bytes = b"", *, tell: TellProgress | None = None) -> bytes:
        self._engine.requests.append((self._job, request))
        for progress in self._engine.progress if tell is not None else ():
            tell(progress)
        while not self._engine.gate.wait(0.005):
            if self._killed.is_set():
                raise JobCancelled(self._job)
        answer = self._engine.answers[self._job]
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer if isinstance(answer, msgspec.Struct) else answer(request))

    def kill(self) -> None:
        self._killed.set()


def _inspect(request: bytes) -> msgspec.Struct:
    asked = msgspec.json.decode(request, type=InspectRequest)
    return DIGITS if asked.source == "builtin:digits" else PAIRS


# --- The real program as a process of its own: `hone ...` as a person types it


ROOT = FAKES.parents[1]


def hone(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `hone ARGUMENTS` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "gui", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )

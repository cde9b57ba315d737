"""Which device a run gets and what "automatic" comes to on it, and why the other devices are not to be had.

Pure functions over `MachineFacts`. Source: torch 2.13's MPS backend asks for macOS 14.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from core.base.errors import DeviceError, Fix, Problem
from core.engine.devices import capabilities
from core.engine.devices.capabilities import AMPERE, VOLTA, CudaDevice, MachineFacts, emulates_bf16
from core.options import RunOptions
from core.options.choices import Precision, Task
from core.options.device_support import (
    DeviceReport,
    Instead,
    MachineReport,
    Settled,
    automatic_paths,
    find_device,
    machine_problems,
    settle,
)

# --- What "automatic" comes to on a device


GROUPING = Settled(
    "on",
    "texts of like length in a batch leave little padding to compute",
    (Instead("data.padding", "fixed", "off", "every row has the same length anyway"),),
)
NO_WORKERS_FOR_TEXT = tuple(
    Instead(
        "task", task.value, "0", "texts are tokenized beforehand; making a batch takes a fraction of a ms"
    )
    for task in Task
    if task.reads_text
)


def settings_for(facts: MachineFacts, kind: str, gpu: CudaDevice | None = None) -> dict[str, Settled]:
    """What each automatic option comes to, by its path.

    Args:
        facts: The machine.
        kind: `cuda`, `mps` or `cpu`.
        gpu: The device, where it is a CUDA one.
    """
    return {
        "device.precision": _precision(facts, kind, gpu),
        "device.threads": Settled(str(facts.cores), "one for each core"),
        "data.group_by_length": GROUPING,
        "data.pin_memory": _pinning(kind),
        "data.workers": _workers(facts, kind),
    }


def _precision(facts: MachineFacts, kind: str, gpu: CudaDevice | None) -> Settled:
    if kind == "cuda":
        return _precision_of(gpu)
    if kind == "mps":
        if emulates_bf16(facts):
            return Settled("fp32", f"{facts.cpu_name} has no bf16 hardware")
        return Settled("bf16", f"{facts.cpu_name} computes bf16 in hardware")
    if facts.cpu_bf16:
        return Settled("bf16", "this CPU computes bf16 in hardware")
    return Settled("fp32", "this CPU has no bf16 hardware")


def _precision_of(gpu: CudaDevice | None) -> Settled:
    if gpu is not None and gpu.capability >= AMPERE:
        return Settled("bf16", "this GPU computes bf16 in hardware")
    if gpu is not None and gpu.capability < VOLTA:
        return Settled("fp32", "this GPU is older than Volta: it has no tensor cores for fp16")
    return Settled("fp16", "this GPU computes fp16 in hardware, but not bf16")


def _pinning(kind: str) -> Settled:
    if kind == "cuda":
        return Settled("on", "the GPU fetches batches while it computes")
    return Settled("off", "only NVIDIA GPUs fetch from pinned memory")


def _workers(facts: MachineFacts, kind: str) -> Settled:
    if kind == "cuda" and facts.cores > 2:
        count = str(min(4, facts.cores - 1))
        return Settled(count, "images are prepared while the GPU computes", NO_WORKERS_FOR_TEXT)
    if kind == "mps":
        return Settled("0", "the memory is shared, and on a Mac each worker would load PyTorch anew")
    return Settled("0", "the cores are busy computing; workers would take them away")


# --- Which device a run gets and what "automatic" comes to on it


MACOS_NEEDED = (14, 0)


NO_REPORT = DeviceReport(name="", title="", available=False)


@dataclass(frozen=True)
class Choice:
    """What a run computes on.

    `name` is torch's (`cuda:0`, `mps`, `cpu`), `asked` what the options said. `settled` is what was asked with
    everything automatic decided; `reasons` say by option why it came out so. `device` is all that is known of it.
    """

    name: str
    title: str
    settled: RunOptions
    reasons: dict[str, str]
    asked: str
    device: DeviceReport = NO_REPORT

    @property
    def precision(self) -> Precision:
        """The number format of the computation; never "automatic"."""
        return self.settled.device.precision

    @property
    def label(self) -> str:
        """The device as the person calls it: `cuda:1` also where torch sees only that one, as `cuda:0`."""
        return self.asked if self.asked.startswith("cuda:") else self.name

    @property
    def kind(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.name.partition(":")[0]


def report(facts: MachineFacts) -> MachineReport:
    """Everything `hone devices`, the form and the checks of a run need to know."""
    return MachineReport(
        devices=(*_cuda_reports(facts), _mps_report(facts), _cpu_report(facts)),
        automatic=_automatic(facts),
        choices=_choices(facts),
        versions=facts.versions | facts.optional,
        notes=_notes(facts),
    )


def choose(facts: MachineFacts, options: RunOptions) -> Choice:
    """Settle the device, and everything that was left to Hone.

    Raises:
        DeviceError: Something that was asked for is not to be had here; all of it is named.
    """
    machine = report(facts)
    refuse(machine_problems(machine, options), options.device.name)
    device = find_device(machine, options.device.name)
    assert device is not None, "refused above"
    return Choice(
        name=device.name,
        title=device.title,
        settled=settle(device, options),
        reasons=_reasons(device, options),
        asked=options.device.name,
        device=device,
    )


def refuse(problems: Iterable[Problem], device: str) -> None:
    """Stop where there are problems.

    Raises:
        DeviceError: There are; its title is about the first one, its detail about all.
    """
    found = tuple(problems)
    if not found:
        return
    first = found[0]
    if first.path == "device.name":
        raise DeviceError(f"{device} is not available here", first.message, first.fixes)
    lines = [f"{problem.path}: {problem.message}" for problem in found]
    fixes = tuple(fix for problem in found for fix in problem.fixes)
    raise DeviceError("This computer can't do what was asked", "\n".join(lines), fixes)


def _reasons(device: DeviceReport, options: RunOptions) -> dict[str, str]:
    left = {
        path: f"{found.value}: {found.reason}" for path, found in automatic_paths(device, options).items()
    }
    is_automatic = options.device.name == "auto"
    return {"device.name": "CUDA comes first, then MPS, then the CPU" if is_automatic else "as asked", **left}


def choose_visible(facts: MachineFacts, options: RunOptions) -> Choice:
    """As `choose`, in a process that sees no other CUDA device than the one asked for (see `prepare_environment`).

    Raises:
        DeviceError: Something that was asked for is not to be had here.
    """
    asked = options.device.name
    if not asked.startswith("cuda:"):
        return choose(facts, options)
    if not facts.cuda and facts.torch_cuda and facts.nvidia_driver and asked != "cuda:0":
        raise DeviceError(
            f"{asked} is not available here",
            "This computer's NVIDIA GPUs are counted from 0; `hone devices` lists them.",
            (Fix("Let Hone choose", {"device.name": "auto"}),),
        )
    device = msgspec.structs.replace(options.device, name="cuda")
    seen = choose(facts, msgspec.structs.replace(options, device=device))
    return replace(seen, asked=asked)


def _automatic(facts: MachineFacts) -> str:
    if facts.cuda:
        return "cuda:0"
    return "mps" if facts.mps_available else "cpu"


def _choices(facts: MachineFacts) -> dict[str, tuple[str, ...]]:
    listed = {
        "device.compile_backend": facts.compilers.backends,
        "device.compile_mode": facts.compilers.modes,
    }
    return {path: values for path, values in listed.items() if values}


def _cuda_reports(facts: MachineFacts) -> tuple[DeviceReport, ...]:
    if not facts.cuda:
        return (DeviceReport(name="cuda:0", title="NVIDIA GPU", available=False, reason=_no_cuda(facts)),)
    return tuple(
        DeviceReport(
            name=f"cuda:{index}",
            title=gpu.name,
            available=True,
            memory_bytes=gpu.memory_bytes,
            refusals=capabilities.refusals(facts, "cuda", gpu),
            cautions=capabilities.cautions(facts, "cuda"),
            automatic=settings_for(facts, "cuda", gpu),
        )
        for index, gpu in enumerate(facts.cuda)
    )


def _no_cuda(facts: MachineFacts) -> str:
    if facts.system == "Darwin":
        return "Macs have no CUDA; MPS is the Mac's own."
    if not facts.nvidia_driver:
        return "No NVIDIA driver was found. With an NVIDIA card in this computer, install its driver."
    if not facts.torch_cuda and facts.frozen:
        return "An NVIDIA card is here, but this PyTorch was built without CUDA. Settings can install one with CUDA."
    if not facts.torch_cuda:
        return "An NVIDIA card is here, but this PyTorch was built without CUDA. Install the CUDA build of PyTorch."
    return "An NVIDIA card is here, but PyTorch can't use it: its driver may be too old. Update the driver."


def _mps_report(facts: MachineFacts) -> DeviceReport:
    title = facts.cpu_name if facts.system == "Darwin" and facts.machine == "arm64" else "Apple GPU (MPS)"
    if not facts.mps_available:
        return DeviceReport(name="mps", title=title, available=False, reason=_no_mps(facts))
    return DeviceReport(
        name="mps",
        title=title,
        available=True,
        memory_bytes=facts.mps_memory_bytes,
        refusals=capabilities.refusals(facts, "mps"),
        cautions=capabilities.cautions(facts, "mps"),
        automatic=settings_for(facts, "mps"),
    )


def _no_mps(facts: MachineFacts) -> str:
    if facts.system != "Darwin":
        return "MPS is the GPU of Apple computers."
    if facts.translated:
        return (
            "This Python was built for Intel and runs translated. Install a Python for Apple silicon (arm64)."
        )
    if facts.machine != "arm64":
        return "This Mac has an Intel processor; PyTorch's MPS needs Apple silicon."
    needed = ".".join(map(str, MACOS_NEEDED))
    if _version(facts.macos) < MACOS_NEEDED:
        return f"PyTorch needs macOS {needed}, this is {facts.macos}. Update macOS."
    if not facts.mps_built:
        return "This PyTorch was built without MPS. Install PyTorch from PyPI again."
    return "PyTorch can't reach the GPU of this Mac."


def _version(text: str) -> tuple[int, int]:
    major, _, rest = text.partition(".")
    minor = rest.partition(".")[0]
    return (int(major) if major.isdecimal() else 0, int(minor) if minor.isdecimal() else 0)


def _cpu_report(facts: MachineFacts) -> DeviceReport:
    return DeviceReport(
        name="cpu",
        title=facts.cpu_name,
        available=True,
        memory_bytes=facts.memory_bytes,
        refusals=capabilities.refusals(facts, "cpu"),
        cautions=capabilities.cautions(facts, "cpu"),
        automatic=settings_for(facts, "cpu"),
    )


def _notes(facts: MachineFacts) -> tuple[str, ...]:
    notes = []
    if facts.system == "Darwin":
        notes.append(f"macOS {facts.macos}; PyTorch built {'with' if facts.mps_built else 'without'} MPS.")
    if facts.translated:
        notes.append(_no_mps(facts))
    if facts.mps_available:
        notes.append("Operators that MPS lacks are computed on the CPU unless device.mps_fallback is false.")
    if not facts.cpu_bf16 and not facts.cuda and not facts.mps_available:
        notes.append("This CPU has no bf16 hardware: bf16 works but is slower than fp32.")
    return tuple(notes)

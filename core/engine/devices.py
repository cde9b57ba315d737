"""Which device and precision a run gets, and why the others are not to be had.

Pure functions over `MachineFacts`. Sources: torch 2.13's MPS backend asks for macOS 14; autocast with a gradient
scaler reached MPS in torch 2.8, bf16 autocast in 2.6; the CPU has no fp16 training (Trainer would silently run fp32).
"""

from dataclasses import dataclass, replace

import msgspec

from core.engine.machine_facts import MachineFacts
from core.errors import DeviceError, Fix
from core.options import FP16_NEEDS_GPU, DeviceOptions, Precision
from core.reports import DeviceReport, MachineReport

MACOS_NEEDED = (14, 0)


@dataclass(frozen=True)
class Choice:
    """What a run computes on.

    `name` is torch's (`cuda:0`, `mps`, `cpu`), `asked` what the options said; `reasons` say why it came out so.
    """

    name: str
    title: str
    precision: Precision
    reasons: dict[str, str]

    asked: str

    @property
    def label(self) -> str:
        """The device as the person calls it: `cuda:1` also where torch sees only that one, as `cuda:0`."""
        return self.asked if self.asked.startswith("cuda:") else self.name

    @property
    def kind(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.name.partition(":")[0]


def report(facts: MachineFacts) -> MachineReport:
    """Everything `hone devices` and the form need to know."""
    automatic = _automatic(facts)
    precision, _ = _automatic_precision(facts, automatic)
    return MachineReport(
        devices=(*_cuda_reports(facts), _mps_report(facts), _cpu_report(facts)),
        automatic=automatic,
        automatic_precision=precision,
        versions=facts.versions,
        notes=_notes(facts),
    )


def choose(facts: MachineFacts, options: DeviceOptions) -> Choice:
    """Settle device and precision.

    Raises:
        DeviceError: The device or the precision asked for is not to be had here.
    """
    asked = "cuda:0" if options.name == "cuda" else options.name
    name = _automatic(facts) if asked == "auto" else asked
    reports = {device.name: device for device in report(facts).devices}
    device = reports.get(name)
    if device is None or not device.available:
        reason = device.reason if device else f"there are {len(facts.cuda)} CUDA devices here, counted from 0"
        raise DeviceError(f"{options.name} is not available here", reason, (_use("device.name", "auto"),))
    reasons = {
        "device": "chosen automatically: CUDA, then MPS, then the CPU"
        if options.name == "auto"
        else "as asked"
    }
    if options.precision is Precision.AUTO:
        precision, reasons["precision"] = _automatic_precision(facts, name)
    else:
        precision, reasons["precision"] = options.precision, "as asked"
    refusal = device.precisions.get(precision, "")
    if refusal:
        raise DeviceError(
            f"{precision.value} is not available on {name}", refusal, (_use("device.precision", "auto"),)
        )
    if name == "mps":
        reasons["missing operators"] = "run on the CPU" if options.mps_fallback else "end the run, as asked"
    return Choice(name, device.title, precision, reasons, asked=options.name)


def choose_visible(facts: MachineFacts, options: DeviceOptions) -> Choice:
    """As `choose`, in a process that sees no other CUDA device than the one asked for (see `prepare_environment`).

    Raises:
        DeviceError: The device or the precision asked for is not to be had here.
    """
    if not options.name.startswith("cuda:"):
        return choose(facts, options)
    if not facts.cuda and facts.torch_cuda and facts.nvidia_driver and options.name != "cuda:0":
        raise DeviceError(
            f"{options.name} is not available here",
            "This computer's NVIDIA GPUs are counted from 0; `hone devices` lists them.",
            (_use("device.name", "auto"),),
        )
    seen = choose(facts, msgspec.structs.replace(options, name="cuda"))
    return replace(seen, asked=options.name)


def _use(path: str, value: str) -> Fix:
    return Fix("Let Hone choose", {path: value})


def _automatic(facts: MachineFacts) -> str:
    if facts.cuda:
        return "cuda:0"
    return "mps" if facts.mps_available else "cpu"


def _automatic_precision(facts: MachineFacts, name: str) -> tuple[Precision, str]:
    if name.startswith("cuda"):
        index = int(name.partition(":")[2])
        if facts.cuda[index].native_bf16:
            return Precision.BF16, "this GPU computes bf16 in hardware"
        return Precision.FP16, "this GPU computes fp16 in hardware, but not bf16"
    if name == "mps":
        if _emulates_bf16(facts):
            return Precision.FP32, f"{facts.cpu_name} has no bf16 hardware"
        return Precision.BF16, f"{facts.cpu_name} computes bf16 in hardware"
    if facts.cpu_bf16:
        return Precision.BF16, "this CPU computes bf16 in hardware"
    return Precision.FP32, "this CPU has no bf16 hardware"


def _emulates_bf16(facts: MachineFacts) -> bool:
    """M1 and M2 compute bf16 through fp32; nothing in torch tells, so the chip's name has to."""
    return any(chip in facts.cpu_name for chip in ("Apple M1", "Apple M2"))


def _cuda_reports(facts: MachineFacts) -> tuple[DeviceReport, ...]:
    if not facts.cuda:
        return (DeviceReport(name="cuda:0", title="NVIDIA GPU", available=False, reason=_no_cuda(facts)),)
    return tuple(
        DeviceReport(
            name=f"cuda:{index}",
            title=device.name,
            available=True,
            memory_bytes=device.memory_bytes,
            automatic_precision=_automatic_precision(facts, f"cuda:{index}")[0],
            precisions={
                "fp32": "",
                "bf16": "" if device.native_bf16 else "needs an NVIDIA GPU from Ampere on",
                "fp16": "",
            },
        )
        for index, device in enumerate(facts.cuda)
    )


def _no_cuda(facts: MachineFacts) -> str:
    if facts.system == "Darwin":
        return "Macs have no CUDA; MPS is the Mac's own."
    if not facts.nvidia_driver:
        return "No NVIDIA driver was found. With an NVIDIA card in this computer, install its driver."
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
        automatic_precision=_automatic_precision(facts, "mps")[0],
        precisions={"fp32": "", "bf16": "", "fp16": ""},
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
        automatic_precision=_automatic_precision(facts, "cpu")[0],
        precisions={"fp32": "", "bf16": "", "fp16": FP16_NEEDS_GPU},
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

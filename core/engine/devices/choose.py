"""Which device a run gets and what "automatic" comes to on it, and why the other devices are not available.

Pure functions over `MachineFacts`. Source: torch 2.13's MPS backend asks for macOS 14.
"""

from dataclasses import dataclass, field

import msgspec

from core.base.errors import DeviceError, Fix
from core.base.language import _
from core.engine.devices.capabilities import CudaDevice, MachineFacts, automatic, cautions, refusals
from core.options import RunOptions
from core.options.choices import Precision
from core.options.device_support import (
    DeviceReport,
    MachineReport,
    automatic_paths,
    find_device,
    machine_problems,
    settle,
)

MACOS_NEEDED = 14


@dataclass(frozen=True)
class ResolvedRun:
    """What is trained and where: all that the engine has to know of a run's options.

    `options` are what was asked with everything automatic decided, `reasons` say by option why it came out so.
    `requested` is the device as the options named it.
    """

    options: RunOptions
    device: DeviceReport
    reasons: dict[str, str] = field(default_factory=dict)
    requested: str = "auto"

    @property
    def precision(self) -> Precision:
        """The number format of the computation; never "automatic"."""
        return self.options.device.precision

    @property
    def label(self) -> str:
        """The device as the person calls it: `cuda:1` also where torch sees only that one, as `cuda:0`."""
        return self.requested if self.requested.startswith("cuda:") else self.device.name

    @property
    def kind(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.device.name.partition(":")[0]


def resolve_run(facts: MachineFacts, options: RunOptions, *, sees_one_gpu: bool = False) -> ResolvedRun:
    """Decide on the device, and on everything that was left to Hone.

    Args:
        facts: The machine.
        options: What was asked.
        sees_one_gpu: Whether this process sees no other CUDA device than the one asked for (`prepare_environment`).

    Raises:
        DeviceError: Something that was asked for is not available here; its detail names all of it.
    """
    requested = options.device.name
    if sees_one_gpu and requested.startswith("cuda:"):
        if not facts.cuda and facts.torch_cuda and facts.nvidia_driver and requested != "cuda:0":
            raise DeviceError(
                _("{requested} is not available here").format(requested=requested),
                "This computer's NVIDIA GPUs are counted from 0; `hone devices` lists them.",
                (Fix(_("Let Hone choose"), {"device.name": "auto"}),),
            )
        device_options = msgspec.structs.replace(options.device, name="cuda")
        options = msgspec.structs.replace(options, device=device_options)
    machine = report(facts)
    problems = tuple(machine_problems(machine, options))
    if problems and problems[0].path == "device.name":
        title = _("{name} is not available here").format(name=options.device.name)
        raise DeviceError(title, problems[0].message, problems[0].fixes)
    if problems:
        raise DeviceError(
            _("This computer can't do what was asked"),
            "\n".join(f"{problem.path}: {problem.message}" for problem in problems),
            tuple(fix for problem in problems for fix in problem.fixes),
        )
    device = find_device(machine, options.device.name)
    assert device is not None, "refused above"
    reasons = {
        path: f"{found.value}: {found.reason}" for path, found in automatic_paths(device, options).items()
    }
    chosen = _("CUDA comes first, then MPS, then the CPU") if options.device.name == "auto" else _("as asked")
    return ResolvedRun(settle(device, options), device, {"device.name": chosen, **reasons}, requested)


def report(facts: MachineFacts) -> MachineReport:
    """Everything `hone devices`, the form and the checks of a run need to know."""
    devices = [
        _available(facts, f"cuda:{index}", gpu.name, gpu.memory_bytes, gpu)
        for index, gpu in enumerate(facts.cuda)
    ]
    if not facts.cuda:
        devices.append(
            DeviceReport(name="cuda:0", title=_("NVIDIA GPU"), available=False, reason=_no_cuda(facts))
        )
    is_apple = facts.system == "Darwin" and facts.machine == "arm64"
    mps_title = facts.cpu_name if is_apple else _("Apple GPU (MPS)")
    if facts.mps_available:
        devices.append(_available(facts, "mps", mps_title, facts.mps_memory_bytes))
    else:
        devices.append(DeviceReport(name="mps", title=mps_title, available=False, reason=_no_mps(facts)))
    devices.append(_available(facts, "cpu", facts.cpu_name, facts.memory_bytes))
    listed = {
        "device.compile_backend": facts.compile_backends,
        "device.compile_mode": facts.compile_modes,
    }
    return MachineReport(
        devices=tuple(devices),
        automatic="cuda:0" if facts.cuda else "mps" if facts.mps_available else "cpu",
        choices={path: values for path, values in listed.items() if values},
        versions=facts.versions | facts.optional,
        notes=_notes(facts),
    )


def _available(
    facts: MachineFacts, name: str, title: str, memory_bytes: int | None, gpu: CudaDevice | None = None
) -> DeviceReport:
    kind = name.partition(":")[0]
    return DeviceReport(
        name=name,
        title=title,
        available=True,
        memory_bytes=memory_bytes,
        refusals=refusals(facts, kind, gpu),
        cautions=cautions(facts, kind),
        automatic=automatic(facts, kind, gpu),
    )


def _no_cuda(facts: MachineFacts) -> str:
    if facts.system == "Darwin":
        return "Macs have no CUDA; MPS is the Mac's own."
    if not facts.nvidia_driver:
        return _("No NVIDIA driver was found. With an NVIDIA card in this computer, install its driver.")
    if not facts.torch_cuda and facts.frozen:
        return _(
            "An NVIDIA card is here, but this PyTorch was built without CUDA. Settings can "
            "install one with CUDA."
        )
    if not facts.torch_cuda:
        return _(
            "An NVIDIA card is here, but this PyTorch was built without CUDA. Install the CUDA "
            "build of PyTorch."
        )
    return _(
        "An NVIDIA card is here, but PyTorch can't use it: its driver may be too old. Update the driver."
    )


def _no_mps(facts: MachineFacts) -> str:
    if facts.system != "Darwin":
        return _("MPS is the GPU of Apple computers.")
    if facts.translated:
        return _(
            "This Python was built for Intel and runs translated. Install a Python for Apple silicon (arm64)."
        )
    if facts.machine != "arm64":
        return "This Mac has an Intel processor; PyTorch's MPS needs Apple silicon."
    major = facts.macos.partition(".")[0]
    if not major.isdecimal() or int(major) < MACOS_NEEDED:
        return _("PyTorch needs macOS {macos_needed}.0, this is {macos}. Update macOS.").format(
            macos_needed=MACOS_NEEDED, macos=facts.macos
        )
    if not facts.mps_built:
        return _("This PyTorch was built without MPS. Install PyTorch from PyPI again.")
    return _("PyTorch can't reach the GPU of this Mac.")


def _notes(facts: MachineFacts) -> tuple[str, ...]:
    notes = []
    if facts.system == "Darwin":
        notes.append(f"macOS {facts.macos}; PyTorch built {'with' if facts.mps_built else 'without'} MPS.")
    if facts.translated:
        notes.append(_no_mps(facts))
    if facts.mps_available:
        notes.append(
            _("Operators that MPS lacks are computed on the CPU unless device.mps_fallback is false.")
        )
    if not facts.cpu_bf16 and not facts.cuda and not facts.mps_available:
        notes.append(_("This CPU has no bf16 hardware: bf16 works but is slower than fp32."))
    return tuple(notes)

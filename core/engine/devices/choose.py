"""Chooses a run's device and resolves "auto" on it, and says why other devices are not available.

Pure functions of `MachineFacts`.
"""

from dataclasses import dataclass, field

import msgspec

from core.base.errors import DeviceError, Fix
from core.base.language import _
from core.engine.devices.capabilities import (
    MIN_MACOS,
    CudaDevice,
    MachineFacts,
    automatic,
    cautions,
    has_macos,
    refusals,
)
from core.hosts.install import with_computers
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Precision
from core.options.device_support import (
    DeviceReport,
    MachineReport,
    automatic_paths,
    find_device,
    machine_problems,
    settle,
    why_automatic,
)


@dataclass(frozen=True)
class ResolvedRun:
    """What is trained and where: all that the engine needs of a run's options.

    `options` have no automatic values left, `reasons` explain the resolved ones by option path. `requested` is the
    device as the options named it.
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
        """The requested device: `cuda:1` even if torch sees only that one, as `cuda:0`."""
        return self.requested if self.requested.startswith("cuda:") else self.device.name

    @property
    def kind(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.device.kind


def resolve_run(facts: MachineFacts, options: RunOptions, *, sees_one_gpu: bool = False) -> ResolvedRun:
    """Chooses the device, which for a forecast may be another computer's, and resolves automatic options.

    `sees_one_gpu`: this process sees only the requested CUDA device (`prepare_environment`).

    Raises:
        DeviceError: Some options are not available here; its detail names all of them.
    """
    requested = options.device.name
    if sees_one_gpu and requested.startswith("cuda:") and not options.device.computers:
        if not facts.cuda and facts.torch_cuda and facts.nvidia_driver and requested != "cuda:0":
            raise DeviceError(
                _("{device} is not available here").format(device=requested),
                _("This computer's NVIDIA GPUs are numbered from 0; `hone devices` lists them."),
                (Fix(_("Let Hone choose"), {"device.name": "auto"}),),
            )
        processes = options.device.processes or 1
        device_options = msgspec.structs.replace(options.device, name="cuda", processes=processes)
        options = msgspec.structs.replace(options, device=device_options)
    machine = with_computers(report(facts)) if options.device.computers else report(facts)
    problems = tuple(machine_problems(machine, options))
    if problems and problems[0].path == "device.name":
        title = _("{device} is not available here").format(device=options.device.name)
        raise DeviceError(title, problems[0].message, problems[0].fixes)
    if problems:
        raise DeviceError(
            _("This computer doesn't support these options"),
            "\n".join(f"{problem.path}: {problem.message}" for problem in problems),
            tuple(fix for problem in problems for fix in problem.fixes),
        )
    device = find_device(machine, options.device.name)
    assert device is not None, "refused above"
    reason = why_automatic(device.name) if options.device.name == "auto" else _("as requested")
    reasons = {
        path: f"{found.value}: {found.reason}" for path, found in automatic_paths(device, options).items()
    }
    settled = settle(device, options)
    if options.device.name == "auto":
        settled = with_changes(settled, {"device.name": device.kind})
    return ResolvedRun(settled, device, {"device.name": reason, **reasons}, requested)


def report(facts: MachineFacts) -> MachineReport:
    """Describes the devices for `hone devices`, the form and the checks of a run."""

    def available(name: str, title: str, memory: int | None, gpu: CudaDevice | None = None) -> DeviceReport:
        kind = name.partition(":")[0]
        return DeviceReport(
            name=name,
            title=title,
            available=True,
            memory_bytes=memory,
            refusals=refusals(facts, kind, gpu),
            cautions=cautions(facts, kind),
            automatic=automatic(facts, kind, gpu),
        )

    devices = [
        available(f"cuda:{index}", gpu.name, gpu.memory_bytes, gpu) for index, gpu in enumerate(facts.cuda)
    ]
    if not devices:
        reason = _no_cuda(facts)
        devices.append(DeviceReport(name="cuda:0", title=_("NVIDIA GPU"), available=False, reason=reason))
    is_apple = facts.system == "Darwin" and facts.machine == "arm64"
    mps_title = facts.cpu_name if is_apple else _("Apple GPU (MPS)")
    if facts.mps_available:
        devices.append(available("mps", mps_title, facts.mps_memory_bytes))
    else:
        devices.append(DeviceReport(name="mps", title=mps_title, available=False, reason=_no_mps(facts)))
    devices.append(available("cpu", facts.cpu_name, facts.memory_bytes))
    choices = {
        "device.compile_backend": facts.compile_backends,
        "device.compile_mode": facts.compile_modes,
    }
    return MachineReport(
        devices=tuple(devices),
        automatic="cuda:0" if facts.cuda else "mps" if facts.mps_available else "cpu",
        choices={path: values for path, values in choices.items() if values},
        versions=facts.versions | facts.optional,
        notes=_notes(facts),
    )


def _no_cuda(facts: MachineFacts) -> str:
    if facts.system == "Darwin":
        return _("Macs have no CUDA; use MPS.")
    if not facts.nvidia_driver:
        return _("No NVIDIA driver was found. If this computer has an NVIDIA card, install its driver.")
    if facts.torch_cuda:
        return _("PyTorch can't use the NVIDIA card: its driver may be too old. Update the driver.")
    if facts.frozen:
        return _("This PyTorch was built without CUDA. Settings can install one with CUDA.")
    return _("This PyTorch was built without CUDA. Install the CUDA build of PyTorch.")


def _no_mps(facts: MachineFacts) -> str:
    if facts.system != "Darwin":
        return _("MPS is the GPU of Apple computers.")
    if facts.translated:
        return _("This Python was built for Intel processors. Install a Python for Apple silicon (arm64).")
    if facts.machine != "arm64":
        return _("This Mac has an Intel processor; PyTorch's MPS needs Apple silicon.")
    if not has_macos(facts, MIN_MACOS):
        return _("PyTorch needs macOS {needed}.0, this is {macos}. Update macOS.").format(
            needed=MIN_MACOS, macos=facts.macos
        )
    if not facts.mps_built:
        return _("This PyTorch was built without MPS. Install PyTorch from PyPI again.")
    return _("PyTorch can't use the GPU of this Mac.")


def _notes(facts: MachineFacts) -> tuple[str, ...]:
    notes = []
    if facts.system == "Darwin":
        text = (
            _("macOS {macos}; PyTorch with MPS.")
            if facts.mps_built
            else _("macOS {macos}; PyTorch without MPS.")
        )
        notes.append(text.format(macos=facts.macos))
    if facts.translated:
        notes.append(_no_mps(facts))
    if facts.mps_available:
        notes.append(_("Operators that MPS lacks run on the CPU unless device.mps_fallback is false."))
    if not facts.cpu_bf16 and not facts.cuda and not facts.mps_available:
        notes.append(_("This CPU has no bf16 hardware: bf16 works but is slower than fp32."))
    return tuple(notes)

"""What ran, as options: with everything decided that was left to Hone, and why it came out so."""

import contextlib
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from core.capabilities import find_device
from core.catalogue import options_by_path, value_of
from core.choices import Attention
from core.events import WhatRan
from core.options import RunOptions
from core.reports import MachineReport
from core.settling import automatic_paths, settle

LEFT_TO_HONE = (
    "device.precision",
    "device.threads",
    "data.group_by_length",
    "data.pin_memory",
    "data.workers",
)
"""Options that may be automatic."""

_DEVICE = re.compile(r"cpu|mps|cuda(:[0-9]{1,3})?")
"""What torch calls devices. Whatever else stands in a stranger's events must not become a line of a script."""


@dataclass(frozen=True)
class Resolved:
    """A run with nothing automatic left in it, called `title`.

    `device` is torch's name of it; `notes` say what was decided and why.
    """

    options: RunOptions
    device: str
    device_title: str = ""
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    title: str = ""

    @property
    def kind(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.device.partition(":")[0]


def as_it_ran(options: RunOptions, ran: WhatRan, versions: dict[str, str]) -> Resolved:
    """What a run did, by what it told after its first step; what nobody could have told is passed over."""
    settled, notes = options, []
    device = ran.device if _DEVICE.fullmatch(ran.device) else "cpu"
    if options.device.name == "auto":
        notes.append(f"device.name = {device}: {ran.reasons.get('device.name', '')}".rstrip(": "))
    for path in LEFT_TO_HONE:
        told = ran.reasons.get(path, "")
        value, colon, _ = told.partition(": ")
        if colon and _is_left(options, path):
            with contextlib.suppress(msgspec.ValidationError):
                settled = _with(settled, path, value)
                notes.append(f"{path} = {told}")
    if ran.attention == Attention.EAGER and options.model.attention is Attention.SDPA:
        settled = _with(settled, "model.attention", ran.attention)
        notes.append(f"model.attention = eager: {ran.reasons.get('model.attention', '')}".rstrip(": "))
    return Resolved(_unset_none(settled), device, ran.device_name, tuple(notes), versions)


def as_it_would_run(options: RunOptions, machine: MachineReport) -> Resolved:
    """What a run would do on a machine; where it lacks the device asked for, that of a CPU."""
    device = find_device(machine, options.device.name) or find_device(machine, "cpu")
    assert device is not None, "every machine has a CPU"
    left = automatic_paths(device, options)
    notes = [f"{path} = {found.value}: {found.reason}" for path, found in left.items()]
    if options.device.name == "auto":
        notes.insert(0, f"device.name = {device.name}: CUDA comes first, then MPS, then the CPU")
    settled = _unset_none(settle(device, options))
    return Resolved(settled, device.name, device.title, tuple(notes), dict(machine.versions))


def _is_left(options: RunOptions, path: str) -> bool:
    return value_of(options, path) in ("auto", None) and options_by_path()[path].applies_to(options)


def _with(options: RunOptions, path: str, value: Any) -> RunOptions:
    section, _, name = path.partition(".")
    typed = msgspec.convert(value, options_by_path()[path].value_type, strict=False)
    changed = msgspec.structs.replace(getattr(options, section), **{name: typed})
    return msgspec.structs.replace(options, **{section: changed})


def _unset_none(options: RunOptions) -> RunOptions:
    """Workers that nobody settled are none: then the training process loads by itself."""
    return options if options.data.workers is not None else _with(options, "data.workers", 0)

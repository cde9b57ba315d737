"""The answer of the engine to the question what this machine can compute on.

The engine writes them as JSON on its standard output; forms and `hone devices` show them.
"""

import msgspec


class Instead(msgspec.Struct, frozen=True):
    """What "automatic" comes to where another option, at `path`, has the value `beside`."""

    path: str
    beside: str
    value: str
    reason: str


class Settled(msgspec.Struct, frozen=True):
    """What "automatic" comes to for one option on one device, and why; `instead`, where other options matter."""

    value: str
    reason: str
    instead: tuple[Instead, ...] = ()


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One device a run could be asked for.

    `name` is what goes into `device.name`. `reason` says why it isn't available and what to do, empty where it is.
    `refusals` holds, by option and value (`{"training.optimizer": {"adamw-8bit": "..."}}`), why that choice can't be
    taken on this device, `cautions` what to know before taking it; what stands in neither works. The value `*` stands
    for every value but the option's default. `automatic` says what "auto" comes to. Bytes are bytes.
    """

    name: str
    title: str
    available: bool
    reason: str = ""
    memory_bytes: int | None = None
    refusals: dict[str, dict[str, str]] = {}
    cautions: dict[str, dict[str, str]] = {}
    automatic: dict[str, Settled] = {}


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """All devices, the available and the others, and what `device.name = "auto"` would take.

    `choices` lists the values of the options that only this PyTorch can list (`device.compile_backend`); `notes` are
    plain sentences about this machine that matter for training (an x86 Python on an Apple chip, ...).
    """

    devices: tuple[DeviceReport, ...]
    automatic: str
    choices: dict[str, tuple[str, ...]] = {}
    versions: dict[str, str] = {}
    notes: tuple[str, ...] = ()

"""What the options that were left to Hone come to on one device: the same for the engine and for every forecast."""

import msgspec

from core.capabilities import settled_beside
from core.catalogue import options_by_path, value_of
from core.options import RunOptions
from core.reports import DeviceReport, Settled


def settle(device: DeviceReport, options: RunOptions) -> RunOptions:
    """`options` with what "automatic" comes to on `device` in place of it."""
    for path, found in automatic_paths(device, options).items():
        section, _, name = path.partition(".")
        value = msgspec.convert(found.value, options_by_path()[path].value_type, strict=False)
        changed = msgspec.structs.replace(getattr(options, section), **{name: value})
        options = msgspec.structs.replace(options, **{section: changed})
    return options


def automatic_paths(device: DeviceReport, options: RunOptions) -> dict[str, Settled]:
    """What is left to Hone in `options`, with what it comes to."""
    return {
        path: settled_beside(found, options)
        for path, found in device.automatic.items()
        if value_of(options, path) in ("auto", None) and options_by_path()[path].applies_to(options)
    }

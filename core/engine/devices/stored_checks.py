"""The stored comparisons of a Mac's GPU with its CPU."""

import importlib.metadata
import platform

import msgspec

from core.base import settings
from core.base.files import read_record
from core.jobs.devices import DeviceComparison
from core.options.choices import Backend


class StoredCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The comparisons made so far, and why the last `tries` gave none."""

    comparisons: tuple[DeviceComparison, ...] = ()
    bf16_speedup: float | None = None
    failure: str = ""
    tries: int = 0


def software(backend: Backend = Backend.TORCH) -> str:
    """Returns the versions that compute, as in `DeviceCheckReport`."""
    macos = platform.mac_ver()[0]
    library = "mlx" if backend is Backend.MLX else "torch"
    return f"{backend.label} {importlib.metadata.version(library)}" + (f", macOS {macos}" if macos else "")


def stored_checks() -> dict[str, StoredCheck]:
    """Returns the stored results by `software()`; empty if the file is damaged: the check is then repeated."""
    return read_record(settings.home() / "device-checks.json", dict[str, StoredCheck]) or {}

"""Request and report of the job `check-device`: comparisons of a device with the CPU."""

from enum import StrEnum

import msgspec

from core.base.formats import paragraph
from core.options.choices import Backend

CHECK_SECONDS = 120.0
"""Timeout of a device check: 30 s of comparing, as much for loading torch from a slow disk, and a reserve."""


class Agreement(StrEnum):
    """Result of a comparison. `NOT_RUN`: an error occurred or time ran out."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_RUN = "not run"


class DeviceCheckRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Check a device (as in `device.name`); `short` runs only the most important comparisons, in a few seconds.

    `backend` is the engine whose computations are compared, by default both. `finished` names comparisons that are left
    out.
    """

    device: str = "auto"
    backend: Backend = Backend.AUTO
    short: bool = False
    finished: tuple[str, ...] = ()


class DeviceComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One computation on both devices.

    `explanation` is a sentence on what it is, `detail` on its result: why it was not run, what to do if it differs.
    `worst_error` is the largest relative error, found in `worst_tensor`; None if nothing was compared, or values are
    infinite or NaN. Errors up to `tolerance` agree. `seconds` are 0 if time ran out before it began.
    """

    name: str
    explanation: str
    agreement: Agreement
    worst_error: float | None = None
    worst_tensor: str = ""
    tolerance: float = 0.0
    seconds: float = 0.0
    detail: str = ""

    @property
    def agrees(self) -> bool:
        return self.agreement is Agreement.AGREES

    @property
    def differs(self) -> bool:
        return self.agreement is Agreement.DIFFERS

    @property
    def words(self) -> str:
        """The explanation and the detail."""
        return paragraph(self.explanation, self.detail)


class DeviceCheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The comparisons of a device with a `reference`.

    `device` is as in `device.name`, `title` its product name. Without an accelerator, device and reference are the CPU
    with several threads and with one. `software` is the version of MLX where it is compared, too, of PyTorch, and of
    macOS on a Mac. `conclusion` is one or two sentences. `seconds` don't include the start of the engine.
    `bf16_speedup` is the time of a training step in fp32 over that in bf16, measured in the short check of an Apple GPU
    only.
    """

    device: str
    title: str
    reference: str
    software: str
    conclusion: str
    comparisons: tuple[DeviceComparison, ...]
    bf16_speedup: float | None = None
    seconds: float = 0.0
    short: bool = False

    @property
    def agrees(self) -> bool:
        """Whether at least one comparison agrees and none differs."""
        results = {comparison.agreement for comparison in self.comparisons}
        return Agreement.AGREES in results and Agreement.DIFFERS not in results

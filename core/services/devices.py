"""The engine's answer to "does this device compute what it should?": it beside the CPU, comparison by comparison."""

from enum import StrEnum

import msgspec

CHECK_SECONDS = 120.0
"""Timeout of a device check: 30 s of comparing, as much for loading torch from a slow disk, and some to spare."""


class Agreement(StrEnum):
    """What came of comparing two computations. `NOT_RUN`: an error or the end of the time kept it from being made."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_RUN = "not run"


class DeviceCheckRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The question. `device` as in `device.name`; `short`: only what matters most, in a few seconds."""

    device: str = "auto"
    short: bool = False


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was computed twice.

    `name` is its title, `explanation` says in one plain sentence what it is, `detail` what came of it: why it was not
    run, what to do where it differs. `worst_error` is the largest relative error, `worst_tensor` the tensor it was
    found in; the error is None where nothing was compared and where values are infinite or no numbers. Up to
    `tolerance` counts as agreeing.
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
        """Whether it was made and agrees."""
        return self.agreement is Agreement.AGREES

    @property
    def differs(self) -> bool:
        """Whether it was made and differs."""
        return self.agreement is Agreement.DIFFERS

    @property
    def words(self) -> str:
        """What it is and what came of it."""
        return f"{self.explanation} {self.detail}".rstrip()


class DeviceCheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a device compares.

    `device` is its name as in `device.name`, `title` its own name, `reference` what it was held against; on a computer
    without an accelerator both are the CPU, with one thread and with several, and say so. `software` names what
    computed: PyTorch's version, and macOS's on a Mac. `conclusion` is one or two plain sentences. `seconds` is how long
    the check took, the start of the engine left out; `short` as in the request.
    """

    device: str
    title: str
    reference: str
    software: str
    conclusion: str
    comparisons: tuple[Comparison, ...]
    seconds: float = 0.0
    short: bool = False

    @property
    def agrees(self) -> bool:
        """Whether something was compared and nothing differs."""
        found = {comparison.agreement for comparison in self.comparisons}
        return Agreement.AGREES in found and Agreement.DIFFERS not in found

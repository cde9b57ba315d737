"""Find a Python that Hone runs on."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import NamedTuple

from bootstrap.errors import SetupError
from bootstrap.installer import Installer

OLDEST, NEWEST = (3, 11), (3, 14)
RANGE = f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"
FETCHED = "3.13"

ADVICE = {
    "darwin": "Install Python 3.13 from python.org (or: brew install python@3.13), then run python3 start.py again.",
    "win32": "Install the 64-bit Python 3.13 from python.org (or: winget install Python.Python.3.13), "
    "then run py start.py again.",
    "linux": "Install one from your system, such as: sudo apt-get install python3.13   "
    "or: sudo dnf install python3.13   and run python3 start.py again.",
}


class Facts(NamedTuple):
    """What decides whether a Python will do. `machine` is the processor it was built for, such as `arm64`."""

    version: tuple[int, int]
    is_64_bit: bool
    machine: str


def here() -> Facts:
    """The Python that runs this."""
    return Facts((sys.version_info[0], sys.version_info[1]), sys.maxsize > 2**32, platform.machine())


def why_not(facts: Facts, system: str = sys.platform, apple_chip: bool | None = None) -> str:
    """Say in one sentence why a Python won't do; empty where it will."""
    found = f"Python {facts.version[0]}.{facts.version[1]}"
    if not facts.is_64_bit:
        return f"This {found} is a 32-bit program; PyTorch needs a 64-bit one."
    if system == "win32" and facts.machine.upper() == "ARM64":
        return (
            f"This {found} is for Windows on Arm, which PyTorch isn't made for; the 64-bit x86 Python works."
        )
    if system == "darwin" and facts.machine == "x86_64":
        if on_apple_chip() if apple_chip is None else apple_chip:
            return f"This {found} is made for Intel Macs; an Apple chip trains only with an arm64 Python."
        return (
            "This Mac has an Intel processor, which today's PyTorch isn't made for; Hone needs an Apple chip."
        )
    if not OLDEST <= facts.version <= NEWEST:
        return f"This is {found}; Hone runs on Python 3.{OLDEST[1]} to 3.{NEWEST[1]}."
    return ""


def on_apple_chip() -> bool:
    """Whether a Mac has an Apple chip, asked so that it holds under Rosetta too."""
    answer = subprocess.run(
        ["/usr/sbin/sysctl", "-n", "hw.optional.arm64"], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() == "1"


def better_python(installer: Installer) -> str:
    """The path of another Python to use, empty where the one running will do.

    Raises:
        SetupError: There is none; it says what to install.
    """
    facts = here()
    reason = why_not(facts)
    if not reason:
        return ""
    try:
        if not why_not(facts._replace(version=OLDEST)):  # else uv may find what is as unsuitable
            return _find(installer)
    except SetupError as error:
        reason = f"{reason} No other suitable Python was found, and none could be fetched. {error}"
    raise SetupError(f"{reason}\n{ADVICE.get(sys.platform, ADVICE['linux'])}")


def _find(installer: Installer) -> str:
    """A Python of this system, else one that uv fetches."""
    find = ("python", "find", "--system", RANGE)
    try:
        return installer(*find)
    except SetupError:
        installer("python", "install", FETCHED)
        return installer(*find)

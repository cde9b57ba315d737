"""Find a Python that Hone runs on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bootstrap.errors import SetupError

OLDEST, NEWEST = (3, 11), (3, 14)
MINORS = range(OLDEST[1], NEWEST[1] + 1)
PROBE_SECONDS = 20

PROBE = "import platform, sys; print(*sys.version_info[:2], sys.maxsize > 2**32, platform.machine())"

ADVICE = {
    "darwin": "Install Python 3.13 from python.org (or: brew install python@3.13), then run python3 start.py again.",
    "win32": "Install the 64-bit Python 3.13 from python.org (or: winget install Python.Python.3.13), "
    "then run py start.py again.",
    "linux": "Install one from your system, such as: sudo apt-get install python3.13 python3.13-venv   "
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
    if not OLDEST <= facts.version <= NEWEST:
        return f"This is {found}; Hone runs on Python 3.{OLDEST[1]} to 3.{NEWEST[1]}."
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
    return ""


def on_apple_chip() -> bool:
    """Whether a Mac has an Apple chip, asked so that it holds under Rosetta too."""
    answer = subprocess.run(
        ["/usr/sbin/sysctl", "-n", "hw.optional.arm64"], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() == "1"


def better_python() -> list[str]:
    """The command of another Python to use, empty where the one running will do.

    Raises:
        SetupError: There is none; it says what to install.
    """
    reason = why_not(here())
    if not reason:
        return []
    found = find(candidates(), probe)
    if found is None:
        advice = ADVICE.get(sys.platform, ADVICE["linux"])
        raise SetupError(f"{reason} No other suitable Python was found.\n{advice}")
    return found


def candidates(system: str = sys.platform) -> Iterator[list[str]]:
    """Commands that may start a suitable Python, the version the tests run on first."""
    if system == "win32":
        if shutil.which("py"):
            yield from (["py", f"-3.{minor}"] for minor in MINORS)
        return
    folders = [os.environ.get("PATH", os.defpath)]
    if system == "darwin":  # where Homebrew and python.org put them, for a PATH that doesn't know
        frameworks = Path("/Library/Frameworks/Python.framework/Versions")
        folders += ["/opt/homebrew/bin", *(str(frameworks / f"3.{minor}" / "bin") for minor in MINORS)]
    for minor in MINORS:
        found = shutil.which(f"python3.{minor}", path=os.pathsep.join(folders))
        if found:
            yield [found]


def find(commands: Iterator[list[str]], ask: Callable[[list[str]], Facts | None]) -> list[str] | None:
    """The first command whose Python will do, or None."""
    for command in commands:
        facts = ask(command)
        if facts is not None and not why_not(facts):
            return command
    return None


def probe(command: list[str]) -> Facts | None:
    """Ask a Python what it is; None where it doesn't start or answers something else."""
    try:
        answer = subprocess.run(
            [*command, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_SECONDS, check=True
        )
        major, minor, is_64_bit, machine = answer.stdout.split()
        return Facts((int(major), int(minor)), is_64_bit == "True", machine)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None

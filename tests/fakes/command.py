"""The real program as a process of its own: `hone ...` as a person types it."""

import subprocess
import sys

from tests.fakes.runs import FAKES

ROOT = FAKES.parents[1]


def hone(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `hone ARGUMENTS` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "gui", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )

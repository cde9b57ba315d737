"""Install with uv: what it says is shown and kept, its failures become sentences."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bootstrap.errors import SetupError
from core.base import uv


class Installer:
    """Runs uv for a checkout, whose folder `build` keeps the program and all that was said."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._log = root / "build" / "setup.log"
        self._program = ""

    def __call__(self, *arguments: str) -> str:
        """Run uv, which is fetched where it isn't there; returns the last line that it printed.

        Raises:
            SetupError: It failed; says why as far as it is known, and holds the end of its output.
        """
        self._program = self._program or self._find()
        return self._run([self._program, *arguments])

    def _find(self) -> str:
        """The path of uv, fetched in the tested version; one on the PATH where that fails."""
        folder = str(self._log.parent)
        try:
            return self._run([sys.executable, "-m", "core.base.uv", folder])
        except SetupError:
            found = shutil.which("uv")
            if found is None:
                raise
            return found

    def _run(self, command: list[str]) -> str:
        """Run a program, printing what it does that takes time; returns its last line."""
        lines = [""]
        try:
            self._log.parent.mkdir(exist_ok=True)
            with self._log.open("a", encoding="utf-8") as log:
                process = subprocess.Popen(
                    command,
                    cwd=self._root,
                    env={**os.environ, **uv.environment(), "PYTHONUTF8": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    encoding="utf-8",
                    errors="replace",
                )
                with process:
                    for line in process.stdout or ():
                        log.write(line)
                        lines.append(line)
                        if line.startswith(("Downloading", "Resolved", "Prepared", "Installed")):
                            print(line, end="", flush=True)
        except OSError as error:
            raise SetupError(explain(f"error: {error}", self._log)) from error
        if process.returncode != 0:
            raise SetupError(explain("".join(lines), self._log))
        return lines[-1].strip()


def explain(output: str, log: Path) -> str:
    """Say why an installation failed: the cause and what to do where they are known, and the end of the output."""
    cause, fix, lines = uv.why_not_installed(output)
    known = f"{cause} {fix}, then start again." if cause else ""
    shown = "\n  ".join(lines)
    return f"Hone's libraries weren't installed. {known}\nuv said (all of it is in {log}):\n  {shown}"

"""Run pip and show in a line what it is busy with; turn its failures into sentences."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from bootstrap.errors import SetupError

TOOLS = ("pip==", "setuptools==")
WORTH_A_LINE = 20_000_000
"""Bytes from which a download is mentioned where there is no terminal to draw a moving line on."""
MANY = 10
"""Libraries from which installing them takes long enough to say so."""
REDRAW_SECONDS = 0.1

CAUSES = {
    r"No space left|not enough space|Errno 28": "The disk is full. Free some space, then start again.",
    r"Permission denied|Access is denied|PermissionError": (
        "A file couldn't be written. Close programs that use .venv (Hone itself, an editor), check that this folder "
        "belongs to you, then start again."
    ),
    r"No matching distribution|ResolutionImpossible|not a supported wheel": (
        "No build of one of the libraries was found for this computer and this Python. Hone runs on Macs with an Apple "
        "chip and macOS 14 or newer, on 64-bit Windows and on 64-bit Linux, with Python 3.11 to 3.14."
    ),
    r"NewConnectionError|ConnectTimeout|ReadTimeout|Read timed out|getaddrinfo|Name or service|Temporary failure"
    r"|Connection (broken|refused|reset|aborted)|ProxyError|SSLError|NetworkError|Could not fetch URL": (
        "The package index couldn't be reached. Check the internet connection (and a proxy, where you need one), then "
        "start again; what was downloaded is kept."
    ),
    r"HASH|hashes": "A download arrived damaged. Start again to fetch it anew.",
}
"""What pip says, as patterns, and what it means for the person. The first that is found counts."""


class ProgressLine:
    """One line that says what pip is doing: redrawn on a terminal, elsewhere a line for each large download."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._moving = out.isatty()
        self._width = 0
        self._drawn = 0.0
        self._looked_up = 0
        self._file = ""

    def feed(self, line: str) -> None:
        """Take note of one line that pip wrote."""
        collecting = re.match(r"Collecting ([\w.-]+)", line)
        download = re.match(r"\s*Downloading (?:\S*/)?([\w.]+)-\d\S*", line)
        progress = re.match(r"Progress (\d+) of (\d+)", line)
        installing = re.match(r"Installing collected packages: (.*)", line)
        if progress:
            self._show_bytes(int(progress.group(1)), int(progress.group(2)))
        elif collecting:
            self._looked_up += 1
            self._draw(f"Looking up libraries: {self._looked_up}, {collecting.group(1)}")
        elif download:
            self._file = download.group(1)
        elif installing:
            self._say_installing(installing.group(1).count(",") + 1)

    def _say_installing(self, count: int) -> None:
        if count >= MANY:
            self.say(f"Installing {count} libraries, which takes about a minute …")

    def _show_bytes(self, done: int, size: int) -> None:
        if not self._moving:
            if done == 0 and size >= WORTH_A_LINE:
                self.say(f"Downloading {self._file}, {size / 1e6:,.0f} MB")
            return
        share = done / size if size else 1.0
        bar = "#" * int(20 * share)
        self._draw(
            f"Downloading {self._file} [{bar:.<20}] {done / 1e6:,.0f} of {size / 1e6:,.0f} MB", done == size
        )

    def _draw(self, text: str, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._moving and (at_once or now - self._drawn >= REDRAW_SECONDS):
            self._out.write(f"\r{text:<{self._width}}")
            self._out.flush()
            self._width, self._drawn = len(text), now

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        self._out.write(f"{text}\n")
        self._out.flush()

    def clear(self) -> None:
        """Wipe the moving line."""
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._width = 0


def install(python: str, arguments: Iterable[str], log: Path, reports_progress: bool = True) -> None:
    """Run `pip install` in an environment, its whole output kept in `log`.

    `reports_progress` is for a pip that knows `--progress-bar raw` (24.1 and later).

    Raises:
        SetupError: pip failed; says why as far as it is known, and holds the end of its output.
    """
    bar = "raw" if reports_progress else "off"
    command = [
        python,
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar",
        bar,
    ]
    progress = ProgressLine(sys.stdout)
    lines = []
    with log.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(
            [*command, *arguments],
            env=dict(os.environ, PYTHONUNBUFFERED="1", PYTHONUTF8="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        with process:
            for line in process.stdout or ():
                progress.feed(line)
                if not line.startswith("Progress "):
                    file.write(line)
                    lines.append(line.rstrip())
    progress.clear()
    if process.returncode != 0:
        raise SetupError(explain(lines, log))


def chosen_version(python: str, name: str, constraints: Path) -> str:
    """The version of a library that pip would install, such as `2.13.0+cpu`; empty where pip finds none.

    Only descriptions are downloaded.
    """
    asked = [
        "install",
        "--dry-run",
        "--no-deps",
        "--ignore-installed",
        "--quiet",
        "--report",
        "-",
        "--no-input",
    ]
    done = subprocess.run(
        [python, "-m", "pip", *asked, "--constraint", str(constraints), name],
        env=dict(os.environ, PYTHONUTF8="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    try:
        (found,) = json.loads(done.stdout)["install"]
    except (ValueError, KeyError):
        return ""
    return str(found["metadata"]["version"])


def explain(lines: list[str], log: Path) -> str:
    """Say why pip failed: the cause where it is a known one, then the errors it printed."""
    said = "\n".join(lines)
    # A slow server is retried with a warning, so only the errors decide where there are any.
    errors = [line.strip() for line in lines if re.match(r"\s*error:", line, re.IGNORECASE)]
    cause = _cause("\n".join(errors)) or _cause(said) or "pip couldn't install Hone's libraries."
    shown = "\n  ".join((errors or lines)[-6:])
    return f"{cause}\npip said (all of it is in {log}):\n  {shown}"


def _cause(said: str) -> str:
    return next((meaning for pattern, meaning in CAUSES.items() if re.search(pattern, said)), "")

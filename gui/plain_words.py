"""Words for who can't be shown a window of Hone's: in the terminal, or in a box that the system itself draws.

Who starts Hone with a click has no terminal, and a program that ends without a word is the worst of answers.
"""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence

from core.processes import foreign_environment

TITLE = "Hone"

ON_A_MAC = (
    "osascript",
    "-e", "on run words",
    "-e", 'display alert "Hone" message (item 1 of words) as critical',
    "-e", "end run",
)  # fmt: skip

ON_LINUX: tuple[tuple[str, ...], ...] = (
    ("zenity", "--error", "--no-markup", f"--title={TITLE}", "--width=480", "--text"),
    ("kdialog", "--title", TITLE, "--error"),
    ("xmessage", "-center"),
    ("notify-send", TITLE),
)
"""Programs that show words, by what desktops bring; the words come last."""


COLUMNS = 72
ASCII = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "..."})


def tell(words: str) -> None:
    """Say it where it is seen. Returns at once; a box stays until it is closed."""
    if sys.platform == "win32":
        _tell_windows(words)
        return
    print(words, file=sys.stderr, flush=True)
    command = None if is_watched() else box(words)
    if command is not None:
        _show(command)


def is_watched() -> bool:
    """Whether somebody reads along in a terminal, where one of the streams may lead elsewhere."""
    return any(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))


def box(
    words: str,
    system: str = sys.platform,
    environment: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
) -> Sequence[str] | None:
    """The command that shows words in a box on this system; None: there is none, or no screen."""
    if system == "darwin":
        return [*ON_A_MAC, words]
    if not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        return None
    command = next((command for command in ON_LINUX if which(command[0])), None)
    if command is None:
        return None
    return [*command, _plain(words) if command[0] == "xmessage" else words]


def _plain(words: str) -> str:
    """Words for xmessage, which breaks no lines and shows curly quotes as numbers."""
    lines = words.translate(ASCII).splitlines()
    return "\n".join(textwrap.fill(line, COLUMNS, break_long_words=False) for line in lines)


def _show(command: Sequence[str]) -> None:
    silent = subprocess.DEVNULL
    try:
        subprocess.Popen(
            command,
            stdin=silent,
            stdout=silent,
            stderr=silent,
            env=foreign_environment(),
            start_new_session=True,
        )
    except OSError:  # the words have been printed
        return


def _tell_windows(words: str) -> None:
    """Print it, and show a box where this program has no console, whatever its streams lead to."""
    if sys.stderr is not None:
        print(words, file=sys.stderr, flush=True)
    if sys.platform == "win32":
        import ctypes

        icon_error = 0x10
        if not ctypes.windll.kernel32.GetConsoleWindow():
            ctypes.windll.user32.MessageBoxW(None, words, TITLE, icon_error)

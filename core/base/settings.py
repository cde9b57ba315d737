"""The person's own settings and where things are kept."""

import contextlib
import os
from enum import StrEnum
from pathlib import Path

import msgspec
import platformdirs

from core.base.errors import UserError
from core.base.files import without_tilde, write_atomically
from core.base.language import _

# --- Settings


class Appearance(StrEnum):
    """Which colours the window uses."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person can set about Hone itself; unknown keys of newer versions are skipped.

    `keep_awake` keeps the computer from sleeping while a run trains, `notify` tells of a run's end where nobody looks,
    `offline` keeps it from asking the Hugging Face Hub for anything.
    """

    appearance: Appearance = Appearance.SYSTEM
    runs_folder: str | None = None
    keep_awake: bool = True
    notify: bool = True
    offline: bool = False
    window_geometry: str | None = None


def home() -> Path:
    """The folder for settings and runs: HONE_HOME, or the operating system's place for an application's data."""
    chosen = os.environ.get("HONE_HOME")
    return (
        without_tilde(chosen).absolute() if chosen else platformdirs.user_data_path("Hone", appauthor=False)
    )


def load() -> Settings:
    """The saved settings; the defaults where there are none or the file is damaged.

    Raises:
        OSError: As `read`.
    """
    return read()[0]


def read() -> tuple[Settings, UserError | None]:
    """As `load`, and what to say if the file is damaged; it is copied to settings.damaged.json then.

    Raises:
        OSError: There is a file, and it can't be read.
    """
    path = home() / "settings.json"
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Settings(), None
    try:
        settings = msgspec.json.decode(content, type=Settings)
    except msgspec.MsgspecError as error:
        copy, where = path.with_suffix(".damaged.json"), ""
        with contextlib.suppress(OSError):
            write_atomically(copy, content)
            where = _("They were put in {copy}. ").format(copy=copy)
        return Settings(), UserError(
            _("Your settings were damaged, so the defaults are in force"),
            _("{where}New runs go to {settings}. What was wrong: {error}.").format(
                where=where, settings=runs_folder(Settings()), error=error
            ),
        )
    return settings, None


def save(settings: Settings) -> None:
    """Write the settings, whole or not at all."""
    home().mkdir(parents=True, exist_ok=True)
    write_atomically(home() / "settings.json", msgspec.json.format(msgspec.json.encode(settings)))


def runs_folder(settings: Settings | None = None) -> Path:
    """Where new runs go."""
    chosen = (settings or load()).runs_folder
    return without_tilde(chosen) if chosen else home() / "runs"


# --- Version


VERSION = "0.1.0"

REPOSITORY = ""
"""Where releases are published, as `owner/name` on GitHub; `packaging/fill_repository.py` writes it for a release.

Empty: this build knows of no such place, and Settings says so.
"""

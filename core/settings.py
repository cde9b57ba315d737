"""The person's own settings and where things are kept."""

import os
from enum import StrEnum
from pathlib import Path

import msgspec
import platformdirs

from core.files import write_atomically

SCHEMA = 1


class Appearance(StrEnum):
    """Which colours the window uses."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person can set about Hone itself; unknown keys of newer versions are skipped."""

    schema: int = SCHEMA
    appearance: Appearance = Appearance.SYSTEM
    runs_folder: str | None = None
    window_geometry: str | None = None


def home() -> Path:
    """The folder for settings and runs: HONE_HOME, or the operating system's place for an application's data."""
    chosen = os.environ.get("HONE_HOME")
    return (
        Path(chosen).expanduser().absolute()
        if chosen
        else platformdirs.user_data_path("Hone", appauthor=False)
    )


def load() -> Settings:
    """The saved settings; the defaults where there are none or the file is damaged (it is then kept beside)."""
    path = home() / "settings.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Settings)
    except FileNotFoundError:
        return Settings()
    except msgspec.MsgspecError:
        path.replace(path.with_suffix(".damaged.json"))
        return Settings()


def save(settings: Settings) -> None:
    """Write the settings, whole or not at all."""
    home().mkdir(parents=True, exist_ok=True)
    write_atomically(home() / "settings.json", msgspec.json.format(msgspec.json.encode(settings)))


def runs_folder(settings: Settings | None = None) -> Path:
    """Where new runs go."""
    chosen = (settings or load()).runs_folder
    return Path(chosen).expanduser() if chosen else home() / "runs"

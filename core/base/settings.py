"""The person's own settings and where things are kept."""

import contextlib
import os
from enum import StrEnum
from pathlib import Path

import msgspec

from core.base import places
from core.base.errors import Fix, UserError
from core.base.files import in_unicode, write_atomically
from core.base.formats import paragraph
from core.base.language import _
from core.base.places import without_tilde

# --- Settings


class Appearance(StrEnum):
    """Which colours the window uses."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of Hone itself; unknown keys of newer versions are skipped.

    `language` is one of `core.base.language.LANGUAGES`, or empty: the system's. `keep_awake` keeps the computer from
    sleeping while a run trains, `notify` shows a notification at a run's end, `offline` forbids requests to the Hugging
    Face Hub. `last_page` is the window's page when it was closed.
    """

    appearance: Appearance = Appearance.SYSTEM
    language: str = ""
    runs_folder: str | None = None
    keep_awake: bool = True
    notify: bool = True
    offline: bool = False
    window_geometry: str | None = None
    last_page: str = ""


def home() -> Path:
    """Returns the folder for settings and runs, as `core.base.places.home`.

    Raises:
        UserError: Its name isn't UTF-8, which neither a run's files nor the libraries can hold.
    """
    path = places.home()
    if (shown := in_unicode(path)) != str(path):
        raise UserError(
            _("Hone's folder has a name that is not UTF-8"),
            _("{shown}: � marks bytes that are not valid UTF-8.").format(shown=shown),
            (Fix(_("Name another folder in the environment variable HONE_HOME")),),
        )
    return path


def load() -> Settings:
    """Returns the saved settings; the defaults if there are none or the file is damaged.

    Raises:
        OSError: As `read`.
    """
    return read()[0]


def read() -> tuple[Settings, UserError | None]:
    """Returns the settings, and a message if the file is damaged, which is then copied to settings.damaged.json.

    Raises:
        OSError: The file exists and can't be read.
    """
    path = home() / "settings.json"
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Settings(), None
    try:
        settings = msgspec.json.decode(content, type=Settings)
    except msgspec.MsgspecError as error:
        copy = path.with_suffix(".damaged.json")
        details = [_("New runs go to {folder}.").format(folder=runs_folder(Settings())), str(error)]
        with contextlib.suppress(OSError):
            write_atomically(copy, content)
            details.insert(0, _("They were saved as {copy}.").format(copy=copy))
        return Settings(), UserError(
            _("Your settings were damaged; the defaults are used"), paragraph(*details)
        )
    return settings, None


def save(settings: Settings) -> None:
    """Writes the settings, whole or not at all."""
    home().mkdir(parents=True, exist_ok=True)
    write_atomically(home() / "settings.json", msgspec.json.format(msgspec.json.encode(settings)))


def hub_cache() -> Path:
    """Returns the cache of the Hub's models (https://huggingface.co/docs/huggingface_hub/guides/manage-cache)."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("HF_HOME") or users / "huggingface").expanduser()
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()


def runs_folder(settings: Settings | None = None) -> Path:
    chosen = (settings or load()).runs_folder
    return without_tilde(chosen) if chosen else home() / "runs"


# --- Version


VERSION = "0.1.0"

REPOSITORY = ""
"""Where releases are published, as `owner/name` on GitHub, which Settings links to; empty if unknown.

`packaging/fill_repository.py` writes it for a release.
"""

"""Files of the person: opened, shown in the system's file manager, and named by their path."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPoint, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget

from core.base.errors import UserError
from core.base.files import is_there
from core.base.language import _, isolated
from gui.base.questions import MessageBox

Report = Callable[[UserError], None]
"""Shows what went wrong."""


def reveal(path: Path) -> UserError | None:
    """Opens a folder, or a file, with the system's program for it; returns an error if that isn't possible."""
    if not is_there(path):
        return _gone(path)
    if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(path))):
        detail = _("No program for it answered. It is {path}").format(path=path)
        return UserError(_("“{name}” can't be opened").format(name=isolated(path.name)), detail)
    return None


def _gone(path: Path) -> UserError:
    detail = _("There is nothing at {path} any more.").format(path=path)
    return UserError(_("“{name}” does not exist").format(name=isolated(path.name)), detail)


def show_in_folder(path: Path) -> UserError | None:
    """Selects a file in the system's file manager, or opens its folder where that can't select.

    Linux: the interface org.freedesktop.FileManager1, which Files, Dolphin, Nemo and Thunar answer.
    """
    if not is_there(path):
        return _gone(path)
    if sys.platform == "darwin":
        command = ["open", "-R", str(path)]
    elif sys.platform == "win32":
        command = ["explorer", f"/select,{path}"]
    else:
        command = [
            *("dbus-send", "--session", "--print-reply", "--reply-timeout=2000"),
            *("--dest=org.freedesktop.FileManager1", "/org/freedesktop/FileManager1"),
            *("org.freedesktop.FileManager1.ShowItems", f"array:string:{_address(path)}", "string:"),
        ]
    try:
        done = subprocess.run(command, capture_output=True, timeout=3, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return reveal(path.parent)
    # Windows' explorer returns 1 where it has opened a window
    return None if sys.platform == "win32" or done.returncode == 0 else reveal(path.parent)


def _address(path: Path) -> str:
    return path.resolve().as_uri().replace(",", "%2C")  # dbus-send would take what follows for another file


def teller(parent: QWidget) -> Report:
    """Returns what shows an error in a dialog over `parent`."""
    return lambda error: MessageBox(error.title, error.detail, parent).open()


def folder_title() -> str:
    """What showing a file in its folder is called on this system."""
    return _("Reveal in Finder") if sys.platform == "darwin" else _("Show in folder")


def add_file_actions(menu: QMenu, path: Path, report: Report) -> None:
    """Adds Open, Show in folder and Copy path to a menu; they are grey where the file isn't there any more."""

    def run(action: Callable[[Path], UserError | None]) -> None:
        error = action(path)
        if error is not None:
            report(error)

    found = is_there(path)
    menu.addAction(_("Open"), lambda: run(reveal)).setEnabled(found)
    menu.addAction(folder_title(), lambda: run(show_in_folder)).setEnabled(found)
    menu.addAction(_("Copy path"), lambda: QGuiApplication.clipboard().setText(str(path)))


def open_file(parent: QWidget, path: Path) -> None:
    """Opens a file with the system's program for it, or says over `parent` why not."""
    error = reveal(path)
    if error is not None:
        teller(parent)(error)


def open_file_menu(parent: QWidget, path: Path, at: QPoint) -> None:
    """Opens a menu with what can be done with a file, at a place of the screen."""
    menu = QMenu(parent)
    add_file_actions(menu, path, teller(parent))
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(at)

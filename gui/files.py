"""Showing files in the operating system's own file manager."""

from pathlib import Path

from PySide6.QtCore import QCoreApplication, QUrl
from PySide6.QtGui import QDesktopServices

from core.errors import UserError
from core.files import is_there

_translate = QCoreApplication.translate


def reveal(folder: Path) -> UserError | None:
    """Open a folder in the file manager; where that can't be done, returns what to tell instead."""
    if not is_there(folder):
        title = _translate("files", "The folder is not there")
        return UserError(title, _translate("files", "There is nothing at {} any more.").format(folder))
    if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
        title = _translate("files", "The folder can't be shown")
        detail = _translate("files", "No file manager answered. The folder is {}")
        return UserError(title, detail.format(folder))
    return None

"""Showing files in the operating system's own file manager."""

from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices


def reveal(folder: Path) -> bool:
    """Open a folder in the file manager; returns whether there was one to ask."""
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

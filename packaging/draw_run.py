"""Draw the page of a run into a PNG file, as a proof that Qt, the charts and the icons came along in the bundle."""

from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from core.settings import Appearance, Settings
from gui.app import HoneApplication, dress
from gui.engine_question import ask_real_engine
from gui.theme import Theme
from gui.window import MainWindow

DRAW_AFTER_MS = 1500
"""Time in which the page reads a short run and paints its charts."""


def draw_run(run: str, picture: str) -> int:
    """Open the run's folder in the window and save what is seen; 0 where that worked."""
    application = HoneApplication(["hone"])
    dress(application)
    theme = Theme(Appearance.LIGHT, application)
    theme.apply()
    window = MainWindow(theme, Settings(), ask_real_engine)
    window.open_path(Path(run))
    window.show()

    def save() -> None:
        saved = window.grab().save(picture)
        window.end_work()
        QApplication.exit(0 if saved else 1)

    QTimer.singleShot(DRAW_AFTER_MS, save)
    return application.exec()

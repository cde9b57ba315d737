"""What happens when Hone itself is wrong: the whole report goes into the log, and a calm dialog offers it to copy."""

import faulthandler
import logging
import platform
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import TextIO

import PySide6
from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from core.base.language import _
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import text_label
from gui.widgets.layout import vbox

LARGEST_LOG = 1_000_000

log = logging.getLogger("hone")


def open_log(path: Path) -> None:
    """Send Hone's own log, and what Python says when it dies, into a file; a grown file begins anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_large = path.exists() and path.stat().st_size > LARGEST_LOG
    stream = path.open(
        "w" if is_large else "a", encoding="utf-8"
    )  # stays open: faulthandler writes to it, too
    handler = _Log(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    faulthandler.enable(stream)


class _Log(logging.StreamHandler[TextIO]):
    """Lets a line go that a full disk won't take, without a report on that in the terminal."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - Python's name
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class BugReporter(QObject):
    """Takes what nobody has handled, from any thread, logs it whole and shows it once.

    Signals:
        happened: The report; delivered in the window's thread.
    """

    happened = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._dialog: BugDialog | None = None
        self.happened.connect(self._show)

    def install(self) -> None:
        """Become the hook for unhandled errors of this process."""
        sys.excepthook = self.report
        threading.excepthook = self._report_thread

    def report(self, kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        """Log an error and show it."""
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, where)
            return
        text = "".join(traceback.format_exception(kind, error, where))
        log.error("unhandled error\n%s", text)
        print(text, file=sys.stderr)
        self.happened.emit(f"{versions()}\n\n{text}")

    def _report_thread(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            self.report(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def _show(self, text: str) -> None:
        if self._dialog is not None and self._dialog.isVisible():
            return  # one report at a time: an error in a paint event would come again and again
        self._dialog = BugDialog(text, QApplication.activeWindow())
        self._dialog.open()


class BugDialog(QDialog):
    """Says that Hone ran into a bug, and offers the report to copy."""

    def __init__(self, report: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("Hone"))
        self.resize(640, 420)
        title = QLabel(_("Hone ran into a bug"))
        set_role(title, Role.PAGE_TITLE)
        words = text_label(
            _(
                "Your runs are not touched: each trains in a process of its own. Copy the report and send it to us, "
                "then start Hone again if something looks wrong."
            )
        )
        text = QPlainTextEdit(report)
        text.setReadOnly(True)
        text.setAccessibleName(_("Report"))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copying = QPushButton(_("Copy the report"))
        buttons.addButton(copying, QDialogButtonBox.ButtonRole.ActionRole)
        copying.clicked.connect(lambda: QGuiApplication.clipboard().setText(report))
        buttons.rejected.connect(self.reject)
        layout = vbox(title, words, text, buttons, spacing=SPACING + 4)
        layout.setContentsMargins(3 * SPACING, 2 * SPACING, 3 * SPACING, 2 * SPACING)
        self.setLayout(layout)


def versions() -> str:
    """One line about what Hone runs on."""
    return f"Python {platform.python_version()}, Qt {PySide6.__version__}, {platform.platform()}"

"""Starting the window: settings, theme, log, and nothing heavy before the first paint.

With HONE_QUIT_AFTER_PAINT in the environment the program prints `first-paint SECONDS` (the monotonic clock) once its
window has been painted, and ends: that is how `tests/performance/window_start.py` times it.
"""

import faulthandler
import gc
import importlib
import locale
import logging
import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TextIO

import PySide6
from PySide6.QtCore import QEvent, QEventLoop, QLocale, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QFileOpenEvent, QFont, QGuiApplication, QIcon
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from core.base import settings
from core.base.errors import UserError
from core.base.language import _
from core.base.settings import Settings
from core.options import presets
from gui.app.single_instance import SingleInstance
from gui.app.window import MainWindow
from gui.base.background import ask_real_engine, end_program
from gui.base.theme import ICONS, Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.new_run.page import NewRunPage
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


KEEP_AFTER_MS = 3000
"""So long after the last change it is kept, should the window not come to close in order."""


class FormAutosave(QObject):
    """Keeps what the page holds. What it held in the beginning is not kept: nobody has chosen it.

    Args:
        page: The page.
        parent: Qt's parent.
    """

    def __init__(self, page: NewRunPage, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._page = page
        self._kept = page.chosen_tree()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(KEEP_AFTER_MS)
        self._timer.timeout.connect(self.keep)
        page.form_changed.connect(self._timer.start)

    def restore(self) -> None:
        """Show again what was kept, if anything was."""
        tree = presets.find_last_form()
        if tree is not None:
            self._page.restore_tree(tree)
            self._kept = self._page.chosen_tree()

    def keep(self) -> None:
        """Keep what the page holds now, unless that is kept already."""
        self._timer.stop()
        tree = self._page.chosen_tree()
        if tree != self._kept:
            presets.keep(tree)
            self._kept = tree


log = logging.getLogger("hone")

SWITCH_SECONDS = 0.0005
"""How long another thread computes on while the window's waits for its turn."""


GATHERING_MS = 50
"""Files that a Mac names one after the other within so long were opened at a time."""

EVENT_MS = 1000
"""How long a second Hone on a Mac waits to be told of a file to open."""

REST_MS = 1500
"""After its first paint the window asks what the machine can do; charts can wait for so long."""

SETTLED_MS = 4000
"""So long after the start all that stays is there: pages, charts, libraries."""


class HoneApplication(QApplication):
    """The application; on a Mac it is told of files to open by events, one for each.

    Signals:
        files_opened: A tuple with each `Path` opened with Hone at a time.
    """

    files_opened = Signal(object)

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(arguments)
        self._opened: list[Path] = []
        self._gathering = QTimer(self, singleShot=True, interval=GATHERING_MS)
        self._gathering.timeout.connect(self._tell_opened)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent):
            self._opened.append(Path(event.file()))
            self._gathering.start()
            return True
        return super().event(event)

    def _tell_opened(self) -> None:
        opened, self._opened = tuple(self._opened), []
        self.files_opened.emit(opened)


class FirstPaint(QObject):
    """Tells when a window has been painted for the first time.

    Signals:
        painted: Once, soon after.
    """

    painted = Signal()

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() is QEvent.Type.Paint:
            self._window.removeEventFilter(self)
            QTimer.singleShot(0, self.painted.emit)
        return super().eventFilter(watched, event)


def run_app(argv: Sequence[str]) -> int:
    """Open the window, and what is named after the program's name in it; returns when it is closed."""
    take_short_turns()
    application = HoneApplication(["hone"])  # PySide6 crashes on a name of a file that is no text
    asked = tuple(Path(path).absolute() for path in argv[1:])
    first = claim_place(application, asked)
    if first is None:
        return 0
    dress(application)
    reporter = BugReporter(application)
    reporter.install()
    chosen, trouble, damage = open_home()
    theme = Theme(chosen.appearance, application)
    theme.apply()
    window = MainWindow(theme, chosen, ask_real_engine)
    if trouble is not None:
        window.work_without_home(trouble)
    else:
        keep_form(application, window)
    if damage is not None:
        window.found.strip.tell_trouble(damage)
    application.files_opened.connect(window.open_paths)
    application.commitDataRequest.connect(window.end_session, Qt.ConnectionType.DirectConnection)
    application.aboutToQuit.connect(window.end_work)
    first.called.connect(window.come_forward)
    paint = FirstPaint(window)
    paint.painted.connect(_report_paint if "HONE_QUIT_AFTER_PAINT" in os.environ else window.ask_for_devices)
    paint.painted.connect(import_charts_soon)
    window.open_paths(asked)
    window.show()
    QTimer.singleShot(SETTLED_MS, collect_garbage)
    status = application.exec()
    first.close()
    return end_program(status)


def claim_place(application: QApplication, asked: Sequence[Path]) -> SingleInstance | None:
    """Be the one Hone of this person; None where another one is open, which has been told what was `asked` for.

    Who started this one in a terminal is told, as nothing else would happen there.
    """
    first = SingleInstance(settings.home(), application)
    if first.claim(asked, partial(files_on_their_way, application)):
        return first
    opens = ", and opens what you named" if len(asked) == 1 else ", and opens the first of what you named"
    print(f"Hone is open already; it was brought to the front{opens if asked else ''}.", flush=True)
    return None


def files_on_their_way(application: QApplication, system: str = sys.platform) -> Sequence[Path]:
    """The files that a Mac wants opened: it names them in events soon after the start, and not in the arguments."""
    if system != "darwin" or not isinstance(application, HoneApplication):
        return ()
    found: list[Path] = []
    waiting = QEventLoop()
    application.files_opened.connect(found.extend)
    application.files_opened.connect(waiting.quit)
    QTimer.singleShot(EVENT_MS, waiting.quit)
    waiting.exec()
    return found


def import_charts_soon() -> None:
    """Once the window has come to rest, import what the page of a run needs."""
    QTimer.singleShot(REST_MS, import_charts)


def import_charts() -> threading.Thread:
    """Import the page of a run in a thread: NumPy and pyqtgraph take half a second that nobody should wait for."""
    thread = threading.Thread(target=importlib.import_module, args=("gui.run.page",), daemon=True)
    thread.start()
    return thread


def collect_garbage() -> None:
    """Let Python look for garbage from now on, but not among what the start has made: each look would take 20 ms."""
    gc.freeze()
    gc.enable()


def take_short_turns() -> None:
    """Let the threads of this process, all of them and from now on, take shorter turns.

    Python computes in one thread at a time and leaves it 5 ms unless told otherwise. Drawing a chart takes some ten
    turns, which the window would otherwise wait for while a long run is read.
    """
    sys.setswitchinterval(SWITCH_SECONDS)


def keep_form(application: QApplication, window: MainWindow) -> None:
    """Show the form as it was left, and keep it from now on."""
    kept = FormAutosave(window.new_run, window)
    kept.restore()
    application.aboutToQuit.connect(kept.keep)


def open_home() -> tuple[Settings, OSError | None, UserError | None]:
    """Begin the log and read the settings.

    Returns:
        The settings; why Hone's folder can't be used; what is to be said of damaged settings.
    """
    trouble: OSError | None = None
    damage: UserError | None = None
    chosen = Settings()
    try:
        open_log(settings.home() / "hone.log")
    except OSError as error:
        trouble = error
    try:
        chosen, damage = settings.read()
    except OSError as error:
        trouble = error
    if damage is not None:
        log.warning("%s", damage)
    return chosen, trouble, damage


def dress(application: QApplication) -> None:
    """Names, locale, icon, style and font of the application; figures take the same width, so that columns line up.

    The locale is English, as all texts are, whatever the system's: 12.5 is a number that nobody writes as 12,5.
    """
    QLocale.setDefault(QLocale(QLocale.Language.English, QLocale.Country.UnitedStates))
    locale.setlocale(locale.LC_TIME, "C")  # Qt has set the system's, which `time.strftime` names months by
    application.setApplicationName("Hone")
    application.setApplicationDisplayName("Hone")
    application.setDesktopFileName("hone")
    application.setWindowIcon(QIcon(str(ICONS / "hone.svg")))
    application.setStyle("Fusion")
    font = application.font()
    font.setFeature(QFont.Tag("tnum"), 1)
    application.setFont(font)


def _report_paint() -> None:
    print(f"first-paint {time.monotonic():.6f}", flush=True)
    QApplication.quit()


if __name__ == "__main__":
    sys.exit(run_app(sys.argv))

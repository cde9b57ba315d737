"""Starting the window: settings, theme, log, and nothing heavy before the first paint.

With HONE_QUIT_AFTER_PAINT in the environment the program prints `first-paint SECONDS` (the monotonic clock) once its
window has been painted, and ends: that is how `tests/performance/window_start.py` times it.
"""

from __future__ import annotations

import faulthandler
import gc
import hashlib
import importlib
import locale
import logging
import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import msgspec
import PySide6
from PySide6.QtCore import (
    QDeadlineTimer,
    QEvent,
    QEventLoop,
    QLibraryInfo,
    QLocale,
    QLockFile,
    QObject,
    Qt,
    QThread,
    QTimer,
    QTranslator,
    Signal,
)
from PySide6.QtGui import QFileOpenEvent, QFont, QFontDatabase, QGuiApplication, QIcon, QShortcut
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import QApplication, QDialogButtonBox, QPlainTextEdit, QWidget

from core.base import language, settings
from core.base.errors import UserError
from core.base.files import in_unicode
from core.base.language import _
from core.base.settings import Settings
from core.options import presets
from core.runs.library import list_runs
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.background import ask_real_engine, end_program
from gui.base.theme import ICONS, Role, Theme
from gui.widgets.labels import push_button, role_label, text_label
from gui.widgets.layout import Sheet, fill_dialog

if TYPE_CHECKING:
    from gui.new_run.page import NewRunPage

LARGEST_LOG = 1_000_000

log = logging.getLogger("hone")


def open_log(path: Path) -> None:
    """Write Hone's own log and Python's crash reports to a file, which starts over when it is large."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_large = path.exists() and path.stat().st_size > LARGEST_LOG
    # stays open: faulthandler writes to it, too
    stream = path.open("w" if is_large else "a", encoding="utf-8")
    handler = _Log(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    faulthandler.enable(stream)


class _Log(logging.StreamHandler[TextIO]):
    """Ignores errors of a full disk."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - Python's name
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class BugReporter(QObject):
    """Logs and shows unhandled errors of any thread."""

    happened = Signal(str, str)  # where, and a report, for the window's thread
    _recursed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.dialog: BugDialog | None = None
        self._shown: set[str] = set()
        self.happened.connect(self._show)
        self._recursed.connect(self._report, Qt.ConnectionType.QueuedConnection)

    def install(self) -> None:
        sys.excepthook = self.report
        threading.excepthook = self._report_thread

    def report(self, kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, where)
            return
        if issubclass(kind, RecursionError):  # nothing else can be called here
            self._recursed.emit(error)
        else:
            self._report(error)

    def _report(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        log.error("unhandled error\n%s", text)
        print(text, file=sys.stderr)
        where = f"{type(error)} {traceback.extract_tb(error.__traceback__, limit=-1)}"
        self.happened.emit(where, f"{versions()}\n\n{text}")

    def _report_thread(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            self.report(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def _show(self, where: str, text: str) -> None:
        """Show one report at a time, and of each place the first: a timer or a paint event repeats its error."""
        if self.dialog is None and where not in self._shown:
            self._shown.add(where)
            self.dialog = BugDialog(text, QApplication.activeWindow())
            self.dialog.destroyed.connect(lambda: setattr(self, "dialog", None))
            self.dialog.show()


class BugDialog(Sheet):
    """Shows a bug report to copy. It blocks no other window, and Hone ends without waiting for it."""

    def __init__(self, report: str, parent: QWidget | None = None) -> None:
        super().__init__(_("Hone"), parent)
        self.resize(640, 420)
        self.setAttribute(Qt.WidgetAttribute.WA_QuitOnClose, False)
        QShortcut("Ctrl+Q", self, QApplication.closeAllWindows)
        title = role_label(Role.PAGE_TITLE, _("Something went wrong in Hone"))
        words = text_label(
            _(
                "Your runs are not affected: each trains in its own process. Copy the report to send it to the "
                "developers, and restart Hone if something looks wrong."
            )
        )
        text = QPlainTextEdit(report, readOnly=True)
        text.setAccessibleName(_("Report"))
        copying = push_button(_("Copy report"), lambda: QGuiApplication.clipboard().setText(report))
        buttons = self.button_box(QDialogButtonBox.StandardButton.Close, copying)
        fill_dialog(self, title, words, text, buttons)
        copying.setFocus()


def versions() -> str:
    """Versions of Python, Qt and the system."""
    return f"Python {platform.python_version()}, Qt {PySide6.__version__}, {platform.platform()}"


AUTOSAVE_MS = 500
"""The form is saved so long after its first change since it was saved."""


class FormAutosave(QObject):
    """Saves the form of New run when it has changed."""

    def __init__(self, page: NewRunPage, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._page = page
        tree = presets.find_last_form()
        if tree is not None:
            page.restore_tree(tree)
        self._saved = page.chosen_tree()
        self.timer = QTimer(self, singleShot=True, interval=AUTOSAVE_MS)
        self.timer.timeout.connect(self.save)
        page.form_changed.connect(lambda: self.timer.isActive() or self.timer.start())

    def save(self) -> None:
        self.timer.stop()
        tree = self._page.chosen_tree()
        if tree != self._saved:
            presets.keep(tree)
            self._saved = tree


# --- One window per person and folder: a second start of Hone passes its files to the first one, and ends


CONNECT_MS, RETRY_MS = 1000, 50
"""How long, and how often, the second one tries to connect to the first, which may have begun a moment ago."""

ANSWER_MS = 10_000
"""How long the second one waits for an answer: the first one may be about to create its window."""

HEARD = b"heard\n"


class SingleInstance(QObject):
    """Is the first Hone of a folder, or passes files to the first one.

    The first one holds a lock file, which the operating system releases when its owner dies, and listens on a local
    socket (a named pipe on Windows) that only this person may use. A message is a line of JSON, a list of paths.
    """

    called = Signal(object)  # Hone was started again with these files, a tuple of `Path`

    def __init__(self, home: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = QLockFile(str(home / "hone.lock"))
        self._lock.setStaleLockTime(0)  # it is valid as long as its process lives
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)
        digest = hashlib.sha256(str(home.absolute()).encode(errors="surrogateescape")).hexdigest()
        self._name = f"hone-{digest[:20]}" if os.name == "nt" else str(home.absolute() / "hone.socket")

    def claim(self, paths: Sequence[Path], late: Callable[[], Sequence[Path]] = tuple) -> bool:
        """Become the first one; returns False if there is another one, which has received `paths`.

        If the other one doesn't answer, or the folder can't be written to, there are two windows rather than none.

        Args:
            late: Waits for files to open; called only if there is another one, and no path yet.
        """
        Path(self._lock.fileName()).parent.mkdir(parents=True, exist_ok=True)
        if not self._lock.tryLock(0):
            is_taken = self._lock.error() is QLockFile.LockError.LockFailedError
            return not (is_taken and self._send(paths or late()))
        QLocalServer.removeServer(self._name)  # left by one that was killed
        if not self._server.listen(self._name):
            log.warning("another Hone can't reach this one: %s", self._server.errorString())
        return True

    def close(self) -> None:
        self._server.close()
        self._lock.unlock()

    def _send(self, paths: Sequence[Path]) -> bool:
        """Send the paths to the first one; returns whether it has answered."""
        socket = QLocalSocket()
        patience = QDeadlineTimer(CONNECT_MS)
        socket.connectToServer(self._name)
        while not socket.waitForConnected(max(0, patience.remainingTime())):
            if patience.hasExpired():
                return False
            QThread.msleep(RETRY_MS)
            socket.connectToServer(self._name)
        if (
            sys.platform == "win32"
        ):  # let the first one raise its window: only the person's newest process may
            import ctypes

            any_process = -1
            ctypes.windll.user32.AllowSetForegroundWindow(any_process)
        texts = [in_unicode(path.absolute()) for path in paths]  # JSON is text
        socket.write(msgspec.json.encode(texts) + b"\n")
        socket.waitForBytesWritten(ANSWER_MS)
        while not socket.canReadLine():
            if not socket.waitForReadyRead(ANSWER_MS):
                return False
        return bytes(socket.readLine().data()) == HEARD

    def _on_connection(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.readyRead.connect(partial(self._read, socket))
            socket.disconnected.connect(socket.deleteLater)
            self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        """Answer a line that is a message; close the connection after any line."""
        if not socket.canReadLine():
            return
        try:
            paths = msgspec.json.decode(socket.readLine().data(), type=tuple[str, ...])
        except msgspec.MsgspecError:
            log.warning("a message to the window can't be read")
            socket.abort()
            return
        socket.write(HEARD)
        socket.flush()
        socket.disconnectFromServer()
        self.called.emit(tuple(map(Path, paths)))


# --- Starting


SWITCH_SECONDS = 0.0005
"""How long another thread computes while the window's waits for Python's lock, instead of 5 ms.

Drawing a chart takes about ten turns, for which the window would otherwise wait while a long run is read.
"""

GATHERING_MS = 50
"""Time within which a Mac names files that are opened together, one after the other."""

EVENT_MS = 1000
"""How long a second Hone on a Mac waits for files to open."""

REST_MS = 1500
"""Delay of importing the charts: first the window asks what the machine can do."""

GARBAGE_MS = 1000
SETTLED_MS = 4000
"""When all permanent objects of the start exist: pages, charts, libraries."""


class HoneApplication(QApplication):
    """The application. A Mac sends an event for each file to open."""

    files_opened = Signal(object)  # a tuple of `Path` that were opened together

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(arguments)
        self._opened: list[Path] = []
        self._gathering = QTimer(self, singleShot=True, interval=GATHERING_MS)
        self._gathering.timeout.connect(self._emit_opened)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent):
            self._opened.append(Path(event.file()))
            self._gathering.start()
            return True
        return super().event(event)

    def _emit_opened(self) -> None:
        opened, self._opened = tuple(self._opened), []
        self.files_opened.emit(opened)


class FirstPaint(QObject):
    """Emits `painted` once, after the first paint of a window."""

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
    """Open the window, with the files named after the program; returns when it is closed."""
    sys.setswitchinterval(SWITCH_SECONDS)
    application = HoneApplication(["hone"])  # PySide6 crashes on a file name that is no text
    paths = tuple(Path(path).absolute() for path in argv[1:])
    first = claim_place(application, paths)
    if first is None:
        return 0
    set_up(application)
    reporter = BugReporter(application)
    reporter.install()
    chosen, home_error, damage = open_home()
    theme = Theme(chosen.appearance, application)
    theme.apply()
    window = MainWindow(theme, chosen, ask_real_engine)
    if home_error is not None:
        window.work_without_home(home_error)
    else:
        window.pages.form_made.connect(
            lambda page: application.aboutToQuit.connect(FormAutosave(page, window).save)
        )
    if (letters := missing_letters()) is not None:
        window.found.strip.show_error(letters)
    if damage is not None:
        window.found.strip.show_error(damage)
    application.files_opened.connect(window.open_paths)
    application.commitDataRequest.connect(window.end_session, Qt.ConnectionType.DirectConnection)
    application.aboutToQuit.connect(window.end_work)
    first.called.connect(window.come_forward)
    paint = FirstPaint(window)
    if "HONE_QUIT_AFTER_PAINT" in os.environ:
        paint.painted.connect(_report_paint)
    else:
        paint.painted.connect(window.ask_for_devices)
        paint.painted.connect(
            lambda: window.pages.new_run
        )  # else it would be made at the click that needs it
        paint.painted.connect(import_charts_soon)
    window.pages.go_to(first_place(chosen))
    window.open_paths(paths)
    window.show()
    QTimer.singleShot(SETTLED_MS, partial(collect_garbage, application))
    status = application.exec()
    first.close()
    return end_program(status)


def first_place(chosen: Settings) -> Place:
    """The page to begin with: the one that was shown last, and Welcome while there is no form and no run."""
    if presets.find_last_form() is None and not list_runs(settings.runs_folder(chosen)):
        return Place.WELCOME
    return Place.__members__.get(chosen.last_page, Place.NEW_RUN)


def claim_place(application: QApplication, paths: Sequence[Path]) -> SingleInstance | None:
    """Become the only Hone of this person; None if another one is open, which opens `paths` then."""
    first = SingleInstance(settings.home(), application)
    try:
        if first.claim(paths, partial(late_files, application)):
            return first
    except OSError as error:  # of Hone's folder, which the window is about to show
        log.warning("this Hone can't know of another one: %s", error)
        return first
    print(_("Hone is already open. Its window was brought to the front."), flush=True)
    return None


def late_files(application: QApplication, system: str = sys.platform) -> Sequence[Path]:
    """The files that a Mac opens by events soon after the start, and not by arguments."""
    if system != "darwin" or not isinstance(application, HoneApplication):
        return ()
    files: list[Path] = []
    waiting = QEventLoop()
    application.files_opened.connect(files.extend)
    application.files_opened.connect(waiting.quit)
    QTimer.singleShot(EVENT_MS, waiting.quit)
    waiting.exec()
    return files


def import_charts_soon() -> None:
    QTimer.singleShot(REST_MS, import_charts)


def import_charts() -> threading.Thread:
    """Import the page of a run in a thread: NumPy and pyqtgraph take half a second."""
    thread = threading.Thread(target=importlib.import_module, args=("gui.run.page",), daemon=True)
    thread.start()
    return thread


def collect_garbage(application: QObject) -> QTimer:
    """Collect garbage from here on, but only in the event loop, and without the objects of the start, which take 20 ms.

    Python would do it wherever it allocates: also in a thread, and within Qt while that holds a lock, which then waits
    for itself as an object with signals is deleted. The window hung for good.
    """
    gc.disable()
    gc.freeze()
    timer = QTimer(application, interval=GARBAGE_MS)
    timer.timeout.connect(_collect_if_due)
    timer.start()
    return timer


def _collect_if_due() -> None:
    """Collect the oldest generation that Python itself would."""
    counts = zip(gc.get_count(), gc.get_threshold(), strict=True)
    due = [generation for generation, (count, most) in enumerate(counts) if count > most]
    if due:
        gc.collect(due[-1])


def open_home() -> tuple[Settings, OSError | None, UserError | None]:
    """Open the log and read the settings.

    Returns:
        The settings, an error of Hone's folder, and an error of damaged settings.
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


LETTERS = {
    "ko": (QFontDatabase.WritingSystem.Korean, "fonts-noto-cjk"),
    "zh_CN": (QFontDatabase.WritingSystem.SimplifiedChinese, "fonts-noto-cjk"),
    "ar": (QFontDatabase.WritingSystem.Arabic, "fonts-noto-core"),
}
"""The script of each language, and the package of Debian and Ubuntu that has its letters."""


def missing_letters() -> UserError | None:
    """Say that no font here has the letters of Hone's language, in English, which can be read all the same."""
    script, package = LETTERS.get(language.LANGUAGE, (None, ""))
    if script is None or QFontDatabase.families(script):
        return None
    return UserError(
        f"No font here has the letters of {language.NAMES[language.LANGUAGE]}",
        f"On Debian and Ubuntu, install the package {package}; then start Hone again. "
        "Until then, HONE_LANGUAGE=en shows Hone in English.",
    )


def set_up(application: QApplication) -> None:
    """Set names, locale, language, icon, style and font with tabular figures.

    The locale is English whatever the language, as numbers are formatted in English. Qt's own sentences, such as those
    of its context menus, are in Hone's language.
    """
    QLocale.setDefault(QLocale(QLocale.Language.English, QLocale.Country.UnitedStates))
    locale.setlocale(locale.LC_TIME, "C")  # Qt has set the system's, which `time.strftime` names months by
    application.setApplicationName("Hone")
    application.setApplicationDisplayName("Hone")
    application.setDesktopFileName("hone")
    application.setWindowIcon(QIcon(str(ICONS / "hone.svg")))
    application.setStyle("Fusion")
    if language.LANGUAGE != language.SOURCE:
        translator = QTranslator(application)
        translator.load(
            f"qtbase_{language.LANGUAGE}", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
        )
        application.installTranslator(translator)
        application.installTranslator(_OurWords(application))
    if language.IS_RIGHT_TO_LEFT:
        application.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    font = application.font()
    font.setFamilies([font.family(), *language.FACES.get(language.LANGUAGE, ())])
    font.setFeature(QFont.Tag("tnum"), 1)
    application.setFont(font)


class _OurWords(QTranslator):
    """Words of Qt that Hone has, too: Qt's Arabic buttons are imperatives."""

    def translate(self, context: str, text: str, hint: str | None = None, number: int = -1) -> str | None:
        if text.replace("&", "") == "Close":
            return _("Close")
        return _("Cancel") if text.replace("&", "") == "Cancel" else None


def _report_paint() -> None:
    print(f"first-paint {time.monotonic():.6f}", flush=True)
    QApplication.quit()


if __name__ == "__main__":
    sys.exit(run_app(sys.argv))

"""One quiet line about the data: how it was read and how much there is; while it is read, progress and a way out.

Below it stands what else is worth knowing of the data: facts, nothing to mend.
"""

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from core.data_report import DataReport
from gui.pages.new_run_reading import DataReading
from gui.theme import SPACING
from gui.widgets.roles import Role, set_role

_translate = QCoreApplication.translate

SPEAKS_FOR_ITSELF = ("encoding", "quoting", "compression")
"""What of a reading is understood without its name."""
NONE = "none"


class DataLine(QWidget):
    """The line, a bar below it while the data is read, and the buttons of both.

    `notes_label` holds facts about the data, a line each, for a place below.

    Signals:
        enlarge_pressed: The person wants to see more of the data at once.
    """

    enlarge_pressed = Signal()

    def __init__(self, reading: DataReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading = reading
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        self._enlarge = _link(self.tr("Enlarge"), self.tr("Show the data in a window of its own"))
        self._enlarge.clicked.connect(self.enlarge_pressed)
        self._cancel = _link(self.tr("Cancel"), self.tr("Stop reading the data"))
        self._cancel.clicked.connect(reading.cancel)
        self._again = _link(self.tr("Look again"), self.tr("Read the data again"))
        self._again.clicked.connect(reading.look_again)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(self.tr("Reading the data"))
        reading.progressed.connect(self.show_state)
        line = QHBoxLayout()
        line.setSpacing(SPACING // 2)
        line.addWidget(self._words, 1)
        for button in (self._again, self._cancel, self._enlarge):
            line.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING // 2)
        layout.addLayout(line)
        layout.addWidget(self._bar)
        self.notes_label = QLabel()
        self.notes_label.setWordWrap(True)
        self.notes_label.setTextFormat(Qt.TextFormat.PlainText)
        self.notes_label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        set_role(self.notes_label, Role.HINT)

    @property
    def words(self) -> str:
        """What the line says."""
        return self._words.text()

    @property
    def notes(self) -> str:
        """The facts below it, a line each."""
        return self.notes_label.text()

    @property
    def cancel_button(self) -> QPushButton:
        """What gives up reading."""
        return self._cancel

    @property
    def again_button(self) -> QPushButton:
        """What takes it up again."""
        return self._again

    def show_state(self) -> None:
        """Say what is known now."""
        reading, report = self._reading, self._reading.report
        self._cancel.setVisible(reading.is_reading)
        self._bar.setVisible(reading.is_reading)
        self._again.setVisible(reading.is_cancelled)
        self._enlarge.setVisible(report is not None and bool(report.preview or report.seen))
        if reading.is_reading:
            self._words.setText(self._progress())
        elif reading.is_cancelled:
            self._words.setText(self.tr("The data was not checked."))
        elif report is None and reading.failure is None:
            self._words.setText(self.tr("The data is shown here once it is read."))
        else:
            self._words.setText(reading_words(report) if report is not None and report.rows else "")
        self.notes_label.setText("\n".join(report.notes) if report is not None else "")
        self.notes_label.setVisible(bool(self.notes))
        self.setVisible(bool(self._words.text()))

    def _progress(self) -> str:
        share = self._reading.progress
        self._bar.setRange(0, 0 if share is None else 1000)
        if share is None:
            return self.tr("Reading and checking…")
        self._bar.setValue(round(1000 * share))
        return self.tr("Reading and checking: {share:.0f} %").format(share=100 * share)


def reading_words(report: DataReport) -> str:
    """How data was read and how much there is: `2,340 rows · CSV · UTF-8 · comma · header in the first row`."""
    parts = [rows_words(report.rows)]
    if report.labels:
        parts.append(_translate("NewRun", "{labels:,} labels").format(labels=len(report.labels)))
    parts.append(report.format)
    if report.shape:
        parts.append(report.shape)
    parts += [_way(name, words) for name, words in report.reading.items() if words and words not in parts]
    return " · ".join(parts)


def _way(name: str, words: str) -> str:
    """One thing of how data was read, such as `delimiter tab` or `no quoting`."""
    if words == NONE:
        return _translate("NewRun", "no {name}").format(name=name)
    return words if name in SPEAKS_FOR_ITSELF else f"{name} {words}"


def rows_words(count: int) -> str:
    """So many rows."""
    words = _translate("NewRun", "1 row") if count == 1 else _translate("NewRun", "{count:,} rows")
    return words.format(count=count)


def _link(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    set_role(button, Role.LINK)
    return button

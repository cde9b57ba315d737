"""The sheet "Export": what a run's model is to become, and where; how far it is; whether it still answers the same."""

from collections.abc import Callable, Iterable
from gettext import gettext as _
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, Qt, QThread, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import OptionsError, UserError
from core.base.files import is_there
from core.base.format import count, memory
from core.base.jobs import JobProgress, TellProgress
from core.runs.events import Level
from core.runs.folder import RunFolder
from core.runs.models import trained_model
from core.services.export import (
    EXPORTS,
    Export,
    ExportKind,
    ExportReport,
    NumberFormat,
    Offer,
    Wanted,
    agreement_words,
    find_source,
    offers,
)
from gui.base.background import EngineWork
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.base.trash import reveal
from gui.widgets.cards import MessageStrip
from gui.widgets.form_row import sentence
from gui.widgets.inputs import CalmComboBox, PathLine
from gui.widgets.labels import margins
from gui.widgets.layout import PageScroll

# --- The kinds of export as a list to choose from: what each is for


INDENT = 3 * SPACING
"""Pixels from the edge to what is said below a title: where the title begins."""


class ExportKinds(QWidget):
    """One row a kind, those that can be made first; the first of them is chosen.

    Signals:
        chosen_changed: The `core.services.export.ExportKind` that is chosen now.
    """

    chosen_changed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._group = QButtonGroup(self)
        self.rows: dict[ExportKind, ExportRow] = {}
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(SPACING // 2)
        self._group.buttonToggled.connect(self._tell)

    @property
    def chosen(self) -> ExportKind | None:
        """What is chosen; None: nothing can be made."""
        return next((kind for kind, row in self.rows.items() if row.button.isChecked()), None)

    def show_offers(self, offers: Iterable[Offer]) -> None:
        """Show these; called once."""
        for offer in sorted(offers, key=lambda one: bool(one.refusal)):
            row = ExportRow(offer)
            self.rows[offer.kind] = row
            self._group.addButton(row.button)
            self._layout.addWidget(row)
        first = next((row for row in self.rows.values() if row.button.isEnabled()), None)
        if first is not None:
            first.button.setChecked(True)
            self.setFocusProxy(first.button)

    def choose(self, kind: ExportKind) -> None:
        """Choose a kind that can be made."""
        self.rows[kind].button.setChecked(True)

    def _tell(self, _button: QRadioButton, checked: bool) -> None:
        if checked:
            self.chosen_changed.emit(self.chosen)


class ExportRow(QWidget):
    """A kind: its title to choose, below it what it is for; greyed with the reason where it can't be made."""

    def __init__(self, offer: Offer, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title, purpose = EXPORTS[offer.kind]
        self.button = QRadioButton(title)
        self.button.setEnabled(not offer.refusal)
        said = offer.refusal or " ".join(part for part in (purpose, offer.caution) if part)
        self.words = QLabel(said)
        self.words.setWordWrap(True)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self.words, Role.HINT)
        self.button.setAccessibleDescription(said)
        self.setToolTip(purpose if offer.refusal else "")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, SPACING // 2)
        layout.setSpacing(2)
        layout.addWidget(self.button)
        below = QVBoxLayout()
        below.setContentsMargins(margins(self, INDENT, 0, 0, 0))
        below.addWidget(self.words)
        layout.addLayout(below)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A press anywhere on the row chooses it."""
        if self.button.isEnabled():
            self.button.click()
        super().mousePressEvent(event)


# --- Where an export goes: a new folder, or a new repository on the Hub


WITH_NUMBERS = (ExportKind.FOLDER, ExportKind.MERGED, ExportKind.OLLAMA, ExportKind.GGUF, ExportKind.HUB)
"""Kinds whose weights can be written in a format of one's choice."""


class ExportPlace(QWidget):
    """Proposes a folder that isn't there yet, and keeps what the person wrote.

    Signals:
        choose_pressed: The person wants to see the folders there are.

    Args:
        name: The run's folder name, which the proposed name begins with.
        parent: Qt's parent.
    """

    choose_pressed = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._beside = Path.home()
        self._kind = ExportKind.FOLDER
        self._is_own = False
        self._line = PathLine(_("A new or empty folder"))
        self._line.textEdited.connect(self._keep)
        self._choose = QPushButton(_("Choose…"))
        self._choose.setAutoDefault(False)
        self._choose.clicked.connect(self.choose_pressed)
        self._repo = QLineEdit()
        self._repo.setPlaceholderText(_("owner/name, not there yet"))
        self._private = QCheckBox(_("Only I can see it"))
        self._private.setChecked(True)
        self._numbers = CalmComboBox()
        self._lay_out()
        self.show_kind(self._kind)

    @property
    def folder(self) -> str:
        """The folder; empty for the Hub."""
        return "" if self._kind is ExportKind.HUB else self._line.text().strip()

    @property
    def repo(self) -> str:
        """The repository; empty for all but the Hub."""
        return self._repo.text().strip() if self._kind is ExportKind.HUB else ""

    @property
    def is_private(self) -> bool:
        """Whether only its owner is to see the repository."""
        return self._private.isChecked()

    @property
    def numbers(self) -> NumberFormat:
        """What the weights are written in."""
        chosen = NumberFormat(self._numbers.currentData())
        return chosen if self._kind in WITH_NUMBERS else NumberFormat.AUTO

    def show_kind(self, kind: ExportKind) -> None:
        """Ask for what this kind takes."""
        self._kind = kind
        is_hub = kind is ExportKind.HUB
        self._form.setRowVisible(self._folder_row, not is_hub)
        self._form.setRowVisible(self._repo_row, is_hub)
        self._form.setRowVisible(self._numbers, kind in WITH_NUMBERS)
        if not self._is_own:
            self.propose_anew()

    def put_into(self, folder: Path) -> None:
        """Propose a new folder in this one."""
        self._beside = folder
        self.propose_anew()

    def propose_anew(self) -> None:
        """Propose a name that isn't taken."""
        wanted = self._beside / f"{self._name}-{self._kind}"
        found, number = wanted, 1
        while is_there(found):
            number += 1
            found = wanted.with_name(f"{wanted.name}-{number}")
        self._line.setText(str(found))
        self._is_own = False

    def _keep(self) -> None:
        self._is_own = True

    def _lay_out(self) -> None:
        formats = {
            NumberFormat.AUTO: _("As they are"),
            NumberFormat.FP32: _("fp32: 4 bytes each"),
            NumberFormat.BF16: _("bf16: 2 bytes each, slightly rounded"),
            NumberFormat.FP16: _("fp16: 2 bytes each, slightly rounded"),
        }
        for numbers, title in formats.items():
            self._numbers.addItem(title, numbers.value)
        self._folder_row = _row(self._line, self._choose)
        self._repo_row = _row(self._repo, self._private)
        self._form = QFormLayout(self)
        self._form.setContentsMargins(0, 0, 0, 0)
        self._form.setVerticalSpacing(SPACING)
        self._form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self._form.addRow(_("New folder"), self._folder_row)
        self._form.addRow(_("New repository"), self._repo_row)
        self._form.addRow(_("Weights"), self._numbers)
        self._line.setAccessibleName(_("New folder"))
        self._repo.setAccessibleName(_("New repository"))
        self._numbers.setAccessibleName(_("Weights"))


def _row(line: QWidget, beside: QWidget) -> QWidget:
    row = QWidget()
    layout = QHBoxLayout(row)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(SPACING)
    layout.addWidget(line, 1)
    layout.addWidget(beside)
    return row


# --- What came of an export, as the sheet says it


def result_words(report: ExportReport) -> tuple[str, str]:
    """A title and what follows it: where it is, how it answers beside the trained model, and what to know."""
    size = memory(report.size)
    if report.missing:
        title = _("Only a part of it is there")
    elif report.agreement is None:
        title = _("{kind}: done, not checked").format(kind=EXPORTS[report.kind][0])
    else:
        title = _("{kind}: done, and it answers as the trained model")
        title = title.format(kind=EXPORTS[report.kind][0])
    where = _("{size} in {path}").format(size=size, path=report.path)
    checked = agreement_words(report.agreement) if report.agreement else report.unchecked
    return title, "\n".join(part for part in (report.missing, where, checked, *report.notes) if part)


# --- The threads of an export: one reads what a run's model can become


class Exporter(Protocol):
    """One export; `core.services.export.Export` is the real one."""

    def run(self, tell: TellProgress | None = None) -> ExportReport:
        """Export, waiting until it is done."""

    def kill(self) -> None:
        """End it at once."""


MakeExport = Callable[[Wanted], Exporter]
FindOffers = Callable[[RunFolder], tuple[Offer, ...]]


def find_offers(run: RunFolder) -> tuple[Offer, ...]:
    """What a run's model can become; see `core.services.export.find_source` for what it raises."""
    return offers(find_source(run))


class Reading(EngineWork):
    """Reads what a run's model can become; `step` is that of the checkpoint which is taken in its place."""

    def __init__(self, run: RunFolder, find: FindOffers, parent: QObject) -> None:
        super().__init__(parent)
        self._run, self._find = run, find
        self.offers: tuple[Offer, ...] = ()
        self.step: int | None = None

    def begin(self) -> None:
        """Nothing is started."""

    def work(self) -> None:
        """Read."""
        self.offers = self._find(self._run)
        newest = trained_model(self._run)
        if newest is not None and newest.is_checkpoint:
            self.step = newest.step

    def kill(self) -> None:
        """Small files are read to their end."""


class Exporting(EngineWork):
    """Waits for one export.

    Signals:
        progressed: A `core.options.device_support.JobProgress`.
    """

    progressed = Signal(object)

    def __init__(self, exporter: Exporter, parent: QObject) -> None:
        super().__init__(parent)
        self._exporter = exporter
        self.report: ExportReport | None = None

    def begin(self) -> None:
        """It starts its processes itself."""

    def work(self) -> None:
        """Wait for it."""
        self.report = self._exporter.run(self._tell)

    def kill(self) -> None:
        """End it; what it has written goes with it."""
        self._exporter.kill()

    def _tell(self, progress: JobProgress) -> None:
        self.progressed.emit(progress)


# --- The sheet "Export": what a run's model is to become, and where; how far it is


SIZE = (700, 690)


class ExportSheet(QDialog):
    """Exports one run's model as often as is wanted; closing it ends what is under way, and leaves nothing of it.

    Args:
        run: The run.
        title: What it is called.
        parent: Qt's parent.
        make: Makes an export.
        find: Reads what the model can become.
    """

    def __init__(
        self,
        run: RunFolder,
        title: str,
        parent: QWidget | None = None,
        *,
        make: MakeExport = Export,
        find: FindOffers = find_offers,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("Export {run}").format(run=title))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE)
        self._run, self._make = run, make
        self._work: Exporting | None = None
        self._report: ExportReport | None = None
        self.kinds = ExportKinds()
        self.place = ExportPlace(run.name)
        self.strip = MessageStrip()
        self.strip.hide()
        self._status = QLabel()
        set_role(self._status, Role.MUTED)
        self._bar = QProgressBar()
        self._bar.setAccessibleName(_("Exporting"))
        self.take = QPushButton(_("Export"))
        set_role(self.take, Role.PRIMARY)
        self.show_folder = QPushButton(_("Show the folder"))
        self.stop = QPushButton(_("Cancel"))
        self._lay_out()
        self._connect()
        self._reading = Reading(run, find, self)
        self._reading.finished.connect(self._show_offers)
        self._reading.start(QThread.Priority.LowPriority)
        self._refresh()

    @property
    def is_running(self) -> bool:
        """Whether an export is under way."""
        return self._work is not None

    @property
    def status(self) -> str:
        """What is being done."""
        return self._status.text()

    def done(self, result: int) -> None:
        """End what is under way, and close."""
        self._reading.wait()
        if self._work is not None:
            self._work.cancel()
            self._work.wait()
        super().done(result)

    def _show_offers(self) -> None:
        if self._reading.failure is not None:
            self.strip.show_error(self._reading.failure)
        elif self._reading.step is not None:
            self.strip.show_message(
                Level.INFO,
                _("Its checkpoint of step {} is exported").format(count(self._reading.step)),
                _("The run has not ended since, so that no newer model was written."),
            )
        self.kinds.show_offers(self._reading.offers)
        self.kinds.setFocus()
        self._refresh()

    def _show_kind(self, kind: ExportKind) -> None:
        self.place.show_kind(kind)
        self.take.setText(_("Export and send") if kind is ExportKind.HUB else _("Export"))

    def _begin(self) -> None:
        kind = self.kinds.chosen
        if kind is None or self._work is not None:
            return
        place = self.place
        wanted = Wanted(
            run=str(self._run.path),
            kind=kind,
            folder=place.folder,
            repo=place.repo,
            private=place.is_private,
            numbers=place.numbers,
        )
        self.strip.hide()
        self._report = None
        self._work = Exporting(self._make(wanted), self)
        self._work.progressed.connect(self._show_progress)
        self._work.finished.connect(self._settle)
        self._status.setText(_("Starting…"))
        self._bar.setRange(0, 0)
        self._refresh()
        self._work.start(QThread.Priority.LowPriority)

    def _cancel(self) -> None:
        if self._work is not None:
            self._status.setText(_("Cancelling…"))
            self._work.cancel()

    def _show_progress(self, progress: JobProgress) -> None:
        self._bar.setRange(0, progress.total)
        self._bar.setValue(progress.done)
        self._status.setText(f"{progress.what}…")

    def _settle(self) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        if work.failure is not None:
            self._show_failure(work.failure)
        elif work.report is not None:
            self._report = work.report
            self.place.propose_anew()
            title, detail = result_words(work.report)
            self.strip.show_message(Level.WARNING if work.report.missing else Level.INFO, title, detail)
        else:
            self.strip.show_message(Level.INFO, _("It was cancelled"), _("Nothing of it is left."))
        work.deleteLater()
        self._refresh()

    def _show_failure(self, failure: UserError) -> None:
        if isinstance(failure, OptionsError):
            said = sentence(" ".join(problem.message for problem in failure.problems))
            self.strip.show_message(Level.ERROR, _("It can't be exported there"), said)
        else:
            self.strip.show_error(failure)

    def _refresh(self) -> None:
        is_running = self._work is not None
        self.kinds.setEnabled(not is_running)
        self.place.setEnabled(not is_running)
        self._status.setVisible(is_running)
        self._bar.setVisible(is_running)
        self.stop.setVisible(is_running)
        self.place.setVisible(self.kinds.chosen is not None)
        self.take.setEnabled(not is_running and self.kinds.chosen is not None)
        is_here = self._report is not None and Path(self._report.path).is_absolute()
        self.show_folder.setVisible(is_here)

    def _reveal(self) -> None:
        error = reveal(Path(self._report.path)) if self._report is not None else None
        if error is not None:
            self.strip.show_error(error)

    def _choose_folder(self) -> None:
        beside = str(Path(self.place.folder or Path.home()).expanduser().parent)
        chosen = QFileDialog.getExistingDirectory(self, _("Export into a folder in"), beside)
        if chosen:
            self.place.put_into(Path(chosen))

    def _connect(self) -> None:
        self.kinds.chosen_changed.connect(self._show_kind)
        self.place.choose_pressed.connect(self._choose_folder)
        self.take.clicked.connect(self._begin)
        self.stop.clicked.connect(self._cancel)
        self.show_folder.clicked.connect(self._reveal)
        self._buttons.rejected.connect(self.reject)

    def _lay_out(self) -> None:
        words = QLabel(
            _(
                "What other programs take. Each is held against the trained model on the same examples; one that "
                "answers otherwise is thrown away, with a word."
            )
        )
        words.setWordWrap(True)
        set_role(words, Role.MUTED)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self._buttons.addButton(self.show_folder, QDialogButtonBox.ButtonRole.ActionRole)
        self._buttons.addButton(self.take, QDialogButtonBox.ButtonRole.ActionRole)
        self.take.setDefault(True)
        for button in (
            self.show_folder,
            self.stop,
            self._buttons.button(QDialogButtonBox.StandardButton.Close),
        ):
            button.setAutoDefault(False)
        content = QWidget()
        inside = QVBoxLayout(content)
        inside.setContentsMargins(0, 0, SPACING, 0)
        inside.addWidget(self.kinds)
        inside.addStretch(1)
        told = QHBoxLayout()
        told.setSpacing(SPACING)
        told.addWidget(self._status)
        told.addWidget(self._bar, 1)
        told.addWidget(self.stop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(words)
        layout.addWidget(PageScroll(content), 1)
        layout.addWidget(self.place)
        layout.addLayout(told)
        layout.addWidget(self.strip)
        layout.addWidget(self._buttons)

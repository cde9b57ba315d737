"""The dialog "Export": the format, where to, progress, and the comparison with the trained model."""

import itertools
from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication, QMouseEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QLineEdit,
    QProgressBar,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import OptionsError, UserError
from core.base.files import is_there
from core.base.formats import count, memory, paragraph
from core.base.jobs import JobProgress
from core.base.language import _, isolated
from core.jobs.export import ExportKind, ExportReport, NumberFormat, agreement_text
from core.runs.events import Level
from core.runs.export_source import find_source
from core.runs.folder import RunFolder
from core.runs.models import trained_model
from core.services.export import Export, Wanted
from core.services.offers import EXPORTS, FormatOffer, KindOffer, offers
from gui.base.background import EngineWork
from gui.base.files import reveal
from gui.base.questions import Question
from gui.base.theme import Role
from gui.base.tokens import SPACING
from gui.widgets.cards import MessageStrip
from gui.widgets.form import sentence
from gui.widgets.inputs import ChoiceList, PathLine, Segment
from gui.widgets.labels import margins, push_button, role_label, text_label
from gui.widgets.layout import FLUSH, PageScroll, Sheet, fill, fill_dialog, hbox

INDENT = 3 * SPACING
"""Indent of the description below a title."""
NUMBERS = {
    NumberFormat.AUTO: _("Unchanged"),
    NumberFormat.FP32: _("fp32: 4 bytes each"),
    NumberFormat.BF16: _("bf16: 2 bytes each, slightly rounded"),
    NumberFormat.FP16: _("fp16: 2 bytes each, slightly rounded"),
    NumberFormat.Q8_0: _("q8_0: about 1 byte each, slightly rounded"),
    NumberFormat.Q4_0: _("q4_0: about half a byte each, answers differ"),
    NumberFormat.Q4_K_M: _("q4_k_m: about half a byte each, more exact than q4_0"),
    NumberFormat.AFFINE8: _("affine8: about 1 byte each, slightly rounded"),
    NumberFormat.AFFINE4: _("affine4: about half a byte each, answers differ"),
}
SIZE = (700, 640)
OUTCOME_HEIGHT = 104
"""Of the message at the end, so that nothing moves when it appears."""


class ExportRow(QWidget):
    """A radio button for a kind of export with its purpose below; disabled with the reason if it isn't possible."""

    def __init__(self, offer: KindOffer) -> None:
        super().__init__()
        title, purpose = EXPORTS[offer.kind]
        self.offer = offer
        text = offer.refusal or paragraph(purpose, offer.caution)
        self.button = QRadioButton(title)
        self.button.setEnabled(not offer.refusal)
        self.button.setAccessibleDescription(text)
        self.words = text_label(text, Role.HINT)
        self.words.setContentsMargins(margins(self, INDENT, 0, 0, 0))
        self.setToolTip(purpose if offer.refusal else "")
        fill(QVBoxLayout(self), self.button, self.words, margins=(0, 0, 0, SPACING // 2), spacing=2)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self.button.isEnabled():
            self.button.click()
        super().mousePressEvent(event)


class ExportKinds(QWidget):
    """All kinds of export, in the order of the offers: those that are possible first."""

    chosen_changed = Signal(object)  # a `core.jobs.export.ExportKind`

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[ExportKind, ExportRow] = {}
        self._group = QButtonGroup(self)
        self._group.buttonToggled.connect(
            lambda _, checked: self.chosen_changed.emit(self.chosen) if checked else None
        )
        self._column = fill(QVBoxLayout(self), margins=FLUSH, spacing=SPACING // 2)

    @property
    def chosen(self) -> ExportKind | None:
        """Returns None if no export is possible."""
        return next((kind for kind, row in self.rows.items() if row.button.isChecked()), None)

    def show_offers(self, offers: Iterable[KindOffer]) -> None:
        """Add the rows and choose the first one."""
        for offer in offers:
            row = self.rows[offer.kind] = ExportRow(offer)
            self._group.addButton(row.button)
            self._column.addWidget(row)
            row.show()  # Qt would do so later, and then it would not take the focus
        first = next(iter(self.rows.values()), None)
        if first is not None and first.button.isEnabled():
            first.button.setChecked(True)
            self.setFocusProxy(first.button)

    def choose(self, kind: ExportKind) -> None:
        self.rows[kind].button.setChecked(True)


class ExportPlace(QWidget):
    """Where an export goes: a new folder, proposed unless a person typed one, or a repository.

    Args:
        name: Beginning of the proposed name: the run's.
    """

    last_parent: Path | None = None  # of the last export, for the next one

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._kind = ExportKind.FOLDER
        self.is_own = False
        self.line = PathLine(_("A new or empty folder"))
        self.line.textEdited.connect(lambda: setattr(self, "is_own", True))
        choose = push_button(_("Choose…"), self._choose_folder)
        self.repo = QLineEdit(placeholderText=_("owner/name, a new one"))
        self._private = QCheckBox(_("Only I can see it"))
        self._private.setChecked(True)
        self.numbers = ChoiceList()
        self._folder_row = hbox((self.line, 1), choose)
        self._repo_row = hbox((self.repo, 1), self._private)
        self._form = QFormLayout(self)
        self._form.setContentsMargins(0, 0, 0, 0)
        self._form.setVerticalSpacing(SPACING)
        self._form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for title, row, field in (
            (_("New folder"), self._folder_row, self.line),
            (_("New repository"), self._repo_row, self.repo),
            (_("Weights"), self.numbers, self.numbers),
        ):
            self._form.addRow(title, row)
            field.setAccessibleName(title)
        self.show_offer(KindOffer(self._kind))

    @property
    def folder(self) -> str:
        """Return the folder that is typed; empty for the Hub."""
        return "" if self._kind is ExportKind.HUB else self.line.text().strip()

    def wanted(self, run: RunFolder) -> Wanted:
        return Wanted(
            run=str(run.path),
            kind=self._kind,
            folder=self.folder,
            repo=self.repo.text().strip() if self._kind is ExportKind.HUB else "",
            private=self._private.isChecked(),
            numbers=NumberFormat(self.numbers.currentData()),
        )

    def show_offer(self, offer: KindOffer) -> None:
        """Show what can be chosen for a kind of export, with about how large it gets."""
        kind = self._kind = offer.kind
        titles = NUMBERS | ({NumberFormat.AUTO: _("16 bits")} if kind is ExportKind.GGUF else {})
        for one in offer.formats:
            if one.size:
                about = _("{format} · about {size}")
                titles[one.numbers] = about.format(format=titles[one.numbers], size=memory(one.size))
        self.numbers.set_choices(
            Segment(one.numbers.value, titles[one.numbers], refusal=one.refusal)
            for one in offer.formats or (FormatOffer(NumberFormat.AUTO),)
        )
        if self.numbers.currentData() not in [one.numbers for one in offer.formats if not one.refusal]:
            self.numbers.choose(NumberFormat.AUTO.value)
        self._form.setRowVisible(self._folder_row, kind is not ExportKind.HUB)
        self._form.setRowVisible(self._repo_row, kind is ExportKind.HUB)
        self.numbers.setEnabled(len(offer.formats) > 1)  # it stays, so that nothing moves
        if not self.is_own:
            self.propose()

    def _choose_folder(self) -> None:
        parent = str(Path(self.folder or Path.home()).expanduser().parent)
        chosen = QFileDialog.getExistingDirectory(self, _("Export into a folder in"), parent)
        if chosen:
            self.propose_in(Path(chosen))

    def propose_in(self, folder: Path) -> None:
        ExportPlace.last_parent = folder
        self.propose()

    def propose(self) -> None:
        """Propose a folder that doesn't exist."""
        name = f"{self._name}-{self._kind}"
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        parent = ExportPlace.last_parent or Path.home()
        paths = (parent / path for path in itertools.chain([name], numbered))
        self.line.setText(str(next(path for path in paths if not is_there(path))))
        self.is_own = False


def result_text(report: ExportReport) -> tuple[str, str]:
    """A title, and details: path, comparison with the trained model, notes."""
    if report.agreement is None:
        title = _("{kind}: done, not checked")
    elif report.agreement.equal < report.agreement.counted:
        title = _("{kind}: done, with nearly the same answers as the trained model")
    else:
        title = _("{kind}: done, with the same answers as the trained model")
    where = _("{size} in {path}").format(size=memory(report.size), path=report.path)
    checked = agreement_text(report.agreement) if report.agreement else report.unchecked
    details = "\n".join(part for part in (where, checked, *report.notes) if part)
    return title.format(kind=EXPORTS[report.kind][0]), details


class ExportSheet(Sheet):
    """Exports a run's model; closed during an export, it asks, then cancels it and deletes its files."""

    def __init__(self, run: RunFolder, title: str, parent: QWidget | None = None) -> None:
        super().__init__(_("Export {run}").format(run=isolated(title)), parent)
        self.resize(*SIZE)
        self._run = run
        self._export: Export | None = None
        self._report: ExportReport | None = None
        self.kinds = ExportKinds()
        self.place = ExportPlace(run.name)
        self.strip = MessageStrip()
        self._status = role_label(Role.MUTED)
        self.bar = QProgressBar()
        self.bar.setAccessibleName(_("Exporting"))
        self.take = push_button(_("Export and upload"), self._begin)
        self.show_folder = push_button(_("Show the folder"), self._reveal)
        self.copy_code = push_button(_("Copy Python code"), self._copy_code, _("To use the exported model"))
        self.stop = push_button(_("Cancel"), self._cancel)
        self._lay_out()
        self.kinds.chosen_changed.connect(self._show_kind)
        self._work: EngineWork[ExportReport] = EngineWork(
            self,
            progress=self._show_progress,
            done=self._show_report,
            failed=self._show_failure,
            settled=self._settle,
        )
        self._reading: EngineWork[tuple[KindOffer, ...]] = EngineWork(
            self, done=self._show_offers, failed=self.strip.show_error
        )
        self._reading.start(lambda call: offers(find_source(run), call.hold))
        self._refresh()

    @property
    def is_running(self) -> bool:
        return self._work.is_running

    @property
    def status(self) -> str:
        return self._status.text()

    def done(self, result: int) -> None:
        if self._export is not None:
            self._export.kill()
        self._work.close()
        self._reading.close()
        super().done(result)

    def reject(self) -> None:
        """Close, which a person must confirm during an export."""
        if self.is_running:
            text = _("What was written so far is deleted.")
            title, keep = _("Stop the export?"), _("Keep exporting")
            question = Question(title, text, {True: _("Stop")}, self, return_cancels=True, cancel=keep)
            if not question.ask(otherwise=False) or not self.is_running:
                return
        super().reject()

    def _show_offers(self, offers: tuple[KindOffer, ...]) -> None:
        newest = trained_model(self._run)
        if newest is not None and newest.is_checkpoint:
            self.strip.show_message(
                Level.INFO,
                _("The checkpoint of step {step} is exported").format(step=count(newest.step)),
                _("The run has not ended since, so there is no newer model."),
            )
        self.kinds.show_offers(offers)
        self.kinds.setFocus()
        self._refresh()

    def _show_kind(self, kind: ExportKind) -> None:
        self.place.show_offer(self.kinds.rows[kind].offer)
        self.take.setText(_("Export and upload") if kind is ExportKind.HUB else _("Export"))

    def _begin(self) -> None:
        if self.kinds.chosen is None or self.is_running:
            return
        self.strip.hide()
        self._report = None
        if not self.place.is_own:
            self.place.propose()
        elif self.place.folder:
            ExportPlace.last_parent = Path(self.place.folder).expanduser().parent
        export = self._export = Export(self.place.wanted(self._run))
        self._status.setText(_("Loading the training libraries…"))
        self.bar.setRange(0, 0)
        self._work.start(lambda call: export.run(call.tell))
        self._refresh()

    def _cancel(self) -> None:
        if self._export is not None:
            self._status.setText(_("Cancelling…"))
            self._export.kill()

    def _show_progress(self, progress: JobProgress) -> None:
        self.bar.setRange(0, progress.total)
        self.bar.setValue(progress.done)
        self._status.setText(f"{progress.what}…")

    def _show_report(self, report: ExportReport) -> None:
        self._report, self._export = report, None
        is_for_terminal = report.kind in (ExportKind.OLLAMA, ExportKind.GGUF)
        self.copy_code.setText(_("Copy commands") if is_for_terminal else _("Copy Python code"))
        self.strip.show_message(Level.INFO, *result_text(report))

    def _show_failure(self, failure: UserError) -> None:
        self._export = None
        if isinstance(failure, OptionsError):
            text = paragraph(*(sentence(problem.message) for problem in failure.problems))
            self.strip.show_message(Level.ERROR, _("It can't be exported there"), text)
        else:
            self.strip.show_error(failure)

    def _settle(self) -> None:
        if self._export is not None:  # neither done nor failed
            self._export = None
            self.strip.show_message(Level.INFO, _("Export cancelled"), _("Its files were deleted."))
        self._refresh()
        (self.take if self.show_folder.isHidden() else self.show_folder).setFocus()

    def _refresh(self) -> None:
        is_running = self.is_running
        for widget in (self._status, self.bar, self.stop):
            widget.setVisible(is_running)
        self.kinds.setEnabled(not is_running)
        self.place.setEnabled(not is_running)
        self.place.setVisible(self.kinds.chosen is not None)
        self.take.setEnabled(not is_running and self.kinds.chosen is not None)
        report = self._report
        self.show_folder.setVisible(report is not None and Path(report.path).is_absolute())
        self.copy_code.setVisible(report is not None and bool(report.code))

    def _reveal(self) -> None:
        error = reveal(Path(self._report.path)) if self._report is not None else None
        if error is not None:
            self.strip.show_error(error)

    def _copy_code(self) -> None:
        if self._report is not None:
            QGuiApplication.clipboard().setText(self._report.code)
            self.copy_code.setText(_("Copied"))

    def _lay_out(self) -> None:
        words = text_label(
            _(
                "Choose a format. Hone then loads the exported model and compares its answers with those of the "
                "trained model. If they differ by more than rounding errors, the export is deleted."
            ),
            Role.MUTED,
        )
        buttons = self.button_box(QDialogButtonBox.StandardButton.Close, self.take)
        for button in (self.copy_code, self.take):  # while they have their longest texts
            button.ensurePolished()
            button.setMinimumWidth(button.sizeHint().width())
        self.take.setText(_("Export"))
        content = QWidget()
        fill(QVBoxLayout(content), self.kinds, None, margins=(0, 0, SPACING, 0))
        progress = hbox(self._status, (self.bar, 1), self.stop)
        outcome = QWidget()
        fill(QVBoxLayout(outcome), progress, self.strip, None, margins=FLUSH)
        outcome.setMinimumHeight(OUTCOME_HEIGHT)
        last = hbox(self.show_folder, self.copy_code, (buttons, 1))
        fill_dialog(self, words, (PageScroll(content), 1), self.place, outcome, last)

"""Name, tags and note of the runs that are selected in the list."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QLineEdit, QPlainTextEdit, QWidget

from core.base import formats
from core.base.language import _, ngettext
from core.options.past_runs import LONGEST_TITLE
from core.runs.compare import FEWEST, MOST
from core.runs.notes import tags_in
from core.runs.summary import RunSummary
from gui.base.theme import Role
from gui.base.tokens import SPACING
from gui.runs.columns import metric_in_full, state_of
from gui.widgets.cards import Card
from gui.widgets.labels import ElidedLabel, push_button, role_label
from gui.widgets.layout import hbox, vbox

RESTING_MS = 1200
"""A note is saved so long after the last key."""


class NoteEdit(QPlainTextEdit):
    """A few lines of plain text; Tab leaves it."""

    edited = Signal()  # the text has changed, and the person has left it or paused

    def __init__(self) -> None:
        super().__init__()
        self.setTabChangesFocus(True)
        self._rest = QTimer(self, singleShot=True, interval=RESTING_MS)
        self._rest.timeout.connect(self.commit)
        self.textChanged.connect(self._on_text)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.commit()

    def commit(self) -> None:
        """Emit `edited` if the text has changed."""
        self._rest.stop()
        if self.document().isModified():
            self.document().setModified(False)
            self.edited.emit()

    def show_text(self, text: str) -> None:
        if text != self.toPlainText():
            self.setPlainText(text)
        self.document().setModified(False)
        self._rest.stop()

    def _on_text(self) -> None:
        if self.document().isModified():
            self._rest.start()


class RunsPanel(Card):
    """Name, tags and note of the selected runs; of several, only the tags they share can be changed."""

    renamed = Signal(object, str)  # a `RunSummary` and its new name; empty for its original one
    tagged = Signal(object, object, object)  # `RunSummary` objects, the tags to add and those to remove
    noted = Signal(object, str)  # a `RunSummary` and the text of its note
    open_pressed = Signal()
    compare_pressed = Signal()
    bin_pressed = Signal()

    def __init__(self) -> None:
        super().__init__("")
        self._runs: tuple[RunSummary, ...] = ()
        self.name, self.tags, self.note = QLineEdit(), QLineEdit(), NoteEdit()
        self.words = ElidedLabel(role=Role.MUTED)
        self.open = push_button(_("Open"), self.open_pressed.emit)
        self.compare = push_button(_("Compare"), self.compare_pressed.emit)
        self.bin = push_button(_("Move to the trash"), self.bin_pressed.emit)
        self._dress()
        self._lay_out()
        self.name.editingFinished.connect(self._rename)
        self.tags.editingFinished.connect(self._tag)
        self.note.edited.connect(self._note)

    def edit_name(self) -> None:
        self.name.setFocus()
        self.name.selectAll()

    def show_runs(self, runs: Sequence[RunSummary], size: int | None) -> None:
        """Show the selected runs and their bytes, if counted; what is being edited stays."""
        is_other = [run.run.path for run in runs] != [run.run.path for run in self._runs]
        if is_other:
            self.commit()
        self._runs = tuple(runs)
        self._show_words(size)
        is_one = len(runs) == 1
        for field in (self.name, self.note):
            field.setEnabled(is_one)
        self.tags.setEnabled(bool(runs))
        if is_other or not self.name.isModified():
            self._fill(self.name, runs[0].title if is_one else "")
        if is_other or not self.tags.isModified():
            self._fill(self.tags, " ".join(self._shared_tags()))
        if is_other or not self.note.document().isModified():
            self.note.show_text(runs[0].note if is_one else "")
        self.note.setPlaceholderText(_("What you tried, and the outcome") if is_one else "")
        self._show_buttons()

    def commit(self) -> None:
        """Emit signals for all fields that were edited."""
        self._rename()
        self._tag()
        self.note.commit()

    def _fill(self, line: QLineEdit, text: str) -> None:
        if line.text() != text:
            line.setText(text)
        line.setModified(False)

    def _shared_tags(self) -> list[str]:
        """The tags that all runs have, in the spelling of the first."""
        others = [{tag.casefold() for tag in run.tags} for run in self._runs[1:]]
        first = self._runs[0].tags if self._runs else ()
        return [tag for tag in first if all(tag.casefold() in tags for tags in others)]

    def _show_words(self, size: int | None) -> None:
        runs = self._runs
        if len(runs) == 1:
            texts = (state_of(runs[0]), metric_in_full(runs[0]), formats.duration(runs[0].seconds))
            parts = [text for text in texts if text not in ("", formats.MISSING)]
        elif runs:
            text = ngettext("{count} run selected", "{count} runs selected", len(runs))
            parts = [text.format(count=formats.count(len(runs)))]
        else:
            parts = [_("No run selected")]
        if size is not None and runs:
            parts.append(_("{size} on disk").format(size=formats.memory(size)))
        self.words.setText(formats.in_line(*parts))

    def _show_buttons(self) -> None:
        count = len(self._runs)
        self.open.setEnabled(count == 1)
        self.bin.setEnabled(count > 0 and all(run.state.is_over for run in self._runs))
        self.compare.setEnabled(FEWEST <= count <= MOST)
        how = _("Select {fewest} to {most} runs: click with Ctrl or Shift held, on a Mac with Cmd.")
        self.compare.setToolTip("" if self.compare.isEnabled() else how.format(fewest=FEWEST, most=MOST))
        reason = _("Only runs that have ended can be moved to the trash. Stop those that train first.")
        self.bin.setToolTip("" if self.bin.isEnabled() or not count else reason)

    def _rename(self) -> None:
        if self.name.isModified() and len(self._runs) == 1:
            self.name.setModified(False)
            self.renamed.emit(self._runs[0], " ".join(self.name.text().split()))

    def _tag(self) -> None:
        if not self.tags.isModified() or not self._runs:
            return
        self.tags.setModified(False)
        before, after = self._shared_tags(), tags_in(self.tags.text())
        added = tuple(tag for tag in after if tag not in before)
        left = {tag.casefold() for tag in after}
        removed = tuple(tag for tag in before if tag.casefold() not in left)
        if added or removed:
            self.tagged.emit(self._runs, added, removed)

    def _note(self) -> None:
        if len(self._runs) == 1:
            self.noted.emit(self._runs[0], self.note.toPlainText())

    def _dress(self) -> None:
        self.name.setMaxLength(LONGEST_TITLE)
        self.name.setAccessibleName(_("Name of the run"))
        self.tags.setAccessibleName(_("Tags"))
        self.tags.setPlaceholderText(_("night, lr-search"))
        self.tags.setToolTip(_("Words to find the run by, separated by spaces: filter by tag:night"))
        self.note.setAccessibleName(_("Note"))

    def _lay_out(self) -> None:
        grid = QGridLayout()
        grid.setHorizontalSpacing(SPACING)
        grid.setVerticalSpacing(SPACING)
        for row, (words, field) in enumerate(((_("Name"), self.name), (_("Tags"), self.tags))):
            grid.addWidget(_label(words, field), row, 0)
            grid.addWidget(field, row, 1)
        note_label = _label(_("Note"), self.note)
        note_label.setContentsMargins(0, SPACING // 2 + 1, 0, 0)  # in line with the name
        grid.addWidget(note_label, 0, 2, alignment=Qt.AlignmentFlag.AlignTop)
        grid.addWidget(self.note, 0, 3, 2, 1)
        grid.setColumnStretch(1, 2)
        grid.setColumnStretch(3, 3)
        self.note.setFixedHeight(2 * self.name.sizeHint().height() + SPACING)
        self.body.addLayout(vbox(grid, hbox((self.words, 1), self.open, self.compare, self.bin)))


def _label(words: str, field: QWidget) -> QLabel:
    label = role_label(Role.LABEL, words)
    label.setBuddy(field)
    return label

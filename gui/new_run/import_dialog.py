"""Bringing options along from TrainingArguments or a command line: paste, look what it comes to, fill the form."""

from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import OptionsError
from core.base.language import _
from core.options.catalogue import options_by_path, value_text
from core.options.importing import Imported, import_file, import_text
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.form_row import sentence
from gui.widgets.labels import text_label
from gui.widgets.layout import PageScroll, fill
from gui.widgets.tables import Group, KeyValue, Row

PATIENCE_MS = 150
"""A pause in typing after which the text is read."""

EXAMPLE = "python run_glue.py --task_name mrpc --learning_rate 2e-5 --fp16"
LINES_OF_TEXT = 7


class ImportSheet(QDialog):
    """Reads what is pasted as it is typed, and says of every name what becomes of it.

    Signals:
        imported: The `core.options.importing.Imported` the person wants in the form.
    """

    imported = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("Import from a script"))
        self.resize(680, 600)
        self.found: Imported | None = None
        self._text = QPlainTextEdit()
        self._status = text_label(role=Role.HINT)
        self._rows = KeyValue()
        self._take = QPushButton(_("Fill the form"))
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(PATIENCE_MS)
        self._timer.timeout.connect(self.read_text)
        self._lay_out()
        self._text.textChanged.connect(self._timer.start)
        self.read_text()

    def set_text(self, text: str) -> None:
        self._text.setPlainText(text)
        self._timer.stop()
        self.read_text()

    def read_text(self) -> None:
        text = self._text.toPlainText()
        self.found = None
        words = _("Nothing yet: paste TrainingArguments as JSON or Python, or a command line.")
        if text.strip():
            try:
                self.found = import_text(text)
                taken, left = len(self.found.taken), len(self.found.left)
                words = _("{taken} of {all} names mean something here.").format(taken=taken, all=taken + left)
            except OptionsError as error:
                words = _("This {problem}.").format(problem=error.problems[0].message)
        self._show(words)

    def open_file(self, path: Path) -> None:
        try:
            import_file(path)
        except OptionsError as error:
            self.found = None
            self._show(f"{path.name}: {error.problems[0].message}")
            return
        self.set_text(path.read_text(encoding="utf-8"))

    def accept(self) -> None:
        self._timer.stop()
        self.read_text()
        if self.found is not None:
            self.imported.emit(self.found)
            super().accept()

    def _show(self, words: str) -> None:
        self._status.setText(words)
        self._rows.set_groups(_groups(self.found) if self.found else [])
        self._take.setEnabled(self.found is not None and bool(self.found.taken))

    def _lay_out(self) -> None:
        words = text_label(
            _(
                "Paste the arguments of a Trainer script. Names that no longer exist are listed with what has "
                "replaced them; nothing is run."
            )
        )
        self._text.setAccessibleName(_("Script or command line"))
        self._text.setPlaceholderText(EXAMPLE)
        self._text.setTabChangesFocus(True)
        self._text.setFixedHeight(LINES_OF_TEXT * self._text.fontMetrics().lineSpacing() + 2 * SPACING)
        choose = QPushButton(_("Choose a file…"))
        choose.clicked.connect(self._choose)
        line = fill(QHBoxLayout(), (self._status, 1), choose)
        content = QWidget()
        fill(QVBoxLayout(content), self._rows, None, margins=(0, 0, SPACING, 0))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(words)
        layout.addWidget(self._text)
        layout.addLayout(line)
        layout.addWidget(PageScroll(content), 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        buttons.addButton(self._take, QDialogButtonBox.ButtonRole.AcceptRole)
        set_role(self._take, Role.PRIMARY)
        self._take.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)

    def _choose(self) -> None:
        kinds = _("Scripts and arguments ({filter})").format(filter="*.py *.json *.sh *.txt")
        chosen, _kind = QFileDialog.getOpenFileName(self, _("Import from a script"), str(Path.home()), kinds)
        if chosen:
            self.open_file(Path(chosen))


def _groups(found: Imported) -> list[Group]:
    known = options_by_path()
    taken = []
    for one in found.taken:
        said = one.name if one.value is True else f"{one.name} {one.value}"
        values = (
            f"{known[path].title}: {value_text(known[path], value)}" for path, value in one.options.items()
        )
        taken.append(Row(said, ", ".join(values), sentence(one.note)))
    groups = (
        Group(_("To fix"), tuple(Row(one.path, sentence(one.message)) for one in found.problems)),
        Group(_("Taken over"), tuple(taken)),
        Group(_("Left out"), tuple(Row(one.name, sentence(one.reason)) for one in found.left)),
    )
    return [group for group in groups if group.rows]

"""Where an export goes: a new folder, or a new repository on the Hub; and what its weights are written in."""

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QFormLayout, QHBoxLayout, QLineEdit, QPushButton, QWidget

from core.exporting import ExportKind, NumberFormat
from core.files import is_there
from gui.theme import SPACING
from gui.widgets.calm_inputs import CalmComboBox
from gui.widgets.path_line import PathLine

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
        self._line = PathLine(self.tr("A new or empty folder"))
        self._line.textEdited.connect(self._keep)
        self._choose = QPushButton(self.tr("Choose…"))
        self._choose.setAutoDefault(False)
        self._choose.clicked.connect(self.choose_pressed)
        self._repo = QLineEdit()
        self._repo.setPlaceholderText(self.tr("owner/name, not there yet"))
        self._private = QCheckBox(self.tr("Only I can see it"))
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
            NumberFormat.AUTO: self.tr("As they are"),
            NumberFormat.FP32: self.tr("fp32: 4 bytes each"),
            NumberFormat.BF16: self.tr("bf16: 2 bytes each, slightly rounded"),
            NumberFormat.FP16: self.tr("fp16: 2 bytes each, slightly rounded"),
        }
        for numbers, title in formats.items():
            self._numbers.addItem(title, numbers.value)
        self._folder_row = _row(self._line, self._choose)
        self._repo_row = _row(self._repo, self._private)
        self._form = QFormLayout(self)
        self._form.setContentsMargins(0, 0, 0, 0)
        self._form.setVerticalSpacing(SPACING)
        self._form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self._form.addRow(self.tr("New folder"), self._folder_row)
        self._form.addRow(self.tr("New repository"), self._repo_row)
        self._form.addRow(self.tr("Weights"), self._numbers)
        self._line.setAccessibleName(self.tr("New folder"))
        self._repo.setAccessibleName(self.tr("New repository"))
        self._numbers.setAccessibleName(self.tr("Weights"))


def _row(line: QWidget, beside: QWidget) -> QWidget:
    row = QWidget()
    layout = QHBoxLayout(row)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(SPACING)
    layout.addWidget(line, 1)
    layout.addWidget(beside)
    return row

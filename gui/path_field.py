"""A file or folder: typed, chosen in a dialog, or dropped."""

from enum import Enum, auto
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QMenu, QPushButton, QWidget

from core.catalogue import Option
from gui.field import Field
from gui.widgets.path_line import PathLine


class Wanted(Enum):
    """What may be chosen."""

    FILE = auto()
    FOLDER = auto()
    EITHER = auto()


class PathField(Field):
    """A path, or whatever else the option takes in its place (a Hub id, `builtin:digits`).

    Args:
        option: The option.
        wanted: Whether the dialogs offer files, folders or both.
        placeholder: What the empty line says.
        parent: Qt's parent.
    """

    def __init__(
        self, option: Option, wanted: Wanted, placeholder: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__(option, parent)
        self.line = PathLine(option.help)
        self.line.setPlaceholderText(placeholder)
        self.line.setClearButtonEnabled(option.optional)
        self._adopt(self.line, stretch=True)
        self.line.textChanged.connect(self._tell)
        self._row.addWidget(self._choose_button(wanted))

    def value(self) -> object:
        """The path as it stands; None where an optional one is empty."""
        text = self.line.text().strip()
        if text.startswith("~"):
            text = str(Path(text).expanduser())
        return None if not text and self.option.optional else text

    def set_value(self, value: object) -> None:
        """Show a path."""
        self.line.show_path("" if value is None else str(value))

    def _choose_button(self, wanted: Wanted) -> QPushButton:
        button = QPushButton(self.tr("Choose…"))
        button.setAccessibleName(self.tr("Choose: {title}").format(title=self.option.title))
        if wanted is Wanted.FOLDER:
            button.clicked.connect(self._choose_folder)
        elif wanted is Wanted.FILE:
            button.clicked.connect(self._choose_file)
        else:
            menu = QMenu(button)
            menu.addAction(self.tr("File…"), self._choose_file)
            menu.addAction(self.tr("Folder…"), self._choose_folder)
            button.setMenu(menu)
            button.setProperty("hasMenu", True)
        return button

    def _choose_file(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(self, self.option.title, self._start_folder())
        if chosen:
            self.line.setText(chosen)

    def _choose_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, self.option.title, self._start_folder())
        if chosen:
            self.line.setText(chosen)

    def _start_folder(self) -> str:
        path = Path(self.line.text())
        return str(path.parent) if path.is_absolute() and path.parent.is_dir() else str(Path.home())

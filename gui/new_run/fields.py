"""Which columns hold the texts, the images and the answer: lists filled with what is in the data."""

from collections.abc import Iterable
from gettext import gettext as _
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLineEdit, QMenu, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from core.options import presets as recent_data
from core.options.catalogue import Option, options_by_path
from core.options.sources import DIGITS, short_name
from core.services.inspect import Column
from gui.base.tokens import SPACING
from gui.new_run.model_field import ModelField
from gui.widgets.fields import (
    AutomaticField,
    Field,
    ListedField,
    PairsField,
    PathField,
    SegmentedField,
    Wanted,
)
from gui.widgets.inputs import CalmComboBox
from gui.widgets.labels import plain_tip

# --- The field of the training data: a path, and a menu with what was trained on lately


class DataPathField(PathField):
    """`data.train`; what was trained on lately stands in the menu of its button, beside the way to the Hub.

    Signals:
        hub_wanted: The person wants to look for data on the Hub.
    """

    hub_wanted = Signal()

    def __init__(self, option: Option, placeholder: str, parent: QWidget | None = None) -> None:
        super().__init__(option, Wanted.EITHER, placeholder, parent)

    def _choose_button(self, wanted: Wanted) -> QPushButton:
        button = super()._choose_button(wanted)
        menu = button.menu()
        menu.setToolTipsVisible(True)
        menu.addAction(_("From the Hub…"), self.hub_wanted.emit)
        self._own = len(menu.actions())
        menu.aboutToShow.connect(self._offer_recent)
        return button

    def _offer_recent(self) -> None:
        """Put the sources below what the menu has of its own."""
        menu = self.sender()
        if not isinstance(menu, QMenu):
            return
        for old in menu.actions()[self._own :]:
            menu.removeAction(old)
        sources = recent_data.recent()
        if sources:
            self._add_heading(menu, _("Lately"))
        for source in sources:
            self._add(menu, short_name(source), source)
        self._add_heading(menu, _("Comes with Hone"))
        self._add(menu, _("Handwritten digits"), DIGITS)

    def _add_heading(self, menu: QMenu, title: str) -> None:
        """A line, and below it words that can't be chosen: style sheets show no sections."""
        menu.addSeparator()
        menu.addAction(title).setEnabled(False)

    def _add(self, menu: QMenu, title: str, source: str) -> None:
        action = menu.addAction(title)
        action.setData(source)
        action.setToolTip(str(Path(source)) if source != DIGITS else source)
        action.triggered.connect(self._take)

    def _take(self) -> None:
        action = self.sender()
        if isinstance(action, QAction):
            self.line.setText(str(action.data()))


# --- Which columns hold the texts, the images and the answer


class ColumnList(CalmComboBox):
    """A list of columns with an entry for "none of them" on top."""

    def __init__(self, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.addItem(empty, "")

    def offer(self, columns: Iterable[Column]) -> None:
        """List these columns; what is chosen stays chosen."""
        taken = self.column
        while self.count() > 1:
            self.removeItem(1)
        for column in columns:
            self.addItem(column.name, column.name)
            tip = plain_tip(", ".join(column.examples[:3]))
            self.setItemData(self.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.choose(taken)

    @property
    def column(self) -> str:
        """The chosen column; empty: none."""
        return str(self.currentData() or "")

    def choose(self, name: str) -> None:
        """Choose a column; one that is not in the list is added as it is."""
        if self.findData(name) < 0:
            self.addItem(name, name)
        self.setCurrentIndex(self.findData(name))


class TextColumnsField(Field):
    """`data.text_columns`: one list, and a second one for pairs."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self.first = ColumnList(_("Guess"))
        self.second = ColumnList(_("No second text"))
        self.first.setAccessibleName(_("First text column"))
        self.second.setAccessibleName(_("Second text column, for pairs"))
        lists = QVBoxLayout()
        lists.setSpacing(SPACING)
        for column_list in (self.first, self.second):
            column_list.setToolTip(option.help)
            column_list.activated.connect(self._tell)
            lists.addWidget(column_list)
        self._row.addLayout(lists, 1)
        self.setFocusProxy(self.first)

    def offer(self, columns: Iterable[Column]) -> None:
        """List these columns."""
        known = list(columns)
        self.first.offer(known)
        self.second.offer(known)

    def value(self) -> object:
        """The chosen columns."""
        return [column for column in (self.first.column, self.second.column) if column]

    def set_value(self, value: object) -> None:
        """Choose columns."""
        names = [str(name) for name in value] if isinstance(value, list | tuple) else []
        self.first.choose(names[0] if names else "")
        self.second.choose(names[1] if len(names) > 1 else "")


class OneColumnField(Field):
    """`data.label_column`, `data.image_column`."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self.columns = ColumnList(_("Guess"))
        self._adopt(self.columns, stretch=True)
        self.columns.activated.connect(self._tell)

    def offer(self, columns: Iterable[Column]) -> None:
        """List these columns."""
        self.columns.offer(columns)

    def value(self) -> object:
        """The chosen column; None: guess it."""
        return self.columns.column or None

    def set_value(self, value: object) -> None:
        """Choose a column."""
        self.columns.choose(str(value or ""))


# --- Several texts, one in each line: commas are a part of them


LINES = 4


class _Lines(QPlainTextEdit):
    """A text whose first line stands beside the label of its row."""

    def sizeHint(self) -> QSize:
        """One line of controls; its height is fixed."""
        return QSize(super().sizeHint().width(), QLineEdit().sizeHint().height())


class LinesField(Field):
    """A list of texts of which each has a line of its own."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self.edit = _Lines()
        self.edit.setTabChangesFocus(True)
        self.edit.setAcceptDrops(False)  # a file dropped anywhere is the data
        self.edit.setPlaceholderText(_("One in each line"))
        self.edit.setFixedHeight(LINES * self.edit.fontMetrics().lineSpacing() + 18)
        self._adopt(self.edit, stretch=True)
        self.edit.setAccessibleDescription(_("One in each line"))
        self.edit.textChanged.connect(self._tell)

    def value(self) -> object:
        """The texts, empty lines left out."""
        return [line.strip() for line in self.edit.toPlainText().splitlines() if line.strip()]

    def set_value(self, value: object) -> None:
        """Show a list of texts; what is there already stays as it was typed."""
        texts = [str(text) for text in value] if isinstance(value, list | tuple) else []
        if texts == self.value():
            return
        blocked = self.edit.blockSignals(True)
        self.edit.setPlainText("\n".join(texts))
        self.edit.blockSignals(blocked)


# --- The controls of the New run page that are more than what an option's kind asks for


class OwnFields:
    """All of them; `by_path` has them by the paths of their options."""

    def __init__(self) -> None:
        self.model = ModelField(_option("model.source"))
        self.device = SegmentedField(_option("device.name"))
        self.train = DataPathField(_option("data.train"), _("Drop a file or folder"))
        self.eval = PathField(_option("data.eval"), Wanted.EITHER, _("Choose the held-out data"))
        self.text_columns = TextColumnsField(_option("data.text_columns"))
        self.label_column = OneColumnField(_option("data.label_column"))
        self.image_column = OneColumnField(_option("data.image_column"))
        roles = PairsField(_option("data.roles"))
        roles.line.setPlaceholderText("bob = assistant")
        plain: tuple[Field, ...] = (
            AutomaticField(_option("data.workers")),
            AutomaticField(_option("device.threads")),
            ListedField(_option("device.compile_backend")),
            ListedField(_option("device.compile_mode")),
            PathField(_option("memory.offload_folder"), Wanted.FOLDER),
            LinesField(_option("output.prompts")),
            roles,
        )
        columns = (self.text_columns, self.label_column, self.image_column)
        fields: tuple[Field, ...] = (self.model, self.device, self.train, self.eval, *columns, *plain)
        self.by_path: dict[str, Field] = {field.option.path: field for field in fields}

    def offer_columns(self, columns: Iterable[Column]) -> None:
        """List the columns there are wherever one can be chosen."""
        known = list(columns)
        self.text_columns.offer(known)
        self.label_column.offer(known)
        self.image_column.offer(known)


def _option(path: str) -> Option:
    return options_by_path()[path]

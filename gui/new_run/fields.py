"""Which columns hold the texts, the images and the answer: lists filled with what is in the data."""

from collections.abc import Iterable
from gettext import gettext as _

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from core.options import presets
from core.options.catalogue import options_by_path
from core.options.declare import Option
from core.options.sources import DIGITS, short_name
from core.services.inspect import Column
from gui.base.tokens import SPACING
from gui.new_run.model_field import ModelField
from gui.widgets.fields import (
    AutomaticField,
    ComboField,
    Field,
    PairsField,
    PathField,
    SegmentedField,
)
from gui.widgets.inputs import CalmComboBox
from gui.widgets.labels import plain_tip


class DataPathField(PathField):
    """`data.train`; what was trained on lately stands in the menu of its button, beside the way to the Hub.

    Signals:
        hub_wanted: The person wants to look for data on the Hub.
    """

    hub_wanted = Signal()

    def __init__(self, option: Option, placeholder: str, parent: QWidget | None = None) -> None:
        super().__init__(option, placeholder, parent)
        self.menu.setToolTipsVisible(True)
        self.menu.addAction(_("From the Hub…"), self.hub_wanted.emit)
        self._own = len(self.menu.actions())
        self.menu.aboutToShow.connect(self._offer_recent)

    def _offer_recent(self) -> None:
        """Put the sources below what the menu has of its own."""
        for old in self.menu.actions()[self._own :]:
            self.menu.removeAction(old)
        sources = presets.recent()
        if sources:
            self._add_heading(_("Lately"))
        for source in sources:
            self._add(short_name(source), source)
        self._add_heading(_("Comes with Hone"))
        self._add(_("Handwritten digits"), DIGITS)

    def _add_heading(self, title: str) -> None:
        """A line, and below it words that can't be chosen: style sheets show no sections."""
        self.menu.addSeparator()
        self.menu.addAction(title).setEnabled(False)

    def _add(self, title: str, source: str) -> None:
        action = self.menu.addAction(title)
        action.setToolTip(source)
        action.triggered.connect(lambda: self.line.setText(source))


class ColumnList(CalmComboBox):
    """A list of columns with an entry for "none of them" on top."""

    def __init__(self, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.addItem(empty, "")

    def offer(self, columns: Iterable[Column]) -> None:
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
        known = list(columns)
        self.first.offer(known)
        self.second.offer(known)

    def value(self) -> object:
        return [column for column in (self.first.column, self.second.column) if column]

    def set_value(self, value: object) -> None:
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
        self.columns.offer(columns)

    def value(self) -> object:
        """The chosen column; None: guess it."""
        return self.columns.column or None

    def set_value(self, value: object) -> None:
        self.columns.choose(str(value or ""))


LINES = 4


class _Lines(QPlainTextEdit):
    """A text whose first line stands beside the label of its row."""

    def sizeHint(self) -> QSize:
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
        return [line.strip() for line in self.edit.toPlainText().splitlines() if line.strip()]

    def set_value(self, value: object) -> None:
        """Show a list of texts; what is there already stays as it was typed."""
        texts = [str(text) for text in value] if isinstance(value, list | tuple) else []
        if texts == self.value():
            return
        with QSignalBlocker(self.edit):
            self.edit.setPlainText("\n".join(texts))


class OwnFields:
    """All of them; `by_path` has them by the paths of their options."""

    def __init__(self) -> None:
        self.model = ModelField(_option("model.source"))
        self.device = SegmentedField(_option("device.name"))
        self.train = DataPathField(_option("data.train"), _("Drop a file or folder"))
        self.eval = PathField(_option("data.eval"), _("Choose the held-out data"))
        self.text_columns = TextColumnsField(_option("data.text_columns"))
        self.label_column = OneColumnField(_option("data.label_column"))
        self.image_column = OneColumnField(_option("data.image_column"))
        roles = PairsField(_option("data.roles"))
        roles.line.setPlaceholderText("bob = assistant")
        plain: tuple[Field, ...] = (
            AutomaticField(_option("data.workers")),
            AutomaticField(_option("device.threads")),
            ComboField(_option("device.compile_backend")),
            ComboField(_option("device.compile_mode")),
            PathField(_option("memory.offload_folder"), only_folders=True),
            LinesField(_option("output.prompts")),
            roles,
        )
        columns = (self.text_columns, self.label_column, self.image_column)
        fields: tuple[Field, ...] = (self.model, self.device, self.train, self.eval, *columns, *plain)
        self.by_path: dict[str, Field] = {field.option.path: field for field in fields}

    def offer_columns(self, columns: Iterable[Column]) -> None:
        known = list(columns)
        self.text_columns.offer(known)
        self.label_column.offer(known)
        self.image_column.offer(known)


def _option(path: str) -> Option:
    return options_by_path()[path]

"""Controls of single options: the data with what was trained on lately, and several lines of text."""

from PySide6.QtCore import QSignalBlocker, QSize, Signal
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from core.base.language import _
from core.options import presets
from core.options.catalogue import options_by_path
from core.options.declare import Option
from core.options.sources import DIGITS, short_name
from gui.new_run.model_field import ModelField
from gui.widgets.fields import (
    AutomaticField,
    ComboField,
    Field,
    PairsField,
    PathField,
    SegmentedField,
)


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
    """The controls of options for which the usual one of their kind won't do; `by_path` has all of them."""

    def __init__(self) -> None:
        known = options_by_path()
        self.model = ModelField(known["model.source"])
        self.device = SegmentedField(known["device.name"])
        self.train = DataPathField(known["data.train"], _("Drop a file or folder"))
        roles = PairsField(known["data.roles"])
        roles.line.setPlaceholderText("bob = assistant")
        fields: tuple[Field, ...] = (
            self.model,
            self.device,
            self.train,
            PathField(known["data.eval"], _("Choose the held-out data")),
            AutomaticField(known["data.workers"]),
            AutomaticField(known["device.threads"]),
            ComboField(known["device.compile_backend"]),
            ComboField(known["device.compile_mode"]),
            PathField(known["memory.offload_folder"], only_folders=True),
            LinesField(known["output.prompts"]),
            roles,
        )
        self.by_path: dict[str, Field] = {field.option.path: field for field in fields}

"""The cards of the New run page: made from the declared options, the advanced ones behind "More"."""

from collections.abc import Mapping, Sequence

from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from core.catalogue import Option, options_of
from gui.field import Field
from gui.form import Form
from gui.theme import SPACING
from gui.widgets.card import Card
from gui.widgets.form_row import FormRow
from gui.widgets.roles import Role, set_role


class OptionsCard(Card):
    """The rows of some sections of a run file.

    Args:
        title: What the card is about.
        form: Where the rows belong.
        sections: Whose options it shows, in order.
        fields: Controls for options whose usual one won't do, by path.
        parent: Qt's parent.
    """

    def __init__(
        self,
        title: str,
        form: Form,
        sections: Sequence[str],
        fields: Mapping[str, Field] | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(title, parent)
        self._form = form
        self._rows: dict[str, FormRow] = {}
        self._advanced = QWidget()
        more = QVBoxLayout(self._advanced)
        more.setContentsMargins(0, 0, 0, 0)
        more.setSpacing(SPACING)
        for section in sections:
            for option in options_of(section):
                row = form.add(option.path, (fields or {}).get(option.path))
                self._rows[option.path] = row
                (more if option.advanced else self.body).addWidget(row)
        self.body.addWidget(self._advanced)
        self._more = QPushButton()
        set_role(self._more, Role.LINK)
        self._more.setCheckable(True)
        self._more.toggled.connect(self._show_advanced)
        self.set_trailing(self._more)
        form.revealed.connect(self._reveal)
        self._show_advanced(False)
        self.show_task()

    def insert_below(self, path: str, widget: QWidget) -> None:
        """Put a widget below an option's row."""
        self.body.insertWidget(self.body.indexOf(self._rows[path]) + 1, widget)

    def show_task(self) -> None:
        """Show the options that mean something for the form's task."""
        for path, row in self._rows.items():
            row.setVisible(self._applies(row.field.option))
            if not self._applies(row.field.option):
                self._form.row(path).set_problems(())
        self._more.setVisible(any(self._applies(option) for option in self._advanced_options()))

    def _applies(self, option: Option) -> bool:
        return self._form.applies(option)

    def _advanced_options(self) -> list[Option]:
        return [row.field.option for row in self._rows.values() if row.field.option.advanced]

    def _show_advanced(self, shown: bool) -> None:
        self._advanced.setVisible(shown)
        self._more.setText(self.tr("Less") if shown else self.tr("More"))
        name = self.tr("Fewer options: {card}") if shown else self.tr("More options: {card}")
        self._more.setAccessibleName(name.format(card=self.title))

    def _reveal(self, path: str) -> None:
        row = self._rows.get(path)
        if row is not None and row.field.option.advanced:
            self._more.setChecked(True)

"""The cards of the New run page: made from the declared options, the advanced ones behind "More"."""

from collections.abc import Mapping, Sequence, Set

from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

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
        lifted: Advanced options that are always in view here, as they belong to a control that is.
        parent: Qt's parent.
    """

    def __init__(
        self,
        title: str,
        form: Form,
        sections: Sequence[str],
        fields: Mapping[str, Field] | None = None,
        parent: QWidget | None = None,
        *,
        lifted: Set[str] = frozenset(),
    ) -> None:
        super().__init__(title, parent)
        self._form = form
        self._fields = fields or {}
        self._lifted = lifted
        self._hidden: frozenset[str] = frozenset()
        self._rows: dict[str, FormRow] = {}
        self._headings: dict[str, QLabel] = {}
        self._more = QPushButton()
        set_role(self._more, Role.LINK)
        self._more.setCheckable(True)
        self._more.toggled.connect(self._show_advanced)
        self.set_trailing(self._more)
        self._advanced = QWidget()
        self._more_body = QVBoxLayout(self._advanced)
        self._more_body.setContentsMargins(0, 0, 0, 0)
        self._more_body.setSpacing(SPACING)
        options = [option for section in sections for option in options_of(section)]
        for option in options:
            if not self._is_advanced(option):
                self._add(option, self.body)
        self._add_groups([option for option in options if self._is_advanced(option)])
        self.body.addWidget(self._advanced)
        form.revealed.connect(self._reveal)
        form.relevance_changed.connect(self.show_relevant)
        self._show_advanced(False)

    def _add(self, option: Option, layout: QVBoxLayout) -> None:
        row = self._form.add(option.path, self._fields.get(option.path))
        self._rows[option.path] = row
        layout.addWidget(row)

    def _add_groups(self, options: Sequence[Option]) -> None:
        """Below "More": the options of each group together, each group below its heading."""
        for group in dict.fromkeys(option.group for option in options):
            if group:
                heading = QLabel(group)
                set_role(heading, Role.GROUP_TITLE)
                heading.setContentsMargins(0, SPACING, 0, 0)
                self._headings[group] = heading
                self._more_body.addWidget(heading)
            for option in options:
                if option.group == group:
                    self._add(option, self._more_body)

    def insert_below(self, path: str, widget: QWidget) -> None:
        """Put a widget below an option's row."""
        layout = self._more_body if self._is_advanced(self._rows[path].field.option) else self.body
        layout.insertWidget(layout.indexOf(self._rows[path]) + 1, widget)

    def hide_rows(self, paths: frozenset[str]) -> None:
        """Leave out the rows of these options: they are chosen elsewhere, or say nothing at the moment."""
        if paths != self._hidden:
            self._hidden = paths
            self.show_relevant()

    def show_relevant(self) -> None:
        """Show the options that mean something beside the values in the form, and the headings they stand below."""
        for row in self._rows.values():
            applies = self._form.applies(row.field.option)
            row.setVisible(applies and row.field.option.path not in self._hidden)
            if not applies:
                row.set_problems(())
        shown = [option for option in self._advanced_options() if self._is_shown(option)]
        for group, heading in self._headings.items():
            heading.setVisible(any(option.group == group for option in shown))
        self._more.setVisible(bool(shown))
        self._advanced.setVisible(self._more.isChecked() and bool(shown))

    def open(self) -> None:
        """Show the options behind "More"."""
        self._more.setChecked(True)

    def _is_advanced(self, option: Option) -> bool:
        return option.advanced and option.path not in self._lifted

    def _is_shown(self, option: Option) -> bool:
        return self._form.applies(option) and option.path not in self._hidden

    def _advanced_options(self) -> list[Option]:
        return [row.field.option for row in self._rows.values() if self._is_advanced(row.field.option)]

    def _show_advanced(self, shown: bool) -> None:
        self.show_relevant()
        self._more.setText(self.tr("Less") if shown else self.tr("More"))
        name = self.tr("Fewer options: {card}") if shown else self.tr("More options: {card}")
        self._more.setAccessibleName(name.format(card=self.title))

    def _reveal(self, path: str) -> None:
        row = self._rows.get(path)
        if row is not None and self._is_advanced(row.field.option):
            self.open()

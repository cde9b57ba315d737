"""What the checks of the data have found: all of it at once, each with its rows and what mends it."""

import html
from collections.abc import Sequence, Set

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.errors import Fix
from core.findings import Finding, FindingLevel
from gui.theme import SPACING
from gui.widgets.flow_layout import FlowLayout
from gui.widgets.link_label import LinkLabel
from gui.widgets.roles import Role, set_role

_translate = QCoreApplication.translate

MARKS = {FindingLevel.PROBLEM: ("✕", Role.PROBLEM_MARK), FindingLevel.WARNING: ("!", Role.WARNING)}


class FindingsPane(QWidget):
    """A summary, and a line for each finding.

    Signals:
        fix_chosen: The `core.errors.Fix` whose button was pressed.
        row_chosen: The number of a row in the file, to be shown.
    """

    fix_chosen = Signal(object)
    row_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: tuple[Finding, ...] = ()
        self._rows: Set[int] = frozenset()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING // 2)
        self._summary = QLabel()
        set_role(self._summary, Role.GROUP_TITLE)
        layout.addWidget(self._summary)
        self._lines = QVBoxLayout()
        self._lines.setSpacing(SPACING // 2)
        layout.addLayout(self._lines)
        self.hide()

    def show_findings(self, findings: Sequence[Finding], rows: Set[int] = frozenset()) -> None:
        """Show these.

        Args:
            findings: Problems first.
            rows: The numbers of the rows that can be shown: these are links.
        """
        if (tuple(findings), rows) == (self._shown, self._rows):
            return
        self._shown, self._rows = tuple(findings), rows
        while (item := self._lines.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        lines = [_FindingLine(finding, rows, self) for finding in findings]
        for line in lines:
            self._lines.addWidget(line)
        if lines:
            self.setFocusProxy(lines[0].label)
        self._summary.setText(summary(findings))
        self.setAccessibleName(self.tr("Found in the data: {summary}").format(summary=self.words))
        self.setVisible(bool(findings))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those shown."""
        return self._shown

    @property
    def words(self) -> str:
        """The summary."""
        return self._summary.text()


class _FindingLine(QWidget):
    """A mark, the sentence, its rows as links, and a button for each fix; advice stands as text."""

    def __init__(self, finding: Finding, rows: Set[int], pane: FindingsPane) -> None:
        super().__init__(pane)
        self._pane = pane
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(SPACING)
        symbol, role = MARKS[finding.level]
        mark = QLabel(symbol)
        set_role(mark, role)
        mark.setFixedWidth(mark.fontMetrics().horizontalAdvance("✓✓"))
        line.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        words = QVBoxLayout()
        words.setSpacing(0)
        self.label = self._text(finding, rows)
        words.addWidget(self.label)
        advice = [fix.label for fix in finding.fixes if fix.is_advice]
        if advice:
            words.addWidget(
                _hint(" ".join(f"{label}." if label[-1:].isalnum() else label for label in advice))
            )
        buttons = [fix for fix in finding.fixes if not fix.is_advice]
        if buttons:
            words.addWidget(_Buttons(buttons, pane))
        line.addLayout(words, 1)

    def _text(self, finding: Finding, shown: Set[int]) -> QLabel:
        label = LinkLabel()
        numbers = ", ".join(f"{row:,}" for row in finding.rows)
        linked = frozenset() if finding.in_eval else shown  # the table shows the rows that are trained on
        links = ", ".join(_link(row) if row in linked else f"{row:,}" for row in finding.rows)
        text = html.escape(finding.message)
        if finding.rows:
            text = f"{text} {_sentence(html.escape(finding.where).replace(numbers, links, 1))}"
        label.setText(text)
        label.setAccessibleName(f"{level_word(finding.level)}: {finding.message} {finding.where}".strip())
        label.linkActivated.connect(self._tell_row)
        return label

    def _tell_row(self, row: str) -> None:
        self._pane.row_chosen.emit(int(row))


class _Buttons(QWidget):
    """The fixes that can be pressed, in as many lines as they need."""

    def __init__(self, fixes: Sequence[Fix], pane: FindingsPane) -> None:
        super().__init__(pane)
        self._pane = pane
        self._fixes = tuple(fixes)
        flow = FlowLayout(SPACING // 2, 2, self)
        for place, fix in enumerate(fixes):
            button = QPushButton(fix.label)
            button.setProperty("place", place)
            set_role(button, Role.LINK)
            button.setProperty("flush", True)
            button.clicked.connect(self._tell)
            flow.addWidget(button)

    def _tell(self) -> None:
        button = self.sender()
        if isinstance(button, QPushButton):
            self._pane.fix_chosen.emit(self._fixes[int(button.property("place"))])


def summary(findings: Sequence[Finding]) -> str:
    """How many of each there are: "3 problems, 2 warnings"."""
    counts = {level: sum(finding.level is level for finding in findings) for level in FindingLevel}
    parts = []
    if counts[FindingLevel.PROBLEM]:
        parts.append(_counted(counts[FindingLevel.PROBLEM], FindingLevel.PROBLEM))
    if counts[FindingLevel.WARNING]:
        parts.append(_counted(counts[FindingLevel.WARNING], FindingLevel.WARNING))
    return ", ".join(parts)


def level_word(level: FindingLevel) -> str:
    """What one of them is called."""
    if level is FindingLevel.PROBLEM:
        return _translate("NewRun", "Problem")
    return _translate("NewRun", "Warning")


def _counted(count: int, level: FindingLevel) -> str:
    if level is FindingLevel.PROBLEM:
        words = (
            _translate("NewRun", "1 problem") if count == 1 else _translate("NewRun", "{count:,} problems")
        )
    else:
        words = (
            _translate("NewRun", "1 warning") if count == 1 else _translate("NewRun", "{count:,} warnings")
        )
    return words.format(count=count)


def _link(row: int) -> str:
    return f'<a href="{row}" style="text-decoration:none">{row:,}</a>'


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _hint(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_role(label, Role.HINT)
    return label

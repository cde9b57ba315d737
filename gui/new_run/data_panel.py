"""One quiet line about the data: how it was read and how much there is; while it is read, progress and a way out.

Below it stands what else is worth knowing of the data: facts, nothing to mend.
"""

import html
from collections.abc import Sequence, Set
from gettext import gettext as _

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import Fix
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.services.inspect import Columns, DataReport, Finding, FindingLevel
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.new_run.data_charts import LengthsPane
from gui.new_run.data_views import RowsPane, SeenPane, row_numbers
from gui.new_run.state import DataReading
from gui.widgets.bars import LabelBars
from gui.widgets.form import Form
from gui.widgets.form_row import FormRow, field_indent, label_width
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.labels import LinkLabel
from gui.widgets.layout import FlowLayout, PageScroll

MARKS = {FindingLevel.PROBLEM: ("✕", Role.PROBLEM_MARK), FindingLevel.WARNING: ("!", Role.WARNING)}


class FindingsPane(QWidget):
    """A summary, and a line for each finding.

    Signals:
        fix_chosen: The `core.base.errors.Fix` whose button was pressed.
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
        self.setAccessibleName(_("Found in the data: {summary}").format(summary=self.words))
        self.setVisible(bool(findings))

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self._shown

    @property
    def words(self) -> str:
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
        links = ", ".join(_row_link(row) if row in linked else f"{row:,}" for row in finding.rows)
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
    counts = {level: sum(finding.level is level for finding in findings) for level in FindingLevel}
    parts = []
    if counts[FindingLevel.PROBLEM]:
        parts.append(_counted(counts[FindingLevel.PROBLEM], FindingLevel.PROBLEM))
    if counts[FindingLevel.WARNING]:
        parts.append(_counted(counts[FindingLevel.WARNING], FindingLevel.WARNING))
    return ", ".join(parts)


def level_word(level: FindingLevel) -> str:
    if level is FindingLevel.PROBLEM:
        return _("Problem")
    return _("Warning")


def _counted(count: int, level: FindingLevel) -> str:
    if level is FindingLevel.PROBLEM:
        words = _("1 problem") if count == 1 else _("{count:,} problems")
    else:
        words = _("1 warning") if count == 1 else _("{count:,} warnings")
    return words.format(count=count)


def _row_link(row: int) -> str:
    return f'<a href="{row}" style="text-decoration:none">{row:,}</a>'


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _hint(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_role(label, Role.HINT)
    return label


SPEAKS_FOR_ITSELF = ("encoding", "quoting", "compression")
"""What of a reading is understood without its name."""
NONE = "none"


class DataLine(QWidget):
    """The line, a bar below it while the data is read, and the buttons of both.

    `notes_label` holds facts about the data, a line each, for a place below.

    Signals:
        enlarge_pressed: The person wants to see more of the data at once.
    """

    enlarge_pressed = Signal()

    def __init__(self, reading: DataReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading = reading
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        self._enlarge = _link_button(_("Enlarge"), _("Show the data in a window of its own"))
        self._enlarge.clicked.connect(self.enlarge_pressed)
        self._cancel = _link_button(_("Cancel"), _("Stop reading the data"))
        self._cancel.clicked.connect(reading.cancel)
        self._again = _link_button(_("Look again"), _("Read the data again"))
        self._again.clicked.connect(reading.look_again)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(_("Reading the data"))
        reading.progressed.connect(self.show_state)
        line = QHBoxLayout()
        line.setSpacing(SPACING // 2)
        line.addWidget(self._words, 1)
        for button in (self._again, self._cancel, self._enlarge):
            line.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING // 2)
        layout.addLayout(line)
        layout.addWidget(self._bar)
        self.notes_label = QLabel()
        self.notes_label.setWordWrap(True)
        self.notes_label.setTextFormat(Qt.TextFormat.PlainText)
        self.notes_label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        set_role(self.notes_label, Role.HINT)

    @property
    def words(self) -> str:
        return self._words.text()

    @property
    def notes(self) -> str:
        return self.notes_label.text()

    @property
    def cancel_button(self) -> QPushButton:
        return self._cancel

    @property
    def again_button(self) -> QPushButton:
        return self._again

    def show_state(self) -> None:
        reading, report = self._reading, self._reading.report
        self._cancel.setVisible(reading.is_waiting)
        self._bar.setVisible(reading.is_waiting)
        self._again.setVisible(reading.is_cancelled)
        self._enlarge.setVisible(report is not None and bool(report.preview or report.seen))
        if reading.is_waiting:
            self._words.setText(self._progress())
        elif reading.is_cancelled:
            self._words.setText(_("The data was not checked."))
        elif report is None and reading.failure is None:
            self._words.setText(_("The data is shown here once it is read."))
        else:
            self._words.setText(reading_words(report) if report is not None and report.rows else "")
        self.notes_label.setText("\n".join(report.notes) if report is not None else "")
        self.notes_label.setVisible(bool(self.notes))
        self.setVisible(bool(self._words.text()))

    def _progress(self) -> str:
        share = self._reading.progress
        self._bar.setRange(0, 0 if share is None else 1000)
        if share is None:
            return _("Reading and checking…")
        self._bar.setValue(round(1000 * share))
        return _("Reading and checking: {share:.0f} %").format(share=100 * share)


def reading_words(report: DataReport) -> str:
    """How data was read and how much there is: `2,340 rows · CSV · UTF-8 · comma · header in the first row`."""
    parts = [rows_words(report.rows)]
    if report.labels:
        parts.append(_("{labels:,} labels").format(labels=len(report.labels)))
    parts.append(report.format)
    if report.shape:
        parts.append(report.shape)
    parts += [_way(name, words) for name, words in report.reading.items() if words and words not in parts]
    return " · ".join(parts)


def _way(name: str, words: str) -> str:
    """One thing of how data was read, such as `delimiter tab` or `no quoting`."""
    if words == NONE:
        return _("no {name}").format(name=name)
    return words if name in SPEAKS_FOR_ITSELF else f"{name} {words}"


def rows_words(count: int) -> str:
    words = _("1 row") if count == 1 else _("{count:,} rows")
    return words.format(count=count)


def _link_button(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    set_role(button, Role.LINK)
    return button


FRACTION, FILE, SPLIT, TRAIN_SPLIT = "data.eval_fraction", "data.eval", "data.eval_split", "data.train_split"
PATHS = (FRACTION, FILE, SPLIT)
"""The options of the three choices, which are called by them."""


STRATIFIED = (Task.TEXT_CLASSIFICATION, Task.IMAGE_CLASSIFICATION)


class SplitChoice(QWidget):
    """One of the three; the other two are taken back, and come again when they are chosen again.

    Signals:
        changed: The person chose another one.

    Args:
        form: Where the three options have their rows.
    """

    changed = Signal()

    def __init__(self, form: Form, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._form = form
        self._kept: dict[str, object] = {}
        self._splits: tuple[str, ...] = ()
        self._asked = ""
        label = QLabel(_("Evaluate on"))
        set_role(label, Role.LABEL)
        label.setFixedWidth(label_width(self))
        self.choice = Segmented()
        self.choice.chosen.connect(self._choose)
        label.setBuddy(self.choice)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(0)
        line.addWidget(label)
        line.addSpacing(field_indent(self) - label_width(self))
        line.addWidget(self.choice)
        line.addStretch(1)
        self._offer()

    def follow(self, report: DataReport | None) -> None:
        """Show what the form says now, and say what the choice comes to."""
        splits = report.splits if report is not None else ()
        is_other, self._splits = splits != self._splits, splits
        if is_other or self._has_split is not (SPLIT in self.choice.buttons()):
            self._offer()
        self.choice.set_value(self.value)
        form = self._form
        form.row(FRACTION).set_hint(self._share_words())
        for path in (FILE, SPLIT):
            is_open = path == self.value and not form.field(path).value()
            form.row(path).set_hint(self._meanwhile() if is_open else "")

    @property
    def hidden(self) -> frozenset[str]:
        """The options that say nothing beside what is chosen: their rows are not shown."""
        others = {path for path in PATHS if path != self.value}
        has_train_split = self.value == SPLIT or bool(self._form.field(TRAIN_SPLIT).value() or self._splits)
        return frozenset(others if has_train_split else others | {TRAIN_SPLIT})

    @property
    def value(self) -> str:
        if self._form.field(FILE).value():
            return FILE
        if self._form.field(SPLIT).value():
            return SPLIT
        return self._asked or FRACTION

    @property
    def _has_split(self) -> bool:
        """Whether a split can be chosen, or is chosen before it is known which ones there are."""
        return bool(self._splits or SPLIT in self._kept or self.value == SPLIT)

    def forget(self) -> None:
        self._kept.clear()
        self._asked = ""

    def show_path(self, path: str) -> None:
        """Bring the row of an option into view; nothing is changed by that."""
        if path in (FILE, SPLIT) and self.value == FRACTION:
            self._asked = path

    def _offer(self) -> None:
        segments = [
            Segment(FRACTION, _("A share"), _("A part of the training data is kept apart.")),
            Segment(FILE, _("Another file"), _("Held-out data in the same form.")),
        ]
        if self._has_split:
            named = _("One of: {splits}").format(splits=", ".join(self._splits))
            segments.append(Segment(SPLIT, _("A split"), named if self._splits else ""))
        self.choice.set_segments(segments, keeps_value=False)
        self.choice.setAccessibleName(_("Evaluate on"))

    def _choose(self, path: str) -> None:
        """Take back the others; what they held comes again with them."""
        before = {other: self._form.field(other).value() for other in PATHS}
        nothing = {other: options_by_path()[other].default for other in PATHS}
        self._kept.update({other: value for other, value in before.items() if value != nothing[other]})
        wanted = {
            other: self._kept.get(other, nothing[other]) if other == path else nothing[other]
            for other in PATHS
        }
        if path == SPLIT and not wanted[SPLIT]:
            wanted[SPLIT] = self._likely_split()
        self._asked = path
        self._form.set_values({other: value for other, value in wanted.items() if value != before[other]})
        self.changed.emit()

    def _likely_split(self) -> str | None:
        names = [name for name in self._splits if not name.lower().startswith("train")]
        likely = ("validation", "valid", "val", "dev", "eval", "test")
        return next((name for start in likely for name in names if name.lower().startswith(start)), None) or (
            names[0] if names else None
        )

    def _meanwhile(self) -> str:
        share = 100 * float(str(self._form.field(FRACTION).value()))
        return _("None is chosen yet; until then {share:g} % are held out").format(share=share)

    def _share_words(self) -> str:
        task = self._form.task
        if task is Task.CAUSAL_LM:
            words = _("The last part of each text; of a table, rows drawn at random by the seed {seed}")
        elif task in STRATIFIED:
            words = _("Drawn at random by the seed {seed}, each label in the same proportion")
        else:
            words = _("Drawn at random by the seed {seed}")
        return words.format(seed=self._form.field("training.seed").value())


LARGE = QSize(980, 640)


class DataViews(QTabWidget):
    """Tabs; one that has nothing to show is left out.

    Signals:
        use_chosen: The name of a column, and the key of what it shall be.
    """

    use_chosen = Signal(str, str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.TABS)
        self.setAccessibleName(_("The data"))
        self.rows = RowsPane()
        self.seen = SeenPane(theme)
        self.lengths = LengthsPane(theme)
        self.labels = LabelBars(theme)
        self.rows.use_chosen.connect(self.use_chosen)
        labels = QWidget()
        around = QVBoxLayout(labels)
        around.setContentsMargins(0, SPACING, 0, 0)
        around.addWidget(self.labels)
        around.addStretch(1)
        self._pages: dict[QWidget, str] = {
            self.rows: _("Rows"),
            self.seen: _("What the model sees"),
            self.lengths: _("Lengths"),
            labels: _("Labels"),
        }
        for page in self._pages:
            page.setParent(self)
            page.hide()
        self._labels = labels
        self.setTabBarAutoHide(True)

    def show_report(self, report: DataReport | None, task: Task) -> None:
        self.rows.show_report(report)
        self.seen.show_report(report, task)
        self.lengths.show_report(report)
        self.labels.set_counts(report.labels if report is not None else {})
        wanted = {
            self.rows: report is not None and bool(report.preview),
            self.seen: report is not None and bool(report.seen),
            self.lengths: report is not None and report.lengths is not None and bool(report.lengths.counts),
            self._labels: report is not None and bool(report.labels),
        }
        self._offer([page for page, is_wanted in wanted.items() if is_wanted])
        self.setVisible(self.count() > 0)

    def show_uses(self, task: Task, columns: Columns, guessed: Set[str]) -> None:
        self.rows.show_uses(task, columns, guessed)

    def show_row(self, number: int) -> None:
        """Bring a row of the file into view, if it is among the first ones."""
        if self.indexOf(self.rows) >= 0 and self.rows.show_row(number):
            self.setCurrentWidget(self.rows)

    def _offer(self, pages: list[QWidget]) -> None:
        if pages == [self.widget(index) for index in range(self.count())]:
            return
        current = self.currentWidget()
        self.clear()
        for page in pages:
            self.addTab(page, self._pages[page])
        if current in pages:
            self.setCurrentWidget(current)


class DataSheet(QDialog):
    """The views in a window of their own, for as long as it is open; then they go back to where they were.

    Args:
        views: The views.
        title: What the data is called.
    """

    def __init__(self, views: DataViews, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.resize(LARGE)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * SPACING, 2 * SPACING, 2 * SPACING, 2 * SPACING)
        layout.addWidget(views, 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)


LINES_HIGH, LINES_FOUND = 20, 6
VIEWS_STRETCH = 100


class DataOverview(QWidget):
    """A line, the views of the data, and below them, to be scrolled, what is wrong with it, notes and findings.

    It is always as high, whatever is known of the data: what stands below must not move as that comes in.

    Signals:
        use_chosen: The name of a column, and the key of what it shall be (`core.services.inspect`).
        fix_chosen: The `core.base.errors.Fix` whose button was pressed.

    Args:
        reading: What is known of the data.
    """

    use_chosen = Signal(str, str)
    fix_chosen = Signal(object)

    def __init__(self, theme: Theme, reading: DataReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading = reading
        self._shown: DataReport | None = None
        self._task: Task | None = None
        self._sheet: DataSheet | None = None
        self.line = DataLine(reading)
        self.views = DataViews(theme)
        self.findings = FindingsPane()
        found = QWidget()
        self._found = QVBoxLayout(found)
        self._found.setContentsMargins(0, 0, 0, 0)
        self._found.addWidget(self.line.notes_label)
        self._found.addWidget(self.findings)
        scroll = PageScroll(found, most_lines=LINES_FOUND)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, SPACING // 2)
        self._layout.setSpacing(SPACING)
        self._layout.addWidget(self.line)
        self._layout.addWidget(self.views, VIEWS_STRETCH)
        self._layout.addWidget(scroll)
        self._layout.addStretch(1)
        self.setFixedHeight(LINES_HIGH * self.fontMetrics().height())
        self.line.enlarge_pressed.connect(self.enlarge)
        self.views.use_chosen.connect(self.use_chosen)
        self.findings.fix_chosen.connect(self.fix_chosen)
        self.findings.row_chosen.connect(self.views.show_row)
        self.views.hide()

    def show_state(self, task: Task, columns: Columns, guessed: Set[str]) -> None:
        """Say what is known now.

        Args:
            task: What the data is for.
            columns: The columns used, by the keys of their roles.
            guessed: The keys of those that were guessed.
        """
        report = self._reading.report
        self.line.show_state()
        if report is not self._shown or task is not self._task:
            self._shown, self._task = report, task
            self.views.show_report(report, task)
            if report is not None:
                self.findings.show_findings(report.findings, frozenset(row_numbers(report)))
            else:
                self.findings.show_findings(())
        self.views.show_uses(task, columns, guessed)

    def take_problems(self, row: FormRow) -> None:
        """Show what is wrong with the data here, and not below its row: much of it is found only by reading it."""
        self._found.insertLayout(0, row.give_problems())

    @property
    def has_table(self) -> bool:
        return self._shown is not None and bool(self._shown.columns and self._shown.preview)

    @property
    def leaves_out_columns(self) -> bool:
        return self.has_table and self.views.rows.leaves_out

    def set_limit(self, limit: int | None) -> None:
        self.views.lengths.set_limit(limit)

    def enlarge(self) -> None:
        report = self._reading.report
        if report is None or self._sheet is not None:
            return
        self._sheet = DataSheet(self.views, report.source.rpartition("/")[2], self)
        self._sheet.finished.connect(self._take_back)
        self._sheet.open()

    @property
    def sheet(self) -> DataSheet | None:
        return self._sheet

    def _take_back(self) -> None:
        self._layout.insertWidget(1, self.views, VIEWS_STRETCH)
        self.views.setVisible(self.views.count() > 0)
        if self._sheet is not None:
            self._sheet.deleteLater()
            self._sheet = None

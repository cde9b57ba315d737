"""What is known of the chosen data, below its field: how it was read, its views, what was found, its split."""

import html
from collections.abc import Sequence, Set
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QBoxLayout,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from core.base.language import _, ngettext
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.services.inspect import Columns, DataReport, Finding, FindingLevel
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.new_run.data_views import LengthsPane, RowsPane, SeenPane, row_numbers
from gui.new_run.state import DataReading
from gui.widgets.bars import LabelBars
from gui.widgets.form import Form
from gui.widgets.form_row import FormRow, field_indent, label_width
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.labels import LinkLabel, link_button, text_label
from gui.widgets.layout import FLUSH, FlowLayout, PageScroll, clear, fill

PROBLEM_MARK, WARNING_MARK = ("✕", Role.PROBLEM_MARK), ("!", Role.WARNING)
"""A symbol, and its role for the style sheet."""


def marked_line(mark: tuple[str, Role], content: QWidget | QBoxLayout, parent: QWidget) -> QWidget:
    """A line that begins with a mark such as "!"."""
    symbol = QLabel(mark[0])
    set_role(symbol, mark[1])
    symbol.setFixedWidth(symbol.fontMetrics().horizontalAdvance("✓✓"))
    line = QWidget(parent)
    row = fill(QHBoxLayout(line), margins=FLUSH, spacing=SPACING)
    row.addWidget(symbol, 0, Qt.AlignmentFlag.AlignTop)
    if isinstance(content, QWidget):
        row.addWidget(content, 1)
    else:
        row.addLayout(content, 1)
    return line


class FindingsPane(QWidget):
    """What was found in the data: a summary, and for each finding a line with its fixes; advice is text.

    Signals:
        fix_chosen: The `core.base.errors.Fix` whose button was pressed.
        row_chosen: The number of a row in the file, to be shown.
    """

    fix_chosen = Signal(object)
    row_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.findings: tuple[Finding, ...] = ()
        self._rows: Set[int] = frozenset()
        layout = fill(QVBoxLayout(self), margins=FLUSH, spacing=SPACING // 2)
        self._summary = QLabel()
        set_role(self._summary, Role.GROUP_TITLE)
        layout.addWidget(self._summary)
        self._lines = QVBoxLayout()
        self._lines.setSpacing(SPACING // 2)
        layout.addLayout(self._lines)
        self.hide()

    def show_findings(self, findings: Sequence[Finding], rows: Set[int] = frozenset()) -> None:
        """Show these, problems first; the rows that can be shown are links."""
        if (tuple(findings), rows) == (self.findings, self._rows):
            return
        self.findings, self._rows = tuple(findings), rows
        clear(self._lines)
        for place, finding in enumerate(findings):
            label = self._text(finding)
            self._lines.addWidget(self._line(finding, label))
            if not place:
                self.setFocusProxy(label)
        self._summary.setText(summary(findings))
        self.setAccessibleName(_("Found in the data: {summary}").format(summary=self.words))
        self.setVisible(bool(findings))

    @property
    def words(self) -> str:
        return self._summary.text()

    def _line(self, finding: Finding, label: QLabel) -> QWidget:
        words = fill(QVBoxLayout(), label, spacing=0)
        advice = [fix.label for fix in finding.fixes if fix.is_advice]
        if advice:
            text = " ".join(f"{one}." if one[-1:].isalnum() else one for one in advice)
            words.addWidget(text_label(text, Role.HINT))
        buttons = QWidget()
        flow = FlowLayout(SPACING // 2, 2, buttons)
        for fix in finding.fixes:
            if not fix.is_advice:
                flow.addWidget(link_button(fix.label, partial(self.fix_chosen.emit, fix), flush=True))
        if flow.count():
            words.addWidget(buttons)
        is_problem = finding.level is FindingLevel.PROBLEM
        return marked_line(PROBLEM_MARK if is_problem else WARNING_MARK, words, self)

    def _text(self, finding: Finding) -> QLabel:
        """The sentence; its rows are links where the table shows them, which has those that are trained on."""
        numbers = ", ".join(f"{row:,}" for row in finding.rows)
        linked = frozenset() if finding.in_eval else self._rows
        link = '<a href="{row}" style="text-decoration:none">{row:,}</a>'
        links = ", ".join(link.format(row=row) if row in linked else f"{row:,}" for row in finding.rows)
        text = html.escape(finding.message)
        if finding.rows:
            where = html.escape(finding.where).replace(numbers, links, 1)
            text = f"{text} {where[:1].upper()}{where[1:]}."
        label = LinkLabel()
        label.setText(text)
        level = _("Problem") if finding.level is FindingLevel.PROBLEM else _("Warning")
        label.setAccessibleName(f"{level}: {finding.message} {finding.where}".strip())
        label.linkActivated.connect(lambda row: self.row_chosen.emit(int(row)))
        return label


def summary(findings: Sequence[Finding]) -> str:
    """How many of each there are: "3 problems, 2 warnings"."""
    problems = sum(finding.level is FindingLevel.PROBLEM for finding in findings)
    warnings = len(findings) - problems
    parts = [
        ngettext("{count:,} problem", "{count:,} problems", problems).format(count=problems),
        ngettext("{count:,} warning", "{count:,} warnings", warnings).format(count=warnings),
    ]
    return ", ".join(part for part, count in zip(parts, (problems, warnings), strict=True) if count)


SPEAKS_FOR_ITSELF = ("encoding", "quoting", "compression")
"""What of a reading is understood without its name."""


class DataLine(QWidget):
    """How the data was read and how much there is; while it is read, progress and a way out.

    `notes_label` holds facts about the data, a line each, for a place below; `enlarge` shows more of it at once.
    """

    def __init__(self, reading: DataReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading = reading
        self._words = text_label(role=Role.HINT)
        self.enlarge = link_button(_("Enlarge"), tip=_("Show the data in a window of its own"))
        self.cancel_button = link_button(_("Cancel"), reading.cancel, _("Stop reading the data"))
        self.again_button = link_button(_("Look again"), reading.look_again, _("Read the data again"))
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(_("Reading the data"))
        self.notes_label = text_label(role=Role.HINT, selectable=True)
        reading.progressed.connect(self.show_state)
        line = fill(
            QHBoxLayout(),
            (self._words, 1),
            self.again_button,
            self.cancel_button,
            self.enlarge,
            spacing=SPACING // 2,
        )
        fill(QVBoxLayout(self), line, self._bar, margins=FLUSH, spacing=SPACING // 2)

    @property
    def words(self) -> str:
        return self._words.text()

    @property
    def notes(self) -> str:
        return self.notes_label.text()

    def show_state(self) -> None:
        """Say what is known now."""
        reading, report, share = self._reading, self._reading.report, self._reading.progress
        self.cancel_button.setVisible(reading.is_waiting)
        self.again_button.setVisible(reading.is_cancelled)
        self._bar.setVisible(reading.is_waiting)
        self.enlarge.setVisible(report is not None and bool(report.preview or report.seen))
        if reading.is_waiting:
            self._bar.setRange(0, 0 if share is None else 1000)
            self._bar.setValue(round(1000 * (share or 0)))
            words = _("Reading and checking…")
            if share is not None:
                words = _("Reading and checking: {share:.0f} %").format(share=100 * share)
        elif reading.is_cancelled:
            words = _("The data was not checked.")
        elif report is None and reading.failure is None:
            words = _("The data is shown here once it is read.")
        else:
            words = reading_text(report) if report is not None and report.rows else ""
        self._words.setText(words)
        self.notes_label.setText("\n".join(report.notes) if report is not None else "")
        self.notes_label.setVisible(bool(self.notes))
        self.setVisible(bool(words))


def reading_text(report: DataReport) -> str:
    """How data was read and how much there is: `2,340 rows · CSV · UTF-8 · comma · header in the first row`."""
    labels = _("{labels:,} labels").format(labels=len(report.labels)) if report.labels else ""
    parts = [part for part in (rows_text(report.rows), labels, report.format, report.shape) if part]
    for name, words in report.reading.items():
        if words == "none":
            parts.append(_("no {name}").format(name=name))
        elif words and words not in parts:
            parts.append(words if name in SPEAKS_FOR_ITSELF else f"{name} {words}")
    return " · ".join(parts)


def rows_text(count: int) -> str:
    return ngettext("{count:,} row", "{count:,} rows", count).format(count=count)


FRACTION, FILE, SPLIT, TRAIN_SPLIT = "data.eval_fraction", "data.eval", "data.eval_split", "data.train_split"
PATHS = (FRACTION, FILE, SPLIT)
"""The options of the three choices, which are called by them."""


STRATIFIED = (Task.TEXT_CLASSIFICATION, Task.IMAGE_CLASSIFICATION)


class SplitChoice(QWidget):
    """What a run is evaluated on: a share of the training data, another file, or a split of it.

    Only one of the three counts; the other two are taken back, and come again when they are chosen again.

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
        line = fill(QHBoxLayout(self), label, margins=FLUSH, spacing=0)
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
        if form.task is Task.CAUSAL_LM:
            words = _("The last part of each text; of a table, rows drawn at random by the seed {seed}")
        elif form.task in STRATIFIED:
            words = _("Drawn at random by the seed {seed}, each label in the same proportion")
        else:
            words = _("Drawn at random by the seed {seed}")
        form.row(FRACTION).set_hint(words.format(seed=form.field("training.seed").value()))
        share = 100 * float(str(form.field(FRACTION).value()))
        meanwhile = _("None is chosen yet; until then {share:g} % are held out").format(share=share)
        for path in (FILE, SPLIT):
            is_open = path == self.value and not form.field(path).value()
            form.row(path).set_hint(meanwhile if is_open else "")

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


class DataViews(QTabWidget):
    """Tabs; one that has nothing to show is left out."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.TABS)
        self.setAccessibleName(_("The data"))
        self.rows = RowsPane()
        self.seen = SeenPane(theme)
        self.lengths = LengthsPane(theme)
        self.labels = LabelBars(theme)
        labels = QWidget()
        fill(QVBoxLayout(labels), self.labels, None, margins=(0, SPACING, 0, 0))
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
        pages = [page for page, is_wanted in wanted.items() if is_wanted]
        if pages != [self.widget(index) for index in range(self.count())]:
            current = self.currentWidget()
            self.clear()
            for page in pages:
                self.addTab(page, self._pages[page])
            if current in pages:
                self.setCurrentWidget(current)
        self.setVisible(bool(pages))

    def show_row(self, number: int) -> None:
        """Bring a row of the file into view, if it is among the first ones."""
        if self.indexOf(self.rows) >= 0 and self.rows.show_row(number):
            self.setCurrentWidget(self.rows)


LINES_HIGH, LINES_FOUND = 20, 6
VIEWS_STRETCH = 100


class DataOverview(QWidget):
    """A line, the views of the data, and below them, to be scrolled, what is wrong with it, notes and findings.

    It is always as high, whatever is known of the data: what stands below must not move as that comes in.
    """

    def __init__(self, theme: Theme, reading: DataReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading = reading
        self._shown: DataReport | None = None
        self._task: Task | None = None
        self.sheet: QDialog | None = None  # while the views are in a window of their own
        self.line = DataLine(reading)
        self.views = DataViews(theme)
        self.findings = FindingsPane()
        found = QWidget()
        self._found = fill(QVBoxLayout(found), self.line.notes_label, self.findings, margins=FLUSH)
        scroll = PageScroll(found, most_lines=LINES_FOUND)
        self._layout = fill(
            QVBoxLayout(self),
            self.line,
            (self.views, VIEWS_STRETCH),
            scroll,
            None,
            margins=(0, 0, 0, SPACING // 2),
            spacing=SPACING,
        )
        self.setFixedHeight(LINES_HIGH * self.fontMetrics().height())
        self.line.enlarge.clicked.connect(self.enlarge)
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
        self.views.rows.show_uses(task, columns, guessed)

    def take_problems(self, row: FormRow) -> None:
        """Show what is wrong with the data here, and not below its row: much of it is found only by reading it."""
        self._found.insertLayout(0, row.give_problems())

    @property
    def has_table(self) -> bool:
        return self._shown is not None and bool(self._shown.columns and self._shown.preview)

    def set_limit(self, limit: int | None) -> None:
        self.views.lengths.set_limit(limit)

    def enlarge(self) -> None:
        """Show the views in a window of their own; once it is closed they come back."""
        report = self._reading.report
        if report is None or self.sheet is not None:
            return
        sheet = self.sheet = QDialog(self)
        sheet.setWindowTitle(report.source.rpartition("/")[2])
        sheet.resize(980, 640)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(sheet.reject)
        layout = QVBoxLayout(sheet)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.addWidget(self.views, 1)
        layout.addWidget(buttons)
        sheet.finished.connect(self._on_back)
        sheet.open()

    def _on_back(self) -> None:
        self._layout.insertWidget(1, self.views, VIEWS_STRETCH)
        self.views.setVisible(self.views.count() > 0)
        if self.sheet is not None:
            self.sheet.deleteLater()
            self.sheet = None

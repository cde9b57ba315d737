"""The chosen data, below its field: how it was read, its views, findings, and the validation data."""

import html
from collections.abc import Mapping, Sequence, Set
from functools import partial
from pathlib import Path

from PySide6.QtCore import QBuffer, QEvent, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QIcon, QImageReader, QPainter, QPixmap
from PySide6.QtWidgets import (
    QBoxLayout,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import Fix
from core.base.formats import capitalized, counted, enumerated, in_line, paragraph
from core.base.language import _, ngettext
from core.jobs.inspect import DataFinding, DataReport, FindingLevel, FoundFile
from core.options.catalogue import options_by_path
from core.options.choices import ColumnRole, Task
from core.services.columns import Columns
from gui.base.files import add_file_actions, open_file, teller
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.new_run.data_views import LabelsPane, LengthsPane, RowsPane, SeenPane, row_numbers
from gui.new_run.state import DataReading
from gui.widgets.bars import progress_bar
from gui.widgets.form import Form, FormRow, field_indent, label_width
from gui.widgets.inputs import Segment, Segmented, WheelGuard
from gui.widgets.labels import LinkLabel, isolated, link_button, role_label, text_label
from gui.widgets.layout import (
    FLUSH,
    FlowLayout,
    PageScroll,
    Sheet,
    clear,
    fill,
    fill_dialog,
    hbox,
    vbox,
)

PROBLEM_MARK, WARNING_MARK = ("✕", Role.PROBLEM_MARK), ("!", Role.WARNING)
"""A symbol and its role."""


def marked_line(mark: tuple[str, Role], content: QWidget | QBoxLayout, parent: QWidget) -> QWidget:
    """Return a line that begins with a mark such as "!"."""
    symbol = role_label(mark[1], mark[0])
    symbol.setFixedWidth(symbol.fontMetrics().horizontalAdvance("✓✓"))
    symbol.setAlignment(Qt.AlignmentFlag.AlignTop)
    line = QWidget(parent)
    fill(QHBoxLayout(line), symbol, (content, 1), margins=FLUSH, spacing=SPACING)
    return line


class FindingsPane(QWidget):
    """What was found in the data: a summary, and a line with its fixes for each finding; advice is text.

    A fix that several findings have stands once, below the summary.

    Args:
        most: Of more findings the others are in a window of their own; None: all are here.
    """

    fix_chosen = Signal(object)  # a `core.base.errors.Fix`
    row_chosen = Signal(int)  # the number of a row in the file, to be shown

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self._most = most
        self._shown: tuple[tuple[DataFinding, ...], Set[int]] = ((), frozenset())
        self.summary = role_label(Role.GROUP_TITLE)
        self._lines = vbox(spacing=SPACING // 2)
        fill(QVBoxLayout(self), self.summary, self._lines, margins=FLUSH, spacing=SPACING // 2)
        self.hide()

    def show_findings(self, findings: Sequence[DataFinding], rows: Set[int] = frozenset()) -> None:
        """Show findings, problems first; `rows` are those that can be shown and become links."""
        if (tuple(findings), rows) == self._shown:
            return
        self._shown = tuple(findings), rows
        clear(self._lines)
        offered = [fix for finding in findings for fix in finding.fixes if not fix.is_advice]
        shared = [
            fix for place, fix in enumerate(offered) if offered.index(fix) == place and offered.count(fix) > 1
        ]
        first = self._add_buttons(self._lines, [self._button(fix) for fix in shared])
        for finding in findings[: self._most]:
            label = self._label(finding, frozenset() if finding.in_eval else rows)
            self._lines.addWidget(self._line(finding, label, shared))
            first = first or label
        if first is not None:
            self.setFocusProxy(first)
        if self._most is not None and len(findings) > self._most:
            text = _("Show all {count}…").format(count=len(findings))
            self._add_buttons(self._lines, [link_button(text, self._show_all, flush=True)])
        self.summary.setText(summary(findings))
        self.setAccessibleName(_("Found in the data: {summary}").format(summary=self.summary.text()))
        self.setVisible(bool(findings))

    def _show_all(self) -> None:
        sheet, pane = Sheet(_("Found in the data"), self), FindingsPane()
        pane.show_findings(*self._shown)
        for chosen, told in ((pane.fix_chosen, self.fix_chosen), (pane.row_chosen, self.row_chosen)):
            chosen.connect(sheet.accept)
            chosen.connect(told)
        close = sheet.button_box(QDialogButtonBox.StandardButton.Close)
        fill_dialog(sheet, (PageScroll(pane), 1), close)
        sheet.resize(MOST_SHOWN)
        sheet.open()

    def _button(self, fix: Fix) -> QWidget:
        return link_button(fix.label, partial(self.fix_chosen.emit, fix), flush=True)

    def _add_buttons(self, lines: QBoxLayout, buttons: Sequence[QWidget]) -> QWidget | None:
        """Add buttons in as many lines as they need; returns the first."""
        if not buttons:
            return None
        holder = QWidget()
        flow = FlowLayout(SPACING // 2, 2, holder)
        for button in buttons:
            flow.addWidget(button)
        lines.addWidget(holder)
        return buttons[0]

    def _line(self, finding: DataFinding, label: QLabel, shared: Sequence[Fix]) -> QWidget:
        lines = vbox(label, spacing=0)
        advice = [fix.label for fix in finding.fixes if fix.is_advice]
        if advice:
            text = paragraph(*advice)
            lines.addWidget(text_label(text, Role.HINT))
        buttons: list[QWidget] = []
        if finding.files:
            text = ngettext("Show it…", "Show them…", finding.count)
            buttons.append(link_button(text, lambda: FilesSheet(finding, self.window()).open(), flush=True))
        buttons += [self._button(fix) for fix in finding.fixes if not (fix.is_advice or fix in shared)]
        self._add_buttons(lines, buttons)
        is_problem = finding.level is FindingLevel.PROBLEM
        return marked_line(PROBLEM_MARK if is_problem else WARNING_MARK, lines, self)

    def _label(self, finding: DataFinding, linked: Set[int]) -> QLabel:
        numbers = enumerated(f"{row:,}" for row in finding.rows)
        link = '<a href="{row}" style="text-decoration:none">{row:,}</a>'
        links = enumerated(link.format(row=row) if row in linked else f"{row:,}" for row in finding.rows)
        text = html.escape(finding.message)
        if finding.rows:
            where = html.escape(finding.where).replace(numbers, links, 1)
            text = paragraph(text, capitalized(where))
        label = LinkLabel()
        label.setText(text)
        level = _("Problem") if finding.level is FindingLevel.PROBLEM else _("Warning")
        label.setAccessibleName(f"{level}: {finding.message} {finding.where}".strip())
        label.linkActivated.connect(lambda row: self.row_chosen.emit(int(row)))
        return label


SIDE = 72
"""Pixels of a picture."""
MOST_SHOWN = QSize(760, 560)


class FilesSheet(Sheet):
    """The files of a finding. Double click or Return opens one; a right click offers its folder and its path."""

    def __init__(self, finding: DataFinding, parent: QWidget) -> None:
        super().__init__(_("Images in question"), parent)
        self.waiting = list(finding.files)
        self.list = QListWidget()
        self.list.setAccessibleName(finding.message)
        self.list.setIconSize(QSize(2 * SIDE + SPACING, SIDE))
        self.list.setWordWrap(True)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.list.customContextMenuRequested.connect(self._open_menu)
        self.list.itemActivated.connect(self._open)
        for file in finding.files:
            self.list.addItem(_item(file))
        more = finding.count - len(finding.files)
        rest = text_label(_("And {count:,} more.").format(count=more), Role.HINT)
        rest.setVisible(more > 0)
        buttons = self.button_box(QDialogButtonBox.StandardButton.Close)
        fill_dialog(self, text_label(finding.message), (self.list, 1), rest, buttons)
        self.resize(MOST_SHOWN)
        self._load = QTimer(self, interval=0)
        self._load.timeout.connect(self._load_next)
        self._load.start()

    def _load_next(self) -> None:
        """Decode the pictures of one file, so that the window never waits for all."""
        if not self.waiting:
            self._load.stop()
            return
        row, file = self.list.count() - len(self.waiting), self.waiting.pop(0)
        both = (file.path, file.picture), (file.like, file.like_picture)
        pictures = [found for path, picture in both if path and not (found := _small(path, picture)).isNull()]
        if pictures:
            icon = QIcon(whole := side_by_side(pictures))
            icon.addPixmap(whole, QIcon.Mode.Selected)  # Qt would tint it
            self.list.item(row).setIcon(icon)

    def _open(self, item: QListWidgetItem) -> None:
        open_file(self, Path(item.data(Qt.ItemDataRole.UserRole).path))

    def _open_menu(self, position: QPoint) -> None:
        item = self.list.itemAt(position)
        if item is None:
            return
        file: FoundFile = item.data(Qt.ItemDataRole.UserRole)
        menu = QMenu(self)
        add_file_actions(menu, Path(file.path), teller(self))
        if file.like:
            menu.addSection(Path(file.like).name)
            add_file_actions(menu, Path(file.like), teller(self))
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.list.viewport().mapToGlobal(position))


def _item(file: FoundFile) -> QListWidgetItem:
    lines = [_last_parts(file.path), file.reason]
    if file.like:
        lines.append(_("similar to {file}").format(file=isolated(_last_parts(file.like))))
    item = QListWidgetItem("\n".join(filter(None, lines)))
    item.setData(Qt.ItemDataRole.UserRole, file)
    item.setToolTip("\n".join(filter(None, (file.path, file.like))))
    return item


def _last_parts(path: str) -> str:
    return str(Path(*Path(path).parts[-2:]))


def _small(path: str, picture: bytes) -> QPixmap:
    """The image, or what the engine made of one that Qt can't read; null without either."""
    reader = QImageReader(path)
    if picture:
        content = QBuffer()
        content.setData(picture)
        content.open(QBuffer.OpenModeFlag.ReadOnly)
        reader = QImageReader(content)
    reader.setAutoTransform(True)
    size = reader.size()
    if size.isValid():
        reader.setScaledSize(size.scaled(SIDE, SIDE, Qt.AspectRatioMode.KeepAspectRatio))
    return QPixmap.fromImage(reader.read())


def side_by_side(pictures: list[QPixmap]) -> QPixmap:
    """Returns the pictures in one, with a gap between them."""
    whole = QPixmap(2 * SIDE + SPACING, SIDE)
    whole.fill(Qt.GlobalColor.transparent)
    painter = QPainter(whole)
    for place, picture in enumerate(pictures):
        left = place * (SIDE + SPACING) + (SIDE - picture.width()) // 2
        painter.drawPixmap(left, (SIDE - picture.height()) // 2, picture)
    painter.end()
    return whole


def summary(findings: Sequence[DataFinding]) -> str:
    """Return how many problems and warnings there are: `3 problems, 2 warnings`."""
    problems = sum(finding.level is FindingLevel.PROBLEM for finding in findings)
    warnings = len(findings) - problems
    parts = [
        ngettext("{count:,} problem", "{count:,} problems", problems).format(count=problems),
        ngettext("{count:,} warning", "{count:,} warnings", warnings).format(count=warnings),
    ]
    return enumerated(part for part, count in zip(parts, (problems, warnings), strict=True) if count)


class DataLine(QWidget):
    """How the data was read and how much there is; while it is read, the progress and Cancel.

    `notes` are facts about the data, one per line, for a place below.
    """

    def __init__(self, reading: DataReading) -> None:
        super().__init__()
        self._reading = reading
        self.text = text_label(role=Role.HINT)
        self.enlarge = link_button(_("Enlarge"), tip=_("Show the data in its own window"))
        self.cancel_button = link_button(_("Cancel"), reading.stop, _("Stop reading the data"))
        self.again_button = link_button(_("Read again"), reading.read_again, _("Read the data again"))
        self._bar = progress_bar(_("Reading the data"))
        policy = self._bar.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # the data below must not move when it is read again
        self._bar.setSizePolicy(policy)
        self.notes = text_label(role=Role.HINT, selectable=True)
        reading.progressed.connect(self.show_state)
        self.name_labels = link_button(
            _("Name the labels…"), tip=_("The trained model answers with these names")
        )
        buttons = (self.name_labels, self.again_button, self.cancel_button, self.enlarge)
        line = hbox((self.text, 1), *buttons, spacing=SPACING // 2)
        fill(QVBoxLayout(self), line, self._bar, margins=FLUSH, spacing=SPACING // 2)

    def show_state(self) -> None:
        reading, report, share = self._reading, self._reading.report, self._reading.share
        self.cancel_button.setVisible(reading.is_waiting)
        self.again_button.setVisible(reading.is_stopped)
        self._bar.setVisible(reading.is_waiting)
        self.enlarge.setVisible(report is not None and bool(report.preview or report.seen))
        if reading.is_waiting:
            self._bar.setRange(0, 0 if share is None else 1000)
            self._bar.setValue(round(1000 * (share or 0)))
            text = _("Reading and checking…")
            if share is not None:
                text = _("Reading and checking: {share:.0f} %").format(share=100 * share)
        elif reading.is_stopped:
            text = _("The data was not checked.")
        elif reading.failure is not None and not reading.has_broken:
            text = reading.failure.detail  # the title is at the field
        elif report is None and reading.failure is None:
            text = _("The data is shown here once it is read.")
        else:
            text = reading_text(report) if report is not None and report.rows else ""
        self.text.setText(text)
        self.notes.setText("\n".join(report.notes) if report is not None else "")
        self.notes.setVisible(bool(self.notes.text()))
        self.setVisible(bool(text))


def reading_text(report: DataReport) -> str:
    """Return how data was read and how much there is: `2,340 examples · CSV · UTF-8 · header in the first row`."""
    parts = [*counts_of(report), report.format, report.shape, *report.reading.values()]
    return in_line(*dict.fromkeys(parts))


def counts_of(report: DataReport) -> list[str]:
    """Return how many examples and labels there are: `6,911 of 6,920 examples`, `2 labels`; of answers, how many
    have each rating.
    """
    examples = counted(report.rows, "example")
    if report.used not in (None, report.rows):
        examples = _("{used:,} of {examples}").format(used=report.used, examples=examples)
    if ColumnRole.RATING in report.columns_by_role:
        return [examples, *(f"{count:,} {rating}" for rating, count in report.labels.items())]
    return [examples, counted(len(report.labels), "label")] if report.labels else [examples]


FRACTION, FILE, SPLIT, TRAIN_SPLIT = "data.eval_fraction", "data.eval", "data.eval_split", "data.train_split"
PATHS = (FRACTION, FILE, SPLIT)
"""The options of the three choices, which are called by them."""


def names_hint(names: Mapping[str, str], report: DataReport | None) -> str:
    """Say which name is of no label of the data."""
    known = report.labels if report is not None else {}
    unknown = next((label for label in names if label not in known), None)
    if unknown is None or not 0 < len(known) < DataReport.MOST_LABELS:
        return ""
    text = _("“{label}” is not one of the labels ({labels}). Write it as: label = name.")
    return text.format(
        label=isolated(unknown), labels=enumerated(map(isolated, list(known)[:MOST_LABELS_NAMED]))
    )


MOST_LABELS_NAMED = 6
STRATIFIED = (Task.TEXT_CLASSIFICATION, Task.IMAGE_CLASSIFICATION)


class SplitChoice(QWidget):
    """What a run is evaluated on: a share of the training data, another file, or a split of the data set.

    Only one of the three options is set. The values of the others return when they are chosen again.
    """

    changed = Signal()

    def __init__(self, form: Form) -> None:
        super().__init__()
        self._form = form
        self._earlier: dict[str, object] = {}
        self._splits: tuple[str, ...] = ()
        self._opened = ""  # chosen, but not filled in yet
        label = role_label(Role.LABEL, _("Validation data"))
        label.setFixedWidth(label_width(self))
        self.choice = Segmented()
        self.choice.chosen.connect(self._on_chosen)
        label.setBuddy(self.choice)
        line = fill(QHBoxLayout(self), label, margins=(0, 0, 0, SPACING // 2), spacing=0)
        line.addSpacing(field_indent(self) - label_width(self))
        fill(line, self.choice, None)
        self._show_choices()

    def update_from(self, report: DataReport | None) -> None:
        """Show what the form holds, and what the choice means."""
        splits = report.splits if report is not None else ()
        if splits != self._splits or self._has_split is not (SPLIT in self.choice.buttons()):
            self._splits = splits
            self._show_choices()
        self.choice.set_value(self.value)
        form = self._form
        if form.task is Task.CAUSAL_LM:
            text = _("The end of each text; of a table, random examples (seed {seed})")
        elif form.task in STRATIFIED:
            text = _("Random, stratified by label (seed {seed})")
        else:
            text = _("Random (seed {seed})")
        form.row(FRACTION).set_hint(text.format(seed=form.field("training.seed").value()))
        share = 100 * float(str(form.field(FRACTION).value()))
        meanwhile = _("Nothing chosen: {share:g} % of the training data is used").format(share=share)
        for path in (FILE, SPLIT):
            is_open = path == self.value and not form.field(path).value()
            form.row(path).set_hint(meanwhile if is_open else "")

    @property
    def hidden(self) -> set[str]:
        """The options whose rows are hidden, as they don't apply to the choice."""
        hidden = set(PATHS) - {self.value}
        if self.value != SPLIT and not self._form.field(TRAIN_SPLIT).value() and not self._splits:
            hidden.add(TRAIN_SPLIT)
        return hidden

    @property
    def value(self) -> str:
        if self._form.field(FILE).value():
            return FILE
        if self._form.field(SPLIT).value():
            return SPLIT
        return self._opened or FRACTION

    @property
    def _has_split(self) -> bool:
        """Whether a split can be chosen, or is chosen before the splits are known."""
        return bool(self._splits or SPLIT in self._earlier or self.value == SPLIT)

    def reset(self) -> None:
        self._earlier.clear()
        self._opened = ""

    def reveal(self, path: str) -> None:
        """Bring the row of an option into view without changing anything."""
        if path in (FILE, SPLIT) and self.value == FRACTION:
            self._opened = path

    def _show_choices(self) -> None:
        segments = [
            Segment(FRACTION, _("Fraction"), _("A fraction of the training data is used for validation.")),
            Segment(FILE, _("Separate file"), _("Validation data in the same format.")),
        ]
        if self._has_split:
            names = _("One of the data's own splits: {splits}").format(splits=enumerated(self._splits))
            segments.append(Segment(SPLIT, _("Split"), names if self._splits else ""))
        self.choice.set_segments(segments, keeps_value=False)
        self.choice.setAccessibleName(_("Validation data"))

    def _on_chosen(self, path: str) -> None:
        before = {option: self._form.field(option).value() for option in PATHS}
        values = {option: options_by_path()[option].default for option in PATHS}
        self._earlier |= {option: value for option, value in before.items() if value != values[option]}
        values[path] = self._earlier.get(path, values[path])
        if path == SPLIT and not values[SPLIT]:
            values[SPLIT] = self._likely_split()
        self._opened = path
        self._form.set_values({option: value for option, value in values.items() if value != before[option]})
        self.changed.emit()

    def _likely_split(self) -> str | None:
        names = [name for name in self._splits if not name.lower().startswith("train")]
        prefixes = ("validation", "valid", "val", "dev", "eval", "test")
        likely = (name for prefix in prefixes for name in names if name.lower().startswith(prefix))
        return next(likely, names[0] if names else None)


class DataViews(QTabWidget):
    """Tabs with views of the data; empty ones are left out."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        set_role(self, Role.TABS)
        self.setAccessibleName(_("The data"))
        self.rows = RowsPane()
        self.seen = SeenPane(theme)
        self.lengths = LengthsPane(theme)
        self.labels = LabelsPane(theme)
        for page in (self.rows, self.seen, self.lengths, self.labels):
            page.setParent(self)
            page.hide()
        self.setTabBarAutoHide(True)
        WheelGuard(self.tabBar())

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        """Return False: the tabs take the height there is, so that the text below isn't cut."""
        return False

    def show_report(self, report: DataReport | None, task: Task, names: Mapping[str, str]) -> None:
        """Show the views of a report; `names` are those given to its labels."""
        counts = report.labels if report is not None else {}
        named = {
            label: f"{isolated(label)} → {isolated(name)}"
            for label, name in names.items()
            if label in counts and name
        }
        self.rows.show_report(report, named)
        self.seen.show_report(report, task, named)
        self.lengths.show_report(report)
        self.labels.show_labels(counts, names, is_editable=task in STRATIFIED)
        lengths = report.lengths if report is not None else None
        tabs: dict[QWidget, str] = {}
        if report is not None and report.preview:
            tabs[self.rows] = _("Examples")
        if report is not None and report.seen:
            tabs[self.seen] = _("What the model sees")
        if lengths is not None and lengths.counts:
            tabs[self.lengths] = _("Lengths")
        if report is not None and report.labels:
            is_rated = ColumnRole.RATING in report.columns_by_role
            tabs[self.labels] = _("Ratings") if is_rated else _("Labels")
        if list(tabs) != [self.widget(index) for index in range(self.count())]:
            current = self.currentWidget()
            self.clear()
            for page, title in tabs.items():
                self.addTab(page, title)
            if current in tabs:
                self.setCurrentWidget(current)
        self.setVisible(bool(tabs))

    def name_labels(self) -> None:
        """Bring the boxes for names of labels into view."""
        self.setCurrentWidget(self.labels)
        self.labels.focus_first()

    def show_row(self, number: int) -> None:
        """Bring a row of the file into view, if it is among the first ones."""
        if self.indexOf(self.rows) >= 0 and self.rows.show_row(number):
            self.setCurrentWidget(self.rows)


LINES_HIGH, LINES_OF_VIEWS = 35, 18
MOST_FINDINGS = 5
VIEWS_STRETCH = 100


class DataOverview(QWidget):
    """A line, the views of the data, and below them problems, notes and findings.

    Its height is fixed unless more has to be said than fits: what is below must not move when something becomes known
    about the data.
    """

    def __init__(self, theme: Theme, reading: DataReading) -> None:
        super().__init__()
        self._reading = reading
        self._shown: tuple[DataReport | None, Task | None, Mapping[str, str]] = (None, None, {})
        self.sheet: Sheet | None = None  # while the views are in their own window
        self.line = DataLine(reading)
        self.views = DataViews(theme)
        self.views.setMinimumHeight(LINES_OF_VIEWS * self.fontMetrics().height())
        self.findings = FindingsPane(MOST_FINDINGS)
        parts = (self.line, (self.views, VIEWS_STRETCH), self.line.notes, self.findings, None)
        margins = (0, SPACING // 2, 0, SPACING // 2)
        self._layout = fill(QVBoxLayout(self), *parts, margins=margins, spacing=SPACING)
        self._fit()
        self.line.enlarge.clicked.connect(self.enlarge)
        self.line.name_labels.clicked.connect(self.views.name_labels)
        self.findings.row_chosen.connect(self.views.show_row)
        self.views.hide()

    def show_state(self, task: Task, columns: Columns, guessed: Set[str], names_row: FormRow) -> None:
        """Show what is known about the data.

        Args:
            columns: The columns used, by the keys of their roles.
            guessed: The keys of those that were guessed.
            names_row: The option with the names given to labels, which gets a hint if they aren't understood.
        """
        report, given = self._reading.report, names_row.field.value()
        names = dict(given) if isinstance(given, dict) else {}
        names_row.set_hint(names_hint(names, report))
        self.line.show_state()
        self.views.seen.set_outdated(self._reading.is_waiting)
        has_labels = report is not None and bool(report.labels)
        self.line.name_labels.setVisible(has_labels and task in STRATIFIED)
        if report is not self._shown[0] or (task, names) != self._shown[1:]:
            self._shown = report, task, names
            self.views.show_report(report, task, names)
        rows = frozenset(row_numbers(report)) if report is not None else frozenset()
        self.findings.show_findings(self._reading.findings, rows)
        self.views.rows.show_uses(task, columns, guessed)

    def event(self, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self._fit()
        return super().event(event)

    def _fit(self) -> None:
        said = (self.line, self.line.notes, self.findings)
        shown = [part for part in said if not part.isHidden()]
        needed = sum(part.heightForWidth(self.width()) + SPACING for part in shown) + 2 * SPACING
        line = self.fontMetrics().height()
        self.setFixedHeight(max(needed + LINES_OF_VIEWS * line, LINES_HIGH * line))

    @property
    def has_table(self) -> bool:
        report = self._shown[0]
        return report is not None and bool(report.columns and report.preview)

    def enlarge(self) -> None:
        """Move the views to their own window; they return when it is closed."""
        report = self._reading.report
        if report is None or self.sheet is not None:
            return
        sheet = self.sheet = Sheet(report.source.rpartition("/")[2], self)
        sheet.resize(980, 640)
        fill_dialog(sheet, (self.views, 1), sheet.button_box(QDialogButtonBox.StandardButton.Close))
        sheet.finished.connect(self._on_sheet_closed)
        sheet.open()

    def _on_sheet_closed(self) -> None:
        self._layout.insertWidget(1, self.views, VIEWS_STRETCH)
        self.views.setVisible(self.views.count() > 0)
        self.sheet = None

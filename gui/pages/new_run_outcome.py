"""The right half of the New run page, always in view: whether it fits, what will run, checks, the start."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from core.catalogue import options_by_path
from core.errors import Problem
from core.events import Level
from core.findings import Finding, FindingLevel
from core.options import RunOptions
from core.reports import MachineReport
from gui.pages.data_line import rows_words
from gui.pages.new_run_checking import Checked
from gui.pages.new_run_checks import Check, ChecksCard
from gui.pages.new_run_fit import FitCard
from gui.pages.new_run_fit_outlook import FitOutlook
from gui.pages.new_run_machine import computed
from gui.pages.new_run_methods import changes_by_row
from gui.pages.new_run_model import model_title
from gui.pages.new_run_model_check import ModelCheck
from gui.pages.new_run_questions import FormQuestions
from gui.pages.new_run_reading import DataReading
from gui.pages.new_run_summary import summary_rows
from gui.theme import GUTTER, SPACING, Theme
from gui.widgets.card import Card
from gui.widgets.direction import margins
from gui.widgets.fitting_scroll import PageScroll
from gui.widgets.form_row import sentence
from gui.widgets.key_value import KeyValue
from gui.widgets.roles import Role, set_role

FINDINGS = "data.findings"
"""Where the links of findings lead: no option, but the list of them."""


class OutcomeColumn(QWidget):
    """What comes of the options. `fit` is the card about memory.

    Signals:
        path_chosen: The path of an option to go to.
        start_pressed: The person wants to start.

    Args:
        theme: The colours.
        outlook: What is known of the memory it takes.
        parent: Qt's parent.
    """

    path_chosen = Signal(str)
    start_pressed = Signal()

    def __init__(self, theme: Theme, outlook: FitOutlook, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.fit = FitCard(theme, outlook)
        self._rows = KeyValue()
        will_run = Card(self.tr("What will run"))
        will_run.body.addWidget(self._rows)
        self._checks = ChecksCard()
        self._checks.path_chosen.connect(self.path_chosen)
        content = QWidget()
        cards = QVBoxLayout(content)
        cards.setContentsMargins(0, 0, 0, 0)
        cards.setSpacing(SPACING + 4)
        cards.addWidget(self.fit)
        cards.addWidget(will_run)
        cards.addWidget(self._checks)
        cards.addStretch(1)
        self._start = QPushButton()
        set_role(self._start, Role.PRIMARY)
        self._start.clicked.connect(self.start_pressed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 2 * SPACING)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(PageScroll(content), 1)
        starting = QHBoxLayout()
        starting.setContentsMargins(margins(self, 0, 0, GUTTER, 0))
        starting.addWidget(self._start)
        layout.addLayout(
            starting
        )  # at the foot: what comes in above it must not move it from under the mouse

    def show_outcome(
        self,
        checked: Checked,
        problems: Sequence[Problem],
        machine: MachineReport | None,
        questions: FormQuestions,
        advice: Sequence[Problem] = (),
        *,
        is_waiting: bool,
    ) -> None:
        """Show what the form comes to as it stands, all that is wrong with it and what is worth knowing."""
        found = questions.data.findings
        options = checked.readable
        if options is not None:
            data, model = questions.data.counted, questions.model.report
            self._rows.set_rows(summary_rows(options, checked.unreadable, machine, data, model))
            self._rows.set_marks(changes_by_row(options))
        self._checks.show_checks(
            [
                *map(_problem_check, problems),
                *(_finding_check(one) for one in found if one.level is FindingLevel.PROBLEM),
                *self._fine(options, problems, machine, questions),
                *map(_advice_check, advice),
                *(_finding_check(one) for one in found if one.level is FindingLevel.WARNING),
            ]
        )
        self.fit.show_outlook()
        self._start.setText(self._start_text(problems, questions, is_waiting=is_waiting))
        self._start.setEnabled(not problems and not is_waiting and not questions.data.stops)

    @property
    def start_text(self) -> str:
        """What the button says."""
        return self._start.text()

    def _start_text(self, problems: Sequence[Problem], questions: FormQuestions, *, is_waiting: bool) -> str:
        missing = {
            "model.source": self.tr("Choose a model to start from"),
            "data.train": self.tr("Choose the data to train on"),
        }
        is_reading = questions.data.is_reading
        of_data = questions.data.problems() if is_reading else ()  # of options that are others now
        problems = [problem for problem in problems if problem not in of_data]
        for problem in problems:
            if problem.path in missing and problem.message.startswith("choose "):
                return missing[problem.path]
        found = 0 if is_reading else questions.data.problem_count
        if len(problems) + found > 1:
            return self.tr("{count} problems to mend").format(count=len(problems) + found)
        if found:
            return self.tr("Mend: {title}").format(title=options_by_path()["data.train"].title)
        if problems:
            option = options_by_path().get(problems[0].path)
            return self.tr("Mend: {title}").format(title=option.title if option else problems[0].path)
        if not is_waiting:
            return self.tr("Start training")
        return self.tr("Reading the data…") if is_reading else self.tr("Looking at the model…")

    def _fine(
        self,
        options: RunOptions | None,
        problems: Sequence[Problem],
        machine: MachineReport | None,
        questions: FormQuestions,
    ) -> list[Check]:
        """What is in order, and what is still looked at."""
        wrong = {problem.path.partition(".")[0] for problem in problems}
        reading = questions.data
        wrong |= {"data"} if reading.stops else set()
        lines: list[Check] = []
        if options is not None and "model" not in wrong:
            lines.append(self._model_check(questions.model, options))
        if reading.is_reading:
            lines.append(Check(Level.INFO, self.tr("Reading the data…")))
        elif reading.is_cancelled:
            lines.append(Check(Level.WARNING, self.tr("The data was not checked")))
        elif reading.has_broken:
            lines.append(
                Check(Level.WARNING, self.tr("Hone could not look into the data (its log says why)"))
            )
        elif reading.report is not None and "data" not in wrong:
            lines.append(Check(None, self._data_words(reading)))
        if machine is not None and options is not None and "device" not in wrong:
            lines.append(
                Check(None, self.tr("{device} is ready").format(device=computed(machine, options).device))
            )
        return lines

    def _model_check(self, model: ModelCheck, options: RunOptions) -> Check:
        if model.failure is not None:
            words = self.tr("Hone could not look at the model. {reason}")
            return Check(Level.WARNING, words.format(reason=model.failure.title))
        if model.is_checking:
            return Check(Level.INFO, self.tr("Looking at the model…"))
        return Check(None, model_title(options))

    def _data_words(self, reading: DataReading) -> str:
        report = reading.report
        if report is None:
            return ""
        if not report.labels:
            return rows_words(report.rows)
        words = self.tr("{rows}, {labels:,} labels")
        return words.format(rows=rows_words(report.rows), labels=len(report.labels))


def _problem_check(problem: Problem) -> Check:
    option = options_by_path().get(problem.path)
    if option is None:
        return Check(Level.ERROR, sentence(str(problem)))
    if problem.message.startswith("choose "):
        return Check(Level.ERROR, "", sentence(problem.message), problem.path)
    return Check(Level.ERROR, sentence(problem.message), option.title, problem.path)


def _finding_check(finding: Finding) -> Check:
    level = Level.ERROR if finding.level is FindingLevel.PROBLEM else Level.WARNING
    title = options_by_path()["data.train"].title
    return Check(level, finding.message, title, FINDINGS)


def _advice_check(advice: Problem) -> Check:
    option = options_by_path().get(advice.path)
    if option is None:
        return Check(Level.WARNING, sentence(advice.message))
    return Check(Level.WARNING, sentence(advice.message), option.title, advice.path)

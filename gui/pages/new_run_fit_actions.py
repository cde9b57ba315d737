"""What is pressed on the card "Will it fit?" and changes the form: a remedy, a time box, what Hone found to fit.

And what is asked before a run is started that doesn't fit.
"""

from enum import Enum, auto
from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMessageBox

from core import queue
from core.extent import most_epochs, useful_steps
from core.memory.changes import with_changes
from core.memory.fitting import Fitting, MeasuringEach, Try
from core.memory.forecast import Verdict
from core.memory.ladder import Remedy
from core.memory.matters import key_of
from core.options import RunOptions
from gui.pages.fit_sheet import FitSheet
from gui.pages.new_run_fit import FitCard
from gui.pages.new_run_fit_outlook import FitOutlook
from gui.pages.new_run_fit_words import headline, saving_words
from gui.pages.new_run_laying import Laying
from gui.widgets.question import Question


class Start(Enum):
    """What becomes of a run that doesn't fit."""

    WITH_REMEDY = auto()
    ANYWAY = auto()
    NEVER = auto()


class FitActions(QObject):
    """Changes the form as the card asks, so that it can be undone.

    Args:
        card: The card.
        outlook: What is known of the memory.
        laying: Changes the form and lists what that changed.
    """

    def __init__(self, card: FitCard, outlook: FitOutlook, laying: Laying) -> None:
        super().__init__(card)
        self._card = card
        self._outlook = outlook
        self._laying = laying
        self.sheet: FitSheet | None = None
        self._agreed = b""
        card.remedy_chosen.connect(self.apply)
        card.hours_chosen.connect(self.box_time)
        card.fit_pressed.connect(self.fit)
        card.measure_all_pressed.connect(self.measure_all)

    def may_start(self) -> bool:
        """Ask about a run that doesn't fit, once for what is asked; a remedy that is chosen changes the form instead.

        One that has to wait for another is held against all there is: the other gives its memory back.
        """
        outlook = self._outlook
        outlook.resume()
        case, forecast = outlook.case, outlook.forecast
        if case is None or forecast is None or outlook.verdict is not Verdict.TOO_LARGE:
            return True
        key = key_of(case.options)
        waits = not outlook.ran_out and queue.ahead_of(case.options.device.name) is not None
        if key == self._agreed or (waits and outlook.room and forecast.parts.total <= outlook.room.ceiling):
            return True
        enough = (Verdict.FITS, Verdict.TIGHT)
        remedies = (one for one in outlook.remedies() if one.changes and outlook.verdict_after(one) in enough)
        remedy = next(remedies, None)
        answer = self._question(headline(forecast, outlook.ran_out).figures, remedy).ask(Start.NEVER)
        if answer is Start.ANYWAY:
            self._agreed = key
        elif answer is Start.WITH_REMEDY and remedy is not None:
            self.apply(remedy)
        elif answer is Start.WITH_REMEDY:
            self.fit()
        return answer is Start.ANYWAY

    def _question(self, figures: str, remedy: Remedy | None) -> Question[Start]:
        """What is asked; Return never starts what doesn't fit."""
        outlook = self._outlook
        words = self.tr("Where memory runs out, the run ends, and other programs may become slow.")
        answers = {Start.ANYWAY: self.tr("Start anyway")}
        if remedy is not None:
            after, gain = outlook.verdict_after(remedy), outlook.gain(remedy)
            words += f"\n\n{remedy.title}: {saving_words(remedy, outlook.verdict, after, gain)}"
            answers = {Start.WITH_REMEDY: self.tr("Apply: {remedy}").format(remedy=remedy.title), **answers}
        elif outlook.can_measure:
            words += "\n\n" + self.tr("No single change makes it fit; Hone can look for several that do.")
            answers = {Start.WITH_REMEDY: self.tr("Fit it for me…"), **answers}
        title = self.tr("It doesn't fit into memory: {figures}").format(figures=figures)
        question = Question(title, words, answers, self._card.window())
        if len(answers) == 1:
            question.setDefaultButton(QMessageBox.StandardButton.Cancel)
        return question

    def fit(self) -> None:
        """Let Hone find what fits, by short runs."""
        self._outlook.read_room()
        case, room = self._outlook.case, self._outlook.room
        if case is None or not self._outlook.can_measure:
            return
        fitting = Fitting(
            case.options,
            case.model,
            case.device,
            room,
            self._outlook.tools.dry_run,
            length=self._outlook.known_length,
            correction=self._outlook.correction,
        )
        words = self.tr(
            "Short real runs on your longest rows, what was asked first if it has a chance, until one fits "
            "with a tenth to spare. Hone looks for the fastest that keeps the result, then for the fastest of those "
            "that lose least. The form changes only when you press Apply."
        )
        self._open(FitSheet(self.tr("Fit it for me"), words, fitting, self._card.window()), case.options)

    def measure_all(self) -> None:
        """Measure what each remedy really saves and costs."""
        self._outlook.read_room()
        case, room, now = self._outlook.case, self._outlook.room, self._outlook.forecast
        if case is None or now is None or not self._outlook.can_measure:
            return
        remedies, dry_run = self._outlook.remedies(), self._outlook.tools.dry_run
        each = MeasuringEach(case.options, remedies, case.device, room, dry_run, as_asked=now)
        words = self.tr(
            "A short real run as asked, then one with each remedy alone; what they saved and cost stays beside the "
            "remedies. Choose a line and press Apply to take it; the form does not change before."
        )
        self._open(FitSheet(self.tr("Measure all"), words, each, self._card.window()), case.options)

    def close(self) -> None:
        """End what a sheet still runs."""
        if self.sheet is not None:
            self.sheet.reject()

    def apply(self, remedy: Remedy) -> None:
        """Do what a remedy says."""
        self._laying.change(remedy.title, remedy.help, remedy.changes)

    def box_time(self, hours: float) -> None:
        """Stop after as many steps as fit into some hours, and are worth their time."""
        measured, case = self._outlook.measured, self._outlook.case
        steps = measured.steps_within(hours) if measured is not None else None
        if measured is None or case is None or steps is None:
            return
        samples = measured.measurement.train_samples
        useful = useful_steps(case.options, samples) if samples else steps
        words = self.tr("As many as fit into {hours:g} h, by what was measured.")
        if steps > useful:
            words = self.tr("{steps:,} would fit into {hours:g} h; more than {epochs:g} epochs seldom help.")
        least = min(steps, useful)
        title = self.tr("Stop after {steps:,} steps").format(steps=least)
        told = words.format(steps=steps, hours=hours, epochs=most_epochs(case.options))
        self._laying.change(title, told, {"training.max_steps": least})

    def _open(self, sheet: FitSheet, asked: RunOptions) -> None:
        self._outlook.rest()
        self.sheet = sheet
        sheet.tried.connect(partial(self._keep, asked))
        sheet.chosen.connect(self._take)
        sheet.finished.connect(self._forget)
        sheet.open()

    def _keep(self, asked: RunOptions, done: Try) -> None:
        if done.measurement is not None:
            self._outlook.keep(with_changes(asked, done.changes), done.measurement)

    def _take(self, done: Try) -> None:
        self._laying.change(done.title, self.tr("Measured by a short run."), done.changes)

    def _forget(self) -> None:
        self.sheet = None
        self._outlook.resume()

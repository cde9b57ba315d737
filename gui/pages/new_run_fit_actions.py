"""What is pressed on the card "Will it fit?" and changes the form: a remedy, a time box, what Hone found to fit."""

from functools import partial

from PySide6.QtCore import QObject

from core.extent import most_epochs, useful_steps
from core.memory.changes import with_changes
from core.memory.fitting import Fitting, MeasuringEach, Try
from core.memory.ladder import Remedy
from core.options import RunOptions
from gui.pages.fit_sheet import FitSheet
from gui.pages.new_run_fit import FitCard
from gui.pages.new_run_fit_outlook import FitOutlook
from gui.pages.new_run_laying import Laying


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
        card.remedy_chosen.connect(self.apply)
        card.hours_chosen.connect(self.box_time)
        card.fit_pressed.connect(self.fit)
        card.measure_all_pressed.connect(self.measure_all)

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

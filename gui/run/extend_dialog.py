"""The dialogs "Train longer" and "Test on a file", and options of new runs that are based on another run."""

import math
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from core.base import formats
from core.base.errors import Fix, OptionsError, UserError
from core.base.language import _, ngettext
from core.options import RunOptions, Tree
from core.options.catalogue import copied, options_by_path, put
from core.options.choices import Schedule
from core.options.sources import Scheme
from core.runs.crash import saved_step
from core.runs.folder import RunFolder
from core.runs.library import options_of_test
from core.runs.start import Extension
from core.runs.status import RunStatus
from core.runs.summary import status_at_end
from gui.base.theme import Role
from gui.base.tokens import SPACING
from gui.widgets.fields import PathField
from gui.widgets.form import sentence
from gui.widgets.inputs import CalmSpinBox, Segment, Segmented
from gui.widgets.labels import push_button, text_label
from gui.widgets.layout import FLUSH, Sheet, fill, fill_dialog, hbox
from gui.widgets.tables import KeyValue

MOST_EPOCHS, MOST_STEPS = 100_000, 1_000_000
"""Of epochs in all, as a new run may have, and of more steps."""


@dataclass(frozen=True)
class Length:
    """How long a run was planned to train, how far it is, and what it could start from: a checkpoint, its model."""

    options: RunOptions
    status: RunStatus
    has_checkpoint: bool = True
    has_model: bool = True

    @property
    def planned_steps(self) -> int | None:
        """Returns None if a number of epochs was planned."""
        return self.options.training.max_steps

    @property
    def usual_more(self) -> int:
        """Propose what to add: an epoch, or the planned steps or a tenth of an epoch, rounded to two figures."""
        plan = self.status.plan
        a_tenth = plan.total_steps / plan.epochs / 10 if plan is not None and plan.epochs else 0.0
        return int(float(f"{max(self.planned_steps, a_tenth):.2g}")) if self.planned_steps else 1

    def steps_with(self, more: int) -> int | None:
        """All steps, with `more` steps or epochs; None if not known."""
        plan = self.status.plan
        if self.planned_steps is not None:
            return self.planned_steps + more
        if plan is None or not plan.epochs:
            return None
        pace: float = math.ceil(plan.train_samples / max(1, plan.effective_batch))
        if math.ceil(plan.epochs * pace) != plan.total_steps:  # as with packed examples
            pace = plan.total_steps / plan.epochs
        return math.ceil(round((self.options.training.epochs + more) * pace, 6))  # as the Trainer rounds

    def extension(self, more: int) -> Extension:
        if self.planned_steps is not None:
            return Extension(max_steps=self.planned_steps + more)
        return Extension(epochs=self.options.training.epochs + more)


def length_of(run: RunFolder) -> Length:
    """Read the length of a run that is over.

    Raises:
        UserError: It can't train longer, as it has neither a checkpoint nor a model.
    """
    status = status_at_end(run, and_beginning=True)
    has_checkpoint, has_model = saved_step(run, status) is not None, any(run.model.glob("*.safetensors"))
    if not has_checkpoint and not has_model:
        raise UserError(_("The run can't train longer"), _("It has no checkpoint to continue from."))
    return Length(run.options(), status, has_checkpoint, has_model)


CONTINUE, ANEW = "continue", "anew"


class ExtendSheet(Sheet):
    """Asks how much longer a run that is over is to train, in the same run or in a new one."""

    chosen = Signal(object)  # a `core.runs.start.Extension` of this run
    new_run_chosen = Signal()  # from its model

    def __init__(self, length: Length, parent: QWidget | None = None) -> None:
        super().__init__(_("Train longer"), parent)
        self._length = length
        self.more = CalmSpinBox()
        most = MOST_EPOCHS - math.ceil(length.options.training.epochs)
        self.more.setRange(1, max(1, most) if length.planned_steps is None else MOST_STEPS)
        self.more.setAccessibleName(_("How much longer"))
        self.more.setValue(length.usual_more)
        self.unit = QLabel()
        self.rows = KeyValue()
        no_checkpoint = "" if length.has_checkpoint else _("There is no checkpoint to continue from.")
        no_model = "" if length.has_model else _("The model is saved when the run finishes or is stopped.")
        self.how = Segmented(
            (
                Segment(ANEW, _("New run from its model"), refusal=no_model),
                Segment(CONTINUE, _("Continue this run"), refusal=no_checkpoint),
            )
        )
        self.how.set_value(CONTINUE if length.has_checkpoint else ANEW)
        self.how.setAccessibleName(_("How to train longer"))
        self._note = text_label(role=Role.MUTED)
        self.start = push_button(pressed=self.accept)
        buttons = self.button_box(QDialogButtonBox.StandardButton.Cancel, self.start)
        self._longer = QWidget()
        fill(QVBoxLayout(self._longer), hbox(self.more, self.unit, None), self.rows, margins=FLUSH)
        fill_dialog(self, self.how, self._longer, self._note, buttons)
        self.more.setFocus()
        self.setFixedWidth(SPACING * 62)
        self.more.valueChanged.connect(self._show)
        self.more.lineEdit().textChanged.connect(self._show)
        self.how.chosen.connect(self._show)
        self.accepted.connect(self._on_accepted)
        self._show()

    def _on_accepted(self) -> None:
        if self.how.value() == ANEW:
            self.new_run_chosen.emit()
        else:
            self.chosen.emit(self._length.extension(self.more.value()))

    def _show(self, _value: object = None) -> None:
        more, is_new = self.more.value(), self.how.value() == ANEW
        steps, epochs = ngettext("more step", "more steps", more), ngettext("more epoch", "more epochs", more)
        self.unit.setText(epochs if self._length.planned_steps is None else steps)
        self.rows.set_rows(rows_for(self._length, more))
        self._longer.setHidden(is_new)
        going_on = _(
            "The same run goes on from its last checkpoint. At the end it keeps the better model: the one it has now "
            "or the best of the new ones."
        )
        if not self._length.status.evaluations:
            going_on = _("The same run goes on from its last checkpoint. Its model is replaced at the end.")
        anew = _(
            "Opens New run with the options of this run, to change as you like: other data, another number of epochs. "
            "It starts from the trained model. This run and its model stay as they are."
        )
        self._note.setText(anew if is_new else going_on)
        self.start.setText(_("Open as new run") if is_new else _("Train longer"))
        is_possible = self.more.hasAcceptableInput()
        self.start.setEnabled(is_new or is_possible)
        if not is_possible:
            self.unit.setText(_("from 1 to {most}").format(most=formats.count(self.more.maximum())))
        self._fit()
        QTimer.singleShot(0, self, self._fit)  # rows get a size only after they are shown

    def _fit(self) -> None:
        layout = self.layout()
        if layout is not None:  # its text wraps: Qt would ask for the height it has in a narrower window
            layout.activate()
            self.setFixedHeight(layout.totalHeightForWidth(self.width()))


def rows_for(length: Length, more: int) -> list[tuple[str, str]]:
    """Titles and values of a training with `more` steps or epochs."""
    status, schedule = length.status, length.options.training.schedule
    steps, epochs, pace = length.steps_with(more), length.extension(more).epochs, status.step_seconds
    total = []
    if epochs is not None:
        total.append(formats.counted(epochs, "epoch"))
    if steps is not None:
        total.append(ngettext("{count} step", "{count} steps", steps).format(count=formats.count(steps)))
    rates = {Schedule.CONSTANT: _("unchanged"), Schedule.INVERSE_SQRT: _("continues to fall")}
    rate = rates.get(schedule, _("follows its schedule over all steps, so it first rises again"))
    rows = [(_("In total"), formats.enumerated(total)), (_("Learning rate"), rate)]
    if steps is not None and pace is not None:
        time = _("about {duration}, at {pace} per step as in its last steps, without evaluations")
        seconds = max(0, steps - status.step) * pace
        rows.append((_("Time"), time.format(duration=formats.about(seconds), pace=formats.step_time(pace))))
    return rows


class ModelTestSheet(Sheet):
    """Asks for the data on which a run's model is to be evaluated."""

    chosen = Signal(object)  # the `core.options.RunOptions` of a run that does it

    def __init__(self, run: RunFolder, parent: QWidget | None = None) -> None:
        super().__init__(_("Test on a file"), parent)
        self._run = run
        words = _(
            "The model is evaluated on a file or folder in the format of its training data. Choose examples that it "
            "was not trained on."
        )
        self.data = PathField(options_by_path()["data.eval"], _("Drop a file or folder"))
        self.problem = text_label(role=Role.PROBLEM)
        self.start = push_button(_("Start test"), self._on_accepted)
        buttons = self.button_box(QDialogButtonBox.StandardButton.Cancel, self.start)
        fill_dialog(self, text_label(words), self.data, self.problem, None, buttons)
        self.setFixedWidth(SPACING * 62)
        self.data.changed.connect(self.problem.clear)
        trained = Path(run.options().data.train)
        folder = trained if trained.is_dir() else trained.parent
        beside = sorted({*folder.glob(f"*test*{trained.suffix}")} - {trained})
        if beside and trained.is_absolute():
            self.data.set_value(str(beside[0]))
        self.data.setFocus()

    def _on_accepted(self) -> None:
        self.data.finish_typing()
        if not self.data.value():
            self.problem.setText(_("Choose a file or folder"))
            return
        try:
            options = options_of_test(self._run, str(self.data.value()))
        except OptionsError as error:
            self.problem.setText(sentence(error.problems[0].message if error.problems else str(error)))
            return
        self.accept()
        self.chosen.emit(options)


def with_changes(tree: Tree, fix: Fix) -> Tree:
    """A copy of a run's options with a fix applied."""
    changed = copied(tree)
    put(changed, fix.changes)
    return changed


def titled(tree: Tree, title: str) -> Tree:
    """The options of a run with its title as their name."""
    return with_changes(tree, Fix("", {"output.name": title}))


def from_its_model(tree: Tree, run: RunFolder) -> Tree:
    """Options of a new run on the same data that starts from the model of `run`."""
    return with_changes(
        tree, Fix("", {"model.source": Scheme.RUN.of(str(run.path.absolute())), "model.pretrained": True})
    )

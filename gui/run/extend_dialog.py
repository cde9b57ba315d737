"""The dialog "Train longer", and options of new runs that are based on another run."""

import math
from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from core.base import formats
from core.base.errors import Fix, UserError
from core.base.language import _, ngettext
from core.options import RunOptions, Tree
from core.options.choices import Schedule
from core.options.sources import Scheme
from core.runs import models
from core.runs.folder import RunFolder
from core.runs.start import Extension
from core.runs.status import RunStatus
from core.runs.summary import status_at_end
from gui.base.theme import Role
from gui.base.tokens import SPACING
from gui.widgets.inputs import CalmSpinBox
from gui.widgets.labels import text_label
from gui.widgets.layout import fill
from gui.widgets.tables import KeyValue

MOST = 1_000_000


@dataclass(frozen=True)
class Length:
    """How long a run was planned to train, and how far it is."""

    options: RunOptions
    status: RunStatus

    @property
    def planned_steps(self) -> int | None:
        """Returns None if a number of epochs was planned."""
        return self.options.training.max_steps

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
        UserError: It can't train longer, as it has no checkpoint.
    """
    if models.newest(run) is None:
        raise UserError(_("The run can't be extended"), _("It has no checkpoint to continue from."))
    return Length(run.options(), status_at_end(run, and_beginning=True))


class ExtendSheet(QDialog):
    """Asks how much longer a run that is over is to train."""

    chosen = Signal(object)  # a `core.runs.start.Extension`

    def __init__(self, length: Length, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("Train longer"))
        self._length = length
        self.more = CalmSpinBox()
        self.more.setRange(1, MOST)
        self.more.setAccessibleName(_("How much longer"))
        self.more.setValue(max(1, (length.planned_steps or 0) // 10))
        self.unit = QLabel()
        self.rows = KeyValue()
        note = _(
            "It continues from its last checkpoint, in the same folder and on the same page. "
            "Its model is then replaced."
        )
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.start = buttons.addButton(_("Train longer"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.start.setDefault(True)
        fill(
            QVBoxLayout(self),
            fill(QHBoxLayout(), self.more, self.unit, None, spacing=SPACING),
            self.rows,
            text_label(note, Role.MUTED),
            buttons,
            margins=(3 * SPACING, 3 * SPACING, 3 * SPACING, 2 * SPACING),
            spacing=2 * SPACING,
        )
        self.setFixedWidth(SPACING * 62)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.more.valueChanged.connect(self._show)
        self.accepted.connect(lambda: self.chosen.emit(length.extension(self.more.value())))
        self._show()

    def _show(self) -> None:
        more = self.more.value()
        is_steps = self._length.planned_steps is not None
        steps, epochs = ngettext("more step", "more steps", more), ngettext("more epoch", "more epochs", more)
        self.unit.setText(steps if is_steps else epochs)
        self.rows.set_rows(rows_for(self._length, more))
        layout = self.layout()
        if layout is not None:  # its text wraps: Qt would ask for the height it has in a narrower window
            layout.activate()
            self.setFixedHeight(layout.totalHeightForWidth(self.width()))


def rows_for(length: Length, more: int) -> list[tuple[str, str]]:
    """Titles and values of a training with `more` steps or epochs."""
    status, schedule = length.status, length.options.training.schedule
    steps, epochs, pace = length.steps_with(more), length.extension(more).epochs, status.step_seconds
    so_far = _("step {step}, epoch {epoch}").format(
        step=formats.count(status.step), epoch=formats.epochs(status.epoch)
    )
    total = []
    if epochs is not None:
        text = _("{count} epoch") if epochs == 1 else _("{count} epochs")
        total.append(text.format(count=formats.epochs(epochs)))
    if steps is not None:
        total.append(ngettext("{count} step", "{count} steps", steps).format(count=formats.count(steps)))
    rates = {Schedule.CONSTANT: _("unchanged"), Schedule.INVERSE_SQRT: _("continues to fall")}
    rate = rates.get(schedule, _("follows its schedule over all steps, so it first rises again"))
    rows = [(_("So far"), so_far), (_("In total"), ", ".join(total)), (_("Learning rate"), rate)]
    if steps is not None and pace is not None:
        time = _("about {duration}, at {pace} per step as measured, without evaluations")
        seconds = max(0, steps - status.step) * pace
        rows.append((_("Time"), time.format(duration=formats.about(seconds), pace=formats.step_time(pace))))
    return rows


def with_changes(tree: Tree, fix: Fix) -> Tree:
    """A copy of a run's options with a fix applied."""
    changed: Tree = {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}
    for path, value in fix.changes.items():
        section, _dot, name = path.rpartition(".")
        target = changed.setdefault(section, {}) if section else changed
        target[name] = value
    return changed


def from_its_model(tree: Tree, run: RunFolder) -> Tree:
    """Options of a new run on the same data that starts from the model of `run`."""
    source = Scheme.RUN.of(str(run.path.absolute()))
    return with_changes(tree, Fix("", {"model.source": source}))

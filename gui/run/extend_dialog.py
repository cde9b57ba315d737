""" "Train longer": how much more, what that comes to in all, what the learning rate does, and how long it takes."""

from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.errors import Fix, UserError
from core.base.language import _
from core.options import RunOptions, Tree
from core.options.choices import Schedule
from core.options.sources import Scheme
from core.runs import models
from core.runs.folder import RunFolder
from core.runs.start import Extension
from core.runs.status import RunStatus
from core.runs.summary import status_at_end
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.inputs import CalmSpinBox
from gui.widgets.layout import fill
from gui.widgets.tables import KeyValue

MOST = 1_000_000


@dataclass(frozen=True)
class Length:
    """How long a run was asked to train and how far it has come, and what so much more of it comes to."""

    options: RunOptions
    status: RunStatus

    @property
    def counts_steps(self) -> bool:
        """Whether it was asked for a number of steps; else for epochs."""
        return self.options.training.max_steps is not None

    @property
    def steps_per_epoch(self) -> float | None:
        """Optimizer steps of one pass through the data; None: not known."""
        plan = self.status.plan
        return plan.total_steps / plan.epochs if plan is not None and plan.epochs else None

    def steps_in(self, more: int) -> int | None:
        """All steps, with so much more; None: not known."""
        training = self.options.training
        if training.max_steps is not None:
            return training.max_steps + more
        per_epoch = self.steps_per_epoch
        return None if per_epoch is None else round((training.epochs + more) * per_epoch)

    def seconds_for(self, more: int) -> float | None:
        """How long the steps take that are left then, at the pace last measured."""
        steps, pace = self.steps_in(more), self.status.step_seconds
        return None if steps is None or pace is None else max(0, steps - self.status.step) * pace

    def extension(self, more: int) -> Extension:
        """What to ask for."""
        training = self.options.training
        if training.max_steps is not None:
            return Extension(max_steps=training.max_steps + more)
        return Extension(epochs=training.epochs + more)


def length_of(run: RunFolder) -> Length:
    """Read how long a run that is over was asked to train and how far it has come.

    Raises:
        UserError: It can't train longer; why.
    """
    if models.newest(run) is None:
        title = _("The run can't be made longer")
        raise UserError(title, _("No checkpoint was saved to go on from."))
    return Length(run.options(), status_at_end(run, and_beginning=True))


class ExtendSheet(QDialog):
    """Asks how much longer a run that is over is to train.

    Signals:
        chosen: The `core.runs.start.Extension` that was chosen.
    """

    chosen = Signal(object)

    def __init__(self, length: Length, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("Train longer"))
        self._length = length
        self.more = CalmSpinBox()
        self.more.setRange(1, MOST)
        self.more.setAccessibleName(_("How much longer"))
        self.more.setGroupSeparatorShown(True)
        self.more.setValue(_first_value(length))
        self.rows = KeyValue()
        self._lay_out()
        self.more.valueChanged.connect(self._show)
        self.accepted.connect(self._tell)
        self._show()

    def _lay_out(self) -> None:
        self.unit = QLabel()
        asking = fill(QHBoxLayout(), self.more, self.unit, None, spacing=SPACING)
        words = QLabel(
            _(
                "It goes on from its last checkpoint, in the same folder and on the same page. Its model is then "
                "replaced by the one that has trained longer."
            )
        )
        words.setWordWrap(True)
        set_role(words, Role.MUTED)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.start = QPushButton(_("Train longer"))
        buttons.addButton(self.start, QDialogButtonBox.ButtonRole.AcceptRole)
        self.start.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        fill(
            QVBoxLayout(self),
            asking,
            self.rows,
            words,
            buttons,
            margins=(3 * SPACING, 3 * SPACING, 3 * SPACING, 2 * SPACING),
            spacing=2 * SPACING,
        )
        self.setFixedWidth(SPACING * 62)

    def _show(self) -> None:
        more = self.more.value()
        self.unit.setText(self._unit_text(more))
        self.rows.set_rows(rows_for(self._length, more))
        layout = self.layout()
        if layout is not None:  # its words wrap: Qt would ask for the height they have in a narrower window
            layout.activate()
            self.setFixedHeight(layout.totalHeightForWidth(self.width()))

    def _unit_text(self, more: int) -> str:
        if self._length.counts_steps:
            return _("more step") if more == 1 else _("more steps")
        return _("more epoch") if more == 1 else _("more epochs")

    def _tell(self) -> None:
        self.chosen.emit(self._length.extension(self.more.value()))


def _first_value(length: Length) -> int:
    """As much again as a small part of what was asked: an epoch, or a tenth of the steps."""
    steps = length.options.training.max_steps
    return 1 if steps is None else max(1, steps // 10)


def rows_for(length: Length, more: int) -> list[tuple[str, str]]:
    """What so much more comes to: titles and values."""
    rows = [
        (_("So far"), _far(length)),
        (_("In all"), _in_all(length, more)),
        (_("Learning rate"), _rate_text(length)),
    ]
    seconds = length.seconds_for(more)
    if seconds is not None:
        pace = formats.step_time(length.status.step_seconds)
        words = _("about {}, at the {} a step that were measured, evaluations not counted")
        rows.append((_("Time"), words.format(formats.about(seconds), pace)))
    return rows


def _far(length: Length) -> str:
    words = _("step {}, epoch {}")
    return words.format(formats.count(length.status.step), formats.epochs(length.status.epoch))


def _in_all(length: Length, more: int) -> str:
    asked, steps = length.extension(more), length.steps_in(more)
    if asked.epochs is None:
        return _steps_text(steps)
    one, several = _("{} epoch"), _("{} epochs")
    epochs = (one if asked.epochs == 1 else several).format(formats.epochs(asked.epochs))
    return epochs if steps is None else _("{}, about {}").format(epochs, _steps_text(steps))


def _steps_text(steps: int | None) -> str:
    one, several = _("{} step"), _("{} steps")
    return (one if steps == 1 else several).format(formats.count(steps))


def _rate_text(length: Length) -> str:
    """What the schedule does once it spans more steps."""
    match length.options.training.schedule:
        case Schedule.CONSTANT:
            return _("stays as it is")
        case Schedule.INVERSE_SQRT:
            return _("goes on falling as it did")
        case _:
            return _(
                "follows its schedule over all steps: first higher than it was at the end, then down again",
            )


def with_changes(tree: Tree, fix: Fix) -> Tree:
    """A copy of a run's options in which a fix has been applied."""
    changed: Tree = {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}
    for path, value in fix.changes.items():
        section, _, name = path.rpartition(".")
        target = changed.setdefault(section, {}) if section else changed
        target[name] = value
    return changed


def from_its_model(tree: Tree, run: RunFolder) -> Tree:
    """The options of a new run that goes on from what this one has learned, on the same data."""
    source = Scheme.RUN.of(str(run.path.absolute()))
    return with_changes(tree, Fix("", {"model.source": source}))

"""What a run is evaluated on: a share of the training data, another file, or a split that has a name."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from core.catalogue import options_by_path
from core.choices import Task
from core.data_report import DataReport
from gui.form import Form
from gui.widgets.form_row import field_indent, label_width
from gui.widgets.roles import Role, set_role
from gui.widgets.segmented import Segment, Segmented

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
        parent: Qt's parent.
    """

    changed = Signal()

    def __init__(self, form: Form, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._form = form
        self._kept: dict[str, object] = {}
        self._splits: tuple[str, ...] = ()
        self._asked = ""
        label = QLabel(self.tr("Evaluate on"))
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
        """The path of the option that counts."""
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
        """Another form: what was chosen before it counts no more."""
        self._kept.clear()
        self._asked = ""

    def show_path(self, path: str) -> None:
        """Bring the row of an option into view; nothing is changed by that."""
        if path in (FILE, SPLIT) and self.value == FRACTION:
            self._asked = path

    def _offer(self) -> None:
        segments = [
            Segment(FRACTION, self.tr("A share"), self.tr("A part of the training data is kept apart.")),
            Segment(FILE, self.tr("Another file"), self.tr("Held-out data in the same form.")),
        ]
        if self._has_split:
            named = self.tr("One of: {splits}").format(splits=", ".join(self._splits))
            segments.append(Segment(SPLIT, self.tr("A split"), named if self._splits else ""))
        self.choice.set_segments(segments, keeps_value=False)
        self.choice.setAccessibleName(self.tr("Evaluate on"))

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
        """The split that is most likely held out."""
        names = [name for name in self._splits if not name.lower().startswith("train")]
        likely = ("validation", "valid", "val", "dev", "eval", "test")
        return next((name for start in likely for name in names if name.lower().startswith(start)), None) or (
            names[0] if names else None
        )

    def _meanwhile(self) -> str:
        share = 100 * float(str(self._form.field(FRACTION).value()))
        return self.tr("None is chosen yet; until then {share:g} % are held out").format(share=share)

    def _share_words(self) -> str:
        task = self._form.task
        if task is Task.CAUSAL_LM:
            words = self.tr("The last part of each text; of a table, rows drawn at random by the seed {seed}")
        elif task in STRATIFIED:
            words = self.tr("Drawn at random by the seed {seed}, each label in the same proportion")
        else:
            words = self.tr("Drawn at random by the seed {seed}")
        return words.format(seed=self._form.field("training.seed").value())

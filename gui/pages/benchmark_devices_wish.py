"""What is to be measured on one device against another: which models, in which batches, on what data."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QCheckBox, QFileDialog, QLineEdit, QPushButton, QWidget

from core.bench.devices import ARTICLE, BATCHES, IMAGES, TEXTS, default_models, title_of
from core.bench.plan import Plan
from core.bench.sides import CPU, Sides, pair_of
from core.reports import MachineReport
from gui.bench_work import MakePlan
from gui.pages.benchmark_wish import AUTOMATIC, Wish
from gui.theme import SPACING
from gui.widgets.choice_list import ChoiceList
from gui.widgets.flow_layout import FlowLayout
from gui.widgets.path_line import PathLine
from gui.widgets.segmented import Segment, Segmented

LARGEST_BATCH = 4096
MOST_IMAGES = 60_000
PASSES = 1
DIGITS, FOLDER = "digits", "folder"


class DevicesWish(Wish):
    """Asks for it.

    Args:
        make_plan: Makes the plan, as `core.bench.devices.devices_plan` does.
        parent: Qt's parent.
    """

    def __init__(self, make_plan: Callable[..., Plan], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._make_plan = make_plan
        self.sides = Segmented()
        self.models = {name: QCheckBox(title_of(name)) for name in (*ARTICLE, *TEXTS)}
        self.batches = QLineEdit(_written(BATCHES))
        self.images = self.number_box(1, MOST_IMAGES, self.tr("Images"))
        self.images.setValue(IMAGES)
        self.data = ChoiceList(self._data())
        self.folder = PathLine(
            self.tr("A folder with MNIST's files, or with a folder of images for each label")
        )
        self.choose_folder = QPushButton(self.tr("Choose…"))
        self.passes, self.steps = self.passes_box(PASSES), self.steps_box()
        self._lay_out()
        self.sides.chosen.connect(self._tell)
        for box in self.models.values():
            box.setChecked(True)
            box.toggled.connect(self._tell)
        for line in (self.batches, self.folder):
            line.textChanged.connect(self._tell)
        self.data.currentIndexChanged.connect(self._choose_data)
        self.choose_folder.clicked.connect(self._ask_folder)
        self._choose_data()

    def show_machine(self, machine: MachineReport) -> None:
        """Offer what can be held against each other here, and what suits this machine first."""
        is_first = not self.sides.value()
        self.sides.set_segments(self._sides(machine))
        self.sides.setAccessibleName(self.tr("What is held against each other"))
        if is_first:
            self.sides.set_value(automatic_sides(machine))
            suiting = default_models(machine, pair_of(machine, None))
            for name, box in self.models.items():
                box.setChecked(name in suiting)

    def mistake(self) -> str:
        """What is wrong with what is chosen."""
        if not any(box.isChecked() for box in self.models.values()):
            return self.tr("Choose a model.")
        if not self._batches():
            return self.tr("Batches are whole numbers from 1 to {most}, such as {such}.").format(
                most=f"{LARGEST_BATCH:,}", such=_written(BATCHES)
            )
        folder = self.folder.text().strip()
        if self.data.currentData() == FOLDER and not (folder and Path(folder).expanduser().is_dir()):
            return self.tr("Choose a folder of images that is there.")
        return ""

    def device(self) -> str:
        """Several devices, so all of them."""
        return AUTOMATIC

    def reason(self, plan: Plan) -> str:
        """Why these are held against each other."""
        is_automatic = self.machine is not None and self.sides.value() == automatic_sides(self.machine)
        has_reason = is_automatic and self.machine is not None and bool(pair_of(self.machine, None).reason)
        return plan.notes[0] if plan.notes and has_reason else ""

    def plan(self) -> MakePlan:
        """What is chosen, on every side."""
        assert self.machine is not None
        folder, chosen = self.folder.text().strip(), self.sides.value()
        return partial(
            self._make_plan,
            self.machine,
            models=tuple(name for name, box in self.models.items() if box.isChecked()),
            batches=self._batches(),
            images=self.images.value(),
            data=str(Path(folder).expanduser()) if self.data.currentData() == FOLDER else None,
            steps=self.steps.value() or None,
            passes=self.passes.value(),
            sides=None if chosen == automatic_sides(self.machine) else Sides(chosen),
        )

    def _batches(self) -> tuple[int, ...]:
        """The batches as they are written; empty: one of them is none."""
        words = [word.strip() for word in self.batches.text().split(",")]
        if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= LARGEST_BATCH for word in words):
            return ()
        return tuple(dict.fromkeys(map(int, words)))

    def _choose_data(self) -> None:
        is_folder = self.data.currentData() == FOLDER
        for part in (self._folder_label, self.folder, self.choose_folder):
            part.setVisible(is_folder)
        self._tell()

    def _ask_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, self.tr("A folder of images"), str(Path.home()))
        if chosen:
            self.folder.setText(chosen)

    def _sides(self, machine: MachineReport) -> list[Segment]:
        refusal = self.tr("There is no accelerator here that Hone can train on.")
        refused = {Sides.DEVICES: refusal} if machine.automatic in ("", CPU) else {}
        return [
            Segment(one.value, pair_of(machine, one).title, refusal=refused.get(one, "")) for one in Sides
        ]

    def _data(self) -> tuple[Segment, ...]:
        return (
            Segment(DIGITS, self.tr("Handwritten digits that come with Hone")),
            Segment(FOLDER, self.tr("A folder of mine, such as MNIST's")),
        )

    def _lay_out(self) -> None:
        boxes = QWidget()
        flow = FlowLayout(2 * SPACING, 0, boxes)
        for box in self.models.values():
            flow.addWidget(box)
        self.sides.setAccessibleName(self.tr("What is held against each other"))
        self.batches.setAccessibleName(self.tr("Batches"))
        self.batches.setToolTip(self.tr("Rows in a batch; several numbers make a row of the table each"))
        self.data.setAccessibleName(self.tr("Data"))
        self.folder.setAccessibleName(self.tr("Folder of images"))
        self.choose_folder.setAccessibleName(self.tr("Choose a folder of images"))
        self.add_row(self.tr("Compare"), self.sides)
        self.add_row(self.tr("Models"), boxes)
        self.add_line(
            self.tr("Batches"),
            self.beside(self.batches, (self.tr("Images"), self.images)),
            self.batches,
        )
        self.add_row(self.tr("Data"), self.data)
        self._folder_label = self.add_row(self.tr("Folder"), self.folder, trailing=self.choose_folder)
        often = self.beside(self.passes, (self.tr("Timed steps"), self.steps))
        self.add_line(self.tr("Passes"), often, self.passes)


def _written(batches: Sequence[int]) -> str:
    """Batches as they are typed: `4, 64`."""
    return ", ".join(map(str, batches))


def automatic_sides(machine: MachineReport) -> str:
    """In what the sides differ that Hone would hold against each other on a machine."""
    chosen = pair_of(machine, None)
    return next(
        (one.value for one in Sides if pair_of(machine, one).title == chosen.title), Sides.THREADS.value
    )

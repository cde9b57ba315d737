"""The thread of a benchmark: makes its plan, measures rung after rung, and tells the window after each pass."""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import partial
from gettext import gettext as _
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, QThread, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QPushButton,
    QWidget,
)

from core.base.errors import OptionsError, UserError
from core.base.format import compact_count
from core.base.jobs import JobCancelled
from core.benchmark.device_plan import (
    ARTICLE,
    BATCHES,
    CPU,
    IMAGES,
    TEXTS,
    Sides,
    default_models,
    pair_of,
    title_of,
)
from core.benchmark.plan import SIZES, Kind, Plan
from core.benchmark.result import Result
from core.benchmark.runner import Underway
from core.options import RunOptions, run_file
from core.options.choices import device_title
from core.options.device_support import MachineReport, find_device, refusal
from core.options.validate import check_tree
from gui.base.background import EngineWork
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.new_run.header import FILE_FILTER
from gui.widgets.form_row import label_width
from gui.widgets.inputs import CalmSpinBox, ChoiceList, PathLine, Segment, Segmented
from gui.widgets.layout import FlowLayout

# --- The thread of a benchmark: makes its plan, measures rung after rung


class Measures(Protocol):
    """One benchmark; `core.benchmark.runner.Bench` is the real one."""

    @property
    def not_kept(self) -> str:
        """Why the newest result could not be saved; empty: it was."""

    @property
    def result(self) -> Result:
        """What is known so far; a row for each rung from the start."""

    def run(self) -> Iterator[Result]:
        """What is measured so far, after every pass."""

    def heed(self, began: Callable[[Underway], None]) -> None:
        """Have `began` told of every pass as it begins; call before `run`."""

    def stop(self) -> None:
        """End the pass that runs and make no other, from any thread; what is done is kept."""


MakePlan = Callable[[], Plan]
MakeBench = Callable[[Plan], Measures]


class NotKept(UserError):  # noqa: N818 - said as the window says it
    """What was measured is in the window, and in no file."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "The result could not be kept",
            f"{reason}. It is shown here until the window is closed: save it elsewhere, or copy it.",
        )


class _Measuring(EngineWork):
    """Makes the plan and the passes in its thread; `not_kept` says why their result is in no file.

    Signals:
        planned: The `core.benchmark.plan.Plan`, before the first pass.
        began: The `core.benchmark.runner.Underway` of a pass that begins.
        measured: The `core.benchmark.result.Result` after a pass.
    """

    planned = Signal(object)
    began = Signal(object)
    measured = Signal(object)

    def __init__(self, make_plan: MakePlan, make: MakeBench, parent: QObject) -> None:
        super().__init__(parent)
        self._make_plan, self._make = make_plan, make
        self._bench: Measures | None = None
        self.not_kept = ""

    def begin(self) -> None:
        """Each pass starts its own process."""

    def work(self) -> None:
        """Plan and measure."""
        plan = self._make_plan()
        with self._lock:
            if self.cancelled:
                raise JobCancelled("bench")
            self._bench = self._make(plan)
        self._bench.heed(self.began.emit)
        self.planned.emit(plan)
        self.measured.emit(self._bench.result)
        try:
            for result in self._bench.run():
                self.measured.emit(result)
        finally:
            self.not_kept = self._bench.not_kept
            with self._lock:
                self._bench = None  # it knows this object by its signal: neither is to keep the other

    def kill(self) -> None:
        """End the pass that runs."""
        if self._bench is not None:
            self._bench.stop()


class Ending(Enum):
    """How a benchmark ended."""

    DONE = auto()
    CANCELLED = auto()
    FAILED = auto()


class Benchmarking(QObject):
    """Measures one benchmark at a time.

    Signals:
        changed: It began, knows its plan, or begins another pass.
        measured: The `core.benchmark.result.Result` so far.
        ended: How (`Ending`), after its last result.
        failed: A `UserError` in place of a plan or of further passes, before `ended`; `NotKept` after it.

    Args:
        parent: Qt's parent.
    """

    changed = Signal()
    measured = Signal(object)
    ended = Signal(object)
    failed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._current: _Measuring | None = None
        self._is_closed = False
        self.kind = Kind.METHODS
        self.plan: Plan | None = None
        self.underway: Underway | None = None

    @property
    def is_running(self) -> bool:
        """Whether one is under way, or on its way out."""
        return self._current is not None

    @property
    def is_stopping(self) -> bool:
        """Whether it was cancelled, and the process of its pass is on its way out."""
        return self._current is not None and self._current.cancelled

    def start(self, kind: Kind, make_plan: MakePlan, make: MakeBench) -> None:
        """Begin, unless one is under way; returns at once.

        Args:
            kind: Which of the two tables.
            make_plan: Makes the plan; called in the thread, as it may take seconds.
            make: Makes the benchmark of it; called there, too.
        """
        if self._current is not None or self._is_closed:
            return
        work = _Measuring(make_plan, make, self)
        work.planned.connect(self._take_plan)
        work.began.connect(self._take_beginning)
        work.measured.connect(self.measured)
        work.finished.connect(self._settle)
        self.kind, self.plan, self.underway = kind, None, None
        self._current = work
        work.start(QThread.Priority.LowPriority)
        self.changed.emit()

    def cancel(self) -> None:
        """Measure no further; `ended` comes once the process of the pass is gone. What is done is kept."""
        if self._current is not None:
            self._current.cancel()
            self.changed.emit()

    def close(self) -> None:
        """Measure no further, and wait until no thread is left; none begins after this."""
        self._is_closed = True
        if self._current is not None:
            self._current.cancel()
            self._current.wait()

    def _take_plan(self, plan: Plan) -> None:
        self.plan = plan
        self.changed.emit()

    def _take_beginning(self, underway: Underway) -> None:
        self.underway = underway
        self.changed.emit()

    def _settle(self) -> None:
        work, self._current = self._current, None
        if work is None:
            return
        failure: UserError | None = work.failure
        ending = Ending.CANCELLED if work.cancelled else Ending.DONE if failure is None else Ending.FAILED
        work.deleteLater()
        self.underway = None
        if failure is not None:
            self.failed.emit(failure)
        self.ended.emit(ending)
        if work.not_kept:
            self.failed.emit(NotKept(work.not_kept))


# --- What a benchmark is to measure, to be chosen: what both kinds have in common


AUTOMATIC = "auto"
MOST_PASSES = 20
MOST_STEPS = 10_000
SPIN_LETTERS = 14
"""Width of a box for a number: the word "automatic" and the arrows."""


class Wish(QWidget):
    """Rows of labels and controls.

    Signals:
        changed: The person has chosen something else, or the machine has become known.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.machine: MachineReport | None = None
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(SPACING)
        self._grid.setVerticalSpacing(SPACING)
        self._grid.setColumnMinimumWidth(0, label_width(self))
        self._grid.setColumnStretch(1, 1)

    def set_machine(self, machine: MachineReport) -> None:
        """Offer what this machine has."""
        self.machine = machine
        self.show_machine(machine)
        self.changed.emit()

    def obstacle(self) -> str:
        """What has to be mended before it can be measured, in a sentence; empty: nothing."""
        if self.machine is None:
            return _("Looking at what this machine can do…")
        return self.mistake()

    # What each kind says of itself.

    def show_machine(self, machine: MachineReport) -> None:
        """Offer the devices there are, and grey what they can't do."""
        raise NotImplementedError

    def mistake(self) -> str:
        """What is wrong with what is chosen, in a sentence; empty: nothing."""
        raise NotImplementedError

    def device(self) -> str:
        """The device that is computed on, as in `device.name`."""
        raise NotImplementedError

    def reason(self, plan: Plan) -> str:
        """Why a plan that was made of this is as it is, where Hone has chosen; empty: the person has."""
        raise NotImplementedError

    def plan(self) -> MakePlan:
        """What makes the plan, in any thread, of what is chosen now."""
        raise NotImplementedError

    # Rows.

    def add_row(self, title: str, control: QWidget, *, trailing: QWidget | None = None) -> QLabel:
        """Add a labelled control, and something beside it; returns the label."""
        label = QLabel(title)
        label.setBuddy(control)
        set_role(label, Role.LABEL)
        row = self._grid.rowCount()
        self._grid.addWidget(label, row, 0)
        if trailing is None:
            self._grid.addWidget(control, row, 1)
            return label
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(control, 1)
        line.addWidget(trailing)
        self._grid.addLayout(line, row, 1)
        return label

    def add_line(self, title: str, line: QLayout, buddy: QWidget) -> None:
        """Add a label and several controls, the first of which it stands for."""
        label = QLabel(title)
        label.setBuddy(buddy)
        set_role(label, Role.LABEL)
        row = self._grid.rowCount()
        self._grid.addWidget(label, row, 0)
        self._grid.addLayout(line, row, 1)

    def passes_box(self, passes: int) -> CalmSpinBox:
        """How often each is measured."""
        box = self.number_box(1, MOST_PASSES, _("Passes"))
        box.setValue(passes)
        box.setToolTip(
            _(
                "Each is measured so often, one after the other and then from the first again, so that what changes "
                "with time (heat, other programs) meets all of them."
            )
        )
        return box

    def steps_box(self) -> CalmSpinBox:
        """How many steps are timed; 0: Hone chooses."""
        box = self.number_box(0, MOST_STEPS, _("Timed steps"))
        box.setSpecialValueText(_("automatic"))
        box.setToolTip(
            _("Optimizer steps that are timed in a pass, after those that warm up. More are steadier.")
        )
        return box

    def number_box(self, least: int, most: int, name: str) -> CalmSpinBox:
        """A whole number."""
        box = CalmSpinBox()
        box.setRange(least, most)
        box.setAccessibleName(name)
        box.setFixedWidth(SPIN_LETTERS * self.fontMetrics().averageCharWidth() + 4 * SPACING)
        box.valueChanged.connect(self._tell)
        return box

    def beside(self, *parts: QWidget | tuple[str, QWidget]) -> QHBoxLayout:
        """Controls side by side, as small as they are; a text before one is its label."""
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        for part in parts:
            if isinstance(part, tuple):
                label = QLabel(part[0])
                label.setBuddy(part[1])
                set_role(label, Role.LABEL)
                line.addSpacing(SPACING)
                line.addWidget(label)
                line.addWidget(part[1])
            else:
                line.addWidget(part)
        line.addStretch(1)
        return line

    def _tell(self, _value: object = None) -> None:
        self.changed.emit()


def device_choices(machine: MachineReport, automatic: str) -> list[Segment]:
    """The devices of a machine as choices; those that aren't there are greyed and say why."""
    found = [Segment(AUTOMATIC, automatic.format(device_title(machine.automatic.removesuffix(":0"))))]
    for device in machine.devices:
        title = f"{device_title(device.name.removesuffix(':0'))} · {device.title}"
        refusal = "" if device.available else device.reason
        found.append(Segment(device.name, title, refusal=refusal))
    return found


# --- What is to be measured on one device against another: which models, in which batches


LARGEST_BATCH = 4096
MOST_IMAGES = 60_000
DEVICE_PASSES = 1
DIGITS, FOLDER = "digits", "folder"


class DevicesWish(Wish):
    """Asks for it.

    Args:
        make_plan: Makes the plan, as `core.benchmark.device_plan.devices_plan` does.
        parent: Qt's parent.
    """

    def __init__(self, make_plan: Callable[..., Plan], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._make_plan = make_plan
        self.sides = Segmented()
        self.models = {name: QCheckBox(title_of(name)) for name in (*ARTICLE, *TEXTS)}
        self.batches = QLineEdit(_written(BATCHES))
        self.images = self.number_box(1, MOST_IMAGES, _("Images"))
        self.images.setValue(IMAGES)
        self.data = ChoiceList(self._data())
        self.folder = PathLine(_("A folder with MNIST's files, or with a folder of images for each label"))
        self.choose_folder = QPushButton(_("Choose…"))
        self.passes, self.steps = self.passes_box(DEVICE_PASSES), self.steps_box()
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
        self.sides.setAccessibleName(_("What is held against each other"))
        if is_first:
            self.sides.set_value(automatic_sides(machine))
            suiting = default_models(machine, pair_of(machine, None))
            for name, box in self.models.items():
                box.setChecked(name in suiting)

    def mistake(self) -> str:
        """What is wrong with what is chosen."""
        if not any(box.isChecked() for box in self.models.values()):
            return _("Choose a model.")
        if not self._batches():
            return _("Batches are whole numbers from 1 to {most}, such as {such}.").format(
                most=f"{LARGEST_BATCH:,}", such=_written(BATCHES)
            )
        folder = self.folder.text().strip()
        if self.data.currentData() == FOLDER and not (folder and Path(folder).expanduser().is_dir()):
            return _("Choose a folder of images that is there.")
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
        chosen = QFileDialog.getExistingDirectory(self, _("A folder of images"), str(Path.home()))
        if chosen:
            self.folder.setText(chosen)

    def _sides(self, machine: MachineReport) -> list[Segment]:
        refusal = _("There is no accelerator here that Hone can train on.")
        refused = {Sides.DEVICES: refusal} if machine.automatic in ("", CPU) else {}
        return [
            Segment(one.value, pair_of(machine, one).title, refusal=refused.get(one, "")) for one in Sides
        ]

    def _data(self) -> tuple[Segment, ...]:
        return (
            Segment(DIGITS, _("Handwritten digits that come with Hone")),
            Segment(FOLDER, _("A folder of mine, such as MNIST's")),
        )

    def _lay_out(self) -> None:
        boxes = QWidget()
        flow = FlowLayout(2 * SPACING, 0, boxes)
        for box in self.models.values():
            flow.addWidget(box)
        self.sides.setAccessibleName(_("What is held against each other"))
        self.batches.setAccessibleName(_("Batches"))
        self.batches.setToolTip(_("Rows in a batch; several numbers make a row of the table each"))
        self.data.setAccessibleName(_("Data"))
        self.folder.setAccessibleName(_("Folder of images"))
        self.choose_folder.setAccessibleName(_("Choose a folder of images"))
        self.add_row(_("Compare"), self.sides)
        self.add_row(_("Models"), boxes)
        self.add_line(
            _("Batches"),
            self.beside(self.batches, (_("Images"), self.images)),
            self.batches,
        )
        self.add_row(_("Data"), self.data)
        self._folder_label = self.add_row(_("Folder"), self.folder, trailing=self.choose_folder)
        often = self.beside(self.passes, (_("Timed steps"), self.steps))
        self.add_line(_("Passes"), often, self.passes)


def _written(batches: Sequence[int]) -> str:
    """Batches as they are typed: `4, 64`."""
    return ", ".join(map(str, batches))


def automatic_sides(machine: MachineReport) -> str:
    """In what the sides differ that Hone would hold against each other on a machine."""
    chosen = pair_of(machine, None)
    return next(
        (one.value for one in Sides if pair_of(machine, one).title == chosen.title), Sides.THREADS.value
    )


# --- What the ladder of methods is to be measured with: which model, on which device, how often


FITTING, FORM, FILE = "fitting", "form", "file"
"""What the list of models offers beside the sizes."""

METHOD_PASSES = 3

FormOptions = Callable[[], RunOptions | None]
"""The options on the page New run; None: something is wrong with them."""


class MethodsWish(Wish):
    """Asks for it.

    Args:
        make_plan: Makes the plan, as `core.benchmark.plan.methods_plan` does.
        form: Gives the options on the page New run.
        parent: Qt's parent.
    """

    def __init__(
        self, make_plan: Callable[..., Plan], form: FormOptions, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._make_plan, self._form = make_plan, form
        self.models = ChoiceList(self._models())
        self.file = PathLine(_("A run file, on whose model and data the methods are tried"))
        self.choose_file = QPushButton(_("Choose…"))
        self.devices = ChoiceList([Segment(AUTOMATIC, _("Automatic"))])
        self.passes, self.steps = self.passes_box(METHOD_PASSES), self.steps_box()
        self.compiled = QCheckBox(_("also compiled (takes longer)"))
        self.compiled.setChecked(True)
        self._lay_out()
        self.models.currentIndexChanged.connect(self._choose_model)
        self.file.textChanged.connect(self._tell)
        self.choose_file.clicked.connect(self._ask_file)
        self.devices.currentIndexChanged.connect(self._choose_device)
        self.compiled.toggled.connect(self._tell)
        self._choose_model()

    def show_machine(self, machine: MachineReport) -> None:
        """Offer its devices."""
        self.devices.set_choices(device_choices(machine, _("Automatic ({})")))
        self._judge_compiling()

    def mistake(self) -> str:
        """What of the options or the file stands in the way."""
        match self.models.currentData():
            case "form":
                return "" if self._form() else _("Something is wrong on New run: mend it there first.")
            case "file":
                return self._mistake_in_file()
        return ""

    def device(self) -> str:
        """The device chosen."""
        return str(self.devices.currentData())

    def model(self) -> str:
        """The size chosen; empty: another one, or not known yet."""
        chosen = str(self.models.currentData())
        return chosen if chosen in SIZES else ""

    def reason(self, plan: Plan) -> str:
        """Why this model was taken."""
        return plan.notes[0] if plan.notes and self.models.currentData() == FITTING else ""

    def plan(self) -> MakePlan:
        """The ladder of what is chosen."""
        assert self.machine is not None
        return partial(
            self._make_plan,
            self.machine,
            size=self.model() or None,
            options=self._options(),
            device=self.device(),
            steps=self.steps.value() or None,
            passes=self.passes.value(),
            with_compile=self.compiled.isEnabled() and self.compiled.isChecked(),
        )

    def _options(self) -> RunOptions | None:
        match self.models.currentData():
            case "form":
                return self._form()
            case "file":
                return self._read()[0]
        return None

    def _mistake_in_file(self) -> str:
        if not self.file.text().strip():
            return _("Choose a run file.")
        options, problem = self._read()
        return "" if options is not None else problem

    def _read(self) -> tuple[RunOptions | None, str]:
        """The options of the run file, or the first thing that is wrong with it."""
        path = Path(self.file.text().strip()).expanduser()
        try:
            options, problems = check_tree(run_file.read_tree(path))
        except OptionsError as error:
            problems, options = error.problems, None
        return (None, str(problems[0])) if problems else (options, "")

    def _ask_file(self) -> None:
        names = _("Run files ({})").format(FILE_FILTER)
        chosen, _kind = QFileDialog.getOpenFileName(self, _("Open a run file"), str(Path.home()), names)
        if chosen:
            self.file.setText(chosen)

    def _choose_model(self) -> None:
        is_file = self.models.currentData() == FILE
        for part in (self._file_label, self.file, self.choose_file):
            part.setVisible(is_file)
        self._tell()

    def _choose_device(self) -> None:
        self._judge_compiling()
        self._tell()

    def _judge_compiling(self) -> None:
        """Offer compiling only where it works."""
        device = find_device(self.machine, self.device()) if self.machine else None
        reason = refusal(device, "device.compile", True) if device else ""
        self.compiled.setEnabled(not reason)
        self.compiled.setToolTip(reason or _("Adds a rung with torch.compile, measured once it is compiled"))

    def _models(self) -> list[Segment]:
        weights = _("{} weights, made from the config: nothing is fetched.")
        sizes = [
            Segment(name, size.title, weights.format(compact_count(size.shape.parameters)))
            for name, size in SIZES.items()
        ]
        return [
            Segment(FITTING, _("Chosen to fit"), _("The largest whose plain training has room here.")),
            *sizes,
            Segment(FORM, _("As on New run"), _("Your model and data, as the form stands now.")),
            Segment(FILE, _("A run file of mine"), _("Your model and data, as a file says.")),
        ]

    def _lay_out(self) -> None:
        self.models.setAccessibleName(_("Model"))
        self.devices.setAccessibleName(_("Device"))
        self.file.setAccessibleName(_("Run file"))
        self.choose_file.setAccessibleName(_("Choose a run file"))
        self.add_row(_("Model"), self.models)
        self._file_label = self.add_row(_("Run file"), self.file, trailing=self.choose_file)
        self.add_row(_("Device"), self.devices)
        often = self.beside(self.passes, (_("Timed steps"), self.steps), self.compiled)
        self.add_line(_("Passes"), often, self.passes)

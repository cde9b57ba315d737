"""What the ladder of methods is to be measured with: which model, on which device, how often."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QCheckBox, QFileDialog, QPushButton, QWidget

from core import run_file
from core.bench.plan import Plan
from core.bench.sizes import SIZES
from core.capabilities import find_device, refusal
from core.checks import check_tree
from core.errors import OptionsError
from core.options import RunOptions
from core.reports import MachineReport
from gui.bench_work import MakePlan
from gui.numbers import compact_count
from gui.pages.benchmark_wish import AUTOMATIC, Wish, device_choices
from gui.pages.new_run_header import FILE_FILTER
from gui.widgets.choice_list import ChoiceList
from gui.widgets.path_line import PathLine
from gui.widgets.segmented import Segment

FITTING, FORM, FILE = "fitting", "form", "file"
"""What the list of models offers beside the sizes."""

PASSES = 3

FormOptions = Callable[[], RunOptions | None]
"""The options on the page New run; None: something is wrong with them."""


class MethodsWish(Wish):
    """Asks for it.

    Args:
        make_plan: Makes the plan, as `core.bench.methods.methods_plan` does.
        form: Gives the options on the page New run.
        parent: Qt's parent.
    """

    def __init__(
        self, make_plan: Callable[..., Plan], form: FormOptions, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._make_plan, self._form = make_plan, form
        self.models = ChoiceList(self._models())
        self.file = PathLine(self.tr("A run file, on whose model and data the methods are tried"))
        self.choose_file = QPushButton(self.tr("Choose…"))
        self.devices = ChoiceList([Segment(AUTOMATIC, self.tr("Automatic"))])
        self.passes, self.steps = self.passes_box(PASSES), self.steps_box()
        self.compiled = QCheckBox(self.tr("also compiled (takes longer)"))
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
        self.devices.set_choices(device_choices(machine, self.tr("Automatic ({})")))
        self._judge_compiling()

    def mistake(self) -> str:
        """What of the options or the file stands in the way."""
        match self.models.currentData():
            case "form":
                return "" if self._form() else self.tr("Something is wrong on New run: mend it there first.")
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
            return self.tr("Choose a run file.")
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
        names = self.tr("Run files ({})").format(FILE_FILTER)
        chosen, _ = QFileDialog.getOpenFileName(self, self.tr("Open a run file"), str(Path.home()), names)
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
        self.compiled.setToolTip(
            reason or self.tr("Adds a rung with torch.compile, measured once it is compiled")
        )

    def _models(self) -> list[Segment]:
        weights = self.tr("{} weights, made from the config: nothing is fetched.")
        sizes = [
            Segment(name, size.title, weights.format(compact_count(size.shape.parameters)))
            for name, size in SIZES.items()
        ]
        return [
            Segment(
                FITTING, self.tr("Chosen to fit"), self.tr("The largest whose plain training has room here.")
            ),
            *sizes,
            Segment(FORM, self.tr("As on New run"), self.tr("Your model and data, as the form stands now.")),
            Segment(FILE, self.tr("A run file of mine"), self.tr("Your model and data, as a file says.")),
        ]

    def _lay_out(self) -> None:
        self.models.setAccessibleName(self.tr("Model"))
        self.devices.setAccessibleName(self.tr("Device"))
        self.file.setAccessibleName(self.tr("Run file"))
        self.choose_file.setAccessibleName(self.tr("Choose a run file"))
        self.add_row(self.tr("Model"), self.models)
        self._file_label = self.add_row(self.tr("Run file"), self.file, trailing=self.choose_file)
        self.add_row(self.tr("Device"), self.devices)
        often = self.beside(self.passes, (self.tr("Timed steps"), self.steps), self.compiled)
        self.add_line(self.tr("Passes"), often, self.passes)

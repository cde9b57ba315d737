"""The field of the model: one of a list, of a folder or the Hub, from scratch, or of a past run."""

import os
from enum import StrEnum
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QStackedWidget, QVBoxLayout

from core.base import settings
from core.base.formats import MISSING
from core.base.language import _
from core.options import RunOptions, choices, past_runs
from core.options.choices import Task
from core.options.declare import Option
from core.options.past_runs import is_run
from core.options.sources import SCRATCH_MODELS, VISION_MODELS, Scheme, scheme_of, scratch_model
from core.runs.folder import RunFolder
from core.runs.library import list_runs, run_title
from core.runs.models import is_left_behind
from core.services.hub import is_complete
from gui.base.tokens import SPACING
from gui.base.trash import distinct_titles
from gui.widgets.fields import Field, PathField
from gui.widgets.inputs import CalmComboBox, ChoiceList, Segment, Segmented
from gui.widgets.labels import link_button
from gui.widgets.layout import fill

MOST_RUNS = 60


def scratch_segments(task: Task) -> list[Segment]:
    """Return the models from scratch that suit a task, those made for it first."""
    models = [(name, model) for name, model in SCRATCH_MODELS.items() if model.writes or not task.writes_text]
    models.sort(key=lambda pair: pair[1].writes is not task.writes_text)
    return [Segment(Scheme.SCRATCH.of(name), model.title, model.help) for name, model in models]


def run_segments(task: Task, folder: Path) -> list[Segment]:
    """Return the past runs whose model can be trained further for a task, the newest first."""
    runs = [
        run
        for run in list_runs(folder)[:MOST_RUNS]
        if past_runs.problem_with(_source_of(run), task) is None and not is_left_behind(run)
    ]
    titles = distinct_titles([(run.path, run_title(run)) for run in runs])
    tasks = [past_runs.task_of(run.path) for run in runs]
    return [
        Segment(_source_of(run), title, task.label if task is not None else "")
        for title, run, task in zip(titles, runs, tasks, strict=True)
    ]


def _source_of(run: RunFolder) -> str:
    return Scheme.RUN.of(str(run.path.absolute()))


def title_of_source(source: str) -> str:
    """Return the title of the past run of `run:NAME`."""
    folder = past_runs.run_folder(source)
    return run_title(RunFolder(folder)) if folder is not None else source


class PastRunList(ChoiceList):
    """The past runs that suit the task; the list is filled when it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.task = Task.TEXT_CLASSIFICATION
        self.setPlaceholderText(_("Choose a run"))

    def choose(self, value: str) -> None:
        """Choose a run by the name of its folder or by its path."""
        if not value:
            self.setCurrentIndex(-1)
            return
        is_new = self.findData(value) < 0
        super().choose(value)
        if is_new:
            self.setItemText(self.findData(value), title_of_source(value))

    def showPopup(self) -> None:  # noqa: N802 - Qt's name
        self.reload()
        super().showPopup()

    def reload(self) -> None:
        segments = run_segments(self.task, settings.runs_folder())
        if not segments:
            segments = [Segment("", _("No run fits"), refusal=_("None has a model for this task."))]
        chosen = str(self.currentData() or "")
        self.set_choices(segments)
        self.choose(chosen)


SCHEME = f"{Scheme.TORCHVISION}:"

WEIGHTS_MEGABYTES = {
    "resnet18": 45,
    "mobilenet_v2": 14,
    "efficientnet_b0": 21,
    "squeezenet1_0": 5,
    "alexnet": 233,
    "vgg16": 528,
}
"""Sizes of the published weights, from torchvision's table of weights."""


class Place(StrEnum):
    """Where a model comes from."""

    LIST = "list"
    FOLDER = "folder"
    SCRATCH = "scratch"
    RUN = "run"


class ModelField(Field):
    """`model.source`: where the model comes from, and which one."""

    hub_wanted = Signal()

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self._task = Task.IMAGE_CLASSIFICATION
        self._vision, self._scratch, self._runs = CalmComboBox(), ChoiceList(), PastRunList()
        for name in VISION_MODELS:
            self._vision.addItem(choices.model_title(name), SCHEME + name)
        self._text = PathField(option, _("A folder, or a Hub id"), only_folders=True)
        self._text.changed.connect(self.changed)
        for chooser, tip in (
            (self._vision, option.help),
            (self._scratch, _("Untrained, and small enough to train here")),
            (self._runs, _("Continues from the model of a run")),
        ):
            chooser.setAccessibleName(option.title)
            chooser.setToolTip(tip)
            chooser.activated.connect(self.changed)
        self._places: dict[Place, QComboBox | PathField] = {
            Place.LIST: self._vision,
            Place.FOLDER: self._text,
            Place.SCRATCH: self._scratch,
            Place.RUN: self._runs,
        }
        self._stack = QStackedWidget()
        for widget in self._places.values():
            self._stack.addWidget(widget)
        self._place = Segmented()
        self._place.chosen.connect(self._on_place)
        self.hub = link_button(_("Find one on the Hub…"), self.hub_wanted.emit, flush=True)
        lines = fill(QVBoxLayout(), self._place, self._stack, spacing=SPACING)
        lines.addWidget(self.hub, 0, Qt.AlignmentFlag.AlignLeading)
        self._row.addLayout(lines, 1)
        self._show_places()

    def set_task(self, task: Task) -> None:
        """Offer the models of a task; the chosen one stays if it is one of them."""
        if task is not self._task:
            before, self._task = str(self.value() or ""), task
            self._show_places()
            place = place_of(before)
            is_offered = place in self._offered() and place is not Place.LIST
            if is_offered and (place is not Place.SCRATCH or self._scratch.findData(before) >= 0):
                self.set_value(before)

    def _show_places(self) -> None:
        offered, segments = self._offered(), place_segments()
        self._place.set_segments((segments[place] for place in offered), keeps_value=False)
        self._place.setAccessibleName(_("Source of the model"))
        self._runs.clear()
        self._runs.task = self._task
        self._scratch.clear()
        self._scratch.set_choices(scratch_segments(self._task))
        self._show_place(Place(self._place.value()) if self._place.value() in offered else offered[0])

    def _offered(self) -> tuple[Place, ...]:
        if self._task.reads_images:
            return (Place.LIST, Place.FOLDER, Place.RUN)
        if self._task is Task.PREFERENCE:
            return (Place.FOLDER, Place.RUN)  # a model from scratch has no answers to compare
        return (Place.FOLDER, Place.SCRATCH, Place.RUN)

    def value(self) -> object:
        widget = self._stack.currentWidget()
        return (widget.currentData() or "") if isinstance(widget, QComboBox) else self._text.value()

    def set_value(self, value: object) -> None:
        """Show a source; one that is not in its list is added as it is."""
        source = str(value or "")
        place = place_of(source)
        if place is None or place not in self._offered():
            place = Place.LIST if self._task.reads_images and not source else Place.FOLDER
        self._text.set_value(source if place is Place.FOLDER else "")
        if place is Place.LIST and source:
            if self._vision.findData(source) < 0:
                self._vision.addItem(source, source)
            self._vision.setCurrentIndex(self._vision.findData(source))
        elif place is Place.SCRATCH:
            self._scratch.choose(source)
        elif place is Place.RUN:
            self._runs.choose(source)
        self._show_place(place)

    @property
    def is_scratch(self) -> bool:
        """Whether the model, and its tokenizer, are trained from scratch."""
        return self._stack.currentWidget() is self._scratch

    @property
    def is_run(self) -> bool:
        return self._stack.currentWidget() is self._runs

    def _show_place(self, place: Place) -> None:
        self._place.set_value(place.value)
        widget = self._places[place]
        self._stack.setCurrentWidget(widget)
        self.hub.setVisible(widget is self._text)
        self.setFocusProxy(self._text.line if widget is self._text else widget)

    def _on_place(self, value: str) -> None:
        self._show_place(Place(value))
        self.changed.emit()


def place_segments() -> dict[Place, Segment]:
    texts = {
        Place.LIST: (_("Well-known"), _("A vision model of torchvision.")),
        Place.FOLDER: (_("Folder or Hub"), _("A folder with a model in it, or an id on the Hub.")),
        Place.SCRATCH: (
            _("From scratch"),
            _("A small untrained model; its tokenizer is trained on your data. Needs no network."),
        ),
        Place.RUN: (_("A past run"), _("The model that one of your runs has trained.")),
    }
    return {place: Segment(place.value, *both) for place, both in texts.items()}


def place_of(source: str) -> Place | None:
    """Return where a source is chosen, None if it is empty."""
    if not source:
        return None
    places = {Scheme.TORCHVISION: Place.LIST, Scheme.SCRATCH: Place.SCRATCH, Scheme.RUN: Place.RUN}
    scheme = scheme_of(source)
    return Place.FOLDER if scheme is None else places.get(scheme, Place.FOLDER)


def model_title(options: RunOptions) -> str:
    """Return the model in words: `ResNet-18, pretrained`."""
    source = options.model.source
    if not source:
        return _("choose a model")
    if is_run(source):
        return _("of the run {run}").format(run=title_of_source(source))
    scratch = scratch_model(source)
    if scratch is not None:
        name = scratch.title
    elif Path(source).is_absolute():
        name = Path(source).name
    else:
        name = choices.model_title(source.removeprefix(SCHEME))
    is_pretrained = scratch is None and options.model.pretrained
    return (_("{model}, pretrained") if is_pretrained else _("{model}, from scratch")).format(model=name)


def download_note(options: RunOptions) -> str:
    """Return what the run will download, as far as that is known without a network."""
    source = options.model.source
    if not source:
        return MISSING
    if Path(source).is_absolute() or scheme_of(source) in (Scheme.SCRATCH, Scheme.RUN):
        return _("none")
    if not source.startswith(SCHEME):
        if is_complete(options):
            return _("none, the model is here already")
        return _("the model, once, from the Hugging Face Hub")
    name = source.removeprefix(SCHEME)
    if not options.model.pretrained:
        return _("none")
    home = Path(os.environ.get("TORCH_HOME") or Path.home() / ".cache" / "torch")
    if any((home / "hub" / "checkpoints").glob(f"{name}-*.pth")):
        return _("none, the weights are here already")
    return _("about {megabytes} MB of weights, once").format(megabytes=WEIGHTS_MEGABYTES.get(name, 0))

"""The field of the model: one of a list, of a folder or the Hub, from scratch, or of a past run."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QStackedWidget, QVBoxLayout

from core.base import settings
from core.base.formats import MISSING, compact_count, in_line
from core.base.language import LANGUAGE, SOURCE, _
from core.options import RunOptions, hub, past_runs
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.options.declare import Option
from core.options.past_runs import is_run
from core.options.sources import HUB_MODELS, SCRATCH_MODELS, VISION_MODELS, Scheme, is_scratch, scheme_of
from core.runs import notes
from core.runs.folder import RunFolder
from core.runs.library import list_runs, run_title
from core.runs.models import is_left_behind
from gui.base.titles import distinct_titles
from gui.base.tokens import SPACING
from gui.widgets.fields import Field, PathField
from gui.widgets.inputs import ChoiceList, Segment, Segmented
from gui.widgets.labels import push_button
from gui.widgets.layout import fill, keep_place

MOST_RUNS, MOST_MODELS = 60, 16
SCHEME = f"{Scheme.TORCHVISION}:"
LONGEST_NAME = 24  # of a model in the narrow column of what will run


@dataclass(frozen=True)
class ListedModel:
    """A model of the list. `megabytes` are downloaded when it is first used; 0: nothing is."""

    source: str
    title: str
    parameters: int
    megabytes: int = 0
    licence: str = ""
    vocabulary: int = 0
    is_multilingual: bool = False

    @property
    def languages(self) -> str:
        return _("many languages") if self.is_multilingual else ""

    @property
    def is_here(self) -> bool:
        """Whether nothing has to be downloaded."""
        name = Scheme.TORCHVISION.name_of(self.source)
        if name is not None:
            home = Path(os.environ.get("TORCH_HOME") or Path.home() / ".cache" / "torch")
            return any((home / "hub" / "checkpoints").glob(f"{name}-*.pth"))
        return not self.megabytes or hub.has_all_weights(hub.names_here(self.source, hub.RepoKind.MODEL))

    def facts(self, parameters: int | None = None) -> str:
        """Return size, download and licence in one line; `parameters` are those for the task, if known."""
        where = _("on this computer") if self.is_here else _("{size:,} MB download")
        parts = (
            _("{count} parameters").format(count=compact_count(parameters or self.parameters)),
            where.format(size=self.megabytes) if self.megabytes else _("built in"),
            self.licence,
            self.languages,
        )
        return in_line(*parts)

    def brief_facts(self, badge: str) -> str:
        """Return the facts and how the model fits, as short as they are below a heading of the list."""
        size = "" if self.is_here else _("{size:,} MB").format(size=self.megabytes)
        count = _("{count} parameters").format(count=compact_count(self.parameters))
        return in_line(count, size, self.licence, self.languages, badge)


def listed_models(task: Task, vocabulary: int) -> list[ListedModel]:
    """Return the models worth starting a task from, first those that know the person's language.

    Those from scratch have a tokenizer of `vocabulary` tokens.
    """
    if task.reads_images:
        return [
            ListedModel(SCHEME + name, model.title, model.parameters, model.megabytes)
            for name, model in VISION_MODELS.items()
        ]
    recommended = [
        ListedModel(
            name,
            model.title,
            model.parameters,
            model.megabytes,
            model.licence,
            model.vocabulary,
            model.is_multilingual,
        )
        for name, model in sorted(
            HUB_MODELS.items(), key=lambda pair: LANGUAGE != SOURCE and not pair[1].is_multilingual
        )
        if bool(model.vocabulary) is task.writes_text and model.chats is task.reads_conversations
    ]
    scratch = [
        ListedModel(Scheme.SCRATCH.of(name), model.title, model.parameters(vocabulary), vocabulary=vocabulary)
        for name, model in sorted(
            SCRATCH_MODELS.items(), key=lambda pair: pair[1].writes is not task.writes_text
        )
        if (model.writes or not task.writes_text) and task is not Task.PREFERENCE
    ]  # a model from scratch has no answers to compare
    return recommended + scratch


def listed_model(task: Task, source: str, vocabulary: int = 0) -> ListedModel | None:
    """Return the model of the list, None for other sources."""
    return next((model for model in listed_models(task, vocabulary) if model.source == source), None)


class ModelList(ChoiceList):
    """The models worth starting a task from; facts are read when the list is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.task = Task.IMAGE_CLASSIFICATION
        self.vocabulary: int = options_by_path()["model.vocabulary"].default
        self.badge: Callable[[ListedModel], str] = lambda _model: ""
        self.setPlaceholderText(_("Choose a model"))
        self.setMaxVisibleItems(MOST_MODELS)

    def choose(self, value: str) -> None:
        if value:
            super().choose(value)
        else:
            self.setCurrentIndex(-1)

    def showPopup(self) -> None:  # noqa: N802 - Qt's name
        self.reload()
        super().showPopup()

    def reload(self) -> None:
        chosen, forbidden = str(self.currentData() or ""), hub.forbidden_by()
        with QSignalBlocker(self):
            self.clear()
            listed = listed_models(self.task, self.vocabulary)
            for heading, models in (
                (_("On this computer"), [model for model in listed if model.megabytes and model.is_here]),
                (
                    _("Built in: starts from random weights"),
                    [model for model in listed if not model.megabytes],
                ),
                (_("To download once"), [model for model in listed if not model.is_here]),
            ):
                if models:
                    self.append_heading(heading)
                for model in models:
                    facts = model.brief_facts(self.badge(model))
                    is_refused = bool(forbidden) and not model.is_here and scheme_of(model.source) is None
                    why = _("Not on this computer. {what} prevents its download.").format(what=forbidden)
                    self.append(Segment(model.source, model.title, facts, why if is_refused else ""))
        self.choose(chosen)


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
            self.setItemText(self.findData(value), notes.short_title(value))

    def showPopup(self) -> None:  # noqa: N802 - Qt's name
        self.reload()
        super().showPopup()

    def reload(self) -> None:
        segments = run_segments(self.task, settings.runs_folder())
        if not segments:
            segments = [Segment("", _("No suitable run"), refusal=_("None has a model for this task."))]
        chosen = str(self.currentData() or "")
        self.set_choices(segments)
        self.choose(chosen)


class ModelOrigin(StrEnum):
    """Where a model comes from."""

    LIST = "list"
    FOLDER = "folder"
    RUN = "run"


class ModelField(Field):
    """`model.source`: where the model comes from, and which one."""

    hub_wanted = Signal()

    def __init__(self, option: Option) -> None:
        super().__init__(option)
        self._task = Task.IMAGE_CLASSIFICATION
        self.models, self.runs = ModelList(), PastRunList()
        self._text = PathField(option, _("A folder, or a Hub id"), only_folders=True)
        self._text.changed.connect(self.changed)
        self._text.remarked.connect(self.remarked)
        for chooser, tip in (
            (self.models, option.help),
            (self.runs, _("Continues from the model of a run")),
        ):
            chooser.setAccessibleName(option.title)
            chooser.setToolTip(tip)
            chooser.activated.connect(self.changed)
        self._places: dict[ModelOrigin, QComboBox | PathField] = {
            ModelOrigin.LIST: self.models,
            ModelOrigin.FOLDER: self._text,
            ModelOrigin.RUN: self.runs,
        }
        self._stack = QStackedWidget()
        for widget in self._places.values():
            self._stack.addWidget(widget)
        titles = _("Recommended"), _("Folder/Hub"), _("Past run")
        tips = (
            _("Well-known models, and small ones that start from scratch."),
            _("A folder with a model in it, or an id on the Hub."),
            _("The model that one of your runs has trained."),
        )
        self.place = Segmented(map(Segment, ModelOrigin, titles, tips))
        self.place.setAccessibleName(_("Source of the model"))
        self.place.chosen.connect(self._on_place)
        self.hub = push_button(_("Find one on the Hub…"), self.hub_wanted.emit)
        keep_place(self.hub)
        lines = fill(QVBoxLayout(), self.place, self._stack, spacing=SPACING)
        lines.addWidget(self.hub, 0, Qt.AlignmentFlag.AlignLeading)
        self._row.addLayout(lines, 1)
        self.models.reload()
        self._show_place(ModelOrigin.LIST)

    def set_task(self, task: Task) -> None:
        if task is not self._task:
            before, self._task = self.value(), task
            self.models.task = self.runs.task = task
            self.runs.clear()
            self.models.reload()
            self.set_value(before)

    def value(self) -> object:
        widget = self._stack.currentWidget()
        return (widget.currentData() or "") if isinstance(widget, QComboBox) else self._text.value()

    def set_value(self, value: object) -> None:
        """Show a source: in the list if it is there, else as a past run's, else as it is."""
        source = str(value or "")
        is_listed = not source or self.models.findData(source) >= 0 or scheme_of(source) in OF_LIST
        place = ModelOrigin.LIST if is_listed else ModelOrigin.RUN if is_run(source) else ModelOrigin.FOLDER
        self._text.set_value(source if place is ModelOrigin.FOLDER else "")
        self.models.choose(source if place is ModelOrigin.LIST else "")
        if place is ModelOrigin.RUN:
            self.runs.choose(source)
        self._show_place(place)

    @property
    def is_scratch(self) -> bool:
        """Whether the model, and its tokenizer, are trained from scratch."""
        return is_scratch(str(self.value() or ""))

    @property
    def is_run(self) -> bool:
        return self._stack.currentWidget() is self.runs

    def facts(self, parameters: int | None = None) -> str:
        """Return size, download and licence of a model of the list; empty for others."""
        model = listed_model(self._task, str(self.value() or ""), self.models.vocabulary)
        return model.facts(parameters) if model is not None else ""

    def _show_place(self, place: ModelOrigin) -> None:
        self.place.set_value(place.value)
        widget = self._places[place]
        self._stack.setCurrentWidget(widget)
        self.hub.setVisible(widget is not self.runs)
        self.setFocusProxy(self._text.line if widget is self._text else widget)

    def _on_place(self, value: str) -> None:
        self._show_place(ModelOrigin(value))
        self.changed.emit()


OF_LIST = (Scheme.TORCHVISION, Scheme.SCRATCH)


def model_title(options: RunOptions) -> str:
    """Return the model in words: `ResNet-18, pretrained`."""
    source = options.model.source
    if not source:
        return _("choose a model")
    name = notes.source_title(source)
    if is_run(source):
        return name
    is_pretrained = not is_scratch(source) and options.model.pretrained
    if len(name) > LONGEST_NAME and not {" ", "-"} & set(name):  # where else a line would be broken
        name = f"{name[: LONGEST_NAME // 2]}…{name[-LONGEST_NAME // 2 :]}"
    return (_("{model}, pretrained") if is_pretrained else _("{model}, from scratch")).format(model=name)


def download_note(options: RunOptions) -> str:
    """Return what the run will download, as far as that is known without a network."""
    source = options.model.source
    if not source:
        return MISSING
    if Path(source).is_absolute() or scheme_of(source) in (Scheme.SCRATCH, Scheme.RUN):
        return _("none")
    listed = listed_model(options.task, source)
    if source.startswith(SCHEME) and not options.model.pretrained:
        return _("none")
    if listed.is_here if listed is not None else hub.is_complete(options):
        return _("none, the model is on this computer")
    if listed is not None:
        return _("about {megabytes:,} MB of weights, once").format(megabytes=listed.megabytes)
    return _("the model, once, from the Hugging Face Hub")

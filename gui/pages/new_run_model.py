"""What a run starts from: a vision model from a list, or a text model from a folder or the Hub."""

import os
from pathlib import Path

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QStackedWidget, QWidget

from core.catalogue import Option
from core.choices import Task
from core.model_lookup import is_complete
from core.options import RunOptions
from core.vision_models import VISION_MODELS
from gui import names
from gui.field import Field
from gui.numbers import MISSING
from gui.path_field import PathField, Wanted
from gui.widgets.calm_inputs import CalmComboBox

_translate = QCoreApplication.translate

SCHEME = "torchvision:"

WEIGHTS_MEGABYTES = {
    "resnet18": 45,
    "mobilenet_v2": 14,
    "efficientnet_b0": 21,
    "squeezenet1_0": 5,
    "alexnet": 233,
    "vgg16": 528,
}
"""Sizes of the published weights, from torchvision's table of weights."""


class ModelField(Field):
    """`model.source`: a list for images, a line with "Choose…" for texts."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self._task = Task.IMAGE_CLASSIFICATION
        self._vision = CalmComboBox()
        self._vision.setAccessibleName(option.title)
        self._vision.setToolTip(option.help)
        for name in VISION_MODELS:
            self._vision.addItem(names.model_title(name), SCHEME + name)
        self._text = PathField(option, Wanted.FOLDER, self.tr("A folder, or a Hub id"))
        self._stack = QStackedWidget()
        self._stack.addWidget(self._vision)
        self._stack.addWidget(self._text)
        self._row.addWidget(self._stack, 1)
        self._vision.activated.connect(self._tell)
        self._text.changed.connect(self._tell)
        self.setFocusProxy(self._vision)

    def set_task(self, task: Task) -> None:
        """Offer the models of a task."""
        self._task = task
        is_vision = task is Task.IMAGE_CLASSIFICATION
        self._stack.setCurrentWidget(self._vision if is_vision else self._text)
        self.setFocusProxy(self._vision if is_vision else self._text.line)

    def value(self) -> object:
        """The source as a run file holds it."""
        if self._task is Task.IMAGE_CLASSIFICATION:
            return self._vision.currentData() or ""
        return self._text.value()

    def set_value(self, value: object) -> None:
        """Show a source; a vision model that is not in the list is added as it is."""
        source = str(value or "")
        self._text.set_value("" if source.startswith(SCHEME) else source)
        if source and self._vision.findData(source) < 0:
            if self._task is not Task.IMAGE_CLASSIFICATION:
                return
            self._vision.addItem(source, source)
        if source:
            self._vision.setCurrentIndex(self._vision.findData(source))


def model_title(options: RunOptions) -> str:
    """The model in words: `ResNet-18, pretrained`."""
    source = options.model.source
    if not source:
        return _translate("NewRun", "choose a model")
    is_folder = Path(source).is_absolute()
    name = Path(source).name if is_folder else names.model_title(source.removeprefix(SCHEME))
    if options.model.pretrained:
        return _translate("NewRun", "{model}, pretrained").format(model=name)
    return _translate("NewRun", "{model}, from scratch").format(model=name)


def download_note(options: RunOptions) -> str:
    """What will be fetched when the run starts, as far as that can be known without a network."""
    source = options.model.source
    if not source:
        return MISSING
    if Path(source).is_absolute():
        return _translate("NewRun", "none")
    if source.startswith(SCHEME):
        return _vision_download(source.removeprefix(SCHEME), options.model.pretrained)
    if is_complete(options):
        return _translate("NewRun", "none, the model is here already")
    return _translate("NewRun", "the model, once, from the Hugging Face Hub")


def _vision_download(name: str, pretrained: bool) -> str:
    if not pretrained:
        return _translate("NewRun", "none")
    home = Path(os.environ.get("TORCH_HOME") or Path.home() / ".cache" / "torch")
    if any((home / "hub" / "checkpoints").glob(f"{name}-*.pth")):
        return _translate("NewRun", "none, the weights are here already")
    megabytes = WEIGHTS_MEGABYTES.get(name, 0)
    return _translate("NewRun", "about {megabytes} MB of weights, once").format(megabytes=megabytes)

"""What a forecast of memory is about, taken from the form and from what is known by now; or what is still missing."""

from dataclasses import dataclass

import msgspec
from PySide6.QtCore import QCoreApplication

from core import hub
from core.capabilities import find_device
from core.extent import STEP_PATHS, extent, with_batch_within
from core.memory.matters import matters
from core.model_lookup import is_at_hand, is_complete
from core.model_report import ModelReport
from core.options import RunOptions
from core.reports import DeviceReport, MachineReport
from gui.pages.new_run_checking import Checked
from gui.pages.new_run_model_check import ModelCheck
from gui.pages.new_run_questions import FormQuestions

_translate = QCoreApplication.translate


@dataclass(frozen=True)
class Situation:
    """What a forecast is about: options that can be read, a device that is there, a model whose shape is known.

    `steps` are those of the whole run, None where they can't be known; `is_ready` tells that the run could start,
    `is_complete` that all of the model is on this computer, and not only what describes it.
    """

    options: RunOptions
    device: DeviceReport
    model: ModelReport
    labels: int
    steps: int | None
    is_ready: bool
    is_complete: bool

    @property
    def named_options(self) -> RunOptions:
        """The options with the device that "automatic" comes to, so that everybody measures the same."""
        named = msgspec.structs.replace(self.options.device, name=self.device.name)
        return msgspec.structs.replace(self.options, device=named)


def situation_of(
    checked: Checked, machine: MachineReport | None, questions: FormQuestions, *, is_ready: bool
) -> Situation | None:
    """What the form is about; None where anything of it isn't known.

    Args:
        checked: What the form says.
        machine: What this machine has.
        questions: What is known of data and model.
        is_ready: Whether the run could be started.
    """
    options, model = checked.readable, questions.model.shaped
    if options is None or machine is None or model is None:
        return None
    device = find_device(machine, options.device.name)
    if device is None:
        return None
    data = questions.data.report
    is_known = data is not None and data.rows and not checked.unreadable & STEP_PATHS
    steps = None
    if data is not None and is_known:
        found = extent(options, data.rows)
        steps, options = found.steps, with_batch_within(options, found.trained)
    labels = max(2, len(data.labels)) if data is not None else 2
    return Situation(options, device, model, labels, steps, is_ready, is_complete(options))


def what_is_missing(checked: Checked, machine: MachineReport | None, questions: FormQuestions) -> str:
    """Why nothing can be forecast yet; empty: it can."""
    options, model, words = checked.readable, questions.model, ""
    if machine is None:
        words = _translate("Fit", "Looking at this computer…")
    elif options is None or any(matters(path) for path in checked.unreadable):
        words = _translate("Fit", "Hone tells as soon as every value in the form can be read.")
    elif not options.model.source:
        words = _translate("Fit", "Choose a model, and Hone tells how much memory it takes to train.")
    elif not _has_device(machine, options):
        words = _translate("Fit", "Choose a device that this computer has.")
    elif _is_elsewhere(options, model):
        words = _elsewhere_words(options)
    elif model.shaped is None and model.is_checking:
        words = _translate("Fit", "Looking at the model…")
    elif model.shaped is None:
        words = _translate("Fit", "What this model takes can't be told before it runs.")
    return words


def source_to_look_up(checked: Checked, questions: FormQuestions) -> str:
    """The model on the Hub whose size nobody knows until its description is fetched; empty: there is none."""
    options = checked.readable
    if options is None or not hub.may_be_there(options) or hub.is_forbidden():
        return ""
    return options.model.source if _is_elsewhere(options, questions.model) else ""


def _is_elsewhere(options: RunOptions, model: ModelCheck) -> bool:
    """Whether nothing is known of the model because it isn't on this computer."""
    if model.shaped is not None or model.is_checking:
        return False
    return not is_at_hand(options) or model.report == ModelReport()


def _elsewhere_words(options: RunOptions) -> str:
    if not hub.may_be_there(options):
        return _translate("Fit", "Hone can tell once the model is on this computer.")
    if hub.is_forbidden():
        words = _translate("Fit", "The model isn't on this computer, and {what} forbids to fetch it.")
        return words.format(what=hub.forbidden_by())
    return _translate("Fit", "The model isn't on this computer yet: the first run fetches it.")


def _has_device(machine: MachineReport, options: RunOptions) -> bool:
    device = find_device(machine, options.device.name)
    return device is not None and device.available

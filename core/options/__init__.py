"""The options of a run, each declared once with type, default, limits, title and help.

The form, the command line, the run file, its validation and the reference page are made from these declarations (see
`core.options.catalogue`).
"""

from pathlib import Path
from typing import Any

import msgspec

from core.options.choices import PreferenceLoss, Task
from core.options.data import DataOptions
from core.options.declare import Section
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.options.sources import Scheme, is_scratch, parse_synthetic, scheme_of

SCHEMA = 1

Tree = dict[str, Any]
"""A run file as plain values: `{"task": ..., "model": {...}, ...}`."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All options of a run, as in a run file."""

    task: Task
    schema: int = SCHEMA
    model: ModelOptions = ModelOptions()
    data: DataOptions = DataOptions()
    device: DeviceOptions = DeviceOptions()
    memory: MemoryOptions = MemoryOptions()
    training: TrainingOptions = TrainingOptions()
    output: OutputOptions = OutputOptions()

    @property
    def starts_random(self) -> bool:
        """Whether the model has random weights at the start; the model of a past run never has."""
        source = self.model.source
        return is_scratch(source) or not (self.model.pretrained or scheme_of(source) is Scheme.RUN)

    @property
    def pretrains(self) -> bool:
        """Whether a model from scratch is to chat: another run pretrains it first (`core.runs.library.create_all`)."""
        is_random = parse_synthetic(self.data.train) is not None
        return self.task is Task.CHAT and is_scratch(self.model.source) and not is_random

    @property
    def only_measures(self) -> bool:
        """Whether a run keeps no model: each step is then timed alone, and nothing else may train meanwhile."""
        return not self.output.save_model

    @property
    def only_evaluates(self) -> bool:
        """Whether nothing is trained: with 0 epochs the model is evaluated, and not saved."""
        return not self.training.epochs and self.training.max_steps is None

    @property
    def tells_of_training(self) -> bool:
        """Whether findings in the training data are told: not if the model is only evaluated, on other data."""
        return not (self.only_evaluates and (self.data.eval or self.data.eval_split))

    @property
    def data_name(self) -> str:
        """The name of the training data, or of the evaluated data if nothing is trained."""
        return Path((self.only_evaluates and self.data.eval) or self.data.train).name

    @property
    def preference(self) -> PreferenceLoss | None:
        """How preferences are learned; None for the other tasks."""
        return self.training.preference_loss if self.task is Task.PREFERENCE else None

    @property
    def has_reference(self) -> bool:
        """Whether the model is compared with itself before training."""
        return self.preference not in (None, PreferenceLoss.ORPO)

    @property
    def effective_batch(self) -> int:
        """Samples per optimizer step: batch size times gradient accumulation times processes, as far as chosen.

        Each of several computers has that many processes.
        """
        processes = max(1, self.device.processes) * max(1, len(self.device.computers))
        return self.memory.batch_size * self.memory.gradient_accumulation_steps * processes

    @property
    def keeps_best(self) -> bool:
        """Whether the trained model is that of the best evaluation."""
        return self.output.keep_best or self.training.early_stopping_patience > 0


SECTIONS: dict[str, type[Section]] = {
    field.name: field.type
    for field in msgspec.structs.fields(RunOptions)
    if isinstance(field.default, Section)
}

RENAMED: dict[str, str] = {}
"""Former paths of options, and those of today: `{"training.warm_up": "training.warmup"}`."""

DELETED: dict[str, str] = {}
"""Paths of options that are none any more, and why: `{"memory.cpu_offload": _("memory.deepspeed does it")}`."""

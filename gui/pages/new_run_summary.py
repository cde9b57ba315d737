"""What will run, in words and figures: made from the options, the machine and what is known of the data."""

from collections.abc import Set

from PySide6.QtCore import QCoreApplication

from core.capabilities import find_device
from core.choices import Task
from core.data_report import DataReport
from core.extent import BATCH_PATHS, SAMPLE_PATHS, STEP_PATHS, Extent, extent
from core.model_report import ModelReport
from core.option_words import plain_number
from core.options import RunOptions
from core.reports import MachineReport
from core.run_notes import data_name
from gui.numbers import MISSING
from gui.pages.new_run_checking import is_counted, known_extent
from gui.pages.new_run_machine import computed
from gui.pages.new_run_methods import (
    attention_words,
    loading_words,
    memory_words,
    optimizer_words,
    trained_words,
)
from gui.pages.new_run_model import download_note, model_title

_translate = QCoreApplication.translate


def summary_rows(
    options: RunOptions,
    unreadable: Set[str],
    machine: MachineReport | None,
    data: DataReport | None,
    model: ModelReport | None = None,
) -> list[tuple[str, str]]:
    """The rows of the card "What will run"; what depends on an option that can't be read is left open.

    Rows that have nothing to say are left out: a vision model has no attention.
    """
    computing = computed(machine, options)
    device = find_device(machine, options.device.name) if machine else None
    longest = model.max_length if model else None
    is_known = data is not None and is_counted(options, data) and not unreadable & SAMPLE_PATHS
    known = known_extent(options, data) if data is not None and is_known else None
    rows = [
        (_translate("NewRun", "Model"), model_title(options)),
        (_translate("NewRun", "Trained"), trained_words(options, model)),
        (_translate("NewRun", "Data"), _data(options, known, data)),
        (_translate("NewRun", "Loading"), loading_words(options, device, longest)),
        (_translate("NewRun", "Device"), computing.device),
        (_translate("NewRun", "Precision"), computing.precision),
        (_translate("NewRun", "Attention"), attention_words(options)),
        (_translate("NewRun", "Optimizer"), optimizer_words(options)),
        (_translate("NewRun", "Memory"), memory_words(options)),
        (_translate("NewRun", "Batch"), MISSING if unreadable & BATCH_PATHS else _batch(options)),
        (_translate("NewRun", "Steps"), MISSING if unreadable & STEP_PATHS else _steps(options, known, data)),
        (_translate("NewRun", "Downloads"), download_note(options)),
    ]
    return [(name, words) for name, words in rows if words]


def _data(options: RunOptions, known: Extent | None, data: DataReport | None) -> str:
    if not options.data.train:
        return _translate("NewRun", "choose the data")
    name = data_name(options)
    if known is None:
        return name
    if known.evaluated is None:
        words = _translate("NewRun", "{name} · {trained:,} to train on, {apart}")
        return words.format(name=name, trained=known.trained, apart=_apart(options, data))
    text = _translate("NewRun", "{name} · {trained:,} to train on, {evaluated:,} held out")
    return text.format(name=name, trained=known.trained, evaluated=known.evaluated)


def _rows(options: RunOptions, data: DataReport | None) -> int:
    """The rows that are trained on, before they are packed."""
    return extent(options, data.rows).trained if data is not None else 0


def _apart(options: RunOptions, data: DataReport | None) -> str:
    """What is evaluated on that isn't a part of the training data."""
    count = data.eval_rows if data is not None else None
    if not options.data.eval:
        words = (
            _translate("NewRun", "evaluated on the split {split}")
            if count is None
            else _translate("NewRun", "evaluated on the split {split}, {count:,}")
        )
        return words.format(split=options.data.eval_split, count=count)
    if count is None:
        return _translate("NewRun", "evaluated on a file of its own")
    return _translate("NewRun", "evaluated on a file of its own, {count:,}").format(count=count)


def _batch(options: RunOptions) -> str:
    memory = options.memory
    text = _translate("NewRun", "{size:,} × {batches:,} = {rows:,} rows")
    return text.format(
        size=memory.batch_size, batches=memory.gradient_accumulation_steps, rows=options.effective_batch
    )


def _steps(options: RunOptions, known: Extent | None, data: DataReport | None) -> str:
    if known is not None:
        is_packed = options.data.packing and options.data.train and data is not None and data.train_rows
        text = (
            _translate("NewRun", "about {steps:,} · {each:,} an epoch: {rows:,} rows packed into {packed:,}")
            if is_packed and options.task is Task.CHAT
            else _translate("NewRun", "about {steps:,} · {each:,} an epoch")
        )
        return text.format(
            steps=known.steps, each=known.steps_per_epoch, packed=known.trained, rows=_rows(options, data)
        )
    if options.training.max_steps:
        return f"{options.training.max_steps:,}"
    return _translate("NewRun", "{epochs} epochs").format(epochs=plain_number(options.training.epochs))

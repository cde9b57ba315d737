"""From options to a trainer that is ready to train: the same for a run and for a dry run before it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path

import torch
import transformers

from core.ceiling import end_reading
from core.choices import DeepSpeed, Method, Precision, Task
from core.engine import process_settings, tasks
from core.engine.arguments import trainer_arguments
from core.engine.capabilities import BITSANDBYTES_OPTIMIZERS
from core.engine.compiling import Compilation
from core.engine.data.lengths import NO_LABEL
from core.engine.data.single_precision import collator_for
from core.engine.devices import Choice, choose_visible
from core.engine.loss_scaling import loss_by_label, mend_loss_scaling, share_router_loss
from core.engine.machine_facts import gather
from core.engine.models.checkpointing import check_checkpointing
from core.engine.optimizers import optimizer_class
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared, TrainedBy
from core.engine.trainer import WatchedTrainer
from core.engine.zero_process import alone
from core.options import RunOptions

PROBED = 100
"""Samples looked through for one with a label."""
HALF = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


@contextmanager
def chosen_device(options: RunOptions) -> Iterator[Choice]:
    """Settle where `options` are computed and set this process up for it, for as long as training lasts.

    Raises:
        DeviceError: Something that was asked for is not to be had here.
    """
    _quieten_transformers()
    choice = choose_visible(gather(with_compilers=options.device.compile), options)
    process_settings.apply(choice.settled)
    with_zero = choice.settled.memory.deepspeed is not DeepSpeed.OFF
    with alone(choice.kind) if with_zero else nullcontext():
        yield choice


def _quieten_transformers() -> None:
    """Leave out of the log what frightens and doesn't help: redrawn bars, and the table of weights of the new head."""
    transformers.utils.logging.disable_progress_bar()
    loading = logging.getLogger("transformers.modeling_utils")
    loading.addFilter(lambda record: "LOAD REPORT" not in record.getMessage())


def load_libraries(options: RunOptions) -> Callable[[RunOptions, Reporter], Prepared]:
    """Import what the run needs, each task's libraries only for it; returns what loads its data and model."""
    if options.model.method in (Method.LORA, Method.QLORA):
        import peft  # noqa: F401
    if options.training.optimizer in BITSANDBYTES_OPTIMIZERS:
        import bitsandbytes  # noqa: F401
    module = import_module(f"{tasks.__name__}.{options.task.replace('-', '_')}")
    loads: Callable[[RunOptions, Reporter], Prepared] = module.prepare
    return loads


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load what the task needs.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained.
    """
    return load_libraries(options)(options, reporter)


def build_trainer(
    checkpoints: Path,
    choice: Choice,
    prepared: Prepared,
    reporter: Reporter,
    kind: type[WatchedTrainer] = WatchedTrainer,
) -> WatchedTrainer:
    """The trainer of a run, with the compiler where one was asked for.

    Args:
        checkpoints: Where checkpoints go.
        choice: What it computes on.
        prepared: Its model and data.
        reporter: Hears of it while it compiles.
        kind: The class to make.

    Raises:
        ModelError: The model can't compute its activations again, and that was asked for.
    """
    end_reading()
    trainer = _made(checkpoints, choice, prepared, kind)
    if choice.settled.memory.gradient_accumulation_steps > 1 and trainer.loss_is_scaled_for_ga is None:
        _mend_accumulation(trainer, choice, prepared)
    if choice.settled.device.compile:
        trainer.compilation = Compilation(choice.settled, choice.kind, reporter, trainer.first_batch)
    return trainer


def _made(
    checkpoints: Path, choice: Choice, prepared: Prepared, kind: type[WatchedTrainer]
) -> WatchedTrainer:
    from transformers import PrinterCallback, TrainingArguments

    by = prepared.trained_by or TrainedBy(WatchedTrainer, TrainingArguments)
    if choice.settled.memory.activation_checkpointing:
        check_checkpointing(prepared.model)
    has_eval = prepared.eval is not None and len(prepared.eval) > 0
    arguments = trainer_arguments(choice, checkpoints, has_eval=has_eval)
    trainer: WatchedTrainer = _joined(kind, by.trainer)(
        model=prepared.model,
        args=by.arguments(**arguments, **by.settings),
        train_dataset=prepared.train,
        eval_dataset=prepared.eval if has_eval else None,
        data_collator=collator_for(choice.kind, prepared.collator),
        processing_class=prepared.processing_class,
        compute_metrics=prepared.metrics,
        optimizer_cls_and_kwargs=optimizer_class(choice),
        **by.more,
    )
    if prepared.condense is not None:  # not every trainer takes it as an argument
        trainer.preprocess_logits_for_metrics = prepared.condense
    trainer.remove_callback(PrinterCallback)  # it prints dictionaries where no progress bar is shown
    return trainer


def _joined(kind: type[WatchedTrainer], trainer: type) -> type:
    """The trainer as the kind that is asked for: both watch, so that one is laid over the other."""
    return trainer if issubclass(trainer, kind) else type(kind.__name__, (kind, trainer), {})


def _mend_accumulation(trainer: WatchedTrainer, choice: Choice, prepared: Prepared) -> None:
    for number in range(
        min(len(prepared.train), PROBED)
    ):  # a prompt may fill the first, with no token to learn
        batch = trainer.data_collator([prepared.train[number]])
        if "labels" not in batch or (batch["labels"] != NO_LABEL).any():
            break
    batch = {name: value.to(trainer.args.device) for name, value in batch.items()}
    with _autocast(choice):  # FlashAttention computes in 16 bits only
        mended = mend_loss_scaling(trainer.model, batch)
    if mended:
        trainer.model_accepts_loss_kwargs = False
    else:
        share_router_loss(trainer.model, lambda: trainer.current_gradient_accumulation_steps)
    if mended and choice.settled.task is Task.TOKEN_CLASSIFICATION:
        trainer.compute_loss_func = loss_by_label


def _autocast(choice: Choice) -> torch.autocast:
    """What a batch is computed in; asked of torch itself, because DeepSpeed brings it in only once it trains."""
    dtype = HALF.get(choice.precision)
    return torch.autocast(choice.kind, dtype=dtype, enabled=dtype is not None)

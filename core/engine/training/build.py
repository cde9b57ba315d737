"""A run's device, data, model and trainer, from its options."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from core.base.ceiling import READING, say
from core.engine import environment
from core.engine.data import NO_LABEL
from core.engine.devices.capabilities import BITSANDBYTES_OPTIMIZERS, gather
from core.engine.devices.choose import ResolvedRun, resolve_run
from core.engine.devices.computing import COMPUTED_IN, same_random_numbers
from core.engine.devices.memory import limit_memory
from core.engine.launch import is_rank
from core.engine.models.attention import cure_causal_attention
from core.engine.models.vision import check_checkpointing
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.training.arguments import optimizer_class, trainer_arguments
from core.engine.training.loss_scale import fix_loss_scaling, loss_by_label, share_router_loss
from core.engine.training.ranks import process_group, world_size
from core.engine.training.resuming import Resuming
from core.engine.training.step import StepFigures
from core.engine.training.trainer import LanguageTrainer, WatchedTrainer
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import DeepSpeed, Method, PreferenceLoss, Task

PROBED = 100
"""Samples searched for one with a label."""


@contextmanager
def chosen_device(options: RunOptions) -> Iterator[ResolvedRun]:
    """Resolves the device and everything automatic, and sets this process up for it.

    Raises:
        DeviceError: This computer can't do what was chosen.
    """
    transformers.utils.logging.disable_progress_bar()  # redrawn bars fill a log
    loading = logging.getLogger("transformers.modeling_utils")  # reports that the new head has no weights
    loading.addFilter(lambda record: "LOAD REPORT" not in record.getMessage())
    alone = with_changes(options, {"device.processes": 1}) if is_rank() else options
    resolved = resolve_run(gather(with_compilers=options.device.compile), alone, sees_one_gpu=True)
    environment.apply(resolved.options)
    limit_memory(resolved)
    with_zero = resolved.options.memory.deepspeed is not DeepSpeed.OFF
    with process_group(resolved.kind) if with_zero or is_rank() else nullcontext():
        processes = {"device.processes": world_size()} if is_rank() else {}
        yield replace(resolved, options=with_changes(resolved.options, processes))


def load_libraries(options: RunOptions) -> Callable[[RunOptions, Reporter], Prepared]:
    """Imports what the task and method need; returns the task's `prepare`."""
    if options.model.method in (Method.LORA, Method.QLORA):
        import peft  # noqa: F401
    if options.training.optimizer in BITSANDBYTES_OPTIMIZERS:
        import bitsandbytes  # noqa: F401
    from core.engine.tasks import images, language, text

    return {
        Task.TEXT_CLASSIFICATION: text.prepare,
        Task.TEXT_REGRESSION: text.prepare,
        Task.TOKEN_CLASSIFICATION: text.prepare,
        Task.CAUSAL_LM: language.prepare_causal_lm,
        Task.CHAT: language.prepare_chat,
        Task.PREFERENCE: language.prepare_preference,
        Task.IMAGE_CLASSIFICATION: images.prepare,
    }[options.task]


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Loads the data and the model.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained.
    """
    return load_libraries(options)(options, reporter)


@dataclass(frozen=True)
class TrainedBy:
    """The trainer of a task, and the class of its arguments.

    Attributes:
        trainer: A subclass of `WatchedTrainer`.
        arguments: A subclass of TrainingArguments.
        settings: Keyword arguments for it, added to `trainer_arguments`.
        more: Keyword arguments for the trainer.
    """

    trainer: type[WatchedTrainer] = WatchedTrainer
    arguments: type[transformers.TrainingArguments] = transformers.TrainingArguments
    settings: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


def trained_by(options: RunOptions, prepared: Prepared) -> TrainedBy:
    """Returns what trains a task; TRL's trainers are imported only where they do."""
    if options.task is Task.CAUSAL_LM:
        return TrainedBy(LanguageTrainer, more={"held_out": prepared.held_out})
    if not options.task.reads_conversations:
        return TrainedBy()
    from trl import DPOConfig, SFTConfig

    from core.engine.training import trl_trainers as trl

    if options.task is Task.CHAT:
        settings = {
            "dataset_kwargs": {"skip_prepare_dataset": True},  # samples are tokens already
            "max_length": None,
            "activation_offloading": False,
        }
        return TrainedBy(trl.ChatTrainer, SFTConfig, settings)
    beta: dict[str, Any] = {"beta": options.training.beta}
    if options.preference is PreferenceLoss.ORPO:
        # Trainer computes the loss of an evaluation where a batch has labels
        return TrainedBy(trl.OddsRatioTrainer, settings={"label_names": ["completion_mask"]}, more=beta)
    settings = {**beta, "max_length": None, "disable_dropout": False}
    more: dict[str, Any] = {} if prepared.reference is None else {"ref_model": prepared.reference}
    if options.preference is PreferenceLoss.KTO:
        return TrainedBy(trl.RatedTrainer, DPOConfig, settings, {**more, "weights": prepared.weights})
    return TrainedBy(trl.PreferenceTrainer, DPOConfig, settings, more)


def build_trainer(
    checkpoints: Path,
    resolved: ResolvedRun,
    prepared: Prepared,
    step: StepFigures,
    resuming: Resuming,
    *,
    kind: type[WatchedTrainer] = WatchedTrainer,
) -> WatchedTrainer:
    """Returns the trainer of a run; its class is `kind`, mixed into the task's own trainer.

    Raises:
        ModelError: The model doesn't support activation checkpointing, which was chosen.
    """
    say()  # no untrusted input is parsed after this point, or in child processes
    os.environ.pop(READING, None)
    by = trained_by(resolved.options, prepared)
    memory = resolved.options.memory
    if memory.activation_checkpointing:
        check_checkpointing(prepared.model)
    has_eval = prepared.eval is not None and len(prepared.eval) > 0
    trainer_class = by.trainer
    if not issubclass(by.trainer, kind):
        trainer_class = type(kind.__name__, (kind, by.trainer), {})
    trainer = trainer_class(
        model=prepared.model,
        args=by.arguments(**trainer_arguments(resolved, checkpoints, has_eval=has_eval), **by.settings),
        train_dataset=prepared.train,
        eval_dataset=prepared.eval if has_eval else None,
        data_collator=prepared.collator,
        processing_class=prepared.processing_class,
        compute_metrics=prepared.metrics,
        optimizer_cls_and_kwargs=optimizer_class(resolved),
        step=step,
        resuming=resuming,
        **by.more,
    )
    if prepared.condense is not None:  # not every trainer takes it as an argument
        trainer.preprocess_logits_for_metrics = prepared.condense
    for model in filter(None, (trainer.model, prepared.reference)):
        cure_causal_attention(model, resolved)
    # prints dictionaries if no progress bar is shown
    trainer.remove_callback(transformers.PrinterCallback)
    if memory.activation_checkpointing and resolved.kind == "mps" and not resolved.options.device.compile:
        # in place: DPO enables it again after each reference pass, with Trainer's older name of the same dictionary
        settings: Any = trainer.args.activation_checkpointing_kwargs
        settings["context_fn"] = partial(same_random_numbers, resolved.kind)
    if memory.gradient_accumulation_steps * world_size() > 1 and trainer.loss_is_scaled_for_ga is None:
        _fix_loss_scale(trainer, resolved, prepared)
    return trainer


def _fix_loss_scale(trainer: WatchedTrainer, resolved: ResolvedRun, prepared: Prepared) -> None:
    # a prompt may fill the first sample, without a token to learn
    for index in range(min(len(prepared.train), PROBED)):
        batch = trainer.data_collator([prepared.train[index]])
        if "labels" not in batch or (batch["labels"] != NO_LABEL).any():
            break
    batch = {name: value.to(trainer.args.device) for name, value in batch.items()}
    # FlashAttention computes in 16 bits only; DeepSpeed starts its own autocast only when it trains
    dtype = COMPUTED_IN.get(resolved.precision)
    with torch.autocast(resolved.kind, dtype=dtype, enabled=dtype is not None):
        fixed = fix_loss_scaling(trainer.model, batch)
    if not fixed:
        share_router_loss(trainer.model, lambda: trainer.current_gradient_accumulation_steps)
        return
    trainer.model_accepts_loss_kwargs = False
    if resolved.options.task is Task.TOKEN_CLASSIFICATION:
        trainer.compute_loss_func = loss_by_label

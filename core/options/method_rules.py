"""Length of a run, defaults of each task, and combinations of training methods that are refused."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from core.base.errors import Fix, Problem
from core.base.formats import counted, plain_number
from core.base.language import _
from core.options import RunOptions
from core.options.catalogue import use, value_of, with_changes
from core.options.choices import (
    METRICS_OF_TASKS,
    Attention,
    BestMetric,
    DeepSpeed,
    Method,
    Offload,
    Optimizer,
    Precision,
    PreferenceLoss,
    Quantization,
    Schedule,
    Task,
)
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import VISION_MODELS, Scheme, is_scratch, scheme_of, short_name

# --- Models that are too large


class Advice(NamedTuple):
    """One branch of a decision tree, with the options that follow the advice."""

    condition: str
    advice: str
    changes: dict[str, Any]


def big_model_advice() -> tuple[Advice, ...]:
    """Returns what to do about models of increasing size; the first condition that holds counts.

    Source: the decision tree in the guides "Efficient training on a single GPU" and "DeepSpeed" of transformers.
    """
    return (
        Advice(
            _("The model fits comfortably on the GPU"),
            _("Leave DeepSpeed off: it would only cost time."),
            {"memory.deepspeed": "off"},
        ),
        Advice(
            _("The weights and a batch fit; gradients and optimizer state do not"),
            _("ZeRO-2, with the optimizer state in main memory."),
            {"memory.deepspeed": "zero-2", "memory.offload": "cpu"},
        ),
        Advice(
            _("The weights alone do not fit"),
            _("ZeRO-3, with weights and optimizer state in main memory."),
            {"memory.deepspeed": "zero-3", "memory.offload": "cpu"},
        ),
        Advice(
            _("Main memory is too small as well"),
            _("ZeRO-3, with both on a fast disk: choose a folder on an NVMe drive."),
            {"memory.deepspeed": "zero-3", "memory.offload": "nvme"},
        ),
        Advice(
            _("Its largest layer does not fit on the GPU by itself"),
            _("ZeRO needs whole layers on the GPU. QLoRA quantizes them to a quarter of their size in bf16."),
            {"memory.deepspeed": "off", "model.method": "qlora"},
        ),
    )


# --- Length of a run


MOST_EPOCHS = 20
"""Useful epochs of a pretrained model: Mosbach et al. recommend 20 for small data, where 3 are usual ("On the Stability
of Fine-tuning BERT", 2021). Repeating a text helps little after 4 epochs and hardly after 40 (Muennighoff et al.,
"Scaling Data-Constrained Language Models", 2023)."""

MOST_EPOCHS_FROM_SCRATCH = 90
"""As for ResNet on ImageNet (Goyal et al., 2017)."""

SAMPLE_PATHS = frozenset({"data.eval_fraction", "data.max_train_samples"})
BATCH_PATHS = frozenset({"memory.batch_size", "memory.gradient_accumulation_steps"})
STEP_PATHS = SAMPLE_PATHS | BATCH_PATHS | {"training.epochs", "training.max_steps"}
"""Options that the number of steps depends on."""


@dataclass(frozen=True)
class Extent:
    """Samples and steps of a run. `evaluated` is None if other data is evaluated."""

    trained: int
    evaluated: int | None
    steps: int
    steps_per_epoch: int


def extent(options: RunOptions, rows: int) -> Extent:
    """Counts samples and steps as Trainer does; rows that will be skipped are not known yet.

    A last, smaller batch counts as one, and so do batches left over from accumulation.
    """
    data = options.data
    used = min(rows, data.max_train_samples or rows)
    has_own = bool(data.eval or data.eval_split)
    held_out = 0 if has_own else round(used * data.eval_fraction)
    trained = max(1, used - held_out)
    return Extent(trained, None if has_own else held_out, *steps_of(options, trained))


def steps_of(options: RunOptions, trained: int) -> tuple[int, int]:
    """Returns the steps of a run on so many samples, and those of an epoch."""
    batches = math.ceil(trained / (options.memory.batch_size * max(1, options.device.processes)))
    per_epoch = max(1, math.ceil(batches / options.memory.gradient_accumulation_steps))
    return options.training.max_steps or math.ceil(options.training.epochs * per_epoch), per_epoch


def with_batch_within(options: RunOptions, rows: int) -> RunOptions:
    """Returns the options with a batch size of at most `rows`, which is what takes memory."""
    batch = max(1, min(options.memory.batch_size, rows))
    return msgspec.structs.replace(options, memory=msgspec.structs.replace(options.memory, batch_size=batch))


def batch_hint(options: RunOptions, trained: int) -> Problem | None:
    """Returns a hint if the batch size exceeds the `trained` samples, with the usual size."""
    if options.memory.batch_size <= trained:
        return None
    usual = min(starting_options(options.task).memory.batch_size, trained)
    message = _("larger than the training data ({rows}): an epoch is one step").format(
        rows=counted(trained, "example")
    )
    return Problem("memory.batch_size", message, (use("memory.batch_size", usual),))


def most_epochs(options: RunOptions) -> float:
    """Returns the number of useful epochs, at least those of `options`."""
    most = MOST_EPOCHS_FROM_SCRATCH if options.starts_random else MOST_EPOCHS
    return max(most, options.training.epochs)


def useful_steps(options: RunOptions, trained: int) -> int:
    """Returns the steps of `most_epochs` on so many samples."""
    return math.ceil(most_epochs(options) * steps_of(options, trained)[1])


def steps_hint(options: RunOptions, trained: int) -> Problem | None:
    """Returns a hint if `training.max_steps` exceeds the useful steps on `trained` samples."""
    steps, useful = options.training.max_steps or 0, useful_steps(options, trained)
    if steps <= useful:
        return None
    message = _(
        "{steps:,} steps are {epochs:,.0f} epochs of this data; more than {useful:,} steps seldom help"
    )
    epochs = steps / steps_of(options, trained)[1]
    path = "training.max_steps"
    return Problem(path, message.format(steps=steps, epochs=epochs, useful=useful), (use(path, useful),))


def warmup_problem(options: RunOptions, steps: int) -> Problem | None:
    """Returns the problem of a warm-up that is no shorter than a run by epochs; `steps` are counted as by Trainer."""
    by_epochs = options.training.max_steps is None and not options.only_evaluates
    return _long_warmup(options, steps) if by_epochs else None


def _long_warmup(options: RunOptions, steps: int) -> Problem | None:
    warmup, path = options.training.warmup, "training.warmup"
    if warmup < max(steps, 2):  # in a run of one step it makes no difference
        return None
    message = _(
        "{warmup:,g} warm-up steps are at least as many as the run's {steps:,} steps: the learning rate "
        "is never reached"
    )
    return Problem(
        path, message.format(warmup=warmup, steps=steps), (Fix(_("A tenth of the run"), {path: 0.1}),)
    )


# --- Defaults by task


_ENCODER = ModelOptions(source="distilbert-base-uncased")
_GENERATOR = "HuggingFaceTB/SmolLM2-135M"


class UsualRate(NamedTuple):
    """A good learning rate to begin with, and what it is usual for."""

    value: float
    of: str


def usual_rate(options: RunOptions) -> UsualRate:
    """Returns the learning rate that is usual for a model, task, method and optimizer.

    Source: BERT's paper (2e-5 to 5e-5), LoRA's (2e-4), TRL's examples of DPO; SGD takes about 1e-2, Lion a tenth of
    AdamW's rate; Muon takes AdamW's.
    """
    task, method, optimizer = options.task, options.model.method, options.training.optimizer
    if optimizer is Optimizer.SGD:
        return UsualRate(1e-2, "SGD")
    if task is Task.PREFERENCE:
        rate = UsualRate(5e-6, task.label)
    elif options.starts_random:
        is_encoder = task.reads_text and not task.writes_text
        rate = UsualRate(5e-4 if is_encoder else SCRATCH_RATE, _("a model from scratch"))
    elif method in (Method.LORA, Method.QLORA):
        rate = UsualRate(2e-4, method.label)
    elif method is Method.HEAD:
        rate = UsualRate(1e-3, _("the last layer alone"))
    else:
        value = 1e-4 if task.reads_images else 5e-5 if task is Task.CAUSAL_LM else 2e-5
        rate = UsualRate(value, _("all weights of a pretrained model"))
    return UsualRate(round(rate.value / 10, 9), optimizer.label) if optimizer.is_lion else rate


SCRATCH_RATE, SCRATCH_EPOCHS = 1e-3, 10.0
FAR_OFF = 5.0
"""A learning rate is far off if it is more than so many times the usual one, or less than such a part of it."""
LEARNS_LITTLE = 2e-4
"""Only rates that are usually at least as high are too low at a part of it: others are often trained with a tenth."""
WORTH_TRYING = 2.0
"""A learning rate makes a difference if it is so many times another one."""


def rate_hint(options: RunOptions) -> Problem | None:
    """Yields a hint if the learning rate is far above the usual one, or so far below that the model learns little."""
    rate, usual, path = options.training.learning_rate, usual_rate(options), "training.learning_rate"
    if rate > FAR_OFF * usual.value and not options.starts_random:
        message = _("{rate} is high for {what}; {usual} is usual")
    elif rate < usual.value / FAR_OFF and usual.value >= LEARNS_LITTLE:
        message = _("{rate} is low for {what}, which would learn little; {usual} is usual")
    else:
        return None
    message = message.format(rate=plain_number(rate), what=usual.of, usual=plain_number(usual.value))
    return Problem(path, message, (use(path, usual.value),))


def rate_fixes(options: RunOptions, *factors: float) -> tuple[Fix, ...]:
    """Returns fixes that set a learning rate about so many times as high, to two figures.

    `rate_hint` approves of each, unless a rate is lowered that is low already, or hardly above that. One that is far
    off becomes the usual one, and none is lowered past the usual one in one go. A factor above 1 has no fix where the
    higher rate would be far above the usual one.
    """
    rate, usual, fixes = options.training.learning_rate, usual_rate(options).value, []
    least = usual / FAR_OFF if usual >= LEARNS_LITTLE else 0.0
    for factor in factors:
        tried, label = rate * factor, _("Lower the learning rate to {rate}")
        if factor > 1:
            tried = usual if rate < least else min(tried, FAR_OFF * usual)
            label = _("Raise the learning rate to {rate}")
            if tried < WORTH_TRYING * rate:
                continue
        elif rate > FAR_OFF * usual:
            tried = usual
        else:
            bounds = (usual, least)
            tried = max(tried, next((bound for bound in bounds if WORTH_TRYING * bound <= rate), 0.0))
        tried = float(f"{tried:.2g}")
        fixes.append(Fix(label.format(rate=plain_number(tried)), {"training.learning_rate": tried}))
    return tuple(fixes)


def starting_options(task: Task) -> RunOptions:
    """Returns options for a first run of `task`, with example names of data files."""
    match task:
        case Task.CAUSAL_LM:
            data = DataOptions(train="text.txt", max_length=256)
            model, memory = ModelOptions(source=_GENERATOR), MemoryOptions(batch_size=8)
            training = TrainingOptions(epochs=3, eval_steps=0.1, schedule=Schedule.COSINE, warmup=0.05)
        case Task.CHAT:
            data = DataOptions(train="conversations.jsonl", max_length=1024)
            model = ModelOptions(source=f"{_GENERATOR}-Instruct", method=Method.LORA)
            memory = MemoryOptions(batch_size=4, gradient_accumulation_steps=4)
            training = TrainingOptions(epochs=2, eval_steps=0.1, schedule=Schedule.COSINE, warmup=0.05)
        case Task.PREFERENCE:
            data = DataOptions(train="pairs.json", max_length=1024)
            model = ModelOptions(source=f"{_GENERATOR}-Instruct", method=Method.LORA)
            memory = MemoryOptions(batch_size=2, gradient_accumulation_steps=8)
            training = TrainingOptions(epochs=1, eval_steps=0.2, warmup=0.1)
        case Task.IMAGE_CLASSIFICATION:
            model, data = ModelOptions(source="torchvision:resnet18"), DataOptions(train="images")
            memory = MemoryOptions(batch_size=32)
            training = TrainingOptions(epochs=5, schedule=Schedule.COSINE, warmup=0.1, weight_decay=0.01)
        case _:
            file = "train.conll" if task is Task.TOKEN_CLASSIFICATION else "train.csv"
            model, data = _ENCODER, DataOptions(train=file)
            memory = MemoryOptions(batch_size=16)
            training = TrainingOptions(epochs=3, eval_steps=0.1, warmup=0.1, weight_decay=0.01)
    options = RunOptions(task=task, model=model, data=data, memory=memory, training=training)
    return with_changes(options, {"training.learning_rate": usual_rate(options).value})


def pretrained_fix(task: Task, label: str) -> Fix:
    """Returns a small pretrained model that generates text, with its usual options, in place of one from scratch."""
    usual = starting_options(task)
    training = ("training.learning_rate", "training.epochs", "training.max_steps", "data.max_length")
    paths = ("model.source", "model.method", *training, *BATCH_PATHS)
    label = label.format(model=short_name(usual.model.source))
    return Fix(label, {path: value_of(usual, path) for path in paths})


# --- Rules


Rule = Callable[[RunOptions], Iterator[Problem]]

LARGEST_RATE = 0.1
"""Above it AdamW and its relatives change each weight by more than most weights measure."""

OPTIMIZERS_FOR_ZERO = (Optimizer.ADAMW, Optimizer.ADAM, Optimizer.SGD)
"""Their state is one or two numbers per weight, so that ZeRO can partition it."""


TRAIN_ALL = Fix(_("Train all weights"), {"model.method": "full"})
TRAIN_LORA = Fix(_("Train LoRA"), {"model.method": "lora"})
USE_ADAMW = Fix(_("Use AdamW"), {"training.optimizer": "adamw"})
USE_BF16 = Fix(_("Use bf16"), {"device.precision": "bf16"})
DONT_COMPILE = Fix(_("Don't compile"), {"device.compile": False})


def _learning_rate(options: RunOptions) -> Iterator[Problem]:
    rate, path = options.training.learning_rate, "training.learning_rate"
    if rate > LARGEST_RATE and options.training.optimizer is not Optimizer.SGD:
        usual = usual_rate(options).value
        message = _("{rate:g} would destroy the weights within a few steps; {usual} is usual")
        yield Problem(path, message.format(rate=rate, usual=plain_number(usual)), (use(path, usual),))


def _warmup(options: RunOptions) -> Iterator[Problem]:
    warmup, max_steps = options.training.warmup, options.training.max_steps
    if warmup >= 1 and not warmup.is_integer():
        message = _("must be a whole number of steps, or below 1, not {value:g}").format(value=warmup)
        yield Problem("training.warmup", message)
    if max_steps is not None and (problem := _long_warmup(options, max_steps)):
        yield problem


NO_TEST = _("a run with DPO or KTO can't be tested: its metrics need the model from before training, too")


def _evaluation(options: RunOptions) -> Iterator[Problem]:
    data, training = options.data, options.training
    every, patience = training.eval_steps, training.early_stopping_patience
    if every >= 1 and not every.is_integer():
        message = _("must be a whole number of steps, or below 1, not {value:g}").format(value=every)
        yield Problem("training.eval_steps", message, (use("training.eval_steps", round(every)),))
    if training.early_stopping_threshold and not patience:
        message = _("has no effect without early stopping")
        fixes = (
            Fix(_("Stop early after 3 evaluations"), {"training.early_stopping_patience": 3}),
            Fix(_("Remove it"), {"training.early_stopping_threshold": 0.0}),
        )
        yield Problem("training.early_stopping_threshold", message, fixes)
    # a folder or a dataset may have a validation split of its own: then it is known when the run loads it
    if options.only_evaluates and not (data.eval or data.eval_split or data.eval_fraction):
        message = _("with 0 epochs the model is only evaluated, but there is no validation data")
        yield Problem("training.epochs", message, (use("training.epochs", 3),))
    if options.only_evaluates and options.starts_random:
        message = _("with 0 epochs the model is only evaluated, but its weights are random")
        yield Problem("training.epochs", message, (use("training.epochs", 3),))
    if options.only_evaluates and options.has_reference:
        yield Problem("training.epochs", NO_TEST, (use("training.epochs", 3),))
    if patience and not (data.eval or data.eval_split or data.eval_fraction):
        message = _("early stopping needs validation data")
        tenth = Fix(_("Use 10 % of the training data"), {"data.eval_fraction": 0.1})
        never = Fix(_("Don't stop early"), {"training.early_stopping_patience": 0})
        yield Problem("training.early_stopping_patience", message, (tenth, never))


def _metric_of_task(options: RunOptions) -> Iterator[Problem]:
    path, metric = "training.metric_for_best_model", options.training.metric_for_best_model
    known = (BestMetric.AUTO, BestMetric.LOSS, *METRICS_OF_TASKS[options.task])
    if metric not in known:
        message = _("{task} has no {metric}; choose one of {values}")
        message = message.format(task=options.task.label, metric=metric.label, values=", ".join(known))
        yield Problem(
            path, message, (Fix(_("Use {value}").format(value=known[-1]), {path: known[-1].value}),)
        )


def _quantized_weights(options: RunOptions) -> Iterator[Problem]:
    if options.model.method is not Method.QLORA:
        return
    if options.task.reads_images:
        message = _("QLoRA quantizes text models; vision models are small enough for LoRA")
        yield Problem("model.method", message, (TRAIN_LORA,))
    if options.memory.deepspeed is not DeepSpeed.OFF:
        fix = Fix(_("Off"), {"memory.deepspeed": "off"})
        yield Problem("memory.deepspeed", _("ZeRO can't partition quantized weights"), (fix,))
    if options.model.lora_dora and options.model.quantization is Quantization.INT8:
        fixes = (Fix(_("Use nf4"), {"model.quantization": "nf4"}), Fix(_("Off"), {"model.lora_dora": False}))
        yield Problem("model.lora_dora", _("PEFT 0.21 fails to train DoRA on int8 weights; nf4 works"), fixes)


def _frozen_random_weights(options: RunOptions) -> Iterator[Problem]:
    method, is_for_timing = options.model.method, scheme_of(options.data.train) is Scheme.SYNTHETIC
    may_freeze = method is Method.FULL or (is_for_timing and method is not Method.QLORA)
    if options.starts_random and not may_freeze:
        pretrained = Fix(_("Use pretrained weights"), {"model.pretrained": True})
        fixes = (TRAIN_ALL,) if is_scratch(options.model.source) else (TRAIN_ALL, pretrained)
        message = _("{method} would freeze random weights; use a pretrained model or train all weights")
        yield Problem("model.method", message.format(method=method.label), fixes)


def _offloaded_optimizer(options: RunOptions) -> Iterator[Problem]:
    """Refuses what torchao can't do: it offloads gradients before they are clipped or unscaled (see its README)."""
    path, training = "memory.offload_optimizer", options.training
    if not options.memory.offload_optimizer:
        return
    if training.optimizer is not Optimizer.ADAMW:
        message = _("offloads the state of AdamW, not that of {optimizer}").format(
            optimizer=training.optimizer
        )
        yield Problem(path, message, (USE_ADAMW,))
    if options.memory.deepspeed is not DeepSpeed.OFF:
        fix = Fix(_("Leave it to DeepSpeed"), {path: False})
        yield Problem(path, _("DeepSpeed offloads the optimizer itself; choose one"), (fix,))
    if options.device.processes != 1:
        fix = Fix(_("Use one process"), {"device.processes": 1})
        message = _("offloaded gradients leave the GPU before the processes can average them")
        yield Problem("device.processes", message, (fix,))
    if training.max_grad_norm:
        fix = Fix(_("Don't clip"), {"training.max_grad_norm": 0.0})
        yield Problem("training.max_grad_norm", _("offloaded gradients can't be clipped; use 0"), (fix,))
    if options.device.precision is Precision.FP16:
        message = _("the loss scaling of fp16 doesn't work with offloaded gradients")
        yield Problem("device.precision", message, (USE_BF16,))


def _flash_attention(options: RunOptions) -> Iterator[Problem]:
    path, attention, precision = "model.attention", options.model.attention, options.device.precision
    is_flash = attention in (Attention.FLASH_2, Attention.FLASH_3)
    if is_flash and precision in (Precision.FP32, Precision.TF32):
        message = _("{attention} needs bf16 or fp16, not {precision}")
        fixes = (USE_BF16, Fix(_("Use sdpa"), {path: "sdpa"}))
        yield Problem(path, message.format(attention=attention, precision=precision), fixes)


def _offload_folder(options: RunOptions) -> Iterator[Problem]:
    memory = options.memory
    if memory.deepspeed is DeepSpeed.OFF or memory.offload is not Offload.NVME:
        return
    folder = memory.offload_folder
    if not folder:
        yield Problem("memory.offload_folder", _("choose a folder on a fast disk"), is_missing=True)
    elif Path(folder).is_absolute() and not Path(folder).is_dir():
        yield Problem("memory.offload_folder", _("there is no folder {folder}").format(folder=folder))
    if memory.deepspeed is DeepSpeed.ZERO_2:  # DeepSpeed 0.19.8 accepts it, and keeps the state in memory
        fixes = (
            Fix(_("Use ZeRO-3"), {"memory.deepspeed": "zero-3"}),
            Fix(_("Use main memory"), {"memory.offload": "cpu"}),
        )
        yield Problem("memory.offload", _("only ZeRO-3 can offload to a disk"), fixes)


def _zero(options: RunOptions) -> Iterator[Problem]:
    if options.memory.deepspeed is DeepSpeed.OFF:
        return
    optimizer = options.training.optimizer
    if optimizer not in OPTIMIZERS_FOR_ZERO:
        message = _("ZeRO can't partition the state of {optimizer}").format(optimizer=optimizer)
        yield Problem("training.optimizer", message, (USE_ADAMW,))
    if options.device.compile:
        yield Problem("device.compile", _("DeepSpeed runs models uncompiled"), (DONT_COMPILE,))


def _shards(options: RunOptions) -> Iterator[Problem]:
    """Yields what FSDP2 can't divide: tried with torch 2.13 and accelerate 1.15 on two processes of a CPU."""
    path = "memory.fsdp"
    if not options.memory.fsdp:
        return
    off = Fix(_("Off"), {path: False})
    if options.device.processes == 1:
        message = _("divides a model among processes, and this run has one")
        yield Problem(path, message, (Fix(_("Use all GPUs"), {"device.processes": 0}), off))
    if options.memory.deepspeed is not DeepSpeed.OFF:
        yield Problem(path, _("DeepSpeed divides the model itself; choose one"), (off,))
    if options.model.method is Method.QLORA:
        message = _("quantized weights can't be divided; without FSDP2 each GPU has all of them")
        yield Problem(path, message, (off, TRAIN_LORA))
    if options.task.reads_images:
        yield Problem(path, _("divides text models; vision models are small enough to be whole"), (off,))
    if options.has_reference and options.model.method is Method.FULL:
        message = _(
            "the model before training, which each GPU needs too, isn't divided; LoRA needs no second model"
        )
        yield Problem(path, message, (TRAIN_LORA, off))
    optimizer = options.training.optimizer
    if optimizer not in OPTIMIZERS_FOR_ZERO:
        message = _("{optimizer} doesn't compute with divided weights").format(optimizer=optimizer)
        yield Problem("training.optimizer", message, (USE_ADAMW, off))
    if options.device.compile:
        yield Problem("device.compile", _("FSDP2 runs models uncompiled"), (DONT_COMPILE, off))


def _compiled_batch_norm(options: RunOptions) -> Iterator[Problem]:
    """Refuses recomputing compiled batch norms: torch 2.13 would read statistics that the forward pass has changed."""
    path, name = "memory.activation_checkpointing", Scheme.TORCHVISION.name_of(options.model.source) or ""
    limits = VISION_MODELS.get(name)
    recomputes = options.memory.activation_checkpointing and options.device.compile
    if recomputes and limits is not None and limits.normalises_batch:
        message = _("{name} has batch norm, which a compiled model can't recompute").format(name=name)
        yield Problem(
            path, message, (Fix(_("Turn off activation checkpointing"), {path: False}), DONT_COMPILE)
        )


def _single_answers(options: RunOptions) -> Iterator[Problem]:
    """Refuses batches of one answer: KTO compares the answers of a batch with each other (its KL term)."""
    path = "memory.batch_size"
    if options.preference is PreferenceLoss.KTO and options.memory.batch_size == 1:
        message = _("KTO compares an answer with another one of its batch, so it needs a batch size of 2")
        yield Problem(path, message, (use(path, 2),))


def _last_layer_of_generator(options: RunOptions) -> Iterator[Problem]:
    if options.model.method is Method.HEAD and options.task.writes_text:
        message = _("a text generation model has no classifier to train")
        yield Problem("model.method", message, (TRAIN_LORA, TRAIN_ALL))


METHOD_RULES: tuple[Rule, ...] = (
    _warmup,
    _evaluation,
    _frozen_random_weights,
    _offloaded_optimizer,
    _flash_attention,
    _offload_folder,
    _compiled_batch_norm,
    _zero,
    _shards,
)
"""Rules that don't depend on the task."""

METHOD_TASK_RULES: tuple[Rule, ...] = (
    _learning_rate,
    _metric_of_task,
    _quantized_weights,
    _last_layer_of_generator,
    _single_answers,
)
"""Rules that depend on the task."""

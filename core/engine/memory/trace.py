"""How much memory a run would take, traced: its real model, loss, backward pass and optimizer on fake tensors.

Nothing is allocated and nothing is computed. docs/decisions/0015-memory-trace.md says how, and what is added.
"""

import copy
import platform
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch

from core.base.errors import ModelError, OptionsError, Problem
from core.engine.capabilities import gather
from core.engine.devices import Choice, choose_visible
from core.engine.memory import depths, fake, trace_cache
from core.engine.memory.beside import data_bytes, libraries_bytes, overhead_bytes
from core.engine.memory.forecast import Longest, longest_row
from core.engine.memory.model_shape import shape_of
from core.engine.memory.rehearsal import Rehearsed, rehearse
from core.engine.memory.replay import allocator_of
from core.engine.models import text
from core.engine.models.parts import TargetError
from core.engine.models.refusals import NotFetched, explained
from core.engine.models.vision import find_image_model, image_model_without_numbers
from core.memory import estimate, history
from core.memory.model import Basis, Forecast, LayerMemory, ModelShape, Parts, Room
from core.options import RunOptions
from core.options.choices import Attention, DeepSpeed, Optimizer
from core.options.method_rules import with_batch_within
from core.options.sources import parse_synthetic
from core.services.memory import room_of

MOST_LAYERS = 12

UNFOLLOWED = (RuntimeError, AssertionError, TypeError, AttributeError, ValueError, KeyError, ImportError)
"""What torch raises where an operator needs numbers, or knows no fake tensors, and models where that confuses them."""


class NotFollowed(Exception):  # noqa: N818 - no error of anybody's
    """The trace can't follow this run; its text says why, as half a sentence."""


@dataclass(frozen=True)
class _Case:
    """One run to trace: where it computes, what a formula needs of its model, and its longest row.

    `longest` is in tokens, or in pixels of an image's side; `config` is a text model's, with its labels; `kind` tells
    vision models apart.
    """

    choice: Choice
    labels: int
    shape: ModelShape
    longest: Longest
    config: Any = None
    kind: str = ""

    @property
    def options(self) -> RunOptions:
        """What is asked, settled."""
        return self.choice.settled


def forecast(options: RunOptions, labels: int) -> Forecast:
    """Trace one step of the run and tell the most it holds.

    Args:
        options: What is asked.
        labels: How many labels the data has.

    Returns:
        A forecast of the basis trace; of the basis formula where the run can't be followed, with a note why.

    Raises:
        OptionsError: The model isn't one, or can't be trained so; or texts are longer than it can see.
        NotFetched: The model isn't on this computer yet.
        DeviceError: What is asked is not to be had on this computer.
    """
    choice = choose_visible(gather(with_compilers=options.device.compile), options)
    libraries = libraries_bytes(choice.settled)  # before anything of the model is here
    try:
        return _forecast(_case(choice, labels), libraries)
    except TargetError as error:
        raise _at(error.path, error) from error
    except NotFetched:
        raise
    except ModelError as error:
        raise _at("model.source", error) from error


def _at(path: str, error: ModelError) -> OptionsError:
    return OptionsError((Problem(path, f"{error.title}. {error.detail}", error.fixes),))


def _forecast(case: _Case, libraries: int) -> Forecast:
    try:
        traced = _traced(case)
    except NotFollowed as reason:
        return _by_formula(case, str(reason))
    options, choice = case.options, case.choice
    data = data_bytes(options, case.longest.text_bytes)
    fullest = max(traced.phases.values(), key=lambda parts: parts.total)
    beside = overhead_bytes(choice.kind, libraries, data)
    found = Forecast(
        basis=Basis.TRACE,
        device=choice.label,
        parts=_with_unused(fullest, beside, traced.unused, choice.kind),
        room=_room(choice),
        length=None if case.config is None else case.longest.tokens,
        longest_text=case.longest.text,
        layers=_largest(traced.kept),
        notes=(*case.longest.notes, *_notes(options, choice.kind)),
    )
    return history.corrected(found, history.correction(choice.title))


def _with_unused(parts: Parts, beside: int, unused: int, kind: str) -> Parts:
    """What the allocator holds unused is part of what a GPU's tensors are measured to take, and of a process's own."""
    if kind == "cpu":
        return msgspec.structs.replace(parts, overhead=beside + unused)
    return msgspec.structs.replace(parts, overhead=beside, temporary=parts.temporary + unused)


def _by_formula(case: _Case, reason: str) -> Forecast:
    """The formula's forecast in place of a trace."""
    choice = case.choice
    found = estimate.forecast(
        case.options,
        case.shape,
        choice.device,
        length=case.longest.tokens,
        room=_room(choice),
        correction=history.correction(choice.title),
    )
    notes = (f"A formula tells this, not a trace: {reason}.", *case.longest.notes, *found.notes)
    return msgspec.structs.replace(found, device=choice.label, longest_text=case.longest.text, notes=notes)


def _room(choice: Choice) -> Room | None:
    return room_of(choice.device, mps_limit=choice.settled.device.mps_memory_limit)


def _notes(options: RunOptions, kind: str) -> Iterator[str]:
    if options.device.compile:
        yield "Traced as the model is written: compiled, it usually takes less."
    if options.memory.offload_optimizer:
        yield "The optimizer's state is in the computer's memory and not counted here."
    if options.training.optimizer is Optimizer.PAGED_ADAMW_8BIT and kind == "cuda":
        yield "Paged state makes room where the GPU is short of it; it is counted as if it stayed."
    if options.model.attention in (Attention.FLASH_2, Attention.FLASH_3):
        yield "Traced with PyTorch's own attention, which keeps as little as FlashAttention."
    if kind == "mps":
        yield "The trace was never held against a Mac's measured peak."


def _case(choice: Choice, labels: int) -> _Case:
    """Look at model and data.

    Raises:
        ModelError: The model can't be used.
        OptionsError: The texts are too long for it.
    """
    if choice.settled.task.reads_images:
        return _image_case(choice, labels)
    options = choice.settled
    config = text.load_config(options)
    tokenizer = text.tokenizer_at_hand(options.model.source)
    longest = longest_row(options, config, tokenizer)
    if longest.rows is not None:
        choice = replace(choice, settled=with_batch_within(options, longest.rows))
    text.set_labels(config, options.task, tuple(map(str, range(labels))))
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id if tokenizer is not None else 0
    with explained(options.model.source, builds=True), torch.device("meta"):
        model = text.random_model(copy.deepcopy(config), options.task)
    return _Case(choice, labels, shape_of(model, config), longest, config)


def _image_case(choice: Choice, labels: int) -> _Case:
    options = choice.settled
    random = parse_synthetic(options.data.train)
    found = find_image_model(options)
    model = image_model_without_numbers(options, found, labels)
    kind = options.model.source if found.config is None else found.config.to_json_string(use_diff=False)
    side = random[1] if random else options.data.image_size
    return _Case(choice, labels, shape_of(model), Longest(side), kind=kind)


def _traced(case: _Case) -> Rehearsed:
    """The trace, from an earlier question where there was one.

    Raises:
        NotFollowed: The run can't be traced.
        ModelError: The model can't be trained so.
    """
    if case.options.memory.deepspeed is not DeepSpeed.OFF:
        raise NotFollowed("DeepSpeed runs the model in an engine of its own")
    key = trace_cache.key_of(*_depends_on(case))
    known = trace_cache.find(key)
    if known is None:
        known = _trace(case)
        trace_cache.keep(key, known)
    return known


def _depends_on(case: _Case) -> tuple[Any, ...]:
    """All that decides what a trace finds, as plain values."""
    options, training = case.options, case.options.training
    switches = (training.momentum, training.weight_decay, training.max_grad_norm)
    return (
        options.task,
        msgspec.structs.replace(options.model, source="", pretrained=True),
        case.kind if case.config is None else case.config.to_json_string(use_diff=False),
        options.memory,
        (options.device.precision, case.choice.kind, platform.libc_ver()),
        (training.optimizer, *map(bool, switches)),
        (case.labels, case.longest.tokens),
    )


def _trace(case: _Case) -> Rehearsed:
    try:
        if case.config is None:
            return _rehearsed(case, fake.vision_model(case.options, case.labels))
        if depths.can_be_cut(case.config):
            return depths.extended(lambda config: _trace_text(case, config), case.config)
        return _trace_text(case, case.config)
    except UNFOLLOWED as error:
        traceback.print_exc()  # into the log, for whoever mends it
        raise NotFollowed(f"the trace can't follow this model ({type(error).__name__})") from error


def _trace_text(case: _Case, config: Any) -> Rehearsed:
    model = fake.text_model(case.options, config)
    return _rehearsed(case, model, depths.blocks_of(model, depths.depth_of(config)))


def _rehearsed(case: _Case, model: Any, blocks: Iterable[torch.nn.Module] = ()) -> Rehearsed:
    kind = case.choice.kind
    with fake.without_numbers(kind) as device:
        fake.bring(model, device)
        batch = fake.batch(case.options, model, case.longest.tokens, device)
        return rehearse(model, batch, case.options, device, blocks=blocks, allocator=allocator_of(kind))


def _largest(kept: dict[str, int]) -> tuple[LayerMemory, ...]:
    largest = sorted(kept.items(), key=lambda item: -item[1])[:MOST_LAYERS]
    return tuple(LayerMemory(name, size) for name, size in largest)

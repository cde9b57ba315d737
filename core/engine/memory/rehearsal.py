"""One optimizer step of a model without numbers, as Trainer makes it, written onto a tape."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import torch

from core.engine.memory.replay import SMALL_OBJECTS, SMALL_WITHOUT_GRADIENTS, Allocator, peak_of
from core.engine.memory.stand_in_optimizer import optimizer_for
from core.engine.memory.stand_in_scores import scored
from core.engine.memory.tape import BOTTOM, EARLIER, FORWARD, MIDDLE, TOP, UPDATE, Kind, Recorder, Tape
from core.engine.models.parts import COMPUTED_IN
from core.memory.model import Parts
from core.options import RunOptions
from core.options.choices import Method, Task

WRAPPED = "base_model.model."
"""What PEFT puts before the names of a model's modules."""

AHEAD = 1
"""Batches that accelerate's loader holds beyond those of the step: it looks one ahead to see the end coming."""


class Rehearsed(msgspec.Struct, frozen=True):
    """What a step held at the fullest moment of each phase, and what each module holds: weights and what it keeps.

    `unused` is what the allocator has at its fullest moment beyond what tensors take at theirs. Bytes.
    """

    phases: dict[str, Parts]
    kept: dict[str, int]
    unused: int = 0

    @property
    def most(self) -> int:
        """What tensors take at the fullest moment."""
        return max(parts.total for parts in self.phases.values())


def rehearse(
    model: Any,
    batch: dict[str, torch.Tensor],
    options: RunOptions,
    device: torch.device,
    *,
    blocks: Iterable[torch.nn.Module] = (),
    allocator: Allocator | None = None,
) -> Rehearsed:
    """Trace the second step of a run, when the optimizer has its state, and the last of its accumulated batches.

    Args:
        model: On fake tensors, ready to train.
        batch: One batch.
        options: What is asked, settled.
        device: Where the fake tensors pretend to be.
        blocks: The model's repeated blocks in order; none: they don't stand in one row.
        allocator: What would hand out the memory; None: one that gives back at once what is free.
    """
    recorder = Recorder(model.named_modules(), device.type)
    with recorder.listening():
        _take_stock(recorder, model, batch, options)
        optimizer = optimizer_for(model, options, device)
        _prime(recorder, model, optimizer)
        _mark_blocks(recorder, list(blocks))
        if options.memory.gradient_accumulation_steps > 1:
            recorder.enter(EARLIER)
            _loss(model, batch, options, device).backward()
        recorder.enter(FORWARD)
        loss = _loss(model, batch, options, device)
        recorder.enter(TOP)
        loss.backward()
        recorder.enter(UPDATE)
        if options.training.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), options.training.max_grad_norm)
        optimizer.step()
    found = _read(recorder.tape, model)
    if allocator is None:
        return found
    small = SMALL_WITHOUT_GRADIENTS if options.model.method is Method.HEAD else SMALL_OBJECTS
    held = peak_of(recorder.tape, allocator, small)
    return msgspec.structs.replace(found, unused=max(0, held - found.most))


def _loss(
    model: Any, batch: dict[str, torch.Tensor], options: RunOptions, device: torch.device
) -> torch.Tensor:
    """The loss of one batch, computed in the precision asked for and told in fp32, as accelerate does."""
    dtype = COMPUTED_IN.get(options.device.precision)
    with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
        by_trl = options.task.reads_conversations
        loss: torch.Tensor = scored(model, batch).mean() if by_trl else model(**batch)["loss"]
        if options.task is Task.PREFERENCE:
            with torch.no_grad():  # what the model is held to: itself without its adapter, or a copy of it
                scored(model, batch)
    return loss.float()


def _take_stock(recorder: Recorder, model: Any, batch: dict[str, torch.Tensor], options: RunOptions) -> None:
    """Write down what is there before the step: weights, and all its batches."""
    for tensor in (*model.parameters(), *model.buffers()):
        recorder.note(tensor, Kind.WEIGHT)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(
                lambda weight: recorder.note(weight.grad, Kind.GRADIENT)
            )
    for tensor in batch.values():
        recorder.note(tensor, Kind.INPUT)
    if options.task is Task.PREFERENCE and options.model.method is Method.FULL:
        recorder.note_bytes(sum(weight.nbytes for weight in model.parameters()), Kind.WEIGHT)
    others = options.memory.gradient_accumulation_steps - 1 + AHEAD
    recorder.note_bytes(others * sum(tensor.nbytes for tensor in batch.values()), Kind.INPUT)


def _prime(recorder: Recorder, model: Any, optimizer: torch.optim.Optimizer) -> None:
    """Give the optimizer its state."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                recorder.note(value, Kind.STATE)
    for parameter in learning:
        parameter.grad = None


def _mark_blocks(recorder: Recorder, blocks: list[torch.nn.Module]) -> None:
    """Have the phase change where the backward pass leaves the last block, and where it enters the first."""
    if len(blocks) < 2:
        return
    _when_gradient_comes(recorder, blocks[-2], MIDDLE)
    _when_gradient_comes(recorder, blocks[0], BOTTOM)


def _when_gradient_comes(recorder: Recorder, block: torch.nn.Module, phase: str) -> None:
    def begin(gradient: torch.Tensor) -> None:
        recorder.enter(phase)

    def listen(_module: Any, _inputs: Any, outputs: Any) -> None:
        out = outputs[0] if isinstance(outputs, tuple) else outputs
        if isinstance(out, torch.Tensor) and out.requires_grad and recorder.phase == FORWARD:
            out.register_hook(begin)

    block.register_forward_hook(listen)


def _read(tape: Tape, model: Any) -> Rehearsed:
    phases = {phase: tape.parts(moment) for phase, (_, moment) in tape.peaks.items() if phase}
    kept = {
        name.removeprefix(WRAPPED): sum(weight.nbytes for weight in part.parameters()) + tape.kept_by(name)
        for name, part in _told_apart(model)
    }
    return Rehearsed(phases, kept)


def _told_apart(module: torch.nn.Module, place: str = "") -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules worth telling apart: repeated blocks, and elsewhere the largest that hold no rows of modules."""
    for name, part in module.named_children():
        full = f"{place}.{name}" if place else name
        if isinstance(module, torch.nn.ModuleList) or not _holds_rows(part):
            yield full, part
        else:
            yield from _told_apart(part, full)


def _holds_rows(module: torch.nn.Module) -> bool:
    rows = torch.nn.ModuleList | torch.nn.Sequential
    return any(isinstance(part, rows) for part in module.modules())

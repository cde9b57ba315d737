"""The dry run: a few real steps in a fresh process, on the longest batch of the real data first.

The same code as a run's, without evaluation, checkpoints and a run folder. A run that is too large for the memory finds
that out here in its first two steps; by itself it might only when the longest batch happens to come.
"""

import statistics
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path

import msgspec
import torch

from core.engine.building import build_trainer, chosen_device, load_libraries, prepare
from core.engine.devices import Choice
from core.engine.failures import explain
from core.engine.memory.dry_batches import fitted
from core.engine.memory.dry_trainer import DryCallback, DryTrainer, weight_bytes_on
from core.engine.memory.held import HeldMemory, gpu_used
from core.engine.reporter import Reporter
from core.errors import OutOfMemory
from core.events import Phase
from core.extent import steps_of
from core.memory.forecast import Measurement, Parts
from core.options import RunOptions


def measure(options: RunOptions) -> Measurement:
    """Train a few steps of what `options` ask for and answer what they took. Memory that ran out is an answer too.

    Raises:
        UserError: The person can mend what stopped it.
    """
    used_before = gpu_used()
    with chosen_device(options) as choice:
        load_libraries(options)  # before the memory is looked at: they are the base
        if choice.kind == "mps":
            _refuse_paging(choice.settled.device.mps_memory_limit)
        workers = bool(choice.settled.data.workers)
        with HeldMemory(choice.kind, with_workers=workers, gpu_used_before=used_before) as held:
            return _answer(_DryRun(choice, held))


def _refuse_paging(limit: float) -> None:
    """Have Metal's allocator refuse more than macOS recommends: a Mac would page rather than fail. Never tried here.

    The guard outside sees only the resident set, which Metal's memory need not be in.

    Args:
        limit: `device.mps_memory_limit`; 0: none.
    """
    torch.mps.set_per_process_memory_fraction(min(1.0, limit or 1.0))


def _answer(dry: "_DryRun") -> Measurement:
    try:
        dry.run()
    except Exception as error:
        known = explain(error, dry.options)
        if known is None:
            raise
        if not isinstance(known, OutOfMemory):
            raise known from error
        traceback.print_exc(file=sys.stderr)
        return dry.measurement(known.detail)
    return dry.measurement()


class _DryRun:
    """The run in its making. What isn't there yet counts nothing, so that it can be told of at any moment."""

    def __init__(self, choice: Choice, held: HeldMemory) -> None:
        self.options = choice.settled
        self._choice = choice
        self._held = held
        self._rows = 0
        self._model: torch.nn.Module | None = None
        self._trainer: DryTrainer | None = None
        self._watch: DryCallback | None = None

    def run(self) -> None:
        """Load everything and train."""
        reporter = Reporter(None)
        prepared = prepare(self.options, reporter)
        self._model, self._rows = prepared.model, len(prepared.train)
        choice = replace(self._choice, settled=_of_few_steps(self.options, self._rows))
        without_eval = replace(prepared, eval=None)
        nowhere = Path(
            tempfile.gettempdir()
        )  # nothing is saved, and a folder of its own would outlive a kill
        trainer = build_trainer(nowhere, choice, without_eval, reporter, DryTrainer)
        assert isinstance(trainer, DryTrainer)
        trainer.options = self.options
        self._trainer, self._watch = trainer, DryCallback(trainer, choice.kind)
        trainer.add_callback(self._watch)
        reporter.phase(Phase.TRAINING)
        try:
            trainer.train()
        finally:
            trainer.stop_workers()

    def measurement(self, out_of_memory: str = "") -> Measurement:
        """What is known by now; `out_of_memory` as in `Measurement`."""
        parts, trainer, watch = self._parts(), self._trainer, self._watch
        compiling = trainer.compilation.seconds if trainer and trainer.compilation else 0.0
        ordinary = watch.ordinary_seconds if watch else []
        steps = steps_of(self.options, self._rows)[0] if self._rows else None
        return Measurement(
            device=self._choice.label,
            parts=parts,
            peak=parts.total,
            base=self._held.base,
            longest=trainer.longest if trainer else None,
            longest_text=trainer.longest_text if trainer else None,
            longest_step_seconds=watch.longest_seconds if watch else None,
            step_seconds=statistics.fmean(ordinary) if ordinary else None,
            compile_seconds=compiling,
            total_steps=steps,
            run_seconds=compiling + steps * statistics.fmean(ordinary) if ordinary and steps else None,
            out_of_memory=out_of_memory,
        )

    def _models(self) -> list[torch.nn.Module]:
        """The model, and the copy of it that preferences are learned against where all of it moves."""
        return [
            model for model in (self._model, getattr(self._trainer, "ref_model", None)) if model is not None
        ]

    def _parts(self) -> Parts:
        """The peak by source. What lives as long as the run is weighed; the rest of what tensors took is temporary.

        They add up to the peak, so that where it came at a moment when not all of them were there, the last is less.
        """
        kind, watch = self._choice.kind, self._watch
        saved = self._trainer.saved if self._trainer else None
        weighed = {
            "weights": sum(weight_bytes_on(kind, model) for model in self._models()),
            "gradients": watch.gradients if watch else 0,
            "optimizer": watch.optimizer if watch else 0,
            "activations": saved.activations if saved else 0,
        }
        peak, left = self._held.most()
        found = {"overhead": peak - left}
        for name, size in weighed.items():
            found[name] = min(size, left)
            left -= found[name]
        return Parts(**found, temporary=left)


def _of_few_steps(options: RunOptions, rows: int) -> RunOptions:
    """The options for a trainer that is fed the rows of a few steps, as one epoch, and saves nothing."""
    size, accumulated = fitted(options, rows)
    change = msgspec.structs.replace
    return change(
        options,
        memory=change(options.memory, batch_size=size, gradient_accumulation_steps=accumulated),
        training=change(options.training, epochs=1.0, max_steps=None),
        output=change(options.output, keep_checkpoints=0),
    )

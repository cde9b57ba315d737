"""A few steps of a run in a fresh process, weighed: what a dry run and a measurement of a benchmark have in common.

The same code as a run's, without evaluation, checkpoints and a run folder.
"""

import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import torch

from core.engine.building import build_trainer, chosen_device, load_libraries, prepare
from core.engine.devices import Choice
from core.engine.failures import explain
from core.engine.memory.held import HeldMemory, gpu_used
from core.engine.memory.weighing import WeighingCallback, WeighingTrainer, weight_bytes_on
from core.engine.reporter import Reporter
from core.errors import OutOfMemory
from core.events import Phase
from core.memory.forecast import Parts
from core.options import RunOptions

Answer = TypeVar("Answer")


class WeighedRun(Generic[Answer]):
    """The run in its making. What isn't there yet counts nothing, so that it can be told of at any moment.

    `options` are those of the real run, settled; `rows` how many its data has.

    Args:
        choice: What it computes on.
        held: Watches the memory.
    """

    def __init__(self, choice: Choice, held: HeldMemory) -> None:
        self.options = choice.settled
        self.rows = 0
        self.held = held
        self.choice = choice
        self._model: torch.nn.Module | None = None
        self._trainer: WeighingTrainer | None = None
        self._watch: WeighingCallback | None = None

    def shortened(self) -> RunOptions:
        """The options for the trainer of the few steps; `rows` are known."""
        raise NotImplementedError

    def trained_by(self) -> type[WeighingTrainer]:
        """The class of that trainer."""
        raise NotImplementedError

    def watched(self, trainer: WeighingTrainer, choice: Choice, reporter: Reporter) -> WeighingCallback:
        """What watches the trainer, which is ready to train on `choice`."""
        raise NotImplementedError

    def answer(self, out_of_memory: str = "") -> Answer:
        """What is known by now; where memory ran out, what was asked and what there was."""
        raise NotImplementedError

    def run(self) -> None:
        """Load everything and train."""
        reporter = Reporter(None)
        prepared = prepare(self.options, reporter)
        self._model, self.rows = prepared.model, len(prepared.train)
        choice = replace(self.choice, settled=_without_saving(self.shortened()))
        nowhere = Path(
            tempfile.gettempdir()
        )  # nothing is saved, and a folder of its own would outlive a kill
        trainer = build_trainer(nowhere, choice, replace(prepared, eval=None), reporter, self.trained_by())
        assert isinstance(trainer, WeighingTrainer)
        self._trainer = trainer
        self._watch = self.watched(trainer, choice, reporter)
        trainer.add_callback(self._watch)
        reporter.phase(Phase.TRAINING)
        try:
            trainer.train()
        finally:
            trainer.stop_workers()

    def compile_seconds(self) -> float:
        """What compiling took so far."""
        return self._trainer.compilation.seconds if self._trainer and self._trainer.compilation else 0.0

    def parts(self) -> Parts:
        """The peak by source. What lives as long as the run is weighed; the rest of what tensors took is temporary.

        They add up to the peak, so that where it came at a moment when not all of them were there, the last is less.
        """
        kind, watch = self.choice.kind, self._watch
        saved = self._trainer.saved if self._trainer else None
        weighed = {
            "weights": sum(weight_bytes_on(kind, model) for model in self._models()),
            "gradients": watch.gradients if watch else 0,
            "optimizer": watch.optimizer if watch else 0,
            "activations": saved.activations if saved else 0,
        }
        peak, left = self.held.most()
        found = {"overhead": peak - left}
        for name, size in weighed.items():
            found[name] = min(size, left)
            left -= found[name]
        return Parts(**found, temporary=left)

    def _models(self) -> list[torch.nn.Module]:
        """The model, and the copy of it that preferences are learned against where all of it moves."""
        return [
            model for model in (self._model, getattr(self._trainer, "ref_model", None)) if model is not None
        ]


def weighed(options: RunOptions, make: Callable[[Choice, HeldMemory], WeighedRun[Answer]]) -> Answer:
    """Train the few steps that `make` makes of what `options` ask for. Memory that ran out is an answer too.

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
            return _answer(make(choice, held))


def _refuse_paging(limit: float) -> None:
    """Have Metal's allocator refuse more than macOS recommends: a Mac would page rather than fail. Never tried here.

    The guard outside sees only the resident set, which Metal's memory need not be in.

    Args:
        limit: `device.mps_memory_limit`; 0: none.
    """
    torch.mps.set_per_process_memory_fraction(min(1.0, limit or 1.0))


def _answer(run: WeighedRun[Answer]) -> Answer:
    try:
        run.run()
    except Exception as error:
        known = explain(error, run.options)
        if known is None:
            raise
        if not isinstance(known, OutOfMemory):
            raise known from error
        traceback.print_exc(file=sys.stderr)
        return run.answer(known.detail)
    return run.answer()


def _without_saving(options: RunOptions) -> RunOptions:
    change = msgspec.structs.replace
    return change(options, output=change(options.output, keep_checkpoints=0))

"""Trainer, able to go on from a checkpoint as if it had never stopped.

Trainer 5.23 restores weights, optimizer, schedule, random numbers and its place in the data. What it lacks is mended
here, without touching its loop; `docs/decisions/0023-resuming.md` says how each was found.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from core.checkpoint_files import Checkpoint, is_complete
from core.engine import checkpoints
from core.engine.disk_room import writing
from core.engine.loading import LoadingTrainer, draw_no_seed
from core.engine.lost_weights import refuse_lost_weights
from core.engine.random_state import load_order, remember, restore_random_state, save_order, save_random_state
from core.engine.reading_checkpoint import reading
from core.engine.zero_state import allow_zero_state
from core.errors import ModelError


class ResumableTrainer(LoadingTrainer):
    """Saves checkpoints that are complete or absent, and goes on from them exactly.

    `when_saving` is called before each checkpoint is written, `save_extras` writes into it what using the model takes
    beside its weights. `last_saved` is the checkpoint of the last save, and `saved_anew` whether that was written then:
    it may have stood there already. `checkpoint_bytes` is what one takes, as far as that is known.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.when_saving: Callable[[], None] = _nothing
        self.save_extras: Callable[[Path], None] = _nothing_into
        self.last_saved: Checkpoint | None = None
        self.saved_anew = False
        self.checkpoint_bytes = 0
        self._stage: Path | None = None
        self._undo_evaluation: Callable[[], None] = _nothing

    def save_checkpoint(self) -> None:
        """Save a checkpoint of this moment, also where training was interrupted between two of Trainer's own.

        Raises:
            CantSave: It can't be written.
            UserError: The weights are lost.
        """
        self._save_checkpoint(self.model, trial=None)
        self.control: Any = self.callback_handler.on_save(self.args, self.state, self.control)

    def take_back_evaluation(self) -> None:
        """Forget the evaluation that was interrupted: it is owed, and whoever goes on from here makes it again."""
        self._undo_evaluation()
        step = self.state.global_step
        self.state.log_history = [entry for entry in self.state.log_history if not _is_of(entry, step)]

    def evaluate_owed(self) -> None:
        """Evaluate where the run was paused at the end of an epoch, or its own, before it was judged."""
        if self._owes_evaluation():
            self.evaluate()

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate as Trainer does."""
        self._undo_evaluation = remember(self.args.device.type)
        found: dict[str, float] = super().evaluate(*args, **kwargs)
        self._undo_evaluation = _nothing
        return found

    def checkpoint_at(self, step: int) -> Path:
        """Where the checkpoint of a step is, or would be."""
        return Path(self.args.output_dir) / f"checkpoint-{step}"

    def load_weights(self, checkpoint: Path) -> None:
        """Take the weights of a checkpoint, and nothing else of it."""
        if self.is_deepspeed_enabled:
            from transformers.integrations.deepspeed import deepspeed_load_checkpoint

            deepspeed_load_checkpoint(self.model_wrapped, str(checkpoint))
        else:
            self._load_from_checkpoint(str(checkpoint))

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        self.last_saved, self.saved_anew = None, False
        folder, step = Path(self.args.output_dir), self.state.global_step
        place = self.checkpoint_at(step)
        if is_complete(place):
            self.last_saved = Checkpoint(step, place, _size(place))
            return
        self.when_saving()  # Trainer tells its callbacks only when it is done, which may take minutes
        refuse_lost_weights(self.model, self.args)
        with writing(folder, "checkpoint", self.checkpoint_bytes), checkpoints.staged(folder, step) as stage:
            self._stage = stage.parent
            try:
                super()._save_checkpoint(model, trial)
            finally:
                self._stage = None
            self.save_extras(stage)  # a checkpoint may be exported, too
            save_random_state(stage, self.args.device.type)
            save_order(stage, self.train_order.begun_with if self.train_order else None)
        self.checkpoint_bytes = _size(place)
        self.last_saved, self.saved_anew = Checkpoint(step, place, self.checkpoint_bytes), True

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._stage) if self._stage is not None else super()._get_output_dir(trial)

    def _run_epoch(self, **kwargs: Any) -> None:
        """An epoch; none where the run is done already, for which Trainer would take one step too many."""
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return
        checkpoint = kwargs["resume_from_checkpoint"]
        if checkpoint is not None and kwargs["epoch"] == kwargs["epochs_trained"]:
            if self.args.dataloader_num_workers:
                draw_no_seed(kwargs["train_dataloader"])
            if kwargs["steps_trained_in_current_epoch"] and self.train_order is not None:
                with reading(checkpoint):
                    self.train_order.begin_with = load_order(Path(checkpoint))
        super()._run_epoch(**kwargs)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with reading(resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_scaler(self, checkpoint: str | None) -> None:
        with reading(checkpoint):
            super()._load_scaler(checkpoint)

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """What Trainer knows of the run so far; of a checkpoint without it, nothing."""
        with reading(str(args[3])):
            found: tuple[int, int] = super()._init_training_state(*args, **kwargs)
        return found

    def _prepare_for_training(self, max_steps: int, loader: Any, checkpoint: str | None) -> Any:
        """As Trainer does; DeepSpeed reads its own files there."""
        if checkpoint is None or not self.is_deepspeed_enabled:
            return super()._prepare_for_training(max_steps, loader, checkpoint)
        allow_zero_state()
        with reading(checkpoint):
            return super()._prepare_for_training(max_steps, loader, checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with reading(checkpoint):
            super()._load_rng_state(checkpoint)
            if checkpoint is not None:
                restore_random_state(Path(checkpoint), self.args.device.type)
        if checkpoint is not None:
            self.evaluate_owed()

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """As Trainer does, and with the learning rate of the run as it is now: it may have been made longer."""
        with reading(checkpoint):
            super()._load_optimizer_and_scheduler(checkpoint)
        schedule = self.lr_scheduler
        if checkpoint is None or not isinstance(schedule, LambdaLR):
            return
        of_groups = zip(schedule.optimizer.param_groups, schedule.base_lrs, schedule.lr_lambdas, strict=True)
        for group, base, factor in of_groups:
            group["lr"] = base * factor(schedule.last_epoch)  # torch's own formula: the same bits

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Accept no checkpoint that lacks weights: Trainer would go on with those the run began with, and only warn.

        Raises:
            ModelError: It does.
        """
        named = dict(self.model.named_parameters(remove_duplicate=False))
        missing = set(load_result.missing_keys)
        there = {weight.data_ptr() for name, weight in named.items() if name not in missing}
        lost = [name for name in sorted(missing) if name in named and named[name].data_ptr() not in there]
        if lost or load_result.unexpected_keys:
            names = ", ".join((lost or load_result.unexpected_keys)[:3])
            raise ModelError(
                "The checkpoint is of another model", f"Its weights differ from the run's: {names}."
            )

    def _owes_evaluation(self) -> bool:
        step = self.state.global_step
        if self.eval_dataset is None or not step:
            return False
        batches = len(self.callback_handler.train_dataloader)
        an_epoch = max(1, math.ceil(batches / self.args.gradient_accumulation_steps))
        is_due = step % an_epoch == 0 or step >= self.state.max_steps
        return is_due and not any(_is_of(entry, step) for entry in self.state.log_history)


def _nothing() -> None:
    """Done where there is nothing to do."""


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _nothing_into(_folder: Path) -> None:
    """Written where nothing is needed beside the weights."""


def _is_of(entry: dict[str, Any], step: int) -> bool:
    """Whether an entry of Trainer's log is of the evaluation after `step`."""
    return entry.get("step") == step and "eval_loss" in entry

"""`transformers.Trainer`: batches loaded by workers, exact checkpoints, and what Hone needs to see made visible.

The training loop is untouched.
"""

import inspect
import math
import multiprocessing
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import is_compiled_module
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler

from core.base.errors import ModelError
from core.base.language import _
from core.engine.data import NO_LABEL
from core.engine.data.batches import PRELOADED, Collator, SentCollator, SentSamples, begin_worker, received
from core.engine.data.tables import lengths_of
from core.engine.models.parts import base_of
from core.engine.tasks.metrics import HeldOut, Means, perplexity_metrics
from core.engine.training import checkpoints
from core.engine.training.arguments import allow_zero_state, norm_parameters
from core.engine.training.failures import check_weights_finite, reading, writing
from core.engine.training.observe import FirstBatch, Part, StepParts, wait_for
from core.engine.training.requests import on_signals
from core.runs.models import Checkpoint, is_complete

if TYPE_CHECKING:
    from core.engine.training.compile import Compilation


# --- Batches and their order


class OrderedByLength(LengthGroupedSampler):
    """Trainer's own order, drawn from the same random numbers.

    They are those that dropout uses, too, so that the order of an epoch depends on all steps before it. `begun_with` is
    where they stood when the order under way was drawn; whoever sets `begin_with` has the next one drawn from there.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.begun_with: torch.Tensor | None = None
        self.begin_with: torch.Tensor | None = None

    def __iter__(self) -> Iterator[int]:
        if self.begin_with is not None:
            torch.set_rng_state(self.begin_with)
            self.begin_with = None
        self.begun_with = torch.get_rng_state()
        yield from super().__iter__()


class SameEachTime(LengthGroupedSampler):
    """Trainer's own order for what is evaluated: the same in every evaluation, also where one loader serves them all.

    In another order the batches would be others, and with them the last digits of the loss.
    """

    def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(*args, generator=torch.Generator(), **kwargs)
        self._seed = seed

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self._seed)
        yield from super().__iter__()


class LoadingTrainer(Trainer):
    """Trainer, its batches and their order untouched.

    Two things differ. Workers are sent what can be sent to a new process, and import little there; and texts are
    grouped by lengths that were read from their Arrow columns at once instead of text by text.

    `train_order` is the order in which it learns, where that is drawn from the random numbers that all share.
    """

    train_order: OrderedByLength | None = None

    def _get_dataloader(self, dataset: Any, description: str, batch_size: int, **kwargs: Any) -> DataLoader:
        if not self.args.dataloader_num_workers:
            return super()._get_dataloader(dataset, description, batch_size, **kwargs)
        if self.args.dataloader_multiprocessing_context == "forkserver":
            multiprocessing.set_forkserver_preload(list(PRELOADED))
            with on_signals(signal.SIG_IGN):  # a shutdown asks every process to end; the engine ends this one
                import_module("multiprocessing.forkserver").ensure_running()
        collator: Collator = self.data_collator
        self.data_collator: Collator = SentCollator(collator)
        try:
            loader = super()._get_dataloader(SentSamples(dataset), description, batch_size, **kwargs)
        finally:
            self.data_collator = collator
        live_loader(loader).worker_init_fn = begin_worker
        if not kwargs.get("is_training") and self._has_evaluated():
            use_own_generator(loader)
        return loader

    def _has_evaluated(self) -> bool:
        return any("eval_loss" in entry for entry in self.state.log_history)

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler | None:
        dataset: Any = self.train_dataset if train_dataset is None else train_dataset
        if isinstance(dataset, SentSamples):
            dataset = dataset.samples
        if self.args.train_sampling_strategy == "group_by_length":
            lengths = lengths_of(dataset)
            if lengths is not None:  # the arguments are Trainer's own
                together = self.args.train_batch_size * self.args.gradient_accumulation_steps
                self.train_order = OrderedByLength(together, lengths=lengths)
                return self.train_order
        sampler = super()._get_train_sampler(dataset)
        if isinstance(sampler, LengthGroupedSampler):
            sampler = self.train_order = OrderedByLength(sampler.batch_size, lengths=sampler.lengths)
        return sampler

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler | None:
        if self.args.train_sampling_strategy == "group_by_length":
            samples = eval_dataset.samples if isinstance(eval_dataset, SentSamples) else eval_dataset
            lengths = lengths_of(samples)
            if lengths is not None:
                return SameEachTime(self.args.eval_batch_size, lengths=lengths, seed=self.args.seed)
        return super()._get_eval_sampler(eval_dataset)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """The batches of one optimizer step.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        return super().get_batch_samples(map(received, epoch_iterator), num_batches, device)

    def prediction_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Evaluate one batch.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        return super().prediction_step(model, received(inputs), *args, **kwargs)

    def stop_workers(self) -> None:
        """End the processes that prepare batches; a loader asked for more starts new ones."""
        loaders = [self.callback_handler.train_dataloader, *getattr(self, "_eval_dataloaders", {}).values()]
        for loader in filter(None, loaders):
            live_loader(loader)._iterator = None  # torch ends them where it lets go of the iterator


def live_loader(loader: Any) -> DataLoader:
    """The loader of torch's own that accelerate wraps: its iterator holds the workers."""
    return getattr(loader, "base_dataloader", loader)


def use_own_generator(loader: Any) -> None:
    """Let a loader start its workers without moving the random numbers that all share.

    torch draws a number when workers start. They live from one epoch to the next, so that a run draws it once: one that
    goes on must not draw it a second time.
    """
    live_loader(loader).generator = loader.generator = torch.Generator()


# --- Random numbers, kept in checkpoints where Trainer forgets them


MPS_STATE = "rng_state_mps.pth"
ORDER_STATE = "rng_state_order.pth"


def keep_random_state(folder: Path, kind: str, order: torch.Tensor | None) -> None:
    """Write into a checkpoint what Trainer left out; call it before the checkpoint is sealed.

    Args:
        folder: The checkpoint.
        kind: What the run computes on: `cuda`, `mps` or `cpu`.
        order: The CPU's random numbers as they were when the epoch's order was drawn from them; None: it wasn't.
    """
    if kind == "mps":
        torch.save(torch.mps.get_rng_state(), folder / MPS_STATE)
    if order is not None:
        torch.save(order, folder / ORDER_STATE)


def restore_random_state(folder: Path, kind: str) -> None:
    """Continue MPS's random numbers from a checkpoint, once Trainer has restored the others."""
    path = folder / MPS_STATE
    if kind == "mps" and path.is_file():
        torch.mps.set_rng_state(torch.load(path, weights_only=True))


def load_order(folder: Path) -> torch.Tensor | None:
    """The random numbers from which the epoch's order was drawn; None where it wasn't drawn so."""
    path = folder / ORDER_STATE
    state: torch.Tensor | None = torch.load(path, weights_only=True) if path.is_file() else None
    return state


def generators(kind: str) -> tuple[Any, ...]:
    """Torch's modules that draw random numbers where a model computes on a device of this kind."""
    return (torch,) if kind == "cpu" else (torch, torch.get_device_module(kind))


def remember_random_state(kind: str) -> Callable[[], None]:
    """Note where all random numbers stand; returns what takes them back there."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    of_torch = [(generator, generator.get_rng_state()) for generator in generators(kind)]

    def restore() -> None:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        for generator, state in of_torch:
            generator.set_rng_state(state)

    return restore


# --- Checkpoints


class ResumableTrainer(LoadingTrainer):
    """Saves checkpoints that are complete or absent, and goes on from them exactly.

    `when_saving` is called before each checkpoint is written, `save_extras` writes into it what using the model takes
    beside its weights. `last_saved` is the checkpoint of the last save, and `saved_anew` whether that was written then:
    it may have stood there already. `checkpoint_bytes` is what one takes, as far as that is known.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.when_saving: Callable[[], None] = lambda: None
        self.save_extras: Callable[[Path], None] = lambda _folder: None
        self.last_saved: Checkpoint | None = None
        self.saved_anew = False
        self.checkpoint_bytes = 0
        self._stage: Path | None = None
        self._undo_evaluation: Callable[[], None] = lambda: None

    def save_checkpoint(self) -> None:
        """Save a checkpoint of this moment, also where training was interrupted between two of Trainer's own.

        Raises:
            CantSave: It can't be written.
            UserError: The weights are lost.
        """
        self._save_checkpoint(self.model, trial=None)
        self.control: Any = self.callback_handler.on_save(self.args, self.state, self.control)

    def undo_evaluation(self) -> None:
        """Forget the evaluation that was interrupted: it is owed, and whoever goes on from here makes it again."""
        self._undo_evaluation()
        step = self.state.global_step
        self.state.log_history = [entry for entry in self.state.log_history if not _is_of(entry, step)]

    def evaluate_if_due(self) -> None:
        """Evaluate where the run was paused at the end of an epoch, or its own, before that."""
        step = self.state.global_step
        if self.eval_dataset is None or not step:
            return
        batches = len(self.callback_handler.train_dataloader)
        an_epoch = max(1, math.ceil(batches / self.args.gradient_accumulation_steps))
        is_due = step % an_epoch == 0 or step >= self.state.max_steps
        if is_due and not any(_is_of(entry, step) for entry in self.state.log_history):
            self.evaluate()

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate as Trainer does."""
        self._undo_evaluation = remember_random_state(self.args.device.type)
        found: dict[str, float] = super().evaluate(*args, **kwargs)
        self._undo_evaluation = lambda: None
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
        check_weights_finite(self.model, self.args)
        with writing(folder, "checkpoint", self.checkpoint_bytes), checkpoints.staged(folder, step) as stage:
            self._stage = stage.parent
            try:
                super()._save_checkpoint(model, trial)
            finally:
                self._stage = None
            self.save_extras(stage)  # a checkpoint may be exported, too
            order = self.train_order.begun_with if self.train_order else None
            keep_random_state(stage, self.args.device.type, order)
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
                use_own_generator(kwargs["train_dataloader"])
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
            self.evaluate_if_due()

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
                _("The checkpoint is of another model"),
                _("Its weights differ from the run's: {names}.").format(names=names),
            )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _is_of(entry: dict[str, Any], step: int) -> bool:
    """Whether an entry of Trainer's log is of the evaluation after `step`."""
    return entry.get("step") == step and "eval_loss" in entry


# --- `transformers.Trainer`


class WatchedTrainer(ResumableTrainer):
    """Keeps what the current optimizer step has seen, without reading anything back from the device.

    `step_losses` holds a detached scalar a batch (already divided by the accumulation steps), `step_samples` counts
    samples, `step_tokens` holds a scalar of unpadded tokens a batch, `grad_norm` the norm before
    clipping; `last_step` are the samples and batches of the step before this one.
    `first_batch` tells how the first batch of the run was computed, `fell_back` names the operators that the CPU has
    computed in MPS's place so far. `compilation` is None where nothing is to be compiled. `parts` are timed up to the
    end of the backward; whoever follows the steps begins them, and ends the optimizer's part.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.first_batch = FirstBatch(self.args.device.type)
        self.parts = StepParts(wait_for(self.args.device.type))
        self.fell_back: list[str] = []
        self.compilation: Compilation | None = None
        self._watches = True
        self.forget_step()

    def forget_step(self) -> None:
        """Begin a new optimizer step."""
        self.last_step = (getattr(self, "step_samples", 0), len(getattr(self, "step_losses", ())))
        self.step_losses: list[torch.Tensor] = []
        self.step_tokens: list[torch.Tensor] = []
        self.step_samples = 0
        self.grad_norm: torch.Tensor | float | None = None
        if self.compilation is not None:
            self.compilation.forget_step()

    def get_train_dataloader(self) -> Any:
        """Trainer's own, with an eye on how long it is waited for."""
        loader = super().get_train_dataloader()
        self.parts.timed(live_loader(loader))
        return loader

    def get_batch_samples(self, *args: Any) -> tuple[list[Any], Any]:
        """The batches of one optimizer step.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        self.parts.skip()
        found = super().get_batch_samples(*args)
        self.parts.lap(Part.DATA)
        return found

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch, as Trainer computes it."""
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if model.training:  # an evaluation is no part of a step
            self.parts.lap(Part.FORWARD)
        return loss

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Compute one batch forward and backward, as Trainer does, and remember its figures."""
        self.parts.skip()
        self.step_samples += self.count_samples(inputs)
        tokens = self.count_tokens(inputs)
        if tokens is not None:
            self.step_tokens.append(tokens)
        compute = partial(self._compute, inputs=inputs, num_items_in_batch=num_items_in_batch)
        loss = self.compilation.run(model, compute) if self.compilation else compute(model)
        self._watches = False
        self.step_losses.append(loss)
        self.parts.lap(Part.BACKWARD)
        return loss

    def count_samples(self, inputs: dict[str, Any]) -> int:
        """How many samples a batch has."""
        return len(inputs["labels"])

    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """How many tokens a batch has, padding left out, as a scalar on the device; None for images."""
        mask = inputs.get("attention_mask")
        return None if mask is None else mask.sum()

    def _compute(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any) -> torch.Tensor:
        # a compiled graph is read instead: listening would cut it to pieces
        watches = self._watches and not is_compiled_module(model)
        with self.first_batch.watching(self.model) if watches else nullcontext():
            loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        return loss

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        # Trainer hands the norm to its logger only; this is its one way out without logging (and syncing) each step.
        self.grad_norm = super()._get_grad_norm(model, grad_norm)
        return self.grad_norm

    def get_decay_parameter_names(self, model: torch.nn.Module) -> list[str]:
        """Those that Trainer would let decay, without the batch norms it overlooks."""
        norms = norm_parameters(model)
        return [name for name in super().get_decay_parameter_names(model) if name not in norms]

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """No count: walking over all parameters costs 0.3 ms a batch and Hone shows no FLOPs."""
        return 0


# --- Trainer for running text: evaluated by its loss alone


class LanguageTrainer(WatchedTrainer):
    """Learns to say the next token. `held_out` is the text it is evaluated on.

    Logits are never gathered: those of a small text would take more memory than the model.
    """

    def __init__(self, *args: Any, held_out: HeldOut | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held_out = held_out
        self._means = Means()

    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """All of them: blocks have no padding."""
        return torch.tensor(inputs["input_ids"].numel())

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate as Trainer does, each batch weighed by its tokens."""
        self._means = Means()
        found = super().evaluation_loop(*args, **kwargs)
        means = self._means.all()
        if means:
            told = {**means, **perplexity_metrics(means["loss"], self._held_out)}
            found.metrics.update({f"eval_{name}": value for name, value in told.items()})
        return found

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch, as Trainer computes it."""
        found = super().compute_loss(model, inputs, *args, **kwargs)
        if not model.training:
            loss = found[0] if isinstance(found, tuple) else found
            self._means.add(inputs["labels"][:, 1:].numel(), loss=float(loss))
        return found


# --- The scale of the loss under gradient accumulation


ROUTER_WEIGHTS = ("router_aux_loss_coef", "aux_loss_coef")
"""What models of transformers call the weight of the router's loss; the latter is JetMoE's."""
MANY_ITEMS = 1 << 30


def fix_loss_scaling(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
    """Tell Trainer to divide the loss itself where it counts on `model` to do so and `model` does not.

    Args:
        model: Takes `batch` as keyword arguments and returns a mapping with "loss". Its mode is left as it was.
        batch: One small batch with labels, on the model's device.

    Returns:
        Whether the model had to be flagged (`accepts_loss_kwargs = False`, which Trainer reads).
    """
    inner = base_of(model)  # LoRA's wrapper takes any keyword and hands it on; Trainer looks inside, too
    if not _takes_any_keyword(inner) or _divides_by_items(model, batch):
        return False
    inner.accepts_loss_kwargs = False
    return True


def loss_by_label(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """Cross entropy for `Trainer.compute_loss_func`: its sum over a batch's labels, divided by those of the whole step.

    Args:
        outputs: What the model returned: "logits" [batch, tokens, classes].
        labels: [batch, tokens] of class indices, -100 where there is none.
        num_items_in_batch: Labels in all batches of the step; None: in this one.
    """
    logits = outputs["logits"]
    summed = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(),
        labels.reshape(-1),
        ignore_index=NO_LABEL,
        reduction="sum",
    )
    count = (labels != NO_LABEL).sum() if num_items_in_batch is None else num_items_in_batch
    return summed / count


def share_router_loss(model: torch.nn.Module, batches: Callable[[], int]) -> None:
    """Weigh the router's loss by one over `batches`, those of the step, wherever `model` learns."""
    inner = base_of(model)
    for name in ROUTER_WEIGHTS:
        if weight := getattr(inner, name, None):

            def share(*_rest: Any, name: str = name, weight: float = weight) -> None:
                setattr(inner, name, weight / batches() if inner.training else weight)

            model.register_forward_pre_hook(share)


def _takes_any_keyword(model: torch.nn.Module) -> bool:
    parameters = inspect.signature(model.forward).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _divides_by_items(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
    """Whether more items make the loss smaller; a router's loss stays, however many there are.

    Where nothing is labelled, a sum is 0 and a mean is NaN.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        one = model(**batch, num_items_in_batch=1)["loss"]
        many = model(**batch, num_items_in_batch=MANY_ITEMS)["loss"]
    model.train(was_training)
    return bool(one == 0 or many < one * 0.999)

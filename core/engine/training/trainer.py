"""`transformers.Trainer` with lossless checkpoints and a view into each step; the training loop is Trainer's own."""

import math
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from accelerate.utils import recursively_apply
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import PreTrainedModel, Trainer, TrainerState, set_seed
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.trainer_pt_utils import LengthGroupedSampler
from typing_extensions import override

from core.base.errors import ModelError
from core.base.files import temporary_prefix
from core.base.language import _
from core.engine.data.batches import PRELOADED, Collator, SentCollator, SentSamples, begin_worker, received
from core.engine.data.image_files import ImageSet
from core.engine.data.tables import lengths_of
from core.engine.launch import rank
from core.engine.run.best import EXTENDED_TO, is_evaluation
from core.engine.run.failures import writing
from core.engine.run.requests import on_signals
from core.engine.run.steps import StepPart
from core.engine.tasks.metrics import Means, ValidationSize, perplexity_metrics
from core.engine.training.arguments import norm_parameters
from core.engine.training.failures import check_weights_finite, reading
from core.engine.training.random_state import restore_random_state
from core.engine.training.ranks import (
    SharedEvaluation,
    agreed,
    gathered,
    rows_of_all,
    share_buffers,
    world_size,
)
from core.engine.training.resuming import Resuming
from core.engine.training.samplers import (
    OrderedByLength,
    SameEachTime,
    WithEpochs,
    live_loader,
    one_batch_each,
    step_size,
    use_own_generator,
)
from core.engine.training.step import StepFigures
from core.runs.models import STATE


class WatchedTrainer(Trainer):
    """Trainer that resumes bit for bit, and keeps the figures of the current step without waiting for the device.

    Workers start by sending only what a new process needs, and lengths to group by are read from Arrow columns. A
    checkpoint is complete or absent, and holds every random state.

    Attributes:
        step: The figures of the current step.
        resuming: Checkpoints, and random states to go on from.
        shared: Which part of an evaluation each rank has.
    """

    model: Any  # it always has one

    def __init__(self, *args: Any, step: StepFigures, resuming: Resuming, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.step = step
        self.resuming = resuming
        self.shared = SharedEvaluation()

    # Several processes

    @override
    def _build_accelerator_args(self, **kwargs: Any) -> dict[str, Any]:
        """Adds to Trainer's: DDP gradients share the buckets' memory; FSDP2 sums gradients in fp32.

        Weights that are put together in 16 bits need no copies of autocast's, which would stay until the backward
        pass; gradients are added, and losses computed, in fp32.
        """
        found: dict[str, Any] = super()._build_accelerator_args(**kwargs)
        for handler in found["kwargs_handlers"]:
            handler.gradient_as_bucket_view = True
        if plugin := found["fsdp_plugin"]:
            blocks = (
                module for module in self.model.modules() if isinstance(module, GradientCheckpointingLayer)
            )
            plugin.transformer_cls_names_to_wrap = sorted({type(block).__name__ for block in blocks})
            if dtype := {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.args.mixed_precision):
                plugin.mixed_precision_policy = MixedPrecisionPolicy(dtype, torch.float32, torch.float32)
        return found

    @override
    def autocast_smart_context_manager(self, cache_enabled: bool | None = True) -> Any:
        if self.is_fsdp_enabled:  # the one case in which accelerate doesn't start it in the model's forward
            return self.accelerator.autocast()
        return super().autocast_smart_context_manager(cache_enabled)

    # Data loaders

    @override
    def get_train_dataloader(self) -> Any:
        """Returns Trainer's own, and measures the time spent waiting for it."""
        loader = super().get_train_dataloader()
        self.step.parts.timed(live_loader(loader))
        return loader

    @override
    def _get_dataloader(
        self,
        dataset: Any,
        description: str,
        batch_size: int,
        sampler_fn: Callable[[Any], Any] | None = None,
        is_training: bool = False,
        dataloader_key: str | None = None,
    ) -> DataLoader:
        more = (description, batch_size, sampler_fn, is_training, dataloader_key)
        if not self.args.dataloader_num_workers:
            return self._share_out(super()._get_dataloader(dataset, *more), is_training)
        if self.args.dataloader_multiprocessing_context == "forkserver":
            multiprocessing.set_forkserver_preload(list(PRELOADED))
            with on_signals(signal.SIG_IGN):  # at a shutdown the engine ends the fork server
                import_module("multiprocessing.forkserver").ensure_running()
        collator: Collator = self.data_collator
        self.data_collator: Collator = SentCollator(collator)
        try:
            loader = super()._get_dataloader(SentSamples(dataset), *more)
        finally:
            self.data_collator = collator
        live_loader(loader).worker_init_fn = begin_worker
        self._share_out(loader, is_training)
        if not is_training and any("eval_loss" in entry for entry in self.state.log_history):
            use_own_generator(loader)
        return loader

    def _share_out(self, loader: DataLoader, is_training: bool) -> DataLoader:
        """Gives each rank batches as one process would make them in an evaluation; accelerate's would be filled up."""
        if world_size() > 1 and not is_training:
            shard: Any = live_loader(loader).batch_sampler
            shard._iter_with_no_split = partial(one_batch_each, shard.batch_sampler, rank(), world_size())
        return loader

    @override
    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler | None:
        dataset = _samples(self.train_dataset if train_dataset is None else train_dataset)
        if isinstance(dataset, ImageSet):
            return WithEpochs(dataset)
        if self.args.train_sampling_strategy == "group_by_length":
            lengths = lengths_of(dataset)
            if lengths is not None:
                self.resuming.order = OrderedByLength(step_size(self.args), lengths=lengths)  # as in Trainer
                return self.resuming.order
        sampler = super()._get_train_sampler(dataset)
        if isinstance(sampler, LengthGroupedSampler):
            sampler = self.resuming.order = OrderedByLength(step_size(self.args), lengths=sampler.lengths)
        return sampler

    @override
    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler | None:
        if self.args.train_sampling_strategy == "group_by_length":
            lengths = lengths_of(_samples(eval_dataset))
            if lengths is not None:
                return SameEachTime(self.args.eval_batch_size, lengths=lengths, seed=self.args.seed)
        return super()._get_eval_sampler(eval_dataset)

    def stop_workers(self) -> None:
        """Ends the data loader workers; a loader that is used again starts new ones."""
        loaders = [self.callback_handler.train_dataloader, *getattr(self, "_eval_dataloaders", {}).values()]
        for loader in filter(None, loaders):
            live_loader(loader)._iterator = None  # torch ends them when the iterator is deleted

    # Steps

    @property
    def is_divided(self) -> bool:
        """Whether no rank has all weights, so that all take part in whatever computes with them or saves them."""
        return bool(self.is_fsdp_enabled or (self.is_deepspeed_enabled and is_deepspeed_zero3_enabled()))

    @override
    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """Returns the batches of one optimizer step.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        self.step.parts.skip()
        batches = super().get_batch_samples(map(received, epoch_iterator), num_batches, device)
        self.step.parts.lap(StepPart.DATA)
        return batches

    @override
    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if model.training:  # not in an evaluation
            self.step.parts.lap(StepPart.FORWARD)
        return loss

    @override
    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Runs Trainer's forward and backward pass of one batch, and remembers its figures."""
        self.step.begin_batch(self.count_samples(inputs), self.count_tokens(inputs))
        compute = partial(self._compute, inputs=inputs, num_items_in_batch=num_items_in_batch)
        compilation = self.step.compilation
        loss = compilation.run(model, compute) if compilation is not None else compute(model)
        self.step.end_batch(loss)
        return loss

    def _compute(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any) -> torch.Tensor:
        with self.step.watching(self.model, model):
            loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        return loss

    def count_samples(self, inputs: dict[str, Any]) -> int:
        return len(inputs["labels"])

    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """Returns tokens of a batch without padding, as a scalar on the device; None for images."""
        mask = inputs.get("attention_mask")
        return None if mask is None else mask.sum()

    @override
    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        # Trainer gives the norm to its logger only, which would wait for the device at each step
        self.step.grad_norm = super()._get_grad_norm(model, grad_norm)
        return self.step.grad_norm

    @override
    def get_decay_parameter_names(self, model: torch.nn.Module) -> list[str]:
        """Returns Trainer's, without the batch norms that it overlooks."""
        norms = norm_parameters(model)
        return [name for name in super().get_decay_parameter_names(model) if name not in norms]

    @override
    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Returns 0: to count would take 0.3 ms a batch, and Hone shows no FLOPs."""
        return 0

    # Evaluation

    @override
    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        with self.resuming.evaluating():
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        return metrics

    @override
    def prediction_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Evaluates one batch.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        if world_size() > 1:
            loader: Any = self.callback_handler.eval_dataloader
            self.shared.begin_batch(len(loader.dataset), self.args.eval_batch_size)
        return super().prediction_step(model, received(inputs), *args, **kwargs)

    @override
    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluates as Trainer does; of several ranks' batches as if one process had computed them."""
        self.shared.begin()
        if world_size() > 1:
            share_buffers(self.model)
            self.gather_function = lambda found: recursively_apply(rows_of_all, found, self.shared.sizes)
        averages = self.args.average_tokens_across_devices
        self.args.average_tokens_across_devices = False  # a batch's loss is the mean of its own labels
        try:
            output = super().evaluation_loop(*args, **kwargs)
        finally:
            self.args.average_tokens_across_devices = averages
        return output._replace(metrics=agreed(output.metrics))

    def undo_evaluation(self) -> None:
        """Undoes an interrupted evaluation, which the resumed run makes again."""
        self.resuming.undo_evaluation()
        step = self.state.global_step
        self.state.log_history = [entry for entry in self.state.log_history if not is_evaluation(entry, step)]

    def evaluate_if_due(self, *, is_end: bool = False) -> None:
        """Evaluates if the run ends here, or was paused before the evaluation of its last step."""
        step = self.state.global_step
        is_test = not self.state.max_steps
        if self.eval_dataset is None or not (step or is_test):
            return
        every = self.state.eval_steps
        if self.args.eval_strategy == "epoch":
            loader: Any = self.callback_handler.train_dataloader
            batches = len(loader)
            every = max(1, math.ceil(batches / self.args.gradient_accumulation_steps))
        is_due = is_end or step >= self.state.max_steps or step % every == 0
        if is_due and not any(is_evaluation(entry, step) for entry in self.state.log_history):
            self.evaluate()

    # Checkpoints

    def save_checkpoint(self) -> None:
        """Saves a checkpoint now, also where training was interrupted between two of Trainer's own.

        Raises:
            CantSave: It can't be written.
            Diverged: A weight is NaN or infinite.
        """
        self._save_checkpoint(self.model, trial=None)
        self.control: Any = self.callback_handler.on_save(self.args, self.state, self.control)

    def checkpoint_at(self, step: int) -> Path:
        return Path(str(self.args.output_dir)) / f"checkpoint-{step}"

    def load_weights(self, checkpoint: Path) -> None:
        """Loads the weights of a checkpoint only."""
        if self.is_deepspeed_enabled:
            from transformers.integrations.deepspeed import deepspeed_load_checkpoint

            deepspeed_load_checkpoint(self.model_wrapped, str(checkpoint))
        else:
            self._load_from_checkpoint(str(checkpoint))

    @override
    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        path = self.checkpoint_at(self.state.global_step)
        if self.resuming.is_saved(path):
            return
        self.resuming.begin_saving()
        check_weights_finite(self.model, self.args)
        with writing(path.parent, self.resuming.size), self.resuming.staged(path):
            super()._save_checkpoint(model, trial)

    @override
    def _save_rng_state(self, output_dir: str) -> None:
        """Saves as Trainer does; rank 0 writes the states of all, which may be on other computers."""
        if world_size() == 1:
            super()._save_rng_state(output_dir)
            return
        with TemporaryDirectory(prefix=temporary_prefix("states")) as own:
            super()._save_rng_state(own)
            files = {path.name: path.read_bytes() for path in Path(own).iterdir()}
        for states in gathered(files):
            for name, content in states.items() if rank() == 0 else ():
                (Path(output_dir) / name).write_bytes(content)

    @override
    def _get_output_dir(self, trial: Any) -> str:
        stage = self.resuming.stage
        return super()._get_output_dir(trial) if stage is None else str(stage)

    @override
    def _init_training_state(
        self,
        max_steps: int,
        num_update_steps_per_epoch: int,
        num_train_epochs: int,
        resume_from_checkpoint: str | None,
        trial: Any,
    ) -> tuple[int, int]:
        """Loads the state as Trainer does, and notes in its log where the run was extended."""
        with reading(resume_from_checkpoint):
            begun = super()._init_training_state(
                max_steps, num_update_steps_per_epoch, num_train_epochs, resume_from_checkpoint, trial
            )
            state = Path(resume_from_checkpoint) / STATE if resume_from_checkpoint else None
            planned = TrainerState.load_from_json(str(state)).max_steps if state else max_steps
        if max_steps > planned:
            self.state.log_history.append({"step": self.state.global_step, EXTENDED_TO: max_steps})
        self.state.compute_steps(self.args, max_steps)  # intervals may be fractions of the run
        return begun

    @override
    def _run_epoch(
        self,
        model: torch.nn.Module,
        epoch: int,
        train_dataloader: Any,
        steps_in_epoch: int,
        num_update_steps_per_epoch: int,
        trial: Any,
        ignore_keys_for_eval: list[str] | None,
        start_time: float,
        resume_from_checkpoint: str | None,
        epochs_trained: int,
        steps_trained_in_current_epoch: int,
    ) -> None:
        """Runs an epoch; not where the run is done already, for which Trainer would make one step too many."""
        if self.control.should_training_stop or self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return
        checkpoint, is_first = resume_from_checkpoint, epoch == epochs_trained
        if checkpoint is not None and is_first:
            if self.args.dataloader_num_workers:
                use_own_generator(train_dataloader)
            if steps_trained_in_current_epoch:
                self.resuming.load_order(checkpoint)
            self._load_rng_state(checkpoint)
            self.evaluate_if_due()
            if self.control.should_training_stop:  # by that evaluation
                return
            self.resuming.keep_random_state()
        elif is_first and rank():  # or dropout would take the same places from each rank's samples
            set_seed(self.args.seed + rank())
        super()._run_epoch(
            model,
            epoch,
            train_dataloader,
            steps_in_epoch,
            num_update_steps_per_epoch,
            trial,
            ignore_keys_for_eval,
            start_time,
            resume_from_checkpoint,
            epochs_trained,
            steps_trained_in_current_epoch,
        )

    @override
    def _load_from_checkpoint(
        self, resume_from_checkpoint: str, model: torch.nn.Module | None = None
    ) -> None:
        renamed = isinstance(self.model, PreTrainedModel) and getattr(self.model, "_weight_conversions", None)
        with reading(resume_from_checkpoint):
            if not renamed or self.is_fsdp_enabled:
                super()._load_from_checkpoint(resume_from_checkpoint, model)
                return
            # saved under other names, such as ViT's older ones, which Trainer doesn't translate (transformers 43701)
            found = type(self.model).from_pretrained(resume_from_checkpoint, dtype=self.model.dtype)
            self._issue_warnings_after_load(self.model.load_state_dict(found.state_dict(), strict=False))

    @override
    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None
    ) -> Any:
        with reading(resume_from_checkpoint):  # states of the optimizer, the schedule and DeepSpeed
            return super()._prepare_for_training(max_steps, train_dataloader, resume_from_checkpoint)

    @override
    def _load_rng_state(self, checkpoint: str | None) -> None:
        if self.resuming.restore_kept():  # that after the evaluation that was due
            return
        with reading(checkpoint):
            super()._load_rng_state(checkpoint)
            if checkpoint is not None:
                restore_random_state(Path(checkpoint), self.args.device.type)

    @override
    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Loads as Trainer does, and computes the learning rate again: the run may have been extended."""
        super()._load_optimizer_and_scheduler(checkpoint)
        schedule = self.lr_scheduler
        if checkpoint is None or not isinstance(schedule, LambdaLR):
            return
        groups = zip(schedule.optimizer.param_groups, schedule.base_lrs, schedule.lr_lambdas, strict=True)
        for group, base, factor in groups:
            group["lr"] = base * factor(schedule.last_epoch)  # torch's own formula: the same bits

    @override
    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Refuses a checkpoint that lacks weights; Trainer would only warn."""
        parameters = dict(self.model.named_parameters(remove_duplicate=False))
        missing = set(load_result.missing_keys)
        loaded = {weight.data_ptr() for name, weight in parameters.items() if name not in missing}
        lost = [
            name
            for name in sorted(missing)
            if name in parameters and parameters[name].data_ptr() not in loaded
        ]
        if lost or load_result.unexpected_keys:
            raise ModelError(
                _("The checkpoint is of another model"),
                _("Its weights differ from the run's: {names}.").format(
                    names=", ".join((lost or load_result.unexpected_keys)[:3])
                ),
            )


def _samples(dataset: Any) -> Any:
    return dataset.samples if isinstance(dataset, SentSamples) else dataset


class WeightedTrainer(WatchedTrainer):
    """Evaluates by means over batches, `means`, each batch weighted by its size; for subclasses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.means = Means()
        super().__init__(*args, **kwargs)

    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Adds a batch of an evaluation to the means."""
        raise NotImplementedError

    def eval_metrics(self) -> dict[str, float]:
        """Returns the metrics of the evaluation that has just ended, without `eval_`."""
        return self.means.all()

    @override
    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluates as Trainer does, with the metrics of `eval_metrics`."""
        self.means = Means()
        output = super().evaluation_loop(*args, **kwargs)
        self.means = Means.of_all(gathered(self.means))
        output.metrics.update({f"eval_{name}": value for name, value in self.eval_metrics().items()})
        return output

    @override
    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        result = super().compute_loss(model, inputs, *args, **kwargs)
        if not model.training and self.shared.counts:
            self.add_eval_batch(result[0] if isinstance(result, tuple) else result, inputs)
        return result


class LanguageTrainer(WeightedTrainer):
    """Trains a causal language model on blocks of text.

    Evaluation computes the loss only: the logits of a small text would take more memory than the model. `held_out` is
    the size of the validation text.
    """

    def __init__(self, *args: Any, held_out: ValidationSize | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held_out = held_out
        self._loss_shifts_labels = True  # Trainer takes it from the class's name, and GPT-2's is another

    @override
    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """Returns all tokens: blocks have no padding."""
        return torch.tensor(inputs["input_ids"].numel())

    @override
    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Adds a batch, weighted by its tokens."""
        self.means.add(inputs["labels"][:, 1:].numel(), loss=float(loss))

    @override
    def eval_metrics(self) -> dict[str, float]:
        """Returns loss and perplexity of a token."""
        means = self.means.all()
        return {**means, **perplexity_metrics(means["loss"], self._held_out)} if means else {}

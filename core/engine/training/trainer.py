"""`transformers.Trainer`, with what Hone needs to see made visible. The training loop is untouched."""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import is_compiled_module
from torch.optim.lr_scheduler import LambdaLR
from torch.overrides import TorchFunctionMode

from core.base.errors import ModelError
from core.engine.data.token_cache import NO_LABEL
from core.engine.models.parts import base_of
from core.engine.reporter import Part, StepParts, wait_for
from core.engine.tasks.metrics import HeldOut, Means, surprise
from core.engine.training import checkpoints
from core.engine.training.arguments import allow_zero_state, norm_parameters
from core.engine.training.failures import reading, refuse_lost_weights, writing
from core.engine.training.loading import (
    LoadingTrainer,
    draw_no_seed,
    live_loader,
    load_order,
    remember,
    restore_random_state,
    save_order,
    save_random_state,
)
from core.options.choices import Attention
from core.runs.models import Checkpoint, is_complete

if TYPE_CHECKING:
    from core.engine.training.compile import Compilation

# --- Sees how a run's first batch is computed: from inside the forward and the backward


SOFTMAX = (torch.softmax, torch.Tensor.softmax, torch.nn.functional.softmax)


class FirstBatch:
    """What was seen. Nothing is listened to outside `watching`.

    `autocast_dtype` is the format autocast computed in, None without autocast; `recomputed` counts the blocks whose
    forward ran again while the gradients were computed. A compiled model's are read from its graphs instead (see
    `core.engine.training.compile`).
    """

    def __init__(self, device_kind: str = "cpu") -> None:
        self._device_kind = device_kind
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.autocast_dtype: str | None = None
        self.recomputed = 0
        self._called: list[str] = []
        self._softmax = False

    @property
    def attention(self) -> tuple[str, ...]:
        """The implementations, each once. One that is written out step by step shows by its softmax alone."""
        return tuple(dict.fromkeys(self._called)) or ((Attention.EAGER.value,) if self._softmax else ())

    def saw_autocast(self, dtype: torch.dtype) -> None:
        self.autocast_dtype = str(dtype).removeprefix("torch.")

    def heard_attention(self, name: str) -> None:
        """Note an implementation that was called."""
        self._called.append(str(name))

    def heard_softmax(self) -> None:
        """Note that something was computed which attention consists of, among other things."""
        self._softmax = True

    @contextmanager
    def watching(self, model: torch.nn.Module) -> Iterator[None]:
        """Listen while `model` computes one batch forward and backward."""
        calls = _AttentionCalls(self)
        again = _Recomputation(base_of(model))
        with ExitStack() as stack:
            for part in base_of(model).children():
                stack.callback(part.register_forward_pre_hook(self._look_at_autocast).remove)
            stack.enter_context(again)
            stack.enter_context(calls)
            yield
        self.recomputed = again.blocks()

    def _look_at_autocast(self, _part: torch.nn.Module, _inputs: Any) -> None:
        """Look from within the model's parts: accelerate begins autocast inside the model's own forward."""
        if torch.is_autocast_enabled(self._device_kind):
            self.saw_autocast(torch.get_autocast_dtype(self._device_kind))


class _AttentionCalls(TorchFunctionMode):
    """Hears torch's own attention being called, and the registered ones of transformers that torch knows nothing of."""

    def __init__(self, seen: FirstBatch) -> None:
        super().__init__()
        self._seen = seen
        self._replaced: dict[str, Any] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            self._seen.heard_attention(Attention.SDPA)
        elif func in SOFTMAX:
            self._seen.heard_softmax()
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> "_AttentionCalls":
        registry = _registry()
        for name in registry.valid_keys():
            if "flash" in name:
                self._replaced[name] = registry[name]
                registry.register(name, self._listening(name, registry[name]))
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        for name, function in self._replaced.items():
            _registry().register(name, function)

    def _listening(self, name: str, function: Any) -> Any:
        def listen(*args: Any, **kwargs: Any) -> Any:
            self._seen.heard_attention(name)
            return function(*args, **kwargs)

        return listen


def _registry() -> Any:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    return ALL_ATTENTION_FUNCTIONS


class _Recomputation:
    """Hears forwards of a model's parts that begin after the model's own forward has ended."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._ended = False
        self._again: set[torch.nn.Module] = set()
        self._hooks: list[Any] = []

    def __enter__(self) -> "_Recomputation":
        self._hooks = [part.register_forward_pre_hook(self._begin) for part in self._model.modules()]
        self._hooks.append(self._model.register_forward_hook(self._end))
        return self

    def __exit__(self, *_raised: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _begin(self, part: torch.nn.Module, _inputs: Any) -> None:
        if part is self._model:
            self._ended = False
        elif self._ended:
            self._again.add(part)

    def _end(self, _model: torch.nn.Module, _inputs: Any, _output: Any) -> None:
        self._ended = True

    def blocks(self) -> int:
        """How many blocks ran again: layers of a transformer, or whatever else is outermost.

        A layer of transformers' checkpoints its inner forward, so that only what is inside it is seen to run again.
        """
        from transformers.modeling_layers import GradientCheckpointingLayer

        found: set[torch.nn.Module] = set()
        pending: list[tuple[torch.nn.Module, torch.nn.Module | None]] = [(self._model, None)]
        while pending:
            part, layer = pending.pop()
            for child in part.children():
                if child in self._again:
                    found.add(layer or child)
                else:
                    is_layer = isinstance(child, GradientCheckpointingLayer)
                    pending.append((child, child if is_layer else layer))
        return len(found)


# --- Keeps gradient accumulation right


ROUTER_WEIGHTS = ("router_aux_loss_coef", "aux_loss_coef")
"""What models of transformers call the weight of the router's loss; the latter is JetMoE's."""
MANY_ITEMS = 1 << 30


def mend_loss_scaling(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
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

            def share(*_: Any, name: str = name, weight: float = weight) -> None:
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


# --- Trainer, able to go on from a checkpoint as if it had never stopped


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

    def take_back_evaluation(self) -> None:
        """Forget the evaluation that was interrupted: it is owed, and whoever goes on from here makes it again."""
        self._undo_evaluation()
        step = self.state.global_step
        self.state.log_history = [entry for entry in self.state.log_history if not _is_of(entry, step)]

    def evaluate_owed(self) -> None:
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
        self._undo_evaluation = remember(self.args.device.type)
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
            told = {**means, **surprise(means["loss"], self._held_out)}
            found.metrics.update({f"eval_{name}": value for name, value in told.items()})
        return found

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch, as Trainer computes it."""
        found = super().compute_loss(model, inputs, *args, **kwargs)
        if not model.training:
            loss = found[0] if isinstance(found, tuple) else found
            self._means.add(inputs["labels"][:, 1:].numel(), loss=float(loss))
        return found

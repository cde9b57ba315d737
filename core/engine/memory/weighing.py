"""What the trainers of dry runs and of measurements share: an eye on what takes the memory, and on each step."""

import time
from collections.abc import Iterator
from typing import Any

import torch
from transformers import TrainerCallback

from core.engine.optimizer_state import bare, state_bytes
from core.engine.trainer import WatchedTrainer

HALVES = (torch.bfloat16, torch.float16)


class SavedTensors:
    """Bytes that a forward pass keeps for the gradients: each piece of memory once, the model's own left out.

    `copies` are weights in half precision, which autocast makes and keeps; `activations` all else.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        own = [*model.parameters(), *model.buffers()]
        self._own = {tensor.untyped_storage().data_ptr() for tensor in own}
        shapes = [tuple(tensor.shape) for tensor in own if tensor.dim() > 1]
        self._shapes = {*shapes, *(shape[::-1] for shape in shapes)}  # linear layers keep them transposed
        self._copies: dict[int, int] = {}
        self._activations: dict[int, int] = {}

    @property
    def activations(self) -> int:
        """Bytes of them."""
        return sum(self._activations.values())

    @property
    def copies(self) -> int:
        """Bytes of them."""
        return sum(self._copies.values())

    def watching(self) -> Any:
        """A context in which what is kept is counted."""
        return torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor)

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._own:
                is_copy = tensor.dtype in HALVES and tuple(tensor.shape) in self._shapes
                counted = self._copies if is_copy else self._activations
                counted[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the tensor itself would hold its own graph, and neither would ever be freed


class WeighingTrainer(WatchedTrainer):
    """Trains as a run does. `saved` is what the first batch kept for the gradients.

    It is None where the model was compiled, which hooks would cut to pieces.
    """

    saved: SavedTensors | None = None

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Compute one batch; the first is watched."""
        if self.saved is not None or self.compilation is not None:
            return super().training_step(model, inputs, num_items_in_batch)
        self.saved = SavedTensors(model)
        with self.saved.watching():
            return super().training_step(model, inputs, num_items_in_batch)


class WeighingCallback(TrainerCallback):
    """Times each step, compiling left out, and weighs what stands beside the weights on the device.

    `seconds` are all steps so far; `gradients` and `optimizer` are bytes.

    Args:
        trainer: Whose steps they are.
        kind: What it computes on: `cuda`, `mps` or `cpu`.
    """

    def __init__(self, trainer: WeighingTrainer, kind: str) -> None:
        self.seconds: list[float] = []
        self.gradients = 0
        self.optimizer = 0
        self._trainer = trainer
        self._kind = kind
        self._begun = self._mark = time.perf_counter()

    @property
    def weighs(self) -> bool:
        """Whether the gradients of this step are weighed, which takes some of its time."""
        raise NotImplementedError

    def ended(self, losses: list[torch.Tensor], control: Any) -> None:
        """A step has ended, whose time is the last of `seconds`; what is done here belongs to none.

        Args:
            losses: Those of its batches, on the device.
            control: Trainer's; may be told to stop.
        """
        raise NotImplementedError

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self._begun = self._mark = time.perf_counter()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the clock anew: what is done between two epochs is no part of a step."""
        self._mark = time.perf_counter()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Weigh the gradients while all of them are there."""
        if self.weighs:
            found = (weight.grad for weight in self._trainer.model.parameters() if weight.grad is not None)
            self.gradients = max(self.gradients, sum(grad.nbytes for grad in found if self._counts(grad)))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the time; weighing comes after the clock was read."""
        synchronize(self._kind)
        trainer = self._trainer
        compiling = trainer.compilation.step_seconds if trainer.compilation else 0.0
        seconds = time.perf_counter() - self._mark - compiling
        if self.weighs or not self.optimizer:  # with fp16 it may be made some steps later
            self.optimizer = state_bytes_on(self._kind, trainer.optimizer)
        self.seconds.append(seconds)
        losses = trainer.step_losses
        trainer.forget_step()
        self.ended(losses, control)
        self._mark = time.perf_counter()

    def _counts(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == self._kind


def synchronize(kind: str) -> None:
    """Wait until the device has computed all it was given."""
    if kind == "cuda":
        torch.cuda.synchronize()
    elif kind == "mps":
        torch.mps.synchronize()


def state_bytes_on(kind: str, optimizer: Any) -> int:
    """Bytes of an optimizer's state that lie on the device."""
    return sum(state_bytes(bare(optimizer), kind).values()) if optimizer is not None else 0


def weight_bytes_on(kind: str, model: torch.nn.Module) -> int:
    """Bytes of a model's weights that lie on the device, shared ones once, with what unpacks packed ones."""
    found = {
        tensor.data_ptr(): tensor.numel() * tensor.element_size()
        for tensor in _tensors(model)
        if tensor.device.type == kind
    }
    return sum(found.values())


def _tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    for tensor in (*model.parameters(), *model.buffers()):
        yield tensor
        state = getattr(
            tensor, "quant_state", None
        )  # of bitsandbytes' 4-bit weights; what scales its scales beside
        for holder in filter(None, (state, getattr(state, "state2", None))):
            yield from (value for value in vars(holder).values() if isinstance(value, torch.Tensor))

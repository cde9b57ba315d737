"""What is observed of training from inside: how the first batch was computed, and where a step's time goes."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from core.engine.models.parts import base_of
from core.options.choices import Attention

SOFTMAX = (torch.softmax, torch.Tensor.softmax, torch.nn.functional.softmax)


class FirstBatch:
    """How a run's first batch was computed. Nothing is observed outside `watching`.

    `autocast_dtype` is the format autocast computed in, None without autocast; `recomputed` counts the blocks whose
    forward ran again while the gradients were computed. A compiled model's are read from its graphs instead
    (`Compilation`).
    """

    def __init__(self, device_kind: str = "cpu") -> None:
        self._device_kind = device_kind
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.autocast_dtype: str | None = None
        self.recomputed = 0
        self.calls: list[str] = []
        self.computes_softmax = False

    @property
    def attention(self) -> tuple[str, ...]:
        """The implementations, each once. One that is written out step by step shows by its softmax alone."""
        return tuple(dict.fromkeys(self.calls)) or ((Attention.EAGER.value,) if self.computes_softmax else ())

    def note_autocast(self, dtype: torch.dtype) -> None:
        self.autocast_dtype = str(dtype).removeprefix("torch.")

    def note_call(self, function: Any) -> None:
        """Note a function of torch that is called, where it belongs to attention."""
        if function is torch.nn.functional.scaled_dot_product_attention:
            self.calls.append(Attention.SDPA.value)
        elif function in SOFTMAX:
            self.computes_softmax = True

    @contextmanager
    def watching(self, model: torch.nn.Module) -> Iterator[None]:
        """Observe while `model` computes one batch forward and backward.

        Autocast is looked at within the model's parts: accelerate begins it inside the model's own forward. What runs
        after that forward has ended is recomputed. transformers' registered attentions that torch knows nothing of
        are wrapped meanwhile.
        """
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        registry = ALL_ATTENTION_FUNCTIONS
        inner, again, has_ended = base_of(model), set[torch.nn.Module](), False

        def begin(part: torch.nn.Module, _inputs: Any) -> None:
            nonlocal has_ended
            if part is inner:
                has_ended = False
                return
            if torch.is_autocast_enabled(self._device_kind):
                self.note_autocast(torch.get_autocast_dtype(self._device_kind))
            if has_ended:
                again.add(part)

        def end(_model: torch.nn.Module, _inputs: Any, _output: Any) -> None:
            nonlocal has_ended
            has_ended = True

        def noting(name: str, function: Any) -> Any:
            def note(*args: Any, **kwargs: Any) -> Any:
                self.calls.append(name)
                return function(*args, **kwargs)

            return note

        with ExitStack() as stack:
            for part in inner.modules():
                stack.callback(part.register_forward_pre_hook(begin).remove)
            stack.callback(inner.register_forward_hook(end).remove)
            for name in registry.valid_keys():
                if "flash" in name:
                    stack.callback(registry.register, name, registry[name])
                    registry.register(name, noting(name, registry[name]))
            stack.enter_context(_TorchCalls(self.note_call))
            yield
        self.recomputed = _outermost(inner, again)


class _TorchCalls(TorchFunctionMode):
    def __init__(self, note: Callable[[Any], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._note(func)
        return func(*args, **(kwargs or {}))


def _outermost(model: torch.nn.Module, again: set[torch.nn.Module]) -> int:
    """How many blocks of `model` ran again: layers of a transformer, or whatever else is outermost.

    A layer of transformers' checkpoints its inner forward, so that only what is inside it is seen to run again.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    found: set[torch.nn.Module] = set()
    pending: list[tuple[torch.nn.Module, torch.nn.Module | None]] = [(model, None)]
    while pending:
        part, layer = pending.pop()
        for child in part.children():
            if child in again:
                found.add(layer or child)
            else:
                is_layer = isinstance(child, GradientCheckpointingLayer)
                pending.append((child, child if is_layer else layer))
    return len(found)


# --- Where the time of an optimizer step goes


FIRST, EVERY = 10, 100
"""Where waiting for the device costs something, one step in `EVERY` is taken apart, the first after `FIRST` steps.

Such a step takes at most twice as long, as this process and the device no longer work at the same time: 1 % in all.
"""

Wait = Callable[[], None]


class Part(Enum):
    """A part of an optimizer step. Accumulated batches add up.

    - `DATA`: fetching its batches.
    - `FORWARD`: moving them to the device, the model, the loss.
    - `BACKWARD`: the gradients; with DeepSpeed the new weights, too, which it computes in the same call.
    - `OPTIMIZER`: clipping, the new weights, the learning rate's schedule, emptying the gradients.
    """

    DATA = auto()
    FORWARD = auto()
    BACKWARD = auto()
    OPTIMIZER = auto()


@dataclass(frozen=True)
class StepTimes:
    """The parts of one step in seconds; None: not measured. They never add up to more than the step."""

    data: float | None = None
    forward: float | None = None
    backward: float | None = None
    optimizer: float | None = None


def wait_for(kind: str) -> Wait | None:
    """What waits until a device of this kind (`cuda`, `mps`, `cpu`) has done all it was given; None: nothing has to."""
    if kind == "cuda":
        return torch.cuda.synchronize
    return torch.mps.synchronize if kind == "mps" else None


class StepParts:
    """Adds up the parts of the step that is under way.

    Call `begin` before a step (again, where something else came between), `skip` where a part begins, `lap` where it
    ends and `end` after the step. Before `begin`, nothing is waited for.

    Args:
        wait: Waits for the device, as `wait_for` says.
        clock: Seconds from any beginning.
    """

    def __init__(self, wait: Wait | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self._wait = wait
        self._clock = clock
        self._until_sampled = FIRST
        self._is_sampled = False
        self._mark = 0.0
        self._spent = dict.fromkeys(Part, 0.0)
        self._fetched: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether the next step will be taken apart although that costs something: let the device be idle before it."""
        return self._wait is not None and self._until_sampled == 0

    @property
    def is_asynchronous(self) -> bool:
        """Whether the device works on after it was told to."""
        return self._wait is not None

    def begin(self) -> None:
        """A step begins; what was measured since the last one ended belongs to none."""
        self._is_sampled = self.is_due
        self._spent = dict.fromkeys(Part, 0.0)
        self._fetched = None
        self.skip()

    def skip(self) -> None:
        """The time since the last part ended belongs to no part."""
        self._mark = self._clock()

    def lap(self, part: Part) -> None:
        """The time since the last part ended, or since `skip`, belongs to `part`."""
        if self._is_sampled and self._wait is not None:
            self._wait()
        now = self._clock()
        self._spent[part] += now - self._mark
        self._mark = now

    def end(self) -> StepTimes:
        """The step is over; returns its parts."""
        self._until_sampled = EVERY - 1 if self._is_sampled else max(0, self._until_sampled - 1)
        if self._wait is None or self._is_sampled:
            return StepTimes(*(self._spent[part] for part in Part))
        return StepTimes(data=self._fetched)

    def timed(self, loader: Any) -> None:
        """Time what `loader`, torch's own, is waited for.

        Only where the device works on: there the time until Trainer has its batches says little, because copying them
        to the device may have to wait until that has worked off all steps before.
        """
        if self._wait is not None:
            iterate = loader.__iter__
            loader.__iter__ = lambda: self._fetch(iterate)  # accelerate's loader calls it by this name

    def _fetch(self, iterate: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        begun = self._clock()
        batches = iterate()  # starts the workers
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self._fetched = (self._fetched or 0.0) + self._clock() - begun
            yield batch
            begun = self._clock()

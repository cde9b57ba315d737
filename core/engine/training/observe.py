"""Observes training from inside: how the first batch was computed, and where a step's time goes."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from core.engine.devices.computing import Wait
from core.engine.models.parts import base_of
from core.options.choices import Attention

# --- The first batch


SOFTMAX = (torch.softmax, torch.Tensor.softmax, torch.nn.functional.softmax)


class FirstBatch:
    """How a run's first batch was computed; of a compiled model, read from its graphs (`Compilation`).

    Attributes:
        autocast_dtype: What autocast computed in; None without autocast.
        recomputed: The blocks whose forward ran again in the backward pass.
        calls: The attention implementations that were called.
        computes_softmax: Whether a softmax was computed: the sign of attention that is written out.
    """

    def __init__(self, device_kind: str = "cpu") -> None:
        self._device_kind = device_kind
        self.reset()

    def reset(self) -> None:
        self.autocast_dtype: str | None = None
        self.recomputed = 0
        self.calls: list[str] = []
        self.computes_softmax = False

    @property
    def attention(self) -> tuple[str, ...]:
        """The attention implementations, without duplicates."""
        return tuple(dict.fromkeys(self.calls)) or ((Attention.EAGER.value,) if self.computes_softmax else ())

    def note_autocast(self, dtype: torch.dtype) -> None:
        self.autocast_dtype = str(dtype).removeprefix("torch.")

    def note_call(self, function: Any) -> None:
        """Note a function of torch that is called."""
        if function is torch.nn.functional.scaled_dot_product_attention:
            self.calls.append(Attention.SDPA.value)
        elif function in SOFTMAX:
            self.computes_softmax = True

    @contextmanager
    def watching(self, model: torch.nn.Module) -> Iterator[None]:
        """Observe while `model` computes one batch forward and backward.

        Autocast is read inside the model's modules, because accelerate enters it in the model's own forward. A module
        that runs after that forward has ended is recomputed. transformers' flash attentions, which torch doesn't know,
        are wrapped meanwhile.
        """
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        registry = ALL_ATTENTION_FUNCTIONS
        inner, recomputed, has_ended = base_of(model), set[torch.nn.Module](), False

        def before_forward(module: torch.nn.Module, _inputs: Any) -> None:
            nonlocal has_ended
            if module is inner:
                has_ended = False
                return
            if torch.is_autocast_enabled(self._device_kind):
                self.note_autocast(torch.get_autocast_dtype(self._device_kind))
            if has_ended:
                recomputed.add(module)

        def after_forward(*_rest: Any) -> None:
            nonlocal has_ended
            has_ended = True

        def noting(name: str, function: Any) -> Any:
            def note(*args: Any, **kwargs: Any) -> Any:
                self.calls.append(name)
                return function(*args, **kwargs)

            return note

        with ExitStack() as stack:
            for module in inner.modules():
                stack.callback(module.register_forward_pre_hook(before_forward).remove)
            stack.callback(inner.register_forward_hook(after_forward).remove)
            for name in registry.valid_keys():
                if "flash" in name:
                    stack.callback(registry.register, name, registry[name])
                    registry.register(name, noting(name, registry[name]))
            stack.enter_context(_TorchCalls(self.note_call))
            yield
        self.recomputed = _outermost(inner, recomputed)


class _TorchCalls(TorchFunctionMode):
    def __init__(self, note: Callable[[Any], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._note(func)
        return func(*args, **(kwargs or {}))


def _outermost(model: torch.nn.Module, recomputed: set[torch.nn.Module]) -> int:
    """The number of outermost recomputed blocks of `model`.

    A transformers layer checkpoints its inner forward, so that only modules inside it are seen to run again.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    blocks: set[torch.nn.Module] = set()
    pending: list[tuple[torch.nn.Module, torch.nn.Module | None]] = [(model, None)]
    while pending:
        module, layer = pending.pop()
        for child in module.children():
            if child in recomputed:
                blocks.add(layer or child)
            else:
                is_layer = isinstance(child, GradientCheckpointingLayer)
                pending.append((child, child if is_layer else layer))
    return len(blocks)


# --- The parts of an optimizer step


FIRST, EVERY = 10, 100
"""On a GPU, one step in `EVERY` is measured, the first after `FIRST` steps.

A measured step takes at most twice as long, as this process waits for the device after each part: 1 % in all.
"""


class Part(StrEnum):
    """A part of an optimizer step. Accumulated batches add up.

    - `DATA`: fetching its batches.
    - `FORWARD`: moving them to the device, the model, the loss.
    - `BACKWARD`: the gradients; with DeepSpeed also the new weights, which it computes in the same call.
    - `OPTIMIZER`: clipping, the new weights, the learning rate schedule, zeroing the gradients.
    """

    DATA = "data_seconds"
    FORWARD = "forward_seconds"
    BACKWARD = "backward_seconds"
    OPTIMIZER = "optimizer_seconds"


class StepParts:
    """Measures the parts of the current step.

    Call `begin` before a step (again, if something else came between), `skip` where a part begins, `lap` where it ends
    and `end` after the step. `wait` is that of `wait_for`.
    """

    def __init__(self, wait: Wait | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.is_asynchronous = wait is not None
        self._wait = wait
        self._clock = clock
        self._until_measured = FIRST
        self._is_measured = False
        self._mark = 0.0
        self._spent = dict.fromkeys(Part, 0.0)
        self._fetched: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether the next step will be measured by waiting for the device, which has to be idle before."""
        return self.is_asynchronous and self._until_measured == 0

    def begin(self) -> None:
        self._is_measured = self.is_due
        self._spent = dict.fromkeys(Part, 0.0)
        self._fetched = None
        self.skip()

    def skip(self) -> None:
        """Leave out the time since the last part ended."""
        self._mark = self._clock()

    def lap(self, part: Part) -> None:
        """Add the time since the last part ended, or since `skip`, to `part`."""
        if self._is_measured and self._wait is not None:
            self._wait()
        now = self._clock()
        self._spent[part] += now - self._mark
        self._mark = now

    def end(self) -> dict[str, float | None]:
        """End the step; returns the parts in seconds by the fields of `StepFinished`, None if not measured."""
        self._until_measured = EVERY - 1 if self._is_measured else max(0, self._until_measured - 1)
        if not self.is_asynchronous or self._is_measured:
            return {part.value: seconds for part, seconds in self._spent.items()}
        return {**dict.fromkeys((part.value for part in Part), None), Part.DATA.value: self._fetched}

    def timed(self, loader: Any) -> None:
        """Measure the time that torch's `loader` is waited for, on devices that compute asynchronously.

        There, the time until Trainer has its batches says little: copying them may wait for all steps before.
        """
        if self.is_asynchronous:
            iterate = loader.__iter__
            loader.__iter__ = lambda: self._fetch(iterate)  # accelerate's loader calls it by this name

    def _fetch(self, iterate: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        start = self._clock()
        batches = iterate()  # starts the workers
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self._fetched = (self._fetched or 0.0) + self._clock() - start
            yield batch
            start = self._clock()

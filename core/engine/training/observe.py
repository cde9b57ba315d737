"""Observes training from inside: how the first batch was computed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

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
        """Notes a function of torch that is called."""
        if function is torch.nn.functional.scaled_dot_product_attention:
            self.calls.append(Attention.SDPA.value)
        elif function in SOFTMAX:
            self.computes_softmax = True

    @contextmanager
    def watching(self, model: torch.nn.Module) -> Iterator[None]:
        """Observes while `model` computes one batch forward and backward.

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
    """Returns the number of outermost recomputed blocks of `model`.

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

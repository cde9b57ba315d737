"""Sees how a run's first batch is computed: from inside the forward and the backward, then never again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from core.choices import Attention
from core.engine.models.parts import base_of

SOFTMAX = (torch.softmax, torch.Tensor.softmax, torch.nn.functional.softmax)


class FirstBatch:
    """What was seen. Nothing is listened to outside `watching`.

    `autocast_dtype` is the format autocast computed in, None without autocast; `recomputed` counts the blocks whose
    forward ran again while the gradients were computed. A compiled model's are read from its graphs instead (see
    `core.engine.compiled_graph`).
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
        """Note the format autocast computes in."""
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

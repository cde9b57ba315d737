"""torch.compile for a run: timed separately, abandoned if a backend fails; its graphs show what ran.

Trainer's own `torch_compile` would compile a second time at a text of another length, knows only the backends that
accelerate lists, and ends the run if one fails. The model compiled here is the one it would compile: the whole, after
accelerate has prepared it.
"""

import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from core.base.language import _
from core.engine.devices.choose import ResolvedRun
from core.engine.models.parts import base_of
from core.engine.reporter import Reporter
from core.engine.training.observe import SOFTMAX, FirstBatch
from core.engine.training.random_state import remember_random_state
from core.options import RunOptions
from core.options.choices import Attention, Padding
from core.runs.events import Phase

INDUCTOR = "inductor"


def note_graph(traced: torch.fx.GraphModule, seen: FirstBatch, device_kind: str) -> None:
    """Notes what a graph computes.

    Autocast entered outside the graph is on while it is traced; autocast entered inside is a node.
    """
    if torch.is_autocast_enabled(device_kind):
        seen.note_autocast(torch.get_autocast_dtype(device_kind))
    graphs = [part for part in traced.modules() if isinstance(part, torch.fx.GraphModule)]
    for node in (node for part in graphs for node in part.graph.nodes):
        if node.op not in ("call_function", "call_method"):
            continue
        name = node.target  # a method's bare name
        if not isinstance(name, str):
            name = f"{getattr(name, '__module__', '')}.{getattr(name, '__name__', name)}"
        if node.target is torch.nn.functional.scaled_dot_product_attention:
            seen.calls.append(Attention.SDPA.value)
        elif "flash_attn_3" in name:
            seen.calls.append(Attention.FLASH_3.value)
        elif "flash_attn" in name:
            seen.calls.append(Attention.FLASH_2.value)
        elif node.target in SOFTMAX or name.endswith("softmax"):
            seen.computes_softmax = True
        elif name.endswith("_enter_autocast") and node.args[2]:
            seen.note_autocast(node.args[1])
        elif "activation_checkpoint" in name:
            seen.recomputed += 1


class Compilation:
    """The compiled form of a run's model.

    Attributes:
        seconds: The total time of compiling.
        step_seconds: The time of compiling since the last `forget_step`.
        graphs: How many graphs the backend was given.
        failed: Whether the run goes on uncompiled.
    """

    def __init__(self, resolved: ResolvedRun, reporter: Reporter, seen: FirstBatch) -> None:
        self.seconds = 0.0
        self.step_seconds = 0.0
        self.graphs = 0
        self.failed = False
        self._options = resolved.options.device
        self._kind = resolved.kind
        self._dynamic = has_many_shapes(resolved.options)
        self._reporter = reporter
        self._seen: FirstBatch | None = seen
        self._compiled: Any = None

    @property
    def label(self) -> str:
        """Backend and mode, such as "inductor, default"; empty if nothing was compiled."""
        if self.failed or not self.graphs:
            return ""
        backend = self._options.compile_backend
        return f"{backend}, {self._options.compile_mode}" if backend == INDUCTOR else backend

    def forget_step(self) -> None:
        self.step_seconds = 0.0

    def run(self, model: torch.nn.Module, compute: Callable[[Any], torch.Tensor]) -> torch.Tensor:
        """Computes one batch, forward and backward, with the compiled model; uncompiled once that has failed."""
        if self.failed:
            return compute(model)
        restore = None
        if self._compiled is None:
            restore = _remember(model, self._kind)
            # transformers' models log in forward, which would break the graph
            torch._dynamo.config.ignore_logging_functions.add(logging.Logger.warning_once)  # type: ignore[attr-defined]
            _set_problem_type(model)
            self._compiled = torch.compile(model, backend=self._backend(), dynamic=self._dynamic)
        try:
            with self._timed():
                loss = compute(self._compiled)
        except torch._dynamo.exc.TorchDynamoException as error:
            if isinstance(getattr(error, "inner_exception", None), torch.OutOfMemoryError | MemoryError):
                raise
            traceback.print_exception(error, file=sys.stderr)
            # who failed, and what it raised
            self._give_up(" ".join(line.strip() for line in str(error).strip().splitlines()[:2]))
            if restore is not None:
                restore()
            return compute(model)
        if not self.graphs:
            self._give_up(_("torch found nothing to compile"))
        self._seen = None
        return loss.clone()  # CUDA graphs overwrite it with the next loss

    def _backend(self) -> Callable[[Any, Any], Any]:
        """Wraps the backend, found as `torch.compile` does (private in torch 2.13), in a look at its graphs."""
        name, mode = self._options.compile_backend, self._options.compile_mode
        backend: Callable[[Any, Any], Any]
        if name == INDUCTOR:
            backend = torch._TorchCompileInductorWrapper(mode, None, self._dynamic)
        else:
            from torch._dynamo.backends.registry import lookup_backend

            backend = lookup_backend(name)

        def compile_seen(traced: torch.fx.GraphModule, inputs: Any) -> Any:
            self.graphs += 1
            if self._seen is not None:
                note_graph(traced, self._seen, self._kind)
            return backend(traced, inputs)

        return compile_seen

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Times and reports compiling.

        The backward is compiled together with the forward, so that it fails before there is a gradient.
        """
        from torch._dynamo.callback import callback_handler
        from torch._functorch import config

        seconds, begun = 0.0, 0.0

        def start(_rest: Any) -> None:
            nonlocal begun
            begun = time.perf_counter()
            self._reporter.phase(Phase.COMPILING)

        def stop(_rest: Any) -> None:
            nonlocal seconds
            seconds += time.perf_counter() - begun

        callback_handler.register_start_callback(start)
        callback_handler.register_end_callback(stop)
        try:
            with config.patch(force_non_lazy_backward_lowering=True):
                yield
        finally:
            callback_handler.remove_start_callback(start)
            callback_handler.remove_end_callback(stop)
            self.seconds += seconds
            self.step_seconds += seconds
            if seconds:
                self._reporter.phase(Phase.TRAINING)

    def _give_up(self, reason: str) -> None:
        self.failed = True
        self._compiled = None
        if self._seen is not None:
            self._seen.reset()
        self._reporter.warn(
            "compile-failed",
            _("The model runs uncompiled"),
            _("{backend} could not compile it: {reason}").format(
                backend=self._options.compile_backend, reason=reason
            ),
        )


def has_many_shapes(options: RunOptions) -> bool | None:
    """Returns torch.compile's `dynamic`: True for texts padded batch by batch; None lets torch find out."""
    of_one_length = options.task.reads_images or options.data.padding is Padding.FIXED
    return None if of_one_length else True


def _remember(model: torch.nn.Module, kind: str) -> Callable[[], None]:
    """Returns a function that restores random numbers and buffers, such as the statistics of batch norms."""
    restore_random = remember_random_state(kind)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}

    def restore() -> None:
        restore_random()
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])

    return restore


def _set_problem_type(model: Any) -> None:
    """Sets what a transformers model would find out in its first forward, which would then be compiled again."""
    config = getattr(base_of(model), "config", None)
    if config is not None and getattr(config, "problem_type", "") is None and config.num_labels > 1:
        config.problem_type = "single_label_classification"

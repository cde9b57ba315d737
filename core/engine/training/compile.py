"""torch.compile for a run: timed separately, abandoned where a back end fails; its graphs tell what ran.

Trainer can compile too (`torch_compile`), and would lack three things: it compiles a second time as soon as a text of
another length comes, it takes none but the back ends accelerate lists, and a failing one ends the run. The model
compiled here is the one it would compile: after accelerate has prepared it, whole.
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
from core.engine.training.trainer import remember_random_state
from core.options import RunOptions
from core.options.choices import Attention, Padding
from core.runs.events import Phase


def look_at(traced: torch.fx.GraphModule, seen: FirstBatch, device_kind: str) -> None:
    """Add what is in a graph to what is known of the first batch.

    Autocast that begins outside the graph is on while it is traced; one that begins inside is a node of it.
    """
    if torch.is_autocast_enabled(device_kind):
        seen.note_autocast(torch.get_autocast_dtype(device_kind))
    graphs = [
        part for part in traced.modules() if isinstance(part, torch.fx.GraphModule)
    ]  # what is recomputed is one
    calls = [
        node for part in graphs for node in part.graph.nodes if node.op in ("call_function", "call_method")
    ]
    for node in calls:
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


INDUCTOR = "inductor"


class Compilation:
    """The compiled form of a run's model.

    `seconds` is the time compiling has taken in all, `step_seconds` since the last call of `forget_step`; `graphs`
    counts what the back end was given. `failed` tells that the run goes on without it.
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
        """Who compiled the model, such as "inductor, default"; empty where nobody did."""
        if self.failed or not self.graphs:
            return ""
        backend = self._options.compile_backend
        return f"{backend}, {self._options.compile_mode}" if backend == INDUCTOR else backend

    def forget_step(self) -> None:
        """Begin a new optimizer step."""
        self.step_seconds = 0.0

    def run(self, model: torch.nn.Module, compute: Callable[[Any], torch.Tensor]) -> torch.Tensor:
        """Compute one batch with the compiled form of `model`; with `model` itself once compiling it has failed.

        Args:
            model: As accelerate has prepared it.
            compute: Computes the batch forward and backward and returns its loss.
        """
        if self.failed:
            return compute(model)
        restore = _remember(model, self._kind) if self._compiled is None else None
        try:
            with self._watching():
                loss = compute(self._compiled_form(model))
        except torch._dynamo.exc.TorchDynamoException as error:
            if isinstance(getattr(error, "inner_exception", None), torch.OutOfMemoryError | MemoryError):
                raise
            traceback.print_exception(error, file=sys.stderr)  # to the log, whole
            self._give_up(_first_lines(error))
            if restore is not None:
                restore()
            return compute(model)
        if not self.graphs:
            self._give_up(_("torch found nothing in it that can be compiled."))
        self._seen = None
        return loss.clone()  # CUDA graphs write the next loss where this one lies

    def _compiled_form(self, model: torch.nn.Module) -> Any:
        if self._compiled is None:
            # transformers' models log from within forward: each such line would cut the graph in two
            torch._dynamo.config.ignore_logging_functions.add(logging.Logger.warning_once)  # type: ignore[attr-defined]
            _settle_problem_type(model)
            self._compiled = torch.compile(model, backend=self._backend(), dynamic=self._dynamic)
        return self._compiled

    def _backend(self) -> Callable[[Any, Any], Any]:
        """The back end asked for, with an eye on what it is given."""
        compile_graph = _backend(self._options.compile_backend, self._options.compile_mode, self._dynamic)

        def compile_seen(traced: torch.fx.GraphModule, inputs: Any) -> Any:
            self.graphs += 1
            if self._seen is not None:
                look_at(traced, self._seen, self._kind)
            return compile_graph(traced, inputs)

        return compile_seen

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Time what compiles, and say so while it does.

        The backward is compiled together with the forward, so that whatever fails does so before any gradient is there.
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
            self._seen.forget()
        self._reporter.warn(
            "compile-failed",
            _("The model runs uncompiled"),
            _(
                "{compile_backend} could not compile it, so the steps take as long as without: {reason}"
            ).format(compile_backend=self._options.compile_backend, reason=reason),
        )


def has_many_shapes(options: RunOptions) -> bool | None:
    """Whether to compile for every length at once: torch's `dynamic`, where None means that it finds out by itself.

    Texts that are padded batch by batch have a length of their own in each; images, and texts padded to one length,
    have one shape, but for an epoch's last batch.
    """
    of_one_length = options.task.reads_images or options.data.padding is Padding.FIXED
    return None if of_one_length else True


def _backend(name: str, mode: str, dynamic: bool | None) -> Callable[[Any, Any], Any]:
    """A back end as `torch.compile` looks it up; private in torch 2.13, which takes modes by name only."""
    found: Callable[[Any, Any], Any]
    if name == INDUCTOR:
        found = torch._TorchCompileInductorWrapper(mode, None, dynamic)
    else:
        from torch._dynamo.backends.registry import lookup_backend

        found = lookup_backend(name)
    return found


def _remember(model: torch.nn.Module, kind: str) -> Callable[[], None]:
    """Note what a batch changes besides gradients: random numbers, and statistics such as those of batch norms.

    Returns:
        What sets them back.
    """
    restore_random = remember_random_state(kind)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}

    def restore() -> None:
        restore_random()
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])

    return restore


def _first_lines(error: Exception) -> str:
    """Who failed, and what it raised: so torch begins."""
    return " ".join(line.strip() for line in str(error).strip().splitlines()[:2])


def _settle_problem_type(model: Any) -> None:
    """Say beforehand what transformers' models find out in their first forward, which then is compiled again."""
    config = getattr(base_of(model), "config", None)
    if config is not None and getattr(config, "problem_type", "") is None and config.num_labels > 1:
        config.problem_type = "single_label_classification"

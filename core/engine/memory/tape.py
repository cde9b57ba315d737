"""Notes when each tensor of a traced step comes and goes, and tells what was there at the fullest moments.

Not `torch.distributed._tools.mem_tracker.MemTracker`: see docs/decisions/0015-memory-trace.md.
"""

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from core.memory.model import Parts

CUDA_BLOCK = 512
"""CUDA's caching allocator rounds to so many bytes (`kMinBlockSize` in torch's CUDACachingAllocator)."""

EARLIER, FORWARD, TOP, MIDDLE, BOTTOM, UPDATE = "earlier", "forward", "top", "middle", "bottom", "update"
"""The phases of a step: its batches before the last, that one's forward pass, its backward pass, and the update.

The backward pass is cut where it leaves the last block and where it enters the first: within each of the pieces, memory
grows by the same with every block that a model has more.
"""

CAST = torch.ops.aten._to_copy.default


class Kind(Enum):
    """What a storage is, however long it lives."""

    WEIGHT = auto()
    GRADIENT = auto()
    STATE = auto()
    INPUT = auto()
    CAST = auto()
    """A copy of a weight in another format, as autocast makes them."""
    OTHER = auto()


@dataclass
class Held:
    """One storage: its bytes, and the first and last operator between which it is there.

    `place` is the module that made it, `span` the forward pass it was made in; 0: outside of all.
    """

    size: int
    kind: Kind
    made: int
    place: str = ""
    span: int = 0
    gone: int | None = None

    def is_there(self, moment: int) -> bool:
        """Whether it is held at that operator."""
        return self.made <= moment and (self.gone is None or moment <= self.gone)


@dataclass
class Tape:
    """Everything a step held, and the fullest moment of each of its phases.

    `begun` holds, by phase, the number of the operator before it, `peaks` the bytes and the operator's number; `ends`
    the number at which each forward pass ended.
    """

    held: list[Held] = field(default_factory=list)
    begun: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, tuple[int, int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def parts(self, moment: int) -> Parts:
        """What was held at one operator. What enters the model counts as an activation."""
        sums = dict.fromkeys(("weights", "gradients", "optimizer", "activations", "temporary"), 0)
        for one in self.held:
            if one.is_there(moment):
                sums[self._part(one)] += one.size
        return Parts(**sums)

    def kept_by(self, place: str) -> int:
        """Bytes that the first forward pass through a module leaves for the gradients."""
        end = self.ends.get(1, 0)
        inside = f"{place}."
        return sum(
            one.size
            for one in self.held
            if one.span == 1
            and one.kind in (Kind.OTHER, Kind.CAST)
            and one.is_there(end)
            and (one.place == place or one.place.startswith(inside))
        )

    def _part(self, one: Held) -> str:
        match one.kind:
            case Kind.WEIGHT:
                return "weights"
            case Kind.GRADIENT:
                return "gradients"
            case Kind.STATE:
                return "optimizer"
            case Kind.INPUT:
                return "activations"
            case Kind.CAST:
                return "temporary"
        end = self.ends.get(one.span)
        outlives = end is not None and (one.gone is None or one.gone > end)
        return "activations" if outlives else "temporary"


class Recorder(TorchDispatchMode):
    """Writes a tape while it is active. Use it inside a `FakeTensorMode`.

    Args:
        names: The modules of the model with their dotted names.
        kind: `cuda`, `mps` or `cpu`; CUDA's allocator rounds.
    """

    def __init__(self, names: Iterable[tuple[str, torch.nn.Module]], kind: str) -> None:
        super().__init__()
        self.tape = Tape()
        self.phase = ""
        self._names = {module: name for name, module in names}
        self._rounding = CUDA_BLOCK if kind == "cuda" else 1
        self._known: dict[int, tuple[Held, Any]] = {}
        self._places: list[str] = []
        self._span = 0
        self._moment = 0
        self._total = 0

    def enter(self, phase: str) -> None:
        """A phase begins."""
        self.phase = phase
        self.tape.begun[phase] = self._moment

    def note(self, tensor: torch.Tensor | None, kind: Kind) -> None:
        """Say what a tensor is, whether it is on the tape already or not."""
        if tensor is not None:
            self._held(tensor, kind).kind = kind

    def note_bytes(self, size: int, kind: Kind) -> None:
        """Write down bytes that are there all the time and that no operator makes."""
        self.tape.held.append(Held(size, kind, self._moment))
        self._total += size

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Write while the block runs, and know which module runs."""
        handles = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator and write down what it made."""
        result = func(*args, **(kwargs or {}))
        self._moment += 1
        kind = Kind.CAST if func is CAST and self._is_weight(args[0]) else Kind.OTHER
        for tensor in (result,) if isinstance(result, torch.Tensor) else tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._held(tensor, kind)
        if self._total > self.tape.peaks.get(self.phase, (0, 0))[0]:
            self.tape.peaks[self.phase] = (self._total, self._moment)
        return result

    def _held(self, tensor: torch.Tensor, kind: Kind) -> Held:
        storage = tensor.untyped_storage()
        found = self._known.get(storage._cdata)
        if found is not None:
            return found[0]
        size = -(-storage.nbytes() // self._rounding) * self._rounding
        place = self._places[-1] if self._places else ""
        held = Held(size, kind, self._moment, place, self._span if self._places else 0)
        self.tape.held.append(held)
        self._total += size
        key = storage._cdata
        self._known[key] = (held, weakref.ref(storage, lambda _: self._let_go(key)))
        return held

    def _let_go(self, key: int) -> None:
        held, _ = self._known.pop(key)
        held.gone = self._moment
        self._total -= held.size

    def _is_weight(self, tensor: torch.Tensor) -> bool:
        found = self._known.get(tensor.untyped_storage()._cdata)
        return found is not None and found[0].kind is Kind.WEIGHT

    def _enter(self, module: torch.nn.Module, _inputs: Any) -> None:
        if not self._places:
            self._span += 1
        self._places.append(self._names.get(module, self._places[-1] if self._places else ""))

    def _leave(self, _module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        self._places.pop()
        if not self._places:
            self.tape.ends[self._span] = self._moment

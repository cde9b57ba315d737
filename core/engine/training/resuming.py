"""What a run needs to go on bit for bit: its checkpoints, and the random states of some moments."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from core.engine.launch import rank
from core.engine.run import checkpoints
from core.engine.training.failures import reading
from core.engine.training.random_state import ORDER_STATE, remember_random_state, save_random_state
from core.engine.training.ranks import agreed, wait_for_all
from core.engine.training.samplers import OrderedByLength
from core.runs.models import Checkpoint, is_complete, step_of


class Resuming:
    """The checkpoints of a run and the random states that belong to them.

    Args:
        kind: The kind of its device.
        save_extras: Writes what using the model takes besides its weights: a checkpoint can be exported, too.
        begin_saving: Called before a checkpoint is written; Trainer calls its callbacks minutes later.
        size: The bytes of a checkpoint, as far as known.

    Attributes:
        order: The sampler, if its order is drawn from the global random numbers.
        stage: The folder in which a checkpoint is being written.
        saved: The checkpoint of the last save.
        is_new: Whether that was written then; it may have existed already.
    """

    def __init__(
        self,
        kind: str,
        save_extras: Callable[[Path], None] = lambda _folder: None,
        begin_saving: Callable[[], None] = lambda: None,
        size: int = 0,
    ) -> None:
        self._kind = kind
        self._save_extras = save_extras
        self.begin_saving = begin_saving
        self.size = size
        self.order: OrderedByLength | None = None
        self.stage: Path | None = None
        self.saved: Checkpoint | None = None
        self.is_new = False
        self._before_evaluation: Callable[[], None] | None = None
        self._after_evaluation: Callable[[], None] | None = None

    # Checkpoints

    def is_saved(self, path: Path) -> bool:
        """Returns whether this checkpoint exists already, which counts as the last save then."""
        self.saved, self.is_new = None, False
        if not agreed(is_complete(path)):
            return False
        self.saved = Checkpoint(step_of(path), path, _size(path))
        return True

    @contextmanager
    def staged(self, path: Path) -> Iterator[None]:
        """Lets all ranks write a checkpoint into `stage`, which rank 0 makes and completes."""
        there = nullcontext(path.parent / checkpoints.STAGE / path.name)
        with checkpoints.staged(path.parent, step_of(path)) if rank() == 0 else there as folder:
            wait_for_all()
            self.stage = folder.parent
            try:
                yield
            finally:
                self.stage = None
            wait_for_all()
            if rank() == 0:
                self._save_extras(folder)
                order = self.order.begun_with if self.order is not None else None
                save_random_state(folder, self._kind, order)
        wait_for_all()
        self.size = agreed(_size(path))
        self.saved, self.is_new = Checkpoint(step_of(path), path, self.size), True

    def load_order(self, checkpoint: str) -> None:
        """Lets the resumed epoch's order be drawn as it was, if it is drawn from the global random numbers."""
        state = Path(checkpoint) / ORDER_STATE
        if self.order is not None and state.is_file():
            with reading(checkpoint):
                self.order.begin_with = torch.load(state, weights_only=True)

    # Random states

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Remembers the random states before an evaluation, until it is complete."""
        self._before_evaluation = remember_random_state(self._kind)
        yield
        self._before_evaluation = None

    def undo_evaluation(self) -> None:
        """Goes back to the random states before an evaluation that was interrupted."""
        if self._before_evaluation is not None:
            self._before_evaluation()

    def keep_random_state(self) -> None:
        """Keeps these random states for Trainer, which loads those of the checkpoint as it begins the epoch."""
        self._after_evaluation = remember_random_state(self._kind)

    def restore_kept(self) -> bool:
        """Goes back to the random states that were kept; returns whether there are any."""
        if self._after_evaluation is None:
            return False
        self._after_evaluation()
        return True


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

"""From where a run goes on: its newest checkpoint that is as it was saved. Nothing here needs torch."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.checkpoint_files import STATE, Checkpoint, is_undamaged, newest_first
from core.engine.checkpoints import bring_back, set_aside
from core.engine.reporter import Reporter
from core.run_folder import RunFolder


@dataclass(frozen=True)
class Start:
    """Where an attempt begins. `damaged` are the checkpoints that were passed over, under the names they have now."""

    checkpoint: Checkpoint | None = None
    damaged: tuple[Path, ...] = ()

    @property
    def step(self) -> int:
        """The step it goes on from; 0 for a run that begins."""
        return self.checkpoint.step if self.checkpoint is not None else 0

    def warn(self, reporter: Reporter) -> None:
        """Say what was passed over."""
        if not self.damaged:
            return
        names = ", ".join(f"{path.parent.name}/{path.name}" for path in self.damaged)
        where = f"from the checkpoint of step {self.step:,}" if self.checkpoint else "from the beginning"
        reporter.warn(
            "checkpoint-damaged",
            f"The newest checkpoint is damaged: the run goes on {where}",
            f"Its files are no longer what was saved; a disk may be failing. It was set aside: {names}.",
        )


def find_start(run: RunFolder) -> Start:
    """Read all of the newest checkpoint and hold it against its hashes; a damaged one is set aside for the one before.

    It takes about a second for each GB. A model that was about to be replaced when the run was killed is put back, too.

    Raises:
        OSError: A damaged one can't be set aside.
    """
    damaged: list[Path] = []
    bring_back(run.model)
    for checkpoint in newest_first(run.checkpoints):
        if is_undamaged(checkpoint.path) and _is_of_its_step(checkpoint):
            return Start(checkpoint, tuple(damaged))
        damaged.append(set_aside(checkpoint.path))
    return Start(None, tuple(damaged))


class _State(msgspec.Struct):
    global_step: int


def _is_of_its_step(checkpoint: Checkpoint) -> bool:
    """Whether Trainer's own record names the step that the folder's name does."""
    try:
        state = msgspec.json.decode((checkpoint.path / STATE).read_bytes(), type=_State)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return False
    return state.global_step == checkpoint.step

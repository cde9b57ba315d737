"""Which weights a run's trained model is now: those in `model/`, or a checkpoint of steps that were trained since.

A run that was stopped, or has finished, may be gone on with: until it ends again, what stands in `model/` is older than
its newest checkpoint. Whoever hands out a run's model asks here.
"""

from dataclasses import dataclass
from pathlib import Path

from core import checkpoint_files
from core.run_folder import RunFolder
from core.run_summary import saved_model_of

WEIGHTS = "*.safetensors"


@dataclass(frozen=True)
class TrainedModel:
    """Where the newest weights of a run lie: in `model/`, or in a checkpoint.

    `step` is the one they are of, None where nobody knows. `has_gone_on`: the run has begun to train again since
    `model/` was written, and has saved nothing newer yet.
    """

    folder: Path
    step: int | None
    is_checkpoint: bool = False
    has_gone_on: bool = False


def trained_model(run: RunFolder) -> TrainedModel | None:
    """The newest weights of a run; None where it has neither a model nor a complete checkpoint."""
    saved = checkpoint_files.newest(run)
    has_model = any(run.model.glob(WEIGHTS))
    if saved is None:
        return TrainedModel(run.model, None) if has_model else None
    kept = saved_model_of(run) if has_model else None
    if kept is not None and kept.step >= saved.step:
        return TrainedModel(run.model, kept.step, has_gone_on=kept.has_gone_on)
    return TrainedModel(saved.path, saved.step, is_checkpoint=True)


def is_left_behind(run: RunFolder) -> bool:
    """Whether what stands in `model/` is older than the newest checkpoint."""
    newest = trained_model(run)
    return newest is not None and newest.is_checkpoint and any(run.model.glob(WEIGHTS))

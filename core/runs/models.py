"""Checkpoints of a run and its trained model.

A checkpoint is complete if its marker, written last, lists all files with size and hash and each has its size. Nothing
is loaded here. A run's folder isn't trusted: names in the marker that lead out of the checkpoint, and links,
make it incomplete.
"""

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.base.errors import UserError
from core.base.files import inside, is_link, open_plain, read_small
from core.base.language import _
from core.jobs.chat import Which
from core.options import RunOptions
from core.options.choices import model_title
from core.options.past_runs import run_folder
from core.runs.folder import RunFolder
from core.runs.notes import MOST_GENERATIONS, short_title, title_of
from core.runs.summary import status_at_end

# --- Checkpoints


MARKER = "complete.json"
STATE = "trainer_state.json"
"""The file without which no checkpoint can be resumed: it holds the step."""

_NAME = re.compile(r"checkpoint-([0-9]{1,15})")


class FileEntry(msgspec.Struct, frozen=True):
    """One file of a checkpoint: its size in bytes and SHA-256."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: the step it is of, its folder, and its size in bytes."""

    step: int
    path: Path
    bytes: int


def newest(run: RunFolder) -> Checkpoint | None:
    """Returns the checkpoint a run would be resumed from, by names and sizes alone; None if it would start again."""
    return next(iter(newest_first(run.checkpoints)), None)


def newest_first(folder: Path) -> list[Checkpoint]:
    """Returns all complete checkpoints of a folder, the newest first; none if it is a link."""
    found = []
    for path in _candidates(folder):
        entries = _complete_files(path)
        if STATE in entries:
            found.append(Checkpoint(step_of(path), path, sum(entry.bytes for entry in entries.values())))
    return sorted(found, key=lambda one: one.step, reverse=True)


def incomplete(folder: Path) -> list[Path]:
    """Returns the folders of incomplete checkpoints; links are left out."""
    return [path for path in _candidates(folder) if not is_complete(path)]


def is_complete(path: Path) -> bool:
    """Returns whether the marker is there and every file it lists has its size."""
    return bool(_complete_files(path))


def is_undamaged(path: Path) -> bool:
    """Returns whether every file of a complete checkpoint has the hash it was saved with. It reads all of it."""
    entries = _complete_files(path)
    try:
        for name, entry in entries.items():
            with open_plain(path / name) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
                    return False
    except OSError:
        return False
    return bool(entries)


def step_of(path: Path) -> int:
    """Returns the step in a checkpoint's name."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else -1


def _candidates(folder: Path) -> list[Path]:
    """Returns the folders that are named as checkpoints are."""
    with contextlib.suppress(OSError):  # there is none, or it can't be read
        if not is_link(folder):
            named = (path for path in folder.iterdir() if _NAME.fullmatch(path.name))
            return [path for path in named if not is_link(path) and path.is_dir()]
    return []


def _complete_files(path: Path) -> dict[str, FileEntry]:
    """Returns the files that the marker lists if all of them exist with their size; none otherwise."""
    marker = path / MARKER
    try:
        entries = (
            {} if is_link(marker) else msgspec.json.decode(read_small(marker), type=dict[str, FileEntry])
        )
        is_whole = all(_has_size(path, name, entry.bytes) for name, entry in entries.items())
    except (OSError, ValueError, RecursionError, UserError):  # ValueError: no JSON, other fields, or no UTF-8
        return {}
    return entries if is_whole else {}


def _has_size(folder: Path, name: str, size: int) -> bool:
    """Returns whether a file that the marker lists is within the checkpoint, without links, in full."""
    path = inside(folder, name)
    return not set("\\:") & set(name) and path.is_file() and path.stat().st_size == size


# --- The trained model


WEIGHTS = "*.safetensors"


@dataclass(frozen=True)
class TrainedModel:
    """The newest weights of a run: in `model/`, or in a checkpoint.

    `step` is None if unknown. `has_gone_on`: the run was resumed since `model/` was written, and saved nothing newer.
    """

    folder: Path
    step: int | None
    is_checkpoint: bool = False
    has_gone_on: bool = False


def trained_model(run: RunFolder) -> TrainedModel | None:
    """Returns the newest weights of a run; None if it has neither a model nor a complete checkpoint."""
    saved = newest(run)
    has_model = any(run.model.glob(WEIGHTS))
    if saved is None:
        return TrainedModel(run.model, None) if has_model else None
    if has_model:
        status = status_at_end(run)
        if status.model_step is None:  # written long ago
            status = status_at_end(run, and_beginning=True)
        if status.model_step is not None and status.model_step >= saved.step:
            return TrainedModel(run.model, status.model_step, has_gone_on=status.finished is None)
    return TrainedModel(saved.path, saved.step, is_checkpoint=True)


def is_left_behind(run: RunFolder) -> bool:
    """Returns whether `model/` is older than the newest checkpoint."""
    newest = trained_model(run)
    return newest is not None and newest.is_checkpoint and any(run.model.glob(WEIGHTS))


# --- What it has learned to read


def trained_length(source: str, longest: int) -> int:
    """Returns how many tokens of a text a model has learned to read, of the `longest` that it can.

    A model from scratch may have positions that no run has trained: the greatest maximum length counts, of the run that
    made it and of those that went on from it. Of a pretrained model all count.
    """
    trained = 0
    for _generation in range(MOST_GENERATIONS):
        folder = run_folder(source)
        options = None if folder is None else RunFolder(folder).readable_options()
        if options is None:
            break
        trained, source = max(trained, options.data.max_length), options.model.source
        if options.starts_random:
            return min(trained, longest)
    return longest


LARGEST_HEADER = 64 << 20
"""Bytes; a safetensors file with a longer header is not counted."""


MOST_DIMENSIONS = 16
"""A tensor with more dimensions is not counted, so that a malicious header takes no time to multiply."""


def name_of(run: RunFolder, options: RunOptions, which: Which) -> str:
    """Returns the name of a run's model as shown with its answers."""
    if which is Which.BEFORE:
        name = model_title(short_title(options.model.source))
        return _("{name} (untrained)").format(name=name) if options.starts_random else name
    title, newest = title_of(run.path, options), trained_model(run)
    if newest and newest.has_gone_on:
        return _("{title}, step {step:,}").format(title=title, step=newest.step)
    return _("{title}, model before it trained longer").format(title=title) if is_left_behind(run) else title


def lacks_model(run: RunFolder) -> str:
    """Returns why a run has no trained model to try; empty if it has one."""
    newest = trained_model(run)
    if newest is None:
        return _("It has no model: it has not finished, it was not to keep one, or its model was deleted.")
    if newest.is_checkpoint and not is_left_behind(run):
        return _(
            "Its newest weights are in the checkpoint of step {step:,}: resume the run to write its model, or export "
            "the checkpoint."
        ).format(step=newest.step)
    return ""


def count_weights(files: Iterable[Path]) -> int:
    """Counts the numbers in safetensors files (https://huggingface.co/docs/safetensors); unreadable files count 0."""
    total = 0
    for path in files:
        try:
            with open_plain(path) as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(length)) if length <= LARGEST_HEADER else {}
        except (OSError, ValueError, RecursionError):
            continue
        for tensor in header.values() if isinstance(header, dict) else ():
            shape = tensor.get("shape") if isinstance(tensor, dict) else None
            if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
                continue
            if all(isinstance(side, int) and 0 <= side < 1 << 48 for side in shape):
                total += math.prod(shape)
    return total

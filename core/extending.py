"""Letting a run train longer than it was asked to: its `run.toml` with more epochs or steps, and all else as it is."""

import re
import tomllib
from dataclasses import dataclass
from typing import Any

import msgspec
import tomli_w

from core import figures, run_file
from core.checks import read_options
from core.errors import OptionsError, Problem
from core.events import Outcome
from core.files import write_atomically
from core.options import RunOptions
from core.run_folder import RunFolder
from core.story import RunStory

_SECTION = re.compile(r"^[ \t]*\[[ \t]*training[ \t]*\][ \t]*(#.*)?$\n?", re.MULTILINE)
_NEXT_SECTION = re.compile(r"^[ \t]*\[", re.MULTILINE)


@dataclass(frozen=True)
class Extension:
    """How long a run is to train in all: so many epochs or so many steps, one of them."""

    epochs: float | None = None
    max_steps: int | None = None


def raise_to(run: RunFolder, options: RunOptions, story: RunStory, extension: Extension) -> None:
    """Write into a run's `run.toml` how long it is to train in all.

    Args:
        run: The run.
        options: What its `run.toml` asks for.
        story: What it has done.
        extension: What it is to ask for from now on.

    Raises:
        OptionsError: That is no more than it has done, or was asked to do; what it was asked to do and hasn't done may
            be asked for again: whoever did may have been killed in between. Nothing has been written.
        OSError: It can't be written.
    """
    name, value = _change(options, story, extension)
    wanted = msgspec.structs.replace(
        options, training=msgspec.structs.replace(options.training, **{name: value})
    )
    problems = read_options(run_file.to_tree(wanted))[1]
    if problems:
        raise OptionsError(problems)
    write_atomically(run.options_file, _edited(run, name, value) or run_file.dumps(wanted).encode())
    if run.options() != wanted:  # it says the same in other words somewhere else
        run_file.write(wanted, run.options_file)


def put_back(run: RunFolder, content: bytes) -> None:
    """Write a run's `run.toml` as it was, unless it still is.

    Raises:
        OSError: It can't be written.
    """
    if run.options_file.read_bytes() != content:
        write_atomically(run.options_file, content)


def _change(options: RunOptions, story: RunStory, extension: Extension) -> tuple[str, float | int]:
    asked = options.training
    if extension.max_steps is not None:
        least = max(story.step, asked.max_steps or 0)
        if extension.max_steps != asked.max_steps or least <= story.step:
            _refuse(extension.max_steps, least, figures.counted(least, "step"), "training.max_steps")
        return "max_steps", extension.max_steps
    if extension.epochs is None:
        raise OptionsError((Problem("training.epochs", "say for how many epochs or steps in all"),))
    if asked.max_steps is not None:
        steps = figures.counted(asked.max_steps, "step")
        raise OptionsError(
            (Problem("training.epochs", f"the run was asked for {steps}, whatever the epochs; name steps"),)
        )
    least_epochs = max(story.epoch, asked.epochs)
    if extension.epochs != asked.epochs or least_epochs <= _epochs_done(story):
        counted = figures.counted(round(least_epochs, 2), "epoch")
        _refuse(extension.epochs, least_epochs, counted, "training.epochs")
    return "epochs", float(extension.epochs)


def _epochs_done(story: RunStory) -> float:
    """The passes a run has made; of one that has finished, all that it had planned."""
    is_done = story.finished is not None and story.finished.state is Outcome.FINISHED
    return max(story.epoch, story.plan.epochs) if is_done and story.plan is not None else story.epoch


def _refuse(value: float, least: float, counted: str, path: str) -> None:
    if not value > least:  # which no NaN is
        raise OptionsError((Problem(path, f"it has been asked for {counted} already; name more"),))


def _edited(run: RunFolder, name: str, value: float) -> bytes | None:
    """The content of `run.toml` with one value changed and all else as it stands; None where that isn't plain."""
    text = run.options_file.read_bytes().decode("utf-8", errors="strict")
    tree: dict[str, Any] = tomllib.loads(text)
    section = tree.setdefault("training", {})
    section[name] = value
    line = tomli_w.dumps({name: value}).rstrip()
    header = _SECTION.search(text)
    if header is None:
        edited = f"{text.rstrip()}\n\n[training]\n{line}\n"
    else:
        following = _NEXT_SECTION.search(text, header.end())
        end = following.start() if following else len(text)
        body = text[header.end() : end]
        known = re.compile(rf"^([ \t]*){name}[ \t]*=[^#\n]*?(?=[ \t]*(#.*)?$)", re.MULTILINE)
        body, changes = known.subn(lambda found: found[1] + line, body, count=1)
        edited = text[: header.end()] + ("" if changes else line + "\n") + body + text[end:]
    try:
        return edited.encode() if tomllib.loads(edited) == tree else None
    except tomllib.TOMLDecodeError:
        return None

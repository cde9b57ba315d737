"""More invented runs for the pictures of the list and of the comparison: the same digits, asked otherwise."""

import time
from pathlib import Path

import msgspec

from core import run_file, run_notes
from core.run_folder import RunFolder
from core.run_notes import RunNotes
from gui.invented_runs import Plot, finish, write_story

STEPS, EPOCHS = 225, 5

TRIED = (
    (
        "Digits, lr 3e-4",
        3e-4,
        Plot(pace=0.55, seed=11),
        RunNotes(tags=("lr",), text="Too slow, still falling."),
    ),
    (
        "Digits, lr 3e-3",
        3e-3,
        Plot(pace=1.7, seed=12),
        RunNotes(tags=("lr", "best"), text="The best so far."),
    ),
    ("Digits, lr 1e-2", 1e-2, Plot(pace=0.8, seed=13), RunNotes(tags=("lr",))),
)


def make_tried(folder: Path, example: Path) -> list[RunFolder]:
    """Write finished runs with other learning rates into `folder`, each with tags and most with a note."""
    return [_make(folder, example, number) for number in range(len(TRIED))]


def _make(folder: Path, example: Path, number: int) -> RunFolder:
    name, rate, story, notes = TRIED[number]
    run = RunFolder(folder / f"2026-11-19-210{number}-digits")
    run.model.mkdir(parents=True)
    (run.model / "model.safetensors").write_bytes(bytes(45_000_000 - 2_000_000 * number))
    asked = run_file.read(example)
    changed = msgspec.structs.replace(
        asked,
        training=msgspec.structs.replace(asked.training, learning_rate=rate),
        output=msgspec.structs.replace(asked.output, name=name),
    )
    run_file.write(changed, run.options_file)
    plot = Plot(
        steps=STEPS,
        epochs=EPOCHS,
        reached=STEPS,
        start=time.time() - 2 * 86_400 + 900 * number,
        pace=story.pace,
        seed=story.seed,
    )
    finish(run, plot, write_story(run, plot))
    run_notes.write(run.path, notes)
    return run

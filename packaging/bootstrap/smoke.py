"""A frozen Hone in use, from its version to its window: a step for each library that freezing may have lost."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bootstrap.errors import SetupError
from bootstrap.trial import PAINTED, Person, judged, somebody

if TYPE_CHECKING:
    from bootstrap.trial import Command

ROWS = 24
DIGITS = "resources/examples/digits.hone"
IMAGE = "packaging/icons/hone-16.png"
WRITER = """schema = 1
task = "causal-lm"
model = {source = "scratch:llama-tiny"}
data = {train = "story.txt", max_length = 64}
memory = {batch_size = 4}
training = {max_steps = 3}
device = {name = "cpu"}
"""


class Step(NamedTuple):
    """What the program is asked for in its home, and words that its answer has to hold."""

    name: str
    arguments: Command
    says: str = ""


def run(program: Path, root: Path) -> None:
    """Let somebody with a new home use a program.

    Args:
        program: A built program, or whatever starts Hone.
        root: The checkout it was built from.

    Raises:
        SetupError: A step failed.
    """
    with somebody() as person:
        use(person, program, root)


def use(
    person: Person,
    program: Path,
    root: Path,
    through: Command = (),
    more: Mapping[str, str] | None = None,
) -> None:
    """Go through all steps in a person's home, a line each.

    Args:
        person: Who starts the program.
        program: The program.
        root: The checkout it was built from.
        through: A program that starts the window.
        more: Variables for the window.

    Raises:
        SetupError: A step failed.
    """
    print(f"\n{program} in use", flush=True)
    write_data(person.home, root)
    failed = [step.name for step in steps(person.home, version(root)) if not _passes(person, program, step)]
    window = Step("the window is painted and closed", ["digits.hone"], "first-paint")
    if not _passes(person, program, window, through, {**PAINTED, **(more or {})}):
        failed.append(window.name)
    if failed:
        raise SetupError(f"{program} fails: {', '.join(failed)}.")


def _passes(
    person: Person, program: Path, step: Step, through: Command = (), more: Mapping[str, str] | None = None
) -> bool:
    began = time.monotonic()
    reason = judged(person.run([*through, program, *step.arguments], more), 0, step.says)
    word = "FAILED" if reason else "ok"
    print(f"{word:9} {time.monotonic() - began:6.1f} s  {step.name}{reason and ': '}{reason}", flush=True)
    return not reason


def version(root: Path) -> str:
    """Hone's version, as its source says it."""
    source = (root / "core" / "base" / "settings.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'^VERSION = "(.+)"$', source, re.MULTILINE)
    return str(found)


def write_data(home: Path, root: Path) -> None:
    """Put run files, texts, conversations and an image into a home."""
    shutil.copyfile(root / DIGITS, home / "digits.hone")
    shutil.copyfile(root / IMAGE, home / "image.png")
    talks = [
        [{"role": "user", "content": f"After {n}?"}, {"role": "assistant", "content": f"{n + 1}."}]
        for n in range(ROWS)
    ]
    files = {
        "writer.hone": WRITER,
        "reviews.csv": "text,label\n" + "".join(f"“fine” {n},{n % 2}\n" for n in range(ROWS)),
        "story.txt": "".join(f"The quick brown fox jumps over dog number {n}.\n" for n in range(40 * ROWS)),
        "talks.jsonl": "".join(json.dumps({"messages": talk}) + "\n" for talk in talks),
        "pairs.jsonl": "".join(
            json.dumps({"prompt": f"After {n}?", "chosen": f"{n + 1}.", "rejected": "The dog."}) + "\n"
            for n in range(ROWS)
        ),
    }
    for name, text in files.items():
        (home / name).write_text(text, encoding="utf-8")


def steps(home: Path, number: str) -> list[Step]:
    """The steps before the window, each of which may use what those before it have made."""
    beside_writer = (f"model.source=run:{home / 'writer'}", "model.method=lora")
    return [
        Step("the version", ["--version"], number),
        Step("devices", ["devices"], "torch"),
        Step("data is read", ["inspect", "reviews.csv"], f"{ROWS} rows"),
        Step(
            "the digits are trained, loaded by two processes",
            _train("digits.hone", "digits", "training.epochs=1", "data.workers=2", "device.name=cpu"),
            "Finished after 45 steps",
        ),
        Step("they are asked", ["try", "digits", "--cpu", "--file", "image.png"], "%"),
        Step("and exported", ["export", "digits", "--to", "folder", "--folder", "out"], "the same"),
        Step("a model that writes", _train("writer.hone", "writer"), "Finished after 3 steps"),
        Step(
            "LoRA on conversations",
            _train("writer.hone", "lora", "task=chat", "data.train=talks.jsonl", *beside_writer),
            "Finished after 3 steps",
        ),
        Step("it answers", ["try", "lora", "--cpu", "--json", "--prompt", "After 1?"], '"answered"'),
        Step("and is merged", ["export", "lora", "--to", "merged", "--folder", "merged"], "the same"),
        Step(
            "LoRA on preferences",
            _train("writer.hone", "dpo", "task=preference", "data.train=pairs.jsonl", *beside_writer),
            "Finished after 3 steps",
        ),
        Step("a forecast", ["forecast", "digits.hone"], "fits"),
    ]


def _train(file: str, name: str, *changes: str) -> list[str]:
    flags = [part for change in changes for part in ("--set", change)]
    return ["train", file, "--run-dir", name, *flags]

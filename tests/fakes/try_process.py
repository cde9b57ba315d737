"""A stand-in for the process that holds a model: `python try_process.py SCENARIO`, lines in, lines out."""

import sys
import time
from pathlib import Path

import msgspec

from core.base import ceiling
from core.base.errors import Fix
from core.base.jobs import FailureReport
from core.jobs.chat import (
    Answered,
    Ask,
    Chance,
    Chat,
    Close,
    EndedBy,
    Files,
    FilesPart,
    Image,
    Load,
    Loaded,
    NotAnswered,
    NotLoaded,
    Said,
    Stop,
    TextPiece,
    Which,
    Word,
)
from core.options.choices import Speaker, Task

REFUSED = FailureReport(
    title="The model before training is gone", detail="/data/writer", fixes=(Fix("Put it back"),)
)


def send(message: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def receive() -> Said | None:
    line = sys.stdin.buffer.readline()
    return msgspec.json.decode(line, type=Said) if line else None


def name_of(which: Which) -> str:
    return "Handwritten digits" if which is Which.TRAINED else "resnet18"


def answer(asked: Ask, load: Load) -> None:
    name, given = name_of(Which.BEFORE if asked.before else load.which), asked.given
    done = {"id": asked.id, "name": name, "device": "cpu", "dtype": "fp32", "seconds": 0.5, "read": 7}
    if isinstance(given, Chat):
        turns = sum(turn.role is Speaker.USER for turn in given.turns)
        text = f"Answer {turns} of {name}, drawn with {asked.writing.seed}."
        for word in text.split(" "):
            send(TextPiece(id=asked.id, text=word if word == "Answer" else f" {word}"))
        send(Answered(text=text, ended_by=EndedBy.MODEL, tokens=5, **done))
    elif isinstance(given, Image):
        path = Path(given.path)
        seen = {"image": path.read_bytes(), "swapped": path.stem == "light"}
        send(Answered(chances=(Chance("seven", 0.75), Chance("one", 0.25)), **seen, **done))
    elif isinstance(given, Files):
        answer_files(asked, given, done)
    elif given.texts == ("refuse",):
        send(NotAnswered(id=asked.id, error=FailureReport(title="Nothing to read", detail="It is empty.")))
    elif given.texts == ("words",):
        send(Answered(words=(Word(0, 5, "B-THING", 0.9),), **done))
    elif given.texts == ("number",):
        send(Answered(number=3.25, **done))
    elif given.texts == ("crash",):
        raise RuntimeError("a bug in the fake model")
    elif given.texts == ("long",):
        write_until_stopped(asked, done)
    else:
        send(
            Answered(
                chances=(Chance("yes", 0.9), Chance("no", 0.1)), notes=(f"{len(given.texts)} read",), **done
            )
        )


def answer_files(asked: Ask, files: Files, done: dict[str, object]) -> None:
    path = Path(files.paths[0])
    if path.suffix == ".png":
        lines, added = ["file", *files.paths], ",seven,0.7500"
    else:
        lines, added = path.read_text().splitlines(), ",yes,0.9000"
    if lines == ["refuse"]:
        refusal = FailureReport(title=f"{path.name} has no column of texts", detail="It has none.")
        send(NotAnswered(id=asked.id, error=refusal))
        return
    send(FilesPart(id=asked.id, done=1, total=len(lines) - 1))
    rows = [f"{lines[0]},predicted,probability", *(f"{line}{added}" for line in lines[1:])]
    Path(files.output).write_text("\n".join(rows), encoding="utf-8-sig")
    send(Answered(rows=len(lines) - 1, added=("predicted", "probability"), **done))


def write_until_stopped(asked: Ask, done: dict[str, object]) -> None:
    send(TextPiece(id=asked.id, text="on and "))
    while True:
        message = receive()
        if isinstance(message, Stop) and message.id == asked.id:
            send(Answered(text="on and ", ended_by=EndedBy.PERSON, tokens=2, **done))
            return
        if message is None or isinstance(message, Close):
            sys.exit(0)


def serve(load: Load, task: Task) -> None:
    send(
        Loaded(name=name_of(load.which), task=task, device="cpu", dtype="fp32", labels=("yes", "no"), sees=64)
    )
    while isinstance(message := receive(), Ask | Stop):
        if isinstance(message, Ask):
            answer(message, load)


def main(scenario: str) -> None:
    load = receive()
    assert isinstance(load, Load)
    match scenario:
        case "hang":
            time.sleep(60)
        case "refuse":
            send(NotLoaded(error=REFUSED))
            sys.exit(1)
        case "refuse-before" if load.which is Which.BEFORE:
            send(NotLoaded(error=REFUSED))
            sys.exit(1)
        case "spin":
            ceiling.say("The tokenizer", ceiling.Pace.QUICK)
            while True:
                pass
        case "nonsense":
            print("no line of ours", flush=True)
            time.sleep(60)
        case _:
            serve(load, Task.CHAT)


def command(scenario: str = "chat") -> list[str]:
    """The command that starts it."""
    return [sys.executable, str(Path(__file__)), scenario]


if __name__ == "__main__":
    main(sys.argv[1])

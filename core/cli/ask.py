"""`hone try`: asks a run's model in the terminal, the trained one or the one it started from."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from core.base import settings
from core.base.errors import OptionsError, OutOfMemory, Problem, UserError
from core.base.format import visible
from core.base.jobs import FailureReport
from core.cli.output import NAME_HELP, say
from core.cli.runs import find_run
from core.options import RunOptions
from core.options.choices import Speaker
from core.runs.folder import RunFolder
from core.runs.summary import summarize
from core.services.chat import (
    Answered,
    Ask,
    Chat,
    EndedBy,
    Given,
    Image,
    Load,
    Loaded,
    NotAnswered,
    Piece,
    Start,
    Texts,
    Told,
    TryProcess,
    Turn,
    Which,
    Writing,
    free_memory,
    judge,
    need_of,
    that_train,
)

if TYPE_CHECKING:
    from core.cli.output import Commands


# --- `hone try`: asks a run's model in the terminal, the trained one or the one it started from


STANDARD_INPUT = "-"
SHOWN = 10
"""Labels that are printed, the likeliest first."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says: one prompt, or two for a pair of texts; `file` is an image."""

    run: str
    before: bool = False
    prompts: tuple[str, ...] = ()
    file: Path | None = None
    system: str = ""
    on_cpu: bool = False
    as_json: bool = False
    writing: Writing = Writing()


def try_run(asked: Asked, start: Start = TryProcess) -> int:
    """Ask and print the answer as it comes; without a prompt, in a terminal, ask on and on.

    Args:
        asked: What is asked, and of which run.
        start: Starts the process of a model.

    Returns:
        0; 1 where a question couldn't be answered.

    Raises:
        OptionsError: There is no such run, or it can't be asked that.
        UserError: The model can't be loaded now.
    """
    run = find_run(asked.run)
    options = run.options()
    _check(asked, options)
    which = Which.BEFORE if asked.before else Which.TRAINED
    _check_room(run, options, which, on_cpu=asked.on_cpu)
    questions = _questions(asked, options)
    process = start(Load(run=str(run.path.absolute()), which=which, on_cpu=asked.on_cpu))
    return _Talk(process, asked, questions).hold()


def _check(asked: Asked, options: RunOptions) -> None:
    """Refuse what the model doesn't read.

    Raises:
        OptionsError: It reads something else.
    """
    if options.task.reads_images and asked.file is None:
        raise OptionsError((Problem("", "this run's model reads images; name one with --file"),))
    if not options.task.reads_images and asked.file is not None:
        raise OptionsError((Problem("", "this run's model reads texts; give one with --prompt"),))
    if asked.file is not None and not asked.file.is_file():
        raise OptionsError((Problem("", f"there is no file {asked.file}"),))


def _check_room(run: RunFolder, options: RunOptions, which: Which, *, on_cpu: bool) -> None:
    training = [summarize(found).title for found in that_train(settings.runs_folder())]
    verdict = judge([need_of(run, options, which)], free_memory(), training, on_cpu=on_cpu)
    if not verdict.allowed:
        hint = " --cpu does that." if verdict.cpu_helps else ""
        raise OutOfMemory(verdict.title, verdict.detail + hint)


def _questions(asked: Asked, options: RunOptions) -> Iterator[Given]:
    """What is to be asked, one after the other: that of the command line, or what is typed."""
    if asked.file is not None:
        yield Image(path=str(asked.file.absolute()))
    elif asked.prompts and asked.prompts != (STANDARD_INPUT,):
        yield _given(asked, options, asked.prompts)
    elif asked.prompts or not sys.stdin.isatty():
        yield _given(asked, options, (sys.stdin.read().rstrip("\n"),))
    else:
        say("Ctrl-D ends it.", sys.stderr)
        while (line := _typed()) is not None:
            if line.strip():
                yield _given(asked, options, (line,))


def _given(asked: Asked, options: RunOptions, texts: tuple[str, ...]) -> Given:
    if options.task.reads_conversations:
        return Chat(turns=(Turn(Speaker.USER, "\n".join(texts)),), system=asked.system)
    return Texts(texts=texts)


def _typed() -> str | None:
    try:
        return input("> ")
    except EOFError:
        say("")
        return None


class _Talk:
    """One conversation with a process, from the first question to the last answer."""

    def __init__(self, process: TryProcess, asked: Asked, questions: Iterator[Given]) -> None:
        self._process = process
        self._asked = asked
        self._questions = questions
        self._turns: tuple[Turn, ...] = ()
        self._text = ""
        self._number = 0
        self._status = 0

    def hold(self) -> int:
        """Ask all questions; returns the exit status."""
        try:
            for told in self._process.lines():
                self._take(told)
        except BaseException:  # Ctrl-C, or a question that can't be read: no process is left
            self._process.kill()
            raise
        return self._status

    def _take(self, told: Told) -> None:
        if self._asked.as_json and not isinstance(told, Piece):
            say(msgspec.json.encode(told).decode())
        match told:
            case Loaded():
                if not self._asked.as_json:
                    say(f"{told.name}, on {told.device} in {told.dtype}", sys.stderr)
                self._ask_next()
            case Piece() if not self._asked.as_json:
                say(told.text, end="")
            case Answered():
                self._finish(told)
                self._ask_next()
            case NotAnswered():
                self._status = 1
                say(_failure(told.error), sys.stderr)
                self._ask_next()

    def _ask_next(self) -> None:
        given = next(self._questions, None)
        if given is None:
            self._process.close()
            return
        if isinstance(given, Chat):
            self._turns = (*self._turns, *given.turns)
            given = Chat(turns=self._turns, system=given.system)
        self._text = " ".join(given.texts) if isinstance(given, Texts) else ""
        self._number += 1
        self._process.say(Ask(id=self._number, given=given, writing=self._asked.writing))

    def _finish(self, answered: Answered) -> None:
        self._turns = (*self._turns, Turn(Speaker.ASSISTANT, answered.text))
        if self._asked.as_json:
            return
        for line in lines_of(answered, self._text):
            say(line)
        for note in (*answered.notes, figures_of(answered)):
            say(note, sys.stderr)


def lines_of(answered: Answered, text: str = "") -> list[str]:
    """What is printed at the end of an answer: of a written one, whose pieces stand there already, the line's end.

    Args:
        answered: The answer.
        text: What it was asked about.
    """
    if answered.chances:
        return [f"{one.chance:>7.1%}  {visible(one.label)}" for one in answered.chances[:SHOWN]]
    if answered.number is not None:
        return [f"{answered.number:.4g}"]
    if answered.ended_by is not None:
        return [" …" if answered.ended_by is EndedBy.LENGTH else ""]
    return [f"{word.chance:>7.1%}  {word.label}  {text[word.start : word.end]}" for word in answered.words]


def figures_of(answered: Answered) -> str:
    """Whose answer it is and what it took, such as "digits: 41 tokens in 1.2 s (34 a second), cpu, bf16"."""
    speed = answered.tokens_per_second
    wrote = "" if speed is None else f"{answered.tokens} tokens in "
    pace = "" if speed is None else f" ({speed:.0f} a second)"
    return f"{answered.name}: {wrote}{answered.seconds:.2f} s{pace}, {answered.device}, {answered.dtype}"


def _failure(error: FailureReport) -> str:
    return str(UserError(error.title, error.detail, error.fixes))


# --- The command line of `hone try`


def add_trying(commands: "Commands") -> None:
    """Add `try` to a command line."""
    command = commands.add_parser(
        "try",
        help="ask a run's model: chat, go on with a text, classify a text or an image",
        description="Ask the model a run has trained, or the one it started from. Without --prompt or --file it asks "
        "for a line after the other in a terminal, and reads standard input elsewhere. It waits while a run trains.",
    )
    command.add_argument("name", metavar="RUN", help=NAME_HELP)
    command.add_argument(
        "prompt_from",
        nargs="?",
        choices=[STANDARD_INPUT],
        metavar="-",
        help="read the prompt from standard input",
    )
    command.add_argument("--before", action="store_true", help="ask the model the run started from")
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "--prompt",
        action="append",
        default=[],
        metavar="TEXT",
        help="what is asked; twice for a model that reads pairs of texts",
    )
    what.add_argument("--file", type=Path, metavar="IMAGE", help="an image to classify")
    command.add_argument("--cpu", action="store_true", help="on the CPU, beside a run that trains, too")
    command.add_argument("--json", action="store_true", help="print answers as JSON, a line each")
    _add_writing(command)
    command.set_defaults(run=_run_try)


def _add_writing(command: argparse.ArgumentParser) -> None:
    writing = command.add_argument_group("for models that write")
    plain = Writing()
    writing.add_argument("--system", default="", metavar="TEXT", help="what the assistant is told before")
    writing.add_argument("--max-tokens", type=int, default=plain.max_tokens, metavar="N")
    writing.add_argument(
        "--temperature",
        type=float,
        default=plain.temperature,
        metavar="T",
        help="0: always the likeliest token; default: 0",
    )
    writing.add_argument(
        "--top-p", type=float, default=plain.top_p, metavar="P", help="default: 1, all tokens"
    )
    writing.add_argument("--seed", type=int, default=plain.seed, metavar="N", help="default: 0")
    writing.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="end where this is written; may be repeated",
    )


def _run_try(parsed: argparse.Namespace) -> int:
    """Ask as the command line says; argparse's names are turned into those of `Asked`."""
    return try_run(
        Asked(
            run=parsed.name,
            before=parsed.before,
            prompts=tuple(parsed.prompt) or ((STANDARD_INPUT,) if parsed.prompt_from else ()),
            file=parsed.file,
            system=parsed.system,
            on_cpu=parsed.cpu,
            as_json=parsed.json,
            writing=Writing(
                max_tokens=parsed.max_tokens,
                temperature=parsed.temperature,
                top_p=parsed.top_p,
                seed=parsed.seed,
                stop_at=tuple(parsed.stop),
            ),
        )
    )

"""The command line of `hone try`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from core.commands.arguments import NAME_HELP
from core.commands.trying import STANDARD_INPUT, Asked, try_run
from core.trying import Writing

if TYPE_CHECKING:
    from core.commands.arguments import Commands


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
    command.set_defaults(run=_run)


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


def _run(parsed: argparse.Namespace) -> int:
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

"""What all commands share: printing, asking, exit statuses, and the declaration of commands and common arguments."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NoReturn, Self, TextIO

import msgspec
from tqdm import tqdm

from core.base.errors import OptionsError, Problem, UserError
from core.base.formats import capitalized, paragraph, visible
from core.base.jobs import JobProgress
from core.base.language import _, ngettext
from core.hosts.sending import agree
from core.options import RunOptions
from core.services.downloads import DownloadPace, progress_text
from core.services.sending import request_for, to_ask

WRONG_REQUEST = 2
TOO_LARGE = 3
"""Exit status: the run doesn't fit into memory."""
INTERRUPTED = 130

SEND_HELP = _("send files to another computer without asking")
NAME_HELP = _("a run's name in `hone runs`, a part of it that no other has, its folder, or `latest`")
NEW_FILE = _("a new file; default: print it")
OFFLINE_HELP = _("download nothing; the same as HF_HUB_OFFLINE=1")


# --- Printing and asking


def say(text: object, stream: TextIO | None = None, *, end: str = "\n") -> None:
    """Prints to standard output or `stream`, with control characters from data and names made visible."""
    print(visible(str(text)), file=stream or sys.stdout, end=end, flush=True)


def note(text: object) -> None:
    """Prints to standard error."""
    say(text, sys.stderr)


def print_no_more() -> None:
    """Throws away what a stream still holds that nobody reads, and all that is printed to it from now on.

    Python would try again as the program ends, and make its exit status 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_json(value: Any) -> None:
    say(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_answer(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Prints an answer as JSON or as lines of text; the lines are only computed if they are printed."""
    if as_json:
        print_json(value)
    else:
        say("\n".join(lines))


def refuse(message: str) -> NoReturn:
    """Rejects a request.

    Raises:
        OptionsError: Always.
    """
    raise OptionsError((Problem("", message),))


def confirm(question: str) -> bool:
    """Asks in the terminal; anything but yes is no.

    Raises:
        OptionsError: There is no terminal.
    """
    if not sys.stdin.isatty():
        refuse(_("not a terminal, use --yes"))
    return input(f"{question} [y/N] ").strip().casefold() in ("y", "yes")


def ask_to_send(asked: Sequence[RunOptions], *, is_agreed: bool, chosen: Collection[str] = ()) -> None:
    """Asks whether the files of these runs may leave for other computers, unless that was agreed to before.

    Args:
        is_agreed: Whether `--yes` is the answer.
        chosen: Options that were given in the command line.

    Raises:
        OptionsError: There is no terminal, or something is no data.
        UserError: The answer is no, or something can't be sent.
    """
    if parcels := to_ask(asked, chosen):
        note(_("Checking what would be sent…"))
        request = request_for(asked, parcels)
        if not is_agreed and not sys.stdin.isatty():
            refuse("\n".join((request.title, *request.lines, _("not a terminal, use --yes"))))
        note("\n".join(request.lines))
        if not is_agreed and not confirm(request.title):
            raise UserError(_("Nothing was sent, and nothing started"))
    agree(asked)


class JobOutput:
    """Shows a job's progress on standard error.

    In a terminal a job with a `title` and a download have a bar. Elsewhere a line is printed for each phase, and for
    each tenth of a download.
    """

    def __init__(self, title: str = "", *, is_download: bool = False, quiet: bool = False) -> None:
        self._title = title
        self._is_download = is_download
        self._quiet = quiet
        self._pace = DownloadPace()
        self._shown = ("", -1)
        self._bar: tqdm | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.close()

    def show(self, progress: JobProgress) -> None:
        self._pace.add(progress)
        if self._quiet:
            return
        if (self._title or self._is_download) and sys.stderr.isatty():
            if self._bar is None:
                tqdm.monitor_interval = 0  # no monitor thread for a bar that is updated ten times a second
                self._bar = tqdm(
                    total=100, leave=False, bar_format="{desc}: {percentage:3.0f} %|{bar}|{postfix}"
                )
            self._bar.set_description_str(progress.what or self._title, refresh=False)
            self._bar.set_postfix_str(self._amount(progress), refresh=False)
            self._bar.update(round(100 * progress.share) - self._bar.n)
            return
        shown = (progress.what, int(10 * progress.share) if self._is_download else -1)
        if shown != self._shown:
            self._shown = shown
            note(", ".join(filter(None, (progress.what, self._amount(progress)))))

    def _amount(self, progress: JobProgress) -> str:
        return progress_text(progress, self._pace) if self._is_download and progress.total else ""


# --- Declaring commands


class Parser(argparse.ArgumentParser):
    """Suggests the nearest command, and shows the usage of the command whose argument is unknown.

    Options may stand before, between and behind the other arguments.
    """

    _is_parsing = False  # argparse calls itself where they are mixed

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self._is_parsing or any(isinstance(one, argparse._SubParsersAction) for one in self._actions):
            return super().parse_known_args(args, namespace)
        self._is_parsing = True
        parsed, unknown = self.parse_known_intermixed_args(args, namespace)
        self._is_parsing = False
        if unknown:
            self.error(_("unrecognized arguments: {unknown}").format(unknown=" ".join(unknown)))
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            known = _("The commands are {names}.").format(names=", ".join(action.choices))
            hint = did_you_mean(value, action.choices) or known
            self.error(_("There is no command {name}. {hint}").format(name=value, hint=hint))
        super()._check_value(action, value)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns a sentence that suggests the most similar of `names`; empty if none is similar."""
    close = difflib.get_close_matches(name, list(names), 1)
    return _("Did you mean {name}?").format(name=close[0]) if close else ""


OF_ARGPARSE = (
    _("positional arguments"),
    _("options"),
    _("show this help message and exit"),
    _("show program's version number and exit"),
    _("%(prog)s: error: %(message)s\n"),
    _("argument %(argument_name)s: %(message)s"),
    _("the following arguments are required: %s"),
    _("unrecognized arguments: %s"),
    _("ambiguous option: %(option)s could match %(matches)s"),
    ngettext("expected %s argument", "expected %s arguments", 2),
    _("expected one argument"),
    _("expected at least one argument"),
    _("not allowed with argument %s"),
    _("invalid choice: %(value)r (choose from %(choices)s)"),
    _("invalid %(type)s value: %(value)r"),
)
"""Its own words, which it looks up in a catalogue of its own. `usage: ` stays: argparse cuts off seven letters."""
vars(argparse).update({"_": _, "ngettext": ngettext})


class CommandParsers:
    """The commands of a parser."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._subparsers = parser.add_subparsers(title=_("commands"), required=True, metavar="COMMAND")

    @property
    def parsers(self) -> dict[str, argparse.ArgumentParser]:
        return self._subparsers.choices

    def add(
        self,
        name: str,
        run: Callable[[argparse.Namespace], int] | None,
        *,
        summary: str,
        example: str,
        details: str = "",
    ) -> argparse.ArgumentParser:
        """Adds a command.

        Args:
            run: Takes the parsed arguments and returns the exit status; None: its subcommands do.
            summary: What it does, in a line of `hone --help`.
            example: Its arguments in the example of its own help.
        """
        command = self._subparsers.add_parser(
            name,
            help=summary,
            description=paragraph(capitalized(summary), details),
            epilog=_("Example: {example}").format(example=f"hone {name} {example}".rstrip()),
        )
        command.set_defaults(run=run)
        return command


def add_flag(to: argparse._ActionsContainer, name: str, summary: str) -> None:
    """Adds a flag, which is off by default."""
    to.add_argument(name, action="store_true", help=summary)


def add_json(command: argparse.ArgumentParser, summary: str = "") -> None:
    add_flag(command, "--json", summary or _("print the answer as JSON"))


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="RUN", help=NAME_HELP)


def add_repeated(to: argparse._ActionsContainer, name: str, metavar: str, summary: str) -> None:
    to.add_argument(name, action="append", default=[], metavar=metavar, help=summary)


def named_in(overrides: Iterable[str]) -> set[str]:
    """Returns the options that `--set` names."""
    return {override.partition("=")[0].strip() for override in overrides}


def add_set(command: argparse.ArgumentParser) -> None:
    """Adds `--set`, which overrides options of a run file."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="SECTION.OPTION=VALUE",
        help=_("change an option of the file; may be repeated (see `hone options`)"),
    )

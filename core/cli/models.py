"""`hone hub`: searching the Hugging Face Hub, downloading from it, and what of it lies on this computer."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.base import format as figures
from core.base.jobs import JobProgress
from core.cli.output import NAME_HELP, print_json, say
from core.cli.runs import find_run
from core.runs.folder import RunFolder
from core.services.export import (
    EXPORTS,
    Export,
    ExportKind,
    ExportReport,
    NumberFormat,
    Wanted,
    agreement_words,
    find_source,
    offers,
)

if TYPE_CHECKING:
    import argparse

    from core.cli.output import Commands
from pathlib import Path

from core.base.errors import OptionsError, Problem
from core.base.files import new_file
from core.cli.data import write_new
from core.options import run_file
from core.sharing import support
from core.sharing.report import save_report
from core.sharing.script import script_of, script_of_run

if TYPE_CHECKING:
    from core.cli.output import Commands
import argparse
import getpass
from typing import TYPE_CHECKING, TextIO, TypeVar

import msgspec
from tqdm import tqdm

from core.base import jobs
from core.base.errors import UserError
from core.cli.output import agrees
from core.services import hub
from core.services.hub import (
    PURPOSES,
    Account,
    AccountAction,
    AccountRequest,
    Cached,
    CacheReport,
    Download,
    DownloadRequest,
    Found,
    Kind,
    Pace,
    Progress,
    Removed,
    RemoveRequest,
    SearchAnswer,
    SearchRequest,
    TokenPlace,
)

# --- `hone export`: make of a run's model what other programs take, or say what it can become


MakeExport = Callable[[Wanted], Export]


def add_export(commands: "Commands") -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "export",
        help="make of a run's model what other programs take",
        description="Make of a run's model what other programs take, and hold it against the trained model on the same "
        "examples. Without --to, it says what the model can become. Ends with 1 where the two don't agree; then "
        "nothing is kept. Nothing is sent anywhere but with --to hub.",
    )
    command.add_argument("name", metavar="RUN", help=NAME_HELP)
    command.add_argument("--to", choices=[kind.value for kind in ExportKind], metavar="KIND", help=_kinds())
    command.add_argument("--folder", metavar="DIR", help="a new or empty folder; default: RUN-KIND here")
    command.add_argument(
        "--numbers",
        choices=[numbers.value for numbers in NumberFormat],
        default=NumberFormat.AUTO.value,
        help="what the weights are written in; default: as trained, or as what LoRA was trained beside",
    )
    command.add_argument(
        "--checkpoint", default="", metavar="NAME", help="one of the run's, in place of its model"
    )
    command.add_argument("--repo", default="", metavar="OWNER/NAME", help="with --to hub: a new repository")
    command.add_argument("--public", action="store_true", help="with --to hub: everybody sees it")
    sent = [kind.value for kind in ExportKind if kind is not ExportKind.HUB]
    command.add_argument(
        "--as", dest="pushed", choices=sent, metavar="KIND", help="with --to hub: what is sent"
    )
    command.add_argument("--json", action="store_true", help="print the answer as JSON")
    command.set_defaults(run=_run_export)


def _kinds() -> str:
    return ", ".join(kind.value for kind in ExportKind)


def _run_export(asked: "argparse.Namespace") -> int:
    run = find_run(asked.name)
    if not asked.to:
        return list_kinds(run, as_json=asked.json)
    kind = ExportKind(asked.to)
    wanted = Wanted(
        run=str(run.path),
        kind=kind,
        folder=asked.folder or f"{run.name}-{kind}",
        repo=asked.repo,
        private=not asked.public,
        pushed=ExportKind(asked.pushed) if asked.pushed else None,
        numbers=NumberFormat(asked.numbers),
        checkpoint=asked.checkpoint,
    )
    return export(wanted, as_json=asked.json)


def list_kinds(run: RunFolder, *, as_json: bool) -> int:
    """Print what a run's model can become, and why not the rest.

    Raises:
        UserError: It has no model.
    """
    source = find_source(run)
    found = offers(source)
    if source.told and not as_json:
        say(f"{source.told}\n")
    if as_json:
        print_json([{"kind": one.kind, "refusal": one.refusal, "caution": one.caution} for one in found])
        return 0
    for one in found:
        title, purpose = EXPORTS[one.kind]
        say(f"{one.kind:<8} {title}. {purpose}")
        said = f"Not for this run: {one.refusal}" if one.refusal else one.caution
        say(f"{'':<8} {said}\n" if said else "")
    return 0


def export(wanted: Wanted, *, as_json: bool, make: MakeExport = Export) -> int:
    """Export and print what came of it; 1 where a part of what was asked is missing.

    Raises:
        OptionsError: The request is wrong.
        UserError: It can't be exported so, or what was exported doesn't answer as the trained model does.
    """
    said: list[str] = []

    def tell(progress: JobProgress) -> None:
        if progress.what and progress.what not in said[-1:] and not as_json:
            said.append(progress.what)
            say(f"{progress.what} ...", sys.stderr)

    report = make(wanted).run(tell)
    if as_json:
        print_json(report)
    else:
        say("\n".join(report_lines(report)))
    return 1 if report.missing else 0


def report_lines(report: ExportReport) -> list[str]:
    """What came of an export, in sentences."""
    count = "1 file" if len(report.files) == 1 else f"{len(report.files)} files"
    lines = [f"{EXPORTS[report.kind][0]}: {count}, {figures.size(report.size)}, in {report.path}"]
    if report.agreement is not None:
        lines.append(f"Checked against the trained model: {agreement_words(report.agreement)}")
        lines.append(report.agreement.why)
    elif report.unchecked:
        lines.append(report.unchecked)
    return [*lines, *([report.missing] if report.missing else []), *report.notes]


# --- `hone script`, `hone report` and `hone support`: a run taken elsewhere


def add_giving(commands: "Commands") -> None:
    """Add the three commands."""
    writing = commands.add_parser(
        "script",
        help="write a run as a Python script without Hone",
        description="Write a short Python script that trains the same with transformers, TRL, PEFT and datasets. What "
        "it does differently from Hone is listed at its top.",
    )
    writing.add_argument("source", metavar="RUN|FILE.hone", help=f"{NAME_HELP}; or a run file")
    writing.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="a new file; default: it is printed"
    )
    writing.set_defaults(run=lambda asked: script(asked.source, asked.output))
    telling = commands.add_parser(
        "report",
        help="write one page that tells of a run, with its charts",
        description="Write one page that tells of a run: what was asked and what ran, charts, metrics, predictions, "
        "the machine. It needs no other file. It shows examples of your data.",
    )
    telling.add_argument("name", metavar="RUN", help=NAME_HELP)
    telling.add_argument(
        "--to", type=Path, required=True, metavar="FILE", help="a new file that ends in .html"
    )
    telling.set_defaults(run=lambda asked: report(asked.name, asked.to))
    helping = commands.add_parser(
        "support",
        help="gather what somebody needs who helps with a run",
        description=f"Gather a run's files in one zip for somebody who helps. {support.WORDS}",
    )
    helping.add_argument("name", metavar="RUN", help=NAME_HELP)
    helping.add_argument("--to", type=Path, metavar="FILE", help="a new zip file")
    helping.add_argument("--show", action="store_true", help="print what it holds")
    helping.set_defaults(run=lambda asked: support_file(asked.name, asked.to, show=asked.show))


def script(source: str, output: Path | None) -> int:
    """Print the script that does what a run, or a run file, asks for, or write it to a new file.

    Args:
        source: A run's folder or name, or a run file.
        output: A new file; None: standard output.

    Raises:
        OptionsError: There is no such run, or what it asks for is wrong.
        TargetError: Something is at the file's place, or it can't be written there.
        UserError: Its data or model is gone.
    """
    if output is not None:
        new_file(output)  # said now, not after the data has been looked at
    path = Path(source)
    is_file = path.suffix.lower() in run_file.ENDINGS and path.is_file()
    text = script_of(run_file.read(path)) if is_file else script_of_run(find_run(source))
    if output is None:
        say(text, end="")
    else:
        write_new(output, text)
        say(f"The script is in {output}", sys.stderr)
    return 0


def report(name: str, to: Path) -> int:
    """Write the page that tells of a run to a new HTML file.

    Raises:
        OptionsError: There is no such run.
        TargetError: Something is at the file's place, or it can't be written there.
    """
    run = find_run(name)
    save_report(run, new_file(to))
    say(f"The report is in {to}", sys.stderr)
    return 0


def support_file(name: str, to: Path | None, *, show: bool) -> int:
    """Print what a support file holds, write it, or both.

    Raises:
        OptionsError: There is no such run, or neither is asked for.
        TargetError: Something is at the file's place, or it can't be written there.
    """
    if to is None and not show:
        raise OptionsError((Problem("", "name a file with --to, or look at it first with --show"),))
    run = find_run(name)
    if to is not None:
        new_file(to)
    files = support.collect(run)
    if show:
        for file in files:
            say(f"===== {file.name}{f' ({file.note})' if file.note else ''}\n{file.text}")
    if to is not None:
        support.save(files, to)
        say(support.WORDS, sys.stderr)
        say(f"The support file is in {to}", sys.stderr)
    return 0


# --- `hone hub`: searching the Hugging Face Hub, downloading from it


INTERRUPTED = 130
NOTHING_FOUND = 1
PLACES = {
    TokenPlace.NOWHERE: "no token",
    TokenPlace.ENVIRONMENT: "the token in HF_TOKEN",
    TokenPlace.KEYCHAIN: "the token in this computer's keychain",
    TokenPlace.FILE: "the token of hf auth login",
}
_FOUND = ("MODEL", "SIZE", "PARAMETERS", "DOWNLOADS", "LIKES", "LICENCE", "HERE", "NOTE")
_CACHED = ("NAME", "KIND", "SIZE", "UNFINISHED", "CHANGED")

Answer = TypeVar("Answer")


def add_hub(commands: "Commands") -> None:
    """Add `hub` and its own commands to a command line."""
    group = commands.add_parser(
        "hub",
        help="models and data sets of the Hugging Face Hub",
        description="Search the Hugging Face Hub, download from it, and see what of it lies here. HF_HUB_OFFLINE=1 and "
        "“Work offline” in Settings forbid to ask it for anything.",
    )
    inner = group.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_search(inner)
    _add_download(inner)
    _add_cache(inner)
    _add_account(inner)


def search(words: str, kind: Kind, task: str, *, as_json: bool) -> int:
    """Print the models or data sets whose names hold the words, the most downloaded first."""
    request = SearchRequest(words=words, kind=kind, task=task)
    found = _ask("hub-search", request, SearchAnswer).found
    if as_json:
        print_json(found)
    elif found:
        titles = ("DATA SET" if kind is Kind.DATASET else _FOUND[0], *_FOUND[1:])
        say(figures.table(titles, [_found_row(one) for one in found]))
    else:
        say(f"Nothing on {hub.host()} has “{words}” in its name and suits.", sys.stderr)
    return 0 if found else NOTHING_FOUND


def download(request: DownloadRequest, *, as_json: bool, stream: TextIO | None = None) -> int:
    """Bring a model or data set to this computer; Ctrl-C pauses."""
    stream = stream or sys.stderr
    bar = _Bar(stream, quiet=as_json)
    try:
        done = Download(request).run(bar.show)
    except KeyboardInterrupt:
        bar.close()
        say("Paused. The same command goes on; `hone hub remove --unfinished` gives it up.", stream)
        return INTERRUPTED
    finally:
        bar.close()
    if as_json:
        print_json(done)
    else:
        say(f"{figures.counted(done.files, 'file')}, {figures.size(done.size)}, in {done.path}")
    return 0


def list_cached(*, as_json: bool) -> int:
    """Print what of the Hub lies on this computer, the largest first."""
    report = _ask("hub-cached", None, CacheReport)
    if as_json:
        print_json(report)
    elif report.repos:
        say(figures.table(_CACHED, [_cached_row(repo) for repo in report.repos]))
        say(f"\n{figures.size(report.total)} in {report.folder}")
    else:
        say(f"Nothing of the Hub is in {report.folder}.")
    return 0


def remove(request: RemoveRequest, *, is_sure: bool) -> int:
    """Delete something from the cache, once the person is sure."""
    if not is_sure and sys.stdin.isatty():
        what = f"what is unfinished of {request.id}" if request.only_partial else request.id
        if not agrees(f"Delete {what} from the cache, for all programs?"):
            return 1
    elif not is_sure:
        raise UserError("Nothing was deleted", "Nobody is here to ask: say --yes.")
    say(f"{figures.size(_ask('hub-remove', request, Removed).freed)} freed")
    return 0


def who_am_i(*, as_json: bool) -> int:
    """Print whose token is used, and where it was found."""
    found = _ask("hub-account", AccountRequest(action=AccountAction.CHECK), Account)
    if as_json:
        print_json(found)
    else:
        say(f"{found.name}, by {PLACES[found.place]}")
    return 0


def sign_in() -> int:
    """Keep a token in the keychain; it is asked for, so that it stands in no shell's history."""
    token = (
        getpass.getpass("Token (huggingface.co/settings/tokens): ")
        if sys.stdin.isatty()
        else sys.stdin.readline()
    )
    found = _ask("hub-account", AccountRequest(action=AccountAction.SAVE, token=token), Account)
    say(f"Kept in {found.keychain}.")
    return 0


def sign_out() -> int:
    """Take the token out of the keychain."""
    found = _ask("hub-account", AccountRequest(action=AccountAction.REMOVE), Account)
    left = "" if found.place is TokenPlace.NOWHERE else f" {PLACES[found.place].capitalize()} is still used."
    say(f"The keychain has no token of Hone's any more.{left}")
    return 0


class _Bar:
    """Shows a download on a terminal, or a line every tenth of it where there is none."""

    def __init__(self, stream: TextIO, *, quiet: bool) -> None:
        self._stream = stream
        self._quiet = quiet
        self._bar: tqdm | None = None
        self._pace = Pace()
        self._tenth = -1

    def show(self, progress: Progress) -> None:
        """Show how far it is."""
        if self._quiet:
            return
        if self._stream.isatty():
            if self._bar is None:
                self._bar = tqdm(
                    total=progress.total, initial=progress.done, unit="B", unit_scale=True, unit_divisor=1024,
                    file=self._stream,
                )  # fmt: skip
            self._bar.update(progress.done - self._bar.n)
            return
        self._pace.add(progress)
        tenth = 10 * progress.done // max(1, progress.total)
        if tenth > self._tenth:
            self._tenth = tenth
            left = self._pace.left(progress)
            words = f", {figures.plain_duration(left)} left" if left else ""
            say(f"{figures.size(progress.done)} of {figures.size(progress.total)}{words}", self._stream)

    def close(self) -> None:
        """Leave the terminal's line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _ask(job: str, request: msgspec.Struct | None, kind: type[Answer]) -> Answer:
    content = b"" if request is None else msgspec.json.encode(request)
    return jobs.decoded(job, jobs.ask_engine(job, content), kind)


def _found_row(found: Found) -> tuple[str, ...]:
    here = "yes" if found.complete else figures.size(found.here) if found.here else ""
    note = found.refusal or ("gated: accept its terms on its page, and sign in" if found.gated else "")
    counts = (found.parameters, found.downloads, found.likes)
    parameters, downloads, likes = (
        figures.PLAIN_MISSING if count is None else f"{count:,}" for count in counts
    )
    return (
        found.id,
        figures.size(found.size),
        parameters,
        downloads,
        likes,
        found.licence or figures.PLAIN_MISSING,
        here,
        note,
    )


def _cached_row(repo: Cached) -> tuple[str, ...]:
    unfinished = figures.size(repo.partial) if repo.partial else ""
    changed = figures.full_moment(repo.changed) if repo.changed else ""
    return repo.id, repo.kind.value, figures.size(repo.size), unfinished, changed


def _add_search(commands: "Commands") -> None:
    command = commands.add_parser("search", help="find models or data sets by the words in their names")
    command.add_argument("words", nargs="*", metavar="WORDS", help="none: the most downloaded")
    command.add_argument("--task", choices=sorted(PURPOSES), default="", help="only models that can learn it")
    _add_common(command)
    command.set_defaults(
        run=lambda asked: search(" ".join(asked.words), _kind(asked), asked.task, as_json=asked.json)
    )


def _add_download(commands: "Commands") -> None:
    command = commands.add_parser(
        "download",
        help="bring one to this computer",
        description="Bring a model or data set here: safetensors, config and tokenizer, or Parquet, CSV and "
        "JSON; never code or pickled weights. Ctrl-C pauses, and the same command goes on.",
    )
    command.add_argument("name", metavar="OWNER/NAME")
    command.add_argument("--subset", default="", metavar="NAME", help="of a data set: one of its parts")
    _add_common(command)
    command.set_defaults(
        run=lambda asked: download(
            DownloadRequest(id=asked.name, kind=_kind(asked), subset=asked.subset), as_json=asked.json
        )
    )


def _add_cache(commands: "Commands") -> None:
    listing = commands.add_parser("list", help="say what of the Hub lies on this computer")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(run=lambda asked: list_cached(as_json=asked.json))
    removing = commands.add_parser("remove", help="delete one from this computer, for all programs")
    removing.add_argument("name", metavar="OWNER/NAME")
    removing.add_argument("--data", action="store_true", help="a data set, not a model")
    removing.add_argument("--unfinished", action="store_true", help="only what was paused or broke off")
    removing.add_argument("--yes", action="store_true", help="don't ask")
    removing.set_defaults(
        run=lambda asked: remove(
            RemoveRequest(id=asked.name, kind=_kind(asked), only_partial=asked.unfinished), is_sure=asked.yes
        )
    )


def _add_account(commands: "Commands") -> None:
    asking = commands.add_parser("whoami", help="say whose token is used, and where it was found")
    asking.add_argument("--json", action="store_true")
    asking.set_defaults(run=lambda asked: who_am_i(as_json=asked.json))
    commands.add_parser("sign-in", help="keep a token in this computer's keychain").set_defaults(
        run=lambda _: sign_in()
    )
    commands.add_parser("sign-out", help="take it out again").set_defaults(run=lambda _: sign_out())


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--data", action="store_true", help="data sets, not models")
    command.add_argument("--json", action="store_true", help="print the answer as JSON")


def _kind(asked: argparse.Namespace) -> Kind:
    return Kind.DATASET if asked.data else Kind.MODEL

"""`hone hub`: searching the Hugging Face Hub, downloading from it, and what of it lies on this computer."""

import argparse
import getpass
import sys
from typing import TYPE_CHECKING, TextIO, TypeVar

import msgspec
from tqdm import tqdm

from core import figures, hub, jobs
from core.commands.output import agrees, print_json, say
from core.errors import UserError
from core.hub_download import Download, Pace
from core.hub_questions import (
    Account,
    AccountAction,
    AccountRequest,
    Cached,
    CacheReport,
    DownloadRequest,
    Found,
    Kind,
    Progress,
    Removed,
    RemoveRequest,
    SearchAnswer,
    SearchRequest,
    TokenPlace,
)
from core.hub_standing import PURPOSES

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

if TYPE_CHECKING:
    from core.commands.arguments import Commands


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
            words = f", {figures.duration(left)} left" if left else ""
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
    parameters, downloads, likes = (figures.MISSING if count is None else f"{count:,}" for count in counts)
    return (
        found.id,
        figures.size(found.size),
        parameters,
        downloads,
        likes,
        found.licence or figures.MISSING,
        here,
        note,
    )


def _cached_row(repo: Cached) -> tuple[str, ...]:
    unfinished = figures.size(repo.partial) if repo.partial else ""
    changed = figures.moment(repo.changed) if repo.changed else ""
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

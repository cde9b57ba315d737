"""Commands about models: try, export, script and hub."""

import argparse
import getpass
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from tqdm import tqdm

from core.base import formats, settings
from core.base.errors import OptionsError, OutOfMemory, Problem, UserError
from core.base.files import new_file
from core.base.formats import visible
from core.base.jobs import JobProgress, run_job
from core.base.language import _
from core.cli.data import write_new
from core.cli.output import INTERRUPTED, NAME_HELP, add_command, add_json, agrees, print_json, say
from core.cli.runs import find_run
from core.options import RunOptions, run_file
from core.options.choices import Speaker
from core.runs.folder import RunFolder
from core.runs.metrics import MetricsTable, What, save_csv, save_parquet, write_csv
from core.runs.summary import summarize
from core.services import hub
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
from core.services.export import (
    EXPORTS,
    Export,
    ExportKind,
    ExportReport,
    NumberFormat,
    Wanted,
    agreement_text,
    find_source,
    offers,
)
from core.services.hub import (
    PURPOSES,
    Account,
    AccountAction,
    AccountRequest,
    Cached,
    CacheReport,
    Downloaded,
    DownloadRequest,
    Found,
    Kind,
    Pace,
    Removed,
    RemoveRequest,
    SearchAnswer,
    SearchRequest,
    TokenPlace,
)
from core.sharing.report import save_report
from core.sharing.script import script_of, script_of_run

if TYPE_CHECKING:
    from core.cli.output import Commands

SHOWN_LABELS = 10
METRIC_NOUNS = {What.STEPS: "step", What.EVALUATIONS: "evaluation", What.MACHINE: "sample"}
PLACES = {
    TokenPlace.NOWHERE: _("no token"),
    TokenPlace.ENVIRONMENT: _("the token in HF_TOKEN"),
    TokenPlace.KEYCHAIN: _("the token in this computer's keychain"),
    TokenPlace.FILE: _("the token of hf auth login"),
}


def add_commands(commands: "Commands") -> None:
    _add_try(commands)
    _add_export(commands)
    command = add_command(
        commands,
        "script",
        script,
        summary=_("write a run as a Python script without Hone"),
        example="2026-01-31-digits --output train.py",
        details=(
            _(
                "The script trains the same with transformers, TRL, PEFT and datasets. What it does "
                "differently from Hone is listed at its top."
            )
        ),
    )
    command.add_argument("source", metavar="RUN|FILE.hone", help=f"{NAME_HELP}; or a run file")
    command.add_argument("--output", "-o", type=Path, metavar="FILE", help="a new file; default: print it")
    _add_hub(commands)


# --- hone try


def _add_try(commands: "Commands") -> None:
    command = add_command(
        commands,
        "try",
        try_run,
        summary=_("use a run's model: chat, continue a text, classify a text or an image"),
        example='2026-01-31-reviews --prompt "A fine film."',
        details=(
            "Without --prompt or --file it reads a line after the other from the terminal, and standard "
            "input elsewhere. It waits while a run trains."
        ),
    )
    command.add_argument("name", metavar="RUN", help=NAME_HELP)
    command.add_argument(
        "stdin", nargs="?", choices=["-"], metavar="-", help=_("read the prompt from standard input")
    )
    command.add_argument("--before", action="store_true", help=_("use the model the run started from"))
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "--prompt",
        action="append",
        default=[],
        metavar="TEXT",
        help="the input; twice for a model that reads pairs of texts",
    )
    what.add_argument("--file", type=Path, metavar="IMAGE", help=_("an image to classify"))
    command.add_argument("--cpu", action="store_true", help=_("on the CPU, also while a run trains"))
    add_json(command, _("print answers as JSON, a line each"))
    writing = command.add_argument_group(_("for models that write"))
    plain = Writing()
    writing.add_argument("--system", default="", metavar="TEXT", help=_("the system prompt"))
    writing.add_argument("--max-tokens", type=int, default=plain.max_tokens, metavar="N")
    writing.add_argument(
        "--temperature",
        type=float,
        default=plain.temperature,
        metavar="T",
        help=_("default: 0, always the most likely token"),
    )
    writing.add_argument(
        "--top-p", type=float, default=plain.top_p, metavar="P", help=_("default: 1, all tokens")
    )
    writing.add_argument("--seed", type=int, default=plain.seed, metavar="N", help="default: 0")
    writing.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="stop where this is written; may be repeated",
    )


def try_run(arguments: argparse.Namespace) -> int:
    run = find_run(arguments.name)
    options = run.options()
    if options.task.reads_images and arguments.file is None:
        raise OptionsError((Problem("", "this run's model reads images; name one with --file"),))
    if not options.task.reads_images and arguments.file is not None:
        raise OptionsError((Problem("", "this run's model reads texts; give one with --prompt"),))
    if arguments.file is not None and not arguments.file.is_file():
        raise OptionsError((Problem("", _("there is no file {file}").format(file=arguments.file)),))
    which = Which.BEFORE if arguments.before else Which.TRAINED
    training = [summarize(found).title for found in that_train(settings.runs_folder())]
    verdict = judge([need_of(run, options, which)], free_memory(), training, on_cpu=arguments.cpu)
    if not verdict.allowed:
        hint = " --cpu does that." if verdict.cpu_helps else ""
        raise OutOfMemory(verdict.title, verdict.detail + hint)
    process = TryProcess(Load(run=str(run.path.absolute()), which=which, on_cpu=arguments.cpu))
    return _Talk(process, arguments, options).hold()


class _Talk:
    """One conversation with a process, from the first question to the last answer."""

    def __init__(self, process: TryProcess, arguments: argparse.Namespace, options: RunOptions) -> None:
        self._process = process
        self._arguments = arguments
        self._options = options
        self._questions = self._all_questions()
        self._turns: tuple[Turn, ...] = ()
        self._text = ""
        self._number = 0
        self._status = 0

    def hold(self) -> int:
        """Ask all questions; returns the exit status."""
        try:
            for told in self._process.lines():
                self._take(told)
        except BaseException:  # Ctrl-C, or an unreadable question: leave no process behind
            self._process.kill()
            raise
        return self._status

    def _all_questions(self) -> Iterator[Given]:
        arguments = self._arguments
        if arguments.file is not None:
            yield Image(path=str(arguments.file.absolute()))
        elif arguments.prompt and arguments.prompt != ["-"]:
            yield self._given(*arguments.prompt)
        elif arguments.prompt or arguments.stdin or not sys.stdin.isatty():
            yield self._given(sys.stdin.read().rstrip("\n"))
        else:
            say(_("Ctrl-D ends it."), sys.stderr)
            while True:
                try:
                    line = input("> ")
                except EOFError:
                    say("")
                    return
                if line.strip():
                    yield self._given(line)

    def _given(self, *texts: str) -> Given:
        if self._options.task.reads_conversations:
            return Chat(turns=(Turn(Speaker.USER, "\n".join(texts)),), system=self._arguments.system)
        return Texts(texts=texts)

    def _take(self, told: Told) -> None:
        if self._arguments.json and not isinstance(told, Piece):
            say(msgspec.json.encode(told).decode())
        match told:
            case Loaded():
                if not self._arguments.json:
                    say(
                        _("{name}, on {device} in {dtype}").format(
                            name=told.name, device=told.device, dtype=told.dtype
                        ),
                        sys.stderr,
                    )
                self._ask_next()
            case Piece() if not self._arguments.json:
                say(told.text, end="")
            case Answered():
                self._finish(told)
                self._ask_next()
            case NotAnswered():
                self._status = 1
                say(UserError(told.error.title, told.error.detail, told.error.fixes), sys.stderr)
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
        arguments = self._arguments
        writing = Writing(
            max_tokens=arguments.max_tokens,
            temperature=arguments.temperature,
            top_p=arguments.top_p,
            seed=arguments.seed,
            stop_at=tuple(arguments.stop),
        )
        self._process.say(Ask(id=self._number, given=given, writing=writing))

    def _finish(self, answered: Answered) -> None:
        self._turns = (*self._turns, Turn(Speaker.ASSISTANT, answered.text))
        if self._arguments.json:
            return
        for line in answer_lines(answered, self._text):
            say(line)
        for note in (*answered.notes, speed_text(answered)):
            say(note, sys.stderr)


def answer_lines(answered: Answered, text: str = "") -> list[str]:
    """An answer about `text` for a terminal; of a written one, which is printed already, the end of its line."""
    if answered.chances:
        return [f"{one.chance:>7.1%}  {visible(one.label)}" for one in answered.chances[:SHOWN_LABELS]]
    if answered.number is not None:
        return [f"{answered.number:.4g}"]
    if answered.ended_by is not None:
        return [" …" if answered.ended_by is EndedBy.LENGTH else ""]
    return [f"{word.chance:>7.1%}  {word.label}  {text[word.start : word.end]}" for word in answered.words]


def speed_text(answered: Answered) -> str:
    """Model, time and device, such as "digits: 41 tokens in 1.20 s (34 a second), cpu, bf16"."""
    speed = answered.tokens_per_second
    wrote = "" if speed is None else _("{tokens} tokens in ").format(tokens=answered.tokens)
    pace = "" if speed is None else f" ({speed:.0f} a second)"
    return _("{name}: {wrote}{seconds:.2f} s{pace}, {device}, {dtype}").format(
        name=answered.name,
        wrote=wrote,
        seconds=answered.seconds,
        pace=pace,
        device=answered.device,
        dtype=answered.dtype,
    )


# --- hone export


def _add_export(commands: "Commands") -> None:
    command = add_command(
        commands,
        "export",
        export,
        summary=_("export a run's model, metrics or report"),
        example="2026-01-31-reviews --to gguf",
        details=(
            "An exported model is compared with the trained one on the same examples and deleted if it "
            "differs; then it ends with 1. Without --to, --metrics or --report it lists the formats. Only"
            " --to hub sends anything."
        ),
    )
    command.add_argument("name", metavar="RUN", help=NAME_HELP)
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "--to", choices=[kind.value for kind in ExportKind], metavar="KIND", help=", ".join(ExportKind)
    )
    what.add_argument("--metrics", metavar="FILE", help="a new CSV file, or .parquet; - prints CSV")
    what.add_argument(
        "--report", type=Path, metavar="FILE", help="one HTML page about the run; shows your data"
    )
    model = command.add_argument_group("with --to")
    model.add_argument("--folder", metavar="DIR", help="a new or empty folder; default: RUN-KIND here")
    model.add_argument(
        "--numbers",
        choices=[numbers.value for numbers in NumberFormat],
        default=NumberFormat.AUTO.value,
        help="number format of the weights; default: as trained, with LoRA as the model it was trained on",
    )
    model.add_argument("--checkpoint", default="", metavar="NAME", help=_("export this checkpoint"))
    model.add_argument("--repo", default="", metavar="OWNER/NAME", help="with --to hub: a new repository")
    model.add_argument("--public", action="store_true", help="with --to hub: everybody sees it")
    sent = [kind.value for kind in ExportKind if kind is not ExportKind.HUB]
    model.add_argument(
        "--as", dest="pushed", choices=sent, metavar="KIND", help="with --to hub: what is sent"
    )
    command.add_argument(
        "--rows",
        choices=[what.value for what in What],
        default=What.STEPS.value,
        help="with --metrics: a row for each; default: steps",
    )
    add_json(command)


def export(arguments: argparse.Namespace) -> int:
    run = find_run(arguments.name)
    if arguments.metrics:
        return export_metrics(run, What(arguments.rows), arguments.metrics)
    if arguments.report:
        save_report(run, new_file(arguments.report))
        say(_("The report is in {report}").format(report=arguments.report), sys.stderr)
        return 0
    if not arguments.to:
        return list_formats(run, as_json=arguments.json)
    kind = ExportKind(arguments.to)
    wanted = Wanted(
        run=str(run.path),
        kind=kind,
        folder=arguments.folder or f"{run.name}-{kind}",
        repo=arguments.repo,
        private=not arguments.public,
        pushed=ExportKind(arguments.pushed) if arguments.pushed else None,
        numbers=NumberFormat(arguments.numbers),
        checkpoint=arguments.checkpoint,
    )
    said: list[str] = []

    def tell(progress: JobProgress) -> None:
        if progress.what and progress.what not in said[-1:] and not arguments.json:
            said.append(progress.what)
            say(f"{progress.what} ...", sys.stderr)

    report = Export(wanted).run(tell)
    if arguments.json:
        print_json(report)
    else:
        say("\n".join(export_lines(report)))
    return 1 if report.missing else 0


def list_formats(run: RunFolder, *, as_json: bool) -> int:
    """Print what a run's model can be exported to, and why not the rest."""
    source = find_source(run)
    found = offers(source)
    if as_json:
        print_json([{"kind": one.kind, "refusal": one.refusal, "caution": one.caution} for one in found])
        return 0
    if source.told:
        say(f"{source.told}\n")
    for one in found:
        title, purpose = EXPORTS[one.kind]
        say(f"{one.kind:<8} {title}. {purpose}")
        said = _("Not for this run: {refusal}").format(refusal=one.refusal) if one.refusal else one.caution
        say(f"{'':<8} {said}\n" if said else "")
    return 0


def export_lines(report: ExportReport) -> list[str]:
    files = formats.counted(len(report.files), "file")
    lines = [
        _("{exports}: {files}, {size}, in {path}").format(
            exports=EXPORTS[report.kind][0], files=files, size=formats.size(report.size), path=report.path
        )
    ]
    if report.agreement is not None:
        lines.append(
            _("Checked against the trained model: {agreement}").format(
                agreement=agreement_text(report.agreement)
            )
        )
        lines.append(report.agreement.why)
    elif report.unchecked:
        lines.append(report.unchecked)
    return [*lines, *([report.missing] if report.missing else []), *report.notes]


def export_metrics(run: RunFolder, what: What, target: str) -> int:
    """Write one table of a run to a new file; missing figures are empty, a loss that isn't finite NaN, inf or -inf."""
    table = MetricsTable(run, what)
    if target == "-":
        count = write_csv(table, sys.stdout)
    else:
        save = save_parquet if target.lower().endswith(".parquet") else save_csv
        count = save(table, new_file(Path(target)))
    to = "" if target == "-" else _(" to {target}").format(target=target)
    say(f"{formats.counted(count, METRIC_NOUNS[what])} written{to}", sys.stderr)
    if table.skipped:
        say(
            _("Note: {lines} can't be read and left out.").format(
                lines=formats.counted(table.skipped, "line")
            ),
            sys.stderr,
        )
    return 0


# --- hone script


def script(arguments: argparse.Namespace) -> int:
    if arguments.output is not None:
        new_file(arguments.output)  # refused now, not after the data has been read
    path = Path(arguments.source)
    is_file = path.suffix.lower() in run_file.ENDINGS and path.is_file()
    text = script_of(run_file.read(path)) if is_file else script_of_run(find_run(arguments.source))
    if arguments.output is None:
        say(text, end="")
    else:
        write_new(arguments.output, text)
        say(_("The script is in {output}").format(output=arguments.output), sys.stderr)
    return 0


# --- hone hub


def _add_hub(commands: "Commands") -> None:
    command = add_command(
        commands,
        "hub",
        use_hub,
        summary=_("search the Hugging Face Hub, download, and show what is here"),
        example="bert --task text-classification",
        details=(
            "Downloads safetensors, config and tokenizer, or Parquet, CSV and JSON, and never code or "
            "pickled weights. Ctrl-C pauses a download; the same command continues it. HF_HUB_OFFLINE=1, "
            "or “Work offline” in Settings, forbids all of it."
        ),
    )
    command.add_argument("words", nargs="*", metavar="WORDS", help="search names; none: the most downloaded")
    action = command.add_mutually_exclusive_group()
    action.add_argument(
        "--download", metavar="OWNER/NAME", help="download a model, or with --data a data set"
    )
    action.add_argument("--list", action="store_true", help=_("show what is downloaded"))
    action.add_argument(
        "--remove", metavar="OWNER/NAME", help=_("delete it from this computer, for all programs")
    )
    action.add_argument(
        "--account", action="store_true", help=_("show whose token is used, and where it is kept")
    )
    action.add_argument("--sign-in", action="store_true", help=_("keep a token in this computer's keychain"))
    action.add_argument("--sign-out", action="store_true", help=_("remove it from the keychain"))
    command.add_argument("--data", action="store_true", help=_("data sets, not models"))
    command.add_argument(
        "--task", choices=sorted(PURPOSES), default="", help=_("search: only models for this")
    )
    command.add_argument("--subset", default="", metavar="NAME", help="with --download: a part of a data set")
    command.add_argument(
        "--unfinished", action="store_true", help="with --remove: only its unfinished download"
    )
    command.add_argument("--yes", action="store_true", help="with --remove: don't ask")
    add_json(command)


def use_hub(arguments: argparse.Namespace) -> int:
    kind = Kind.DATASET if arguments.data else Kind.MODEL
    if arguments.download:
        return download(
            DownloadRequest(id=arguments.download, kind=kind, subset=arguments.subset), as_json=arguments.json
        )
    if arguments.list:
        return list_cached(as_json=arguments.json)
    if arguments.remove:
        request = RemoveRequest(id=arguments.remove, kind=kind, only_partial=arguments.unfinished)
        return remove(request, is_sure=arguments.yes)
    if arguments.account or arguments.sign_in or arguments.sign_out:
        return account(arguments)
    return search(" ".join(arguments.words), kind, arguments.task, as_json=arguments.json)


def search(words: str, kind: Kind, task: str, *, as_json: bool) -> int:
    """Print models or data sets by words in their names, the most downloaded first; returns 1 if there are none."""
    found = run_job("hub-search", SearchRequest(words=words, kind=kind, task=task), SearchAnswer).found
    if as_json:
        print_json(found)
    elif found:
        first = _("DATA SET") if kind is Kind.DATASET else "MODEL"
        titles = (first, "SIZE", "PARAMETERS", "DOWNLOADS", "LIKES", "LICENCE", "HERE", "NOTE")
        say(formats.table(titles, [_found_row(one) for one in found]))
    else:
        say(
            _("Nothing on {host} has “{words}” in its name and suits.").format(host=hub.host(), words=words),
            sys.stderr,
        )
    return 0 if found else 1


def _found_row(found: Found) -> tuple[str, ...]:
    here = "yes" if found.complete else formats.size(found.here) if found.here else ""
    note = found.refusal or (_("gated: accept its terms on its page, and sign in") if found.gated else "")
    counts = (found.parameters, found.downloads, found.likes)
    parameters, downloads, likes = (
        formats.PLAIN_MISSING if count is None else f"{count:,}" for count in counts
    )
    licence = found.licence or formats.PLAIN_MISSING
    return found.id, formats.size(found.size), parameters, downloads, likes, licence, here, note


def download(request: DownloadRequest, *, as_json: bool) -> int:
    bar = _DownloadBar(quiet=as_json)
    try:
        done = run_job("hub-download", request, Downloaded, bar.show)
    except KeyboardInterrupt:
        bar.close()
        remove_it = (
            f"`hone hub --remove {request.id} --unfinished{' --data' * (request.kind is Kind.DATASET)}`"
        )
        say(f"Paused. The same command continues; {remove_it} gives it up.", sys.stderr)
        return INTERRUPTED
    finally:
        bar.close()
    if as_json:
        print_json(done)
    else:
        say(
            _("{files}, {size}, in {path}").format(
                files=formats.counted(done.files, "file"), size=formats.size(done.size), path=done.path
            )
        )
    return 0


class _DownloadBar:
    """A bar in a terminal, elsewhere a line for every tenth."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: tqdm | None = None
        self._pace = Pace()
        self._tenth = -1

    def show(self, progress: JobProgress) -> None:
        if self._quiet:
            return
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = tqdm(
                    total=progress.total, initial=progress.done, unit="B", unit_scale=True, unit_divisor=1024
                )
            self._bar.update(progress.done - self._bar.n)
            return
        self._pace.add(progress)
        tenth = 10 * progress.done // max(1, progress.total)
        if tenth > self._tenth:
            self._tenth = tenth
            left = self._pace.left(progress)
            words = f", {formats.plain_duration(left)} left" if left else ""
            say(
                _("{done} of {total}{words}").format(
                    done=formats.size(progress.done), total=formats.size(progress.total), words=words
                ),
                sys.stderr,
            )

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def list_cached(*, as_json: bool) -> int:
    """Print what is in the cache, the largest first."""
    report = run_job("hub-cached", None, CacheReport)
    if as_json:
        print_json(report)
    elif report.repos:
        say(
            formats.table(
                ("NAME", "KIND", "SIZE", "UNFINISHED", "CHANGED"), list(map(_cached_row, report.repos))
            )
        )
        say(_("\n{total} in {folder}").format(total=formats.size(report.total), folder=report.folder))
    else:
        say(_("Nothing of the Hub is in {folder}.").format(folder=report.folder))
    return 0


def _cached_row(repo: Cached) -> tuple[str, ...]:
    unfinished = formats.size(repo.partial) if repo.partial else ""
    changed = formats.full_moment(repo.changed) if repo.changed else ""
    return repo.id, repo.kind.value, formats.size(repo.size), unfinished, changed


def remove(request: RemoveRequest, *, is_sure: bool) -> int:
    if not is_sure and not sys.stdin.isatty():
        raise UserError(_("Nothing was deleted"), _("Nobody can confirm it here: add --yes."))
    what = _("the unfinished download of {id}").format(id=request.id) if request.only_partial else request.id
    if not is_sure and not agrees(_("Delete {what} from the cache, for all programs?").format(what=what)):
        return 1
    say(f"{formats.size(run_job('hub-remove', request, Removed).freed)} freed")
    return 0


def account(arguments: argparse.Namespace) -> int:
    if arguments.sign_in:  # asked for, so that it doesn't stay in the shell's history
        is_terminal = sys.stdin.isatty()
        prompt = "Token (huggingface.co/settings/tokens): "
        token = getpass.getpass(prompt) if is_terminal else sys.stdin.readline()
        found = _account(AccountRequest(action=AccountAction.SAVE, token=token))
        say(_("Kept in {keychain}.").format(keychain=found.keychain))
    elif arguments.sign_out:
        found = _account(AccountRequest(action=AccountAction.REMOVE))
        still = _(" {places} is still used.").format(places=PLACES[found.place].capitalize())
        say(
            _("The keychain has no token of Hone's any more.{still}").format(
                still=still * (found.place is not TokenPlace.NOWHERE)
            )
        )
    else:
        found = _account(AccountRequest(action=AccountAction.CHECK))
        if arguments.json:
            print_json(found)
        else:
            say(_("{name}, by {places}").format(name=found.name, places=PLACES[found.place]))
    return 0


def _account(request: AccountRequest) -> Account:
    return run_job("hub-account", request, Account)

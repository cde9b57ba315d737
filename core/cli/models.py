"""Commands about models: try, export, script and hub."""

import argparse
import getpass
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from core.base import formats, settings
from core.base.errors import OutOfMemory, UserError
from core.base.files import new_file
from core.base.formats import paragraph, visible
from core.base.jobs import JobProgress, run_job
from core.base.language import _
from core.cli.output import (
    INTERRUPTED,
    NAME_HELP,
    CommandParsers,
    JobOutput,
    add_flag,
    add_json,
    add_repeated,
    add_run,
    confirm,
    note,
    print_answer,
    refuse,
    say,
)
from core.cli.runs import find_run
from core.jobs import chat as chat_jobs
from core.jobs import hub as hub_jobs
from core.jobs.export import ExportKind, ExportReport, NumberFormat, agreement_text
from core.jobs.script import SCRIPT
from core.options import RunOptions, hub, run_file
from core.options.choices import Speaker
from core.runs.export_source import find_source
from core.runs.folder import RunFolder
from core.runs.metrics import MetricsTable, What, save_csv, save_parquet, write_csv
from core.runs.status import chosen_examples
from core.services import chat
from core.services.export import Export, Wanted
from core.services.offers import EXPORTS, offers
from core.sharing.report import save_report
from core.sharing.script import save_script, save_script_of_run

SHOWN_LABELS = 10
METRIC_NOUNS = {What.STEPS: "step", What.EVALUATIONS: "evaluation", What.MACHINE: "sample"}


def add_commands(commands: CommandParsers) -> None:
    _add_try(commands)
    _add_export(commands)
    command = commands.add(
        "script",
        script,
        summary=_("write a run as a Python script without Hone"),
        example="2026-01-31-digits --output digits",
        details=_(
            "It writes a folder with train.py, which trains the same with transformers, TRL and PEFT, and with the "
            "run's examples as Parquet files. What it does differently from Hone is listed at its top."
        ),
    )
    source_help = _("{name}; or a run file").format(name=NAME_HELP)
    command.add_argument("source", metavar="RUN|FILE.hone", help=source_help)
    command.add_argument(
        "--output", "-o", type=Path, metavar="FOLDER", help=_("a new folder; by default NAME-script, here")
    )
    _add_hub(commands)


# --- hone try


def _add_try(commands: CommandParsers) -> None:
    command = commands.add(
        "try",
        try_run,
        summary=_("try a run's model: chat, complete or classify a text, classify an image"),
        example='2026-01-31-reviews "A fine film."',
        details=_(
            "Without a TEXT or --file it answers line after line of standard input. --file with several images, a "
            "folder, or a table or file of texts writes a CSV file with the answers. It is refused while a run trains."
        ),
    )
    add_run(command)
    command.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help=_(
            "the input, in quotes; two for a model that reads pairs of texts; - reads all of standard input"
        ),
    )
    add_flag(command, "--before", _("use the model as it was before training"))
    what = command.add_mutually_exclusive_group()
    add_repeated(what, "--prompt", "TEXT", _("the same as TEXT"))
    what.add_argument(
        "--file",
        type=Path,
        nargs="+",
        metavar="FILE",
        help=_("images or folders of images to classify, or one file with a text in each row"),
    )
    command.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        help=_("with --file: a new CSV file with all answers; default, and -: print it"),
    )
    add_flag(command, "--cpu", _("answer on the CPU, even while a run trains"))
    add_json(command, _("print answers as JSON, a line each"))
    group, default = command.add_argument_group(_("for text generation and chat")), chat_jobs.Writing()
    group.add_argument("--system", default="", metavar="TEXT", help=_("the system prompt"))
    for name, kind, metavar, text in (
        ("max_tokens", int, "N", _("max new tokens; default: {default}")),
        ("temperature", float, "T", _("default: {default}, always the most likely token")),
        ("top_p", float, "P", _("default: {default}, all tokens")),
        ("seed", int, "N", _("default: {default}")),
    ):
        value = getattr(default, name)
        flag, help_text = f"--{name.replace('_', '-')}", text.format(default=f"{value:g}")
        group.add_argument(flag, type=kind, default=value, metavar=metavar, help=help_text)
    add_repeated(group, "--stop", "TEXT", _("stop sequence; may be repeated"))


def try_run(arguments: argparse.Namespace) -> int:
    run = find_run(arguments.name)
    options = run.options()
    files: list[Path] = arguments.file or []
    texts = arguments.texts + arguments.prompt
    if options.task.reads_images and (not files or texts):
        refuse(_("this run's model reads images; name them with --file"))
    if options.task.writes_text and files:
        refuse(
            _(
                "only a model that classifies or estimates answers files; give this run's model a text in quotes"
            )
        )
    for path in files:
        if not path.exists():
            refuse(_("there is no file {file}").format(file=path))
    if arguments.output and not files:
        refuse(_("--output goes with --file"))
    output = new_file(Path(arguments.output)) if arguments.output not in (None, "-") else None
    if chat.reads_pairs(run) and not files and len(texts) != 2:
        refuse(_("this run's model reads pairs of texts; give both, each in quotes"))
    may_be_pair = chat.reads_pairs(run) or not chosen_examples(run.events_file)
    if len(texts) > (2 if may_be_pair else 1):
        refuse(_("this run's model reads one text at a time; give it in quotes"))
    which = chat_jobs.Which.BEFORE if arguments.before else chat_jobs.Which.TRAINED
    verdict = chat.room_for(run, (which,), settings.runs_folder(), on_cpu=arguments.cpu)
    if not verdict.allowed:
        hint = _("--cpu tries the model on the CPU all the same.") if verdict.cpu_helps else ""
        raise OutOfMemory(verdict.title, paragraph(verdict.detail, hint))
    is_one = len(files) == 1 and options.task.reads_images and not files[0].is_dir() and not arguments.output
    process = chat.TryProcess(chat_jobs.Load(run=str(run.path.absolute()), which=which, on_cpu=arguments.cpu))
    try:
        if not files or is_one:
            return _talk(process, arguments, _questions(arguments, texts, options))
        with tempfile.TemporaryDirectory() as folder:
            table = output or Path(folder) / "answers.csv"
            paths = tuple(str(path.absolute()) for path in files)
            asked = chat_jobs.Files(paths=paths, output=str(table.absolute()), in_pairs=chat.reads_pairs(run))
            status = _talk(process, arguments, iter((asked,)))
            if table.exists() and output is None and not arguments.json:
                say(table.read_text(encoding="utf-8-sig"), end="")
            return status
    except BaseException:  # Ctrl-C, or an unreadable question: leave no process behind
        process.kill()
        raise


def _questions(
    arguments: argparse.Namespace, given: Sequence[str], options: RunOptions
) -> Iterator[chat_jobs.Given]:
    def question(*texts: str) -> chat_jobs.Given:
        if options.task.reads_conversations:
            return chat_jobs.Chat(
                turns=(chat_jobs.ChatTurn(Speaker.USER, "\n".join(texts)),), system=arguments.system
            )
        return chat_jobs.Texts(texts=texts)

    if arguments.file is not None:
        yield chat_jobs.Image(path=str(arguments.file[0].absolute()))
    elif given and given != ["-"]:
        yield question(*given)
    elif given:
        yield question(sys.stdin.read().rstrip("\n"))
    elif not sys.stdin.isatty():
        yield from (question(line.rstrip("\n")) for line in sys.stdin if line.strip())
    else:
        note(_("Type a text and press Return; Ctrl-D ends."))
        while True:
            try:
                line = input("> ")
            except EOFError:
                say("")
                return
            if line.strip():
                yield question(line)


def _talk(
    process: chat.TryProcess, arguments: argparse.Namespace, questions: Iterator[chat_jobs.Given]
) -> int:
    """Asks all questions and prints the answers; returns the exit status."""
    writing = chat_jobs.Writing(
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        seed=arguments.seed,
        stop_at=tuple(arguments.stop),
    )
    turns: tuple[chat_jobs.ChatTurn, ...] = ()
    text, number, status = "", 0, 0
    bar = JobOutput(_("Answering"), quiet=arguments.json)
    for message in process.lines():
        if arguments.json and not isinstance(message, chat_jobs.TextPiece | chat_jobs.FilesPart):
            say(msgspec.json.encode(message).decode())
        match message:
            case chat_jobs.TextPiece():
                if not arguments.json:
                    say(message.text, end="")
                continue
            case chat_jobs.FilesPart():
                bar.show(JobProgress(done=message.done, total=message.total))
                continue
            case chat_jobs.Loaded():
                if not arguments.json:
                    note(
                        _("{name}, on {device} in {dtype}").format(
                            name=message.name, device=message.device, dtype=message.dtype
                        )
                    )
            case chat_jobs.Answered():
                bar.close()
                turns = (*turns, chat_jobs.ChatTurn(Speaker.ASSISTANT, message.text))
                if not arguments.json:
                    say("\n".join(answer_lines(message, text)), end="" if message.added else "\n")
                    note("\n".join((*message.notes, f"{message.name}: {message.figures}")))
            case chat_jobs.NotAnswered():
                status = 1
                note(UserError(message.error.title, message.error.detail, message.error.fixes))
            case _:
                continue
        given = next(questions, None)
        if given is None:
            process.close()
            continue
        if isinstance(given, chat_jobs.Chat):
            turns = (*turns, *given.turns)
            given = chat_jobs.Chat(turns=turns, system=given.system)
        text = " ".join(given.texts) if isinstance(given, chat_jobs.Texts) else ""
        number += 1
        process.say(chat_jobs.Ask(id=number, given=given, writing=writing))
    return status


def answer_lines(answered: chat_jobs.Answered, text: str = "") -> list[str]:
    """Formats an answer about `text`. Generated text was streamed already, so only its line end is returned."""
    if answered.chances:
        return [f"{label.chance:>7.1%}  {visible(label.label)}" for label in answered.chances[:SHOWN_LABELS]]
    if answered.number is not None:
        return [f"{answered.number:.4g}"]
    if answered.ended_by is not None:
        return [" …" if answered.ended_by is chat_jobs.EndedBy.LENGTH else ""]
    return [f"{word.chance:>7.1%}  {word.label}  {text[word.start : word.end]}" for word in answered.words]


# --- hone export


def _add_export(commands: CommandParsers) -> None:
    command = commands.add(
        "export",
        export,
        summary=_("export a run's model, metrics or report"),
        example="2026-01-31-reviews --to gguf",
        details=_(
            "An exported model is compared with the trained one on the same examples and deleted if it differs; then "
            "it ends with 1. Without --to, --metrics or --report it lists the formats. Only --to hub uploads anything."
        ),
    )
    add_run(command)
    kinds = [kind.value for kind in ExportKind]
    what = command.add_mutually_exclusive_group()
    what.add_argument("--to", choices=kinds, metavar="KIND", help=", ".join(kinds))
    what.add_argument("--metrics", metavar="FILE", help=_("a new CSV file, or .parquet; - prints CSV"))
    what.add_argument(
        "--report", type=Path, metavar="FILE", help=_("one HTML page about the run; shows your data")
    )
    model = command.add_argument_group(_("with --to"))
    model.add_argument("--folder", metavar="DIR", help=_("a new or empty folder; default: RUN-KIND here"))
    model.add_argument(
        "--numbers",
        choices=[numbers.value for numbers in NumberFormat],
        default=NumberFormat.AUTO.value,
        help=_(
            "number format of the weights; default: as trained, with LoRA as the model it was trained on; q8_0, q4_0 "
            "and q4_k_m: only with gguf; affine8 and affine4: only with mlx"
        ),
    )
    model.add_argument("--checkpoint", default="", metavar="NAME", help=_("export this checkpoint"))
    model.add_argument("--repo", default="", metavar="OWNER/NAME", help=_("with --to hub: a new repository"))
    add_flag(model, "--public", _("with --to hub: everybody can see the repository"))
    pushed = [kind for kind in kinds if kind != ExportKind.HUB]
    model.add_argument(
        "--as", dest="pushed", choices=pushed, metavar="KIND", help=_("with --to hub: what is uploaded")
    )
    command.add_argument(
        "--rows",
        choices=[what.value for what in What],
        default=What.STEPS.value,
        help=_("with --metrics: one row for each; default: steps"),
    )
    add_json(command)


def export(arguments: argparse.Namespace) -> int:
    run = find_run(arguments.name)
    if arguments.metrics:
        return export_metrics(run, What(arguments.rows), arguments.metrics)
    if arguments.report:
        save_report(run, new_file(arguments.report))
        note(_("The report is in {file}").format(file=arguments.report))
        return 0
    if not arguments.to:
        return list_formats(run, as_json=arguments.json)
    kind = ExportKind(arguments.to)
    request = Wanted(
        run=str(run.path),
        kind=kind,
        folder=arguments.folder or f"{run.name}-{kind}",
        repo=arguments.repo,
        private=not arguments.public,
        pushed=ExportKind(arguments.pushed) if arguments.pushed else None,
        numbers=NumberFormat(arguments.numbers),
        checkpoint=arguments.checkpoint,
    )
    with JobOutput(quiet=arguments.json) as output:
        report = Export(request).run(output.show)
    print_answer(report, export_lines(report), as_json=arguments.json)
    return 0


def list_formats(run: RunFolder, *, as_json: bool) -> int:
    """Prints what a run's model can be exported to, and why not the rest."""
    source = find_source(run)
    offered = offers(source)
    lines = [f"{source.checkpoint_text}\n"] if source.checkpoint_text else []
    for offer in offered:
        title, purpose = EXPORTS[offer.kind]
        refused = _("Not on this computer: {reason}") if offer.suits else _("Not for this run: {reason}")
        refusal = refused.format(reason=offer.refusal) if offer.refusal else offer.caution
        sizes = [f"{one.numbers} {formats.memory(one.size)}" for one in offer.formats if one.size]
        lines += [f"{offer.kind:<11} " + formats.paragraph(title, purpose)]
        about = _("About: {sizes}").format(sizes=formats.enumerated(sizes))
        lines += [f"{'':<11} {about}"] if sizes else []
        lines += [f"{'':<11} {refusal}\n" if refusal else ""]
    print_answer(offered, lines, as_json=as_json)
    return 0


def export_lines(report: ExportReport) -> Iterator[str]:
    yield _("{title}: {files}, {size}, in {path}").format(
        title=EXPORTS[report.kind][0],
        files=formats.counted(len(report.files), "file"),
        size=formats.memory(report.size),
        path=report.path,
    )
    if report.agreement is not None:
        agreement = agreement_text(report.agreement)
        yield _("Checked against the trained model: {agreement}").format(agreement=agreement)
        yield report.agreement.why
    elif report.unchecked:
        yield report.unchecked
    yield from report.notes


def export_metrics(run: RunFolder, what: What, target: str) -> int:
    """Writes one table of a run to a new file; missing figures are empty, a loss that isn't finite NaN, inf or -inf."""
    table = MetricsTable(run, what)
    if target == "-":
        count = write_csv(table, sys.stdout)
    else:
        path = new_file(Path(target))
        if path.suffix.lower() not in (".csv", ".parquet"):
            message = _("metrics are written as .csv or .parquet, not as {file}")
            refuse(message.format(file=path.name))
        count = (save_parquet if path.suffix.lower() == ".parquet" else save_csv)(table, path)
    rows = formats.counted(count, METRIC_NOUNS[what])
    note(_("{rows} written").format(rows=rows))
    if table.skipped:
        lines = formats.counted(table.skipped, "line")
        note(_("Note: {lines} can't be read and were left out.").format(lines=lines))
    return 0


# --- hone script


def script(arguments: argparse.Namespace) -> int:
    path = Path(arguments.source)
    if path.suffix.lower() in run_file.ENDINGS and path.is_file():
        folder = arguments.output or Path(f"{path.stem}-script")
        save_script(run_file.read(path), folder)
    else:
        run = find_run(arguments.source)
        folder = arguments.output or Path(f"{run.name}-script")
        save_script_of_run(run, folder)
    say(_("The script is {file}; its examples are beside it.").format(file=folder / SCRIPT))
    return 0


# --- hone hub


def _add_hub(commands: CommandParsers) -> None:
    command = commands.add(
        "hub",
        use_hub,
        summary=_("search the Hugging Face Hub, download, and show what is here"),
        example="bert --task text-classification",
        details=_(
            "Downloads safetensors, config and tokenizer, or Parquet, CSV and JSON, and never code or pickled weights. "
            "Ctrl-C pauses a download; the same command continues it. HF_HUB_OFFLINE=1, or “Work offline” in "
            "Settings, forbids all of it."
        ),
    )
    command.add_argument(
        "words", nargs="*", metavar="WORDS", help=_("words in names; default: the most downloaded")
    )
    action, name = command.add_mutually_exclusive_group(), "OWNER/NAME"
    action.add_argument("--download", metavar=name, help=_("download a model, or with --data a data set"))
    add_flag(action, "--list", _("show what is downloaded"))
    action.add_argument("--remove", metavar=name, help=_("delete it from this computer, for all programs"))
    add_flag(action, "--account", _("show whose token is used, and where it is stored"))
    add_flag(action, "--sign-in", _("store a token in this computer's keychain"))
    add_flag(action, "--sign-out", _("remove it from the keychain"))
    add_flag(command, "--data", _("data sets, not models"))
    command.add_argument(
        "--task", choices=sorted(hub.PURPOSES), default="", help=_("search: only models for this")
    )
    command.add_argument(
        "--subset", default="", metavar="NAME", help=_("with --download: a part of a data set")
    )
    add_flag(command, "--unfinished", _("with --remove: only its unfinished download"))
    add_flag(command, "--yes", _("with --remove: don't ask"))
    add_json(command)


def use_hub(arguments: argparse.Namespace) -> int:
    kind = hub.RepoKind.DATASET if arguments.data else hub.RepoKind.MODEL
    if arguments.download:
        request = hub_jobs.DownloadRequest(id=arguments.download, kind=kind, subset=arguments.subset)
        return download(request, as_json=arguments.json)
    if arguments.list:
        report = run_job("hub-cached", None, hub_jobs.CacheReport)
        print_answer(report, _cache_lines(report), as_json=arguments.json)
        return 0
    if arguments.remove:
        return remove(
            hub_jobs.RemoveRequest(id=arguments.remove, kind=kind, only_partial=arguments.unfinished),
            agreed=arguments.yes,
        )
    if arguments.account or arguments.sign_in or arguments.sign_out:
        return account(arguments)
    return search(" ".join(arguments.words), kind, arguments.task, as_json=arguments.json)


def search(words: str, kind: hub.RepoKind, task: str, *, as_json: bool) -> int:
    """Prints models or data sets by words in their names, the most downloaded first; returns 1 if there are none."""
    matches = run_job(
        "hub-search", hub_jobs.SearchRequest(words=words, kind=kind, task=task), hub_jobs.SearchAnswer
    ).found
    if matches or as_json:
        first = _("Data set") if kind is hub.RepoKind.DATASET else _("Model")
        numbers = (_("Size"), _("Parameters"), _("Downloads"), _("Likes"))
        titles = (first, *numbers, _("Licence"), _("Here"), _("Note"))
        print_answer(matches, [formats.table(titles, list(map(_match_row, matches)))], as_json=as_json)
    else:
        template = _("Nothing suitable on {host} has “{words}” in its name.")
        note(template.format(host=hub.host(), words=words))
    return 0 if matches else 1


def _match_row(match: hub_jobs.Found) -> tuple[str, ...]:
    counts = (match.parameters, match.downloads, match.likes)
    return (
        match.id,
        formats.memory(match.size),
        *(formats.MISSING if count is None else f"{count:,}" for count in counts),
        match.licence or formats.MISSING,
        _("yes") if match.complete else formats.memory(match.here) if match.here else "",
        match.refusal or (_("gated: accept its terms on its page, and sign in") if match.gated else ""),
    )


def download(request: hub_jobs.DownloadRequest, *, as_json: bool) -> int:
    try:
        with JobOutput(is_download=True, quiet=as_json) as output:
            done = run_job("hub-download", request, hub_jobs.Downloaded, output.show)
    except KeyboardInterrupt:
        data = " --data" if request.kind is hub.RepoKind.DATASET else ""
        command = f"hone hub --remove {request.id} --unfinished{data}"
        note(
            _("Paused. The same command continues; `{command}` deletes what was downloaded.").format(
                command=command
            )
        )
        return INTERRUPTED
    files, size = formats.counted(done.files, "file"), formats.memory(done.size)
    text = _("{files}, {size}, in {path}").format(files=files, size=size, path=done.path)
    print_answer(done, [text], as_json=as_json)
    return 0


def _cache_lines(report: hub_jobs.CacheReport) -> Iterator[str]:
    """Yields what is in the cache, the largest first."""
    if not report.repos:
        yield _("Nothing from the Hub is in {folder}.").format(folder=report.folder)
        return
    titles = (_("Name"), _("Kind"), _("Size"), _("Unfinished"), _("Changed"))
    yield formats.table(titles, list(map(_cached_row, report.repos)))
    yield ""
    yield _("{size} in {folder}").format(size=formats.memory(report.total), folder=report.folder)


def _cached_row(repo: hub_jobs.Cached) -> tuple[str, ...]:
    unfinished = formats.memory(repo.partial) if repo.partial else ""
    changed = formats.full_moment(repo.changed) if repo.changed else ""
    return repo.id, repo.kind.value, formats.memory(repo.size), unfinished, changed


def remove(request: hub_jobs.RemoveRequest, *, agreed: bool) -> int:
    if not agreed:
        question = (
            _("Delete the unfinished download of {name} from the cache, for all programs?")
            if request.only_partial
            else _("Delete {name} from the cache, for all programs?")
        )
        if not confirm(question.format(name=request.id)):
            return 1
    freed = run_job("hub-remove", request, hub_jobs.Removed).freed
    say(_("{size} freed").format(size=formats.memory(freed)))
    return 0


def account(arguments: argparse.Namespace) -> int:
    if arguments.sign_in:  # asked for, so that it doesn't stay in the shell's history
        prompt = _("Token (huggingface.co/settings/tokens): ")
        token = getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline()
        found = run_job(
            "hub-account",
            hub_jobs.AccountRequest(action=hub_jobs.AccountAction.SAVE, token=token),
            hub_jobs.Account,
        )
        say(_("Saved in {keychain}.").format(keychain=found.keychain))
    elif arguments.sign_out:
        found = run_job(
            "hub-account", hub_jobs.AccountRequest(action=hub_jobs.AccountAction.REMOVE), hub_jobs.Account
        )
        say(_("The keychain no longer has a token of Hone's."))
        say(found.words)
    else:
        found = run_job(
            "hub-account", hub_jobs.AccountRequest(action=hub_jobs.AccountAction.CHECK), hub_jobs.Account
        )
        print_answer(found, [found.words], as_json=arguments.json)
    return 0

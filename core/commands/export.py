"""`hone export`: make of a run's model what other programs take, or say what it can become."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from core import figures
from core.commands.arguments import NAME_HELP
from core.commands.output import print_json, say
from core.commands.runs import find_run
from core.export_job import Export, Wanted
from core.export_offers import find_source, offers
from core.exporting import EXPORTS, ExportKind, ExportReport, NumberFormat, agreement_words
from core.jobs import JobProgress
from core.run_folder import RunFolder

if TYPE_CHECKING:
    import argparse

    from core.commands.arguments import Commands

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
    command.set_defaults(run=_run)


def _kinds() -> str:
    return ", ".join(kind.value for kind in ExportKind)


def _run(asked: "argparse.Namespace") -> int:
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

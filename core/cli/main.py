"""The command line: its commands and their arguments."""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.base import settings
from core.base.errors import OptionsError, TargetError, UserError
from core.base.jobs import EngineCrashed
from core.base.settings import VERSION
from core.cli import data as files
from core.cli import data as inspecting
from core.cli import data as reports
from core.cli import memory, runs, train
from core.cli import train as running
from core.cli.ask import add_trying
from core.cli.benchmark import add_bench
from core.cli.data import add_gpu_pack, check_device, import_options
from core.cli.models import add_export, add_giving, add_hub
from core.cli.output import NAME_HELP, say
from core.cli.runs import add_tidying, export_metrics, predictions
from core.cli.train import INTERRUPTED, KeeperCommand, add_queue, add_resume
from core.options.choices import Task
from core.runs import start as starting
from core.runs.metrics import What
from core.runs.words import error_text

if TYPE_CHECKING:
    from core.cli.output import Commands


# --- The command line: starting runs, following and stopping them, looking at data and devices


TASKS = tuple(task.value for task in Task)
WRONG_REQUEST = 2


def main(
    arguments: Sequence[str], start: train.Start = starting.start, keeper: KeeperCommand | None = None
) -> int:
    """Do what the command line asks for and return the exit status.

    Args:
        arguments: The command line without the program's name.
        start: What starts a run.
        keeper: What starts the keeper of a run that is gone on with; None: Hone's own.
    """
    _speak_utf8()
    parsed = _parser(start, keeper).parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except BrokenPipeError:  # `hone runs | head`: who read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the outer edge of this process
        return _tell(error)


def _tell(error: Exception) -> int:
    """Say on standard error what ended the command, a bug with its report in the log; returns the exit status."""
    match error:
        case UserError():
            say(error_text(error), sys.stderr)
        case EngineCrashed():
            say(error, sys.stderr)
        case OSError(filename=str() as name):
            _report(error, f"{name}: {error.strerror}")
        case OSError():
            _report(error, str(error))
        case _:
            _report(error, f"A fault in Hone: {type(error).__name__}: {error}")
    return WRONG_REQUEST if isinstance(error, OptionsError | TargetError) else 1


def _report(error: Exception, sentence: str) -> None:
    """Say what ended the command, and put the whole report into Hone's log.

    Where that can't be, a bug is reported here. What the system refused needs no report: the sentence names it.
    """
    report = "".join(traceback.format_exception(error))
    log = settings.home() / "hone.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} ERROR {' '.join(sys.argv)}\n{report}")
    except OSError:
        if not isinstance(error, OSError):
            say(report, sys.stderr)
    else:
        sentence = f"{sentence}\nThe whole report is in {log}"
    say(sentence, sys.stderr)


def _speak_utf8() -> None:
    """Terminals of Windows may speak a code page that lacks letters in names and paths."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")


def names() -> frozenset[str]:
    """What the commands are called."""
    return frozenset(_add_commands(argparse.ArgumentParser(), starting.start, None).choices or ())


class _Parser(argparse.ArgumentParser):
    """Shows the usage of the command whose argument is unknown, where argparse shows the program's own."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def _parser(start: train.Start, keeper: KeeperCommand | None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hone",
        description="Fine-tune models on your own computer and watch them train. Without arguments the window opens, "
        "with a run file, a run's folder or data it opens and shows that.",
        epilog="Runs are kept where `hone runs` says; HONE_HOME moves them. Exit status: 0 done, 1 failed, 2 the "
        "request was wrong, 3 the run doesn't fit (train, forecast, measure, fit), 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"Hone {VERSION}")
    _add_commands(parser, start, keeper)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser, start: train.Start, keeper: KeeperCommand | None
) -> "Commands":
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_train(commands, start)
    add_resume(commands, keeper)
    add_queue(commands)
    _add_runs(commands)
    add_tidying(commands)
    add_trying(commands)
    _add_memory(commands)
    add_bench(commands)
    _add_questions(commands)
    add_hub(commands)
    add_gpu_pack(commands)
    add_giving(commands)
    _add_files(commands)
    return commands


def _add_train(commands: "Commands", start: train.Start) -> None:
    command = commands.add_parser(
        "train",
        help="train what a run file asks for",
        description="Train what a run file asks for. Ctrl-C stops and keeps what is trained; twice ends it at once; "
        "three times leaves it alone. A run that doesn't fit into the free memory by forecast ends before it trains, "
        "with 3, unless --yes is given or somebody at the terminal agrees.",
    )
    command.add_argument("file", type=Path, metavar="RUN.hone")
    command.add_argument("--run-dir", type=Path, metavar="DIR", help="the run's own folder: new or empty")
    _add_set(command)
    command.add_argument("--json", action="store_true", help="print what happens as JSON lines")
    command.add_argument(
        "--queue", action="store_true", help="wait until nothing else trains on its device (see `hone queue`)"
    )
    command.add_argument("--yes", action="store_true", help="train even if it doesn't fit by forecast")
    command.add_argument(
        "--offline", action=_Offline, nargs=0, help="fetch nothing; so does HF_HUB_OFFLINE=1"
    )
    command.set_defaults(
        run=lambda asked: train.train(
            asked.file,
            tuple(asked.overrides),
            asked.run_dir,
            as_json=asked.json,
            queued=asked.queue,
            agreed=asked.yes,
            start=start,
        )
    )


class _Offline(argparse.Action):
    """Forbids this process, and those it starts, to ask the Hub for anything."""

    def __call__(self, *_given: object) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"


def _add_set(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="SECTION.OPTION=VALUE",
        help="change an option of the file; may be repeated (see `hone options`)",
    )


def _add_runs(commands: "Commands") -> None:
    listing = commands.add_parser("runs", help="list all runs, newest first")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(run=lambda asked: runs.list_all(as_json=asked.json))
    showing = commands.add_parser("show", help="tell all about one run")
    showing.add_argument("name", metavar="RUN", help=NAME_HELP)
    showing.add_argument("--json", action="store_true")
    showing.set_defaults(run=lambda asked: runs.show(asked.name, as_json=asked.json))
    saying = commands.add_parser(
        "predictions",
        help="tell what a run's model said of its held-out examples, before training and at last",
    )
    saying.add_argument("name", metavar="RUN", help=NAME_HELP)
    saying.add_argument("--json", action="store_true", help="all that was said at every evaluation")
    saying.set_defaults(run=lambda asked: predictions(asked.name, as_json=asked.json))
    running.add_running(commands)
    add_export(commands)
    _add_export(commands)


def _add_export(commands: "Commands") -> None:
    exporting = commands.add_parser(
        "export-metrics",
        help="write a run's figures as a table for other programs",
        description="Write a run's figures as a table for other programs, a row for each step: its loss, learning "
        "rate, gradient norm, samples, and where its time went. Missing figures are empty, and a loss that isn't "
        "finite is NaN, inf or -inf. Steps that were trained again are there once.",
    )
    exporting.add_argument("name", metavar="RUN", help=NAME_HELP)
    target = exporting.add_mutually_exclusive_group(required=True)
    target.add_argument("--csv", metavar="FILE", help="a new CSV file; - prints it")
    target.add_argument("--parquet", metavar="FILE", help="a new Parquet file")
    exporting.add_argument(
        "--what",
        choices=[what.value for what in What],
        default=What.STEPS.value,
        help="default: steps; machine: memory, processors, battery and disk, a row for each sample",
    )
    exporting.set_defaults(
        run=lambda asked: export_metrics(asked.name, What(asked.what), csv=asked.csv, parquet=asked.parquet)
    )


def _add_memory(commands: "Commands") -> None:
    forecast = commands.add_parser(
        "forecast",
        help="say how much memory a run will take",
        description="Say how much memory a run will take, part by part, and what to do if that is too much. Nothing is "
        "trained. Of a model on the Hugging Face Hub that isn't on this computer, its config.json is fetched, and no "
        "weights. Ends with 3 when it doesn't fit.",
    )
    _add_run_file(forecast)
    forecast.add_argument(
        "--quick", action="store_true", help="without reading the data: rows as long as is allowed"
    )
    forecast.add_argument("--offline", action="store_true", help="fetch nothing; so does HF_HUB_OFFLINE=1")
    forecast.set_defaults(
        run=lambda asked: memory.forecast(
            asked.file,
            tuple(asked.overrides),
            quick=asked.quick,
            as_json=asked.json,
            offline=asked.offline,
        )
    )
    measuring = commands.add_parser(
        "measure",
        help="train some steps to see how much memory and time a run takes",
        description="Train some steps in a process of their own, the longest batch of the data first, and say how much "
        "memory and time they took. Nothing is kept. Ends with 3 when it doesn't fit.",
    )
    _add_run_file(measuring)
    measuring.set_defaults(
        run=lambda asked: memory.measure(asked.file, tuple(asked.overrides), as_json=asked.json)
    )
    fitting = commands.add_parser(
        "fit",
        help="find by trying what makes a run fit",
        description="Measure one combination of smaller batches, half precision and the like after another, until one "
        "fits with a tenth to spare, and write it to a new run file. Looks for the fastest among those that keep the "
        "result, then among those that lose least. Where the run fits as it is, a file is written only if --output "
        "names one. Ends with 3 when nothing fits.",
    )
    _add_run_file(fitting)
    fitting.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="a new file; default: NAME.fits.hone beside RUN.hone",
    )
    fitting.set_defaults(
        run=lambda asked: memory.fit(asked.file, tuple(asked.overrides), asked.output, as_json=asked.json)
    )


def _add_run_file(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="RUN.hone")
    _add_set(command)
    command.add_argument("--json", action="store_true", help="print the answer as JSON")


def _add_questions(commands: "Commands") -> None:
    devices = commands.add_parser("devices", help="say what this computer can train on")
    devices.add_argument("--json", action="store_true")
    devices.set_defaults(run=lambda asked: reports.devices(as_json=asked.json))
    checking = commands.add_parser(
        "check-device",
        help="hold a device against the CPU: does it compute what it should?",
        description="Compute the same small models on a device and on the CPU, and compare. Takes half a minute at "
        "most. Without an accelerator, one thread of the CPU is held against several. Ends with 1 when they differ.",
    )
    checking.add_argument("--device", default="auto", metavar="NAME", help="as `hone devices` names it")
    checking.add_argument("--short", action="store_true", help="only what matters most, in a few seconds")
    checking.add_argument("--json", action="store_true")
    checking.set_defaults(run=lambda asked: check_device(asked.device, short=asked.short, as_json=asked.json))
    inspect = commands.add_parser(
        "inspect",
        help="say what is in data, and what is wrong with it",
        description="Say what is in a data file or folder, which column is what, what is wrong in which row, and what "
        "a model would see of it. Ends with 1 when a problem would stop a run.",
    )
    inspect.add_argument("source", metavar="FILE", help="a file, a folder, or hub:OWNER/NAME")
    inspect.add_argument("--task", choices=TASKS, help="default: judged by the data")
    inspect.add_argument("--text-column", action="append", default=[], metavar="NAME")
    inspect.add_argument("--label-column", metavar="NAME")
    _add_set(inspect)
    inspect.add_argument("--json", action="store_true")
    inspect.set_defaults(run=_inspect)


def _inspect(asked: argparse.Namespace) -> int:
    """Columns have arguments of their own, as they are what one looks for most."""
    chosen = {"data.text_columns": ",".join(asked.text_column), "data.label_column": asked.label_column}
    given = (f"{path}={value}" for path, value in chosen.items() if value)
    task = Task(asked.task) if asked.task else None
    return inspecting.inspect(asked.source, task, (*given, *asked.overrides), as_json=asked.json)


def _add_files(commands: "Commands") -> None:
    new = commands.add_parser("new", help="print a run file to start from")
    new.add_argument("--task", choices=TASKS, help="what is to be learned; a preset may say it")
    new.add_argument(
        "--preset", metavar="NAME", help="options to begin with, such as fastest or published-guide"
    )
    new.add_argument("--output", "-o", type=Path, metavar="FILE", help="write it there; FILE must be new")
    new.set_defaults(
        run=lambda asked: files.new(Task(asked.task) if asked.task else None, asked.output, asked.preset)
    )
    importing = commands.add_parser(
        "import",
        help="make a run file of a script's options",
        description="Make a run file of what a script was told: TrainingArguments as JSON or in Python, or a command "
        "line such as that of run_glue.py. What has another name here is listed, and what no longer exists.",
    )
    importing.add_argument("source", metavar="FILE", help="- reads standard input")
    importing.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="write it there; FILE must be new"
    )
    importing.set_defaults(run=lambda asked: import_options(asked.source, asked.output))
    options = commands.add_parser("options", help="explain every option of a run file")
    options.add_argument("--markdown", action="store_true", help="as the page docs/options.md")
    options.set_defaults(run=lambda asked: files.options(as_page=asked.markdown))

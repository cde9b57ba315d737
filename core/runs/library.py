"""Create, list and read runs."""

import contextlib
import heapq
import re
import shutil
import time
import unicodedata
from itertools import count
from operator import attrgetter
from pathlib import Path

import msgspec

from core.base.errors import OptionsError, Problem, RunFolderError, UserError, why
from core.base.files import changed_at, write_atomically
from core.base.language import _
from core.memory.model import Forecast
from core.options import RunOptions, run_file
from core.options.catalogue import options_of, with_changes
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.past_runs import names_in, run_folder, with_run_path
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import Scheme
from core.options.validate import problems_of
from core.runs import elsewhere
from core.runs.event_log import EventReader
from core.runs.folder import RunFolder
from core.runs.models import is_left_behind, trained_model
from core.runs.notes import asked_title, title_in, title_of
from core.runs.status import RunStatus


def create(
    options: RunOptions, runs_folder: Path, path: Path | None = None, forecast: Forecast | None = None
) -> RunFolder:
    """Makes the folder of a new run and writes its options into it.

    Args:
        runs_folder: The folder of all runs; the new one is named after the run and the date.
        path: The run's folder, instead; it must be empty or absent.
        forecast: The memory forecast, if there is one; otherwise the engine makes one.

    Raises:
        OptionsError: `path` holds something already, or the run starts from another one that has trained on since its
            model was written.
        RunFolderError: The folder can't be made.
    """
    _refuse_left_behind(run_folder(options.model.source))
    try:
        if path is not None:
            made = path.absolute()
            if any(made.iterdir()) if made.is_dir() else made.exists():
                message = _("{folder} is not empty; name a new folder").format(folder=made)
                raise OptionsError((Problem("", message),), _("The run folder"))
            made.mkdir(parents=True, exist_ok=True)
        else:
            made = _make_folder(runs_folder.absolute() / folder_name(options))
        folder = RunFolder(made)
        run_file.write(with_run_path(options), folder.options_file)
        if forecast is not None:
            write_atomically(folder.forecast_file, msgspec.json.encode(forecast))
    except OSError as error:
        where = error.filename or path or runs_folder
        raise RunFolderError(_("The run's folder can't be made"), f"{where}: {why(error)}") from error
    return folder


def options_of_test(run: RunFolder, data: str) -> RunOptions:
    """Returns the options of a run that only evaluates the model of `run` on a file or folder.

    How data is read, and how the model computes, is as in that run.

    Raises:
        OptionsError: That run can't be read, has no model or needs that before training, too, or there is no such data.
    """
    tested = run.options()
    memory = MemoryOptions(batch_size=tested.memory.batch_size)
    kept = {name: getattr(tested.training, name) for name in ("seed", "preference_loss", "beta")}
    training = TrainingOptions(epochs=0.0, **kept)
    name = _("{run}, tested on {data}").format(run=title_of(run.path, tested), data=Path(data).name)
    options = with_changes(
        msgspec.structs.replace(tested, memory=memory, training=training),
        {
            "model.source": Scheme.RUN.of(str(run.path.absolute())),
            "model.pretrained": True,
            "model.vocabulary": ModelOptions().vocabulary,
            "data.eval": str(Path(data).absolute()),
            "data.drop_duplicates": False,
            "data.eval_split": None,
            "data.eval_fraction": DataOptions().eval_fraction,
            "data.max_eval_samples": None,
            "output.name": name,
            "output.keep_best": False,
        },
    )
    if problems := problems_of(options):
        raise OptionsError(problems)
    return options


def newest_test(run: RunFolder) -> RunFolder | None:
    """Returns the newest run that only evaluates the model of `run`, if there is one."""
    source = Scheme.RUN.of(str(run.path.absolute()))
    later = (other for other in list_runs(run.path.parent) if names_in(other.path)[1] == source)
    options = ((other, other.readable_options()) for other in later)
    return next((other for other, asked in options if asked is not None and asked.only_evaluates), None)


def create_all(
    options: RunOptions, runs_folder: Path, path: Path | None = None, forecast: Forecast | None = None
) -> tuple[RunFolder, ...]:
    """Makes the folders of all runs that the options ask for, in their order; see `create`.

    It is one run, except that a chat model from scratch takes two: text generation on the text of the conversations,
    and chat, which starts from the first run's model. With a `path`, the first is in a folder beside it. A name that
    another run in `runs_folder` has gets a number.
    """
    options = numbered(options, runs_folder)
    if not options.pretrains:
        return (create(options, runs_folder, path, forecast),)
    before, chat = options_of_runs(options)
    first = create(before, runs_folder, path and path.with_name(f"{path.name}-pretraining"))
    chat = with_changes(chat, {"model.source": Scheme.RUN.of(str(first.path))})
    try:
        return first, create(chat, runs_folder, path, forecast)
    except UserError:
        shutil.rmtree(first.path, ignore_errors=True)
        raise


def options_of_runs(options: RunOptions) -> tuple[RunOptions, ...]:
    """Returns the options of each run of `create_all`; the second of two still has the first's model as source."""
    if not options.pretrains:
        return (options,)
    name, replace = asked_title(options), msgspec.structs.replace
    output = replace(
        options.output, name=_("{name}, pretraining").format(name=name), prompts=(), save_model=True
    )
    before = replace(options, task=Task.CAUSAL_LM, output=output)
    unused = {
        option.path.removeprefix("data."): option.default
        for option in options_of("data")
        if not option.applies_to(before)
    }
    before = replace(before, data=replace(options.data, **unused))
    model = replace(options.model, vocabulary=ModelOptions().vocabulary, pretrained=True)
    return before, replace(options, model=model, output=replace(options.output, name=name))


def pretraining_pair(run: RunFolder) -> tuple[RunFolder, RunFolder] | None:
    """Returns both runs of `create_all` for a chat model from scratch, by one of them; None for any other run."""
    options = run.readable_options()
    if options is not None and options.task is Task.CAUSAL_LM and options.starts_random:
        source = Scheme.RUN.of(str(run.path.absolute()))
        later = (other for other in list_runs(run.path.parent) if names_in(other.path)[1] == source)
        return next(filter(None, map(pretraining_pair, later)), None)
    folder = run_folder(options.model.source) if options is not None else None
    if options is None or folder is None or options.task is not Task.CHAT:
        return None
    before = RunFolder(folder).readable_options()
    if before is None or before.task is not Task.CAUSAL_LM or not before.starts_random:
        return None
    return (RunFolder(folder), run) if before.data.train == options.data.train else None


TITLE_JOIN = " · "
"""In the name of a run of a sweep, between what all its runs are called and the values that this one has."""


def numbered(options: RunOptions, runs_folder: Path) -> RunOptions:
    """Returns the options with a name that no other run or sweep has: `Digits`, then `Digits 2`, `Digits 3`."""
    name, titles = asked_title(options), {title_in(run.path) for run in list_runs(runs_folder)}
    taken = titles | {title.partition(TITLE_JOIN)[0] for title in titles}
    if not name or name not in taken:
        return options
    base, _space, number = name.rpartition(" ")
    if not number.isdecimal() or base not in taken:
        base = name
    free = next(each for number in count(2) if (each := f"{base} {number}") not in taken)
    return msgspec.structs.replace(options, output=msgspec.structs.replace(options.output, name=free))


def _refuse_left_behind(folder: Path | None) -> None:
    """Refuses to start from a run whose newest weights aren't those of its model."""
    run = RunFolder(folder) if folder else None
    newest = trained_model(run) if run and is_left_behind(run) else None
    if run is not None and newest is not None:
        message = _(
            "the run {run} has trained on since its model was written: its newest weights are those of its checkpoint "
            "of step {step:,}; resume it until it ends, or export that checkpoint and start from the folder"
        )
        raise OptionsError((Problem("model.source", message.format(run=run.name, step=newest.step)),))


def _make_folder(wanted: Path) -> Path:
    """Makes `wanted`, or `wanted-2`, `wanted-3`, … where other runs have taken the name, an empty folder included."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        candidate = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        with contextlib.suppress(FileExistsError):
            candidate.mkdir()
            return candidate
    raise AssertionError


def folder_name(options: RunOptions) -> str:
    """Returns a folder name that sorts by date and is safe on every operating system; Latin letters lose accents."""
    parts = unicodedata.normalize("NFKD", asked_title(options).casefold())
    bare = unicodedata.normalize("NFC", re.sub("(?<=[a-z])[\u0300-\u036f]+", "", parts))
    kept = (letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in bare)
    slug = "-".join("".join(kept).split())[:48].strip("-")
    return f"{time.strftime('%Y-%m-%d-%H%M')}-{slug or 'run'}"


def list_runs(runs_folder: Path) -> list[RunFolder]:
    """Returns all runs in a folder, newest first. A folder whose run file is damaged or lost is a run all the same."""
    if not runs_folder.is_dir():
        return []
    created = [(_created_at(path), path) for path in runs_folder.iterdir() if path.is_dir()]
    return [RunFolder(path) for moment, path in sorted(created, reverse=True) if moment]


def unfinished_on(computer: str, runs_folder: Path) -> list[RunFolder]:
    """Returns the runs that this Hone trains on another computer, or that were not brought back whole."""
    links = [(run, run.connection()) for run in list_runs(runs_folder)]
    at_work = [(run, link) for run, link in links if link and link.computer == computer and not link.over]
    return [run for run, link in at_work if elsewhere.owner(link.computer, link.folder) is not None]


def _created_at(path: Path) -> int:
    """Returns when the run in `path` was created, in unix nanoseconds; 0 if there is no run."""
    files = (path / name for name in ("run.toml", "events.jsonl", "exit.json"))
    return next(filter(None, map(changed_at, files)), 0)


def run_title(run: RunFolder) -> str:
    """Returns what a run is called (`core.runs.notes.title_of`); reads its files."""
    return title_of(run.path, run.readable_options())


def read_status(run: RunFolder) -> RunStatus:
    """Folds all of a run's events and machine samples, in the order of time."""
    status = RunStatus()
    readers = [EventReader(path) for path in (run.events_file, run.machine_file)]
    status.apply_all(heapq.merge(*(reader.read_all() for reader in readers), key=attrgetter("time")))
    status.skipped = sum(reader.skipped for reader in readers)
    status.trouble = next((reader.trouble for reader in readers if reader.trouble), "")
    return status

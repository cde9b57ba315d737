"""Compare runs: results, options that differ, and machines. And sweeps: runs that are made to be compared.

Comparing reads only the beginnings and ends of their files, so that a run of a million steps costs as little as a short
one.
"""

import difflib
import itertools
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from core.base import formats
from core.base.errors import OptionsError, Problem, UserError
from core.base.files import write_atomically
from core.base.formats import LESS_IS_BETTER, enumerated
from core.base.language import _, isolated, ngettext
from core.options import RunOptions, past_runs, run_file
from core.options.catalogue import all_options, put, value_of, value_text, with_changes
from core.options.declare import Option, OptionKind
from core.options.past_runs import RunNotes, run_folder
from core.options.validate import check_tree
from core.runs import notes
from core.runs.folder import RunFolder
from core.runs.library import TITLE_JOIN, create, list_runs, numbered
from core.runs.notes import asked_title
from core.runs.status import RunStatus, State
from core.runs.summary import RunSummary, state_at_end, status_at_end, summarize
from core.runs.verdict import CERTAIN
from core.runs.words import statements

FEWEST, MOST = 2, 12
"""Numbers of runs that can be compared: more curves can't be distinguished."""

ROUNDING = 0.005
"""By this share the losses, and what follows from them, may differ of runs that are the same but for rounding."""


class Absent(StrEnum):
    """Why a run has no value for an option."""

    NO_MEANING = "no-meaning"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class OptionDifference:
    """An option in which runs differ, with the value of each, defaults filled in; `Absent` where it has none."""

    option: Option
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """Something else in which runs differ, in words; empty where nothing is known of a run."""

    title: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class RunComparison:
    """Runs side by side; options and what ran have a value for each, in their order.

    `conclusion` says which run is `best`; empty while fewer than two have a result. `is_fair`: all were evaluated on
    the same examples, as far as it is known, and equally far.
    """

    runs: tuple[RunSummary, ...]
    options: tuple[OptionDifference, ...]
    ran: tuple[Difference, ...]
    conclusion: str
    best: RunSummary | None
    is_fair: bool


def compare(runs: Sequence[RunFolder]) -> RunComparison:
    """Compares two or more runs."""
    facts = []
    statuses = [status_at_end(run, and_beginning=True) for run in runs]
    for status in statuses:
        ran = {found.title: found.value for found in statements(status.what_ran)}
        facts.append(
            ran
            | {_("Version of {name}").format(name=name): version for name, version in status.versions.items()}
        )
    titles = dict.fromkeys(title for ran in facts for title in ran)
    rows = (Difference(title, tuple(ran.get(title, "") for ran in facts)) for title in titles)
    summaries, options = tuple(map(summarize, runs)), [run.readable_options() for run in runs]
    known = next(filter(None, options), None)  # nothing is said against runs whose options can't be read
    validated = {
        _validation(status.plan.eval_samples, one or known)
        for status, one in zip(statuses, options, strict=True)
        if status.plan is not None  # else it has not read its data yet
    }
    judged = [
        _Judged(run, _judged_after(run, status))
        for run, status in zip(summaries, statuses, strict=True)
        if run.result is not None and math.isfinite(run.result)
    ]
    conclusion, best = _conclusion(judged, validated, is_over=all(run.state.is_over for run in summaries))
    return RunComparison(
        runs=summaries,
        options=differing_options(options),
        ran=tuple(row for row in rows if _differ(row.values, ("",))),
        conclusion=conclusion,
        best=best,
        is_fair=len(validated) <= 1 and len({one.share for one in judged}) <= 1,
    )


def _validation(count: int, options: RunOptions | None) -> tuple[int, object]:
    """Returns the number of validation examples, and the options that decide which they are."""
    return count, options and _evaluated_on(options)


def _evaluated_on(options: RunOptions) -> object:
    """Returns the options that decide which examples are for validation."""
    data, split = options.data, (options.data.eval_fraction, options.data.train_split, options.training.seed)
    is_given = bool(data.eval or data.eval_split)
    return options.task, data.eval or data.train, data.eval_split, not is_given and split


class _Judged(NamedTuple):
    """A run with a result, and the share of its steps after which that was measured, in whole percent."""

    run: RunSummary
    share: float

    @property
    def text(self) -> str:
        result = formats.metric_format(self.run.metric or "")(self.run.result or 0.0)
        template = _("“{run}” {value} after {share} of its steps")
        return template.format(
            run=isolated(self.run.title), value=result, share=formats.whole_percent(self.share)
        )


def _judged_after(run: RunSummary, status: RunStatus) -> float:
    if run.state is State.FINISHED or not status.total_steps:
        return 1.0
    return round((status.evaluated_at or 0) / status.total_steps, 2)


def _conclusion(
    judged: Sequence[_Judged], validated: set[tuple[int, object]], *, is_over: bool
) -> tuple[str, RunSummary | None]:
    if len(judged) < FEWEST:
        return "", None
    names = {one.run.metric or "" for one in judged}
    if len(names) > 1 or len(validated) > 1:
        return _("Their results can't be compared: they have different validation data or metrics."), None
    (name,), ((count, _options),) = names, validated
    furthest = max(one.share for one in judged)
    behind = enumerated(one.text for one in judged if one.share < furthest)
    level = [one.run for one in judged if one.share == furthest]
    if len(level) < FEWEST:
        found = _("They aren't equally far, so none is called best. {metric}: {runs}.")
        listed = enumerated(one.text for one in judged)
        return found.format(metric=formats.metric_title(name), runs=listed), None
    level.sort(key=attrgetter("result"), reverse=name not in LESS_IS_BETTER)
    high, low = (one.result or 0.0 for one in level[:FEWEST])
    best: RunSummary | None
    write, best = formats.metric_format(name), level[0]
    found = _("“{run}” is best: {metric} {value}, the next {other}, on {on}.")
    if not is_over:
        found = _("“{run}” is best so far: {metric} {value}, the next {other}, on {on}.")
    tied = [run for run in level if write(run.result or 0.0) == write(high)]
    if len(tied) == len(level):
        found, best = _("Equal on {on}: {metric} {value}."), None
    elif len(tied) > 1:
        found, best = _("{runs} are level, and the best: {metric} {value}, on {on}."), None
    error = math.sqrt(max(0.0, high * (1 - high) + low * (1 - low)) / max(count, 1))
    unclear = CERTAIN * error if formats.is_share(name) else ROUNDING * abs(low)
    if best is not None and 0 < abs(high - low) < unclear:
        found = formats.paragraph(found, _("So small a difference may be chance."))
    if behind:
        found = formats.paragraph(found, _("Not as far, so left out: {behind}."))
    on = ngettext("{count} validation example", "{count} validation examples", count)
    return found.format(
        on=on.format(count=formats.count(count)),
        run=isolated(level[0].title),
        runs=enumerated(f"“{isolated(run.title)}”" for run in tied),
        metric=formats.metric_words(name),
        value=write(high),
        other=write(low),
        behind=behind,
    ), best


def partners(run: RunFolder) -> list[RunFolder]:
    """Returns the runs to compare one with, best first.

    It starts with the one whose model this one began with and those that began with its model; then all of its task,
    those with a model first, by how few options differ, the newest first. Reads all runs beside it.
    """
    options, own, ranks = run.readable_options(), run.path.absolute(), {}
    for one in list_runs(run.path.parent):
        theirs = one.readable_options()
        if options is None or theirs is None or one == run:
            continue
        is_other = one.path.absolute() != run_folder(options.model.source)
        is_no_child = run_folder(theirs.model.source) != own
        if theirs.task is options.task or not (is_other and is_no_child):
            has_model = state_at_end(one) in (State.FINISHED, State.STOPPED)
            ranks[one] = is_other, is_no_child, not has_model, len(differing_options([options, theirs]))
    return sorted(ranks, key=ranks.__getitem__)


def differing_options(options: Sequence[RunOptions | None]) -> tuple[OptionDifference, ...]:
    """Returns the options in which runs differ, in the order of a run file; None: a run's options can't be read.

    How a run that only evaluates would train is no difference, nor is an option that has no meaning in a run: the one
    that gives it a meaning differs.
    """
    rows = (OptionDifference(one, tuple(_value(one, tree) for tree in options)) for one in all_options())
    differing = (row for row in rows if _differ(row.values, tuple(Absent)))
    return tuple(row for row in differing if row.option.path != "output.name")  # it heads the column anyway


_OF_TRAINING = ("training.", "memory.", "output.")


def _value(option: Option, options: RunOptions | None) -> Any:
    if options is None or (options.only_evaluates and option.path.startswith(_OF_TRAINING)):
        return Absent.UNREADABLE
    return value_of(options, option.path) if option.acts_in(options) else Absent.NO_MEANING


def _differ(values: tuple[Any, ...], unknown: tuple[Any, ...]) -> bool:
    """Returns whether any two that are known differ."""
    known = [value for value in values if value not in unknown]
    return any(value != known[0] for value in known[1:])


# --- Sweeps


TRIED_MOST = {
    "learning_rate": _("lr"),
    "batch_size": _("batch"),
    "lora_rank": _("rank"),
    "epochs": _("epochs"),
    "seed": _("seed"),
}
"""The options of which people try several values, the most frequent first, and what they are called in a run's name."""
TRIED_TOO = (
    "max_length",
    "max_train_samples",
    "image_size",
    "augmentation",
    "horizontal_flip",
    "packing",
    "loss_on",
    "precision",
)
"""Options outside the sections of model, memory and training."""
TRIED_KINDS = (OptionKind.WHOLE, OptionKind.NUMBER, OptionKind.CHOICE, OptionKind.SWITCH)


def sweepable(options: RunOptions) -> dict[str, Option]:
    """Returns the options of which several values can be tried, by path; first those that people try most."""
    found = {
        option.name: option
        for option in all_options()
        if option.kind in TRIED_KINDS
        and (option.section in ("model", "memory", "training") or option.name in TRIED_TOO)
        and option.acts_in(options)
    }
    return {found[name].path: found[name] for name in (*TRIED_MOST, *found) if name in found}


def sweep(options: RunOptions, values: Mapping[str, str]) -> dict[str, RunOptions]:
    """Returns the options of a run for each value, or each combination of values of several options, by these in words.

    Args:
        values: Values separated by commas, each as `--set` takes it, by the path of their option.

    Raises:
        OptionsError: A run is refused (all refusals are listed), the runs couldn't be compared, or they are too many.
    """
    known, runs, problems = sweepable(options), dict[str, RunOptions](), list[Problem]()
    for path in values:
        if path not in known:
            likely = difflib.get_close_matches(path, known, 1) or list(known)
            text = _("several values of it can't be tried here; did you mean {option}?")
            problems.append(Problem(path, text.format(option=likely[0])))
    lists = [[(path, one) for one in formats.items_of(text)] for path, text in values.items()]
    if (count := math.prod(map(len, lists))) > MOST:
        text = _("that makes {count} runs; at most {most} can be compared")
        problems.append(Problem("", text.format(count=formats.count(count), most=MOST)))
    if options.pretrains:
        text = _("a new chat model takes two runs; finish the first, then try values in runs from its model")
        problems.append(Problem("model.source", text))
    for chosen in () if problems else itertools.product(*lists):
        tree = run_file.to_tree(options)
        put(tree, {path: run_file.parse_value(path, text) for path, text in chosen})
        one, refused = check_tree(tree)
        names = {
            path: known[path].title if refused else TRIED_MOST.get(known[path].name, known[path].title)
            for path, _text in chosen
        }
        words = enumerated(
            f"{names[path]} {value_text(known[path], value_of(one, path) if one else text)}"
            for path, text in chosen
        )
        problems += (
            Problem(found.path, formats.titled(words, found.message), found.fixes) for found in refused
        )
        if one is not None:
            name = f"{asked_title(options)}{TITLE_JOIN}{words}"
            runs[words] = with_changes(one, {"output.name": name})
    if not problems and len(runs) < FEWEST:
        problems.append(Problem("", _("give two different values or more, with commas between them")))
    if not problems and len(set(map(_evaluated_on, runs.values()))) > 1:
        text = _("the runs would have different validation examples; choose a validation file or split first")
        problems.append(Problem("", text))
    if problems:
        raise OptionsError(tuple(problems))
    return runs


def create_sweep(options: RunOptions, values: Mapping[str, str], runs_folder: Path) -> list[RunFolder]:
    """Makes the folders of the runs of a `sweep`, which get a tag of their own, such as `sweep-1`; see `create`."""
    return create_tagged([*sweep(numbered(options, runs_folder), values).values()], "sweep", runs_folder)


def create_tagged(
    asked: Sequence[RunOptions], word: str, runs_folder: Path, files: Sequence[Mapping[str, bytes]] = ()
) -> list[RunFolder]:
    """Makes the folders of runs that get a tag of their own, `word` and a number; see `create`.

    Args:
        files: More files by name to be put into the folder of each run.

    Raises:
        UserError: A folder can't be made; then none is left.
        OSError: A file can't be written; then none is left.
    """
    taken = {tag for run in list_runs(runs_folder) for tag in past_runs.read(run.path).tags}
    tag = next(name for number in itertools.count(1) if (name := f"{word}-{number}") not in taken)
    runs: list[RunFolder] = []
    try:
        for options, contents in zip(asked, files or [{}] * len(asked), strict=True):
            runs.append(create(options, runs_folder))
            notes.write(runs[-1].path, RunNotes(tags=(tag,)))
            for name, content in contents.items():
                write_atomically(runs[-1].path / name, content)
    except (UserError, OSError):
        for run in runs:
            shutil.rmtree(run.path, ignore_errors=True)
        raise
    return runs

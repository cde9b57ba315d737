"""A form, checked; and what the engine is asked about it: what is in the data, and whether the model can be trained."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from PySide6.QtCore import QObject, Signal

from core.base.errors import Problem
from core.memory.model import ModelReport, OptionsRequest
from core.options import RunOptions, Tree
from core.options.catalogue import value_at
from core.options.choices import Task
from core.options.device_support import MachineReport, machine_problems, model_may_refuse
from core.options.method_rules import (
    STEP_PATHS,
    Extent,
    batch_hint,
    extent,
    steps_hint,
    steps_of,
    warmup_problem,
)
from core.options.validate import check_tree, read_options
from core.services.hub import question_about
from core.services.inspect import DataReport, Finding, FindingLevel, InspectRequest, inspect_request
from gui.base.background import Ask, DebouncedTask, EngineBroke


@dataclass(frozen=True)
class Checked:
    """A form's tree, checked. `options` is None while a value can't be read.

    `readable` has defaults in place of the values that can't be read; `unreadable` names those by their paths.
    """

    options: RunOptions | None
    readable: RunOptions | None
    unreadable: frozenset[str]
    problems: tuple[Problem, ...]


def check_form(tree: Tree) -> Checked:
    """Read what can be read and name all problems."""
    options, problems = check_tree(tree)
    unreadable = frozenset(problem.path for problem in read_options(tree)[1])
    rest = {
        section: {name: value for name, value in values.items() if f"{section}.{name}" not in unreadable}
        if isinstance(values, dict)
        else values
        for section, values in tree.items()
    }
    return Checked(options, read_options(rest)[0], unreadable, problems)


def is_counted(options: RunOptions, data: DataReport) -> bool:
    """Whether samples can be counted: the rows of running text are whole texts, and become many blocks or few."""
    return bool(data.rows) and (options.task is not Task.CAUSAL_LM or data.train_rows is not None)


def known_extent(options: RunOptions, data: DataReport) -> Extent:
    """How long the run is; rows that are dropped, held out or packed count where the look at the data told them."""
    counted = extent(options, data.rows)
    if data.train_rows is None:
        return counted
    evaluated = counted.evaluated if data.eval_rows is None or counted.evaluated is None else data.eval_rows
    return Extent(data.train_rows, evaluated, *steps_of(options, data.train_rows))


def length_problems(checked: Checked, data: DataReport | None) -> tuple[Problem, ...]:
    """What doesn't go with the number of steps, where the rows of the data are known."""
    known = _length(checked, data)
    found = warmup_problem(known[0], known[1].steps) if known else None
    return (found,) if found is not None else ()


def length_hints(checked: Checked, data: DataReport | None) -> tuple[Problem, ...]:
    """What is worth knowing of the numbers of samples and steps, where the rows of the data are known."""
    known = _length(checked, data)
    if known is None:
        return ()
    options, found = known
    return tuple(
        one for hint in (batch_hint, steps_hint) if (one := hint(options, found.trained)) is not None
    )


def _length(checked: Checked, data: DataReport | None) -> tuple[RunOptions, Extent] | None:
    options = checked.readable
    if options is None or data is None or checked.unreadable & STEP_PATHS or not is_counted(options, data):
        return None
    return options, known_extent(options, data)


def all_problems(
    checked: Checked,
    of_data: Sequence[Problem],
    machine: MachineReport | None,
    order: Sequence[str],
    of_answers: Sequence[Problem] = (),
) -> list[Problem]:
    """Problems of the values, the data and the machine, in the order of the form.

    `of_answers` are those that came of what the engine said of data and model. They and the machine add none to an
    option that has one from before them.
    """
    found = [*checked.problems, *of_data]
    of_machine = machine_problems(machine, checked.readable) if machine and checked.readable else ()
    named = {problem.path for problem in checked.problems}
    for more in (of_answers, tuple(of_machine)):
        new = [problem for problem in more if problem.path not in named]
        named |= {problem.path for problem in new}
        found += new
    places = {path: place for place, path in enumerate(order)}
    return sorted(found, key=lambda problem: places.get(problem.path, len(places)))


class ModelCheck(DebouncedTask[OptionsRequest, ModelReport]):
    """What is known about the chosen model.

    `longest` is the most tokens the model can see, `shaped` the newest report that tells its shape; both stay known
    while only other options are asked about.
    """

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(ask, "check-model", ModelReport, parent)
        self.longest: int | None = None
        self.shaped: ModelReport | None = None

    def look_at(self, request: OptionsRequest | None, *, is_early: bool = False) -> bool:
        """Find out about a model; None: it can't be known. The same request again changes nothing.

        Early is a question while the data is being read, whose labels it counts.
        """
        if _source(request) != _source(self._request):
            self.longest = self.shaped = None
        return super().look_at(request, is_early=is_early)

    def problems(self) -> tuple[Problem, ...]:
        """What the model lacks. A failure to find out is none: the run would say what is wrong."""
        return self.report.problems if self.report is not None else ()

    def _take(self, report: ModelReport) -> None:
        self.longest = report.max_length
        if report.shape is not None:
            self.shaped = report
        super()._take(report)


def _source(request: OptionsRequest | None) -> tuple[object, object] | None:
    return None if request is None else (request.asked["task"], request.asked["model"]["source"])


class DataReading(DebouncedTask[InspectRequest, DataReport]):
    """What is known about the chosen data; `changed` is sent when reading begins, too.

    `is_cancelled` while the person has given up reading it; `progress` is the share that is done, 0 to 1, where the
    engine tells it.

    Signals:
        progressed: `progress` is another.
    """

    progressed = Signal()

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(ask, "inspect", DataReport, parent)
        self.is_cancelled = False
        self.progress: float | None = None

    @property
    def has_broken(self) -> bool:
        """Whether nothing is known because of a bug in Hone; that is no reason not to train."""
        return isinstance(self.failure, EngineBroke)

    @property
    def counted(self) -> DataReport | None:
        """The report, for who counts rows and steps.

        While the data is read anew, the rows it told to train on are those of other options: they are left out where
        samples are the rows of the file, and can be counted by the options alone.
        """
        report, request = self.report, self._request
        if report is None or request is None or not self.is_waiting or report.train_rows is None:
            return report
        is_packed = value_at(request.asked, "data.packing", False)
        if is_packed or request.asked["task"] == Task.CAUSAL_LM:
            return report
        return msgspec.structs.replace(report, train_rows=None, eval_rows=None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.report.findings if self.report is not None else ()

    @property
    def stops(self) -> bool:
        return self.problem_count > 0

    @property
    def problem_count(self) -> int:
        return sum(finding.level is FindingLevel.PROBLEM for finding in self.findings)

    def look_at(self, request: InspectRequest | None, *, is_early: bool = False) -> bool:
        """Find out what is in some data; None: there is none. The same request again changes nothing."""
        is_new = super().look_at(request, is_early=is_early)
        if is_new:
            self.is_cancelled, self.progress = False, None
            self.changed.emit()
        return is_new

    def cancel(self) -> None:
        """Give up reading; the run itself will say what is wrong with the data."""
        if self.is_waiting:
            self.hold()
            self._is_held = False
            self.is_cancelled = True
            self.changed.emit()

    def tell_progress(self, share: float) -> None:
        """Say how much of the data has been read, 0 to 1."""
        self.progress = share
        self.progressed.emit()

    def look_again(self) -> None:
        request, self._request = self._request, None
        self.look_at(request)

    def settle_on(self, request: InspectRequest) -> None:
        """Count the report at hand as the answer to `request`: its guesses have been taken over."""
        self._request = request

    def problems(self) -> tuple[Problem, ...]:
        if self.failure is not None and not self.has_broken:
            message = ". ".join(
                part.rstrip(".") for part in (self.failure.title, self.failure.detail) if part
            )
            return (Problem("data.train", message, self.failure.fixes),)
        return self.report.problems if self.report is not None else ()

    def _stays_known(self, before: InspectRequest | None, request: InspectRequest | None) -> bool:
        return before is not None and request is not None and before.source == request.source


SOURCES_OF_OUR_OWN = ("builtin:", "synthetic:")
"""Data that needs no look before a start: nothing can be wrong with it."""

MODEL_PATHS = ("model.", "memory.activation_checkpointing")
"""Options the question about the model is made of."""


class FormQuestions(QObject):
    """Both questions, the model's asked after the data's, whose labels it counts.

    Args:
        ask: Starts an engine job (`gui.base.background.Ask`).
    """

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.data = DataReading(ask, self)
        self.model = ModelCheck(ask, self)

    def look_at(self, checked: Checked) -> None:
        """Ask about what the form holds now, where it isn't known yet; what is known to be wrong is not asked about."""
        is_readable = not any(problem.path == "data.train" for problem in checked.problems)
        self.data.look_at(data_request(checked.readable) if is_readable else None)
        self.model.look_at(self._model_request(checked), is_early=self.data.is_waiting)

    def keeps_waiting(self, options: RunOptions | None) -> bool:
        """Whether a start has to wait for an answer that may refuse it."""
        if options is None:
            return False
        is_ours = options.data.train.startswith(SOURCES_OF_OUR_OWN)
        is_model_in_doubt = self.model.is_waiting and model_may_refuse(options)
        return is_model_in_doubt or (self.data.is_waiting and not is_ours)

    def close(self) -> None:
        self.data.close()
        self.model.close()

    def _model_request(self, checked: Checked) -> OptionsRequest | None:
        has_source = not any(problem.path == "model.source" for problem in checked.problems)
        is_clear = not any(path.startswith(MODEL_PATHS) for path in checked.unreadable)
        if checked.readable is None or not has_source or not is_clear:
            return None
        report = self.data.report
        return question_about(checked.readable, len(report.labels) if report else 2)


def data_request(options: RunOptions | None) -> InspectRequest | None:
    """The question about the data of a form; None where none is chosen."""
    if options is None or not options.data.train:
        return None
    return inspect_request(options)

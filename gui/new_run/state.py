"""The checked form, and what the engine knows about its data and model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from PySide6.QtCore import QObject, Signal

from core.base.errors import Problem, UserError
from core.base.formats import paragraph
from core.base.jobs import JobProgress
from core.base.language import _
from core.jobs.inspect import (
    QUICK_TRY,
    DataFinding,
    DataReport,
    FindingLevel,
    InspectRequest,
    inspect_request,
)
from core.memory.model import ModelReport, OptionsRequest, question_about
from core.options import RunOptions, Tree
from core.options.catalogue import value_at, with_changes
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
from core.runs.notes import asked_title
from gui.base.background import Answer, Ask, Broken, EngineWork


@dataclass(frozen=True)
class CheckedForm:
    """A checked form. `options` is None while a value can't be read.

    `readable` has defaults for the values that can't be read, whose paths are `unreadable`.
    """

    options: RunOptions | None
    readable: RunOptions | None
    unreadable: frozenset[str]
    problems: tuple[Problem, ...]


def check_form(tree: Tree) -> CheckedForm:
    options, problems = check_tree(tree)
    unreadable = frozenset(problem.path for problem in read_options(tree)[1])
    rest = {
        section: {name: value for name, value in values.items() if f"{section}.{name}" not in unreadable}
        if isinstance(values, dict)
        else values
        for section, values in tree.items()
    }
    return CheckedForm(options, read_options(rest)[0], unreadable, problems)


def is_counted(options: RunOptions, data: DataReport) -> bool:
    """Whether the number of examples is known: rows of running text become an unknown number of blocks."""
    return bool(data.rows) and (options.task is not Task.CAUSAL_LM or data.train_rows is not None)


def known_extent(options: RunOptions, data: DataReport) -> Extent:
    """Return how long the run is, by the counts of the data report where it has them."""
    counted = extent(options, data.rows)
    if data.train_rows is None:
        return counted
    evaluated = counted.evaluated if data.eval_rows is None or counted.evaluated is None else data.eval_rows
    return Extent(data.train_rows, evaluated, *steps_of(options, data.train_rows))


CLEARLY_MORE = 2


def length_findings(
    checked: CheckedForm, data: DataReport | None
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return problems and advice that follow from the number of examples and steps, if that is known."""
    options = checked.readable
    if options is None or data is None or checked.unreadable & STEP_PATHS or not is_counted(options, data):
        return (), ()
    known = known_extent(options, data)
    problem = warmup_problem(options, known.steps)
    hints = (rule(options, known.trained) for rule in (batch_hint, steps_hint))
    return (problem,) if problem else (), tuple(filter(None, hints))


def quick_options(options: RunOptions, data: DataReport | None) -> RunOptions | None:
    """Return the options of a quick try; None if it would train on hardly less, or not on all labels."""
    if data is None or options.only_evaluates or not is_counted(options, data):
        return None
    has_all = data.first_labels is None or data.first_labels == len(data.labels)
    if not has_all or known_extent(options, data).trained < CLEARLY_MORE * QUICK_TRY:
        return None
    name = _("{name}, quick try").format(name=asked_title(options))
    changes = {"data.max_train_samples": QUICK_TRY, "training.max_steps": None, "output.name": name}
    quick = with_changes(options, changes)
    return None if warmup_problem(quick, extent(quick, QUICK_TRY).steps) else quick


def all_problems(
    checked: CheckedForm,
    of_data: Sequence[Problem],
    machine: MachineReport | None,
    order: Sequence[str],
    of_answers: Sequence[Problem] = (),
) -> list[Problem]:
    """Return the problems of values, data and machine, in the order of the form's paths.

    Those of `of_answers`, the engine's reports, and of the machine are left out for options that have one already.
    """
    problems = [*checked.problems, *of_data]
    named = {problem.path for problem in checked.problems}
    of_machine = machine_problems(machine, checked.readable) if machine and checked.readable else ()
    for more in (of_answers, tuple(of_machine)):
        new = [problem for problem in more if problem.path not in named]
        named |= {problem.path for problem in new}
        problems += new
    places = {path: place for place, path in enumerate(order)}
    return sorted(problems, key=lambda problem: places.get(problem.path, len(places)))


Request = TypeVar("Request", bound=msgspec.Struct)


class FormQuestion(EngineWork[Answer], Generic[Request, Answer]):
    """What the engine is asked about the form, a moment after the last change. `report` is the newest answer.

    Args:
        job: The engine's job, such as `inspect`.
        kind: Of its answer.
    """

    changed = Signal()  # an answer or a failure has come; subclasses say what else

    def __init__(
        self, start: Ask, job: str, kind: type[Answer], parent: QObject | None = None, *, delay_ms: int = 250
    ) -> None:
        super().__init__(parent, done=self._on_report, failed=self._on_failure)
        self._start_job, self._job, self._kind = start, job, kind
        self.delay_ms = delay_ms
        self.report: Answer | None = None
        self._request: Request | None = None
        self._is_deferred = False

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come."""
        return self._is_deferred or self.is_running

    def set_request(self, request: Request | None, *, is_deferred: bool = False) -> bool:
        """Set what to ask, None for nothing. The same request again changes nothing.

        Args:
            is_deferred: Start the job only when this is called again without it.

        Returns:
            Whether the request is new, so that older answers are dropped.
        """
        if request == self._request and (is_deferred or not self._is_deferred):
            return False
        keeps_report = self._keeps_report(self._request, request)
        self.cancel()
        self.failure, self._request = None, request
        if not keeps_report:
            self.report = None
        self._is_deferred = is_deferred and request is not None
        if request is not None and not is_deferred:
            self.ask(self._start_job, self._job, self._kind, request, after_ms=self.delay_ms)
        return True

    def hold(self) -> None:
        """Cancel the job until `set_request` is called again."""
        if self.is_running:
            self.cancel()
            self._is_deferred = True

    def _keeps_report(self, before: Request | None, request: Request | None) -> bool:
        """Whether the report on `before` still tells something about `request`."""
        return False

    def _on_report(self, report: Answer) -> None:
        self.report = report
        self.changed.emit()

    def _on_failure(self, _error: UserError) -> None:
        self.report = None
        self.changed.emit()


class ModelCheck(FormQuestion[OptionsRequest, ModelReport]):
    """What is known about the chosen model.

    `longest` is its context length in tokens, `shaped` the newest report with its shape, `why_not_mlx` as in the
    newest report. They are kept while only other options change.
    """

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(ask, "check-model", ModelReport, parent)
        self.longest: int | None = None
        self.why_not_mlx = ""
        self.shaped: ModelReport | None = None
        self._answers: dict[bytes, ModelReport] = {}  # by their requests

    def set_request(self, request: OptionsRequest | None, *, is_deferred: bool = False) -> bool:
        if _model_of(request) != _model_of(self._request):
            self.longest, self.why_not_mlx, self.shaped = None, "", None
        is_new = super().set_request(request, is_deferred=is_deferred)
        if is_new and (answer := self._answers.get(msgspec.json.encode(request))) is not None:
            self.hold()
            self._is_deferred = False
            self._keep(answer)
        return is_new

    def problems(self) -> tuple[Problem, ...]:
        """Return what the model refuses. A failed check is no problem: the run would report it."""
        return self.report.problems if self.report is not None else ()

    def _on_report(self, report: ModelReport) -> None:
        if report.architecture and not report.problems:  # else a file may be added or mended
            self._answers[msgspec.json.encode(self._request)] = report
        self._keep(report)
        self.changed.emit()

    def _keep(self, report: ModelReport) -> None:
        self.report, self.longest, self.why_not_mlx = report, report.max_length, report.why_not_mlx
        if report.shape is not None:
            self.shaped = report


def _model_of(request: OptionsRequest | None) -> tuple[object, object] | None:
    return None if request is None else (request.asked["task"], request.asked["model"]["source"])


UNUSED = "unused-"
"""The codes of findings about data that could be used for validation begin so."""


class DataReading(FormQuestion[InspectRequest, DataReport]):
    """What is known about the chosen data; `changed` is also sent when reading begins.

    `is_stopped` while the person has stopped the reading; `share` is how much is read, 0 to 1, if known.
    """

    progressed = Signal()  # `share`

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(ask, "inspect", DataReport, parent)
        self.is_stopped = False
        self.share: float | None = None
        self.progress.connect(self._on_progress)

    @property
    def has_broken(self) -> bool:
        """Whether a bug ended the reading, which does not prevent training."""
        return isinstance(self.failure, Broken)

    @property
    def counted(self) -> DataReport | None:
        """The report, for counting examples and steps.

        While the data is read again, its number of training rows is that of earlier options. It is left out where rows
        are examples, which the options alone can count.
        """
        report, request = self.report, self._request
        if report is None or request is None or not self.is_waiting or report.train_rows is None:
            return report
        is_packed = value_at(request.asked, "data.packing", False)
        if is_packed or request.asked["task"] == Task.CAUSAL_LM:
            return report
        return msgspec.structs.replace(report, train_rows=None, eval_rows=None)

    @property
    def findings(self) -> tuple[DataFinding, ...]:
        """What was found in the data itself."""
        return tuple(item for item in self._found if not item.code.startswith(UNUSED))

    @property
    def advice(self) -> tuple[Problem, ...]:
        """Advice to use data found beside it for validation."""
        unused = (item for item in self._found if item.code.startswith(UNUSED))
        return tuple(Problem("data.eval_fraction", item.message, item.fixes) for item in unused)

    @property
    def _found(self) -> tuple[DataFinding, ...]:
        return self.report.findings if self.report is not None else ()

    @property
    def problem_count(self) -> int:
        """How many findings prevent the start."""
        return sum(finding.level is FindingLevel.PROBLEM for finding in self.findings)

    def set_request(self, request: InspectRequest | None, *, is_deferred: bool = False) -> bool:
        is_new = super().set_request(request, is_deferred=is_deferred)
        if is_new:
            self.is_stopped, self.share = False, None
            self.changed.emit()
        return is_new

    def stop(self) -> None:
        """Stop reading; the run itself will report what is wrong with the data."""
        if self.is_waiting:
            self.hold()
            self._is_deferred = False
            self.is_stopped = True
            self.changed.emit()

    def read_again(self) -> None:
        request, self._request = self._request, None
        self.set_request(request)

    def accept_guesses(self, request: InspectRequest) -> None:
        """Keep the report as the answer to `request`, which only adds what the report itself guessed."""
        self._request = request

    def problems(self) -> tuple[Problem, ...]:
        if self.failure is not None and not self.has_broken:
            return (Problem("data.train", self.failure.title, self.failure.fixes),)
        return self.report.problems if self.report is not None else ()

    def _keeps_report(self, before: InspectRequest | None, request: InspectRequest | None) -> bool:
        if before is None or request is None or before.asked["task"] != request.asked["task"]:
            return False  # another task has other checks and columns
        return before.source == request.source

    def _on_progress(self, progress: JobProgress) -> None:
        self.share = progress.share
        self.progressed.emit()


def failure_text(failure: UserError) -> str:
    """Title and detail as sentences."""
    return paragraph(failure.title, failure.detail)


SOURCES_OF_OUR_OWN = ("builtin:", "synthetic:")
"""Data that needs no check before a start."""

MODEL_PATHS = ("model.", "memory.activation_checkpointing")
"""Options of the request about the model."""


class FormQuestions(QObject):
    """What the engine is asked about the form: its data, and then its model, which needs the number of labels."""

    def __init__(self, ask: Ask, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.data = DataReading(ask, self)
        self.model = ModelCheck(ask, self)

    def update(self, checked: CheckedForm) -> None:
        """Ask about what the form holds now, unless it is known or known to be wrong."""
        is_readable = not any(problem.path == "data.train" for problem in checked.problems)
        self.data.set_request(data_request(checked.readable) if is_readable else None)
        self.model.set_request(self._model_request(checked), is_deferred=self.data.is_waiting)

    def prevents_start(self, options: RunOptions | None) -> bool:
        """Whether an answer is still to come that may prevent the start."""
        if options is None:
            return False
        is_ours = options.data.train.startswith(SOURCES_OF_OUR_OWN)
        is_model_in_doubt = self.model.is_waiting and model_may_refuse(options)
        return is_model_in_doubt or (self.data.is_waiting and not is_ours)

    def close(self) -> None:
        self.data.close()
        self.model.close()

    def _model_request(self, checked: CheckedForm) -> OptionsRequest | None:
        has_source = not any(problem.path == "model.source" for problem in checked.problems)
        is_clear = not any(path.startswith(MODEL_PATHS) for path in checked.unreadable)
        if checked.readable is None or not has_source or not is_clear:
            return None
        report = self.data.report
        return question_about(checked.readable, len(report.labels) if report else 2)


def data_request(options: RunOptions | None) -> InspectRequest | None:
    """Return the request about the data of a form, None if none is chosen."""
    return inspect_request(options) if options is not None and options.data.train else None

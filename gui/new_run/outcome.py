"""The methods a run uses, in words: what is trained, by which optimizer, with which attention, and how it is loaded."""

import html
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from gettext import gettext as _

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.base.errors import Problem
from core.base.format import MISSING, compact_count
from core.memory.model import ModelReport
from core.options import RunOptions
from core.options.catalogue import changed_options, options_by_path, plain_number, value_of, value_words
from core.options.choices import DeepSpeed, Method, Padding, Task, Toggle
from core.options.device_support import DeviceReport, MachineReport, find_device, settled_beside
from core.options.method_rules import BATCH_PATHS, SAMPLE_PATHS, STEP_PATHS, Extent, extent
from core.options.past_runs import data_name
from core.options.sections import ModelOptions
from core.runs.events import Level
from core.services.inspect import DataReport, Finding, FindingLevel
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import GUTTER, SPACING
from gui.new_run.data_panel import rows_words
from gui.new_run.memory_card import FitCard
from gui.new_run.memory_state import FitOutlook
from gui.new_run.model_field import download_note, model_title
from gui.new_run.options import computed
from gui.new_run.state import Checked, DataReading, FormQuestions, ModelCheck, is_counted, known_extent
from gui.widgets.cards import Card
from gui.widgets.form_row import sentence
from gui.widgets.labels import LinkLabel, margins
from gui.widgets.layout import PageScroll
from gui.widgets.tables import KeyValue


@dataclass(frozen=True)
class Check:
    """One line. `level` None: in order. With a `path` its `subject` is a link to that option."""

    level: Level | None
    text: str
    subject: str = ""
    path: str = ""


MARKS = {None: ("✓", Role.OK), Level.INFO: ("…", Role.MUTED), Level.WARNING: ("!", Role.WARNING)}


class ChecksCard(Card):
    """Lines of what is wrong, worth knowing, or in order.

    Signals:
        path_chosen: The path of the option whose link was pressed.
    """

    path_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self.set_title(_("Checks"))
        self._shown: list[Check] = []

    def show_checks(self, checks: Iterable[Check]) -> None:
        wanted = list(checks)
        if wanted == self._shown:
            return
        self._shown = wanted
        while (item := self.body.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        for check in wanted:
            self.body.addWidget(self._line(check))

    @property
    def checks(self) -> list[Check]:
        return list(self._shown)

    def _line(self, check: Check) -> QWidget:
        line = QWidget(self)
        row = QHBoxLayout(line)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        symbol, role = MARKS.get(check.level, ("✕", Role.PROBLEM_MARK))
        mark = QLabel(symbol)
        set_role(mark, role)
        mark.setFixedWidth(mark.fontMetrics().horizontalAdvance("✓✓"))
        row.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._text(check), 1)
        return line

    def _text(self, check: Check) -> QLabel:
        if check.path:
            label: QLabel = LinkLabel()
            link = f'<a href="{html.escape(check.path)}" style="text-decoration:none">{html.escape(check.subject)}</a>'
            label.setText(f"{link}&nbsp; {html.escape(check.text)}")
            label.setAccessibleName(f"{check.subject} {check.text}".rstrip())
            label.linkActivated.connect(self.path_chosen)
        else:
            label = QLabel()
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setText(check.text)
        return label


PATHS_OF_ROWS = {
    "model.pretrained": "Model",
    "model.method": "Trained",
    "model.quantization": "Trained",
    "model.lora_rank": "Trained",
    "model.lora_alpha": "Trained",
    "model.lora_dropout": "Trained",
    "model.lora_targets": "Trained",
    "model.attention": "Attention",
    "device.precision": "Precision",
    "memory.batch_size": "Batch",
    "memory.gradient_accumulation_steps": "Batch",
    "memory.activation_checkpointing": "Memory",
    "memory.deepspeed": "Memory",
    "memory.offload": "Memory",
    "memory.offload_folder": "Memory",
    "memory.offload_optimizer": "Memory",
    "training.epochs": "Steps",
    "training.max_steps": "Steps",
    "data.eval_fraction": "Data",
    "data.max_length": "Data",
    "data.image_size": "Data",
    "data.max_train_samples": "Data",
    "data.max_eval_samples": "Data",
}
"""The row of the summary in which an option shows; those that stand in none count with their section."""

ROWS_OF_SECTIONS = {"data": "Loading", "device": "Device", "training": "Optimizer"}


def trained_words(options: RunOptions, report: ModelReport | None = None) -> str:
    """Which weights move: `all weights`; with figures once they are known: `LoRA, rank 16 · 1,538 of 109 million`."""
    if report is None or not report.architecture or report.problems:
        return _method_words(options.model)
    trained, total = (
        compact_count(number) for number in (report.trainable_parameters, report.total_parameters)
    )
    if options.model.method is Method.FULL:
        return _("all {total} weights").format(total=total)
    text = _("{method} · {trained} of {total}")
    return text.format(method=_method_words(options.model), trained=trained, total=total)


def _method_words(model: ModelOptions) -> str:
    match model.method:
        case Method.FULL:
            return _("all weights")
        case Method.HEAD:
            return _("the last layer only")
        case Method.LORA:
            return _("LoRA, rank {rank:,}").format(rank=model.lora_rank)
        case Method.QLORA:
            text = _("QLoRA, rank {rank:,} beside {packed} weights")
            return text.format(rank=model.lora_rank, packed=model.quantization.value)


def optimizer_words(options: RunOptions) -> str:
    training = options.training
    text = _("{optimizer}, learning rate {rate}")
    return text.format(optimizer=training.optimizer.label, rate=plain_number(training.learning_rate))


def attention_words(options: RunOptions) -> str:
    return options.model.attention.label if options.task.reads_text else ""


def memory_words(options: RunOptions) -> str:
    memory = options.memory
    parts = []
    if memory.activation_checkpointing:
        parts.append(_("activations computed again"))
    if memory.deepspeed is not DeepSpeed.OFF:
        parts.append(f"DeepSpeed {memory.deepspeed.label}")
    if memory.offload_optimizer:
        parts.append(_("optimizer in main memory"))
    return ", ".join(parts)


def loading_words(options: RunOptions, device: DeviceReport | None, longest: int | None = None) -> str:
    """How batches are made: `grouped by length, 2 workers`. Rows grouped by length are padded dynamically.

    Args:
        options: What is asked.
        device: The device that computes; None: not known.
        longest: The most tokens the model can see; None: nothing limits it, or it isn't known.
    """
    parts = []
    if options.task.reads_text:
        is_grouped = _settled(options, device, "data.group_by_length") == Toggle.ON
        if options.data.padding is Padding.FIXED:
            text = _("padded to {length:,} tokens")
            parts.append(text.format(length=min(options.data.max_length, longest or options.data.max_length)))
        elif not is_grouped:
            parts.append(_("dynamic padding"))
        if is_grouped:
            parts.append(_("grouped by length"))
    workers = _settled(options, device, "data.workers")
    if workers not in ("", "0"):
        parts.append(_("{count} workers").format(count=workers))
    if _settled(options, device, "data.pin_memory") == Toggle.ON:
        parts.append(_("pinned memory"))
    return ", ".join(parts) or _("within the run, no workers")


def changes_by_row(options: RunOptions) -> dict[str, str]:
    """What differs from the defaults, in words, by the row of the summary it shows in."""
    found: dict[str, list[str]] = {}
    for option in changed_options(options):
        row = PATHS_OF_ROWS.get(option.path) or ROWS_OF_SECTIONS.get(option.section)
        if row:
            text = _("{option}: {value} (default: {default})")
            found.setdefault(row, []).append(
                text.format(
                    option=option.title,
                    value=value_words(option, value_of(options, option.path)),
                    default=value_words(option, option.default),
                )
            )
    return {row: "\n".join(lines) for row, lines in found.items()}


def _settled(options: RunOptions, device: DeviceReport | None, path: str) -> str:
    """What an automatic option comes to; empty where only the engine can tell."""
    value = value_of(options, path)
    if value not in (None, Toggle.AUTO):
        return str(value)
    settled = device.automatic.get(path) if device else None
    return settled_beside(settled, options).value if settled else ""


def summary_rows(
    options: RunOptions,
    unreadable: Set[str],
    machine: MachineReport | None,
    data: DataReport | None,
    model: ModelReport | None = None,
) -> list[tuple[str, str]]:
    """The rows of the card "What will run"; what depends on an option that can't be read is left open.

    Rows that have nothing to say are left out: a vision model has no attention.
    """
    computing = computed(machine, options)
    device = find_device(machine, options.device.name) if machine else None
    longest = model.max_length if model else None
    is_known = data is not None and is_counted(options, data) and not unreadable & SAMPLE_PATHS
    known = known_extent(options, data) if data is not None and is_known else None
    rows = [
        (_("Model"), model_title(options)),
        (_("Trained"), trained_words(options, model)),
        (_("Data"), _data(options, known, data)),
        (_("Loading"), loading_words(options, device, longest)),
        (_("Device"), computing.device),
        (_("Precision"), computing.precision),
        (_("Attention"), attention_words(options)),
        (_("Optimizer"), optimizer_words(options)),
        (_("Memory"), memory_words(options)),
        (_("Batch"), MISSING if unreadable & BATCH_PATHS else _batch(options)),
        (_("Steps"), MISSING if unreadable & STEP_PATHS else _steps(options, known, data)),
        (_("Downloads"), download_note(options)),
    ]
    return [(name, words) for name, words in rows if words]


def _data(options: RunOptions, known: Extent | None, data: DataReport | None) -> str:
    if not options.data.train:
        return _("choose the data")
    name = data_name(options)
    if known is None:
        return name
    if known.evaluated is None:
        words = _("{name} · {trained:,} to train on, {apart}")
        return words.format(name=name, trained=known.trained, apart=_apart(options, data))
    text = _("{name} · {trained:,} to train on, {evaluated:,} held out")
    return text.format(name=name, trained=known.trained, evaluated=known.evaluated)


def _rows(options: RunOptions, data: DataReport | None) -> int:
    return extent(options, data.rows).trained if data is not None else 0


def _apart(options: RunOptions, data: DataReport | None) -> str:
    """What is evaluated on that isn't a part of the training data."""
    count = data.eval_rows if data is not None else None
    if not options.data.eval:
        words = (
            _("evaluated on the split {split}")
            if count is None
            else _("evaluated on the split {split}, {count:,}")
        )
        return words.format(split=options.data.eval_split, count=count)
    if count is None:
        return _("evaluated on a file of its own")
    return _("evaluated on a file of its own, {count:,}").format(count=count)


def _batch(options: RunOptions) -> str:
    memory = options.memory
    text = _("{size:,} × {batches:,} = {rows:,} rows")
    return text.format(
        size=memory.batch_size, batches=memory.gradient_accumulation_steps, rows=options.effective_batch
    )


def _steps(options: RunOptions, known: Extent | None, data: DataReport | None) -> str:
    if known is not None:
        is_packed = options.data.packing and options.data.train and data is not None and data.train_rows
        text = (
            _("about {steps:,} · {each:,} an epoch: {rows:,} rows packed into {packed:,}")
            if is_packed and options.task is Task.CHAT
            else _("about {steps:,} · {each:,} an epoch")
        )
        return text.format(
            steps=known.steps, each=known.steps_per_epoch, packed=known.trained, rows=_rows(options, data)
        )
    if options.training.max_steps:
        return f"{options.training.max_steps:,}"
    return _("{epochs} epochs").format(epochs=plain_number(options.training.epochs))


FINDINGS = "data.findings"
"""Where the links of findings lead: no option, but the list of them."""


class OutcomeColumn(QWidget):
    """What comes of the options. `fit` is the card about memory.

    Signals:
        path_chosen: The path of an option to go to.
        start_pressed: The person wants to start.

    Args:
        outlook: What is known of the memory it takes.
    """

    path_chosen = Signal(str)
    start_pressed = Signal()

    def __init__(self, theme: Theme, outlook: FitOutlook, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.fit = FitCard(theme, outlook)
        self._rows = KeyValue()
        will_run = Card(_("What will run"))
        will_run.body.addWidget(self._rows)
        self._checks = ChecksCard()
        self._checks.path_chosen.connect(self.path_chosen)
        content = QWidget()
        cards = QVBoxLayout(content)
        cards.setContentsMargins(0, 0, 0, 0)
        cards.setSpacing(SPACING + 4)
        cards.addWidget(self.fit)
        cards.addWidget(will_run)
        cards.addWidget(self._checks)
        cards.addStretch(1)
        self._start = QPushButton()
        set_role(self._start, Role.PRIMARY)
        self._start.clicked.connect(self.start_pressed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 2 * SPACING)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(PageScroll(content), 1)
        starting = QHBoxLayout()
        starting.setContentsMargins(margins(self, 0, 0, GUTTER, 0))
        starting.addWidget(self._start)
        layout.addLayout(
            starting
        )  # at the foot: what comes in above it must not move it from under the mouse

    def show_outcome(
        self,
        checked: Checked,
        problems: Sequence[Problem],
        machine: MachineReport | None,
        questions: FormQuestions,
        advice: Sequence[Problem] = (),
        *,
        is_waiting: bool,
    ) -> None:
        """Show what the form comes to as it stands, all that is wrong with it and what is worth knowing."""
        found = questions.data.findings
        options = checked.readable
        if options is not None:
            data, model = questions.data.counted, questions.model.report
            self._rows.set_rows(summary_rows(options, checked.unreadable, machine, data, model))
            self._rows.set_marks(changes_by_row(options))
        self._checks.show_checks(
            [
                *map(_problem_check, problems),
                *(_finding_check(one) for one in found if one.level is FindingLevel.PROBLEM),
                *self._fine(options, problems, machine, questions),
                *map(_advice_check, advice),
                *(_finding_check(one) for one in found if one.level is FindingLevel.WARNING),
            ]
        )
        self.fit.show_outlook()
        self._start.setText(self._start_text(problems, questions, is_waiting=is_waiting))
        self._start.setEnabled(not problems and not is_waiting and not questions.data.stops)

    @property
    def start_text(self) -> str:
        return self._start.text()

    def _start_text(self, problems: Sequence[Problem], questions: FormQuestions, *, is_waiting: bool) -> str:
        missing = {
            "model.source": _("Choose a model to start from"),
            "data.train": _("Choose the data to train on"),
        }
        is_reading = questions.data.is_reading
        of_data = questions.data.problems() if is_reading else ()  # of options that are others now
        problems = [problem for problem in problems if problem not in of_data]
        for problem in problems:
            if problem.path in missing and problem.message.startswith("choose "):
                return missing[problem.path]
        found = 0 if is_reading else questions.data.problem_count
        if len(problems) + found > 1:
            return _("{count} problems to mend").format(count=len(problems) + found)
        if found:
            return _("Mend: {title}").format(title=options_by_path()["data.train"].title)
        if problems:
            option = options_by_path().get(problems[0].path)
            return _("Mend: {title}").format(title=option.title if option else problems[0].path)
        if not is_waiting:
            return _("Start training")
        return _("Reading the data…") if is_reading else _("Looking at the model…")

    def _fine(
        self,
        options: RunOptions | None,
        problems: Sequence[Problem],
        machine: MachineReport | None,
        questions: FormQuestions,
    ) -> list[Check]:
        wrong = {problem.path.partition(".")[0] for problem in problems}
        reading = questions.data
        wrong |= {"data"} if reading.stops else set()
        lines: list[Check] = []
        if options is not None and "model" not in wrong:
            lines.append(self._model_check(questions.model, options))
        if reading.is_reading:
            lines.append(Check(Level.INFO, _("Reading the data…")))
        elif reading.is_cancelled:
            lines.append(Check(Level.WARNING, _("The data was not checked")))
        elif reading.has_broken:
            lines.append(Check(Level.WARNING, _("Hone could not look into the data (its log says why)")))
        elif reading.report is not None and "data" not in wrong:
            lines.append(Check(None, self._data_words(reading)))
        if machine is not None and options is not None and "device" not in wrong:
            lines.append(Check(None, _("{device} is ready").format(device=computed(machine, options).device)))
        return lines

    def _model_check(self, model: ModelCheck, options: RunOptions) -> Check:
        if model.failure is not None:
            words = _("Hone could not look at the model. {reason}")
            return Check(Level.WARNING, words.format(reason=model.failure.title))
        if model.is_checking:
            return Check(Level.INFO, _("Looking at the model…"))
        return Check(None, model_title(options))

    def _data_words(self, reading: DataReading) -> str:
        report = reading.report
        if report is None:
            return ""
        if not report.labels:
            return rows_words(report.rows)
        words = _("{rows}, {labels:,} labels")
        return words.format(rows=rows_words(report.rows), labels=len(report.labels))


def _problem_check(problem: Problem) -> Check:
    option = options_by_path().get(problem.path)
    if option is None:
        return Check(Level.ERROR, sentence(str(problem)))
    if problem.message.startswith("choose "):
        return Check(Level.ERROR, "", sentence(problem.message), problem.path)
    return Check(Level.ERROR, sentence(problem.message), option.title, problem.path)


def _finding_check(finding: Finding) -> Check:
    level = Level.ERROR if finding.level is FindingLevel.PROBLEM else Level.WARNING
    title = options_by_path()["data.train"].title
    return Check(level, finding.message, title, FINDINGS)


def _advice_check(advice: Problem) -> Check:
    option = options_by_path().get(advice.path)
    if option is None:
        return Check(Level.WARNING, sentence(advice.message))
    return Check(Level.WARNING, sentence(advice.message), option.title, advice.path)

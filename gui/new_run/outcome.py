"""The right half of the New run page: whether it fits, what will run, checks, and the button that starts it."""

import html
from collections.abc import Sequence, Set
from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from core.base.errors import Problem
from core.base.formats import MISSING, compact_count
from core.base.language import _
from core.memory.model import ModelReport
from core.options import RunOptions
from core.options.catalogue import changed_options, options_by_path, plain_number, value_of, value_text
from core.options.choices import DeepSpeed, Method, Padding, Precision, Task, Toggle, device_title
from core.options.device_support import DeviceReport, MachineReport, find_device, settled_beside
from core.options.method_rules import BATCH_PATHS, SAMPLE_PATHS, STEP_PATHS, Extent, extent
from core.options.past_runs import data_name
from core.options.sections import ModelOptions
from core.runs.events import Level
from core.services.inspect import DataReport, FindingLevel
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import GUTTER, SPACING
from gui.new_run.data_panel import PROBLEM_MARK, WARNING_MARK, marked_line, rows_text
from gui.new_run.memory_card import FitCard
from gui.new_run.memory_state import MemoryState
from gui.new_run.model_field import download_note, model_title
from gui.new_run.state import Checked, FormQuestions, is_counted, known_extent
from gui.widgets.cards import Card
from gui.widgets.form_row import sentence
from gui.widgets.labels import LinkLabel, margins, text_label
from gui.widgets.layout import FLUSH, PageScroll, clear, fill
from gui.widgets.tables import KeyValue


@dataclass(frozen=True)
class Check:
    """One line. `level` None: in order. With a `path` its `subject` is a link to that option."""

    level: Level | None
    text: str
    subject: str = ""
    path: str = ""


MARKS = {
    None: ("✓", Role.OK),
    Level.INFO: ("…", Role.MUTED),
    Level.WARNING: WARNING_MARK,
    Level.ERROR: PROBLEM_MARK,
}


class ChecksCard(Card):
    """Lines of what is wrong, worth knowing, or in order. `checks` are those shown.

    Signals:
        path_chosen: The path of the option whose link was pressed.
    """

    path_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(_("Checks"), parent)
        self.checks: list[Check] = []

    def show_checks(self, checks: list[Check]) -> None:
        if checks == self.checks:
            return
        self.checks = checks
        clear(self.body)
        for check in checks:
            self.body.addWidget(marked_line(MARKS[check.level], self._text(check), self))

    def _text(self, check: Check) -> QLabel:
        if not check.path:
            return text_label(check.text)
        label = LinkLabel()
        path, subject = html.escape(check.path), html.escape(check.subject)
        label.setText(
            f'<a href="{path}" style="text-decoration:none">{subject}</a>&nbsp; {html.escape(check.text)}'
        )
        label.setAccessibleName(f"{check.subject} {check.text}".rstrip())
        label.linkActivated.connect(self.path_chosen)
        return label


OPTIONS_OF_ROWS = {
    _("Model"): "model.pretrained",
    _("Trained"): "model.method model.quantization model.lora_rank model.lora_alpha "
    "model.lora_dropout model.lora_targets",
    _("Attention"): "model.attention",
    _("Precision"): "device.precision",
    _("Batch"): "memory.batch_size memory.gradient_accumulation_steps",
    _("Memory"): "memory.activation_checkpointing memory.deepspeed memory.offload memory.offload_folder "
    "memory.offload_optimizer",
    _("Steps"): "training.epochs training.max_steps",
    _(
        "Data"
    ): "data.eval_fraction data.max_length data.image_size data.max_train_samples data.max_eval_samples",
}
"""The row of the summary in which an option shows; those that stand in none count with their section."""
PATHS_OF_ROWS = {path: row for row, paths in OPTIONS_OF_ROWS.items() for path in paths.split()}
ROWS_OF_SECTIONS = {"data": _("Loading"), "device": _("Device"), "training": _("Optimizer")}


def trained_text(options: RunOptions, report: ModelReport | None = None) -> str:
    """Which weights move: `all weights`; with figures once they are known: `LoRA, rank 16 · 1,538 of 109 million`."""
    if report is None or not report.architecture or report.problems:
        return _method_text(options.model)
    trained, total = (
        compact_count(number) for number in (report.trainable_parameters, report.total_parameters)
    )
    if options.model.method is Method.FULL:
        return _("all {total} weights").format(total=total)
    text = _("{method} · {trained} of {total}")
    return text.format(method=_method_text(options.model), trained=trained, total=total)


def _method_text(model: ModelOptions) -> str:
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


def memory_text(options: RunOptions) -> str:
    memory = options.memory
    parts = []
    if memory.activation_checkpointing:
        parts.append(_("activation checkpointing"))
    if memory.deepspeed is not DeepSpeed.OFF:
        parts.append(f"DeepSpeed {memory.deepspeed.label}")
    if memory.offload_optimizer:
        parts.append(_("optimizer in main memory"))
    return ", ".join(parts)


def loading_text(options: RunOptions, device: DeviceReport | None, longest: int | None = None) -> str:
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
                    value=value_text(option, value_of(options, option.path)),
                    default=value_text(option, option.default),
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


def computed(machine: MachineReport | None, options: RunOptions) -> tuple[str, str]:
    """The device and the precision that the options come to on this machine, in words."""
    if machine is None:
        return _("looking at this computer…"), _("looking at this computer…")
    device, asked = find_device(machine, options.device.name), options.device.precision
    if device is None:
        return options.device.name, asked.value
    kind = device_title(device.name.partition(":")[0])
    title = kind if device.title in (kind, "") else f"{kind} · {device.title}"
    settled = device.automatic.get("device.precision")
    name = settled.value if asked is Precision.AUTO and settled else asked.value
    if name == Precision.AUTO:
        return title, _("settled when the run starts")
    if name in (Precision.FP32, Precision.TF32):
        return title, name
    return title, _("{precision} autocast, fp32 weights").format(precision=name)


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
    device = find_device(machine, options.device.name) if machine else None
    longest = model.max_length if model else None
    is_known = data is not None and is_counted(options, data) and not unreadable & SAMPLE_PATHS
    known = known_extent(options, data) if data is not None and is_known else None
    memory, training = options.memory, options.training
    title, precision = computed(machine, options)
    batch = _("{size:,} × {batches:,} = {rows:,} rows").format(
        size=memory.batch_size, batches=memory.gradient_accumulation_steps, rows=options.effective_batch
    )
    optimizer = _("{optimizer}, learning rate {rate}").format(
        optimizer=training.optimizer.label, rate=plain_number(training.learning_rate)
    )
    rows = [
        (_("Model"), model_title(options)),
        (_("Trained"), trained_text(options, model)),
        (_("Data"), _data(options, known, data)),
        (_("Loading"), loading_text(options, device, longest)),
        (_("Device"), title),
        (_("Precision"), precision),
        (_("Attention"), options.model.attention.label if options.task.reads_text else ""),
        (_("Optimizer"), optimizer),
        (_("Memory"), memory_text(options)),
        (_("Batch"), MISSING if unreadable & BATCH_PATHS else batch),
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
    if known.evaluated is not None:
        text = _("{name} · {trained:,} to train on, {evaluated:,} held out")
        return text.format(name=name, trained=known.trained, evaluated=known.evaluated)
    count = data.eval_rows if data is not None else None
    if options.data.eval:
        apart = _("evaluated on a file of its own")
    else:
        apart = _("evaluated on the split {split}").format(split=options.data.eval_split)
    apart = apart if count is None else f"{apart}, {count:,}"
    return _("{name} · {trained:,} to train on, {apart}").format(
        name=name, trained=known.trained, apart=apart
    )


def _steps(options: RunOptions, known: Extent | None, data: DataReport | None) -> str:
    if known is not None:
        words = _("about {steps:,} · {each:,} an epoch").format(steps=known.steps, each=known.steps_per_epoch)
        if (
            options.data.packing
            and options.data.train
            and options.task is Task.CHAT
            and data
            and data.train_rows
        ):
            rows = extent(options, data.rows).trained
            packed = _("{rows:,} rows packed into {packed:,}").format(rows=rows, packed=known.trained)
            return f"{words}: {packed}"
        return words
    if options.training.max_steps:
        return f"{options.training.max_steps:,}"
    return _("{epochs} epochs").format(epochs=plain_number(options.training.epochs))


FINDINGS = "data.findings"
"""Where the links of findings lead: no option, but the list of them."""


class OutcomeColumn(QWidget):
    """What comes of the options, always in view. `fit` is the card about memory."""

    def __init__(self, theme: Theme, memory: MemoryState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.fit = FitCard(theme, memory)
        self._rows = KeyValue()
        will_run = Card(_("What will run"))
        will_run.body.addWidget(self._rows)
        self.checks = ChecksCard()
        content = QWidget()
        fill(QVBoxLayout(content), self.fit, will_run, self.checks, None, margins=FLUSH, spacing=SPACING + 4)
        self.start = QPushButton()
        set_role(self.start, Role.PRIMARY)
        starting = fill(QHBoxLayout(), self.start, margins=margins(self, 0, 0, GUTTER, 0))
        layout = fill(
            QVBoxLayout(self), (PageScroll(content), 1), margins=(0, 0, 0, 2 * SPACING), spacing=SPACING + 4
        )
        layout.addLayout(starting)  # at the foot: what comes in above must not move it from under the mouse

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
        options, found = checked.readable, questions.data.findings
        if options is not None:
            data, model = questions.data.counted, questions.model.report
            self._rows.set_rows(summary_rows(options, checked.unreadable, machine, data, model))
            self._rows.set_marks(changes_by_row(options))
        title = options_by_path()["data.train"].title
        stopping = [one for one in found if one.level is FindingLevel.PROBLEM]
        warnings = [one for one in found if one.level is FindingLevel.WARNING]
        self.checks.show_checks(
            [
                *(_check(Level.ERROR, problem) for problem in problems),
                *(Check(Level.ERROR, one.message, title, FINDINGS) for one in stopping),
                *self._fine(options, problems, machine, questions),
                *(_check(Level.WARNING, one) for one in advice),
                *(Check(Level.WARNING, one.message, title, FINDINGS) for one in warnings),
            ]
        )
        self.fit.show_state()
        self.start.setText(self._start_text(problems, questions, is_waiting=is_waiting))
        self.start.setEnabled(not problems and not is_waiting and not questions.data.stops)

    def _start_text(self, problems: Sequence[Problem], questions: FormQuestions, *, is_waiting: bool) -> str:
        missing = {
            "model.source": _("Choose a model to start from"),
            "data.train": _("Choose the data to train on"),
        }
        is_reading = questions.data.is_waiting
        of_data = questions.data.problems() if is_reading else ()  # of options that are others now
        paths = [problem.path for problem in problems if problem not in of_data]
        for problem in problems:
            if problem.path in paths and problem.path in missing and problem.message.startswith("choose "):
                return missing[problem.path]
        paths += [] if is_reading else ["data.train"] * questions.data.problem_count
        if len(paths) > 1:
            return _("{count} problems to fix").format(count=len(paths))
        if paths:
            option = options_by_path().get(paths[0])
            return _("Fix: {title}").format(title=option.title if option else paths[0])
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
        """What is in order, and what is still looked at."""
        wrong = {problem.path.partition(".")[0] for problem in problems}
        reading, model = questions.data, questions.model
        lines: list[Check] = []
        if options is not None and "model" not in wrong:
            if model.failure is not None:
                words = _("Hone could not look at the model. {reason}").format(reason=model.failure.title)
                lines.append(Check(Level.WARNING, words))
            elif model.is_waiting:
                lines.append(Check(Level.INFO, _("Looking at the model…")))
            else:
                lines.append(Check(None, model_title(options)))
        if reading.is_waiting:
            lines.append(Check(Level.INFO, _("Reading the data…")))
        elif reading.is_cancelled:
            lines.append(Check(Level.WARNING, _("The data was not checked")))
        elif reading.has_broken:
            lines.append(Check(Level.WARNING, _("Hone could not look into the data (its log says why)")))
        elif reading.report is not None and "data" not in wrong and not reading.stops:
            words = rows_text(reading.report.rows)
            labels = len(reading.report.labels)
            if labels:
                words = _("{rows}, {labels:,} labels").format(rows=words, labels=labels)
            lines.append(Check(None, words))
        if machine is not None and options is not None and "device" not in wrong:
            lines.append(Check(None, _("{device} is ready").format(device=computed(machine, options)[0])))
        return lines


def _check(level: Level, problem: Problem) -> Check:
    option = options_by_path().get(problem.path)
    if option is None:
        return Check(level, sentence(str(problem) if level is Level.ERROR else problem.message))
    if problem.message.startswith("choose "):
        return Check(level, "", sentence(problem.message), problem.path)
    return Check(level, sentence(problem.message), option.title, problem.path)

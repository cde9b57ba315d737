"""The right half of the New run page: whether it fits, what will run, the checks and the Start button."""

import html
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtGui import QIcon, QPalette
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from core.base.errors import Problem
from core.base.formats import MISSING, compact_count, counted, enumerated, plain_number, titled, whole_percent
from core.base.language import _, ngettext, pgettext
from core.jobs.inspect import QUICK_TRY, DataReport, FindingLevel
from core.memory.model import ModelReport
from core.options import RunOptions
from core.options.catalogue import options_by_path, value_of, value_text
from core.options.choices import Backend, DeepSpeed, Method, Padding, Precision, Task, Toggle, device_title
from core.options.device_support import DeviceReport, MachineReport, find_device, settle, settled_beside
from core.options.method_rules import BATCH_PATHS, SAMPLE_PATHS, STEP_PATHS, Extent, extent
from core.options.past_runs import is_run
from core.options.sources import short_name
from core.runs.events import Level
from gui.base.theme import Role, Theme, icon, set_role
from gui.base.tokens import GUTTER, SPACING
from gui.new_run.data_panel import PROBLEM_MARK, WARNING_MARK, counts_of, marked_line
from gui.new_run.memory_card import FitCard, headline
from gui.new_run.memory_state import MemoryState
from gui.new_run.model_field import download_note, model_title
from gui.new_run.state import CheckedForm, FormQuestions, is_counted, known_extent
from gui.widgets.cards import Card
from gui.widgets.form import StartingValue, sentence
from gui.widgets.labels import (
    LinkLabel,
    isolated,
    link_button,
    margins,
    push_button,
    text_label,
    tip_with_keys,
)
from gui.widgets.layout import FLUSH, PageScroll, clear, fill, hbox
from gui.widgets.tables import KeyValue


@dataclass(frozen=True)
class Check:
    """One line; `level` None if all is well. With a `path` its `subject` is a link to that option."""

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
    """Lines about what is wrong, what is worth knowing and what is fine."""

    path_chosen = Signal(str)  # the path of the option whose link was pressed

    def __init__(self) -> None:
        super().__init__(_("Checks"))
        self.checks: list[Check] = []

    def show_checks(self, checks: list[Check]) -> None:
        if checks == self.checks:
            return
        self.checks = checks
        clear(self.body)
        for check in checks:
            self.body.addWidget(marked_line(MARKS[check.level], self._label(check), self))

    def _label(self, check: Check) -> QLabel:
        if not check.path:
            return text_label(check.text)
        label = LinkLabel()
        path, subject = html.escape(check.path), html.escape(check.subject)
        link = f'<a href="{path}" style="text-decoration:none">{subject}</a>'
        label.setText(f"{link}&nbsp; {html.escape(check.text)}")
        label.setAccessibleName(f"{check.subject} {check.text}".rstrip())
        label.linkActivated.connect(self.path_chosen)
        return label


def trained_text(
    options: RunOptions, report: ModelReport | None = None, device: DeviceReport | None = None
) -> str:
    """Return which weights are trained, with figures once they are known: `LoRA, rank 16 · 1,538 of 109 million`."""
    model = options.model
    match model.method:
        case Method.FULL:
            method = _("all parameters")
        case Method.HEAD:
            method = _("the last layer only")
        case Method.LORA:
            method = _("LoRA, rank {rank:,}").format(rank=model.lora_rank)
        case Method.QLORA:
            text = _("QLoRA, rank {rank:,}, base weights in {quantization}")
            packed = _resolved(options, device, "model.quantization") or _("4 bits")
            if report and report.shape and report.shape.packed:
                packing, _count = max(report.shape.packed, key=lambda one: one[1])
                packed = _("{bits} bits").format(bits=packing.bits)
            method = text.format(rank=model.lora_rank, quantization=packed)
    if model.method in (Method.LORA, Method.QLORA):
        method = ", ".join((method, *["rsLoRA"] * model.lora_rslora, *["DoRA"] * model.lora_dora))
    if report is None or not report.architecture or report.problems:
        return method
    counts = report.trainable_parameters, report.total_parameters
    trained, total = map(compact_count, counts)
    if model.method is Method.FULL:
        return _("all {total} parameters").format(total=total)
    return _("{method} · {trained} of {total}").format(method=method, trained=trained, total=total)


def memory_text(options: RunOptions) -> str:
    memory = options.memory
    parts = []
    if memory.activation_checkpointing:
        parts.append(_("activation checkpointing"))
    if memory.empty_cache_steps:
        parts.append(_("cache emptied every {steps}").format(steps=counted(memory.empty_cache_steps, "step")))
    if memory.deepspeed is not DeepSpeed.OFF:
        parts.append(f"DeepSpeed {memory.deepspeed.label}")
    if memory.fsdp:
        parts.append("FSDP2")
    if memory.offload_optimizer:
        parts.append(_("optimizer in main memory"))
    return enumerated(parts)


def loading_text(options: RunOptions, device: DeviceReport | None, longest: int | None = None) -> str:
    """Return how batches are made: `grouped by length, 2 workers`. Rows grouped by length are padded dynamically.

    Args:
        longest: The model's context length in tokens, None if unlimited or unknown.
    """
    parts = []
    if options.task.reads_text:
        is_grouped = _resolved(options, device, "data.group_by_length") == Toggle.ON
        if options.data.padding is Padding.FIXED:
            limit = options.data.max_length
            parts.append(_("padded to {length:,} tokens").format(length=min(limit, longest or limit)))
        elif not is_grouped:
            parts.append(_("dynamic padding"))
        if is_grouped:
            parts.append(_("grouped by length"))
    workers = _resolved(options, device, "data.workers")
    if workers not in ("", "0"):
        parts.append(ngettext("{count} worker", "{count} workers", int(workers)).format(count=workers))
    if _resolved(options, device, "data.pin_memory") == Toggle.ON:
        parts.append(_("pinned memory"))
    return enumerated(parts) or _("by the training process, without workers")


def changes_by_row(options: RunOptions, changed: Mapping[str, StartingValue]) -> dict[str, str]:
    """Return how options that have an effect differ from their starts, by the row of the summary that shows them."""
    paths = {
        _("Model"): "model.pretrained",
        _("Trained"): "model.method model.quantization model.lora_rank model.lora_alpha model.lora_dropout "
        "model.lora_rslora model.lora_dora model.lora_targets model.lora_layers",
        _("Attention"): "model.attention",
        _("Precision"): "device.precision model.frozen_precision",
        _("Batch"): "memory.batch_size memory.gradient_accumulation_steps",
        _(
            "Memory"
        ): "memory.activation_checkpointing memory.empty_cache_steps memory.deepspeed memory.fsdp memory.offload "
        "memory.offload_folder memory.offload_optimizer",
        _("Steps"): "training.epochs training.max_steps",
        _("Evaluation"): "training.eval_steps training.early_stopping_patience "
        "training.early_stopping_threshold training.metric_for_best_model",
        _("Loading"): "data.padding data.pad_to_multiple_of data.group_by_length data.workers data.prefetch "
        "data.pin_memory",
        _("Data"): "data",
        _("Device"): "device",
        _("Optimizer"): "training",
    }
    rows = {path: row for row, names in paths.items() for path in names.split()}
    changes: dict[str, list[str]] = {}
    for path, start in changed.items():
        option = options_by_path()[path]
        row = rows.get(path) or rows.get(option.section)
        if row and option.acts_in(options):
            text = _("{option}: {value} ({origin}: {start})").format(
                option=option.title,
                value=value_text(option, value_of(options, path)),
                origin=start.origin,
                start=value_text(option, start.value),
            )
            changes.setdefault(row, []).append(text)
    return {row: "\n".join(lines) for row, lines in changes.items()}


def _resolved(options: RunOptions, device: DeviceReport | None, path: str) -> str:
    """Return what an automatic option resolves to; empty if only the engine knows."""
    value = value_of(options, path)
    if value not in (None, Toggle.AUTO):
        return str(value)
    settled = settled_beside(device, path, options) if device else None
    return settled.value if settled else ""


def computed(machine: MachineReport | None, options: RunOptions) -> tuple[str, str]:
    """Return the device and the precision that the options resolve to on this machine, in words."""
    if machine is None:
        return _("checking this computer…"), _("checking this computer…")
    device = find_device(machine, options.device.name)
    if device is None:
        return options.device.name, options.device.precision.value
    kind = device_title((options.device.name if options.device.computers else device.name).replace(":0", ""))
    title = kind if device.title in (kind, "") else f"{kind} · {device.title}"
    name = _resolved(options, device, "device.precision")
    if not name:
        return title, _("decided when the run starts")
    autocasts = name not in (Precision.FP32, Precision.TF32) and not _is_mlx(options, device)
    is_frozen = options_by_path()["model.frozen_precision"].applies_to(options)
    frozen = _resolved(options, device, "model.frozen_precision") if is_frozen else ""
    if frozen in (Precision.BF16, Precision.FP16):
        text = _("{precision}, frozen weights in {frozen}")
        if autocasts:
            text = _("{precision} autocast, frozen weights in {frozen}")
        return title, text.format(precision=name, frozen=frozen)
    if name in (Precision.FP32, Precision.TF32):
        return title, name
    text = _("{precision} autocast, fp32 weights") if autocasts else _("{precision}, fp32 weights")
    return title, text.format(precision=name)


def _is_mlx(options: RunOptions, device: DeviceReport | None) -> bool:
    """Return whether MLX trains, as far as the options and the device decide it."""
    return _resolved(options, device, "device.backend") == Backend.MLX


def summary_rows(
    options: RunOptions,
    unreadable: Set[str],
    machine: MachineReport | None,
    data: DataReport | None,
    model: ModelReport | None = None,
) -> list[tuple[str, str]]:
    """Return the rows of the card "What will run"; what depends on an unreadable option is left open.

    Empty rows are left out, such as the attention of a vision model.
    """
    device = find_device(machine, options.device.name) if machine else None
    longest = model.max_length if model else None
    is_known = data is not None and is_counted(options, data) and not unreadable & SAMPLE_PATHS
    length = known_extent(options, data) if data is not None and is_known else None
    memory, training = options.memory, options.training
    title, precision = computed(machine, options)
    size, accumulated = memory.batch_size, memory.gradient_accumulation_steps
    engine, attention = "", options.model.attention.label if options.task.reads_text else ""
    if _is_mlx(options, device):
        engine, attention = Backend.MLX.label, ""
    effective = (settle(device, options) if device else options).effective_batch  # "0 processes": all cards
    processes = effective // max(1, size * accumulated)
    factors = [f"{number:,}" for number in (size, *(one for one in (accumulated, processes) if one > 1))]
    batch = _("{rows:,} per step") if len(factors) == 1 else _("{factors} = {rows:,} per step")
    batch = batch.format(factors=" × ".join(factors), rows=effective)
    optimizer = _("{optimizer}, learning rate {rate}").format(
        optimizer=training.optimizer.label,
        rate=MISSING if "training.learning_rate" in unreadable else plain_number(training.learning_rate),
    )
    rows = [
        (_("Model"), model_title(options)),
        (_("Trained"), trained_text(options, model, device)),
        (_("Data"), _data_text(options, length, data)),
        (_("Loading"), loading_text(options, device, longest)),
        (_("Device"), title),
        (_("Engine"), engine),
        (_("Precision"), precision),
        (_("Attention"), attention),
        (_("Optimizer"), optimizer),
        (_("Memory"), memory_text(options)),
        (_("Batch"), MISSING if unreadable & BATCH_PATHS else batch),
        (_("Steps"), MISSING if unreadable & STEP_PATHS else _steps_text(options, length, data)),
        (_("Evaluation"), _evaluation_text(options, unreadable, length)),
        (pgettext("what is downloaded", "Downloads"), download_note(options)),
    ]
    return [(name, text) for name, text in rows if text]


def _data_text(options: RunOptions, length: Extent | None, data: DataReport | None) -> str:
    if not options.data.train:
        return _("choose the data")
    name = isolated(short_name(options.data.train))
    if length is None:
        return name
    if length.evaluated is not None:
        text = _("{name} · {trained:,} for training, {evaluated:,} for validation")
        return text.format(name=name, trained=length.trained, evaluated=length.evaluated)
    source, count = options.data.eval, data.eval_rows if data is not None else None
    where = (
        isolated(short_name(source)) if source else _("split {split}").format(split=options.data.eval_split)
    )
    text = _("{name} · {trained:,} for training, {where} for validation")
    if count is not None:
        text = _("{name} · {trained:,} for training, {count:,} for validation ({where})")
    return text.format(name=name, trained=length.trained, count=count, where=where)


def _steps_text(options: RunOptions, length: Extent | None, data: DataReport | None) -> str:
    if length is None:
        if options.training.max_steps:
            return f"{options.training.max_steps:,}"
        return counted(options.training.epochs, "epoch")
    is_exact = options.training.max_steps or (data is not None and data.train_rows is not None)
    text = _("{steps:,} · {each:,} per epoch") if is_exact else _("about {steps:,} · {each:,} per epoch")
    text = text.format(steps=length.steps, each=length.steps_per_epoch)
    if options.pretrains:
        text = _("{steps}, in run 2 of 2; pretraining has steps of its own").format(steps=text)
    is_packed = options.data.packing and options.data.train and options.task is Task.CHAT
    if is_packed and data is not None and data.train_rows:
        rows = extent(options, data.rows).trained
        packed = _("{rows:,} examples packed into {packed:,}").format(rows=rows, packed=length.trained)
        return titled(text, packed)
    return text


def _evaluation_text(options: RunOptions, unreadable: Set[str], length: Extent | None) -> str:
    every, patience = options.training.eval_steps, options.training.early_stopping_patience
    if "training.eval_steps" in unreadable:
        return MISSING
    if not (options.data.eval or options.data.eval_split or options.data.eval_fraction):
        return _("none: no validation data")
    text = _("after each epoch")
    if 0 < every < 1 and length is None:
        text = _("every {percent} of the run").format(percent=whole_percent(every))
    elif every:
        steps = math.ceil(every * (length.steps if length else 1)) if every < 1 else round(every)
        text = _("every {steps}").format(steps=counted(steps, "step"))
    if not patience:
        return text
    waited = counted(patience, "evaluation")
    return _("{interval}; stops early after {evaluations} without improvement").format(
        interval=text, evaluations=waited
    )


FINDINGS = "data.findings"
"""Where the links of findings lead: to the list of findings."""


class OutcomeColumn(QWidget):
    """What the options result in, always in view; `fit` is the card about memory."""

    def __init__(self, theme: Theme, memory: MemoryState) -> None:
        super().__init__()
        self.fit = FitCard(theme, memory)
        self.rows = KeyValue()
        will_run = Card(_("What will run"))
        will_run.body.addWidget(self.rows)
        self.checks = ChecksCard()
        content = QWidget()
        fill(QVBoxLayout(content), self.fit, will_run, self.checks, None, margins=FLUSH, spacing=SPACING + 4)
        self.area = PageScroll(content)
        self.start = push_button(tip=tip_with_keys("Ctrl+Return"), role=Role.PRIMARY)
        tip = _("One run for each value of one or two options, and a comparison of all of them")
        self.sweep = link_button(_("Try several values…"), tip=tip, flush=True)
        title = _("Quick try on {count:,} examples").format(count=QUICK_TRY)
        tip = _(
            "Trains on the first examples only, to see whether everything works. The form stays as it is."
        )
        self.quick = link_button(title, tip=tip, flush=True)
        more = hbox(self.sweep, self.quick, None, spacing=2 * SPACING)
        start = fill(QVBoxLayout(), self.fit.run_time, self.start, more)
        start.setContentsMargins(margins(self, 0, 0, GUTTER, 0))
        layout = fill(QVBoxLayout(self), (self.area, 1), spacing=SPACING + 4)
        layout.setContentsMargins(0, 0, 0, SPACING)
        self._before_memory: list[Check] = []
        self._after_memory: list[Check] = []
        memory.changed.connect(self._show_checks)
        layout.addLayout(start)  # at the bottom, where nothing above can move it from under the mouse

    def show_outcome(
        self,
        checked: CheckedForm,
        problems: Sequence[Problem],
        machine: MachineReport | None,
        questions: FormQuestions,
        advice: Sequence[Problem] = (),
        *,
        changed: Mapping[str, StartingValue],
        is_waiting: bool,
        is_start_awaited: bool = False,
    ) -> None:
        """Show what will run, everything that is wrong and what is worth knowing.

        While `is_waiting` for an answer that may prevent the start, Start may be pressed: `is_start_awaited` then.
        """
        options, findings = checked.readable, questions.data.findings
        if options is not None:
            data, model = questions.data.counted, questions.model.report
            self.rows.set_rows(summary_rows(options, checked.unreadable, machine, data, model))
            self.rows.set_marks(changes_by_row(options, changed))
        title = options_by_path()["data.train"].title

        def of_findings(found: FindingLevel, level: Level) -> list[Check]:
            return [Check(level, item.message, title, FINDINGS) for item in findings if item.level is found]

        self._before_memory = [
            *(_check(Level.ERROR, problem) for problem in problems),
            *of_findings(FindingLevel.PROBLEM, Level.ERROR),
            *self._states(options, problems, machine, questions),
        ]
        self._after_memory = [
            *(_check(Level.WARNING, item) for item in advice),
            *of_findings(FindingLevel.WARNING, Level.WARNING),
        ]
        self._show_checks()
        self.fit.show_state()
        is_reading = questions.data.is_waiting
        outdated = questions.data.problems() if is_reading else ()
        left = [problem for problem in problems if problem not in outdated]
        count = questions.data.problem_count
        text = self._what_to_fix(left, 0 if is_reading else count)
        self.start.setEnabled(bool(text) or is_waiting or not (problems or count))
        set_role(self.start, None if text else Role.PRIMARY)  # pressed, it goes to what is to be fixed
        self.start.setIcon(QIcon() if text else icon("start", QPalette.ColorRole.HighlightedText))
        if not text and is_waiting:
            text = _("Starting once the model is checked…")
            if not is_start_awaited:
                text = (
                    _("Start once the data is read") if is_reading else _("Start once the model is checked")
                )
            elif is_reading:
                text = _("Starting once the data is read…")
        is_pretraining = options is not None and options.pretrains
        self.start.setText(text or (_("Pretrain, then chat") if is_pretraining else _("Start training")))

    def _what_to_fix(self, problems: Sequence[Problem], findings: int) -> str:
        """Return what prevents the start, empty if nothing does; `findings` are the problems found in the data."""
        missing = {
            "model.source": _("Choose a model to start from"),
            "data.train": _("Choose the data to train on"),
        }
        for problem in problems:
            if problem.is_missing and problem.path in missing:
                return missing[problem.path]
        paths = [problem.path for problem in problems] + ["data.train"] * findings
        if len(paths) > 1:
            count = len(paths)
            text = ngettext("Fix {count:,} problem to start", "Fix {count:,} problems to start", count)
            return text.format(count=count)
        if paths:
            option = options_by_path().get(paths[0])
            return _("Fix “{title}”").format(title=option.title if option else paths[0])
        return ""

    def _states(
        self,
        options: RunOptions | None,
        problems: Sequence[Problem],
        machine: MachineReport | None,
        questions: FormQuestions,
    ) -> list[Check]:
        """Return what is fine, and what is still being checked."""
        wrong = {problem.path.partition(".")[0] for problem in problems}
        reading, model = questions.data, questions.model
        lines: list[Check] = []
        if options is not None and "model" not in wrong:
            if model.failure is not None:
                text = _("The model could not be checked. {reason}").format(reason=model.failure.title)
                lines.append(Check(Level.WARNING, text))
            elif model.is_waiting:
                lines.append(Check(Level.INFO, _("Checking the model…")))
            else:
                text = _("Model {of_run}") if is_run(options.model.source) else "{of_run}"
                lines.append(Check(None, text.format(of_run=model_title(options))))
        if reading.is_waiting:
            lines.append(Check(Level.INFO, _("Reading the data…")))
        elif reading.is_stopped:
            lines.append(Check(Level.WARNING, _("The data was not checked")))
        elif reading.has_broken:
            lines.append(Check(Level.WARNING, _("The data could not be checked (Hone's log says why)")))
        elif reading.report is not None and "data" not in wrong and not reading.problem_count:
            lines.append(Check(None, enumerated(counts_of(reading.report))))
        if machine is not None and options is not None and "device" not in wrong:
            lines.append(Check(None, _("{device} is ready").format(device=computed(machine, options)[0])))
        return lines

    def _show_checks(self) -> None:
        """Show all checks, that of the memory in the words of its card."""
        state, verdict, role = self.fit.state, _("not known yet"), Role.MUTED
        if state.forecast is not None:
            verdict, _figures, role = headline(state, state.forecast)
        levels = {Role.VERDICT_GOOD: None, Role.VERDICT_TIGHT: Level.WARNING, Role.VERDICT_BAD: Level.ERROR}
        check = Check(levels.get(role, Level.INFO), _("Memory: {verdict}").format(verdict=verdict))
        self.checks.show_checks([*self._before_memory, check, *self._after_memory])


def _check(level: Level, problem: Problem) -> Check:
    option = options_by_path().get(problem.path)
    if option is None:
        return Check(level, sentence(str(problem) if level is Level.ERROR else problem.message))
    if problem.is_missing:
        return Check(level, "", sentence(problem.message), problem.path)
    return Check(level, sentence(problem.message), option.title, problem.path)

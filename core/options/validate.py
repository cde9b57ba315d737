"""Validate options against each other and against files.

A rule is a function from options to problems. `RULES` don't depend on the task, `TASK_RULES` do.
"""

import difflib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from core.base.errors import Fix, Problem, why
from core.base.files import is_there, why_missing
from core.base.formats import plain_number
from core.base.language import _
from core.options import SCHEMA, SECTIONS, RunOptions, Tree
from core.options.backend_rules import backend_problems
from core.options.catalogue import all_options, needs_of, options_by_path, options_of, use, value_of
from core.options.choices import FP16_NEEDS_GPU, Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.declare import Option
from core.options.method_rules import METHOD_RULES, METHOD_TASK_RULES, Rule
from core.options.past_runs import problem_with
from core.options.sections import DEVICE_NAME, ModelOptions
from core.options.sources import (
    DIGITS,
    HUB_MODELS,
    RANDOM_WEIGHTS,
    SCRATCH_MODELS,
    VISION_MODELS,
    Lack,
    Scheme,
    is_scratch,
    parse_synthetic,
    scheme_of,
    scratch_model,
    synthetic,
    synthetic_lengths,
    unknown_scheme,
    what_lacks,
)
from core.options.trainer_args import explain_argument

# --- Rules of the data


EVAL, SPLIT, FRACTION, TRAIN_SPLIT = "data.eval", "data.eval_split", "data.eval_fraction", "data.train_split"
DEFAULT_FRACTION = DataOptions().eval_fraction


def splits(options: RunOptions) -> Iterator[Problem]:
    """Checks that validation data is given in one way only, and differs from the training data."""
    data = options.data
    name = Path(data.eval or "").name
    split = _("the split {name}").format(name=data.eval_split)
    use_fraction = Fix(_("Use a fraction of the training data instead"), {SPLIT: None})
    if data.eval and data.eval_split:
        fixes = (
            Fix(_("Evaluate on {data}").format(data=split), {EVAL: None}),
            Fix(_("Evaluate on {data}").format(data=name), {SPLIT: None}),
        )
        yield Problem(SPLIT, _("validation data is given as well; keep one of the two"), fixes)
    if (data.eval or data.eval_split) and data.eval_fraction not in (0.0, DEFAULT_FRACTION):
        given = name if data.eval else split
        percent = _("Use {percent:g} % of the training data").format(percent=100 * data.eval_fraction)
        fixes = (
            Fix(_("Evaluate on {data}").format(data=given), {FRACTION: DEFAULT_FRACTION}),
            Fix(percent, {EVAL if data.eval else SPLIT: None}),
        )
        message = _("no fraction is used because {data} is given; keep one of the two").format(data=given)
        yield Problem(FRACTION, message, fixes)
    is_generated = scheme_of(data.train) is Scheme.BUILTIN or parse_synthetic(data.train) is not None
    if data.train and (is_generated or (is_there(Path(data.train)) and Path(data.train).is_file())):
        message = _("{name} has no splits").format(name=Path(data.train).name)
        if data.train_split:
            yield Problem(TRAIN_SPLIT, message, (Fix(_("Use all of it"), {TRAIN_SPLIT: None}),))
        if data.eval_split:
            yield Problem(SPLIT, message, (use_fraction,))
    if data.eval_split == (data.train_split or "train"):
        message = _("“{split}” is the training split; evaluate on data that the model isn't trained on")
        yield Problem(SPLIT, message.format(split=data.eval_split), (use_fraction,))


def _sources(options: RunOptions) -> Iterator[tuple[str, str]]:
    """Yields the data sources that are given, each with the path of its option."""
    for path in ("data.train", EVAL):
        source = value_of(options, path)
        if source:
            yield path, source


def _data_chosen(options: RunOptions) -> Iterator[Problem]:
    if not options.data.train:
        yield Problem("data.train", _("choose training data"), is_missing=True)
    for path, source in _sources(options):
        match scheme_of(source):
            case Scheme.BUILTIN if source != DIGITS:
                message = _("there is no {source}, only {digits}").format(source=source, digits=DIGITS)
                yield Problem(path, message, (use(path, DIGITS),))
            case Scheme.SYNTHETIC if parse_synthetic(source) is None:
                message = _("must be synthetic:EXAMPLESxLENGTH, such as {example}, not {source}")
                yield Problem(path, message.format(example=synthetic(512, 128), source=source))
            case Scheme.TORCHVISION | Scheme.SCRATCH | Scheme.RUN:
                yield Problem(path, _("{source} is a model; choose data").format(source=source))
            case None if reason := why_missing(Path(source)):
                yield Problem(path, reason)


def _data_fits_task(options: RunOptions) -> Iterator[Problem]:
    """Checks that images are for image tasks, random samples for timing only, and rows of one text of one length."""
    task = options.task
    for path, source in _sources(options):
        if source == DIGITS and not task.reads_images:
            message = _("{source} are images; {task} needs texts").format(source=source, task=task)
            yield Problem(path, message)
        shortest, longest = synthetic_lengths(source) or (0, 0)
        if shortest != longest and (task.reads_images or task.writes_text):
            same = synthetic(*(parse_synthetic(source) or (1, 1)))
            message = _("{source} has several lengths; {task} needs one").format(source=source, task=task)
            yield Problem(path, message, (use(path, same),))
    if task.reads_text and options.data.eval:
        without = (Fix(_("Use no validation data"), {EVAL: None}),)
        if parse_synthetic(options.data.eval):
            yield Problem(EVAL, _("random texts can't be evaluated on; choose real ones or none"), without)
        elif parse_synthetic(options.data.train):
            message = _("{train} is for timing and is never evaluated").format(train=options.data.train)
            yield Problem(EVAL, message, without)


def _columns_and_labels(options: RunOptions) -> Iterator[Problem]:
    columns, label = options.data.text_columns, options.data.label_column
    if len(columns) > 2:
        message = _("must be one column, or two for pairs, not {count}").format(count=len(columns))
        yield Problem("data.text_columns", message)
    if len(set(columns)) < len(columns):
        message = _("names the same column twice: {columns}").format(columns=", ".join(columns))
        yield Problem("data.text_columns", message)
    if label in columns:
        message = _("{column} is already a text column; choose another one").format(column=label)
        yield Problem("data.label_column", message)
    if label := next((label for label, name in options.data.label_names.items() if not name.strip()), ""):
        message = _("“{label}” has no name; write it as: label = name").format(label=label)
        yield Problem("data.label_names", message)


# --- Rules of the model


def _model_chosen(options: RunOptions) -> Iterator[Problem]:
    source = options.model.source
    if not source:
        yield Problem("model.source", _("choose a model"), is_missing=True)
    elif scheme := unknown_scheme(source):
        message = _(
            "there is no source called {scheme}:; use a folder, an id on the Hub, torchvision:NAME, scratch:NAME or "
            "run:NAME"
        )
        yield Problem("model.source", message.format(scheme=scheme))


def _model_fits_task(options: RunOptions) -> Iterator[Problem]:
    path, source, task = "model.source", options.model.source, options.task
    match scheme_of(source):
        case Scheme.TORCHVISION if task.reads_text:
            message = _("{source} is a vision model; {task} needs a text model")
            yield Problem(path, message.format(source=source, task=task))
        case Scheme.TORCHVISION if source.partition(":")[2] not in VISION_MODELS:
            yield _unknown_model(source, list(VISION_MODELS))
        case Scheme.BUILTIN | Scheme.SYNTHETIC | Scheme.HUB:
            yield Problem(path, _("{source} is data; choose a model").format(source=source))
        case Scheme.SCRATCH:
            yield from _model_from_scratch(options)
        case Scheme.RUN if problem := problem_with(source, task):
            yield problem
        case None if task.writes_text and source in HUB_MODELS and not HUB_MODELS[source].vocabulary:
            message = _("{source} can't write text; choose a model that can")
            like = (
                name
                for name, model in HUB_MODELS.items()
                if model.vocabulary and model.chats is task.reads_conversations
            )
            yield Problem(path, message.format(source=source), (use(path, next(like)),))
        case None if Path(source).is_absolute():
            yield from _model_folder(source, needs_weights=not options.starts_random)


def _unknown_model(source: str, names: list[str]) -> Problem:
    scheme, _colon, name = source.partition(":")
    similar = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    message = _("there is no {source}; choose one of {names}").format(source=source, names=", ".join(names))
    return Problem(
        "model.source", message, tuple(use("model.source", f"{scheme}:{each}") for each in similar)
    )


def _model_from_scratch(options: RunOptions) -> Iterator[Problem]:
    path, source, task = "model.source", options.model.source, options.task
    model = scratch_model(source)
    fitting = [name for name, each in SCRATCH_MODELS.items() if each.writes or not task.writes_text]
    if task.reads_images:
        message = _("{source} reads text; {task} needs a vision model").format(source=source, task=task)
        yield Problem(path, message, (use(path, Scheme.TORCHVISION.of("resnet18")),))
    elif model is None:
        yield _unknown_model(source, fitting)
    elif task is Task.PREFERENCE and parse_synthetic(options.data.train) is None:
        message = _("a new model has no answers to compare yet; choose a model or a run that can chat")
        yield Problem(path, message)
    elif task.writes_text and not model.writes:
        message = _("{source} can't write text; choose one of {names}")
        fix = use(path, Scheme.SCRATCH.of("llama-small"))
        yield Problem(path, message.format(source=source, names=", ".join(fitting)), (fix,))


def _model_folder(source: str, *, needs_weights: bool) -> Iterator[Problem]:
    path = "model.source"
    if reason := why_missing(Path(source), _("model folder")):
        yield Problem(path, reason)
    elif not Path(source).is_dir():
        yield Problem(path, _("{source} is a file; choose the folder of the model").format(source=source))
    else:
        try:
            lack = what_lacks(Path(source), needs_weights=needs_weights)
        except OSError as error:
            message = _("{source} can't be read: {error}").format(source=source, error=why(error))
            yield Problem(path, message)
            return
        if lack is not None:
            fixes = () if lack in (Lack.CONFIG, Lack.KIND) else (RANDOM_WEIGHTS,)
            yield Problem(path, lack.value.format(folder=source), fixes)


def _vocabulary(options: RunOptions) -> Iterator[Problem]:
    path, default = "model.vocabulary", ModelOptions().vocabulary
    if options.model.vocabulary != default and not is_scratch(options.model.source):
        message = _("is only for a model from scratch: other models have their own tokenizer; remove it")
        yield Problem(path, message, (Fix(_("Remove it"), {path: default}),))


def _image_size(options: RunOptions) -> Iterator[Problem]:
    """Checks that images are large enough for the model; with batch norm a single small image is not enough."""
    name = Scheme.TORCHVISION.name_of(options.model.source) or ""
    limits = VISION_MODELS.get(name)
    if options.task.reads_text or limits is None:
        return
    random = parse_synthetic(options.data.train)
    size = random[1] if random else options.data.image_size
    needed = limits.smallest if size < limits.smallest else limits.smallest_alone
    rounded = -(-needed // 32) * 32
    path, value = ("data.train", synthetic(random[0], rounded)) if random else ("data.image_size", rounded)
    larger = Fix(_("Images of {rounded} pixels").format(rounded=rounded), {path: value})
    if size < limits.smallest:
        message = _("{name} needs images of {smallest} pixels or more, not {size}")
        yield Problem(path, message.format(name=name, smallest=limits.smallest, size=size), (larger,))
    elif options.memory.batch_size == 1 and size < limits.smallest_alone:
        message = _("{name} has batch norm: with images of {size} pixels it needs a batch size of 2 or more")
        two = Fix(_("Batch size 2"), {"memory.batch_size": 2})
        yield Problem("memory.batch_size", message.format(name=name, size=size), (two, larger))


# --- Other rules


def _device(options: RunOptions) -> Iterator[Problem]:
    name = options.device.name
    if DEVICE_NAME.fullmatch(name) is None:
        message = _(
            'must be auto, cuda, cuda:NUMBER, mps or cpu, for other computers with @NAME after it, not "{name}"'
        )
        yield Problem("device.name", message.format(name=name))
    if options.device.there.startswith("cuda:") and options.device.processes > 1:
        message = _("{device} is a single GPU; choose cuda for several processes")
        fix = use("device.name", "cuda")
        yield Problem("device.processes", message.format(device=options.device.there), (fix,))
    there, at, names = name.partition("@")
    once = "+".join(dict.fromkeys(options.device.computers))
    if once != names:
        message = _("names a computer twice; each takes part once")
        yield Problem("device.name", message, (use("device.name", f"{there}{at}{once}"),))
    if len(options.device.computers) > 1 and there.startswith("cuda:"):
        message = _(
            "{device} is a single GPU; on several computers choose cuda, and processes for the GPUs of each"
        )
        yield Problem("device.name", message.format(device=there), (use("device.name", f"cuda{at}{names}"),))
    if len(options.device.computers) > 1 and there == "mps":
        message = _("Macs can't train together: PyTorch has no way for Apple GPUs to exchange gradients")
        first = f"{there}{at}{options.device.computers[0]}"
        yield Problem("device.name", message, (use("device.name", first),))
    if options.device.there == "cpu" and options.device.precision is Precision.FP16:
        fixes = tuple(use("device.precision", value) for value in ("bf16", "fp32"))
        yield Problem("device.precision", FP16_NEEDS_GPU, fixes)


def _without_effect(options: RunOptions) -> Iterator[Problem]:
    """Yields options that were set and have no effect together with the others."""
    for option in all_options():
        if not option.applies_to(options) and value_of(options, option.path) != option.default:
            message = _("is only for {options} and has no effect here; remove it").format(
                options=needs_of(option)
            )
            yield Problem(option.path, message, (Fix(_("Remove it"), {option.path: option.default}),))


def _prompts(options: RunOptions) -> Iterator[Problem]:
    path, prompts = "output.prompts", options.output.prompts
    filled = [prompt for prompt in prompts if prompt.strip()]
    if len(filled) < len(prompts):
        number = next(i for i, prompt in enumerate(prompts, start=1) if not prompt.strip())
        message = _("prompt {number} is empty; write one or remove it").format(number=number)
        yield Problem(path, message, (Fix(_("Remove empty prompts"), {path: filled}),))


RULES: tuple[Rule, ...] = (
    _model_chosen,
    _data_chosen,
    splits,
    _columns_and_labels,
    _prompts,
    _device,
    *METHOD_RULES,
)
TASK_RULES: tuple[Rule, ...] = (
    _model_fits_task,
    _vocabulary,
    _data_fits_task,
    _image_size,
    *METHOD_TASK_RULES,
    backend_problems,
    _without_effect,
)


def problems_of(options: RunOptions, *, task_is_known: bool = True) -> tuple[Problem, ...]:
    """Returns the problems of options that don't go together. `TASK_RULES` are left out if the task isn't known."""
    rules = (*RULES, *TASK_RULES) if task_is_known else RULES
    return tuple(problem for rule in rules for problem in rule(options))


# --- Validation


LARGEST_INTEGER = 2**63 - 1
SHOWN_CHARACTERS = 80


def check_tree(tree: Tree) -> tuple[RunOptions | None, tuple[Problem, ...]]:
    """Turns plain values into options and checks whether they go together.

    Returns:
        The options, or None if a value is invalid, and all problems: unknown names, wrong types, values out of range,
        missing files, and choices that exclude each other.
    """
    task, sections, unknown, invalid = _read(tree)
    options = RunOptions(task=task or next(iter(Task)), **sections)  # defaults in place of invalid values
    paths = {problem.path for problem in invalid}
    ruled = (one for one in problems_of(options, task_is_known=task is not None) if one.path not in paths)
    return None if invalid else options, (*unknown, *invalid, *ruled)


def read_options(tree: Tree) -> tuple[RunOptions | None, tuple[Problem, ...]]:
    """Turns plain values into options without checking files or combinations.

    Returns:
        The options, or None if a value is invalid, and the problems of names and values.
    """
    task, sections, unknown, invalid = _read(tree)
    options = None if invalid or task is None else RunOptions(task=task, **sections)
    return options, (*unknown, *invalid)


def _read(tree: Tree) -> tuple[Task | None, dict[str, Any], list[Problem], list[Problem]]:
    """Returns the task (None if invalid), the sections without invalid values, unknown names, and invalid values."""
    invalid: list[Problem] = []
    if (schema := tree.get("schema", SCHEMA)) != SCHEMA:
        message = _(
            "this Hone reads run files of schema {known}, and this has {schema!r}; a newer Hone may read it"
        )
        invalid.append(Problem("schema", message.format(known=SCHEMA, schema=schema)))
    sections: dict[str, Any] = {}
    for name, struct in SECTIONS.items():
        entries, values = tree.get(name, {}), {}
        if not isinstance(entries, dict):
            message = _("must be a section ([{section}] and its options below), not {value}")
            invalid.append(Problem(name, message.format(section=name, value=_show(entries))))
            entries = {}
        for option in options_of(name):
            if option.name in entries:
                try:
                    values[option.name] = _convert(option, entries[option.name])
                except _InvalidValue as error:
                    invalid.append(error.problem)
        sections[name] = struct(**values)
    task: Task | None = None
    try:
        task = _convert(options_by_path()["task"], tree.get("task"))
    except _InvalidValue as error:
        invalid.append(error.problem)
    return task, sections, list(_unknown_names(tree)), invalid


def _unknown_names(tree: Tree) -> Iterator[Problem]:
    known = ["task", "schema", *SECTIONS]
    for key, entries in tree.items():
        if key not in known:
            yield _unknown(tree, "", key, known)
        elif key in SECTIONS and isinstance(entries, dict):
            names = [option.name for option in options_of(key)]
            yield from (_unknown(tree, key, name, names) for name in entries if name not in names)


def _unknown(tree: Tree, section: str, name: str, known: list[str]) -> Problem:
    homes = [option.path for option in all_options() if option.name == name]
    similar = homes or difflib.get_close_matches(name, known, n=1)
    message = explain_argument(tree, section, name)
    if not message and similar:
        message = _("no such option here; did you mean {option}?").format(option=similar[0])
    elif not message:
        message = _("no such option here; known are {options}").format(options=", ".join(known))
    return Problem(f"{section}.{name}" if section else name, message)


class _InvalidValue(Exception):  # noqa: N818 - carries a problem and is always caught here
    def __init__(self, option: Option, message: str, fixes: tuple[Fix, ...] = ()) -> None:
        super().__init__(message)
        self.problem = Problem(option.path, message, fixes)


def _convert(option: Option, value: object) -> Any:
    """Returns the value in the option's type; raises _InvalidValue."""
    if value is None:
        if option.optional:
            return None
        message = _("is missing; it must be {expectation}").format(expectation=option.expectation())
        raise _InvalidValue(option, message)
    if option.value_type is Toggle and isinstance(value, bool):
        return Toggle.ON if value else Toggle.OFF
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
            broken = _("is too large a number")
        else:
            broken = option.broken_limit(value) if math.isfinite(value) else _("must be a finite number")
        if broken:
            got = option.number_text(value) if option.is_share else _show(value)
            raise _InvalidValue(option, _("{broken}, not {value}").format(broken=broken, value=got))
    try:
        return msgspec.convert(value, option.value_type)
    except msgspec.ValidationError as error:
        values = [choice.value for choice in option.choices]
        fixes = tuple(use(option.path, match) for match in difflib.get_close_matches(str(value), values, n=1))
        message = _("must be {expectation}, not {value}").format(
            expectation=option.expectation(), value=_show(value)
        )
        raise _InvalidValue(option, message, fixes) from error


def _show(value: object) -> str:
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value)
        text = f"{value:,}" if type(value) is int else text  # no bool
        text = plain_number(value) if isinstance(value, float) else text
    except ValueError:  # Python prints no number of more than 4,300 digits
        return _("a number too long to print")
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"

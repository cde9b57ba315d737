"""Validate options against each other and against files.

A rule is a function from options to problems. `RULES` apply to every task, `TASK_RULES` to one.
"""

import difflib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from core.base.errors import Fix, Problem
from core.base.files import is_there, why_missing
from core.base.language import _
from core.options import SCHEMA, SECTIONS, RunOptions, Tree
from core.options.catalogue import all_options, needs_of, options_by_path, options_of, value_of
from core.options.choices import FP16_NEEDS_GPU, Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.declare import Kind, Option
from core.options.method_rules import METHOD_RULES, METHOD_TASK_RULES, Rule
from core.options.past_runs import problem_with
from core.options.sections import ModelOptions
from core.options.sources import (
    DIGITS,
    RANDOM_WEIGHTS,
    SAID,
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
from core.options.trainer_args import explanation

# --- Rules of the data


EVAL, SPLIT, FRACTION, TRAIN_SPLIT = "data.eval", "data.eval_split", "data.eval_fraction", "data.train_split"
DEFAULT_FRACTION = DataOptions().eval_fraction
HOLD_OUT = Fix(_("Hold out a fraction of it instead"), {SPLIT: None})


def splits(options: RunOptions) -> Iterator[Problem]:
    """Validation data is named once, is another split than the one trained on, and is there to be had."""
    data = options.data
    if data.eval and data.eval_split:
        yield Problem(
            SPLIT,
            "there is evaluation data of its own; give one of the two",
            (
                Fix(_("Evaluate on the split {eval_split}").format(eval_split=data.eval_split), {EVAL: None}),
                Fix(_("Evaluate on {name}").format(name=Path(data.eval).name), {SPLIT: None}),
            ),
        )
    if (data.eval or data.eval_split) and data.eval_fraction not in (0.0, DEFAULT_FRACTION):
        named = (
            Path(data.eval).name
            if data.eval
            else _("the split {eval_split}").format(eval_split=data.eval_split)
        )
        yield Problem(
            FRACTION,
            f"nothing is held out beside {named}; give one of the two",
            (
                Fix(_("Evaluate on {named}").format(named=named), {FRACTION: DEFAULT_FRACTION}),
                Fix(
                    _("Hold out {eval_fraction:g} % of the training data").format(
                        eval_fraction=100 * data.eval_fraction
                    ),
                    {EVAL if data.eval else SPLIT: None},
                ),
            ),
        )
    is_made = scheme_of(data.train) is Scheme.BUILTIN or parse_synthetic(data.train) is not None
    if data.train and (is_made or (is_there(Path(data.train)) and Path(data.train).is_file())):
        message = _("{name} isn't divided into splits").format(name=Path(data.train).name)
        if data.train_split:
            yield Problem(TRAIN_SPLIT, message, (Fix(_("Use all of it"), {TRAIN_SPLIT: None}),))
        if data.eval_split:
            yield Problem(SPLIT, message, (HOLD_OUT,))
    trained = data.train_split or "train"
    if data.eval_split == trained:
        message = f"“{trained}” is trained on; evaluated on it, the model only shows what it knows by heart"
        yield Problem(SPLIT, message, (HOLD_OUT,))


def _sources(options: RunOptions) -> Iterator[tuple[str, str]]:
    """The data sources that are given, each with its option."""
    for path in ("data.train", "data.eval"):
        source = value_of(options, path)
        if source:
            yield path, source


def _data_chosen(options: RunOptions) -> Iterator[Problem]:
    if not options.data.train:
        yield Problem("data.train", _("choose the data to train on"))
    for path, source in _sources(options):
        match scheme_of(source):
            case Scheme.BUILTIN if source != DIGITS:
                fix = Fix(_("Use the digits"), {path: DIGITS})
                yield Problem(path, f"there is no {source}; {DIGITS} is", (fix,))
            case Scheme.SYNTHETIC if parse_synthetic(source) is None:
                example = synthetic(512, 128)
                yield Problem(
                    path,
                    _("must read synthetic:SAMPLESxLENGTH, such as {example}, got {source}").format(
                        example=example, source=source
                    ),
                )
            case Scheme.TORCHVISION | Scheme.SCRATCH | Scheme.RUN:
                yield Problem(path, f"{source} is a model; choose data")
            case None:  # of the Hub's, whoever reads it looks whether it is here
                yield from _missing(path, source)


def _missing(path: str, source: str, kind: str = _("file or folder")) -> Iterator[Problem]:
    reason = why_missing(Path(source), kind)
    if reason:
        yield Problem(path, reason)


def _random_lengths(options: RunOptions) -> Iterator[Problem]:
    """Random texts may be of different lengths where rows are padded."""
    if options.task.reads_text and not options.task.writes_text:
        return
    for path, source in _sources(options):
        shortest, longest = synthetic_lengths(source) or (0, 0)
        if shortest != longest:
            same = synthetic(*(parse_synthetic(source) or (1, 1)))
            message = f"{source} is for tasks that say something of a text; {options.task} needs one length"
            yield Problem(path, message, (Fix(_("Use {same}").format(same=same), {path: same}),))


def _data_fits_task(options: RunOptions) -> Iterator[Problem]:
    if options.task.reads_images:
        return
    for path, source in _sources(options):
        if source == DIGITS:
            yield Problem(path, f"{source} are images; {options.task} needs texts")
    hold_out = (Fix(_("Evaluate on no data of its own"), {EVAL: None}),)
    if parse_synthetic(options.data.eval or ""):
        yield Problem(EVAL, "random texts can't be evaluated on; give real ones or none", hold_out)
    elif options.data.eval and parse_synthetic(options.data.train):
        yield Problem(
            EVAL, _("{train} is for timing and is never evaluated").format(train=options.data.train), hold_out
        )


def _text_columns(options: RunOptions) -> Iterator[Problem]:
    columns, label = options.data.text_columns, options.data.label_column
    if len(columns) > 2:
        yield Problem("data.text_columns", f"takes one column, or two for pairs; got {len(columns)}")
    if len(set(columns)) < len(columns):
        yield Problem(
            "data.text_columns",
            _("names the same column twice: {columns}").format(columns=", ".join(columns)),
        )
    if label in columns:
        yield Problem("data.label_column", f"{label} is a text column too; choose the answer's column")


# --- Rules of the model


VISION_MODEL = Fix(_("Use ResNet-18"), {"model.source": Scheme.TORCHVISION.of("resnet18")})


def _model_chosen(options: RunOptions) -> Iterator[Problem]:
    source = options.model.source
    if not source:
        yield Problem("model.source", _("choose a model to start from"))
    elif unknown_scheme(source):
        yield Problem(
            "model.source",
            f"there is no source called {unknown_scheme(source)}:; give a folder, an id on the Hub, "
            "torchvision:NAME, scratch:NAME or run:NAME",
        )


def _model_fits_task(options: RunOptions) -> Iterator[Problem]:
    source = options.model.source
    match scheme_of(source):
        case Scheme.TORCHVISION:
            name = source.partition(":")[2]
            if options.task.reads_text:
                yield Problem("model.source", f"{source} sees images; {options.task} needs a text model")
            elif name not in VISION_MODELS:
                fixes, _close = _similar(name, VISION_MODELS, Scheme.TORCHVISION)
                message = f"no vision model called {name!r}; there are {', '.join(VISION_MODELS)}"
                yield Problem("model.source", message, fixes)
        case Scheme.BUILTIN | Scheme.SYNTHETIC | Scheme.HUB:
            yield Problem("model.source", f"{source} is data; choose a model")
        case Scheme.SCRATCH:
            yield from _model_from_scratch(options)
        case Scheme.RUN:
            problem = problem_with(source, options.task)
            if problem:
                yield problem
        case None if Path(source).is_absolute():
            yield from _model_folder(source, needs_weights=options.model.pretrained)


def _similar(name: str, known: Any, scheme: Scheme) -> tuple[tuple[Fix, ...], list[str]]:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return tuple(
        Fix(_("Use {other}").format(other=other), {"model.source": scheme.of(other)}) for other in close
    ), close


def _model_from_scratch(options: RunOptions) -> Iterator[Problem]:
    source, writes = options.model.source, options.task.writes_text
    found = scratch_model(source)
    fitting = [name for name, model in SCRATCH_MODELS.items() if model.writes or not writes]
    if options.task.reads_images:
        message = f"{source} reads text; {options.task} needs a vision model"
        yield Problem("model.source", message, (VISION_MODEL,))
    elif found is None:
        name = source.partition(":")[2]
        fixes, close = _similar(name, fitting, Scheme.SCRATCH)
        rest = f"; did you mean {close[0]}? There are" if close else "; there are"
        message = _("no model called {name!r} from scratch{rest} {fitting}").format(
            name=name, rest=rest, fitting=", ".join(fitting)
        )
        yield Problem("model.source", message, fixes)
    elif writes and not found.writes:
        fix = Fix(_("Use llama-small"), {"model.source": Scheme.SCRATCH.of("llama-small")})
        yield Problem("model.source", f"{source} reads and can't write; {', '.join(fitting)} can", (fix,))
    elif options.task.reads_conversations and parse_synthetic(options.data.train) is None:
        yield Problem(
            "model.source",
            _(
                "a model from scratch has to learn to write first: train it for text generation, then start from that "
                "run with run:NAME"
            ),
            (Fix(_("Train it for text generation"), {"task": Task.CAUSAL_LM.value}),),
        )


def _model_folder(source: str, *, needs_weights: bool) -> Iterator[Problem]:
    missing = list(_missing("model.source", source, _("model folder")))
    if missing:
        yield from missing
    elif not Path(source).is_dir():
        yield Problem("model.source", f"{source} is a file; choose the folder with the model in it")
    else:
        try:
            lack = what_lacks(Path(source), needs_weights=needs_weights)
        except OSError as error:
            yield Problem(
                "model.source",
                _("{source} can't be looked into: {strerror}").format(
                    source=source, strerror=error.strerror or error
                ),
            )
            return
        if lack is not None:
            fixes = () if lack in (Lack.CONFIG, Lack.KIND) else (RANDOM_WEIGHTS,)
            yield Problem("model.source", SAID[lack].format(source), fixes)


def _vocabulary(options: RunOptions) -> Iterator[Problem]:
    """Only a model from scratch gets a tokenizer of its own."""
    default = ModelOptions().vocabulary
    if options.model.vocabulary != default and not is_scratch(options.model.source):
        yield Problem(
            "model.vocabulary",
            "is only for a model from scratch: others come with their tokenizer; take it out",
            (Fix(_("Take it out"), {"model.vocabulary": default}),),
        )


def _image_size(options: RunOptions) -> Iterator[Problem]:
    """Images must be large enough for the model; some models train no single small image."""
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
        yield Problem(
            path,
            _("{name} needs images of {smallest} pixels or more, got {size}").format(
                name=name, smallest=limits.smallest, size=size
            ),
            (larger,),
        )
    elif options.memory.batch_size == 1 and size < limits.smallest_alone:
        yield Problem(
            "memory.batch_size",
            _(
                "{name} normalises over a batch: with images of {size} pixels it needs 2 or more in one"
            ).format(name=name, size=size),
            (Fix(_("Batch size 2"), {"memory.batch_size": 2}), larger),
        )


# --- Other rules


def _device(options: RunOptions) -> Iterator[Problem]:
    name = options.device.name
    index = name.removeprefix("cuda:")
    if name not in ("auto", "cpu", "mps", "cuda") and not (name.startswith("cuda:") and index.isdecimal()):
        yield Problem(
            "device.name", _('must be auto, cuda, cuda:NUMBER, mps or cpu, got "{name}"').format(name=name)
        )
    if name == "cpu" and options.device.precision is Precision.FP16:
        fixes = (
            Fix(_("Use bf16"), {"device.precision": "bf16"}),
            Fix(_("Use fp32"), {"device.precision": "fp32"}),
        )
        yield Problem("device.precision", f"fp16 {FP16_NEEDS_GPU}", fixes)


def _without_effect(options: RunOptions) -> Iterator[Problem]:
    """Options that somebody set and that mean nothing beside the others."""
    for option in all_options():
        if not option.applies_to(options) and value_of(options, option.path) != option.default:
            yield Problem(
                option.path,
                f"is only for {needs_of(option)} and would change nothing here; take it out",
                (Fix(_("Take it out"), {option.path: option.default}),),
            )


def _prompts(options: RunOptions) -> Iterator[Problem]:
    prompts = options.output.prompts
    empty = [number for number, prompt in enumerate(prompts, start=1) if not prompt.strip()]
    if empty:
        fix = Fix(_("Leave out empty ones"), {"output.prompts": [one for one in prompts if one.strip()]})
        message = f"prompt {empty[0]} is empty; write something or leave it out"
        yield Problem("output.prompts", message, (fix,))


RULES: tuple[Rule, ...] = (
    _model_chosen,
    _data_chosen,
    splits,
    _text_columns,
    _prompts,
    _device,
    *METHOD_RULES,
)
TASK_RULES: tuple[Rule, ...] = (
    _model_fits_task,
    _vocabulary,
    _data_fits_task,
    _random_lengths,
    _image_size,
    *METHOD_TASK_RULES,
    _without_effect,
)


def problems_of(options: RunOptions, *, task_is_known: bool = True) -> tuple[Problem, ...]:
    """Everything the rules find; with `task_is_known` False only of those that don't look at the task."""
    rules = (*RULES, *TASK_RULES) if task_is_known else RULES
    return tuple(problem for rule in rules for problem in rule(options))


# --- Validation


LARGEST_WHOLE = 2**63 - 1
"""Whole numbers beyond this fit neither into 64 bits nor, sooner or later, into a float."""

SHOWN_CHARACTERS = 80


def check_tree(tree: Tree) -> tuple[RunOptions | None, tuple[Problem, ...]]:
    """Turn plain values into options and check whether they go together.

    Returns:
        The options, or None if a value can't be read, and all problems found: unknown keys, wrong types, broken
        limits, files that aren't there, and choices that don't go together.
    """
    read = _read(tree)
    named = {problem.path for problem in read.unreadable}
    stand_in = read.task or next(iter(Task))
    ruled = problems_of(RunOptions(task=stand_in, **read.sections), task_is_known=read.task is not None)
    others = (problem for problem in ruled if problem.path not in named)
    return read.options, (*read.unknown, *read.unreadable, *others)


def read_options(tree: Tree) -> tuple[RunOptions | None, tuple[Problem, ...]]:
    """Turn plain values into options and nothing more: no file they name is looked at.

    Returns:
        The options, or None if a value can't be read, and the problems of keys and values.
    """
    read = _read(tree)
    return read.options, (*read.unknown, *read.unreadable)


@dataclass(frozen=True)
class _Read:
    """What could be read of a tree; defaults stand in for what could not, None for the task."""

    task: Task | None
    sections: dict[str, Any]
    unknown: tuple[Problem, ...]
    unreadable: tuple[Problem, ...]

    @property
    def options(self) -> RunOptions | None:
        if self.unreadable or self.task is None:
            return None
        return RunOptions(task=self.task, **self.sections)


def _read(tree: Tree) -> _Read:
    unreadable: list[Problem] = []
    schema = tree.get("schema", SCHEMA)
    if schema != SCHEMA:
        message = f"this Hone reads run files of schema {SCHEMA}, got {schema!r}; a newer Hone may read it"
        unreadable.append(Problem("schema", message))
    sections: dict[str, Any] = {}
    for section, struct in SECTIONS.items():
        values, read = tree.get(section, {}), {}
        if not isinstance(values, dict):
            message = _("must be a section ([{section}] and its options below), got {values}").format(
                section=section, values=_show(values)
            )
            unreadable.append(Problem(section, message))
            values = {}
        for option in options_of(section):
            if option.name in values:
                read[option.name], problem = _value(option, values[option.name])
                if problem:
                    unreadable.append(problem)
                    del read[option.name]
        sections[section] = struct(**read)
    task, problem = _value(options_by_path()["task"], tree.get("task"))
    if problem:
        unreadable.append(problem)
    return _Read(task, sections, tuple(_unknown_keys(tree)), tuple(unreadable))


def _unknown_keys(tree: Tree) -> Iterator[Problem]:
    known = ["task", "schema", *SECTIONS]
    for key, values in tree.items():
        if key not in known:
            yield _unknown(tree, "", key, known)
        elif key in SECTIONS and isinstance(values, dict):
            names = [option.name for option in options_of(key)]
            yield from (_unknown(tree, key, name, names) for name in values if name not in names)


def _unknown(tree: Tree, section: str, key: str, known: list[str]) -> Problem:
    path = f"{section}.{key}" if section else key
    said = explanation(tree, section, key)  # of a name of Trainer's
    if said:
        return Problem(path, said)
    homes = [option.path for option in all_options() if option.name == key]
    if homes:
        return Problem(path, f"no such option here; did you mean {homes[0]}?")
    close = difflib.get_close_matches(key, known, n=1)
    rest = (
        _("did you mean {close}?").format(close=close[0])
        if close
        else _("known here: {known}").format(known=", ".join(known))
    )
    return Problem(path, f"no such option; {rest}")


def _value(option: Option, value: object) -> tuple[Any, Problem | None]:
    """The value in the option's type, or what is wrong with it."""
    if value is None:
        missing = f"is missing; it must be {option.expectation()}"
        return None, None if option.optional else Problem(option.path, missing)
    if option.value_type is Toggle and isinstance(value, bool):
        return (Toggle.ON if value else Toggle.OFF), None
    broken = _broken_limit(option, value)
    if broken:
        return None, Problem(option.path, _("{broken}, got {show}").format(broken=broken, show=_show(value)))
    try:
        return msgspec.convert(value, option.value_type), None
    except msgspec.ValidationError:
        values = [choice.value for choice in option.choices] if option.kind is Kind.CHOICE else []
        close = difflib.get_close_matches(str(value), values, n=1)
        fixes = tuple(Fix(_("Use {match}").format(match=match), {option.path: match}) for match in close)
        return None, Problem(
            option.path,
            _("must be {expectation}, got {show}").format(
                expectation=option.expectation(), show=_show(value)
            ),
            fixes,
        )


def _broken_limit(option: Option, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return _("is far too large a number")
    return option.broken_limit(value) if math.isfinite(value) else _("must be a finite number")


def _show(value: object) -> str:
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value)
    except ValueError:  # Python writes out no number of more than 4,300 digits
        return _("a number too long to write out")
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"

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
from core.options import SCHEMA, SECTIONS, RunOptions, Tree
from core.options.catalogue import all_options, needs_of, options_by_path, options_of, value_of
from core.options.choices import FP16_NEEDS_GPU, Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.declare import Kind, Option
from core.options.method_rules import METHOD_RULES, METHOD_TASK_RULES, Rule
from core.options.past_runs import is_run, problem_with
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

# --- Rules of the validation split


EVAL, SPLIT, FRACTION, TRAIN_SPLIT = "data.eval", "data.eval_split", "data.eval_fraction", "data.train_split"
DEFAULT_SHARE = DataOptions().eval_fraction


def splits(options: RunOptions) -> Iterator[Problem]:
    """What is evaluated on is said once, is another split than the one trained on, and is there to be had."""
    yield from _said_twice(options.data)
    yield from _not_divided(options.data)
    trained = options.data.train_split or "train"
    if options.data.eval_split == trained:
        yield Problem(
            SPLIT,
            f"“{trained}” is trained on; evaluated on it, the model only shows what it knows by heart",
            (Fix("Hold out a share of it instead", {SPLIT: None}),),
        )


def _said_twice(data: DataOptions) -> Iterator[Problem]:
    share = f"{100 * data.eval_fraction:g} %"
    if data.eval and data.eval_split:
        yield Problem(
            SPLIT,
            "there is evaluation data of its own; give one of the two",
            (
                Fix(f"Evaluate on the split {data.eval_split}", {EVAL: None}),
                Fix(f"Evaluate on {Path(data.eval).name}", {SPLIT: None}),
            ),
        )
    apart = EVAL if data.eval else SPLIT if data.eval_split else ""
    if apart and data.eval_fraction not in (0.0, DEFAULT_SHARE):
        named = Path(data.eval).name if data.eval else f"the split {data.eval_split}"
        yield Problem(
            FRACTION,
            f"nothing is held out beside {named}; give one of the two",
            (
                Fix(f"Evaluate on {named}", {FRACTION: DEFAULT_SHARE}),
                Fix(f"Hold out {share} of the training data", {apart: None}),
            ),
        )


def _not_divided(data: DataOptions) -> Iterator[Problem]:
    source = data.train
    is_made = scheme_of(source) is Scheme.BUILTIN or parse_synthetic(source) is not None
    is_one = is_made or (is_there(Path(source)) and Path(source).is_file())
    if not source or not is_one:
        return
    for path, split in ((TRAIN_SPLIT, data.train_split), (SPLIT, data.eval_split)):
        if split:
            label = "Use all of it" if path == TRAIN_SPLIT else "Hold out a share of it instead"
            yield Problem(path, f"{Path(source).name} isn't divided into splits", (Fix(label, {path: None}),))


# --- Rules


ROUND_PIXELS = 32
VISION_MODEL = Fix("Use ResNet-18", {"model.source": Scheme.TORCHVISION.of("resnet18")})


def _model_chosen(options: RunOptions) -> Iterator[Problem]:
    source = options.model.source
    if not source:
        yield Problem("model.source", "choose a model to start from")
    elif unknown_scheme(source):
        yield Problem(
            "model.source",
            f"there is no source called {unknown_scheme(source)}:; give a folder, an id on the Hub, "
            "torchvision:NAME, scratch:NAME or run:NAME",
        )


def _model_fits_task(options: RunOptions) -> Iterator[Problem]:
    source = options.model.source
    if not source or unknown_scheme(source):
        return
    vision_model = Scheme.TORCHVISION.name_of(source)
    if vision_model is not None and options.task.reads_text:
        yield Problem("model.source", f"{source} sees images; {options.task} needs a text model")
    elif vision_model is not None and vision_model not in VISION_MODELS:
        yield _unknown_vision_model(vision_model)
    elif vision_model is not None:
        return
    elif scheme_of(source) in (Scheme.BUILTIN, Scheme.SYNTHETIC, Scheme.HUB):
        yield Problem("model.source", f"{source} is data; choose a model")
    elif is_scratch(source):
        yield from _model_from_scratch(options)
    elif is_run(source):
        found = problem_with(source, options.task)
        if found:
            yield found
    elif Path(source).is_absolute():
        yield from _model_folder(source, needs_weights=options.model.pretrained)


def _model_from_scratch(options: RunOptions) -> Iterator[Problem]:
    source, writes = options.model.source, options.task.writes_text
    if options.task.reads_images:
        yield Problem(
            "model.source", f"{source} reads text; {options.task} needs a vision model", (VISION_MODEL,)
        )
        return
    found = scratch_model(source)
    fitting = [name for name, model in SCRATCH_MODELS.items() if model.writes or not writes]
    if found is None:
        yield _unknown_scratch_model(source, fitting)
    elif writes and not found.writes:
        fixes = (Fix("Use llama-small", {"model.source": Scheme.SCRATCH.of("llama-small")}),)
        yield Problem("model.source", f"{source} reads and can't write; {', '.join(fitting)} can", fixes)
    elif options.task.reads_conversations and parse_synthetic(options.data.train) is None:
        yield Problem(
            "model.source",
            "a model from scratch has to learn to write first: let it go on writing a text, then start from that run "
            "with run:NAME",
            (Fix("Let it go on writing a text", {"task": Task.CAUSAL_LM.value}),),
        )


def _unknown_scratch_model(source: str, fitting: list[str]) -> Problem:
    name = Scheme.SCRATCH.name_of(source) or ""
    close = difflib.get_close_matches(name, fitting, n=1, cutoff=0.5)
    rest = f"; did you mean {close[0]}? There are" if close else "; there are"
    fixes = tuple(Fix(f"Use {other}", {"model.source": Scheme.SCRATCH.of(other)}) for other in close)
    message = f"no model called {name!r} from scratch{rest} {', '.join(fitting)}"
    return Problem("model.source", message, fixes)


def _vocabulary(options: RunOptions) -> Iterator[Problem]:
    """Only a model from scratch gets a tokenizer of its own."""
    default = ModelOptions().vocabulary
    if options.model.vocabulary != default and not is_scratch(options.model.source):
        yield Problem(
            "model.vocabulary",
            "is only for a model from scratch: others come with their tokenizer; take it out",
            (Fix("Take it out", {"model.vocabulary": default}),),
        )


def _unknown_vision_model(name: str) -> Problem:
    close = difflib.get_close_matches(name, VISION_MODELS, n=1, cutoff=0.5)
    fixes = tuple(Fix(f"Use {match}", {"model.source": Scheme.TORCHVISION.of(match)}) for match in close)
    return Problem(
        "model.source", f"no vision model called {name!r}; there are {', '.join(VISION_MODELS)}", fixes
    )


def _model_folder(source: str, *, needs_weights: bool) -> Iterator[Problem]:
    missing = list(_found("model.source", source, "model folder"))
    if missing:
        yield from missing
        return
    try:
        lack = what_lacks(Path(source), needs_weights=needs_weights)
    except OSError as error:
        yield Problem("model.source", f"{source} can't be looked into: {error.strerror or error}")
        return
    if lack is not None:
        fixes = () if lack in (Lack.CONFIG, Lack.KIND) else (RANDOM_WEIGHTS,)
        yield Problem("model.source", SAID[lack].format(source), fixes)


def _found(path: str, source: str, kind: str = "file or folder") -> Iterator[Problem]:
    reason = why_missing(Path(source), kind)
    if reason:
        yield Problem(path, reason)
    elif kind == "model folder" and not Path(source).is_dir():
        yield Problem(path, f"{source} is a file; choose the folder with the model in it")


def _data_chosen(options: RunOptions) -> Iterator[Problem]:
    if not options.data.train:
        yield Problem("data.train", "choose the data to train on")
    for path, source in _sources(options):
        yield from _readable(path, source)


def _sources(options: RunOptions) -> Iterator[tuple[str, str]]:
    """The data sources that are given, each with its option."""
    for path in ("data.train", "data.eval"):
        source = value_of(options, path)
        if source:
            yield path, source


def _readable(path: str, source: str) -> Iterator[Problem]:
    match scheme_of(source):
        case Scheme.BUILTIN:
            if source != DIGITS:
                yield Problem(
                    path, f"there is no {source}; {DIGITS} is", (Fix("Use the digits", {path: DIGITS}),)
                )
        case Scheme.SYNTHETIC:
            if parse_synthetic(source) is None:
                example = synthetic(512, 128)
                yield Problem(path, f"must read synthetic:SAMPLESxLENGTH, such as {example}, got {source}")
        case Scheme.TORCHVISION | Scheme.SCRATCH | Scheme.RUN:
            yield Problem(path, f"{source} is a model; choose data")
        case Scheme.HUB:
            pass  # whoever reads it looks whether it is here
        case None:
            yield from _found(path, source)


def _random_lengths(options: RunOptions) -> Iterator[Problem]:
    """Random texts may be of different lengths where they are filled up to be read together."""
    if options.task.reads_text and not options.task.writes_text:
        return
    for path, source in _sources(options):
        shortest, longest = synthetic_lengths(source) or (0, 0)
        if shortest != longest:
            same = synthetic(*(parse_synthetic(source) or (1, 1)))
            message = f"{source} is for tasks that say something of a text; {options.task} needs one length"
            yield Problem(path, message, (Fix(f"Use {same}", {path: same}),))


def _data_fits_task(options: RunOptions) -> Iterator[Problem]:
    if options.task.reads_images:
        return
    for path, source in _sources(options):
        if source == DIGITS:
            yield Problem(path, f"{source} are images; {options.task} needs texts")
    hold_out = (Fix("Evaluate on no data of its own", {"data.eval": None}),)
    if parse_synthetic(options.data.eval or ""):
        yield Problem("data.eval", "random texts can't be evaluated on; give real ones or none", hold_out)
    elif options.data.eval and parse_synthetic(options.data.train):
        yield Problem("data.eval", f"{options.data.train} is for timing and is never evaluated", hold_out)


def _text_columns(options: RunOptions) -> Iterator[Problem]:
    columns = options.data.text_columns
    if len(columns) > 2:
        yield Problem("data.text_columns", f"takes one column, or two for pairs; got {len(columns)}")
    if len(set(columns)) < len(columns):
        yield Problem("data.text_columns", f"names the same column twice: {', '.join(columns)}")
    if options.data.label_column in columns:
        yield Problem(
            "data.label_column",
            f"{options.data.label_column} is a text column too; choose the answer's column",
        )


def _image_size(options: RunOptions) -> Iterator[Problem]:
    """Images must be large enough for the model; some models train no single small image."""
    name = Scheme.TORCHVISION.name_of(options.model.source)
    limits = VISION_MODELS.get(name or "")
    if options.task.reads_text or limits is None:
        return
    random = parse_synthetic(options.data.train)
    size = random[1] if random else options.data.image_size
    if size < limits.smallest:
        path, fix = _larger_images(limits.smallest, random)
        yield Problem(path, f"{name} needs images of {limits.smallest} pixels or more, got {size}", (fix,))
    elif options.memory.batch_size == 1 and size < limits.smallest_alone:
        _, fix = _larger_images(limits.smallest_alone, random)
        yield Problem(
            "memory.batch_size",
            f"{name} normalises over a batch: with images of {size} pixels it needs 2 or more in one",
            (Fix("Batches of 2", {"memory.batch_size": 2}), fix),
        )


def _larger_images(needed: int, random: tuple[int, int] | None) -> tuple[str, Fix]:
    """The option that sets the size of the images, and a fix that makes them large enough."""
    size = -(-needed // ROUND_PIXELS) * ROUND_PIXELS
    label = f"Images of {size} pixels"
    if random is None:
        return "data.image_size", Fix(label, {"data.image_size": size})
    return "data.train", Fix(label, {"data.train": synthetic(random[0], size)})


def _device(options: RunOptions) -> Iterator[Problem]:
    name = options.device.name
    index = name.removeprefix("cuda:")
    if name not in ("auto", "cpu", "mps", "cuda") and not (name.startswith("cuda:") and index.isdecimal()):
        yield Problem("device.name", f'must be auto, cuda, cuda:NUMBER, mps or cpu, got "{name}"')
    if name == "cpu" and options.device.precision is Precision.FP16:
        yield Problem(
            "device.precision",
            f"fp16 {FP16_NEEDS_GPU}",
            (Fix("Use bf16", {"device.precision": "bf16"}), Fix("Use fp32", {"device.precision": "fp32"})),
        )


def _that_change_nothing(options: RunOptions) -> Iterator[Problem]:
    """Options that somebody set and that mean nothing beside the others."""
    for option in all_options():
        if not option.applies_to(options) and value_of(options, option.path) != option.default:
            yield Problem(
                option.path,
                f"is only for {needs_of(option)} and would change nothing here; take it out",
                (Fix("Take it out", {option.path: option.default}),),
            )


def _prompts(options: RunOptions) -> Iterator[Problem]:
    """There is nothing to go on from, or to answer, in an empty prompt."""
    prompts = options.output.prompts
    said = [prompt for prompt in prompts if prompt.strip()]
    if len(said) < len(prompts):
        number = next(index for index, prompt in enumerate(prompts, start=1) if not prompt.strip())
        fix = Fix("Leave out what is empty", {"output.prompts": said})
        yield Problem("output.prompts", f"prompt {number} is empty; write something or leave it out", (fix,))


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
    _that_change_nothing,
)


def problems_of(options: RunOptions, *, task_is_known: bool = True) -> tuple[Problem, ...]:
    """Everything the rules find. With `task_is_known` False only those that don't look at the task are asked."""
    rules = (*RULES, *TASK_RULES) if task_is_known else RULES
    return tuple(problem for rule in rules for problem in rule(options))


# --- Validation


LARGEST_WHOLE = 2**63 - 1
"""Whole numbers beyond this fit neither into 64 bits nor, sooner or later, into a float."""

SHOWN_CHARACTERS = 80


def check_tree(tree: Tree) -> tuple[RunOptions | None, tuple[Problem, ...]]:
    """Turn plain values into options and look whether they go together.

    Returns:
        The options, or None if a value can't be read, and all problems found: unknown keys, wrong types, broken
        limits, files that aren't there, and choices that don't go together.
    """
    read = _read(tree)
    named = {problem.path for problem in read.unreadable}
    stand_in = read.task or next(iter(Task))
    ruled = problems_of(RunOptions(task=stand_in, **read.sections), task_is_known=read.task is not None)
    others = (problem for problem in ruled if problem.path not in named)
    return read.options(), (*read.unknown, *read.unreadable, *others)


def read_options(tree: Tree) -> tuple[RunOptions | None, tuple[Problem, ...]]:
    """Turn plain values into options and nothing more: no file they name is looked at.

    Returns:
        The options, or None if a value can't be read, and the problems of keys and values.
    """
    read = _read(tree)
    return read.options(), (*read.unknown, *read.unreadable)


@dataclass(frozen=True)
class _Read:
    """What could be read of a tree; defaults stand in for what could not, None for the task."""

    task: Task | None
    sections: dict[str, Any]
    unknown: tuple[Problem, ...]
    unreadable: tuple[Problem, ...]

    def options(self) -> RunOptions | None:
        """The options, if all of them could be read."""
        if self.unreadable or self.task is None:
            return None
        return RunOptions(task=self.task, **self.sections)


def _read(tree: Tree) -> _Read:
    unreadable = [*_check_schema(tree.get("schema", SCHEMA))]
    sections: dict[str, Any] = {}
    for section, struct in SECTIONS.items():
        values, found = _check_section(section, tree.get(section, {}))
        unreadable += found
        sections[section] = struct(**values)
    task, found = _check_value(options_by_path()["task"], tree.get("task"))
    return _Read(task, sections, tuple(_unknown_keys(tree)), (*unreadable, *found))


def _unknown_keys(tree: Tree) -> Iterator[Problem]:
    known = ["task", "schema", *SECTIONS]
    for key in tree:
        if key not in known:
            yield _explained(tree, "", key) or _unknown(key, key, known)
    for section in SECTIONS:
        values = tree.get(section, {})
        if isinstance(values, dict):
            names = [option.name for option in options_of(section)]
            for key in values:
                if key not in names:
                    path = f"{section}.{key}"
                    yield _explained(tree, section, key) or _unknown(path, key, names)


def _explained(tree: Tree, section: str, key: str) -> Problem | None:
    """What there is to say of a name of Trainer's that could not be put in Hone's words; None: it is none."""
    said = explanation(tree, section, key)
    return Problem(f"{section}.{key}" if section else key, said) if said else None


def _unknown(path: str, key: str, known: list[str]) -> Problem:
    homes = [option.path for option in options_by_path().values() if option.name == key]
    if homes:
        return Problem(path, f"no such option here; did you mean {homes[0]}?")
    close = difflib.get_close_matches(key, known, n=1)
    if close:
        return Problem(path, f"no such option; did you mean {close[0]}?")
    return Problem(path, f"no such option; known here: {', '.join(known)}")


def _check_schema(value: object) -> list[Problem]:
    if value == SCHEMA:
        return []
    return [
        Problem(
            "schema", f"this Hone reads run files of schema {SCHEMA}, got {value!r}; a newer Hone may read it"
        )
    ]


def _check_section(section: str, values: object) -> tuple[Tree, list[Problem]]:
    if not isinstance(values, dict):
        return {}, [
            Problem(section, f"must be a section ([{section}] and its options below), got {_show(values)}")
        ]
    problems: list[Problem] = []
    checked: Tree = {}
    for option in options_of(section):
        if option.name in values:
            value, found = _check_value(option, values[option.name])
            problems += found
            if not found:
                checked[option.name] = value
    return checked, problems


def _check_value(option: Option, value: object) -> tuple[Any, list[Problem]]:
    if value is None and option.optional:
        return None, []
    if option.value_type is Toggle and isinstance(value, bool):
        return (Toggle.ON if value else Toggle.OFF), []
    broken = _broken_limit(option, value)
    if broken:
        return None, [Problem(option.path, f"{broken}, got {_show(value)}")]
    try:
        return msgspec.convert(value, option.value_type), []
    except msgspec.ValidationError:
        return None, [_misfit(option, value)]


def _broken_limit(option: Option, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return "is far too large a number"
    return option.broken_limit(value) if math.isfinite(value) else "must be a finite number"


def _misfit(option: Option, value: object) -> Problem:
    if value is None:
        return Problem(option.path, f"is missing; it must be {option.expectation()}")
    message = f"must be {option.expectation()}, got {_show(value)}"
    if option.kind is not Kind.CHOICE:
        return Problem(option.path, message)
    close = difflib.get_close_matches(str(value), [choice.value for choice in option.choices], n=1)
    fixes = tuple(Fix(f"Use {match}", {option.path: match}) for match in close)
    return Problem(option.path, message, fixes)


def _show(value: object) -> str:
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value)
    except ValueError:  # Python writes out no number of more than 4,300 digits
        return "a number too long to write out"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"

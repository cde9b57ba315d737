"""Rules between options that are each fine by themselves, and files that aren't there.

A rule is a function from options to problems. `RULES` hold whatever the task is, `TASK_RULES` look at it.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path

from core.catalogue import all_options, value_of
from core.choices import FP16_NEEDS_GPU, Precision, Task
from core.errors import Fix, Problem
from core.files import why_missing
from core.method_rules import METHOD_RULES, METHOD_TASK_RULES, Rule
from core.model_folders import RANDOM_WEIGHTS, SAID, Lack, what_lacks
from core.options import ModelOptions, RunOptions
from core.reference import needs_of
from core.run_models import is_run, problem_with
from core.scratch_models import SCRATCH_MODELS, is_scratch, scratch_model
from core.sources import (
    DIGITS,
    Scheme,
    parse_synthetic,
    scheme_of,
    synthetic,
    synthetic_lengths,
    unknown_scheme,
)
from core.split_rules import splits
from core.vision_models import VISION_MODELS

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
        found = problem_with(source, options.task, is_new=True)
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

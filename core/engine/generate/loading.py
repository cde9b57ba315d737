"""Loads the trained model of a run from `model/`, or the one before training.

A new head gets the same random weights as in the run; tokenizer, chat template, labels and end tokens are those that
the run saved.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import torch

from core.base import formats
from core.base.errors import DeviceError, ModelError, OutOfMemory
from core.base.files import file_inside
from core.base.language import _
from core.engine import environment
from core.engine.data.image_files import UNREADABLE, ImageTransform, are_light, opened
from core.engine.data.labelled_texts import length_limit, row_padding
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import ResolvedRun, resolve_run
from core.engine.devices.computing import COMPUTED_IN
from core.engine.devices.memory import limit_memory
from core.engine.models import pretrained, text
from core.engine.models.attention import cure_causal_attention
from core.engine.models.parts import prepare_quantized
from core.engine.models.past_runs import base_of, with_adapter
from core.engine.models.refusals import explained
from core.engine.models.vision import find_image_model, load_image_model, read_recipe
from core.jobs.chat import Which, Writing
from core.monitor.device_memory import room_of
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Method, Precision, Task, device_title
from core.options.past_runs import holds_adapter
from core.options.sections import DeviceOptions
from core.options.sources import Scheme
from core.runs.folder import RunFolder
from core.runs.models import lacks_model, name_of
from core.runs.status import chosen_examples

GENERATION = "generation_config.json"


WriteAnswer = Callable[[Sequence[int], int, Writing, Any, Callable[[], bool]], None]
"""Adds at most so many tokens after a prompt to a `core.engine.generate.predict.Stream`, unless it should stop."""


@dataclass(frozen=True)
class TriedModel:
    """A model in evaluation mode on its device.

    `write_answer` writes texts in the place of transformers: with MLX, whose weights `model` has not.
    `length` is where texts are cut, `padding` how `pad_as` pads them; both are for models that classify or score texts.
    `transform` is for image models, and `light` whether all training images are light behind what they show, as paper
    is; None if they differ.
    `switched` is the context that it computes in: `before`, the model before training, is one with its adapter off.
    """

    model: Any
    name: str
    options: RunOptions
    resolved: ResolvedRun
    labels: tuple[str, ...] = ()
    tokenizer: Any = None
    transform: ImageTransform | None = None
    length: int = 0
    padding: dict[str, Any] = field(default_factory=dict)
    light: bool | None = None
    write_answer: WriteAnswer | None = None
    switched: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    before: "TriedModel | None" = None

    @property
    def device(self) -> str:
        """What it is computed with."""
        label = self.resolved.label
        if self.write_answer is None:
            return label
        return _("{device} with MLX").format(device=device_title(label))

    @property
    def task(self) -> Task:
        return self.options.task

    @property
    def dtype(self) -> str:
        return self.resolved.precision.value

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Computes with the precision of the run's evaluations."""
        dtype = COMPUTED_IN.get(self.resolved.precision)
        with torch.autocast(self.resolved.kind, dtype=dtype, enabled=dtype is not None), self.switched():
            yield

    def with_before(self, run: RunFolder, **changes: Any) -> "TriedModel":
        """Returns this model, that of `run` with its adapter, and as `before` it with these changes."""
        name = name_of(run, self.options, Which.BEFORE)
        return replace(self, before=replace(self, name=name, **changes))


def load_model(run: RunFolder, options: RunOptions, which: Which) -> TriedModel:
    """Loads the trained model of `run`, or the one before, with its `inference_options`.

    Raises:
        ModelError: It is missing, damaged, or isn't on this computer.
        DeviceError: This computer can't run it.
        OutOfMemory: It doesn't fit on the GPU.
    """
    require_model(run)
    facts = gather()
    try:
        resolved = resolve_run(facts, options, sees_one_gpu=True)
    except DeviceError:  # a run of another computer
        options = msgspec.structs.replace(options, device=DeviceOptions())
        options = with_changes(options, {"model.quantization": "auto"})
        resolved = resolve_run(facts, options, sees_one_gpu=True)
    environment.apply(resolved.options)
    limit_memory(resolved)
    if resolved.precision is Precision.TF32:
        torch.set_float32_matmul_precision("high")
    load = _load_image_model if options.task.reads_images else _load_text_model
    made = load(run, resolved.options, which, resolved)
    room = room_of(resolved.device) if resolved.kind == "cuda" else None
    taken = sum(weight.numel() * weight.element_size() for weight in made.model.parameters())
    if room is not None and taken > room.free:
        raise OutOfMemory(
            _("{name} doesn't fit on the GPU now").format(name=made.name),
            _("Its weights need {taken}, and {free} are free on {title}.").format(
                taken=formats.memory(taken), free=formats.memory(room.free), title=resolved.device.title
            ),
        )
    if not getattr(made.model, "is_quantized", False):
        made.model.to(resolved.device.name)
    cure_causal_attention(made.model, resolved)
    made.model.eval()
    if which is Which.TRAINED and holds_adapter(run.model):
        return made.with_before(run, switched=made.model.disable_adapter)
    return made


def require_model(run: RunFolder) -> None:
    """Raises a ModelError if a run has no model."""
    lack = lacks_model(run)
    if lack:
        raise ModelError(_("There is no model of {name} to try").format(name=run.name), lack)


def _load_text_model(run: RunFolder, options: RunOptions, which: Which, resolved: ResolvedRun) -> TriedModel:
    own = Scheme.RUN.of(str(run.path.absolute()))
    tokenizer = pretrained.load_tokenizer(own)
    labels: tuple[str, ...] = ()
    if options.task.has_labels:
        saved = text.load_config(_whole(own, options))
        labels = tuple(str(saved.id2label[index]) for index in range(saved.num_labels))
    has_adapter = holds_adapter(run.model)
    is_whole = which is Which.TRAINED and not has_adapter
    asked = _whole(own, options) if is_whole else options
    if has_adapter:
        base = msgspec.structs.replace(options.model, source=base_of(run.model))
        asked = msgspec.structs.replace(options, model=base)
    config = text.load_config(asked)
    loaded = text.load_model(asked, config, labels, tokenizer)
    model: Any = loaded.model
    if getattr(model, "is_quantized", False):
        # as in training, or bitsandbytes packs its weights anew and computes otherwise
        prepare_quantized(model)
    if is_whole and loaded.fresh:
        raise ModelError(
            _("The model of {name} is incomplete").format(name=run.name),
            _("{model} has no weights for {fresh}.").format(model=run.model, fresh=", ".join(loaded.fresh)),
        )
    if options.task.writes_text:
        stop_as_learned(model, run)
    longest = text.longest_text(config, tokenizer)
    return TriedModel(
        model=with_adapter(model, run.model) if which is Which.TRAINED and has_adapter else model,
        name=name_of(run, options, which),
        options=options,
        resolved=resolved,
        labels=labels,
        tokenizer=tokenizer,
        length=length_limit(options, longest),
        padding=row_padding(options, longest),
    )


def stop_as_learned(model: Any, run: RunFolder) -> None:
    """Gives a model that writes texts the end tokens of its run."""
    if (run.model / GENERATION).is_file():
        from transformers import GenerationConfig

        with explained(str(run.model)):
            model.generation_config = GenerationConfig.from_pretrained(run.model)


def _load_image_model(run: RunFolder, options: RunOptions, which: Which, resolved: ResolvedRun) -> TriedModel:
    recipe = read_recipe(run.model)
    has_adapter = holds_adapter(run.model)
    is_whole = which is Which.TRAINED and not has_adapter
    asked = _whole(Scheme.RUN.of(str(run.path.absolute())), options) if is_whole else options
    model: Any = load_image_model(asked, find_image_model(asked), recipe.labels).model
    return TriedModel(
        model=with_adapter(model, run.model) if which is Which.TRAINED and has_adapter else model,
        name=name_of(run, options, which),
        options=options,
        resolved=resolved,
        labels=recipe.labels,
        transform=recipe.transform,
        light=are_light(example_images(run)),
    )


def example_images(run: RunFolder) -> Iterator[Any]:
    """Yields the run's validation images that can be read, for PIL."""
    named = (file_inside(run.path, one.image) for one in chosen_examples(run.events_file) if one.image)
    for path in filter(None, named):
        with contextlib.suppress(*UNREADABLE), opened(path) as image:
            image.load()
            yield image


def _whole(source: str, options: RunOptions) -> RunOptions:
    """Returns the options with which the run's own model is loaded whole, whatever was trained."""
    whole = msgspec.structs.replace(options.model, method=Method.FULL, pretrained=True, source=source)
    return msgspec.structs.replace(options, model=whole)

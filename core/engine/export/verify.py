"""Comparing an export with the trained model: loading that, the examples, and how far answers may differ."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from core.base.errors import ModelError
from core.base.language import _
from core.engine.data.image_files import ImageTransform
from core.engine.models.past_runs import base_of, config_beside, with_adapter
from core.engine.models.refusals import explained
from core.engine.models.text import read_pretrained
from core.engine.models.vision import RECIPE, VisionClassifier, VisionRecipe, load_vision_model
from core.options.choices import Task
from core.options.sources import VISION_MODELS, Scheme
from core.runs.events import Example
from core.runs.status import chosen_examples
from core.services.export import Agreement, Compared, ExportSource, NumberFormat

# --- The trained model


def load_trained(source: ExportSource) -> Any:
    """The model in evaluation mode, in fp32 on the CPU: whole, or an adapter beside its base, which is not quantized.

    Raises:
        ModelError: Its files are missing or damaged, or an adapter's base is gone.
    """
    with torch.random.fork_rng():
        if source.is_adapter:
            model = with_adapter(_load_base(source), source.folder)
        elif source.network:
            model = _load_network(source.folder)
        else:
            model = read_pretrained(str(source.folder), source.options.task)
        return model.eval().requires_grad_(False)


def _load_base(source: ExportSource) -> Any:
    """An adapter's base, with the head it names; a random one is drawn again by the run's seed."""
    if source.network:
        recipe = read_recipe(source.folder)
        asked = msgspec.structs.replace(source.options.model, source=recipe.architecture)
        return load_vision_model(asked, len(recipe.labels), source.options.training.seed)
    from transformers import AutoConfig

    base = base_of(source.folder)
    with explained(base):
        config = AutoConfig.from_pretrained(config_beside(source.folder), trust_remote_code=False)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    if source.options.task.reads_images:
        config.architectures = []  # DeiT and LeViT have a second form with a teacher
    return read_pretrained(base, source.options.task, config, ignore_mismatched_sizes=True)


def _load_network(folder: Path) -> VisionClassifier:
    import torchvision
    from safetensors.torch import load_file

    recipe = read_recipe(folder)
    name = Scheme.TORCHVISION.name_of(recipe.architecture) or ""
    if name not in VISION_MODELS:
        raise ModelError(_("The model is of an unknown kind"), recipe.architecture)
    network = torchvision.models.get_model(name, weights=None, num_classes=len(recipe.labels))
    model = VisionClassifier(network)
    with explained(str(folder)):
        model.load_state_dict(load_file(folder / "model.safetensors"))
    return model


def read_recipe(folder: Path) -> VisionRecipe:
    """What it takes to use a model of images, which a checkpoint of an older Hone lacks: the run's model has it then.

    Raises:
        ModelError: It isn't there, or can't be read.
    """
    path, kept = folder / RECIPE, folder.parent.parent / "model" / RECIPE
    if not path.is_file() and folder.parent.name == "checkpoints" and kept.is_file():
        path = kept
    try:
        return msgspec.json.decode(path.read_bytes(), type=VisionRecipe)
    except OSError as error:
        raise ModelError(
            _("The model in {folder} isn't whole").format(folder=folder),
            _(
                "{name} is missing, which says what it takes and labels: {strerror}. An older Hone "
                "wrote it "
                "only beside a model: resume the run, and it is written when it ends."
            ).format(name=path.name, strerror=error.strerror),
        ) from error
    except msgspec.MsgspecError as error:
        raise ModelError(
            _("The model in {folder} isn't whole").format(folder=folder), f"{path}: {error}"
        ) from error


def merged(model: Any) -> Any:
    """A model with its LoRA matrices worked into its weights; any other as it is."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


# --- The examples of an export's check: those the run held out


EXAMPLES = 16
NEW_TOKENS = 24
"""So many tokens are compared after each prompt."""
MADE_UP_TOKENS = 24
LONGEST_PROMPT = 512
SEED = 20


@dataclass(frozen=True)
class Row:
    """What a model is given, a batch of one; its answers count from token `start` on (None: all of them)."""

    inputs: dict[str, torch.Tensor]
    start: int | None = None


@dataclass(frozen=True)
class Rows:
    """All examples, how many of them (the first) the run had held out, and the tokenizer; None for images."""

    rows: tuple[Row, ...]
    held_out: int
    tokenizer: Any = None


def find_rows(source: ExportSource) -> Rows:
    """The run's held-out examples, filled up with made-up ones: images of noise, or random tokens of the vocabulary.

    Raises:
        ModelError: The tokenizer can't be read.
    """
    chosen = [example for example in chosen_examples(source.run.events_file) if not example.is_own][:EXAMPLES]
    if source.options.task.reads_images:
        return _images(source, chosen)
    from core.engine.models.text import load_tokenizer

    tokenizer = load_tokenizer(str(source.folder))
    longest = min(LONGEST_PROMPT, tokenizer.model_max_length, source.options.data.max_length)
    room = max(8, longest - (NEW_TOKENS if source.options.task.writes_text else 0))
    given = [_tokens(example.given, tokenizer, source, room) for example in chosen]
    ids = [one for one in given if one]
    random = np.random.default_rng(SEED)
    plain = sorted(set(range(len(tokenizer))) - set(tokenizer.all_special_ids))
    lengths = (4 + number % min(MADE_UP_TOKENS, room - 3) for number in range(EXAMPLES - len(ids)))
    made = [random.choice(plain, length).tolist() for length in lengths]
    return Rows(tuple(_row(one, tokenizer) for one in (*ids, *made)), len(ids), tokenizer)


def _tokens(text: str, tokenizer: Any, source: ExportSource, room: int) -> list[int]:
    """A text as the model is given it: a prompt was decoded with its special tokens, a text to judge without."""
    if source.options.task.writes_text:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])[-room:]
    return list(tokenizer(text, truncation=True, max_length=room)["input_ids"])


def _row(ids: list[int], tokenizer: Any) -> Row:
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    if "token_type_ids" in tokenizer.model_input_names:
        inputs["token_type_ids"] = torch.zeros(1, len(ids), dtype=torch.long)
    return Row(inputs)


def _images(source: ExportSource, chosen: list[Example]) -> Rows:
    from PIL import Image

    recipe = read_recipe(source.folder)
    transform = ImageTransform(recipe.image_size, recipe.mean, recipe.std)
    pixels = []
    for example in chosen:
        path = source.run.path / "examples" / example.image.rpartition("/")[2]
        with contextlib.suppress(OSError), Image.open(path, formats=["PNG"]) as image:
            pixels.append(transform.from_pil(image))
    noise = torch.Generator().manual_seed(SEED)
    shape = (3, transform.size, transform.size)
    made = [torch.randn(shape, generator=noise) for _rest in range(EXAMPLES - len(pixels))]
    return Rows(tuple(Row({"pixel_values": one[None]}) for one in (*pixels, *made)), len(pixels))


def continued(rows: Rows, model: Any) -> Rows:
    """Prompts with what `model` writes after each, the likeliest token by token: what comes then is compared."""
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None) or LONGEST_PROMPT * 2
    new = min(NEW_TOKENS, int(longest) // 2)
    return replace(
        rows, rows=tuple(_continued(row, model, new, int(longest), rows.tokenizer) for row in rows.rows)
    )


def _continued(row: Row, model: Any, new: int, longest: int, tokenizer: Any) -> Row:
    inputs = {name: value[:, -(longest - new) :] for name, value in row.inputs.items()}
    prompt = inputs["input_ids"]
    with torch.no_grad():
        ids = model.generate(
            input_ids=prompt,
            attention_mask=inputs["attention_mask"],
            max_new_tokens=new,
            do_sample=False,
            num_beams=1,
            pad_token_id=tokenizer.pad_token_id,
        )
    return Row({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, prompt.shape[1] - 1)


def answers(model: Any, rows: Rows) -> list[torch.Tensor]:
    """The logits of each example in fp32: [labels], or [tokens, labels], or [new tokens, vocabulary]."""
    with torch.no_grad():
        found = ((row, model(**row.inputs)["logits"].float()[0]) for row in rows.rows)
        return [logits if row.start is None else logits[row.start : -1] for row, logits in found]


# --- How an exported model answers beside the trained one, and how far apart they may be


@dataclass(frozen=True)
class Tolerance:
    """How large the largest difference of two logits may be, as a share of the largest logit, and why."""

    share: float
    why: str


EXACT = Tolerance(1e-5, _("The weights are the same numbers, computed in the same way."))
MERGED = Tolerance(
    1e-4,
    _(
        "Merged, a layer multiplies once where it multiplied three times: fp32 rounds "
        "otherwise, to 7 digits each."
    ),
)
KERNELS = Tolerance(
    2e-4, _("ONNX Runtime computes the same fp32 numbers by other kernels, which add in another order.")
)
HALF = {
    NumberFormat.BF16: Tolerance(
        0.05, _("The weights are rounded to bf16, which keeps 8 bits: each is off by up to 0.4 %.")
    ),
    NumberFormat.FP16: Tolerance(
        0.01, _("The weights are rounded to fp16, which keeps 11 bits: each is off by up to 0.05 %.")
    ),
}
"""Measured on all-MiniLM-L6-v2: bf16 was off by 2.3 % of the largest logit, fp16 by 0.2 %, merged by 2e-6."""
APPLE = Tolerance(0.01, _("Core ML computes in fp32 by other kernels, and may round on the way."))

_COMPARED = {
    Task.TEXT_REGRESSION: Compared.NUMBERS,
    Task.TOKEN_CLASSIFICATION: Compared.WORD_LABELS,
    Task.CAUSAL_LM: Compared.TOKENS,
    Task.CHAT: Compared.TOKENS,
    Task.PREFERENCE: Compared.TOKENS,
}


def compare(
    task: Task, rows: Rows, before: list[torch.Tensor], after: list[torch.Tensor], tolerance: Tolerance
) -> Agreement:
    """Hold the answers of two models against each other.

    They agree where no logit is off by more than the tolerance; then a label or token differs only where the trained
    model itself finds two of them as likely, within that.

    Args:
        task: What the model does.
        rows: What both were given.
        before: The trained model's logits.
        after: The exported one's, of the same shapes.
        tolerance: How far they may be apart.
    """
    what = _COMPARED.get(task, Compared.LABELS)
    is_alike = [one.shape for one in before] == [one.shape for one in after]
    apart = list(map(_apart, before, after)) if is_alike else [None]
    largest = None if None in apart else max(filter(None, apart), default=0.0)
    allowed = tolerance.share * max((_largest(one) for one in before), default=0.0)
    pairs = list(zip(before, after, strict=True)) if is_alike else []
    if what is Compared.NUMBERS:
        same = [(one - other).abs().flatten() <= allowed for one, other in pairs]
    else:
        same = [(one.argmax(-1) == other.argmax(-1)).flatten() for one, other in pairs]
    return Agreement(
        examples=len(rows.rows),
        held_out=rows.held_out,
        compared=what,
        equal=sum(int(one.sum()) for one in same),
        counted=sum(one.numel() for one in same),
        largest=largest,
        allowed=allowed,
        why=tolerance.why,
        holds=largest is not None and largest <= allowed,
    )


def _largest(logits: torch.Tensor) -> float:
    """The largest of the logits that are numbers."""
    return float(torch.nan_to_num(logits, 0.0, 0.0, 0.0).abs().max()) if logits.numel() else 0.0


def _apart(one: torch.Tensor, other: torch.Tensor) -> float | None:
    """The largest difference; None where one of the two has no number and the other has."""
    if not torch.equal(one.isfinite(), other.isfinite()):
        return None
    return _largest(one - other)


# --- What an exporter hands back, and how it says how far it is


class NotChecked(Exception):  # noqa: N818 - no fault of the export
    """An export could not be held against the trained model; says why in a sentence."""


Tell = Callable[[str], None]
"""Hears what is being done, in a few words."""
Answers = Callable[[Rows], list[torch.Tensor]]
Check = Callable[[Rows, list[torch.Tensor]], Agreement | None]
"""Holds the export against the trained model's answers on some examples; None: none of them could be asked."""


@dataclass(frozen=True)
class Written:
    """What was written, and how to check it; `unchecked` says why it isn't, where that can't be done.

    `notes` are for the person; `missing` says what of the request isn't there.
    """

    check: Check | None
    unchecked: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Place:
    """Where an export is written, the folder it will be in the end, and what its weights are written in."""

    into: Path
    target: Path
    numbers: NumberFormat = NumberFormat.AUTO


def by_logits(task: Task, tolerance: Tolerance, answers: Answers) -> Check:
    """A check of logits: `answers` loads the export as its users do, and asks it."""
    return lambda rows, before: compare(task, rows, before, answers(rows), tolerance)

"""Compares an export with the trained model: loads that, makes examples, and limits how far logits may differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from core.base.errors import ModelError
from core.base.language import _
from core.engine.generate.loading import example_images
from core.engine.models.past_runs import BASE, base_of, config_beside, with_adapter
from core.engine.models.pretrained import read_pretrained
from core.engine.models.refusals import explained
from core.engine.models.vision import ImageModel, VisionClassifier, load_image_model, read_recipe
from core.jobs.export import Compared, ExportAgreement, NumberFormat
from core.options.choices import Method, Task
from core.options.sources import VISION_MODELS, Scheme
from core.runs.export_source import ExportSource
from core.runs.status import chosen_examples

# --- The trained model


def load_trained(source: ExportSource) -> Any:
    """Loads the model in evaluation mode, in fp32 on the CPU; an adapter with its base, which isn't quantized.

    Raises:
        ModelError: Files are missing or damaged, or an adapter's base is gone.
    """
    with torch.random.fork_rng():
        if source.is_adapter:
            model = with_adapter(load_base(source), source.folder)
        elif source.network:
            model = _load_network(source.folder)
        else:
            model = read_pretrained(str(source.folder), source.options.task)
        return model.eval().requires_grad_(False)


def load_base(source: ExportSource) -> Any:
    """Returns an adapter's base with the adapter's head; random weights are drawn again from the run's seed."""
    if source.network:
        recipe, weights = read_recipe(source.folder), source.folder / BASE / "model.safetensors"
        network = Scheme.TORCHVISION.name_of(recipe.architecture) or ""
        model = ImageModel(recipe.architecture, network, weights=weights if weights.is_file() else None)
        whole = msgspec.structs.replace(source.options.model, method=Method.FULL)  # its weights stay in fp32
        options = msgspec.structs.replace(source.options, model=whole)
        return load_image_model(options, model, recipe.labels).model
    from transformers import AutoConfig

    base = str(source.plain or base_of(source.folder))
    with explained(base):
        place = source.plain or config_beside(source.folder)
        config = AutoConfig.from_pretrained(place, trust_remote_code=False)
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


def merged(model: Any) -> Any:
    """Returns the model with its LoRA matrices merged into its weights, if it has any."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


# --- The examples: those of the run's validation split


EXAMPLES = 16
NEW_TOKENS = 24
"""Tokens compared after each prompt."""
RANDOM_TOKENS = 24
LONGEST_PROMPT = 512
SEED = 20


@dataclass(frozen=True)
class ExampleBatch:
    """A batch of one example; logits are compared from token `start` on, or all if None."""

    inputs: dict[str, torch.Tensor]
    start: int | None = None


@dataclass(frozen=True)
class ExampleBatches:
    """The examples, of which the first `held_out` are the run's; no tokenizer for images."""

    rows: tuple[ExampleBatch, ...]
    held_out: int
    tokenizer: Any = None


def find_rows(source: ExportSource) -> ExampleBatches:
    """Returns the run's held-out examples, filled up with noise images or random tokens.

    Raises:
        ModelError: The tokenizer can't be read.
    """
    if source.options.task.reads_images:
        return _images(source)
    from core.engine.models.pretrained import load_tokenizer

    tokenizer = load_tokenizer(str(source.folder))
    longest = min(LONGEST_PROMPT, tokenizer.model_max_length, source.options.data.max_length)
    room = max(8, longest - (NEW_TOKENS if source.options.task.writes_text else 0))
    held_out = [example.given for example in chosen_examples(source.run.events_file) if not example.is_own]
    ids = [tokens for text in held_out[:EXAMPLES] if (tokens := _tokens(text, tokenizer, source, room))]
    random = np.random.default_rng(SEED)
    plain = sorted(set(range(len(tokenizer))) - set(tokenizer.all_special_ids))
    lengths = (4 + number % min(RANDOM_TOKENS, room - 3) for number in range(EXAMPLES - len(ids)))
    made = [random.choice(plain, length).tolist() for length in lengths]
    return ExampleBatches(tuple(_row(tokens, tokenizer) for tokens in (*ids, *made)), len(ids), tokenizer)


def _tokens(text: str, tokenizer: Any, source: ExportSource, room: int) -> list[int]:
    """Tokenizes a text: prompts were decoded with their special tokens, other texts without."""
    if source.options.task.writes_text:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])[-room:]
    return list(tokenizer(text, truncation=True, max_length=room)["input_ids"])


def _row(ids: list[int], tokenizer: Any) -> ExampleBatch:
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    if "token_type_ids" in tokenizer.model_input_names:
        inputs["token_type_ids"] = torch.zeros(1, len(ids), dtype=torch.long)
    return ExampleBatch(inputs)


def _images(source: ExportSource) -> ExampleBatches:
    recipe = read_recipe(source.folder)
    transform = recipe.transform
    pixels = [transform.from_pil(image) for image in islice(example_images(source.run), EXAMPLES)]
    noise = torch.Generator().manual_seed(SEED)
    shape = (3, transform.size, transform.size)
    made = [torch.randn(shape, generator=noise) for _rest in range(EXAMPLES - len(pixels))]
    return ExampleBatches(
        tuple(ExampleBatch({"pixel_values": one[None]}) for one in (*pixels, *made)), len(pixels)
    )


def continued(rows: ExampleBatches, model: Any) -> ExampleBatches:
    """Returns the prompts with the tokens that `model` writes greedily after each, which are then compared."""
    longest = int(
        getattr(model.config.get_text_config(), "max_position_embeddings", None) or LONGEST_PROMPT * 2
    )
    new, found = min(NEW_TOKENS, longest // 2), []
    for row in rows.rows:
        inputs = {name: value[:, -(longest - new) :] for name, value in row.inputs.items()}
        prompt = inputs["input_ids"]
        with torch.no_grad():
            ids = model.generate(
                input_ids=prompt,
                attention_mask=inputs["attention_mask"],
                max_new_tokens=new,
                do_sample=False,
                num_beams=1,
                pad_token_id=rows.tokenizer.pad_token_id,
            )
        found.append(
            ExampleBatch({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, prompt.shape[1] - 1)
        )
    return replace(rows, rows=tuple(found))


def answers(model: Any, rows: ExampleBatches) -> list[torch.Tensor]:
    """Returns logits of each example in fp32: (labels), (tokens, labels) or (new tokens, vocabulary)."""
    with torch.no_grad():
        found = ((row, model(**row.inputs)["logits"].float()[0]) for row in rows.rows)
        return [logits if row.start is None else logits[row.start : -1] for row, logits in found]


# --- The comparison


@dataclass(frozen=True)
class Tolerance:
    """The largest allowed difference of two logits, as a share of the largest logit, and the reason for it."""

    share: float
    why: str


EXACT = Tolerance(1e-5, _("The weights are the same numbers, computed in the same way."))
MERGED = Tolerance(
    1e-4, _("A merged layer multiplies once instead of three times, which rounds differently.")
)
KERNELS = Tolerance(
    2e-4, _("ONNX Runtime adds the same numbers in another order, which changes the last digits.")
)
HALF = {
    NumberFormat.BF16: Tolerance(0.05, _("bf16 keeps 8 bits of each weight: an error of up to 0.4 %.")),
    NumberFormat.FP16: Tolerance(0.01, _("fp16 keeps 11 bits of each weight: an error of up to 0.05 %.")),
}
"""Measured on all-MiniLM-L6-v2: bf16 was off by 2.3 % of the largest logit, fp16 by 0.2 %, merged by 2e-6."""
APPLE = Tolerance(0.01, _("Core ML computes with the same numbers in its own way, and may round in between."))

_COMPARED = {
    Task.TEXT_REGRESSION: Compared.NUMBERS,
    Task.TOKEN_CLASSIFICATION: Compared.WORD_LABELS,
    Task.CAUSAL_LM: Compared.TOKENS,
    Task.CHAT: Compared.TOKENS,
    Task.PREFERENCE: Compared.TOKENS,
}


def compare(
    task: Task,
    rows: ExampleBatches,
    before: list[torch.Tensor],
    after: list[torch.Tensor],
    tolerance: Tolerance,
) -> ExportAgreement:
    """Compares the logits of two models.

    They agree if no logit differs by more than the tolerance; a label or token then differs only where the trained
    model itself gives two of them nearly the same logit.

    Args:
        after: The exported model's, of the same shapes.
        tolerance: The largest allowed difference.
    """
    what = _COMPARED.get(task, Compared.LABELS)
    allowed = tolerance.share * max(map(_largest, before), default=0.0)
    largest: float | None = None
    same: list[torch.Tensor] = []
    if [logits.shape for logits in before] == [logits.shape for logits in after]:
        pairs = list(zip(before, after, strict=True))
        if all(torch.equal(one.isfinite(), other.isfinite()) for one, other in pairs):
            largest = max((_largest(one - other) for one, other in pairs), default=0.0)
        if what is Compared.NUMBERS:
            same = [(one - other).abs().flatten() <= allowed for one, other in pairs]
        else:
            same = [(one.argmax(-1) == other.argmax(-1)).flatten() for one, other in pairs]
    return ExportAgreement(
        examples=len(rows.rows),
        held_out=rows.held_out,
        compared=what,
        equal=sum(int(equal.sum()) for equal in same),
        counted=sum(equal.numel() for equal in same),
        largest=largest,
        allowed=allowed,
        why=tolerance.why,
        holds=largest is not None and largest <= allowed,
    )


def _largest(logits: torch.Tensor) -> float:
    """Returns the largest finite logit."""
    return float(torch.nan_to_num(logits, 0.0, 0.0, 0.0).abs().max()) if logits.numel() else 0.0


# --- What an exporter returns


class NotChecked(Exception):  # noqa: N818 - no fault of the export
    """An export could not be compared with the trained model; its text is the reason."""


Tell = Callable[[str], None]
"""Called with what is being done, in a few words."""
Answers = Callable[[ExampleBatches], list[torch.Tensor]]
Check = Callable[[ExampleBatches, list[torch.Tensor]], ExportAgreement]
"""Compares the export with the trained model's logits."""


@dataclass(frozen=True)
class Written:
    """A written export and its check.

    `notes` are for the person; `code` are commands that use it. `metadata` are in the file of the model.
    """

    check: Check
    notes: tuple[str, ...] = ()
    code: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExportTarget:
    """Where an export is written, the folder it is moved to in the end, and the format of its weights."""

    into: Path
    target: Path
    numbers: NumberFormat = NumberFormat.AUTO


def by_logits(task: Task, tolerance: Tolerance, answers: Answers) -> Check:
    """Returns a check of logits: `answers` loads the export as its users do, and runs it."""
    return lambda rows, before: compare(task, rows, before, answers(rows), tolerance)

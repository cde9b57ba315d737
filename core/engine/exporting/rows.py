"""The examples of an export's check: those the run held out, or made-up ones where there are none."""

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from core.engine.exporting.trained import image_transform
from core.export_offers import ExportSource
from core.prediction_story import chosen_examples
from core.predictions import Example

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
    from core.engine.models.text_models import load_tokenizer

    tokenizer = load_tokenizer(str(source.folder))
    room = _room(source, tokenizer)
    given = [_tokens(example.given, tokenizer, source, room) for example in chosen]
    ids = [one for one in given if one]
    random = np.random.default_rng(SEED)
    plain = sorted(set(range(len(tokenizer))) - set(tokenizer.all_special_ids))
    lengths = (4 + number % min(MADE_UP_TOKENS, room - 3) for number in range(EXAMPLES - len(ids)))
    made = [random.choice(plain, length).tolist() for length in lengths]
    return Rows(tuple(_row(one, tokenizer) for one in (*ids, *made)), len(ids), tokenizer)


def _room(source: ExportSource, tokenizer: Any) -> int:
    """The most tokens of a prompt or text, with room behind for what a model writes."""
    longest = min(LONGEST_PROMPT, tokenizer.model_max_length, source.options.data.max_length)
    return max(8, longest - NEW_TOKENS) if source.options.task.writes_text else max(8, longest)


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

    transform = image_transform(source)
    pixels = []
    for example in chosen:
        path = source.run.path / "examples" / example.image.rpartition("/")[2]
        with contextlib.suppress(OSError), Image.open(path, formats=["PNG"]) as image:
            pixels.append(transform.from_pil(image))
    noise = torch.Generator().manual_seed(SEED)
    shape = (3, transform.size, transform.size)
    made = [torch.randn(shape, generator=noise) for _ in range(EXAMPLES - len(pixels))]
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
        return [_counting(model(**row.inputs)["logits"].float(), row) for row in rows.rows]


def _counting(logits: torch.Tensor, row: Row) -> torch.Tensor:
    """What counts of a batch of one: of tokens written after a prompt, what says them."""
    return logits[0] if row.start is None else logits[0, row.start : -1]

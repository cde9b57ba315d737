"""What a model says of a text or an image: its label, a number, a label for each word; as during training."""

import re
from pathlib import Path
from typing import Any

import torch

from core.choices import Task
from core.engine.data.batches import pad_as, stack
from core.engine.data.encoding import encode_rows, encode_words
from core.engine.data.image_opening import UNREADABLE, explained, opened
from core.engine.data.lengths import NO_LABEL
from core.engine.data.single_precision import collator_for
from core.engine.predicting.speaker import logits_of
from core.engine.trying.loading import TriedModel
from core.errors import DataError, UserError
from core.trying import CHANCES_TOLD, Answered, Ask, Chance, Image, Texts, Word

WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
"""Words as corpora of labelled words have them: punctuation stands for itself."""


def judged(model: TriedModel, asked: Ask) -> Answered:
    """What a model that writes no text says.

    Raises:
        UserError: It was asked about something else than it reads, or that can't be read.
    """
    given = asked.given
    if isinstance(given, Image) and model.transform is not None:
        return _of_labels(model, asked, _logits(model, _image(model, given)), read=0)
    if not isinstance(given, Texts) or model.transform is not None:
        raise UserError("This model can't be asked that", f"{model.name} reads {_reads(model)}.")
    if not any(text.strip() for text in given.texts):
        raise UserError("There is nothing to read", "Write a text first.")
    if model.task is Task.TOKEN_CLASSIFICATION:
        return _words(model, asked, " ".join(given.texts))
    sample = _sample(model, given)
    logits, read = _logits(model, sample), len(sample["input_ids"])
    if model.task is Task.TEXT_REGRESSION:
        number = float(logits.reshape(-1)[0])
        return Answered(id=asked.id, name=model.name, number=number, read=read, notes=_cut(model, read))
    return _of_labels(model, asked, logits, read)


def _reads(model: TriedModel) -> str:
    return "texts" if model.transform is None else "images"


def _image(model: TriedModel, given: Image) -> dict[str, Any]:
    assert model.transform is not None, "asked only of models that see"
    path = Path(given.path)
    try:
        with opened(path) as image:
            return {"pixel_values": model.transform.from_pil(image), "labels": 0}
    except UNREADABLE as error:
        raise DataError(
            f"{path.name} can't be read as an image", f"{path}: {explained(path, error)}."
        ) from error


def _sample(model: TriedModel, given: Texts) -> dict[str, Any]:
    columns = dict(zip(("text", "text_pair"), ([text] for text in given.texts), strict=False))
    return _first(encode_rows({**columns, "label": [0]}, model.tokenizer, model.length))


def _first(columns: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: values[0] for name, values in columns.items()}


def _logits(model: TriedModel, sample: dict[str, Any]) -> torch.Tensor:
    """Those of one sample: [labels], or [tokens, labels]."""
    collator = stack if model.transform is not None else pad_as(model.tokenizer, model.row)
    return logits_of(model.model, collator_for(model.choice.kind, collator)([sample]))[0]


def _of_labels(model: TriedModel, asked: Ask, logits: torch.Tensor, read: int) -> Answered:
    chances = logits.softmax(-1)
    best = chances.topk(min(CHANCES_TOLD, len(chances)))
    told = tuple(
        Chance(model.labels[label], chance)
        for label, chance in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
    return Answered(id=asked.id, name=model.name, chances=told, read=read, notes=_cut(model, read))


def _words(model: TriedModel, asked: Ask, text: str) -> Answered:
    """A label for each word that comes to a token; words beyond what the model sees get none."""
    places = [(found.start(), found.end()) for found in WORD.finditer(text)]
    words = [text[start:end] for start, end in places]
    # the number of a word in place of its label: where its first token stands
    encoded = encode_words([words], [list(range(len(words)))], model.tokenizer, model.length)
    if not encoded["input_ids"]:
        raise UserError("There is nothing to read", "The model has no token for any of these words.")
    sample = _first(encoded)
    best = _logits(model, sample).softmax(-1).max(-1)
    told = tuple(
        Word(places[word][0], places[word][1], model.labels[label], chance)
        for word, label, chance in zip(
            sample["labels"], best.indices.tolist(), best.values.tolist(), strict=False
        )
        if word != NO_LABEL
    )
    read = len(sample["input_ids"])
    return Answered(id=asked.id, name=model.name, words=told, read=read, notes=_cut(model, read))


def _cut(model: TriedModel, read: int) -> tuple[str, ...]:
    """Say that a text may have been cut off: it is as long as the model sees."""
    if not read or read < model.length:
        return ()
    return (f"Only the first {model.length:,} tokens were read: the model was trained on no more.",)

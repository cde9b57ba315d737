"""Predictions: on a run's examples during training, and on one text or image in Try it."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from core.base.errors import DataError, UserError
from core.base.formats import paragraph
from core.base.language import _, ngettext
from core.engine.data import NO_LABEL, UNFINISHED, decoded
from core.engine.data.batches import Collator, pad_as, stack
from core.engine.data.chat_tokens import TemplateRefused, render_chat
from core.engine.data.conversations import joined_text
from core.engine.data.image_files import (
    UNREADABLE,
    ImageSet,
    ImageTransform,
    corners,
    explained,
    is_nearly_square,
    opened,
    size_of,
)
from core.engine.data.labelled_texts import encode_rows, encode_words
from core.engine.generate.loading import TriedModel
from core.engine.reporter import Reporter
from core.engine.tasks import SHOWN_CHARACTERS, Prepared
from core.engine.tasks.metrics import OUTSIDE
from core.jobs.chat import (
    CHANCES_TOLD,
    Answered,
    Ask,
    Chance,
    Chat,
    ChatTurn,
    EndedBy,
    Image,
    Texts,
    Word,
    Writing,
)
from core.options import RunOptions
from core.options.choices import ImageFit, Speaker, Task
from core.runs.events import Example, Judged, Said, Validation

BATCH_SIZE = 16
"""Examples in a forward pass. The memory forecast covers the run's batches; there may be 256 examples."""
NEW_TOKENS = 64
"""The most tokens that are generated per example, so that evaluations stay short."""

ShouldStop = Callable[[], bool]
Predict = Callable[[Any, ShouldStop], Iterable[Said]]
Write = Callable[[Any, Any, Sequence[Sequence[int]], int, ShouldStop], list[list[int]]]
"""Writes the likeliest tokens after each prompt, as `generate` does."""


@dataclass(frozen=True)
class Predictor:
    """A run's examples, and the functions that predict them, each for a part of the examples."""

    examples: tuple[Example, ...]
    parts: tuple[Predict, ...]

    def predict(self, model: Any, should_stop: ShouldStop) -> tuple[Said, ...]:
        """Predicts all examples with a model in evaluation mode; generation ends early if `should_stop`."""
        return tuple(said for part in self.parts for said in part(model, should_stop))


def _logits(model: Any, samples: Sequence[Any], collator: Collator) -> Iterator[torch.Tensor]:
    """Returns the logits of each batch in fp32, on the CPU: [batch, labels], or [batch, tokens, labels]."""
    device = next(model.parameters()).device
    for start in range(0, len(samples), BATCH_SIZE):
        batch = collator(list(samples[start : start + BATCH_SIZE]))
        inputs = {name: value.to(device) for name, value in batch.items() if name != "labels"}
        yield model(**inputs)["logits"].float().cpu()


def predict_classes(
    samples: Sequence[Any], collator: Collator, labels: tuple[str, ...], model: Any, _should_stop: ShouldStop
) -> Iterator[Said]:
    best = torch.cat([*_logits(model, samples, collator)]).softmax(-1).max(-1)
    for sample, label, chance in zip(samples, best.indices.tolist(), best.values.tolist(), strict=True):
        yield Said(text=labels[label], sure=chance, right=label == int(sample["labels"]))


def predict_numbers(
    samples: Sequence[Any], collator: Collator, model: Any, _should_stop: ShouldStop
) -> Iterator[Said]:
    numbers = torch.cat([*_logits(model, samples, collator)]).reshape(len(samples), -1)[:, 0]
    return (Said(text=_number_text(number)) for number in numbers.tolist())


def predict_word_labels(
    samples: Sequence[Any],
    collator: Collator,
    labels: tuple[str, ...],
    words: Sequence[Sequence[str]],
    model: Any,
    _should_stop: ShouldStop,
) -> Iterator[Said]:
    rows = (row for logits in _logits(model, samples, collator) for row in logits.argmax(-1).tolist())
    for sample, row, shown in zip(samples, rows, words, strict=True):
        tags = [tag for tag, label in zip(row, sample["labels"], strict=False) if label != NO_LABEL]
        yield Said(text=tagged(shown, tags, labels), right=tags == _true_tags(sample))


def continue_prompts(
    prompts: Sequence[Sequence[int]],
    tokenizer: Any,
    write: Write,
    model: Any,
    should_stop: ShouldStop,
    *,
    new_tokens: int = NEW_TOKENS,
) -> Iterator[Said]:
    """Continues each prompt with the likeliest tokens; long ones are cut at the beginning."""
    new_tokens = min(new_tokens, max_positions(model) // 2)
    longest = max_positions(model) - new_tokens
    for start in range(0, len(prompts), BATCH_SIZE):
        batch = [prompt[-longest:] for prompt in prompts[start : start + BATCH_SIZE]]
        for tokens in write(model, tokenizer, batch, new_tokens, should_stop):
            ends = end_tokens(model, tokenizer)
            end = next((place for place, token in enumerate(tokens) if token in ends), None)
            yield Said(text=decoded(tokenizer, tokens[:end], skip_special_tokens=True), is_cut=end is None)


def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    should_stop: ShouldStop,
    **options: Any,
) -> list[list[int]]:
    """Generates with transformers' `generate`; returns the new tokens of each prompt."""
    width, pad = max(map(len, prompts)), _pad_token(tokenizer)
    rows = [[pad] * (width - len(prompt)) + list(prompt) for prompt in prompts]
    masks = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    device = next(model.parameters()).device

    def stop(input_ids: torch.Tensor, _scores: Any, **_kwargs: Any) -> torch.Tensor:
        return torch.full((len(input_ids),), should_stop(), dtype=torch.bool, device=input_ids.device)

    tokens = model.generate(
        input_ids=torch.tensor(rows, device=device),
        attention_mask=torch.tensor(masks, device=device),
        max_new_tokens=new_tokens,
        num_beams=1,
        use_cache=True,
        pad_token_id=pad,
        stopping_criteria=[stop],
        **options,
    )
    return [row[width:] for row in tokens.tolist()]


write_likeliest: Write = partial(generate, do_sample=False)


def _pad_token(tokenizer: Any) -> int:
    pad = tokenizer.pad_token_id
    return int(tokenizer.eos_token_id if pad is None else pad)


def max_positions(model: Any) -> int:
    """Returns the most tokens of the model: with learned positions it fails beyond them, on a GPU for good."""
    limit: int = getattr(model.config.get_text_config(), "max_position_embeddings", None) or sys.maxsize
    return limit


def end_tokens(model: Any, tokenizer: Any) -> set[int | None]:
    """Returns the tokens that end generated text: padding, the end of text and, for chat models, of a turn."""
    ends = model.generation_config.eos_token_id
    return {_pad_token(tokenizer), tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}


def _number_text(value: float) -> str:
    """Formats a number with at most three decimals."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def words_of(sample: dict[str, Any], text: str, tokenizer: Any) -> list[str]:
    """Returns the labelled words of a text; they are decoded from the `sample` if other words have no label."""
    special, words = set(tokenizer.all_special_ids), list[list[int]]()
    # a word starts at a token with a label, and continues over those without one
    for token, label in zip(sample["input_ids"], sample["labels"], strict=True):
        if label != NO_LABEL:
            words.append([token])
        elif words and token not in special:
            words[-1].append(token)
    whole = text.split(" ") if text else []
    return whole if len(whole) == len(words) else [tokenizer.decode(tokens).strip() for tokens in words]


def _true_tags(sample: dict[str, Any]) -> list[int]:
    return [label for label in sample["labels"] if label != NO_LABEL]


def tagged(words: Sequence[str], tags: Sequence[int], labels: tuple[str, ...]) -> str:
    """Returns the words with a tag other than O, as `word [TAG]`, or a dash."""
    pairs = ((word, labels[tag]) for word, tag in zip(words, tags, strict=True))
    return ", ".join(f"{word} [{label}]" for word, label in pairs if label != OUTSIDE) or "–"


# --- One text or image in Try it


SQUASHED = _("The image isn't square: it was squashed to a square, as in training.")
CROPPED = _("The image isn't square: only its middle was used, as in training.")
OTHER_SHADES = _("The training images have light and dark swapped.")
WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
"""Words as in data sets with labelled words: punctuation marks are words."""


def classify(model: TriedModel, asked: Ask) -> Answered:
    """Answers with labels or a number.

    Raises:
        UserError: The model doesn't read that kind of input, or it can't be read.
    """
    given = asked.given
    if isinstance(given, Image) and model.transform is not None:
        sample = image_sample(model.transform, Path(given.path))
        answered = classes_of(model, asked, logits_of_one(model, sample), read=0)
        png = model.transform.png(sample["pixel_values"])
        with opened(png) as seen:
            swapped = model.light is not None and model.light is not (corners(seen) > 127)
        notes = (*shape_notes(model.transform, Path(given.path)), *(OTHER_SHADES,) * swapped)
        return msgspec.structs.replace(answered, image=png, swapped=swapped, notes=notes)
    if not isinstance(given, Texts) or model.transform is not None:
        reads = _("{name} reads texts.") if model.transform is None else _("{name} reads images.")
        raise UserError(_("This model can't answer that"), reads.format(name=model.name))
    if not any(text.strip() for text in given.texts):
        raise UserError(_("There is nothing to read"), _("Write a text first."))
    if model.task is Task.TOKEN_CLASSIFICATION:
        return _word_labels(model, asked, " ".join(given.texts))
    columns = dict(zip(("text", "text_pair"), ([text] for text in given.texts), strict=False))
    sample = _first_row(encode_rows({**columns, "label": [0]}, model.tokenizer, model.length))
    logits, read = logits_of_one(model, sample), len(sample["input_ids"])
    if model.task is Task.TEXT_REGRESSION:
        number = float(logits.reshape(-1)[0])
        return Answered(id=asked.id, name=model.name, number=number, read=read, notes=_cut(model, read))
    return classes_of(model, asked, logits, read)


def image_sample(transform: ImageTransform, path: Path) -> dict[str, Any]:
    """Reads an image file as a sample for the collator.

    Raises:
        DataError: It can't be read.
    """
    try:
        if not path.stat().st_size:
            raise OSError(0, _("the file is empty"))
        with opened(path) as image:
            return {"pixel_values": transform.from_pil(image), "labels": 0}
    except UNREADABLE as error:
        raise DataError(
            _("{name} can't be read as an image").format(name=path.name),
            paragraph(f"{path}: {explained(error)}"),
        ) from error


def shape_notes(transform: ImageTransform, path: Path) -> tuple[str, ...]:
    """Says what was done to an image that isn't square; nothing of one that is."""
    if is_nearly_square(*size_of(path)):
        return ()
    return (CROPPED if transform.fit is ImageFit.CROP else SQUASHED,)


def _first_row(columns: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: values[0] for name, values in columns.items()}


def logits_of_one(model: TriedModel, sample: dict[str, Any]) -> torch.Tensor:
    """Returns the logits of one sample: [labels], or [tokens, labels]."""
    collator = stack if model.transform is not None else pad_as(model.tokenizer, **model.padding)
    return next(_logits(model.model, [sample], collator))[0]


def classes_of(model: TriedModel, asked: Ask, logits: torch.Tensor, read: int) -> Answered:
    chances = logits.softmax(-1)
    best = chances.topk(min(CHANCES_TOLD, len(chances)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    told = tuple(Chance(model.labels[label], chance) for label, chance in pairs)
    return Answered(id=asked.id, name=model.name, chances=told, read=read, notes=_cut(model, read))


def _word_labels(model: TriedModel, asked: Ask, text: str) -> Answered:
    """Predicts a label for each word with a token, up to the model's limit."""
    places = [match.span() for match in WORD.finditer(text)]
    words = [text[start:end] for start, end in places]
    # the number of each word in place of its label shows where its first token is
    encoded = encode_words([words], [list(range(len(words)))], model.tokenizer, model.length)
    if not encoded["input_ids"]:
        raise UserError(
            _("There is nothing to read"), _("The tokenizer has no token for any of these words.")
        )
    sample = _first_row(encoded)
    best = logits_of_one(model, sample).softmax(-1).max(-1)
    # padding makes more logits than tokens
    tokens = zip(sample["labels"], best.indices.tolist(), best.values.tolist(), strict=False)
    labelled = tuple(
        Word(places[word][0], places[word][1], model.labels[label], chance)
        for word, label, chance in tokens
        if word != NO_LABEL
    )
    read = len(sample["input_ids"])
    return Answered(id=asked.id, name=model.name, words=labelled, read=read, notes=_cut(model, read))


def _cut(model: TriedModel, read: int) -> tuple[str, ...]:
    """Notes that a text as long as the limit may have been cut off."""
    note = _("Only the first {length:,} tokens were read, the length set for training.")
    return (note.format(length=model.length),) if read and read >= model.length else ()


# --- The examples of a run: held-out ones chosen by seed, and prompts of the options


PROMPT_TOKENS = 64
"""Tokens of a text that are the prompt."""
QUOTED_CHARACTERS = 60
"""Characters of a prompt in a message."""


def choose(
    options: RunOptions,
    prepared: Prepared,
    folder: Path,
    reporter: Reporter,
    write: Write = write_likeliest,
) -> Predictor | None:
    """Chooses the examples of a run, whose images are written to `examples/` in its folder; None if there are none.

    Prompts that can't be used are warned of.
    """
    parts: list[tuple[tuple[Example, ...], Predict]] = []
    samples, count = prepared.eval, options.output.predictions
    if samples is not None and len(samples) and count:
        rng = np.random.default_rng(options.training.seed)
        chosen = rng.choice(len(samples), min(count, len(samples)), replace=False)
        parts.append(
            _held_out(options.task, [int(index) for index in sorted(chosen)], prepared, folder, write)
        )
    if options.task.writes_text:
        parts += _own_prompts(options, prepared.processing_class, reporter, write)
    if not parts:
        return None
    return Predictor(
        tuple(example for examples, _part in parts for example in examples),
        tuple(part for _examples, part in parts),
    )


def _held_out(
    task: Task, indices: list[int], prepared: Prepared, folder: Path, write: Write
) -> tuple[tuple[Example, ...], Predict]:
    tokenizer: Any = prepared.processing_class
    samples = [prepared.eval[index] for index in indices] if prepared.eval is not None else []
    labels, collator = prepared.labels, prepared.collator
    expected: list[str]
    predict: Predict
    match task:
        case Task.CAUSAL_LM | Task.CHAT | Task.PREFERENCE:
            pairs = [prompt_and_answer(sample) for sample in samples]
            around = around_message(tokenizer) if task.reads_conversations else None
            prompts = [prompt for prompt, _answer in pairs if prompt]
            texts = tuple(
                Example(
                    given=(given := decoded(tokenizer, prompt)[-SHOWN_CHARACTERS:]),
                    asked=last_message(given, around),
                    expected=decoded(tokenizer, answer[:NEW_TOKENS], skip_special_tokens=True),
                )
                for prompt, answer in pairs
                if prompt
            )
            return texts, partial(continue_prompts, prompts, tokenizer, write)
        case Task.TEXT_REGRESSION:
            expected = [_number_text(float(sample["labels"])) for sample in samples]
            predict = partial(predict_numbers, samples, collator)
        case Task.TOKEN_CLASSIFICATION:
            lines = (" ".join(prepared.origin(index).texts) for index in indices)
            words = [words_of(*one, tokenizer) for one in zip(samples, lines, strict=True)]
            tags = map(_true_tags, samples)
            expected = [tagged(*one, labels) for one in zip(words, tags, strict=True)]
            predict = partial(predict_word_labels, samples, collator, labels, words)
        case Task.TEXT_CLASSIFICATION | Task.IMAGE_CLASSIFICATION:
            expected = [labels[int(sample["labels"])] for sample in samples]
            predict = partial(predict_classes, samples, collator, labels)
    answers = enumerate(zip(indices, samples, expected, strict=True))
    return tuple(
        _example(index, sample, text, prepared, folder, name=str(number))
        for number, (index, sample, text) in answers
    ), predict


def _example(
    index: int, sample: dict[str, Any], expected: str, prepared: Prepared, folder: Path, *, name: str
) -> Example:
    """Makes an example of a validation sample; writes its image, if it has one, to `examples/` under this name."""
    origin = prepared.origin(index)
    if "input_ids" in sample:
        given = _text(sample, prepared.processing_class)
        return msgspec.structs.replace(origin, given=given, expected=expected)
    image = ""
    if sample and prepared.picture:
        image = f"examples/{name}.png"
        (folder / "examples").mkdir(exist_ok=True)
        (folder / image).write_bytes(prepared.picture(sample))
    return msgspec.structs.replace(origin, image=image, expected=expected)


def around_message(tokenizer: Any) -> tuple[str, str] | None:
    """Returns what the chat template puts before a message of the user and after the last one; None if it refuses."""
    mark = "\N{WHITE SQUARE}"
    user, answer = {"role": "user", "content": mark}, {"role": "assistant", "content": "-"}
    try:
        first, later = (
            render_chat(tokenizer, messages, add_generation_prompt=True)[0].rpartition(mark)
            for messages in ([user], [user, answer, user])
        )
    except TemplateRefused:
        return None
    starts = range(len(first[0]))
    before = next((part for start in starts if later[0].endswith(part := first[0][start:])), "")
    return (before, first[2].rstrip()) if before and first[2].strip() else None


def last_message(text: str, around: tuple[str, str] | None) -> str:
    """Returns the last message of the user in the text of a conversation; empty if it isn't found."""
    before, after = around or ("", "")
    if not before or before not in text:
        return ""
    asked, end, _rest = text.rpartition(before)[2].partition(after)
    return asked.strip() if end else ""


def _text(sample: dict[str, Any], tokenizer: Any) -> str:
    """Decodes a text, or a pair with a line for each."""
    texts, ids = [], list(sample["input_ids"])
    while ids:
        end = ids.index(tokenizer.sep_token_id) if tokenizer.sep_token_id in ids else len(ids)
        texts.append(decoded(tokenizer, ids[:end], skip_special_tokens=True).strip())
        ids = ids[end + 1 :]
    return "\n".join(filter(None, texts))[:SHOWN_CHARACTERS]


def prompt_and_answer(sample: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Splits token ids into a prompt and the expected continuation.

    The prompt is the beginning of a text, all before the last answer of a conversation, or that of a pair.
    """
    if "prompt_ids" in sample:
        liked = sample.get("chosen_ids") or (sample["completion_ids"] if sample["label"] else ())
        return list(sample["prompt_ids"]), list(liked)
    ids, labels = list(sample["input_ids"]), list(sample.get("labels", ()))
    if NO_LABEL not in labels:
        beginning = min(PROMPT_TOKENS, len(ids) // 2)
        return ids[:beginning], ids[beginning:]
    trained = [place for place, label in enumerate(labels) if label != NO_LABEL]
    if not trained:
        return [], []
    end = trained[-1]
    start = max((place for place in range(end) if labels[place] == NO_LABEL), default=-1) + 1
    return ids[:start], ids[start : end + 1]


# --- The examples of an evaluation: those a classifier is surest of and wrong about


KEPT = 1000
"""The most wrong examples that are kept, and the most right ones."""
PICTURED = 100
"""Where images are files of their own, so many wrong ones are also written as the model sees them, and a fifth as many
right ones."""
WRITTEN_PIXELS = 5_000_000
"""Pixels that are written of images without a file of their own; further images aren't kept."""
CHANCES_KEPT = 10


def judge(logits: Any, truth: Any, order: Sequence[int], prepared: Prepared, folder: Path) -> Validation:
    """Chooses examples of an evaluation, and writes their images; the caller sets `step`.

    Args:
        logits: [samples, labels].
        truth: The index of the true label of each sample, [samples].
        order: The index in the validation data of each sample.
    """
    chances = torch.as_tensor(np.asarray(logits), dtype=torch.float32).softmax(-1)
    best = chances.topk(min(CHANCES_KEPT, len(prepared.labels)))
    sure, answers = best.values[:, 0].numpy(), best.indices[:, 0].numpy()
    is_right, cells = answers == truth, truth * len(prepared.labels) + answers
    examples: list[Judged] = []

    def keep(kind: Any, score: Any, most: int, read: int) -> None:
        kept = kind[_spread(score[kind], cells[kind])][:most]
        read_too = {*kept[:read].tolist()}
        for place in kept[np.argsort(-score[kept], kind="stable")].tolist():
            index, true = int(order[place]), int(truth[place])
            if _true_label(prepared.eval, index) != true:
                continue
            likeliest = best.indices[place].tolist()
            if true not in likeliest:
                likeliest[-1] = true
            told = tuple(
                Chance(prepared.labels[label], round(float(chances[place, label]), 4)) for label in likeliest
            )
            sample = prepared.eval[index] if prepared.eval is not None and place in read_too else {}
            name = f"validation-{index}"  # a later evaluation writes the same picture
            example = _example(index, sample, prepared.labels[true], prepared, folder, name=name)
            examples.append(Judged(example=example, chances=told))

    wrong, right = np.flatnonzero(~is_right), np.flatnonzero(is_right)
    if prepared.picture is None or not prepared.eval:
        limits = (KEPT, KEPT), (KEPT, KEPT)
    elif prepared.origin(0).file:
        limits = (KEPT, PICTURED), (KEPT, PICTURED // 5)
    else:
        most = min(KEPT, WRITTEN_PIXELS // prepared.eval[0]["pixel_values"][0].numel())
        limits = (most, most), (most // 2, most // 2)
    keep(wrong, sure, *limits[0])
    keep(right, -sure, *limits[1])
    return Validation(step=0, wrong=len(wrong), examples=tuple(examples))


def _true_label(samples: Any, index: int) -> int:
    if isinstance(samples, ImageSet):
        return int(samples.labels[index])  # without decoding it
    return int(samples[index].get("labels", NO_LABEL)) if samples is not None else NO_LABEL


def _spread(scores: Any, cells: Any) -> Any:
    """Returns indices of samples, the highest score first, but the first one of each cell before the second of any."""
    order = np.lexsort((-scores, cells))
    places = np.arange(len(order))
    begins = np.diff(cells[order], prepend=-1) != 0
    ranks = places - np.maximum.accumulate(np.where(begins, places, 0))
    return order[np.lexsort((-scores[order], ranks))]


def _own_prompts(
    options: RunOptions, tokenizer: Any, reporter: Reporter, write: Write
) -> Iterator[tuple[tuple[Example, ...], Predict]]:
    """Tokenizes the prompts of the options: as a text, or as a message to the assistant."""
    prompts: dict[str, list[int]] = {}
    for number, prompt in enumerate(options.output.prompts, 1):
        if prompt in prompts:
            continue
        try:
            text, is_chat = prompt, options.task.reads_conversations
            if is_chat:
                messages = [{"role": Speaker.USER.value, "content": prompt}]
                text = render_chat(tokenizer, messages, add_generation_prompt=True)[0]
            ids = list(tokenizer(text, add_special_tokens=not is_chat)["input_ids"])
            reason = "" if ids else _("It has no tokens.")
        except TemplateRefused as refused:
            ids, reason = [], str(refused)
        if ids:
            prompts[prompt] = ids
        else:
            title = _("The prompt “{prompt}” can't be used").format(prompt=prompt[:QUOTED_CHARACTERS])
            detail = _("{reason} Training continues without it.").format(reason=reason)
            reporter.warn(f"prompt-{number}", title, detail)
    if prompts:
        examples = tuple(Example(given=prompt, is_own=True) for prompt in prompts)
        yield examples, partial(continue_prompts, list(prompts.values()), tokenizer, write)


# --- Answers of a causal model in Try it, token by token; with temperature 0 they are those of `generate`


class Stream:
    """A streamer for transformers' `generate`: `put` gets the prompt first, then each token.

    Tokens `ends` and texts `stop_at` end the text and aren't part of it. `on_text` gets each new piece of it.
    """

    def __init__(
        self, tokenizer: Any, ends: set[int | None], stop_at: Sequence[str], on_text: Callable[[str], None]
    ) -> None:
        self._tokenizer = tokenizer
        self._ends = ends
        self._stop_at = tuple(filter(None, stop_at))
        self._on_text = on_text
        self._ids: list[int] = []
        self._has_prompt = False
        self._sent = 0
        self.text = ""
        self.tokens = 0
        self.ended_by: EndedBy | None = None

    def put(self, value: Any) -> None:
        """Adds the prompt, which is ignored, or a token."""
        tokens = value.reshape(-1).tolist() if self._has_prompt else ()
        self._has_prompt = True
        for token in tokens:
            if self.ended_by is None:
                self.add(token)

    def end(self) -> None:
        """Sends the text that was held back."""
        self.text = self.text.rstrip(UNFINISHED)
        self._send(len(self.text))

    def add(self, token: int) -> None:
        self.tokens += 1
        if token in self._ends:
            self.ended_by = EndedBy.MODEL
            return
        self._ids.append(token)
        self.text = self._tokenizer.decode(self._ids, skip_special_tokens=True).lstrip(UNFINISHED)
        stop = min((place for text in self._stop_at if (place := self.text.find(text)) >= 0), default=-1)
        if stop >= 0:
            self.text = self.text[:stop]
            self.ended_by = EndedBy.STOP_TEXT
            self._send(stop)
            return
        # the last letters may be the beginning of a text to stop at
        most = min(max(map(len, self._stop_at), default=1) - 1, len(self.text))
        held_back = (
            count
            for count in range(most, 0, -1)
            if any(stop.startswith(self.text[-count:]) for stop in self._stop_at)
        )
        self._send(len(self.text.rstrip(UNFINISHED)) - next(held_back, 0))

    def _send(self, end: int) -> None:
        if end > self._sent:
            self._on_text(self.text[self._sent : end])
            self._sent = end


def write(model: TriedModel, asked: Ask, on_text: Callable[[str], None], should_stop: ShouldStop) -> Answered:
    """Generates an answer.

    Raises:
        UserError: The prompt is empty, or the chat template can't write it.
    """
    writing, positions = asked.writing, max_positions(model.model)
    new_tokens = max(1, min(writing.max_tokens, positions // 2))  # at least half is for the prompt
    match asked.given:
        case Chat():
            ids, notes = _chat_prompt(model, asked.given, positions - new_tokens)
        case Texts():
            ids, notes = _text_prompt(model, asked.given, positions - new_tokens)
        case _:
            raise UserError(
                _("This model can't answer that"), _("{name} reads texts.").format(name=model.name)
            )
    if not ids:
        raise UserError(_("There is nothing to continue"), _("Write the beginning of a text, or a question."))
    ends = end_tokens(model.model, model.tokenizer)
    stream = Stream(model.tokenizer, ends, writing.stop_at, on_text)
    write_answer = model.write_answer or partial(_write_by_transformers, model)
    write_answer(ids, new_tokens, writing, stream, should_stop)
    return Answered(
        id=asked.id,
        name=model.name,
        text=stream.text,
        ended_by=stream.ended_by or (EndedBy.PERSON if should_stop() else EndedBy.LENGTH),
        read=len(ids),
        tokens=stream.tokens,
        notes=notes,
    )


def _write_by_transformers(  # noqa: PLR0917 - as `WriteAnswer` has them
    model: TriedModel,
    ids: Sequence[int],
    new_tokens: int,
    writing: Writing,
    stream: Stream,
    should_stop: ShouldStop,
) -> None:
    sampling: dict[str, Any] = {"do_sample": False}
    if writing.temperature > 0:
        sampling = {"do_sample": True, "temperature": writing.temperature, "top_p": writing.top_p, "top_k": 0}
    torch.manual_seed(writing.seed)
    generate(
        model.model,
        model.tokenizer,
        [ids],
        new_tokens,
        lambda: stream.ended_by is not None or should_stop(),
        streamer=stream,
        **sampling,
    )


def _text_prompt(model: TriedModel, given: Texts, most: int) -> tuple[list[int], tuple[str, ...]]:
    """Returns at most `most` tokens, and a note if the beginning of the text is cut off."""
    text = "\n".join(given.texts)
    ids = list(model.tokenizer(text, add_special_tokens=not given.as_read, verbose=False)["input_ids"])
    return ids[-most:], _shortened(model, ids, most)


def _shortened(model: TriedModel, ids: list[int], most: int) -> tuple[str, ...]:
    note = _(
        "Only the last {most:,} of {count:,} tokens were read. The model is limited to {limit:,} in all."
    )
    if len(ids) <= most:
        return ()
    return (note.format(most=most, count=len(ids), limit=max_positions(model.model)),)


def _chat_prompt(model: TriedModel, given: Chat, most: int) -> tuple[list[int], tuple[str, ...]]:
    """Writes a conversation with the model's template, without its oldest turns if it is too long."""
    turns: list[ChatTurn] = []
    for turn in given.turns:  # many templates refuse consecutive turns of one role
        if turn.text.strip() and turns and turns[-1].role is turn.role:
            turns[-1] = ChatTurn(turn.role, joined_text(turns[-1].text, turn.text))
        elif turn.text.strip():
            turns.append(turn)
    count = len(turns)
    ids = _chat_tokens(model, given.system, turns)
    while len(ids) > most and len(turns) > 1:
        turns = turns[1:]
        while len(turns) > 1 and turns[0].role is not Speaker.USER:
            turns = turns[1:]
        ids = _chat_tokens(model, given.system, turns)
    notes = _shortened(model, ids, most)
    if left_out := count - len(turns):
        note = ngettext(
            "The earliest turn was left out. The model is limited to {limit:,} tokens in all.",
            "The earliest {count} turns were left out. The model is limited to {limit:,} tokens in all.",
            left_out,
        )
        notes = (note.format(count=left_out, limit=max_positions(model.model)), *notes)
    return ids[-most:], notes


def _chat_tokens(model: TriedModel, system: str, turns: Sequence[ChatTurn]) -> list[int]:
    messages = [{"role": turn.role.value, "content": turn.text} for turn in turns]
    if not messages:
        return []
    if system.strip():
        messages = [{"role": Speaker.SYSTEM.value, "content": system}, *messages]
    try:
        text = render_chat(model.tokenizer, messages, add_generation_prompt=True)[0]
    except TemplateRefused as refused:
        raise UserError(_("The model's chat template refuses this conversation"), refused.reason) from refused
    return list(model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

"""Predictions: on a run's chosen examples while it trains, and on one text or image that a person asks about."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from core.base.errors import DataError, UserError
from core.base.language import _
from core.engine.data import NO_LABEL
from core.engine.data.batches import collator_for, pad_as, stack
from core.engine.data.chat_tokens import TemplateRefused, render_chat
from core.engine.data.image_files import UNREADABLE, explained, opened
from core.engine.data.labelled_texts import encode_rows, encode_words
from core.engine.generate.loading import TriedModel
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.metrics import OUTSIDE
from core.options import RunOptions, choices
from core.options.choices import Task
from core.runs.events import Example, Said
from core.services.chat import CHANCES_TOLD, Answered, Ask, Chance, Image, Texts, Word

AT_ONCE = 16
"""Examples that are asked about together: a run's memory is foretold for its batches, and there may be 256 of them."""

Item = TypeVar("Item")


class Speaker(Protocol):
    """Some examples, and a way to ask a model about them."""

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples, in order."""
        ...

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """What `model`, in evaluation mode, says of each; may end early where a stop is asked."""
        ...


@dataclass(frozen=True)
class Speakers:
    """Several speakers as one: held-out examples first, the person's own prompts behind them."""

    parts: tuple[Speaker, ...]

    @property
    def examples(self) -> tuple[Example, ...]:
        """All their examples."""
        return tuple(example for part in self.parts for example in part.examples)

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """What the model says of all of them."""
        return tuple(said for part in self.parts for said in part.say(model, is_asked_to_stop))


def in_portions(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items in their order, `AT_ONCE` at a time."""
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))


def on_device(batch: dict[str, Any], model: Any) -> dict[str, Any]:
    """A batch where the model's weights are, without its labels: nothing is learned from it."""
    device = next(model.parameters()).device
    return {name: value.to(device) for name, value in batch.items() if name != "labels"}


def logits_of(model: Any, batch: dict[str, Any]) -> torch.Tensor:
    """The logits of a batch in fp32, on the CPU."""
    found = model(**on_device(batch, model))
    logits: torch.Tensor = found["logits"]
    return logits.float().cpu()


Collator = Callable[[list[dict[str, Any]]], dict[str, Any]]


@dataclass(frozen=True)
class Classes:
    """Samples that get one label each."""

    examples: tuple[Example, ...]
    samples: list[dict[str, Any]]
    collator: Collator
    labels: tuple[str, ...]

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """The most likely label of each, and how likely it is."""
        chances = _logits_of_samples(model, self.samples, self.collator).softmax(-1)
        best = chances.max(-1)
        return tuple(
            Said(text=self.labels[label], sure=chance, right=label == int(sample["labels"]))
            for sample, label, chance in zip(
                self.samples, best.indices.tolist(), best.values.tolist(), strict=True
            )
        )


@dataclass(frozen=True)
class Numbers:
    """Samples that get a number each."""

    examples: tuple[Example, ...]
    samples: list[dict[str, Any]]
    collator: Collator

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """The number of each; how near is near enough nobody knows."""
        numbers = _logits_of_samples(model, self.samples, self.collator).reshape(len(self.samples), -1)[:, 0]
        return tuple(Said(text=number_words(number)) for number in numbers.tolist())


@dataclass(frozen=True)
class WordLabels:
    """Texts whose words get a label each."""

    examples: tuple[Example, ...]
    samples: list[dict[str, Any]]
    collator: Collator
    labels: tuple[str, ...]
    tokenizer: Any

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """The labelled words of each."""
        asked = (logits_of(model, self.collator(list(some))) for some in in_portions(self.samples))
        guesses = [row for logits in asked for row in logits.argmax(-1).tolist()]
        found = []
        for sample, row in zip(self.samples, guesses, strict=True):
            kept = row[: len(sample["labels"])]
            pairs = zip(sample["labels"], kept, strict=True)
            right = all(guess == label for label, guess in pairs if label != NO_LABEL)
            found.append(Said(text=tagged_words(sample, kept, self.labels, self.tokenizer), right=right))
        return tuple(found)


def _logits_of_samples(model: Any, samples: list[dict[str, Any]], collator: Collator) -> torch.Tensor:
    """Those of all samples, [samples, labels]."""
    return torch.cat([logits_of(model, collator(list(some))) for some in in_portions(samples)])


def number_words(value: float) -> str:
    """A number as it is shown: three decimals at most."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def tagged_words(sample: dict[str, Any], tags: list[int], labels: tuple[str, ...], tokenizer: Any) -> str:
    """The words of a sample that have a tag other than O, as `word [TAG]`; a dash where none has."""
    said = [
        f"{word} [{labels[tag]}]"
        for word, tag in _words_with_tags(sample, tags, tokenizer)
        if labels[tag] != OUTSIDE
    ]
    return ", ".join(said) or "–"


def _words_with_tags(sample: dict[str, Any], tags: list[int], tokenizer: Any) -> Iterator[tuple[str, int]]:
    """Each word with its tag: it begins at a token with a label, and goes on over those without one."""
    special = set(tokenizer.all_special_ids)
    tokens, tag = [], None
    for token, label, guess in zip(sample["input_ids"], sample["labels"], tags, strict=True):
        if label != NO_LABEL:
            if tag is not None:
                yield tokenizer.decode(tokens).strip(), tag
            tokens, tag = [token], guess
        elif tag is not None and token not in special:
            tokens.append(token)
    if tag is not None:
        yield tokenizer.decode(tokens).strip(), tag


NEW_TOKENS = 64
"""So many at most: an evaluation is not to wait long for them."""


@dataclass(frozen=True)
class Written:
    """Beginnings that the model goes on from, each as token ids, without a random choice (greedily)."""

    examples: tuple[Example, ...]
    prompts: tuple[tuple[int, ...], ...]
    tokenizer: Any
    new_tokens: int = NEW_TOKENS

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """What it writes after each beginning; of one that leaves too little room for that, after the end of it."""
        portions = in_portions(self.prompts)
        return tuple(said for some in portions for said in self._written(model, some, is_asked_to_stop))

    def _written(
        self, model: Any, asked: Sequence[tuple[int, ...]], is_asked_to_stop: Callable[[], bool]
    ) -> Iterator[Said]:
        new_tokens = min(self.new_tokens, positions(model) // 2)
        room = positions(model) - new_tokens
        prompts = [prompt[-room:] for prompt in asked]
        longest = max(map(len, prompts))
        pad = pad_token(self.tokenizer)
        rows = [[pad] * (longest - len(prompt)) + list(prompt) for prompt in prompts]  # padded on the left
        masks = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        device = next(model.parameters()).device
        written = model.generate(
            input_ids=torch.tensor(rows, device=device),
            attention_mask=torch.tensor(masks, device=device),
            max_new_tokens=new_tokens,
            do_sample=False,
            num_beams=1,
            use_cache=True,
            pad_token_id=pad,
            stopping_criteria=[Stop(is_asked_to_stop)],
        )
        ends = {pad, self.tokenizer.eos_token_id, *ends_of(model)}
        for row in written.tolist():
            tokens = row[longest:]
            end = next((place for place, token in enumerate(tokens) if token in ends), None)
            text = self.tokenizer.decode(tokens[:end], skip_special_tokens=True)
            yield Said(text=text, is_cut=end is None)


class Stop:
    """Ends writing where the person wants the run to stop; transformers asks it after each token."""

    def __init__(self, is_asked_to_stop: Callable[[], bool]) -> None:
        self._is_asked_to_stop = is_asked_to_stop

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """For each text whether it ends here; the arguments are as transformers hands them over."""
        stop = self._is_asked_to_stop()
        return torch.full((len(input_ids),), stop, dtype=torch.bool, device=input_ids.device)


def pad_token(tokenizer: Any) -> int:
    """The token that fills rows up."""
    pad = tokenizer.pad_token_id
    return int(tokenizer.eos_token_id if pad is None else pad)


def positions(model: Any) -> int:
    """The most tokens it can see: beyond, one with learned positions fails, on a GPU for good."""
    limit: int = getattr(model.config.get_text_config(), "max_position_embeddings", None) or sys.maxsize
    return limit


def ends_of(model: Any) -> list[int]:
    """The tokens at which it stops by itself: the end of text, and of a turn where it learns to chat."""
    found = model.generation_config.eos_token_id
    return [] if found is None else [found] if isinstance(found, int) else list(found)


# --- One question of a person's


WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
"""Words as corpora of labelled words have them: punctuation stands for itself."""


def judged(model: TriedModel, asked: Ask) -> Answered:
    """What a model that writes no text says.

    Raises:
        UserError: It was asked about something else than it reads, or that can't be read.
    """
    given = asked.given
    if isinstance(given, Image) and model.transform is not None:
        return _of_labels(model, asked, _logits_of_one(model, _image(model, given)), read=0)
    if not isinstance(given, Texts) or model.transform is not None:
        reads = "texts" if model.transform is None else "images"
        raise UserError(
            _("This model can't be asked that"),
            _("{name} reads {reads}.").format(name=model.name, reads=reads),
        )
    if not any(text.strip() for text in given.texts):
        raise UserError(_("There is nothing to read"), _("Write a text first."))
    if model.task is Task.TOKEN_CLASSIFICATION:
        return _label_words(model, asked, " ".join(given.texts))
    columns = dict(zip(("text", "text_pair"), ([text] for text in given.texts), strict=False))
    sample = _first(encode_rows({**columns, "label": [0]}, model.tokenizer, model.length))
    logits, read = _logits_of_one(model, sample), len(sample["input_ids"])
    if model.task is Task.TEXT_REGRESSION:
        number = float(logits.reshape(-1)[0])
        return Answered(id=asked.id, name=model.name, number=number, read=read, notes=_cut(model, read))
    return _of_labels(model, asked, logits, read)


def _image(model: TriedModel, given: Image) -> dict[str, Any]:
    assert model.transform is not None, "asked only of models that see"
    path = Path(given.path)
    try:
        with opened(path) as image:
            return {"pixel_values": model.transform.from_pil(image), "labels": 0}
    except UNREADABLE as error:
        raise DataError(
            _("{name} can't be read as an image").format(name=path.name), f"{path}: {explained(error)}."
        ) from error


def _first(columns: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: values[0] for name, values in columns.items()}


def _logits_of_one(model: TriedModel, sample: dict[str, Any]) -> torch.Tensor:
    """Those of one sample: [labels], or [tokens, labels]."""
    collator = stack if model.transform is not None else pad_as(model.tokenizer, model.row)
    return logits_of(model.model, collator_for(model.resolved.kind, collator)([sample]))[0]


def _of_labels(model: TriedModel, asked: Ask, logits: torch.Tensor, read: int) -> Answered:
    chances = logits.softmax(-1)
    best = chances.topk(min(CHANCES_TOLD, len(chances)))
    told = tuple(
        Chance(model.labels[label], chance)
        for label, chance in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
    return Answered(id=asked.id, name=model.name, chances=told, read=read, notes=_cut(model, read))


def _label_words(model: TriedModel, asked: Ask, text: str) -> Answered:
    """A label for each word that comes to a token; words beyond what the model sees get none."""
    places = [(found.start(), found.end()) for found in WORD.finditer(text)]
    words = [text[start:end] for start, end in places]
    # the number of a word in place of its label: where its first token stands
    encoded = encode_words([words], [list(range(len(words)))], model.tokenizer, model.length)
    if not encoded["input_ids"]:
        raise UserError(_("There is nothing to read"), _("The model has no token for any of these words."))
    sample = _first(encoded)
    best = _logits_of_one(model, sample).softmax(-1).max(-1)
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
    return (
        _("Only the first {length:,} tokens were read: the model was trained on no more.").format(
            length=model.length
        ),
    )


# --- The examples of a run: some held-out ones chosen by seed, and a person's prompts


BEGINNING = 64
"""Tokens of a text that the model is shown before it goes on."""
LONGEST_SHOWN = 2000
"""Characters of a text that are kept to be shown."""
LONGEST_QUOTED = 60
"""Characters of a prompt that a message quotes."""


def choose(options: RunOptions, prepared: Prepared, folder: Path, reporter: Reporter) -> Speaker | None:
    """The examples of a run; None where there are none, or none are wanted.

    Args:
        options: What is asked.
        prepared: The run's held-out data, and how it is made into batches.
        folder: The run's folder; images are written into `examples/` there.
        reporter: Hears which of the person's prompts can't be asked.
    """
    parts: list[Speaker] = []
    held_out = _held_out(prepared.eval, options.output.predictions, options.training.seed)
    if held_out:
        parts.append(_of(options.task, held_out, prepared, folder))
    if options.task.writes_text and options.output.prompts:
        parts += _own(options, prepared.processing_class, reporter)
    return Speakers(tuple(parts)) if parts else None


def _held_out(samples: Any, count: int, seed: int) -> list[dict[str, Any]]:
    """Some samples, in the order they stand in the data."""
    if samples is None or not len(samples) or not count:
        return []
    chosen = np.random.default_rng(seed).choice(len(samples), min(count, len(samples)), replace=False)
    return [samples[int(index)] for index in sorted(chosen)]


def _of(task: Task, samples: list[dict[str, Any]], prepared: Prepared, folder: Path) -> Speaker:
    tokenizer, labels = prepared.processing_class, prepared.labels
    match task:
        case Task.IMAGE_CLASSIFICATION:
            shown = tuple(
                Example(
                    image=_picture(prepared.picture, sample, number, folder),
                    expected=labels[sample["labels"]],
                )
                for number, sample in enumerate(samples)
            )
            return Classes(shown, samples, prepared.collator, labels)
        case Task.TEXT_CLASSIFICATION:
            shown = tuple(_read(sample, tokenizer, labels[int(sample["labels"])]) for sample in samples)
            return Classes(shown, samples, prepared.collator, labels)
        case Task.TEXT_REGRESSION:
            shown = tuple(
                _read(sample, tokenizer, number_words(float(sample["labels"]))) for sample in samples
            )
            return Numbers(shown, samples, prepared.collator)
        case Task.TOKEN_CLASSIFICATION:
            shown = tuple(_read(sample, tokenizer, _tags(sample, labels, tokenizer)) for sample in samples)
            return WordLabels(shown, samples, prepared.collator, labels, tokenizer)
        case Task.CAUSAL_LM | Task.CHAT | Task.PREFERENCE:
            return _to_go_on(samples, tokenizer)


def _picture(
    picture: Callable[[Any], bytes] | None, sample: dict[str, Any], number: int, folder: Path
) -> str:
    """Write what the model sees as a file beside the run; its path relative to the run's folder."""
    if picture is None:
        return ""
    path = folder / "examples" / f"{number}.png"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(picture(sample))
    return path.relative_to(folder).as_posix()


def _read(sample: dict[str, Any], tokenizer: Any, expected: str) -> Example:
    """An example of texts: those of a pair on a line each."""
    texts, ids = [], list(sample["input_ids"])
    while ids:
        end = ids.index(tokenizer.sep_token_id) if tokenizer.sep_token_id in ids else len(ids)
        texts.append(tokenizer.decode(ids[:end], skip_special_tokens=True).strip())
        ids = ids[end + 1 :]
    return Example(given="\n".join(filter(None, texts))[:LONGEST_SHOWN], expected=expected)


def _tags(sample: dict[str, Any], labels: tuple[str, ...], tokenizer: Any) -> str:
    tags = [max(0, label) for label in sample["labels"]]
    return tagged_words(sample, tags, labels, tokenizer)


def _to_go_on(samples: list[dict[str, Any]], tokenizer: Any) -> Written:
    pairs = [prompt_and_answer(sample) for sample in samples]
    kept = [(prompt, answer) for prompt, answer in pairs if prompt]
    examples = tuple(
        Example(
            given=tokenizer.decode(prompt)[-LONGEST_SHOWN:],
            expected=tokenizer.decode(answer[:NEW_TOKENS], skip_special_tokens=True),
        )
        for prompt, answer in kept
    )
    return Written(examples, tuple(tuple(prompt) for prompt, _rest in kept), tokenizer)


def prompt_and_answer(sample: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Token ids that are shown to the model, and those that should follow.

    Of a conversation, all before its last answer; of a pair, what precedes both answers; of a text, its beginning.
    """
    if "prompt_ids" in sample:
        return list(sample["prompt_ids"]), list(sample["chosen_ids"])
    ids, labels = list(sample["input_ids"]), list(sample.get("labels", ()))
    read = [place for place, label in enumerate(labels) if label == NO_LABEL]
    if not read:
        beginning = min(BEGINNING, len(ids) // 2)
        return ids[:beginning], ids[beginning:]
    learned = [place for place, label in enumerate(labels) if label != NO_LABEL]
    if not learned:
        return [], []
    start = max((place for place in read if place < learned[-1]), default=-1) + 1
    return ids[:start], ids[start : learned[-1] + 1]


def _own(options: RunOptions, tokenizer: Any, reporter: Reporter) -> list[Speaker]:
    """The person's prompts: a beginning as it stands, or what is said to the assistant."""
    asked: dict[str, tuple[int, ...]] = {}
    for prompt in options.output.prompts:
        try:
            ids = _tokens(prompt, tokenizer, is_said=options.task.reads_conversations)
            why = "" if ids else _("It has no tokens.")
        except TemplateRefused as refused:
            ids, why = (), f"{refused.title}: {refused.reason}"
        if ids:
            asked[prompt] = ids
        else:
            number = options.output.prompts.index(prompt) + 1
            title = _("The model can't be asked the prompt “{prompt}”").format(prompt=prompt[:LONGEST_QUOTED])
            reporter.warn(f"prompt-{number}", title, _("{why} Training goes on without it.").format(why=why))
    examples = tuple(Example(given=prompt, is_own=True) for prompt in asked)
    return [Written(examples, tuple(asked.values()), tokenizer)] if asked else []


def _tokens(prompt: str, tokenizer: Any, *, is_said: bool) -> tuple[int, ...]:
    """A prompt as token ids; `is_said`: as what a person says to the assistant.

    Raises:
        TemplateRefused: The chat template can't write it.
    """
    if not is_said:
        return tuple(tokenizer(prompt)["input_ids"])
    messages = [{"role": choices.Speaker.USER.value, "content": prompt}]
    text, _rest = render_chat(tokenizer, messages, add_generation_prompt=True)
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])

"""Which examples are asked about: some held-out ones chosen by seed, and prompts of the person's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from core import conversation_words
from core.choices import Task
from core.engine.data.conversations.rows import Message
from core.engine.data.conversations.spans import TemplateRefused, Writer
from core.engine.data.lengths import NO_LABEL
from core.engine.predicting.classes import Classes, Numbers, WordLabels, number_words, tagged_words
from core.engine.predicting.speaker import Speaker, Speakers
from core.engine.predicting.written import NEW_TOKENS, Written
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.options import RunOptions
from core.predictions import Example

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
    return Written(examples, tuple(tuple(prompt) for prompt, _ in kept), tokenizer)


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
            why = "" if ids else "It has no tokens."
        except TemplateRefused as refused:
            ids, why = (), f"{refused.title}: {refused.reason}"
        if ids:
            asked[prompt] = ids
        else:
            number = options.output.prompts.index(prompt) + 1
            title = f"The model can't be asked the prompt “{prompt[:LONGEST_QUOTED]}”"
            reporter.warn(f"prompt-{number}", title, f"{why} Training goes on without it.")
    examples = tuple(Example(given=prompt, is_own=True) for prompt in asked)
    return [Written(examples, tuple(asked.values()), tokenizer)] if asked else []


def _tokens(prompt: str, tokenizer: Any, *, is_said: bool) -> tuple[int, ...]:
    """A prompt as token ids; `is_said`: as what a person says to the assistant.

    Raises:
        TemplateRefused: The chat template can't write it.
    """
    if not is_said:
        return tuple(tokenizer(prompt)["input_ids"])
    text = Writer(tokenizer).prompt((Message(conversation_words.Speaker.USER, prompt),))
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])

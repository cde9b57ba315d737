"""The memory forecast in the engine: with the longest row of the data, when a run starts, and compared at its end."""

import contextlib
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow as pa
import pyarrow.compute as pc

from core.base import formats
from core.base.errors import DataError, DoesntFit, Fix, FixAction, ModelError, OptionsError, Problem
from core.base.language import _
from core.engine.data.tables import lengths_of
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import ResolvedRun, resolve_run
from core.engine.models.check import check_model
from core.engine.models.text import load_config, longest_text, tokenizer_at_hand
from core.engine.models.vision import find_image_model
from core.engine.tasks import Prepared
from core.memory import estimate, history
from core.memory.model import Forecast, Verdict, verdict
from core.memory.remedies import Remedy, ladder
from core.options import RunOptions
from core.options.choices import Padding, Task
from core.options.method_rules import with_batch_within
from core.options.sources import parse_synthetic, synthetic, synthetic_lengths
from core.runs.events import MemoryForecast
from core.runs.status import RunStatus
from core.runs.words import forecast_sentences
from core.services.memory import room_of

# --- The longest row of the data, found without tokenizing all of it


CANDIDATES = 512
"""So many texts with the most bytes are tokenized: tokens go with bytes, but not exactly. UTF-8 needs more of them for
the writings that also need more tokens a letter."""


@dataclass(frozen=True)
class Longest:
    """Tokens of the longest row, bytes of all texts as they were read, and assumptions as sentences.

    `text` is tokens of the longest text: fewer than `tokens` where rows are padded beyond it; `rows` how many there
    are, those that will be held out included. None: not known.
    """

    tokens: int | None
    text: int | None = None
    text_bytes: int = 0
    notes: tuple[str, ...] = ()
    rows: int | None = None


def longest_row(options: RunOptions, config: Any, tokenizer: Any) -> Longest:
    """The length of the longest row a run would see, special tokens counted, truncated as the run truncates.

    Args:
        options: The run's, settled.
        config: The model's.
        tokenizer: The model's; None where only its config is to be had.

    Raises:
        OptionsError: Random texts are longer than the model's positions.
    """
    data = options.data
    if tokenizer is not None:
        limit = longest_text(config, tokenizer)
    else:
        positions = getattr(config, "max_position_embeddings", None) or 0
        limit = positions if positions > 0 else data.max_length
    most, is_padded = min(data.max_length, limit), data.padding is Padding.FIXED
    random = parse_synthetic(data.train)
    if random:
        samples, length = random
        _refuse_too_long(data.train, samples, length, limit)  # random texts are never truncated
        return Longest(max(length, most) if is_padded else length, length, samples * length, rows=samples)
    notes: tuple[str, ...] = ()
    if data.max_length > limit:
        notes = (
            _("Texts are truncated at {limit:,} tokens: the model has no more positions.").format(
                limit=limit
            ),
        )
    if options.task is Task.CAUSAL_LM:  # rows are blocks, each as long as is allowed
        path = Path(data.train)
        files = [path] if path.is_file() else path.rglob("*")
        size = sum(file.stat().st_size for file in files if file.is_file())
        return Longest(most, most, size // 2, notes)
    try:
        found = _in_data(options, tokenizer, most)
    except DataError as error:
        found = _assumed(most, _("the data can't be read ({title})").format(title=error.title))
    if is_padded:
        return replace(found, tokens=most, notes=notes)
    return replace(found, notes=(*notes, *found.notes))


def _assumed(tokens: int, why: str, **known: Any) -> Longest:
    return Longest(
        tokens,
        notes=(_("Every row was taken to have {tokens:,} tokens: {why}.").format(tokens=tokens, why=why),),
        **known,
    )


def _refuse_too_long(source: str, samples: int, length: int, limit: int) -> None:
    if length > limit:
        shortest, _rest = synthetic_lengths(source) or (limit, limit)
        fitting = synthetic(samples, limit, min(shortest, limit))
        fix = Fix(_("Use texts of {limit:,} tokens").format(limit=limit), {"data.train": fitting})
        message = _("has texts of {length:,} tokens, and the model sees {limit:,} at most").format(
            length=length, limit=limit
        )
        raise OptionsError((Problem("data.train", message, (fix,)),))


def _in_data(options: RunOptions, tokenizer: Any, most: int) -> Longest:
    no_tokenizer = _("the model's tokenizer isn't on this computer yet")
    if not options.data.train:
        return _assumed(most, _("no data is chosen yet"))
    if options.task.reads_conversations:
        from core.engine.data.chat_samples import longest_conversation

        tokens, text_bytes = longest_conversation(options, tokenizer, most)
        if options.data.packing and options.task is Task.CHAT:  # the fullest row is nearly as long as allowed
            return Longest(most, most, text_bytes)
        if tokens:
            return Longest(tokens, tokens, text_bytes)
        why = no_tokenizer if tokenizer is None else _("no row can be used")
        return _assumed(most, why, text_bytes=text_bytes)
    from core.engine.data.labelled_texts import training_texts

    texts = training_texts(options)
    known = {"text_bytes": texts.nbytes, "rows": texts.num_rows}
    if tokenizer is None:
        return _assumed(most, no_tokenizer, **known)
    chosen = texts.take(_with_most_bytes(texts))
    columns = [chosen[name].to_pylist() for name in chosen.column_names]
    longest = max(map(len, tokenizer(*columns, truncation=True, max_length=most)["input_ids"]))
    return Longest(longest, longest, **known)


def _with_most_bytes(texts: pa.Table) -> pa.Array:
    sizes = reduce(pc.add, (pc.binary_length(texts[name]) for name in texts.column_names))
    return pc.top_k_unstable(sizes, CANDIDATES)


# --- The forecast of a run that isn't started yet


TEXT_COPIES = 3
"""Bytes for each byte of the texts: the texts themselves, what Arrow keeps of reading them, and their tokens (6 bytes
a token of about 4 letters: ids in 32 bits, masks and types in 8)."""


def forecast(options: RunOptions, labels: int) -> Forecast:
    """Forecast a run with the longest row that its data has.

    Raises:
        OptionsError: The model isn't one, or can't be trained so; or texts are longer than it can see.
        ModelError: The model isn't on this computer yet, or isn't one.
        DeviceError: The device is not to be had on this computer.
    """
    resolved = resolve_run(gather(with_compilers=options.device.compile), options, sees_one_gpu=True)
    options, device = resolved.options, resolved.device
    is_text = options.task.reads_text
    config = load_config(options) if is_text else find_image_model(options).config
    model = check_model(options, labels)
    if model.problems:
        raise OptionsError(model.problems)
    if model.shape is None:
        raise ModelError(
            _("What {source} takes can't be told before it runs").format(source=options.model.source),
            _("Hone doesn't know how {architecture} is built.").format(architecture=model.architecture),
        )
    longest = Longest(None)
    if is_text:
        longest = longest_row(options, config, tokenizer_at_hand(options.model.source))
        if longest.rows is not None:
            options = with_batch_within(options, longest.rows)
    found = estimate.forecast(
        options,
        model.shape,
        device,
        length=longest.tokens,
        data=0 if resolved.kind == "cuda" else _data_bytes(options, longest.text_bytes),
        room=room_of(device, mps_limit=options.device.mps_memory_limit),
        correction=history.correction(device.title),
    )
    notes = (*longest.notes, *found.notes)
    return msgspec.structs.replace(found, device=resolved.label, longest_text=longest.text, notes=notes)


def _data_bytes(options: RunOptions, text_bytes: int) -> int:
    """What a run keeps of its data in memory; images in files are read one by one, random ones are in the formula."""
    import numpy as np

    from core.engine.data.images import find_training_images

    if options.task.reads_text:
        return TEXT_COPIES * text_bytes
    if not options.data.train or parse_synthetic(options.data.train):
        return 0
    with contextlib.suppress(DataError):
        found = find_training_images(options)
        stored = [part.stored for part in (found.train, found.eval) if part]
        return sum(pixels.nbytes for pixels in stored if isinstance(pixels, np.ndarray))
    return 0


# --- The forecast when a run starts, and what it took


MOST_FIXES = 5
WHOLE_EPOCH = 0.999


def foretell(
    resolved: ResolvedRun, prepared: Prepared | None, known: Forecast | None
) -> MemoryForecast | None:
    """The forecast of a run, with what to do should it not come true.

    The model is built once more without numbers: the loaded one may be quantized, or wrapped for LoRA. Random numbers
    are drawn meanwhile; whoever counts on their order sets the seed afterwards, as Trainer does.

    Args:
        resolved: What it computes on.
        prepared: Its model and data; None before they are loaded: the forecast is then the least it can take,
            a batch of one short row.
        known: What was found out before it started; None: it is computed.

    Returns:
        None where the model's shape can't be told.
    """
    options = with_batch_within(resolved.options, len(prepared.train) if prepared else 1)
    device = resolved.device
    model = check_model(options, len(prepared.labels)) if prepared else check_model(options)
    if model.shape is None:
        return None
    room = room_of(device)
    if room is not None and resolved.kind == "cpu":  # what there was before this process took its part
        held = psutil.Process().memory_info().rss
        room = msgspec.structs.replace(room, free=min(room.ceiling, room.free + held))
    length = None
    if options.task.reads_text:
        length = max(lengths_of(prepared.train) or (), default=None) if prepared else 1
    correction = history.correction(device.title)
    forecast = known or estimate.forecast(
        options, model.shape, device, length=length, room=room, correction=correction
    )
    remedies = ladder(options, model, device, room, length=length, correction=correction)
    return MemoryForecast(
        device=resolved.label,
        basis=forecast.basis,
        parts=forecast.parts,
        room=room or forecast.room,
        correction=forecast.correction,
        length=length if forecast.length is None else forecast.length,
        fixes=tuple(_as_fix(remedy) for remedy in remedies if remedy.changes)[:MOST_FIXES],
    )


def _as_fix(remedy: Remedy) -> Fix:
    saves = _(" (saves {saves})").format(saves=formats.size(remedy.saves)) if remedy.saves > 0 else ""
    return Fix(f"{remedy.title}{saves}", remedy.changes)


def refuse_too_large(told: MemoryForecast | None) -> None:
    """End a run before it takes what isn't there.

    Raises:
        DoesntFit: By forecast more is needed than is free.
    """
    if told is not None and verdict(told.parts.total, told.room) is Verdict.TOO_LARGE:
        anyway = Fix(_("Start it anyway"), action=FixAction.RESUME)
        raise DoesntFit(
            _("It doesn't fit into memory"),
            " ".join(forecast_sentences(told, before=True)),
            (*told.fixes, anyway),
        )


def remember(status: RunStatus, resolved: ResolvedRun) -> None:
    """Keep what a run that has ended well took, so that the next forecasts on this device come closer.

    One that has not gone through all its data may not have met its longest batch, and would teach too little.
    """
    forecast, measured = status.forecast_bytes, status.peak_bytes
    is_known = status.forecast is not None and status.forecast_error is not None
    if status.epoch < WHOLE_EPOCH or not is_known or forecast is None or measured is None:
        return
    assert status.forecast is not None
    history.remember(
        history.PastRun(
            device=resolved.device.title,
            basis=status.forecast.basis,
            forecast=forecast,
            measured=measured,
            correction=status.forecast.correction,
        )
    )

"""The memory forecast in the engine: from the longest row of the data, at a run's start, and compared at its end."""

import contextlib
import os
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow.compute as pc

from core.base import formats
from core.base.errors import DataError, DoesntFit, Fix, FixAction, ModelError, OptionsError, Problem
from core.base.language import _
from core.engine.data.tables import lengths_of
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import ResolvedRun, resolve_run
from core.engine.memory.model_check import check_model
from core.engine.models.text import load_config, longest_text, tokenizer_at_hand
from core.engine.models.vision import find_image_model
from core.engine.tasks import Prepared
from core.memory import estimate, history
from core.memory.model import FitVerdict, Forecast, verdict
from core.memory.remedies import ladder
from core.monitor.device_memory import room_of
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Padding, Task
from core.options.method_rules import with_batch_within
from core.options.sources import is_scratch, parse_synthetic, synthetic, synthetic_lengths
from core.runs.events import MemoryForecast
from core.runs.status import RunStatus
from core.runs.words import forecast_sentences

# --- The longest row of the data, found without tokenizing all of it


CANDIDATES = 512
"""Only the texts with the most bytes are tokenized: scripts that need more tokens per letter also need more bytes."""


@dataclass(frozen=True)
class Longest:
    """Tokens of the longest row, bytes of all texts, and notes on what was assumed.

    `text` is the tokens of the longest text, fewer than `tokens` if rows are padded to a fixed length; `rows` is the
    number of rows, validation included. None if unknown.
    """

    tokens: int | None
    text: int | None = None
    text_bytes: int = 0
    notes: tuple[str, ...] = ()
    rows: int | None = None


def longest_row(options: RunOptions, config: Any, tokenizer: Any) -> Longest:
    """Returns the length of the longest row of a run, with special tokens, truncated as in the run.

    Args:
        options: The resolved options.
        tokenizer: The model's tokenizer, or None if only its config is on this computer.

    Raises:
        OptionsError: Random texts are longer than the model's positions.
    """
    data = options.data
    if tokenizer is not None:
        limit = longest_text(config, tokenizer)
    else:
        positions = getattr(config.get_text_config(), "max_position_embeddings", None) or 0
        limit = positions if positions > 0 else data.max_length
    most, is_padded = min(data.max_length, limit), data.padding is Padding.FIXED
    if random := parse_synthetic(data.train):
        samples, length = random
        if length > limit:  # random texts are never truncated
            shortest, _rest = synthetic_lengths(data.train) or (limit, limit)
            fitting = synthetic(samples, limit, min(shortest, limit))
            fix = Fix(_("Use texts of {limit:,} tokens").format(limit=limit), {"data.train": fitting})
            message = _("has texts of {length:,} tokens; the model's maximum length is {limit:,}")
            message = message.format(length=length, limit=limit)
            raise OptionsError((Problem("data.train", message, (fix,)),))
        return Longest(max(length, most) if is_padded else length, length, samples * length, rows=samples)
    notes: tuple[str, ...] = ()
    if data.max_length > limit:
        note = _("Texts are truncated at {limit:,} tokens: the model has no more positions.")
        notes = (note.format(limit=limit),)
    if options.task is Task.CAUSAL_LM:  # rows are blocks of the full length
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


def _assumed(tokens: int, reason: str, **known: Any) -> Longest:
    note = _("Every example was assumed to have {tokens:,} tokens, the most there can be: {reason}.").format(
        tokens=tokens, reason=reason
    )
    return Longest(tokens, notes=(note,), **known)


def _in_data(options: RunOptions, tokenizer: Any, most: int) -> Longest:
    no_tokenizer = _("the model's tokenizer isn't on this computer")
    if is_scratch(options.model.source):
        no_tokenizer = _("the model's tokenizer is trained on the data when the run starts")
    if not options.data.train:
        return _assumed(most, _("no data is chosen"))
    if options.task.reads_conversations:
        from core.engine.data.chat_samples import longest_conversation

        tokens, text_bytes, rows = longest_conversation(options, tokenizer, most)
        if options.data.packing and options.task is Task.CHAT:  # packed rows are nearly full
            return Longest(most, most, text_bytes)
        if tokens:
            return Longest(tokens, tokens, text_bytes, rows=rows)
        reason = no_tokenizer if tokenizer is None else _("no example can be used")
        return _assumed(most, reason, text_bytes=text_bytes, rows=rows)
    from core.engine.data.labelled_texts import training_texts

    texts = training_texts(options)
    known = {"text_bytes": texts.nbytes, "rows": texts.num_rows}
    if tokenizer is None:
        return _assumed(most, no_tokenizer, **known)
    sizes = reduce(pc.add, (pc.binary_length(texts[name]) for name in texts.column_names))
    candidates = texts.take(pc.top_k_unstable(sizes, CANDIDATES))
    columns = [candidates[name].to_pylist() for name in candidates.column_names]
    longest = max(map(len, tokenizer(*columns, truncation=True, max_length=most)["input_ids"]))
    return Longest(longest, longest, **known)


# --- The forecast before a run is started


TEXT_COPIES = 3
"""Bytes per byte of text: the text, Arrow's buffers, and its tokens (6 bytes per token of about 4 letters: ids in 32
bits, masks and types in 8)."""


def forecast(options: RunOptions, labels: int) -> Forecast:
    """Forecasts a run with the longest row of its data.

    Raises:
        OptionsError: The model can't be trained with these options, or random texts are longer than its positions.
        ModelError: The model isn't on this computer, or of unknown architecture.
        DeviceError: The device is not available here.
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
            _("The memory of {source} can't be forecast").format(source=options.model.source),
            _("Hone doesn't know the architecture {architecture}.").format(architecture=model.architecture),
        )
    longest = Longest(None)
    if is_text:
        longest = longest_row(options, config, tokenizer_at_hand(options.model.source))
        rows, data = longest.rows, TEXT_COPIES * longest.text_bytes
    else:
        rows, data = _images(options)
    if rows is not None:
        options = with_batch_within(options, rows)
    found = estimate.forecast(
        options,
        model.shape,
        device,
        length=longest.tokens,
        data=0 if resolved.kind == "cuda" else data,
        room=room_of(device, mps_limit=options.device.mps_memory_limit),
        correction=history.correction(history.taught_as(device, options)),
    )
    notes = (*longest.notes, *found.notes)
    return msgspec.structs.replace(found, device=resolved.label, longest_text=longest.text, notes=notes)


def _images(options: RunOptions) -> tuple[int | None, int]:
    """Returns the number of training images, None if unknown, and the bytes of images in memory.

    Image files are read one by one, and random images are in the formula.
    """
    import numpy as np

    from core.engine.data.images import find_training_images

    if options.data.train and not parse_synthetic(options.data.train):
        with contextlib.suppress(DataError):
            found = find_training_images(options)
            stored = [part.stored for part in (found.train, found.eval) if part]
            size = sum(pixels.nbytes for pixels in stored if isinstance(pixels, np.ndarray))
            return len(found.train), size
    return None, 0


# --- The forecast when a run starts, and its peak at the end


MAX_FIXES = 5
WHOLE_EPOCH = 0.999


def foretell(
    resolved: ResolvedRun, prepared: Prepared | None, known: Forecast | None
) -> MemoryForecast | None:
    """Returns the forecast of a run, with remedies in case it runs out of memory.

    The model is built again on the meta device: the loaded one may be quantized, or wrapped for LoRA. This draws random
    numbers, so a caller that depends on them sets the seed afterwards, as Trainer does.

    Args:
        prepared: Its model and data; None before they are loaded: the forecast is then for a batch of one short row.
        known: A forecast made before it started; None: it is computed.

    Returns:
        None if the model's architecture is unknown, or nothing is trained.
    """
    if resolved.options.only_evaluates:
        return None
    options = with_batch_within(resolved.options, len(prepared.train) if prepared else 1)
    if resolved.kind == "cpu":  # processes on other computers take none of this one's memory
        here = int(os.environ.get("LOCAL_WORLD_SIZE", options.device.processes))
        options = with_changes(options, {"device.processes": here})
    device = resolved.device
    model = check_model(options, len(prepared.labels)) if prepared else check_model(options)
    if model.shape is None:
        return None
    room = room_of(device, mps_limit=options.device.mps_memory_limit)
    if room is not None and resolved.kind == "cpu":  # as before this run's processes took their part
        held = psutil.Process().memory_info().rss * options.device.processes
        room = msgspec.structs.replace(room, free=min(room.ceiling, room.free + held))
    length = None
    if options.task.reads_text:
        length = max(lengths_of(prepared.train) or (), default=None) if prepared else 1
    correction = history.correction(history.taught_as(device, options))
    formula = estimate.forecast(options, model.shape, device, length=length, room=room, correction=correction)
    forecast = known or formula
    factor = formula.correction_to(forecast.parts.total)
    fixes = []
    for remedy in ladder(options, model, device, room, length=length, correction=factor):
        title = remedy.title
        if remedy.saves > 0:
            title = _("{remedy} (saves {size})").format(remedy=title, size=formats.memory(remedy.saves))
        if remedy.changes:
            fixes.append(Fix(title, remedy.changes))
    return MemoryForecast(
        device=resolved.label,
        basis=forecast.basis,
        parts=forecast.parts,
        room=room or forecast.room,
        correction=forecast.correction,
        length=length if forecast.length is None else forecast.length,
        fixes=tuple(fixes[:MAX_FIXES]),
    )


def refuse_too_large(forecast: MemoryForecast | None) -> None:
    """Refuses a run whose forecast exceeds the free memory.

    Raises:
        DoesntFit: The forecast is larger.
    """
    if forecast is not None and verdict(forecast.parts.total, forecast.room) is FitVerdict.TOO_LARGE:
        anyway = Fix(_("Start it anyway"), action=FixAction.RESUME)
        raise DoesntFit(
            _("It doesn't fit into memory"),
            formats.paragraph(*forecast_sentences(forecast, before=True)),
            (*forecast.fixes, anyway),
        )


def remember(status: RunStatus, resolved: ResolvedRun) -> None:
    """Stores the peak of a finished run, which corrects later forecasts on this device.

    A run of less than an epoch may not have met its longest batch, and is left out.
    """
    forecast, measured = status.forecast, status.measured_bytes
    if forecast is None or measured is None or status.epoch < WHOLE_EPOCH or status.forecast_error is None:
        return
    assert status.forecast_bytes is not None
    history.remember(
        history.PastRun(
            device=history.taught_as(resolved.device, resolved.options),
            basis=forecast.basis,
            forecast=status.forecast_bytes,
            measured=measured,
            correction=forecast.correction,
        )
    )

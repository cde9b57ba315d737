"""How batches are loaded, read from live runs: workers, their start, padding, order, and errors on their way back."""

import contextlib
import os
import pickle
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import tomli_w
import torch
from transformers import AutoTokenizer, DataCollatorWithPadding, Trainer

from core.base.errors import DataError, Fix
from core.base.processes import child_environment
from core.engine.data.batches import (
    PadTexts,
    SentCollator,
    SentSamples,
    pad_as,
    received,
    stack,
    start_method,
)
from core.engine.data.image_files import Images, ImageSet, ImageTransform
from core.engine.data.tables import lengths_of
from core.engine.training.samplers import live_loader
from core.options.choices import Augmentation, Padding, Task, Toggle
from core.runs.event_log import EventReader
from core.runs.events import WhatRan
from core.runs.folder import RunFolder
from tests.fakes.models import (
    instructions,
    pairs,
    save_tiny_bert,
    save_tiny_talker,
    save_tiny_vision,
    write_json,
)
from tests.fakes.training import TinyRun, built, run_options, train, write_data, write_reviews


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert") / "model")


@pytest.fixture(scope="module")
def plain(bert, tmp_path_factory):
    return text_run(bert, tmp_path_factory.mktemp("plain") / "run")


def text_run(bert: Path, folder: Path, **changes: Any) -> TinyRun:
    rows = write_reviews(folder.with_suffix(".csv"), rows=32)
    run = train(folder, source=bert, train=rows, batch_size=4, max_steps=6, predictions=0, **changes)
    assert run.status == 0, run.messages
    return run


def losses(run: TinyRun) -> list[float | None]:
    return [step.loss for step in run.steps]


def widths(run: TinyRun) -> set[int]:
    return {batch["input_ids"].shape[1] for batch in run.trainer.get_train_dataloader()}


# --- Workers


def test_no_system_forks_a_process_with_threads():
    systems = ("Linux", "Darwin", "Windows", "FreeBSD")
    assert [start_method(system) for system in systems] == ["forkserver", "spawn", "spawn", "spawn"]


def test_workers_are_processes_that_load_the_same_and_end_with_the_run(bert, plain, tmp_path):
    run = text_run(bert, tmp_path / "run", workers=2, prefetch=3)
    workers = run.what_ran.workers
    assert len(set(workers) - {os.getpid()}) == 2
    assert run.what_ran.worker_start == start_method(platform.system())
    assert run.trainer.callback_handler.train_dataloader.prefetch_factor == 3
    assert plain.what_ran.workers == ()
    assert losses(run) == losses(plain)
    left = [psutil.Process(pid) for pid in workers if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(left, timeout=60)
    assert not alive


def test_workers_augment_images_as_the_engine_does_anew_in_each_epoch(tmp_path):
    source = save_tiny_vision(tmp_path / "vit")
    alone, by_workers = (
        train(
            tmp_path / str(workers),
            task=Task.IMAGE_CLASSIFICATION,
            source=source,
            train="builtin:digits",
            max_train_samples=16,
            image_size=32,
            augmentation=Augmentation.STRONG,
            horizontal_flip=True,
            batch_size=4,
            epochs=2.0,
            workers=workers,
        )
        for workers in (0, 2)
    )
    assert losses(by_workers) == losses(alone)
    assert len(losses(alone)) == 8
    assert by_workers.what_ran.augmentation == "strong, horizontal flips"
    loader = alone.trainer.get_train_dataloader()
    for epoch in range(2):
        loader.set_epoch(epoch)
        assert {number for batch in live_loader(loader).batch_sampler for number, _ in batch} == {epoch}


def test_an_error_in_a_worker_comes_back_whole(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no image")
    images = Images(["a"], [tmp_path / "broken.png"])
    samples = SentSamples(ImageSet(images, [0], [0], ImageTransform(32)))
    samples, collator = pickle.loads(pickle.dumps((samples, SentCollator(stack))))
    back = pickle.loads(pickle.dumps(collator(samples.__getitems__([0]))))
    with pytest.raises(DataError, match=r"broken.png can't be read as an image") as caught:
        received(back)
    assert caught.value.fixes == (Fix("Remove or replace these images"),)


@pytest.mark.long
def test_workers_end_with_a_killed_engine_and_print_nothing_in_its_answers(bert, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    tree = {
        "task": "text-classification",
        "model": {"source": str(bert)},
        "data": {"train": "synthetic:512x8", "workers": 2},
        "device": {"name": "cpu"},
        "training": {"epochs": 10_000},
    }
    (folder / "run.toml").write_text(tomli_w.dumps({"schema": 1, **tree}))
    command = [sys.executable, "-P", "-m", "core.engine", "train", str(folder)]
    with (tmp_path / "log.txt").open("wb") as log:
        engine = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=child_environment())
    try:
        workers = [psutil.Process(pid) for pid in first_what_ran(folder, engine).workers]
    finally:
        engine.kill()
        answers, _ = engine.communicate()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert (len(workers), alive, answers) == (2, [], b"")


def first_what_ran(folder: Path, engine: subprocess.Popen[bytes]) -> WhatRan:
    events = EventReader(RunFolder(folder).events_file)
    while engine.poll() is None:
        for event in events.read():
            if isinstance(event, WhatRan):
                return event
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(0.1)
    raise AssertionError("the engine ended before its first step")


# --- Padding


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("length", "multiple"), [(None, 1), (9, 1), (None, 8)])
def test_padded_batches_are_those_of_transformers(bert, side, length, multiple):
    samples = [
        {"input_ids": [2, 5, 3], "token_type_ids": [0, 0, 1], "attention_mask": [1, 1, 1], "labels": 1},
        {"input_ids": [2, 5, 6, 7, 3], "token_type_ids": [0] * 5, "attention_mask": [1] * 5, "labels": 0},
    ]
    tokenizer = AutoTokenizer.from_pretrained(bert, padding_side=side)
    padding: dict[str, Any] = {"padding": "max_length" if length else True, "max_length": length}
    theirs = DataCollatorWithPadding(tokenizer, **padding, pad_to_multiple_of=None if length else multiple)
    expected = theirs([dict(sample) for sample in samples])
    ours = pad_as(tokenizer, length, multiple=multiple, most=512)(samples)
    assert ours.keys() == expected.keys()
    for name, values in ours.items():
        assert values.dtype == expected[name].dtype
        assert values.tolist() == expected[name].tolist()


def test_a_batch_is_as_long_as_its_longest_or_as_fixed_with_the_same_losses(bert, plain, tmp_path):
    fixed = text_run(bert, tmp_path / "run", padding=Padding.FIXED)
    assert (plain.what_ran.padded_to, fixed.what_ran.padded_to) == ("each batch's longest", "32 tokens")
    assert max(widths(plain)) < 16
    assert widths(fixed) == {32}
    assert losses(fixed) == pytest.approx(losses(plain), rel=1e-5)


def test_a_row_is_not_padded_beyond_the_maximum_length_nor_cut_to_it():
    samples = [{"input_ids": [5] * length} for length in (3, 70)]
    widths = {
        most: PadTexts(0, multiple=64, most=most)(samples)["input_ids"].shape[1] for most in (60, 100, 512)
    }
    assert widths == {60: 70, 100: 100, 512: 128}


TEXTS = (Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION)


@pytest.mark.parametrize("task", [*TEXTS, Task.CHAT, Task.PREFERENCE])
def test_padding_to_a_multiple_changes_neither_loss_nor_gradients(bert, tmp_path, task):
    talker = save_tiny_talker(tmp_path / "talker")
    data: Any = {
        Task.TEXT_CLASSIFICATION: lambda: write_reviews(tmp_path / "reviews.csv", rows=8),
        Task.CHAT: lambda: write_json(tmp_path / "chat.json", instructions(8)),
        Task.PREFERENCE: lambda: write_json(tmp_path / "pairs.json", pairs(8)),
    }
    train = data.get(task, lambda: write_data(tmp_path, task, 8))()
    found = []
    for multiple in (1, 64):
        source = bert if task in TEXTS else talker
        asked = run_options(task, source=source, train=train, max_length=256, pad_to_multiple_of=multiple)
        torch.manual_seed(7)
        trainer = built(asked, tmp_path)
        trainer.model.eval()  # dropout would draw other numbers for another shape
        batch = next(iter(trainer.get_train_dataloader()))
        loss = trainer.compute_loss(trainer.model, batch)
        loss.backward()
        found.append(
            (batch["input_ids"].shape[1], loss.item(), [part.grad for part in trainer.model.parameters()])
        )
    (width, loss, gradients), (padded_width, padded_loss, padded_gradients) = found
    assert width % 64
    assert padded_width == -(-width // 64) * 64
    assert padded_loss == pytest.approx(loss, rel=1e-5)
    for gradient, padded_gradient in zip(gradients, padded_gradients, strict=True):
        if gradient is not None:
            torch.testing.assert_close(padded_gradient, gradient, rtol=1e-3, atol=1e-6)


def test_what_ran_names_the_multiple(bert, plain, tmp_path):
    run = text_run(bert, tmp_path / "run", pad_to_multiple_of=16)
    assert run.what_ran.padded_to == "each batch's longest, to multiples of 16"
    assert widths(run) == {16}
    assert losses(run) == pytest.approx(losses(plain), rel=1e-5)


# --- Grouping by length


def spread(run: TinyRun) -> int:
    """By how much the lengths of the texts in a batch differ, summed over all batches."""
    lengths = lengths_of(run.trainer.train_dataset)
    assert lengths is not None
    order = [lengths[row] for row in run.trainer._get_train_sampler()]
    batches = [order[at : at + 4] for at in range(0, len(order), 4)]
    return sum(max(batch) - min(batch) for batch in batches)


def test_texts_of_similar_length_share_a_batch_in_trainers_own_order(bert, plain, tmp_path):
    grouped = text_run(bert, tmp_path / "run", group_by_length=Toggle.ON)
    assert (grouped.what_ran.sampling, plain.what_ran.sampling) == ("grouped by length", "random")
    assert spread(grouped) < spread(plain)
    torch.manual_seed(7)
    ours = list(grouped.trainer._get_train_sampler())
    torch.manual_seed(7)
    assert ours == list(Trainer._get_train_sampler(grouped.trainer))


def test_lengths_are_those_of_a_selection():
    from datasets import Dataset

    texts = Dataset.from_dict({"input_ids": [[1], [1, 2], [1, 2, 3]]})
    assert lengths_of(texts) == [1, 2, 3]
    assert lengths_of(texts.select([2, 0])) == [3, 1]
    assert lengths_of([{"input_ids": [1]}]) is None
    assert lengths_of(Dataset.from_dict({"pixel_values": [[1]]})) is None


# --- Memory that is given back


def test_the_cache_of_a_gpu_is_emptied_every_so_many_steps(bert, tmp_path, monkeypatch):
    steps: list[int] = []
    rows = write_reviews(tmp_path / "reviews.csv", rows=32)
    trainer = built(run_options(source=bert, train=rows, batch_size=4, max_steps=6), tmp_path)
    trainer.args.torch_empty_cache_steps = 2  # refused on a CPU
    monkeypatch.setattr(
        "transformers.trainer.clear_device_cache", lambda: steps.append(trainer.state.global_step)
    )
    trainer.train()
    assert steps == [0, 2, 4]

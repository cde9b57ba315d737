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

from core.base.errors import DataError, Fix
from core.base.processes import child_environment
from core.engine.data.batches import (
    SentCollator,
    SentSamples,
    pad_as,
    received,
    stack,
    start_method,
)
from core.engine.data.image_files import Images, ImageSet, ImageTransform
from core.engine.data.tables import lengths_of
from core.options.choices import Padding, Toggle
from core.options.sections import MemoryOptions, OutputOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import WhatRan
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TinyRun, model, reviews, train, write_reviews

NOTHING_KEPT = OutputOptions(keep_checkpoints=0)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert") / "model")


@pytest.fixture(scope="module")
def with_workers(bert, tmp_path_factory):
    """One run with two workers: each of them imports torch before its first batch."""
    return text_run(bert, tmp_path_factory.mktemp("workers") / "run", steps=6, workers=2, prefetch=3)


@pytest.fixture(scope="module")
def plain(bert, tmp_path_factory):
    """One run without workers, padded as Hone chooses."""
    return text_run(bert, tmp_path_factory.mktemp("plain") / "run", steps=6)


def text_run(bert: Path, folder: Path, *, steps: int = 2, accumulation: int = 1, **data: Any) -> TinyRun:
    run = train(
        folder,
        model=model(bert),
        data=reviews(write_reviews(folder.with_suffix(".csv"), rows=32), **data),
        memory=MemoryOptions(batch_size=4, gradient_accumulation_steps=accumulation),
        training=TrainingOptions(max_steps=steps, learning_rate=1e-3),
        output=NOTHING_KEPT,
    )
    assert run.status == 0, run.messages
    return run


class TestWorkers:
    @pytest.mark.parametrize(
        ("system", "method"),
        [("Linux", "forkserver"), ("Darwin", "spawn"), ("Windows", "spawn"), ("FreeBSD", "spawn")],
    )
    def test_no_system_forks_a_process_with_threads(self, system, method):
        assert start_method(system) == method

    def test_texts_come_from_processes_of_their_own(self, with_workers):
        ran = with_workers.what_ran
        assert len(set(ran.workers)) == 2
        assert os.getpid() not in ran.workers
        assert ran.worker_start == start_method(platform.system())
        assert with_workers.trainer.callback_handler.train_dataloader.prefetch_factor == 3

    def test_with_workers_the_losses_are_those_without(self, plain, with_workers):
        assert plain.what_ran.workers == ()
        assert [step.loss for step in with_workers.steps] == [step.loss for step in plain.steps]

    def test_none_is_left_after_the_run(self, with_workers):
        pids = with_workers.what_ran.workers
        assert pids
        left = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        _, alive = psutil.wait_procs(left, timeout=60)
        assert not alive


class TestOnTheWay:
    def test_an_error_comes_back_whole(self, tmp_path):
        (tmp_path / "broken.png").write_bytes(b"no image")
        images = Images(["a"], [tmp_path / "broken.png"])
        samples = SentSamples(ImageSet(images, [0], [0], ImageTransform(32)))
        there = pickle.loads(pickle.dumps((samples, SentCollator(stack))))
        back = pickle.loads(pickle.dumps(there[1](there[0].__getitems__([0]))))
        with pytest.raises(DataError) as caught:
            received(back)
        assert caught.value.title == "broken.png can't be read as an image"
        assert caught.value.fixes == (Fix("Remove or replace these images"),)


class TestPadding:
    SAMPLES = (
        {"input_ids": [2, 5, 3], "token_type_ids": [0, 0, 1], "attention_mask": [1, 1, 1], "labels": 1},
        {"input_ids": [2, 5, 6, 7, 3], "token_type_ids": [0] * 5, "attention_mask": [1] * 5, "labels": 0},
    )

    @pytest.mark.parametrize("side", ["left", "right"])
    @pytest.mark.parametrize("length", [None, 9])
    def test_batches_are_those_of_transformers(self, bert, side, length):
        from transformers import AutoTokenizer, DataCollatorWithPadding

        tokenizer = AutoTokenizer.from_pretrained(bert, padding_side=side)
        theirs = DataCollatorWithPadding(
            tokenizer, padding="max_length" if length else True, max_length=length
        )
        expected = theirs([dict(sample) for sample in self.SAMPLES])
        ours = pad_as(tokenizer, length)(list(self.SAMPLES))
        assert set(ours) == set(expected)
        for name, values in ours.items():
            assert values.dtype == expected[name].dtype
            assert values.tolist() == expected[name].tolist()

    def test_a_batch_is_as_long_as_its_longest(self, plain):
        widths = {batch["input_ids"].shape[1] for batch in plain.trainer.get_train_dataloader()}
        assert plain.what_ran.padded_to == "each batch's longest"
        assert max(widths) < 16

    def test_every_row_has_the_length_that_was_fixed_and_no_other_loss(self, bert, plain, tmp_path):
        run = text_run(bert, tmp_path / "run", steps=6, padding=Padding.FIXED, group_by_length=Toggle.OFF)
        widths = {batch["input_ids"].shape[1] for batch in run.trainer.get_train_dataloader()}
        assert run.what_ran.padded_to == "32 tokens"
        assert widths == {32}
        fixed, dynamic = ([step.loss for step in tiny.steps] for tiny in (run, plain))
        assert fixed == pytest.approx(dynamic, rel=1e-5)
        assert len(set(fixed)) == 6


class TestGrouping:
    def spreads(self, run: TinyRun, together: int) -> list[int]:
        """By how much the lengths of `together` texts taken one after another differ."""
        lengths = lengths_of(run.trainer.train_dataset)
        assert lengths is not None
        order = list(run.trainer.get_train_dataloader().batch_sampler.sampler)
        chunks = [order[at : at + together] for at in range(0, len(order), together)]
        return [max(lengths[i] for i in chunk) - min(lengths[i] for i in chunk) for chunk in chunks]

    def test_texts_of_like_length_share_a_batch(self, bert, tmp_path):
        torch.manual_seed(0)
        grouped = text_run(bert, tmp_path / "grouped", group_by_length=Toggle.ON)
        mixed = text_run(bert, tmp_path / "mixed", group_by_length=Toggle.OFF)
        assert (grouped.what_ran.sampling, mixed.what_ran.sampling) == ("grouped by length", "random")
        assert sum(self.spreads(grouped, 4)) < sum(self.spreads(mixed, 4))

    def test_the_order_is_that_of_trainer(self, bert, tmp_path):
        from transformers import Trainer

        trainer = text_run(bert, tmp_path / "run", group_by_length=Toggle.ON).trainer
        torch.manual_seed(7)
        ours = list(trainer._get_train_sampler())
        torch.manual_seed(7)
        assert ours == list(Trainer._get_train_sampler(trainer))

    def test_lengths_heed_a_selection(self):
        from datasets import Dataset

        texts = Dataset.from_dict({"input_ids": [[1], [1, 2], [1, 2, 3]]})
        assert lengths_of(texts) == [1, 2, 3]
        assert lengths_of(texts.select([2, 0])) == [3, 1]
        assert lengths_of([{"input_ids": [1]}]) is None
        assert lengths_of(Dataset.from_dict({"pixel_values": [[1]]})) is None


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
    assert len(workers) == 2
    assert not alive
    assert answers == b""


def first_what_ran(folder: Path, engine: subprocess.Popen[bytes]) -> WhatRan:
    events = EventReader(RunFolder(folder).events_file)
    while engine.poll() is None:
        for event in events.read():
            if isinstance(event, WhatRan):
                return event
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(0.1)
    raise AssertionError("the engine ended before its first step")

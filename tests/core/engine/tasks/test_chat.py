"""Chat: what is learned, what is not, and what a run of it leaves behind."""

import json
import math
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from core.base.errors import DataError, ModelError
from core.engine.environment import prepare_torchvision
from core.options.choices import Method, Padding, Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import CheckpointSaved, Evaluated, MessageRaised, Outcome, RunFinished
from core.runs.folder import Action
from tests.fakes.models import instructions, save_tiny_bert, save_tiny_talker, write_json
from tests.fakes.training import asked, built, inputs_of, prepared, train

prepare_torchvision()

ROWS = 40
ONE_THREAD = DeviceOptions(name="cpu", precision=Precision.FP32, threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model without a chat template, and questions with answers."""
    folder = tmp_path_factory.mktemp("chat")
    save_tiny_talker(folder / "writer")
    write_json(folder / "talks.json", instructions(ROWS))
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def sentences(tokenizer: Any, row: torch.Tensor, labels: torch.Tensor) -> list[str]:
    """What the learned tokens of a row say, stretch by stretch."""
    found: list[list[int]] = []
    for place, label in enumerate(labels.tolist()):
        if label == -100:
            continue
        assert label == row[place]
        if not place or labels[place - 1] == -100:
            found.append([])
        found[-1].append(label)
    return [tokenizer.decode(tokens) for tokens in found]


class TestOneRun:
    """A run with LoRA, its eyes open: what it evaluates, saves, says and sends."""

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, folder, tmp_path_factory):
        called: list[Any] = []
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("HONE_HOME", str(tmp_path_factory.mktemp("home")))
            patched.delenv("HF_HUB_DISABLE_TELEMETRY", raising=False)
            patched.delenv("CI", raising=False)
            patched.setattr(socket.socket, "connect", lambda _self, where: called.append(where))
            found = train(
                tmp_path_factory.mktemp("run") / "run",
                task=Task.CHAT,
                model=ModelOptions(source=str(folder / "writer"), method=Method.LORA),
                data=DataOptions(train=str(folder / "talks.json"), max_length=128, eval_fraction=0.2),
                device=ONE_THREAD,
                memory=MemoryOptions(batch_size=4, gradient_accumulation_steps=2),
                training=TrainingOptions(epochs=2.0, learning_rate=1e-2),
                output=OutputOptions(predictions=0),
            )
        return found, called

    def test_it_ends_well_and_learns(self, run):
        found, _ = run
        assert found.status == 0, found.messages
        losses = [step.loss for step in found.steps]
        assert len(losses) == 8
        assert losses[-1] < losses[0]
        assert all(step.grad_norm and step.tokens for step in found.steps)

    def test_what_ran_is_seen(self, run):
        ran = run[0].what_ran
        assert (ran.effective_batch, ran.attention, ran.padded_to) == (8, "sdpa", "each batch's longest")
        assert ran.adapter.startswith("LoRA")
        assert ran.sampling == "grouped by length"

    def test_the_loss_is_that_of_a_token_of_the_held_out_answers(self, run):
        """Computed once more, row by row, as transformers does it."""
        found, _ = run
        told = [event for event in found.events if isinstance(event, Evaluated)][-1].metrics
        trainer, total, right, tokens = found.trainer, 0.0, 0, 0
        model = trainer.model.eval()
        for sample in trainer.eval_dataset:
            ids, labels = (torch.tensor([sample[name]]) for name in ("input_ids", "labels"))
            with torch.no_grad():
                logits = model(input_ids=ids).logits[0, :-1]
            learned = labels[0, 1:] != -100
            total += torch.nn.functional.cross_entropy(
                logits[learned], labels[0, 1:][learned], reduction="sum"
            ).item()
            right += int((logits.argmax(-1) == labels[0, 1:])[learned].sum())
            tokens += int(learned.sum())
        assert told["eval_loss"] == pytest.approx(total / tokens, rel=1e-4)
        assert told["eval_perplexity"] == pytest.approx(math.exp(total / tokens), rel=1e-3)
        assert told["eval_token_accuracy"] == pytest.approx(right / tokens)
        assert set(told) == {"eval_loss", "eval_perplexity", "eval_token_accuracy"}

    def test_template_and_end_of_turn_are_saved_with_the_model(self, run):
        from transformers import AutoTokenizer

        folder = run[0].run.model
        tokenizer = AutoTokenizer.from_pretrained(folder)
        assert "<|im_start|>" in tokenizer.chat_template
        stops = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
        assert stops == tokenizer.eos_token_id
        rendered = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
        assert rendered == "<|im_start|>user\nhi<|im_end|>\n"

    def test_checkpoints_are_complete_and_nothing_else_is_written(self, run):
        found, _ = run
        files = {path.name for path in found.run.path.rglob("*") if path.is_file()}
        assert not files & {"README.md", "training_args.bin"}
        assert (found.run.checkpoints / "checkpoint-8" / "complete.json").is_file()
        assert any(isinstance(event, CheckpointSaved) for event in found.events)

    def test_nothing_is_sent(self, run):
        assert run[1] == []


@pytest.mark.parametrize("packing", [False, True])
def test_the_model_learns_answers_and_nothing_else(folder, tmp_path, packing):
    trainer = built(asked(folder, packing=packing), tmp_path)
    seen = inputs_of(trainer)
    trainer.train()
    answers = [
        sentence
        for given in seen
        for row, labels in zip(given["input_ids"], given["labels"], strict=True)
        for sentence in sentences(trainer.processing_class, row, labels)
    ]
    expected = [f"{row['output']}<|im_end|><|endoftext|>" for row in instructions(ROWS)]
    assert sorted(answers) == sorted(expected)
    assert ("position_ids" in seen[0]) is packing is not ("attention_mask" in seen[0])


def test_packed_rows_hold_several_conversations_that_do_not_see_each_other(folder, tmp_path):
    """Each conversation of a packed batch has the very logits it has alone."""
    trainer = built(asked(folder, packing=True), tmp_path)
    batch = next(iter(trainer.get_train_dataloader()))
    starts = [(row, place) for row, place in (batch["position_ids"] == 0).nonzero().tolist()]
    lengths = [length for row in trainer.train_dataset["seq_lengths"] for length in row]
    assert sum(lengths) == sum(map(len, trainer.train_dataset["input_ids"]))
    assert len(trainer.train_dataset) < ROWS == len(lengths)
    model = trainer.model.eval()
    with torch.no_grad():
        together = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"]).logits
        row, place = next(start for start in starts if start[1] > 0)
        later = [other for index, other in starts if index == row and other > place]
        stretch = batch["input_ids"][row, place : min(later, default=None)]
        alone = model(input_ids=stretch[None]).logits[0]
    torch.testing.assert_close(together[row, place : place + len(stretch)], alone, rtol=1e-4, atol=1e-5)


def test_a_model_whose_rows_are_not_told_apart_is_found_out(folder):
    from types import SimpleNamespace

    from transformers import AutoModelForCausalLM

    from core.engine.models.text import leaks_between_packed

    class Running(torch.nn.Module):
        """Adds up all that came before, wherever a conversation begins."""

        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(10, 4)

        def forward(self, input_ids: torch.Tensor, **_more: Any) -> Any:
            return SimpleNamespace(logits=self.table(input_ids).cumsum(1))

    assert leaks_between_packed(Running())
    model = AutoModelForCausalLM.from_pretrained(folder / "writer")
    assert not leaks_between_packed(model.train())
    assert model.training


def test_accumulated_batches_take_the_step_of_one_large_batch(folder, tmp_path):
    """Answers differ in length, so that a mean of means would be another."""
    ends = []
    for size, steps in ((8, 1), (2, 4)):
        memory = MemoryOptions(batch_size=size, gradient_accumulation_steps=steps)
        training = TrainingOptions(max_steps=2, learning_rate=1e-2, optimizer="sgd", max_grad_norm=0.0)
        trainer = built(asked(folder, memory=memory, training=training, group_by_length=Toggle.OFF), tmp_path)
        trainer.train()
        ends.append({name: weight.clone() for name, weight in trainer.model.named_parameters()})
    for name, weight in ends[0].items():
        torch.testing.assert_close(ends[1][name], weight, rtol=1e-4, atol=1e-6)

    def test_rows_of_fixed_length(self, folder):
        found = prepared(asked(folder, padding=Padding.FIXED))
        batch = found.collator([found.train[0], found.train[1]])
        assert {tuple(tensor.shape) for tensor in batch.values()} == {(2, 128)}
        assert batch["attention_mask"].sum() == sum(len(found.train[row]["input_ids"]) for row in (0, 1))


@pytest.mark.parametrize(
    ("method", "device", "recomputes"),
    [
        (Method.LORA, DeviceOptions(name="cpu", precision=Precision.BF16, threads=1), True),
        (Method.QLORA, DeviceOptions(name="cpu", precision=Precision.BF16, threads=1), True),
        (Method.FULL, ONE_THREAD, True),
    ],
)
def test_methods_and_precisions(folder, tmp_path, method, device, recomputes):
    if method is Method.QLORA:
        pytest.importorskip("bitsandbytes")
    memory = MemoryOptions(batch_size=4, activation_checkpointing=recomputes)
    trainer = built(asked(folder, method=method, device=device, memory=memory), tmp_path)
    before = trainer.evaluate(trainer.train_dataset)["eval_loss"]
    trainer.train()
    assert trainer.evaluate(trainer.train_dataset)["eval_loss"] < before
    assert trainer.first_batch.recomputed == 2
    half = device.precision is Precision.BF16
    assert trainer.first_batch.autocast_dtype == ("bfloat16" if half else None)
    learning = [weight for weight in trainer.model.parameters() if weight.requires_grad]
    assert {weight.dtype for weight in learning} == {torch.float32}


def test_a_stop_is_heeded_after_a_step(folder, tmp_path):
    from core.engine.reporter import Reporter
    from core.engine.training.callbacks import RequestCallback
    from core.engine.training.requests import RequestBox
    from core.runs.folder import RunFolder

    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    trainer = built(asked(folder), run.checkpoints)
    reporter = Reporter(run)
    requests = RequestBox(run, reporter, lambda: 0.0)
    trainer.add_callback(RequestCallback(requests, trainer, reporter))
    run.request(Action.STOP)
    trainer.train()
    assert trainer.state.global_step == 1


def test_a_model_from_scratch_is_timed_on_random_conversations(folder):
    random = asked(folder, train="synthetic:4x32")
    scratch = ModelOptions(source="scratch:llama-tiny", vocabulary=320)
    found = prepared(msgspec.structs.replace(random, model=scratch))
    tokenizer = found.processing_class
    assert tokenizer.tokenize("Count") == list("Count"), "bytes alone"
    assert tokenizer.decode(tokenizer("<|im_start|>")["input_ids"]) == "<|im_start|>", "a token of its own"
    assert [len(row["input_ids"]) for row in found.train] == [32] * 4
    assert found.model.generation_config.eos_token_id == tokenizer.eos_token_id


class TestBadInput:
    def refused(self, folder: Path, **more: Any) -> DataError:
        with pytest.raises(DataError) as raised:
            prepared(asked(folder, **more))
        return raised.value

    def test_an_encoder_is_not_asked_to_chat(self, folder, tmp_path):
        save_tiny_bert(tmp_path / "writer")
        write_json(tmp_path / "talks.json", instructions(4))
        with pytest.raises(ModelError, match="can't be trained for"):
            prepared(asked(tmp_path))

    def test_all_rows_longer_than_the_model_sees(self, folder, tmp_path):
        save_tiny_talker(tmp_path / "writer", max_position_embeddings=16)
        write_json(tmp_path / "talks.json", instructions(4))
        assert [fix.label for fix in self.refused(tmp_path).fixes] == ["Choose a model with a longer context"]

    def test_answers_that_are_cut_off_are_told_with_a_way_to_keep_them(self, folder, tmp_path):
        from core.engine.reporter import Reporter
        from core.engine.training.train import prepare
        from core.runs.folder import RunFolder

        run = RunFolder(tmp_path)
        prepare(asked(folder, max_length=60), Reporter(run))
        raised = [
            event for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)
        ]
        [told] = [event for event in raised if "cut off" in event.title]
        assert [fix.changes for fix in told.fixes] == [{"data.max_length": 120}]

    def test_evaluation_data_of_another_kind(self, folder, tmp_path):
        other = write_json(tmp_path / "other.json", [{"number": row} for row in range(4)])
        error = self.refused(folder, eval=str(other))
        assert "other.json" in error.title
        assert {"data.eval": None} in [fix.changes for fix in error.fixes]


def test_a_run_that_is_refused_says_so_and_leaves_nothing(folder, tmp_path):
    found = train(
        tmp_path / "run",
        task=Task.CHAT,
        model=ModelOptions(source=str(folder / "writer")),
        data=DataOptions(train=str(folder / "talks.json"), max_length=16),
        device=ONE_THREAD,
    )
    assert found.status == 1
    ended = [event for event in found.events if isinstance(event, RunFinished)]
    assert [event.state for event in ended] == [Outcome.FAILED]
    assert {path.name for path in found.run.path.iterdir()} == {"events.jsonl"}

"""Preferences: which of two answers becomes likelier, against what the model was, and what a run leaves behind."""

import math
import socket
from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.options import RunOptions
from core.options.choices import Method, Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs.events import Evaluated
from tests.fakes.models import pairs, save_tiny_talker, write_json
from tests.fakes.training import built, inputs_of, options, train

prepare_torchvision()

ROWS = 24
ONE_THREAD = DeviceOptions(name="cpu", precision=Precision.FP32, threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preference")
    save_tiny_talker(folder / "writer")
    write_json(folder / "pairs.json", pairs(ROWS))
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def asked(folder: Path, method: Method = Method.LORA, **more: Any) -> RunOptions:
    sections = {name: more.pop(name) for name in ("memory", "training", "device") if name in more}
    model = ModelOptions(source=str(folder / "writer"), method=method, **more.pop("model", {}))
    data = {"train": str(folder / "pairs.json"), "max_length": 128, "eval_fraction": 0.0, **more}
    return options(Task.PREFERENCE, model, DataOptions(**data), **sections)


class TestOneRun:
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
                task=Task.PREFERENCE,
                model=ModelOptions(source=str(folder / "writer"), method=Method.LORA),
                data=DataOptions(train=str(folder / "pairs.json"), max_length=128, eval_fraction=0.2),
                device=ONE_THREAD,
                memory=MemoryOptions(batch_size=3, gradient_accumulation_steps=2),
                training=TrainingOptions(epochs=2.0, learning_rate=1e-2),
                output=OutputOptions(predictions=0),
            )
        return found, called

    def test_it_begins_at_chance_and_learns(self, run):
        found, _ = run
        assert found.status == 0, found.messages
        losses = [step.loss for step in found.steps]
        assert losses[0] == pytest.approx(math.log(2), rel=1e-4), "nothing has moved yet"
        assert losses[-1] is not None
        assert losses[-1] < 0.6
        assert found.what_ran.effective_batch == 6, "pairs, not rows"
        assert [step.samples for step in found.steps] == [6, 6, 6, 1] * 2

    def test_the_metrics_are_those_of_each_pair_alone(self, run):
        """Against the model without its adapter, pair by pair, as DPO's paper has it (arXiv 2305.18290, equation 7)."""
        found, _ = run
        told = [event for event in found.events if isinstance(event, Evaluated)][-1].metrics
        trainer = found.trainer
        model, margins = trainer.model.eval(), []
        for pair in trainer.eval_dataset:
            rewards = []
            for answer in (pair["chosen_ids"], pair["rejected_ids"]):
                now = likelihood(model, pair["prompt_ids"], answer)
                with model.disable_adapter():
                    before = likelihood(model, pair["prompt_ids"], answer)
                rewards.append(0.1 * (now - before))
            margins.append(rewards[0] - rewards[1])
        count = len(margins)
        assert count == 5
        assert told["eval_reward_margin"] == pytest.approx(sum(margins) / count, rel=1e-3)
        assert told["eval_reward_accuracy"] == pytest.approx(sum(margin > 0 for margin in margins) / count)
        loss = sum(math.log1p(math.exp(-margin)) for margin in margins) / count
        assert told["eval_loss"] == pytest.approx(loss, rel=1e-3)
        assert set(told) == {"eval_loss", "eval_reward_accuracy", "eval_reward_margin"}

    def test_it_leaves_one_adapter_and_sends_nothing(self, run):
        found, called = run
        files = {path.name for path in found.run.path.rglob("*") if path.is_file()}
        assert not files & {"README.md", "training_args.bin"}
        assert [path.name for path in found.run.model.rglob("adapter_model.safetensors")] == [
            "adapter_model.safetensors"
        ]
        assert set(found.trainer.model.peft_config) == {"default"}
        assert "<|im_start|>" in (found.run.model / "chat_template.jinja").read_text()
        assert called == []


def likelihood(model: Any, prompt: list[int], answer: list[int]) -> float:
    """The logarithm of an answer's probability."""
    ids = torch.tensor([[*prompt, *answer]])
    with torch.no_grad():
        scores = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    return scores.gather(1, ids[0, 1:, None])[len(prompt) - 1 :].sum().item()


def test_prompts_carry_no_loss(folder, tmp_path):
    trainer = built(asked(folder), tmp_path)
    seen = inputs_of(trainer)
    trainer.train()
    decode = trainer.processing_class.decode
    answers = {decode(labels[labels != -100]) for given in seen for labels in given["labels"]}
    expected = {pair[side]["value"] for pair in pairs(ROWS) for side in ("chosen", "rejected")}
    assert answers == {f"{answer}<|im_end|><|endoftext|>" for answer in expected}
    prompts = {
        decode(row[labels == -100]).replace("<|endoftext|>", "")
        for given in seen
        for row, labels in zip(given["input_ids"], given["labels"], strict=True)
    }
    assert all(prompt.endswith("<|im_start|>assistant\n") for prompt in prompts)


def test_accumulated_batches_take_the_step_of_one_large_batch(folder, tmp_path):
    ends = []
    for size, steps in ((8, 1), (2, 4)):
        memory = MemoryOptions(batch_size=size, gradient_accumulation_steps=steps)
        training = TrainingOptions(max_steps=2, learning_rate=1e-2, optimizer="sgd", max_grad_norm=0.0)
        plain = {"lora_dropout": 0.0}
        trainer = built(
            asked(folder, memory=memory, training=training, model=plain, group_by_length=Toggle.OFF), tmp_path
        )
        trainer.train()
        ends.append({name: weight.clone() for name, weight in trainer.model.named_parameters()})
    for name, weight in ends[0].items():
        torch.testing.assert_close(ends[1][name], weight, rtol=1e-4, atol=1e-6)


def test_beta_holds_the_model_closer_to_what_it_was(folder, tmp_path):
    """The same distance from the reference is worth more reward."""
    margins = []
    for beta in (0.1, 0.5):
        training = TrainingOptions(max_steps=2, learning_rate=1e-2, beta=beta)
        trainer = built(asked(folder, training=training), tmp_path)
        assert trainer.beta == beta
        trainer.train()
        margins.append(trainer.evaluate(trainer.train_dataset)["eval_reward_margin"])
    assert margins[1] > 2 * margins[0]


def test_where_all_weights_move_a_copy_stays_as_it_was(folder, tmp_path):
    trainer = built(asked(folder, Method.FULL), tmp_path)
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    trainer.train()
    for name, weight in trainer.ref_model.state_dict().items():
        assert torch.equal(weight, before[name])
    moved = trainer.model.state_dict()
    assert any(not torch.equal(moved[name], weight) for name, weight in before.items())
    assert not any(
        weight.requires_grad and weight.grad is not None for weight in trainer.ref_model.parameters()
    )


def test_only_loras_own_dropout_is_left(folder, tmp_path):
    trainer = built(asked(folder, model={"lora_dropout": 0.25}), tmp_path)
    rates = {
        ("lora_dropout" in name, part.p)
        for name, part in trainer.model.named_modules()
        if isinstance(part, torch.nn.Dropout)
    }
    assert (True, 0.25) in rates
    assert rates <= {(True, 0.25), (False, 0.0)}


@pytest.mark.parametrize("method", [Method.LORA, Method.QLORA])
def test_recomputed_in_half_precision(folder, tmp_path, method):
    if method is Method.QLORA:
        pytest.importorskip("bitsandbytes")
    device = DeviceOptions(name="cpu", precision=Precision.BF16, threads=1)
    memory = MemoryOptions(batch_size=4, activation_checkpointing=True)
    trainer = built(asked(folder, method, device=device, memory=memory), tmp_path)
    trainer.train()
    assert trainer.evaluate(trainer.train_dataset)["eval_loss"] < math.log(2)
    assert trainer.first_batch.recomputed == 2
    learning = [weight for weight in trainer.model.parameters() if weight.requires_grad]
    assert {weight.dtype for weight in learning} == {torch.float32}
    assert all(weight.grad_fn is None for weight in learning)

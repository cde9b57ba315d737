"""Which models Trainer 5.23 alone accumulates wrongly is found by asking them; see test_accumulated_models.py."""

from typing import Any

import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.engine.models.vision import VisionClassifier
from core.engine.training.trainer import fix_loss_scaling
from core.options.choices import Precision
from core.options.sections import DeviceOptions, MemoryOptions, TrainingOptions
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import model, train

prepare_torchvision()

from transformers import BertConfig, BertForSequenceClassification  # noqa: E402 - after torchvision is prepared

ASKED = {
    "device": DeviceOptions(name="cpu", precision=Precision.FP32),
    "memory": MemoryOptions(batch_size=4, gradient_accumulation_steps=2),
    "training": TrainingOptions(max_steps=1),
}


def test_bert_has_to_be_flagged_and_a_model_without_extra_arguments_not():
    sizes = {"vocab_size": 64, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    bert = BertForSequenceClassification(BertConfig(**sizes, num_hidden_layers=1))
    assert fix_loss_scaling(bert, {"input_ids": torch.ones(1, 6).long(), "labels": torch.tensor([1])})
    assert bert.accepts_loss_kwargs is False
    images = VisionClassifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2)))
    assert not fix_loss_scaling(images, {"pixel_values": torch.rand(1, 3, 4, 4), "labels": torch.tensor([1])})
    assert not hasattr(images, "accepts_loss_kwargs")


@pytest.mark.parametrize(("precision", "on"), [(Precision.BF16, True), (Precision.FP32, False)])
def test_the_model_is_asked_in_the_precision_it_trains_in(precision, on, tmp_path, monkeypatch):
    seen: list[bool] = []

    def watched(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
        with model.register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu"))):
            return fix_loss_scaling(model, batch)

    monkeypatch.setattr("core.engine.training.train.fix_loss_scaling", watched)
    device = DeviceOptions(name="cpu", precision=precision)
    bert = model(save_tiny_bert(tmp_path / "bert"))
    run = train(tmp_path / "run", model=bert, **{**ASKED, "device": device})
    assert run.status == 0
    assert seen == [on, on]


class Counted(torch.nn.Module):
    """Cross entropy of fixed logits: a sum divided by the items, or a mean."""

    def __init__(self, divides: bool) -> None:
        super().__init__()
        self.divides = divides

    def forward(self, labels: torch.Tensor, num_items_in_batch: int, **_: Any) -> dict[str, torch.Tensor]:
        logits = torch.eye(2).expand(*labels.shape, 2)
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, 2), labels.reshape(-1), reduction="sum" if self.divides else "mean"
        )
        return {"loss": loss / num_items_in_batch if self.divides else loss}


@pytest.mark.parametrize("labels", [[[0, 1]], [[-100, -100]]])
@pytest.mark.parametrize("divides", [True, False])
def test_a_sample_without_labels_says_the_same_as_one_with_some(divides, labels):
    assert fix_loss_scaling(Counted(divides), {"labels": torch.tensor(labels)}) is not divides


def test_the_model_is_asked_with_a_sample_that_has_labels(tmp_path, monkeypatch):
    seen: list[torch.Tensor] = []

    def watched(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
        seen.append(batch["labels"])
        return fix_loss_scaling(model, batch)

    monkeypatch.setattr("core.engine.training.train.fix_loss_scaling", watched)
    from core.engine.training import train as engine_train

    collator_for = engine_train.collator_for

    def without_first_label(*args: Any) -> Any:
        collate, calls = collator_for(*args), iter(range(10**6))

        def collated(samples: list[Any]) -> Any:
            batch = collate(samples)
            if next(calls) == 0:
                batch["labels"] = torch.full_like(batch["labels"], -100)
            return batch

        return collated

    monkeypatch.setattr(engine_train, "collator_for", without_first_label)
    run = train(tmp_path / "run", model=model(save_tiny_bert(tmp_path / "bert")), **ASKED)
    assert run.status == 0
    assert [bool((labels != -100).any()) for labels in seen] == [True]

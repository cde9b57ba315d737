"""Gradients of 4 batches of 2 must equal those of one batch of 8; Trainer 5.23 alone gets this wrong for Bert."""

from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.engine.models.vision import VisionClassifier
from core.engine.training.trainer import mend_loss_scaling
from core.options.choices import Precision
from core.options.sections import DeviceOptions, MemoryOptions, TrainingOptions
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import model, train

prepare_torchvision()

from transformers import (  # noqa: E402 - torchvision must be prepared first
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    Trainer,
    TrainingArguments,
)

SIZES = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def bert() -> torch.nn.Module:
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(**SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2)
    )


def llama() -> torch.nn.Module:
    torch.manual_seed(0)
    return LlamaForSequenceClassification(
        LlamaConfig(**SIZES, num_key_value_heads=2, pad_token_id=0, num_labels=2)
    )


def image_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return VisionClassifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2)))


def text_samples() -> list[dict[str, Any]]:
    drawn = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 64, (8, 6), generator=drawn)
    return [{"input_ids": row, "labels": torch.tensor(index % 2)} for index, row in enumerate(ids)]


def image_samples() -> list[dict[str, Any]]:
    drawn = torch.Generator().manual_seed(1)
    images = torch.rand((8, 3, 4, 4), generator=drawn)
    return [{"pixel_values": image, "labels": torch.tensor(index % 2)} for index, image in enumerate(images)]


def weights_after_one_step(
    model: torch.nn.Module, samples: list[dict[str, Any]], batch: int, steps: int, folder: Path
) -> torch.Tensor:
    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=steps,
        max_steps=1,
        learning_rate=0.1,
        optim="sgd",
        max_grad_norm=0.0,
        lr_scheduler_type="constant",
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        remove_unused_columns=False,
    )
    first = {name: value[None] for name, value in samples[0].items()}
    if steps > 1:
        mend_loss_scaling(model, first)
    Trainer(model=model, args=arguments, train_dataset=samples).train()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize(
    ("build", "samples"), [(bert, text_samples), (llama, text_samples), (image_model, image_samples)]
)
def test_accumulated_step_equals_one_large_batch(build: Any, samples: Any, tmp_path: Path) -> None:
    whole = weights_after_one_step(build(), samples(), batch=8, steps=1, folder=tmp_path)
    accumulated = weights_after_one_step(build(), samples(), batch=2, steps=4, folder=tmp_path)
    torch.testing.assert_close(accumulated, whole, rtol=1e-4, atol=1e-6)


def test_bert_needs_mending_and_says_so() -> None:
    model = bert()
    batch = {name: value[None] for name, value in text_samples()[0].items()}
    assert mend_loss_scaling(model, batch)
    assert model.accepts_loss_kwargs is False


@pytest.mark.parametrize(("precision", "on"), [(Precision.BF16, True), (Precision.FP32, False)])
def test_the_model_is_asked_in_the_precision_it_trains_in(
    precision: Precision, on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def watched(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
        with model.register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu"))):
            return mend_loss_scaling(model, batch)

    monkeypatch.setattr("core.engine.training.train.mend_loss_scaling", watched)
    run = train(
        tmp_path / "run",
        model=model(save_tiny_bert(tmp_path / "bert")),
        device=DeviceOptions(name="cpu", precision=precision),
        memory=MemoryOptions(batch_size=4, gradient_accumulation_steps=2),
        training=TrainingOptions(max_steps=1),
    )
    assert run.status == 0
    assert seen == [on, on]


def test_a_model_without_extra_arguments_is_left_alone() -> None:
    model = image_model()
    assert not mend_loss_scaling(model, {name: value[None] for name, value in image_samples()[0].items()})
    assert not hasattr(model, "accepts_loss_kwargs")


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
def test_a_sample_without_labels_says_the_same_as_one_with_some(
    divides: bool, labels: list[list[int]]
) -> None:
    assert mend_loss_scaling(Counted(divides), {"labels": torch.tensor(labels)}) is not divides


def test_the_model_is_asked_with_a_sample_that_has_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []

    def watched(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
        seen.append(batch["labels"])
        return mend_loss_scaling(model, batch)

    monkeypatch.setattr("core.engine.training.train.mend_loss_scaling", watched)
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
    run = train(
        tmp_path / "run",
        model=model(save_tiny_bert(tmp_path / "bert")),
        device=DeviceOptions(name="cpu"),
        memory=MemoryOptions(batch_size=4, gradient_accumulation_steps=2),
        training=TrainingOptions(max_steps=1),
    )
    assert run.status == 0
    assert [bool((labels != -100).any()) for labels in seen] == [True]

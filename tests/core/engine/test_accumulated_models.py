"""4 batches of 2 take the steps of one batch of 8, whatever the model, through Hone's own trainer and without dropout.

Models that normalise over the batch differ by nature and are not here (`ImageLimits.normalises_batch` tells them).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from core.choices import Optimizer, Precision, Schedule, Task, Toggle
from core.engine.data.batches import NO_LABEL, PadTexts, stack
from core.engine.devices import Choice
from core.engine.models.vision_models import load_vision_model
from core.engine.tasks import Prepared
from core.engine.torchvision_ops import prepare_torchvision
from core.options import (
    DataOptions,
    DeviceOptions,
    MemoryOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    TrainingOptions,
)

prepare_torchvision()

from transformers import (  # noqa: E402 - torchvision must be prepared first
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    LlamaForTokenClassification,
    TrainerCallback,
    default_data_collator,
)

LARGE, SMALL, LABELS = 8, 2, 3
ROWS = 2 * LARGE
LENGTH, VOCABULARY, PIXELS = 6, 64, 63


def bert_config(**more: Any) -> BertConfig:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertConfig(**{"vocab_size": VOCABULARY, **sizes, **dropout, "num_labels": LABELS, **more})


def bert() -> torch.nn.Module:
    return BertForSequenceClassification(bert_config())


def bert_of_numbers() -> torch.nn.Module:
    return BertForSequenceClassification(bert_config(num_labels=1, problem_type="regression"))


def bert_of_words() -> torch.nn.Module:
    return BertForTokenClassification(bert_config())


def distilbert() -> torch.nn.Module:
    sizes = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}
    dropout = {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0}
    return DistilBertForSequenceClassification(
        DistilBertConfig(vocab_size=VOCABULARY, **sizes, **dropout, num_labels=LABELS)
    )


def llama_config() -> LlamaConfig:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return LlamaConfig(
        vocab_size=VOCABULARY, **sizes, num_key_value_heads=2, pad_token_id=0, num_labels=LABELS
    )


def llama() -> torch.nn.Module:
    return LlamaForSequenceClassification(llama_config())


def llama_of_words() -> torch.nn.Module:
    config = llama_config()
    config.classifier_dropout = 0.0
    return LlamaForTokenClassification(config)


def alexnet() -> torch.nn.Module:
    """The real one with its widest layers made narrow; it has no other dropout than these layers."""
    network = load_vision_model(ModelOptions(source="torchvision:alexnet", pretrained=False), LABELS, seed=0)
    layers = network.network.classifier
    layers[1], layers[4] = torch.nn.Linear(layers[1].in_features, 32), torch.nn.Linear(32, 32)
    layers[6] = torch.nn.Linear(32, LABELS)
    for layer in layers:
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    return network


def texts() -> list[dict[str, torch.Tensor]]:
    drawn = torch.Generator().manual_seed(1)
    rows = torch.randint(1, VOCABULARY, (ROWS, LENGTH), generator=drawn)
    ones = torch.ones(LENGTH, dtype=torch.int64)
    return [
        {"input_ids": row, "attention_mask": ones, "labels": torch.tensor(index % LABELS)}
        for index, row in enumerate(rows)
    ]


def numbered() -> list[dict[str, torch.Tensor]]:
    return [{**sample, "labels": torch.tensor(index / 4)} for index, sample in enumerate(texts())]


def words() -> list[dict[str, list[int]]]:
    """Texts of one to five words, so that batches of a step differ in how many they have."""
    found = []
    for index, sample in enumerate(texts()):
        ids = sample["input_ids"].tolist()[: 2 + index % 5]
        labels = [NO_LABEL, *((index + place) % LABELS for place in range(len(ids) - 1))]
        found.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels})
    return found


def images() -> list[dict[str, torch.Tensor]]:
    drawn = torch.Generator().manual_seed(1)
    pixels = torch.rand((ROWS, 3, PIXELS, PIXELS), generator=drawn)
    return [{"pixel_values": image, "labels": index % LABELS} for index, image in enumerate(pixels)]


DATA: dict[Any, tuple[Callable[[], Any], Any]] = {
    alexnet: (images, stack),
    bert_of_numbers: (numbered, default_data_collator),
    bert_of_words: (words, PadTexts(pad_id=0)),
    llama_of_words: (words, PadTexts(pad_id=0)),
}
"""Samples and collator of those models that don't give a text a class."""


def steps(
    build: Callable[[], torch.nn.Module], batch: int, folder: Path
) -> tuple[list[float], list[float], torch.Tensor]:
    """Of one epoch: losses and lengths of the gradients, as Hone's trainer shows them to its log, and all weights."""
    from core.engine.building import build_trainer
    from core.engine.reporter import Reporter

    torch.manual_seed(0)
    samples, collator = DATA.get(build, (texts, default_data_collator))
    prepared = Prepared(
        model=build(), train=samples(), eval=None, collator=collator, labels=(), save_extras=lambda _: None
    )
    options = RunOptions(
        task=Task.TOKEN_CLASSIFICATION if samples is words else Task.TEXT_CLASSIFICATION,
        data=DataOptions(group_by_length=Toggle.OFF),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
        memory=MemoryOptions(batch_size=batch, gradient_accumulation_steps=LARGE // batch),
        training=TrainingOptions(
            epochs=1.0, learning_rate=1e-2, optimizer=Optimizer.SGD, schedule=Schedule.CONSTANT
        ),
        output=OutputOptions(keep_checkpoints=0),
    )
    trainer = build_trainer(folder, Choice("cpu", "", options, {}, asked="cpu"), prepared, Reporter(None))
    losses, norms = [], []

    class Figures(TrainerCallback):
        def on_step_end(self, *_arguments: object, **_more: object) -> None:
            losses.append(float(torch.stack(trainer.step_losses).sum()))
            norms.append(float(trainer.grad_norm))
            trainer.forget_step()

    trainer.add_callback(Figures())
    trainer.train()
    weights = torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])
    return losses, norms, weights


@pytest.mark.parametrize(
    "build", [bert, distilbert, llama, alexnet, bert_of_numbers, bert_of_words, llama_of_words]
)
def test_accumulated_steps_have_the_losses_and_gradients_of_large_ones(
    build: Callable[[], torch.nn.Module], tmp_path: Path
) -> None:
    whole_losses, whole_norms, whole_weights = steps(build, LARGE, tmp_path)
    losses, norms, weights = steps(build, SMALL, tmp_path)
    assert len(losses) == len(whole_losses) == ROWS // LARGE
    assert losses == pytest.approx(whole_losses, rel=1e-4)
    assert norms == pytest.approx(whole_norms, rel=1e-4)
    torch.testing.assert_close(weights, whole_weights, rtol=1e-4, atol=1e-6)

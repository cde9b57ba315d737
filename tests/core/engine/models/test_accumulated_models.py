"""4 batches of 2 take the steps of one batch of 8, whatever the model, through Hone's own trainer and without dropout.

Models that normalize over the batch differ by nature and are not here (`VisionModel.normalises_batch` tells them).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.data import NO_LABEL
from core.engine.data.batches import PadTexts, stack
from core.engine.environment import prepare_torchvision
from core.engine.models.vision import VisionClassifier
from core.engine.tasks import Prepared
from core.options import RunOptions
from core.options.choices import Optimizer, Precision, Schedule, Task, Toggle
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, OutputOptions, TrainingOptions
from tests.fakes.training import parts_of, resolved

prepare_torchvision()

from transformers import (  # noqa: E402 - torchvision must be prepared first
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    LlamaForTokenClassification,
    OlmoeConfig,
    OlmoeForCausalLM,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
    TrainerCallback,
    default_data_collator,
)

LARGE, SMALL, LABELS = 8, 2, 3
ROWS = 2 * LARGE
LENGTH, VOCABULARY, PIXELS = 6, 64, 4


SIZES = {
    **{"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"num_key_value_heads": 2, "intermediate_size": 32, "pad_token_id": 0, "num_labels": LABELS},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0},
}


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


def image_classifier() -> torch.nn.Module:
    layers = (torch.nn.Flatten(), torch.nn.Linear(3 * PIXELS**2, LABELS))
    return VisionClassifier(torch.nn.Sequential(*layers))


BUILDS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[[], Any], Any]] = {
    "bert": (lambda: BertForSequenceClassification(BertConfig(**SIZES)), texts, default_data_collator),
    "bert of numbers": (
        lambda: BertForSequenceClassification(
            BertConfig(**{**SIZES, "num_labels": 1, "problem_type": "regression"})
        ),
        *(numbered, default_data_collator),
    ),
    "bert of words": (lambda: BertForTokenClassification(BertConfig(**SIZES)), words, PadTexts(pad_id=0)),
    "llama": (lambda: LlamaForSequenceClassification(LlamaConfig(**SIZES)), texts, default_data_collator),
    "llama of words": (lambda: LlamaForTokenClassification(LlamaConfig(**SIZES)), words, PadTexts(pad_id=0)),
    "images": (image_classifier, images, stack),
}
"""How a model is built, its samples and its collator."""


def trainer_of(network: torch.nn.Module, data: tuple[Any, Any], batch: int, folder: Path, task: Task) -> Any:
    """Hone's own trainer for one epoch."""
    from core.engine.training.build import build_trainer

    prepared = Prepared(
        model=network, train=data[0], eval=None, collator=data[1], labels=(), save_extras=lambda _: None
    )
    options = RunOptions(
        task=task,
        data=DataOptions(group_by_length=Toggle.OFF),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
        memory=MemoryOptions(batch_size=batch, gradient_accumulation_steps=LARGE // batch),
        training=TrainingOptions(
            epochs=1.0, learning_rate=1e-2, optimizer=Optimizer.SGD, schedule=Schedule.CONSTANT
        ),
        output=OutputOptions(keep_checkpoints=0),
    )
    run = resolved(options)
    return build_trainer(folder, run, prepared, *parts_of(run))


def steps(name: str, batch: int, folder: Path) -> tuple[list[float], list[float], torch.Tensor]:
    """Of one epoch: losses and norms of the gradients, as Hone's trainer reports them, and all weights."""
    torch.manual_seed(0)
    build, samples, collator = BUILDS[name]
    task = Task.TOKEN_CLASSIFICATION if samples is words else Task.TEXT_CLASSIFICATION
    trainer = trainer_of(build(), (samples(), collator), batch, folder, task)
    losses, norms = [], []

    class Figures(TrainerCallback):
        def on_step_end(self, *_arguments: object, **_more: object) -> None:
            losses.append(float(torch.stack(trainer.step.losses).sum()))
            norms.append(float(trainer.step.grad_norm))
            trainer.step.forget()

    trainer.add_callback(Figures())
    trainer.train()
    weights = torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])
    return losses, norms, weights


@pytest.mark.parametrize("name", BUILDS)
def test_accumulated_steps_have_the_losses_and_gradients_of_large_ones(name, tmp_path):
    whole_losses, whole_norms, whole_weights = steps(name, LARGE, tmp_path)
    losses, norms, weights = steps(name, SMALL, tmp_path)
    assert len(losses) == len(whole_losses) == ROWS // LARGE
    assert losses == pytest.approx(whole_losses, rel=1e-4)
    assert norms == pytest.approx(whole_norms, rel=1e-4)
    torch.testing.assert_close(weights, whole_weights, rtol=1e-4, atol=1e-6)


def experts(config: type, kind: type) -> torch.nn.Module:
    """A mixture of experts with a large loss of its routers."""
    torch.manual_seed(0)
    routers = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
    loss = {"output_router_logits": True, "router_aux_loss_coef": 0.5}
    network: torch.nn.Module = kind(config(**{**SIZES, **routers, **loss, "num_hidden_layers": 2}))
    return network


def running_texts() -> list[dict[str, torch.Tensor]]:
    """Of one to five tokens to learn each, so that batches of a step differ in how many they have."""
    found = texts()[:LARGE]
    for index, sample in enumerate(found):
        sample["labels"] = sample["input_ids"].clone()
        sample["labels"][2 + index % 5 :] = NO_LABEL
    return found


@pytest.mark.parametrize(
    ("config", "kind"), [(OlmoeConfig, OlmoeForCausalLM), (Qwen2MoeConfig, Qwen2MoeForCausalLM)]
)
def test_batches_of_a_step_share_the_loss_of_routers(config, kind, tmp_path):
    """Its balance is one of a batch, so that a step's is the mean over its batches, and not that of one large batch.

    The rest counts each token alike. Both are worked out here by hand.
    """
    batch = 1
    by_hand: Any = experts(config, kind)
    samples = running_texts()
    count = sum(int((sample["labels"][1:] != NO_LABEL).sum()) for sample in samples)
    pieces = [default_data_collator(samples[start : start + batch]) for start in range(0, LARGE, batch)]
    for piece in pieces:
        found = by_hand(**{name: value for name, value in piece.items() if name != "labels"})
        said = torch.nn.functional.cross_entropy(
            found.logits[:, :-1].reshape(-1, VOCABULARY),
            piece["labels"][:, 1:].reshape(-1),
            ignore_index=NO_LABEL,
            reduction="sum",
        )
        (said / count + 0.5 * found.aux_loss / len(pieces)).backward()
    expected = {name: weight.grad for name, weight in by_hand.named_parameters()}
    torch.nn.utils.clip_grad_norm_(by_hand.parameters(), 1.0)

    network = experts(config, kind)
    trainer = trainer_of(network, (samples, default_data_collator), batch, tmp_path, Task.CAUSAL_LM)
    gradients: dict[str, torch.Tensor] = {}

    class Gradients(TrainerCallback):
        def on_pre_optimizer_step(self, *_arguments: object, **_more: object) -> None:
            gradients.update({name: weight.grad.clone() for name, weight in network.named_parameters()})

    trainer.add_callback(Gradients())
    trainer.train()
    assert any("mlp.gate" in name for name in expected)
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-4, atol=1e-7)

    network.eval()
    with torch.no_grad():
        found = network(**pieces[0], num_items_in_batch=1 << 30)
    assert float(found.loss) == pytest.approx(0.5 * float(found.aux_loss)), "an evaluation has it whole"

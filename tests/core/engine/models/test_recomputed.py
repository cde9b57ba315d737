"""Activation checkpointing: computed again for real, with the same losses, gradients and running statistics."""

import copy

import pytest
import torch

from core.base.errors import ModelError
from core.engine.models.vision import (
    VisionClassifier,
    check_checkpointing,
    checkpoint_rows,
    load_vision_model,
    segments,
)
from core.engine.training.observe import FirstBatch
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.options.sources import VISION_MODELS
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TinyRun, model, train

RECOMPUTED = MemoryOptions(batch_size=8, activation_checkpointing=True)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(
        tmp_path_factory.mktemp("bert") / "bert", num_hidden_layers=3, hidden_dropout_prob=0.1
    )


def losses(tiny: TinyRun) -> list[float | None]:
    return [step.loss for step in tiny.steps]


def test_each_layer_of_a_text_model_runs_again_and_the_losses_stay_the_same(bert, tmp_path):
    kept = train(tmp_path / "kept", model=model(bert))
    recomputed = train(tmp_path / "recomputed", model=model(bert), memory=RECOMPUTED)
    assert (kept.what_ran.recomputed, recomputed.what_ran.recomputed) == (0, 3)
    assert len(losses(kept)) == 2
    assert losses(recomputed) == losses(kept)


def test_a_vision_model_runs_its_layers_again(tmp_path):
    sections = {
        "task": Task.IMAGE_CLASSIFICATION,
        "model": model("torchvision:squeezenet1_0", pretrained=False),
        "data": DataOptions(train="synthetic:4x32"),
        "training": TrainingOptions(epochs=1.0, learning_rate=1e-3),
    }
    kept = train(tmp_path / "kept", memory=MemoryOptions(batch_size=2), **sections)
    again = MemoryOptions(batch_size=2, activation_checkpointing=True)
    recomputed = train(tmp_path / "recomputed", memory=again, **sections)
    assert (kept.what_ran.recomputed, recomputed.what_ran.recomputed) == (0, 13)
    assert losses(recomputed) == losses(kept)


class SmallNetwork(torch.nn.Module):
    """Batch norms of both kinds of averaging, dropout, and a layer that writes over its input, in one row."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(inplace=True),
            torch.nn.Dropout(0.5),
            torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), torch.nn.BatchNorm2d(4, momentum=None)),
            torch.nn.Flatten(),
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.features(pixels)
        return found


def test_batch_norms_count_each_batch_once():
    kept = VisionClassifier(SmallNetwork())
    recomputed = copy.deepcopy(kept)
    recomputed.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    pixels, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 0])
    watch = FirstBatch()
    for network in (kept, recomputed):
        torch.manual_seed(1)
        for _ in range(2):
            with watch.watching(network):
                network(pixels, labels)["loss"].backward()
    assert watch.recomputed == 5, "nothing is kept for Flatten, so torch stops before it"
    state, expected = recomputed.state_dict(), kept.state_dict()
    assert list(state) == list(expected)
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    assert state["network.features.1.num_batches_tracked"] == 2
    for weight, other in zip(recomputed.parameters(), kept.parameters(), strict=True):
        assert torch.equal(weight.grad, other.grad)


def test_what_enters_a_segment_is_all_that_is_kept():
    def kept_bytes(recompute: bool) -> int:
        row = torch.nn.Module()
        row.features = torch.nn.Sequential(
            *(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(9))
        )
        if recompute:
            assert checkpoint_rows(row) == 1
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.nbytes) or t, lambda t: t):
            row.features(torch.rand(8, 64))
        return sum(sizes)

    assert kept_bytes(recompute=True) < kept_bytes(recompute=False) / 4


@pytest.mark.parametrize("name", VISION_MODELS)
def test_every_vision_model_has_rows_to_compute_again(name):
    with torch.device("meta"):
        built = load_vision_model(
            ModelOptions(source=f"torchvision:{name}", pretrained=False), classes=2, seed=1
        )
    names = list(built.state_dict())
    assert checkpoint_rows(built.network) >= 1
    assert list(built.state_dict()) == names


def test_no_segment_begins_with_a_layer_that_writes_over_its_input():
    layers = [torch.nn.ReLU(inplace=place % 2 == 1) for place in range(9)]
    assert [len(segment) for segment in segments(layers)] == [4, 4, 1]
    assert [len(segment) for segment in segments([torch.nn.ReLU() for _ in range(9)])] == [3, 3, 3]


def test_a_model_that_keeps_everything_is_refused_before_training():
    check_checkpointing(VisionClassifier(torch.nn.Flatten()))
    with pytest.raises(ModelError, match="doesn't support activation checkpointing") as refused:
        check_checkpointing(torch.nn.Linear(2, 2))
    assert refused.value.fixes[0].changes == {"memory.activation_checkpointing": False}


def test_a_run_with_such_a_model_ends_before_its_first_step(bert, tmp_path, monkeypatch):
    from transformers import BertForSequenceClassification

    monkeypatch.setattr(BertForSequenceClassification, "supports_gradient_checkpointing", False)
    tiny = train(tmp_path / "run", model=model(bert), memory=RECOMPUTED)
    assert (tiny.status, tiny.steps) == (1, [])
    assert "BertForSequenceClassification" in tiny.messages["failed"].detail

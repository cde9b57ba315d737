"""Activation checkpointing of image models: recomputed for real, with the same gradients and running statistics.

That of text models is part of the preset for 8 GB in `test_method.py`.
"""

import copy

import torch

from core.engine.models.vision import VisionClassifier, checkpoint_rows
from core.engine.training.observe import FirstBatch
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import model, train

RECOMPUTED = MemoryOptions(batch_size=8, activation_checkpointing=True)


def test_a_run_of_images_recomputes_too(tmp_path):
    tiny = train(
        tmp_path / "run",
        task=Task.IMAGE_CLASSIFICATION,
        model=model("torchvision:squeezenet1_0", pretrained=False),
        data=DataOptions(train="synthetic:4x32"),
        memory=RECOMPUTED,
    )
    assert tiny.what_ran.recomputed == 13


class SmallNetwork(torch.nn.Module):
    """Batch norms of both kinds of averaging, dropout, and an in-place layer, in one Sequential."""

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
        result: torch.Tensor = self.features(pixels)
        return result


def test_gradients_are_the_same_and_batch_norms_count_each_batch_once():
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


def test_only_the_inputs_of_segments_are_kept():
    def kept_bytes(recompute: bool) -> int:
        network = torch.nn.Module()
        blocks = (torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(9))
        network.features = torch.nn.Sequential(*blocks)
        if recompute:
            checkpoint_rows(network)
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.nbytes) or t, lambda t: t):
            network.features(torch.rand(8, 64))
        return sum(sizes)

    assert kept_bytes(recompute=True) < kept_bytes(recompute=False) / 4


def test_a_model_without_checkpointing_ends_the_run_before_its_first_step(tmp_path, monkeypatch):
    from transformers import BertForSequenceClassification

    monkeypatch.setattr(BertForSequenceClassification, "supports_gradient_checkpointing", False)
    tiny = train(tmp_path / "run", model=model(save_tiny_bert(tmp_path / "bert")), memory=RECOMPUTED)
    assert (tiny.status, tiny.steps) == (1, [])
    message = tiny.messages["failed"]
    assert "BertForSequenceClassification" in message.detail
    assert message.fixes[0].changes == {"memory.activation_checkpointing": False}

"""The sizes that `core.options` declares are those the models themselves need; tried on the meta device, in no time."""

import pytest
import torch

from core.engine.models.vision import VisionClassifier, load_vision_model
from core.options.sections import ModelOptions
from core.options.sources import VISION_MODELS, Scheme

BATCHES = {"smallest": 2, "smallest_alone": 1}


@pytest.fixture(params=VISION_MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(name: str) -> VisionClassifier:
    with torch.device("meta"):
        options = ModelOptions(source=Scheme.TORCHVISION.of(name), pretrained=False)
        return load_vision_model(options, classes=3, seed=1).train()


@pytest.mark.parametrize("limit", BATCHES)
def test_a_model_trains_at_its_limit_and_not_below(model: VisionClassifier, name: str, limit: str) -> None:
    size, batch = getattr(VISION_MODELS[name], limit), BATCHES[limit]
    assert model(torch.empty(batch, 3, size, size, device="meta"))["logits"].shape == (batch, 3)
    if size > 1:
        with pytest.raises((RuntimeError, ValueError)):
            model(torch.empty(batch, 3, size - 1, size - 1, device="meta"))


def test_those_that_normalise_over_the_batch_are_known(model: VisionClassifier, name: str) -> None:
    over_the_batch = torch.nn.modules.batchnorm._BatchNorm
    found = any(isinstance(layer, over_the_batch) for layer in model.modules())
    assert VISION_MODELS[name].normalises_batch is found

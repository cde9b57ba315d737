import pytest
import torch

from core.base.errors import ModelError
from core.engine.models.vision import VisionClassifier, load_vision_model
from core.options.sections import ModelOptions
from core.options.sources import VISION_MODELS


@pytest.mark.parametrize("name", VISION_MODELS)
def test_every_vision_model_gets_a_head_of_the_right_size(name):
    model = load_vision_model(ModelOptions(source=f"torchvision:{name}", pretrained=False), classes=3, seed=1)
    model.eval()
    with torch.no_grad():
        found = model(torch.rand(2, 3, 64, 64), torch.tensor([0, 2]))
    assert found["logits"].shape == (2, 3)
    assert found["loss"].ndim == 0


def test_same_seed_same_weights():
    options = ModelOptions(source="torchvision:squeezenet1_0", pretrained=False)
    first, second = (load_vision_model(options, classes=2, seed=7).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_weights_that_cannot_be_downloaded_say_so(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))  # nothing kept from an earlier download
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(ModelError) as refused:
        load_vision_model(ModelOptions(source="torchvision:resnet18"), classes=2, seed=1)
    assert "resnet18" in refused.value.title
    assert refused.value.fixes[0].changes == {"model.pretrained": False, "model.method": "full"}


def test_loss_is_the_mean_over_the_batch():
    model = VisionClassifier(torch.nn.Flatten())
    pixels = torch.rand(4, 3, 1, 1)
    labels = torch.tensor([0, 1, 2, 0])
    expected = torch.nn.functional.cross_entropy(pixels.flatten(1), labels)
    torch.testing.assert_close(model(pixels, labels)["loss"], expected)
    assert set(model(pixels)) == {"logits"}


@pytest.mark.parametrize(("size", "is_last"), [(64, False), (128, True)])
def test_channels_come_last_where_that_is_faster_and_change_nothing(size, is_last):
    options = ModelOptions(source="torchvision:squeezenet1_0", pretrained=False)
    model = load_vision_model(options, classes=2, seed=7).eval()
    seen: list[bool] = []
    first = next(part for part in model.modules() if isinstance(part, torch.nn.Conv2d))
    first.register_forward_pre_hook(
        lambda _part, inputs: seen.append(inputs[0].is_contiguous(memory_format=torch.channels_last))
    )
    pixels, labels = torch.rand(2, 3, size, size), torch.tensor([0, 1])
    found = model(pixels, labels)
    found["loss"].backward()
    gradient = first.weight.grad
    assert gradient is not None
    ours = gradient.clone()
    model.zero_grad()
    plain = torch.nn.functional.cross_entropy(model.network(pixels), labels)
    plain.backward()
    assert seen == [is_last, False]
    torch.testing.assert_close(found["loss"], plain)
    torch.testing.assert_close(ours, first.weight.grad, rtol=1e-4, atol=1e-6)

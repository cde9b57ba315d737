"""Working offline holds for every model: nothing is fetched for a run either."""

import os

import pytest
import torch

from core.base import settings
from core.base.errors import ModelError
from core.engine.models.vision import load_vision_model
from core.options.sections import ModelOptions
from core.services import hub as asking

ALEXNET = ModelOptions(source="torchvision:alexnet", pretrained=True)


def test_the_setting_reaches_every_library(hub, monkeypatch):
    assert not asking.is_forbidden()
    settings.save(settings.Settings(offline=True))
    assert asking.forbidden_by() == "“Work offline” in Settings"
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    asking.forbid()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert asking.forbidden_by() == "“Work offline” in Settings", "and not the variable that Hone sets itself"


def test_the_variable_forbids_it_too(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "yes")
    assert asking.forbidden_by() == "HF_HUB_OFFLINE"


def test_weights_of_torchvision_are_not_fetched(hub, tmp_path, monkeypatch):
    settings.save(settings.Settings(offline=True))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "torch"))
    monkeypatch.setattr("torch.hub.load_state_dict_from_url", lambda *_a, **_k: pytest.fail("downloaded"))
    with pytest.raises(ModelError, match="aren't on this computer") as caught:
        load_vision_model(ALEXNET, 10, 1)
    assert "“Work offline” in Settings forbids" in caught.value.detail
    assert caught.value.fixes[0].changes == {"model.pretrained": False, "model.method": "full"}

import os

import pytest

from core.choices import Task
from core.engine.environment import prepare_environment
from core.options import DeviceOptions, RunOptions


@pytest.mark.parametrize(
    ("name", "visible", "expected"),
    [
        ("auto", None, "0"),
        ("cuda", None, "0"),
        ("cuda:1", None, "1"),
        ("cuda:1", "4,6", "6"),
        ("cuda:2", "4,6", ""),
        ("cpu", "0,1", ""),
        ("mps", None, ""),
    ],
)
def test_one_cuda_device_stays_visible(
    monkeypatch: pytest.MonkeyPatch, name: str, visible: str | None, expected: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    prepare_environment(RunOptions(task=Task.TEXT_CLASSIFICATION, device=DeviceOptions(name=name)))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == expected


@pytest.mark.parametrize(("fallback", "expected"), [(True, "1"), (False, "0")])
def test_mps_fallback_is_set_either_way(
    monkeypatch: pytest.MonkeyPatch, fallback: bool, expected: str
) -> None:
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "unset")
    prepare_environment(
        RunOptions(task=Task.TEXT_CLASSIFICATION, device=DeviceOptions(mps_fallback=fallback))
    )
    assert os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] == expected

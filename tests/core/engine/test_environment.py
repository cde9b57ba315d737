import os

import pytest

from core.engine.environment import mps_watermarks, prepare_environment
from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import DeviceOptions


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


@pytest.mark.parametrize(
    ("limit", "low"), [(1.7, 1.4), (2.0, 1.4), (0.85, 0.7), (0.1, 0.0824), (0.0, 1.4)], ids=str
)
def test_the_lower_watermark_follows_the_ceiling_down(
    monkeypatch: pytest.MonkeyPatch, limit: float, low: float
) -> None:
    for name in ("HIGH", "LOW"):
        monkeypatch.setenv(f"PYTORCH_MPS_{name}_WATERMARK_RATIO", "unset")
    device = DeviceOptions(mps_memory_limit=limit)
    prepare_environment(RunOptions(task=Task.TEXT_CLASSIFICATION, device=device))
    assert float(os.environ["PYTORCH_MPS_HIGH_WATERMARK_RATIO"]) == limit
    assert float(os.environ["PYTORCH_MPS_LOW_WATERMARK_RATIO"]) == pytest.approx(low, abs=1e-4)


def test_torch_would_take_every_pair_of_watermarks() -> None:
    """What `MPSAllocator.mm` checks: 0 to 2 for the ceiling, 0 to the ceiling (2 without one) for the lower mark."""
    for limit in (hundredths / 100 for hundredths in range(201)):
        high, low = mps_watermarks(limit)
        assert 0.0 <= high <= 2.0
        assert 0.0 < low <= (high or 2.0)


def test_no_compiled_code_comes_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read when transformers 5.23 loads; the package `kernels` is hidden besides."""
    monkeypatch.setenv("USE_HUB_KERNELS", "1")
    prepare_environment(RunOptions(task=Task.TEXT_CLASSIFICATION))
    assert os.environ["USE_HUB_KERNELS"] == "0"


def test_few_kernels_of_a_cpu_are_kept_unless_a_person_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    prepare_environment(RunOptions(task=Task.CHAT))
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "64"
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"


def test_images_keep_all_kernels_which_have_one_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    monkeypatch.delenv("LRU_CACHE_CAPACITY", raising=False)
    prepare_environment(RunOptions(task=Task.IMAGE_CLASSIFICATION))
    assert "ONEDNN_PRIMITIVE_CACHE_CAPACITY" not in os.environ
    assert "LRU_CACHE_CAPACITY" not in os.environ

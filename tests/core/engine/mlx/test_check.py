"""The device check's comparisons of MLX: kernels that compute wrongly are found, and right ones aren't blamed."""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import pytest

mx = pytest.importorskip("mlx.core")

from mlx_lm.models.base import create_causal_mask  # noqa: E402

from core.engine.devices import check as device_check  # noqa: E402
from core.engine.devices.capabilities import MLX_ON_CPU  # noqa: E402
from core.engine.devices.check import Side, check_device, run_checks  # noqa: E402
from core.engine.mlx.check import CHECKS, WINDOW  # noqa: E402
from core.jobs.devices import DeviceCheckReport, DeviceCheckRequest, DeviceComparison  # noqa: E402

REFERENCE = Side("cpu", "Old processor, 2 threads", 2, is_reference=True)
CANDIDATE = Side("cpu", "Old processor, 1 thread", 1)


def compare(name: str) -> DeviceComparison:
    checks = [check for check in CHECKS if check.name == name]
    (comparison,) = run_checks(checks, REFERENCE, CANDIDATE, 60.0)
    return comparison


# --- Kernels that compute wrongly

Kernel = Callable[..., Any]


def lost_term(kernel: Kernel) -> Kernel:
    return lambda left, right: kernel(left[..., :-1], right[..., :-1, :])


def leaky_mask(kernel: Kernel) -> Kernel:
    return lambda *inputs, mask, **more: kernel(*inputs, mask=None if mask == "causal" else mask, **more)


def wide_window(kernel: Kernel) -> Kernel:
    def attend(*inputs: Any, mask: Any, **more: Any) -> Any:
        wider = create_causal_mask(inputs[0].shape[2], window_size=WINDOW + 1)
        return kernel(*inputs, mask=mask if mask == "causal" else wider, **more)

    return attend


def lost_group(kernel: Kernel) -> Kernel:
    def multiply(rows: Any, *packed: Any, **more: Any) -> Any:
        rows = mx.where(mx.arange(rows.shape[-1]) < rows.shape[-1] - 64, rows, 0)
        return kernel(rows, *packed, **more)

    return multiply


def other_codes(kernel: Kernel) -> Kernel:
    return lambda weight, **more: kernel(weight.astype(mx.float32) + 0.6, **more)


def lost_logits(kernel: Kernel) -> Kernel:
    return lambda logits, targets, **more: kernel(logits[..., :-300], targets, **more)


def halves_for_pairs(kernel: Kernel) -> Kernel:
    """Rotates the other pairs of a head, as models of another layout do."""
    return lambda *inputs, traditional, **more: kernel(*inputs, traditional=not traditional, **more)


def other_epsilon(kernel: Kernel) -> Kernel:
    return lambda rows, weight, eps: kernel(rows, weight, eps + 1e-4)


@pytest.mark.parametrize(
    ("name", "kernel", "broken", "tensor"),
    [
        ("MLX: products in bf16", "mlx.core.matmul", lost_term, ""),
        ("MLX: attention in bf16", "mlx.core.fast.scaled_dot_product_attention", leaky_mask, "causal"),
        ("MLX: attention in bf16", "mlx.core.fast.scaled_dot_product_attention", wide_window, "window"),
        ("MLX: weights in 4 bits", "mlx.core.quantized_matmul", lost_group, ""),
        ("MLX: weights in 4 bits", "mlx.core.quantize", other_codes, ""),
        ("MLX: large vocabulary", "mlx.nn.losses.cross_entropy", lost_logits, ""),
        ("MLX: training step in bf16", "mlx.core.fast.rope", halves_for_pairs, ""),
        ("MLX: training step in fp32", "mlx.core.fast.rms_norm", other_epsilon, ""),
        ("MLX: training step in bf16", "mlx.core.fast.scaled_dot_product_attention", leaky_mask, ""),
    ],
)
def test_a_broken_kernel_is_found(name, kernel, broken, tensor, monkeypatch):
    compute = Side.compute

    def compute_wrongly(side: Side, probe: Any) -> Any:
        with monkeypatch.context() as patch:
            if not side.is_reference:
                patch.setattr(kernel, broken(resolve_name(kernel)))
            return compute(side, probe)

    monkeypatch.setattr(Side, "compute", compute_wrongly)
    comparison = compare(name)
    assert comparison.differs
    assert comparison.worst_tensor.startswith(tensor)
    assert comparison.detail


# --- In the report


def report(monkeypatch, *, short: bool = False) -> DeviceCheckReport:
    monkeypatch.setattr(device_check, "CHECKS", ())
    return check_device(DeviceCheckRequest(device="cpu", short=short), lambda: CHECKS)


def test_the_report_has_the_comparisons_where_mlx_computes_and_sound_kernels_agree(monkeypatch):
    monkeypatch.setenv(MLX_ON_CPU, "1")
    found = report(monkeypatch)
    assert [(each.name, each.agrees) for each in found.comparisons] == [
        (check.name, True) for check in CHECKS
    ]
    assert found.software.startswith(f"MLX {mx.__version__}, PyTorch ")


@pytest.mark.parametrize(("here", "short"), [("", False), ("1", True)])
def test_it_has_none_elsewhere_and_in_short(here, short, monkeypatch):
    monkeypatch.setenv(MLX_ON_CPU, here)
    found = report(monkeypatch, short=short)
    assert found.comparisons == ()
    assert found.software.startswith("PyTorch ")

"""The device check's comparisons of MLX: kernels that compute wrongly are found, and right ones aren't blamed."""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import pytest
from msgspec.structs import replace

mx = pytest.importorskip("mlx.core")

from mlx_lm.models.base import create_causal_mask  # noqa: E402

from core.base.errors import UserError  # noqa: E402
from core.engine.devices import check as device_check  # noqa: E402
from core.engine.devices.capabilities import MLX_ON_CPU  # noqa: E402
from core.engine.devices.check import Side, check_device, run_checks, warn_of_wrong_numbers  # noqa: E402
from core.engine.devices.choose import resolve_run  # noqa: E402
from core.engine.mlx import train as training  # noqa: E402
from core.engine.mlx.check import CHECKS, WINDOW  # noqa: E402
from core.engine.reporter import Reporter  # noqa: E402
from core.jobs.devices import DeviceCheckReport, DeviceCheckRequest, DeviceComparison  # noqa: E402
from core.options.backend_rules import USE_TORCH  # noqa: E402
from core.options.choices import Backend, Task  # noqa: E402
from core.runs.events import Level, MessageRaised  # noqa: E402
from core.runs.folder import RunFolder  # noqa: E402
from tests.fakes.machines import M4, PC, variant  # noqa: E402
from tests.fakes.trained_runs import story_of  # noqa: E402
from tests.fakes.training import run_options  # noqa: E402

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


def break_kernel(monkeypatch: pytest.MonkeyPatch, kernel: str, broken: Callable[[Kernel], Kernel]) -> None:
    """Has the candidate compute with a broken kernel."""
    compute = Side.compute

    def compute_wrongly(side: Side, probe: Any) -> Any:
        with monkeypatch.context() as patch:
            if not side.is_reference:
                patch.setattr(kernel, broken(resolve_name(kernel)))
            return compute(side, probe)

    monkeypatch.setattr(Side, "compute", compute_wrongly)


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
    break_kernel(monkeypatch, kernel, broken)
    comparison = compare(name)
    assert comparison.differs
    assert comparison.worst_tensor.startswith(tensor)
    assert comparison.detail


# --- In the report


STEP = tuple(check for check in CHECKS if check.name == "MLX: training step in fp32")


def report(monkeypatch, checks: Any = CHECKS, **asked: Any) -> DeviceCheckReport:
    monkeypatch.setattr(device_check, "CHECKS", ())
    return check_device(DeviceCheckRequest(device="cpu", **asked), lambda: checks)


FIRST_RUN = {"short": True, "backend": Backend.MLX}


@pytest.mark.parametrize(("asked", "checks"), [({}, CHECKS), (FIRST_RUN, STEP)])
def test_the_report_has_the_comparisons_where_mlx_computes_and_sound_kernels_agree(
    asked, checks, monkeypatch
):
    monkeypatch.setenv(MLX_ON_CPU, "1")
    found = report(monkeypatch, checks, **asked)
    assert [(each.name, each.agrees) for each in found.comparisons] == [
        (check.name, True) for check in checks
    ]
    assert found.software.startswith(f"MLX {mx.__version__}, PyTorch ")


@pytest.mark.parametrize(
    ("here", "asked"), [("", {}), ("", FIRST_RUN), ("1", {"short": True, "backend": Backend.TORCH})]
)
def test_it_has_none_elsewhere_and_before_a_run_of_pytorch(here, asked, monkeypatch):
    monkeypatch.setenv(MLX_ON_CPU, here)
    found = report(monkeypatch, **asked)
    assert found.comparisons == ()
    assert found.software.startswith("PyTorch ")


# --- Before the first run on a Mac


@pytest.mark.parametrize("is_broken", [False, True])
def test_the_first_run_compares_the_gpu_and_every_run_is_told_of_differences(
    is_broken, tmp_path, monkeypatch
):
    """Here a thread of the CPU stands for the GPU."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(MLX_ON_CPU, "1")
    monkeypatch.setattr("platform.mac_ver", lambda: ("15.5", ("", "", ""), "arm64"))
    monkeypatch.setattr(device_check, "SHORT_SECONDS", 600.0)
    requests: list[DeviceCheckRequest] = []

    def check(_name: str, request: DeviceCheckRequest, *_rest: Any, **_more: Any) -> DeviceCheckReport:
        requests.append(request)
        return check_device(replace(request, device="cpu"), lambda: STEP)

    monkeypatch.setattr(device_check, "run_job", check)
    if is_broken:
        break_kernel(monkeypatch, "mlx.core.fast.rms_norm", other_epsilon)
    for name in ("first", "second"):
        run = RunFolder(tmp_path / name)
        run.path.mkdir()
        warn_of_wrong_numbers(Reporter(run), Backend.MLX, STEP)
        messages = [one for one in story_of(run).of(MessageRaised) if one.level is Level.WARNING]
        assert len(messages) == is_broken
        for message in messages:
            assert "MLX: training step in fp32: error" in message.detail
            assert f"MLX {mx.__version__}, macOS 15.5. " in message.detail
            assert message.fixes == (USE_TORCH,)
    assert [(request.device, request.short, request.backend) for request in requests] == [
        ("mps", True, Backend.MLX)
    ]


@pytest.mark.parametrize(
    ("facts", "expected"), [(M4, [Backend.MLX]), (variant(PC, optional=M4.optional, mlx_on_cpu=True), [])]
)
def test_a_run_on_the_gpu_of_a_mac_is_checked_before_it_loads(facts, expected, tmp_path, monkeypatch):
    done: list[Any] = []

    def load(*_arguments: Any) -> None:
        done.append("loaded")
        raise UserError("as far as it goes")

    options = run_options(Task.CHAT, name="auto", backend=Backend.MLX)
    monkeypatch.setattr(training, "resolve", lambda options, _why: resolve_run(facts, options))
    monkeypatch.setattr(training, "warn_of_wrong_numbers", lambda _to, backend, _checks: done.append(backend))
    monkeypatch.setattr(training, "load", load)
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    assert training.train_run(run, options, Reporter(run)) == 1
    assert done == [*expected, "loaded"]

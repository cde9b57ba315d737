"""The remedies for a run that doesn't fit: which there are, in which order, and what each changes and saves."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.engine.devices.capabilities import MachineFacts
from core.engine.devices.choose import report as devices_of
from core.memory.estimate import forecast
from core.memory.model import ModelReport, Room
from core.memory.remedies import Remedy, ladder
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.device_support import DeviceReport, settle
from tests.fakes.machines import LAPTOP, M2_8GB, M3_MAX, OLD_CARD, PC, SERVER, TWO_GPUS
from tests.fakes.model_shapes import BERT, MODEL, asked

GB = 1 << 30
ROOM = Room(free=3 * GB, ceiling=6 * GB)


def device(facts: MachineFacts) -> DeviceReport:
    return next(found for found in devices_of(facts).devices if found.available)


def climb(
    options: RunOptions, facts: MachineFacts = LAPTOP, model: ModelReport = MODEL, **more: Any
) -> list[Remedy]:
    return list(ladder(options, model, device(facts), more.pop("room", ROOM), **more))


def names(remedies: list[Remedy]) -> list[str]:
    return [remedy.name for remedy in remedies]


def one(remedies: list[Remedy], name: str) -> Remedy:
    return next(remedy for remedy in remedies if remedy.name == name)


def test_what_loses_least_stands_on_top():
    remedies = climb(asked(data={"max_length": 512, "padding": "fixed"}), length=200)
    assert names(remedies) == [
        *("padding", "length", "batch", "precision", "checkpointing", "optimizer", "optimizer"),
        *("lora", "qlora", "cut", "model"),
    ]


def test_rows_are_made_shorter_as_far_as_nothing_is_cut():
    found = one(climb(asked(data={"max_length": 512, "padding": "fixed"}), length=87), "length")
    assert found.title == "Maximum length 88 tokens"
    assert found.changes == {"data.max_length": 88}
    assert found.saves > 0
    assert found.help.startswith("The longest text has 87")


@pytest.mark.parametrize(
    ("data", "length"),
    [
        ({"max_length": 512, "padding": "fixed"}, 512),
        ({"max_length": 1024, "padding": "fixed"}, 512),  # the model sees no more
        ({"max_length": 512, "padding": "fixed"}, None),
        ({"max_length": 512, "padding": "dynamic"}, 87),
    ],
)
def test_padding_is_left_alone_where_nothing_is_known_to_be_gained(data, length):
    assert not {"padding", "length"} & set(names(climb(asked(data=data), length=length)))


def test_a_model_is_divided_among_all_cards_with_the_same_effective_batch():
    found = one(climb(asked(), TWO_GPUS), "divide")
    assert found.title == "Divide the model among 2 GPUs (FSDP2)"
    assert found.changes == {
        "memory.fsdp": True,
        "memory.batch_size": asked().memory.batch_size // 2,
        "device.processes": 2,
        "device.name": "cuda",
    }
    assert with_changes(asked(), found.changes).effective_batch == asked().effective_batch
    single = with_changes(asked(), {"memory.batch_size": 1})
    assert "effective batch grows" in one(climb(single, TWO_GPUS), "divide").help
    both = with_changes(asked(), {"device.processes": 2, "device.name": "cuda"})
    assert one(climb(both, TWO_GPUS), "divide").changes == {"memory.fsdp": True}
    for facts in (LAPTOP, PC, M3_MAX):
        assert "divide" not in names(climb(asked(), facts))
    assert "divide" not in names(climb(with_changes(asked(), {"model.method": "qlora"}), TWO_GPUS))


def test_smaller_batches_count_per_process():
    both = with_changes(asked(), {"device.processes": 2, "memory.batch_size": 4})
    found = one(climb(both, TWO_GPUS, room=None), "batch")
    assert found.changes == {"memory.batch_size": 2, "memory.gradient_accumulation_steps": 2}
    assert with_changes(both, found.changes).effective_batch == both.effective_batch == 8


@pytest.mark.parametrize("facts", [PC, LAPTOP, SERVER, M3_MAX, M2_8GB])
def test_each_saves_what_the_forecast_says_once_it_is_applied(facts):
    options, where = asked(), device(facts)
    now = forecast(settle(where, options), BERT, where).parts.total
    for remedy in climb(options, facts):
        after = forecast(with_changes(options, remedy.changes), BERT, where).parts.total
        assert after == remedy.forecast.parts.total
        assert remedy.saves == now - after
        assert bool(remedy.changes) == (remedy.saves > 0)
        assert 0.3 < remedy.slower < 3


def test_a_smaller_batch_keeps_the_samples_of_a_step_and_is_as_large_as_fits():
    room = Room(free=5 * GB, ceiling=6 * GB)
    found = one(climb(asked(), room=room), "batch")
    assert found.changes == {"memory.batch_size": 4, "memory.gradient_accumulation_steps": 4}
    assert found.forecast.parts.total <= 0.9 * room.free
    larger = with_changes(asked(), {"memory.batch_size": 8, "memory.gradient_accumulation_steps": 2})
    assert forecast(larger, BERT, device(LAPTOP)).parts.total > 0.9 * room.free


@pytest.mark.parametrize(("before", "size", "steps"), [(12, 6, 2), (5, 2, 2)])
def test_without_a_room_the_batch_is_halved(before, size, steps):
    found = one(climb(asked(memory={"batch_size": before}), room=None), "batch")
    assert found.changes == {"memory.batch_size": size, "memory.gradient_accumulation_steps": steps}
    assert ("4 instead of 5" in found.help) is (before == 5)


def test_small_batches_of_a_model_that_normalises_them_are_said_to_differ():
    normalising = ModelReport(normalises_batch=True, shape=BERT)
    assert "normalized by itself" in one(climb(asked(), model=normalising), "batch").help


def test_frozen_weights_in_fp32_can_be_held_in_16_bits():
    model = ModelReport(shape=replace(BERT, holdable=100_000_000))
    options = asked(model={"method": "lora", "frozen_precision": "fp32"})
    for facts, value in ((LAPTOP, "bf16"), (M2_8GB, "bf16"), (PC, "bf16"), (OLD_CARD, "fp16")):
        found = one(climb(options, facts, model), "frozen")
        assert found.changes == {"model.frozen_precision": value}
        assert found.saves > 150_000_000
        assert with_changes(options, found.changes).model.frozen_precision == value
    automatic = asked(model={"method": "lora"}, device={"precision": "bf16"})
    full = asked(model={"method": "full", "frozen_precision": "fp32"})
    assert not {"frozen"} & {*names(climb(automatic, LAPTOP, model)), *names(climb(full, LAPTOP, model))}


def test_lora_brings_the_rate_that_suits_it():
    found = climb(asked())
    assert one(found, "lora").changes == {"model.method": "lora", "training.learning_rate": 2e-4}
    assert one(found, "qlora").changes["training.learning_rate"] == 2e-4
    from_lora = one(climb(asked(model={"source": "/bert", "method": "lora"})), "qlora")
    assert from_lora.changes == {"model.method": "qlora"}


BF16 = {"device": {"precision": "bf16"}}
SMALLEST = {
    **BF16,
    "memory": {"batch_size": 1, "activation_checkpointing": True},
    "model": {"source": "/bert", "method": "qlora"},
    "training": {"optimizer": "adafactor"},
}
LORA = {"model": {"source": "/bert", "method": "lora"}, "memory": {"batch_size": 4}}
OFFLOADED = {"memory": {"batch_size": 16, "offload_optimizer": True}, "training": {"max_grad_norm": 0.0}}


@pytest.mark.parametrize(
    ("sections", "facts", "model", "missing"),
    [
        (SMALLEST, LAPTOP, MODEL, {"precision", "batch", "checkpointing", "optimizer", "lora", "qlora", "offload"}),
        ({"device": {"precision": "auto"}}, LAPTOP, MODEL, {"precision"}),  # it comes to bf16
        ({}, M3_MAX, MODEL, {"qlora", "offload"}),  # refused there
        ({}, LAPTOP, ModelReport(shape=BERT), {"checkpointing"}),
        ({"model": {"source": "/bert", "pretrained": False}}, LAPTOP, MODEL, {"lora", "qlora"}),
        (OFFLOADED, SERVER, MODEL, {"optimizer"}),  # what was moved to main memory is AdamW's state
        (LORA, LAPTOP, MODEL, {"optimizer"}),  # it would save next to nothing
    ],
)  # fmt: skip
def test_what_is_chosen_refused_or_worth_nothing_is_left_out(sections, facts, model, missing):
    assert not missing & set(names(climb(asked(**sections), facts, model)))


def test_what_a_device_has_decides_on_the_optimizer_and_the_precision():
    on_a_mac, on_a_server = climb(asked(), M3_MAX), climb(asked(), SERVER)
    assert [remedy.title for remedy in on_a_mac if remedy.name == "optimizer"] == ["Adafactor"]
    assert one(on_a_server, "offload").title == "CPU offload of the optimizer"
    assert one(climb(asked(), M2_8GB), "precision").changes == {"device.precision": "fp16"}
    emulated = one(climb(asked(), PC), "precision")
    assert emulated.changes == {"device.precision": "bf16"}
    assert emulated.slower > 1 > one(climb(asked(), SERVER), "precision").slower
    assert "slower than fp32" in emulated.help


def test_texts_are_cut_below_all_that_keeps_them_and_a_smaller_model_is_advice():
    cut, advice = climb(asked(), length=300)[-2:]
    assert (cut.name, cut.changes) == ("cut", {"data.max_length": 144})
    assert (advice.name, advice.changes, advice.saves) == ("model", {}, 0)


def test_of_an_unknown_model_nothing_is_promised():
    assert climb(asked(), model=ModelReport()) == []

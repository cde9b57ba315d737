"""Which model the ladder is measured on: the largest that fits, and on a CPU one that gets through in time."""

import msgspec
import pytest

from core.benchmark.plan import POSITIONS, SIZES, VOCABULARY, choose_size, cores_of, methods_plan
from core.engine.check_model import check_model
from core.engine.devices import report
from core.engine.environment import prepare_torchvision
from core.memory.model import Room
from core.options import RunOptions
from core.options.device_support import DeviceReport
from core.options.validate import read_options
from tests.fakes.machines import LAPTOP, M2_8GB, M3_MAX, PC, SERVER, variant

prepare_torchvision()
GB = 1 << 30


def room(gigabytes: float) -> Room:
    return Room(free=int(gigabytes * GB), ceiling=int(gigabytes * GB))


def plain(facts: object) -> tuple[RunOptions, DeviceReport]:
    machine = report(facts)
    plan = methods_plan(machine, size="tiny", room=room(64))
    options, _ = read_options(plan.rungs[0].asked)
    assert options is not None
    return options, next(one for one in machine.devices if one.name == options.device.name)


@pytest.mark.parametrize("size", SIZES.values(), ids=str)
def test_its_shape_is_what_the_engine_reads_off_the_model(size: object) -> None:
    options, _ = plain(PC)
    model = msgspec.structs.replace(options.model, source=size.source, vocabulary=VOCABULARY)
    found = check_model(msgspec.structs.replace(options, model=model))
    assert found.shape == size.shape
    assert found.total_parameters == size.shape.parameters
    assert found.max_length == POSITIONS


@pytest.mark.parametrize(
    ("facts", "gigabytes", "name"),
    [
        (SERVER, 79, "bert-large"),
        (LAPTOP, 13, "bert-base"),  # BERT-large would fit into 13 GB, but not with a tenth to spare
        (LAPTOP, 6, "bert-base"),
        (LAPTOP, 3, "minilm"),
        (LAPTOP, 0.5, "tiny"),
        (M3_MAX, 25, "bert-large"),
        (M2_8GB, 4.5, "minilm"),
        (PC, 28, "minilm"),
        (variant(PC, cores=2), 28, "minilm"),
        (variant(PC, cores=64), 60, "bert-large"),
    ],
)
def test_the_largest_that_suits_is_taken(facts: object, gigabytes: float, name: str) -> None:
    options, device = plain(facts)
    assert choose_size(options, device, room(gigabytes)).size.name == name


def test_the_reason_is_said() -> None:
    options, device = plain(LAPTOP)
    assert "12 GB, and 6.0 GB are free" in choose_size(options, device, room(6)).reason
    assert "the guide's own" in choose_size(options, device, room(79)).reason
    assert "isn't known" in choose_size(options, device, None).reason
    assert "the smallest size there is" in choose_size(options, device, room(0.5)).reason
    options, device = plain(variant(PC, cores=2))
    assert "BERT-base would take about" in choose_size(options, device, room(28)).reason
    assert "on 2 cores" in choose_size(options, device, room(28)).reason


def test_a_step_learns_from_every_weight_and_token() -> None:
    large, tiny = SIZES["bert-large"], SIZES["tiny"]
    assert large.flops(4, 512) == pytest.approx(6 * 302e6 * 2048, rel=0.1)
    assert large.flops(8, 512) == 2 * large.flops(4, 512)
    assert tiny.flops(4, 512) < large.flops(4, 512) / 300


def test_cores_are_those_the_engine_counts() -> None:
    assert cores_of(plain(variant(PC, cores=12))[1]) == 12
    assert cores_of(DeviceReport(name="cpu", title="CPU", available=True)) == 1

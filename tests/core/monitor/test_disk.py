from typing import Any

import pytest
from msgspec.structs import replace

from core.base.errors import Fix
from core.monitor.recent import REVEAL, STOP
from core.options.sections import OutputOptions
from core.runs.events import DiskSampled, WhatRan
from tests.fakes.told_run import GB, OPTIONS, ToldRun, watch


def run_with(*free: int, checkpoint: int = 0) -> ToldRun:
    """A run on a disk with so many bytes free, one after the other."""
    run = ToldRun(steps=600)
    run.steps(10, 0.5)
    if checkpoint:
        run.save(checkpoint)
    for each in free:
        run.computer.disk = DiskSampled(free=each, total=256 * GB)
        run.steps(10, 0.5)
    return run


def test_little_room_is_told_of() -> None:
    message = watch(run_with(GB).events).one
    assert (message.id, message.title) == ("disk-full", "The disk is nearly full")
    assert "1.0 GB of 256 GB are free where the run is kept." in message.detail
    assert message.fixes == (REVEAL, STOP)


def test_room_for_two_checkpoints_is_wanted() -> None:
    assert watch(run_with(5 * GB, checkpoint=2 * GB).events).messages == []
    message = watch(run_with(5 * GB, checkpoint=3 * GB).events).one
    assert "A checkpoint of this run takes 3.0 GB." in message.detail


@pytest.mark.parametrize(
    ("ran", "size"),
    [
        ({"parameter_dtype": "float32"}, "12 GB"),
        ({"parameter_dtype": "bfloat16"}, "10 GB"),
        ({"parameter_dtype": "bfloat16 + float32"}, "12 GB"),
        ({"parameter_dtype": "float32", "adapter": "LoRA", "trainable_parameters": GB // 4}, "9.0 GB"),
    ],
)
def test_the_first_checkpoint_is_foretold_from_what_it_will_hold(ran: dict[str, Any], size: str) -> None:
    run = run_with()
    told = {"total_parameters": GB, "optimizer_state_bytes": 8 * GB, **ran}
    run.events = [replace(e, **told) if isinstance(e, WhatRan) else e for e in run.events]
    run.computer.disk = DiskSampled(free=7 * GB, total=256 * GB)
    run.steps(10, 0.5)
    message = watch(run.events).one
    assert message.title == "The disk has no room for the next checkpoint"
    assert f"A checkpoint of this run will take about {size}." in message.detail


def test_with_no_room_a_stop_that_saves_is_not_offered() -> None:
    assert watch(run_with(2 * GB, checkpoint=3 * GB).events).one.fixes == (REVEAL,)


def test_with_no_room_for_one_it_is_said_anew() -> None:
    watched = watch(run_with(5 * GB, 2 * GB, checkpoint=3 * GB).events)
    assert [message.title for message in watched.raised] == [
        "The disk is nearly full",
        "The disk has no room for the next checkpoint",
    ]


def test_where_several_checkpoints_are_kept_one_is_offered() -> None:
    options = replace(OPTIONS, output=OutputOptions(keep_checkpoints=5))
    message = watch(run_with(GB).events, options=options).one
    fewer = Fix("Keep one checkpoint only", {"output.keep_checkpoints": 1})
    assert message.fixes == (fewer, REVEAL, STOP)


def test_it_is_withdrawn_once_there_is_clearly_more() -> None:
    wavering = [int(1.9 * GB), int(2.1 * GB)] * 4
    assert len(watch(run_with(*wavering).events).messages) == 1
    assert watch(run_with(*wavering, 3 * GB).events).withdrawn == ["disk-full"]


def test_it_says_nothing_once_the_run_is_over() -> None:
    run = run_with(GB)
    run.finish()
    assert watch(run.events).withdrawn == ["disk-full"]


def test_a_disk_that_cannot_be_read_alarms_nobody() -> None:
    run = ToldRun(steps=600)
    run.computer.disk = None
    run.steps(100, 0.5)
    assert watch(run.events).messages == []

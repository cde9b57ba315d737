"""What only a real NVIDIA card shows. `python3 start.py bench --gpu` runs these; without a card they are skipped."""

import os
from pathlib import Path

import pytest
import torch

from core.base.jobs import run_job
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import report
from core.engine.devices.memory import DeviceMemory
from core.jobs.devices import CHECK_SECONDS, DeviceCheckReport, DeviceCheckRequest
from core.monitor.nvidia import gpu_of
from core.monitor.sampler import Sampler
from core.options.device_support import find_device
from core.runs.event_log import EventReader
from core.runs.events import (
    DeviceSampled,
    MemorySampled,
    MessageRaised,
    Outcome,
    RunFinished,
    Source,
    WhatRan,
)
from tests.performance import forecast
from tests.performance.faults.training import Attended, new_run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA, for want of an NVIDIA GPU"),
]
CARD = "cuda:0"
MIB = 1 << 20


def events_of(folder: Path, changes: forecast.Changes, steps: int = 8) -> list:
    """The events of a short run of a small BERT on the card."""
    source = forecast.model(folder, "bert-small")
    options = forecast.options_of({**forecast.text(source, 64, 64, 8), **changes}, CARD, steps)
    run = new_run(options, folder / "run")
    attended = Attended(run)
    try:
        attended.until_over()
    finally:
        attended.end()
    return [*EventReader(run.events_file).read_all(), *EventReader(run.machine_file).read_all()]


def of_type(events: list, kind: type) -> list:
    return [event for event in events if isinstance(event, kind)]


def test_the_card_is_found_and_chosen():
    facts = gather()
    assert facts.cuda
    assert facts.cuda[0].memory_bytes == torch.cuda.get_device_properties(0).total_memory
    machine = report(facts)
    device = find_device(machine, "auto")
    assert device is not None
    assert device.name == CARD
    assert device.available
    assert device.automatic["data.pin_memory"].value == "on"


def test_the_driver_tells_the_load_and_the_memory_of_this_process():
    held = torch.empty(256 * MIB, dtype=torch.uint8, device=CARD)
    sampler = Sampler(os.getpid(), lambda: gpu_of(CARD))
    sampler.sample()
    sampler.finish(5.0)
    events = sampler.sample()
    loads = [event for event in of_type(events, DeviceSampled) if event.source is Source.NVML]
    memory = [event for event in of_type(events, MemorySampled) if event.source is Source.NVML]
    assert loads
    assert memory[-1].bytes >= held.numel()


def test_the_allocators_peak_stays_when_memory_is_freed():
    memory = DeviceMemory("cuda")
    held = torch.empty(512 * MIB, dtype=torch.uint8, device=CARD)
    sample = memory.sample()
    assert sample is not None
    assert sample.bytes >= 512 * MIB
    del held
    torch.cuda.empty_cache()
    after, peak = memory.sample(), memory.peak()
    assert after is not None
    assert after.bytes <= sample.bytes - 512 * MIB
    assert peak is not None
    assert peak >= 512 * MIB


def test_a_run_trains_on_the_card_and_reports_its_memory(tmp_path):
    events = events_of(tmp_path, {})
    (ran,) = of_type(events, WhatRan)
    assert ran.device == CARD
    assert ran.device_name == torch.cuda.get_device_name(0)
    assert ran.pinned
    assert any(event.source is Source.TORCH for event in of_type(events, MemorySampled))
    assert of_type(events, RunFinished)[-1].state is Outcome.FINISHED


def test_a_full_card_ends_the_run_with_remedies(tmp_path):
    # the scores of one layer's attention: 65,536 x 2 x 512 x 512 x 4 bytes are 128 GiB
    huge = {
        "model.attention": "eager",
        "data.train": "synthetic:65536x512",
        "data.max_length": 512,
        "memory.batch_size": 65536,
    }
    events = events_of(tmp_path, huge)
    assert of_type(events, RunFinished)[-1].state is Outcome.FAILED
    assert any(fix.changes for message in of_type(events, MessageRaised) for fix in message.fixes)


def test_the_card_computes_what_the_cpu_computes():
    request = DeviceCheckRequest(device=CARD, short=True)
    found = run_job("check-device", request, DeviceCheckReport, timeout=CHECK_SECONDS)
    assert not [comparison.name for comparison in found.comparisons if comparison.differs]

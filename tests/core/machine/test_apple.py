"""A Mac's own programs, by what is documented of their output: written by hand, keys left out here and there."""

import plistlib
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from core.events import DeviceSampled, MemorySampled, Source
from core.machine.apple import IOREG, VM_STAT, AppleFigures, AppleGpu, compressed_bytes, read_gpu
from core.machine.pressure import PressureGauge
from core.machine.sampler import Sampler

VM_STAT_TEXT = b"""\
Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                5123.
Pages active:                            482301.
Pages wired down:                        214007.
Pages stored in compressor:              731220.
Pages occupied by compressor:            200000.
Decompressions:                        12345678.
Swapins:                                  10240.
Swapouts:                                 20480.
"""

GPU = {
    "model": "Apple M3 Max",
    "gpu-core-count": 30,
    "IOClass": "AGXAcceleratorG15X",
    "PerformanceStatistics": {
        "Device Utilization %": 87,
        "Renderer Utilization %": 80,
        "In use system memory": 9_663_676_416,
        "Alloc system memory": 12_884_901_888,
    },
}


def without(*names: str) -> dict[str, Any]:
    """The GPU without some of its figures."""
    figures = {name: value for name, value in GPU["PerformanceStatistics"].items() if name not in names}
    return {**GPU, "PerformanceStatistics": figures}


class FakeMac:
    """Answers the two programs; an answer may be an error to raise."""

    def __init__(self, answers: dict[Sequence[str], bytes | Exception]) -> None:
        self.answers = answers
        self.calls: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> bytes:
        self.calls.append(command)
        answer = self.answers[command]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_compressed_pages_count_by_the_room_they_take() -> None:
    assert compressed_bytes(VM_STAT_TEXT) == 200_000 * 16_384


@pytest.mark.parametrize("text", [b"", b"page size of 4096 bytes", b"Pages occupied by compressor: 12."])
def test_an_unknown_output_of_vm_stat_is_no_figure(text: bytes) -> None:
    assert compressed_bytes(text) is None


@pytest.mark.parametrize("plist", [[GPU], GPU, [GPU, without("In use system memory")]])
def test_a_list_of_gpus_or_one_alone(plist: Any) -> None:
    found = read_gpu(plistlib.dumps(plist))
    assert found == AppleGpu(name="Apple M3 Max", busy=0.87, memory=9_663_676_416)


def test_a_figure_that_is_missing_is_none_and_never_zero() -> None:
    assert read_gpu(plistlib.dumps([without("In use system memory")])) == AppleGpu("Apple M3 Max", 0.87, None)
    assert read_gpu(plistlib.dumps([without("Device Utilization %")])) == AppleGpu(
        "Apple M3 Max", None, 9_663_676_416
    )
    assert read_gpu(plistlib.dumps([without("Device Utilization %", "In use system memory")])) is None


def test_a_name_kept_as_bytes_is_read_and_one_left_out_is_made_up_for() -> None:
    named = read_gpu(plistlib.dumps([{**GPU, "model": b"Apple M1\0"}]))
    nameless = read_gpu(plistlib.dumps({"PerformanceStatistics": GPU["PerformanceStatistics"]}))
    assert named is not None
    assert nameless is not None
    assert (named.name, nameless.name) == ("Apple M1", "Apple GPU")


@pytest.mark.parametrize(
    "plist",
    [b"", b"\n", plistlib.dumps([]), plistlib.dumps({}), plistlib.dumps([{"PerformanceStatistics": 3}])],
)
def test_no_gpu_is_none(plist: bytes) -> None:
    assert read_gpu(plist) is None


def test_what_is_no_property_list_is_an_error() -> None:
    for text in (b"ioreg: no such class", b"<plist><dict>"):
        with pytest.raises(ValueError):  # noqa: PT011 - plistlib's own words
            read_gpu(text)


@pytest.mark.parametrize(
    "answer",
    [b"", b"rubbish", FileNotFoundError("ioreg"), subprocess.CalledProcessError(1, "ioreg")],
)
def test_a_program_that_fails_is_not_started_again(answer: bytes | Exception) -> None:
    mac = FakeMac({IOREG: answer, VM_STAT: VM_STAT_TEXT})
    figures = AppleFigures(mac)
    assert [figures.gpu(), figures.gpu()] == [None, None]
    assert [figures.compressed(), figures.compressed()] == [200_000 * 16_384] * 2
    assert mac.calls == [IOREG, VM_STAT, VM_STAT]


def test_a_mac_that_is_too_busy_to_answer_is_asked_again() -> None:
    mac = FakeMac({IOREG: subprocess.TimeoutExpired("ioreg", 1.0)})
    figures = AppleFigures(mac)
    assert figures.gpu() is None
    mac.answers[IOREG] = plistlib.dumps([GPU])
    assert figures.gpu() is not None


def test_a_macs_sample_tells_of_its_gpu_and_its_compressed_memory() -> None:
    mac = FakeMac({IOREG: plistlib.dumps([GPU]), VM_STAT: VM_STAT_TEXT})
    found = Sampler(gauge=PressureGauge(None), apple=AppleFigures(mac)).sample()
    memory = {event.source: event for event in found if isinstance(event, MemorySampled)}
    assert memory[Source.APPLE].bytes == 9_663_676_416
    assert memory[Source.SYSTEM].compressed == 200_000 * 16_384
    gpus = [event for event in found if isinstance(event, DeviceSampled) and event.source is Source.APPLE]
    assert [(gpu.name, gpu.busy) for gpu in gpus] == [("Apple M3 Max", 0.87)]

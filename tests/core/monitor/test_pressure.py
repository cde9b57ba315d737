"""What operating systems say of their memory, as they document it: nobody of us has them all."""

import errno
from collections.abc import Callable

import pytest

from core.monitor import system as monitor_system
from core.monitor.sampler import Sampler
from core.monitor.system import PressureGauge, linux_pressure, mac_pressure, pressure_gauge
from core.runs.events import MemorySampled, Pressure, Source

PSI = """\
some avg10={some} avg60=1.00 avg300=0.20 total=123456
full avg10=99.00 avg60=0.00 avg300=0.00 total=1234
"""


class Asked:
    """Counts how often it is asked."""

    def __init__(self, answer: Callable[[], Pressure]) -> None:
        self.count = 0
        self._answer = answer

    def __call__(self) -> Pressure:
        self.count += 1
        return self._answer()


@pytest.mark.parametrize(
    ("waited", "expected"),
    [
        ("0.00", Pressure.NORMAL),
        ("9.99", Pressure.NORMAL),
        ("10.00", Pressure.WARN),
        ("39.99", Pressure.WARN),
        ("40.00", Pressure.CRITICAL),
        ("100.00", Pressure.CRITICAL),
    ],
)
def test_linux_is_judged_by_the_time_some_task_waited(waited: str, expected: Pressure) -> None:
    assert linux_pressure(PSI.format(some=waited)) is expected


@pytest.mark.parametrize("text", ["", "full avg10=1.00 total=1\n", "some avg60=1.00\n", "some avg10=much\n"])
def test_figures_that_linux_does_not_give_are_no_normal_pressure(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - float's own words, or ours
        linux_pressure(text)


def test_the_numbers_of_macos() -> None:
    assert [mac_pressure(level) for level in (1, 2, 4)] == [Pressure.NORMAL, Pressure.WARN, Pressure.CRITICAL]
    with pytest.raises(ValueError, match="3"):
        mac_pressure(3)


MISSING = OSError(errno.ENOENT, "sysctl kern.memorystatus_vm_pressure_level")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x01\x00\x00\x00", Pressure.NORMAL),
        (b"\x02\x00\x00\x00", Pressure.WARN),
        (b"\x04\x00\x00\x00", Pressure.CRITICAL),
        (b"\x00\x00\x00\x04", None),  # the highest byte first, as on no Mac
        (b"\x00\x00\x00\x00", None),
        (b"\x03\x00\x00\x00", None),
        (b"\xff\xff\xff\xff", None),
        (b"\x01\x00\x00\x00\x00\x00\x00\x00", None),
        (b"\x01", None),
        (b"", None),
        (MISSING, None),
    ],
)
def test_macos_as_sysctlbyname_gives_it(
    value: bytes | OSError, expected: Pressure | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recorded(name: str) -> bytes:
        assert name == "kern.memorystatus_vm_pressure_level"
        if isinstance(value, OSError):
            raise value
        return value

    monkeypatch.setattr(monitor_system, "sysctl", recorded)
    assert pressure_gauge("darwin").read() is expected


def test_what_fails_once_is_not_asked_again() -> None:
    def fail() -> Pressure:
        raise OSError("not supported")

    asked = Asked(fail)
    gauge = PressureGauge(asked)
    assert [gauge.read(), gauge.read(), gauge.read()] == [None, None, None]
    assert asked.count == 1


def test_each_system_is_asked_in_its_own_way(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(monitor_system, "PSI", tmp_path / "memory")
    assert pressure_gauge("linux").read() is None
    (tmp_path / "memory").write_text(PSI.format(some="12.00"))
    assert pressure_gauge("linux").read() is Pressure.WARN
    assert pressure_gauge("win32").read() is None


def test_a_sample_carries_the_pressure_and_none_where_there_is_none() -> None:
    def system(gauge: PressureGauge) -> MemorySampled:
        samples = [event for event in Sampler(gauge=gauge).sample() if isinstance(event, MemorySampled)]
        assert samples[-1].source is Source.SYSTEM
        return samples[-1]

    assert system(PressureGauge(lambda: Pressure.WARN)).pressure is Pressure.WARN
    assert system(PressureGauge(None)).pressure is None

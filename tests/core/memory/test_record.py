"""What forecasts have been worth is remembered, and teaches one factor a device."""

from pathlib import Path

import pytest

from core.base import settings
from core.memory.history import PastRun, corrected, correction, read, remember, typical_error
from core.memory.model import Basis, Forecast, Parts


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def kept(forecast: int, measured: int, device: str = "a CPU", **more: object) -> PastRun:
    return PastRun(device=device, basis=Basis.FORMULA, forecast=forecast, measured=measured, **more)


def test_what_is_remembered_is_read_back_oldest_first() -> None:
    for measured in (100, 200):
        remember(kept(110, measured))
    assert [one.measured for one in read()] == [100, 200]


def test_only_the_newest_are_kept() -> None:
    lines = b"".join(
        b'{"device":"a","basis":"formula","forecast":1,"measured":%d}\n' % n for n in range(1, 251)
    )
    settings.home().mkdir(parents=True, exist_ok=True)
    (settings.home() / "memory.jsonl").write_bytes(lines)
    remember(kept(1, 251))
    assert [one.measured for one in read()] == list(range(1, 252))
    (settings.home() / "memory.jsonl").write_bytes(lines * 2)
    remember(kept(1, 251))
    assert [one.measured for one in read()] == list(range(52, 252))


def test_a_damaged_line_costs_only_itself() -> None:
    remember(kept(110, 100))
    with (settings.home() / "memory.jsonl").open("ab") as file:
        file.write(b'{"device":\n{"device":"a","basis":"formula","forecast":1,"measured":0}\n')
    assert len(read()) == 1


def test_a_folder_that_cant_be_written_costs_no_run() -> None:
    settings.home().write_text("a file where the folder should be")
    remember(kept(110, 100))
    assert read() == ()


@pytest.mark.parametrize(
    ("measured", "factor"),
    [
        ((110, 120, 130), 1.2),
        ((110, 120), 1.0),  # two teach nothing
        ((300, 300, 300), 1.35),
        ((10, 10, 10), 0.8),
    ],
)
def test_the_median_of_enough_runs_corrects(measured: tuple[int, ...], factor: float) -> None:
    assert correction("a CPU", [kept(100, found) for found in measured]) == pytest.approx(factor)


def test_what_was_corrected_already_is_not_corrected_twice() -> None:
    told = [kept(120, 120, correction=1.2) for _ in range(5)]
    assert correction("a CPU", told) == pytest.approx(1.2)


def test_each_device_learns_for_itself_and_from_forecasts_only() -> None:
    gpu = [kept(100, 120, device="a GPU") for _ in range(3)]
    assert correction("a CPU", gpu) == 1.0
    measured = [PastRun(device="a CPU", basis=Basis.MEASURED, forecast=100, measured=120) for _ in range(3)]
    assert correction("a CPU", measured) == 1.0
    assert typical_error(measured) is None


def test_only_the_newest_runs_of_a_device_teach() -> None:
    old, new = [kept(100, 130) for _ in range(30)], [kept(100, 110) for _ in range(20)]
    assert correction("a CPU", [*old, *new]) == pytest.approx(1.1)


def test_the_error_is_a_share_of_what_was_measured() -> None:
    assert kept(90, 100).error == pytest.approx(-0.1)
    assert typical_error([kept(90, 100), kept(104, 100), kept(130, 100)]) == pytest.approx(0.1)


def test_a_forecast_is_corrected_in_all_its_parts_and_a_measurement_in_none() -> None:
    told = Forecast(basis=Basis.FORMULA, device="cpu", parts=Parts(weights=100, overhead=10), correction=1.1)
    assert corrected(told, 1.32).parts == Parts(weights=120, overhead=12)
    assert corrected(told, 1.32).correction == 1.32
    assert corrected(corrected(told, 1.32), 1.32) == corrected(told, 1.32)
    measured = Forecast(basis=Basis.MEASURED, device="cpu", parts=Parts(weights=100))
    assert corrected(measured, 1.2) == measured


def test_another_hone_forecast_otherwise_and_teaches_nothing() -> None:
    others = [kept(100, 130, version="0.0.1") for _ in range(5)]
    assert correction("a CPU", others) == 1.0
    assert typical_error(others) is None

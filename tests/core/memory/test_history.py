"""Forecasts and measured peaks of past runs, which correct later forecasts by one factor per device."""

import pytest

from core.base import settings
from core.memory.estimate import corrected
from core.memory.history import PastRun, correction, read, remember, typical_error
from core.memory.model import Basis, Forecast, Parts


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def kept(forecast: int, measured: int, device: str = "a CPU", **more: object) -> PastRun:
    return PastRun(device=device, basis=Basis.FORMULA, forecast=forecast, measured=measured, **more)


def test_the_newest_are_read_back_oldest_first():
    for measured in (100, 200):
        remember(kept(110, measured))
    assert [run.measured for run in read()] == [100, 200]
    lines = (b'{"device":"a","basis":"formula","forecast":1,"measured":%d}\n' % n for n in range(1, 501))
    (settings.home() / "memory.jsonl").write_bytes(b"".join(lines))
    remember(kept(1, 501))
    assert [run.measured for run in read()] == list(range(302, 502))


def test_a_damaged_line_costs_only_itself_and_a_folder_nothing():
    remember(kept(110, 100))
    path = settings.home() / "memory.jsonl"
    with path.open("ab") as file:
        file.write(b'{"device":\n{"device":"a","basis":"formula","forecast":1,"measured":0}\n')
    assert len(read()) == 1
    path.unlink()
    path.mkdir()
    remember(kept(110, 100))
    assert read() == ()


OTHERS = {
    "too few": [kept(100, 110), kept(100, 120)],
    "another device": [kept(100, 120, device="a GPU")] * 3,
    "another Hone": [kept(100, 130, version="0.0.1")] * 5,
    "measured": [PastRun(device="a CPU", basis=Basis.MEASURED, forecast=100, measured=120)] * 3,
}


@pytest.mark.parametrize(
    ("past", "factor"),
    [
        ([kept(100, 110), kept(100, 120), kept(100, 130)], 1.2),
        ([kept(100, 300)] * 3, 1.35),
        ([kept(100, 10)] * 3, 0.8),
        ([kept(120, 120, correction=1.2)] * 5, 1.2),  # not corrected twice
        ([kept(100, 130)] * 30 + [kept(100, 110)] * 20, 1.1),  # only the newest count
        *((past, 1.0) for past in OTHERS.values()),
    ],
)
def test_the_median_of_enough_forecasts_on_a_device_is_the_correction(past, factor):
    assert correction("a CPU", past) == pytest.approx(factor)


def test_the_error_is_a_share_of_what_was_measured():
    assert kept(90, 100).error == pytest.approx(-0.1)
    assert typical_error([kept(90, 100), kept(104, 100), kept(130, 100)]) == pytest.approx(0.1)
    assert typical_error([*OTHERS["another Hone"], *OTHERS["measured"]]) is None


def test_a_forecast_is_corrected_in_all_its_parts_and_a_measurement_in_none():
    told = Forecast(basis=Basis.FORMULA, device="cpu", parts=Parts(weights=100, overhead=10), correction=1.1)
    assert corrected(told, 1.32).parts == Parts(weights=120, overhead=12)
    assert corrected(told, 1.32).correction == 1.32
    assert corrected(corrected(told, 1.32), 1.32) == corrected(told, 1.32)
    measured = Forecast(basis=Basis.MEASURED, device="cpu", parts=Parts(weights=100))
    assert corrected(measured, 1.2) == measured

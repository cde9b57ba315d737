"""How good forecasts of memory have been, in words."""

from core.memory.history import PastRun
from core.memory.model import Basis
from gui.run.words import forecast_words


def kept(forecast: int, measured: int, device: str = "Apple M2") -> PastRun:
    return PastRun(device=device, basis=Basis.FORMULA, forecast=forecast, measured=measured)


def test_nothing_is_said_before_there_was_a_run() -> None:
    assert forecast_words(()) == ""


def test_one_run_teaches_nothing_yet() -> None:
    assert forecast_words((kept(96, 100),)) == (
        "Memory forecast on this computer: off by 4 % in one run that went through all its data."
    )


def test_what_several_have_taught() -> None:
    assert forecast_words([kept(90, 99) for _ in range(3)]) == (
        "Memory forecasts on this computer: off by 9 % in the median of 3 runs that went through all their data. "
        "New ones for Apple M2 are raised by 10 %."
    )


def test_several_devices_share_a_sentence() -> None:
    past = [*(kept(90, 99) for _ in range(3)), *(kept(100, 96, "NVIDIA RTX 4070") for _ in range(3))]
    assert forecast_words(past).endswith("New ones are corrected: Apple M2 +10 %, NVIDIA RTX 4070 −4 %.")

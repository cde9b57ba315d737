"""`hone check-device`: its table, its exit status, what it asks for."""

import msgspec
import pytest

from core.cli.main import main
from core.services.devices import Agreement, Comparison, DeviceCheckReport, DeviceCheckRequest

SOUND = Comparison(
    name="Loss",
    explanation="The losses of two models.",
    agreement=Agreement.AGREES,
    worst_error=2.5e-7,
    worst_tensor="decoder",
    tolerance=1e-4,
    seconds=0.5,
)
SAME = msgspec.structs.replace(SOUND, worst_error=0.0, worst_tensor="")
WRONG = Comparison(
    name="Gradients",
    explanation="The gradient of every weight.",
    agreement=Agreement.DIFFERS,
    worst_error=12.8,
    worst_tensor="gradient of head.weight",
    tolerance=1e-3,
    detail="Train on the CPU.",
)
NO_NUMBER = msgspec.structs.replace(WRONG, worst_error=None)
NOT_RUN = Comparison(
    name="Repeated",
    explanation="Computed twice.",
    agreement=Agreement.NOT_RUN,
    tolerance=1e-4,
    detail="No comparison is begun after 25 s.",
)


class FakeAsk:
    """Answers a report of these comparisons; `requests` are those it was asked."""

    def __init__(self, *comparisons: Comparison) -> None:
        self._comparisons = comparisons
        self.requests: list[DeviceCheckRequest] = []

    def __call__(
        self, _name: str, request: DeviceCheckRequest, *_: object, **__: object
    ) -> DeviceCheckReport:
        self.requests.append(request)
        return DeviceCheckReport(
            device="mps",
            title="Apple M2",
            reference="Apple M2, 8 threads",
            software="PyTorch 2.13.0, macOS 15.5",
            conclusion="They were compared.",
            comparisons=self._comparisons,
            seconds=7.25,
            short=request.short,
        )


def ended(monkeypatch: pytest.MonkeyPatch, *comparisons: Comparison) -> int:
    monkeypatch.setattr("core.cli.data.run_job", FakeAsk(*comparisons))
    return main(["devices", "--check"])


@pytest.mark.parametrize(
    ("comparisons", "status"),
    [
        ((SOUND, SAME), 0),
        ((SOUND, NOT_RUN), 0),
        ((SOUND, WRONG), 1),
        ((SOUND, NO_NUMBER, NOT_RUN), 1),
        ((NOT_RUN,), 1),
        ((), 1),
    ],
)
def test_ends_with_1_where_something_differs_or_nothing_was_compared(
    comparisons: tuple[Comparison, ...], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(monkeypatch, *comparisons) == status


def test_tells_each_comparison_and_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(monkeypatch, SOUND, SAME, WRONG, NO_NUMBER, NOT_RUN)
    lines = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    assert lines[:2] == ["Apple M2", "compared with Apple M2, 8 threads"]
    assert cells[3] == ["RESULT", "COMPARED", "WORST ERROR", "ALLOWED", "FOUND IN", "TOOK"]
    assert cells[4] == ["agrees", "Loss", "2.5e-07", "1e-04", "decoder", "0.5 s"]
    assert cells[5] == ["agrees", "Loss", "0", "1e-04", "-", "0.5 s"]
    assert cells[6] == ["differs", "Gradients", "1.3e+01", "1e-03", "gradient of head.weight", "0.0 s"]
    assert cells[7][2] == "no number"
    assert cells[8] == ["not run", "Repeated", "-", "1e-04", "-", "0.0 s"]
    assert "Gradients: The gradient of every weight. Train on the CPU." in lines
    assert lines[-2:] == ["They were compared.", "7.2 s with PyTorch 2.13.0, macOS 15.5."]


def test_asks_for_the_device_and_the_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = FakeAsk(WRONG)
    monkeypatch.setattr("core.cli.data.run_job", ask)
    assert main(["devices", "--check", "--short", "--device", "cuda:1", "--json"]) == 1
    assert ask.requests == [DeviceCheckRequest(device="cuda:1", short=True)]
    captured = capsys.readouterr()
    told = msgspec.json.decode(captured.out)
    assert told["comparisons"][0]["agreement"] == "differs"
    assert told["short"] is True
    assert captured.err == ""

"""The first run on MPS asks for a device check, once for each PyTorch and macOS, and every run hears what was found."""

from pathlib import Path

import pytest

from core.base.errors import UserError
from core.base.jobs import EngineCrashed
from core.engine.devices import check as device_check
from core.engine.devices.check import memory_file, recall, warn_of_wrong_numbers
from core.engine.reporter import Reporter
from core.runs.event_log import EventReader
from core.runs.events import Level, MessageRaised
from core.runs.folder import RunFolder
from core.runs.status import RunStory
from core.services.devices import Agreement, Comparison, DeviceCheckReport, DeviceCheckRequest


def comparison(agreement: Agreement, error: float | None = 0.5) -> Comparison:
    return Comparison(
        name="Gradients",
        explanation="The gradient of every weight.",
        agreement=agreement,
        worst_error=error,
        worst_tensor="gradient of head.weight",
        tolerance=1e-3,
        detail="Train on the CPU." if agreement is Agreement.DIFFERS else "",
    )


class FakeCheck:
    """Answers a report of one comparison, or raises; `requests` are those it was asked."""

    def __init__(self, answer: Comparison | Exception) -> None:
        self._answer = answer
        self.requests: list[DeviceCheckRequest] = []

    def __call__(self, request: DeviceCheckRequest) -> DeviceCheckReport:
        self.requests.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return DeviceCheckReport(
            device="mps",
            title="Apple M2",
            reference="Apple M2, 8 threads",
            software="PyTorch 2.13.0, macOS 15.5",
            conclusion="",
            comparisons=(self._answer,),
            short=True,
        )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("platform.mac_ver", lambda: ("15.5", ("", "", ""), "arm64"))
    return tmp_path / "home"


def messages(path: Path, check: FakeCheck) -> list[MessageRaised]:
    """What stands on the page of a run after the check, at most one message."""
    path.mkdir()
    run = RunFolder(path)
    warn_of_wrong_numbers(Reporter(run), check)
    story = RunStory()
    for event in EventReader(run.events_file).read_all():
        story.apply(event)
    return list(story.messages.values())


def test_a_sound_gpu_is_checked_once_and_nothing_is_said(tmp_path: Path) -> None:
    check = FakeCheck(comparison(Agreement.AGREES))
    assert messages(tmp_path / "one", check) == []
    assert messages(tmp_path / "two", check) == []
    assert check.requests == [DeviceCheckRequest(device="mps", short=True)]


def test_what_differs_is_told_to_every_run_and_checked_once(tmp_path: Path) -> None:
    check = FakeCheck(comparison(Agreement.DIFFERS))
    for name in ("one", "two"):
        (message,) = messages(tmp_path / name, check)
        assert (message.id, message.level) == ("device-check", Level.WARNING)
        assert message.title == "This Mac's GPU computes wrong numbers"
        assert message.detail.splitlines() == [
            "Gradients: an error of 0.5 in the gradient of head.weight. Train on the CPU.",
            "Found with PyTorch 2.13.0, macOS 15.5. `hone devices --check` compares again, and more.",
        ]
        assert message.fixes[0].changes == {"device.name": "cpu"}
    assert len(check.requests) == 1


def test_values_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    (message,) = messages(tmp_path / "one", FakeCheck(comparison(Agreement.DIFFERS, error=None)))
    assert message.detail.startswith("Gradients: no numbers in the gradient of head.weight.")


def test_what_was_not_run_is_no_reason_to_warn(tmp_path: Path) -> None:
    assert messages(tmp_path / "one", FakeCheck(comparison(Agreement.NOT_RUN, error=None))) == []


@pytest.mark.parametrize(
    "error",
    [EngineCrashed("check-device", -6, "Device check: Gradients"), UserError("No answer came in time")],
)
def test_a_check_that_gives_no_answer_is_told_and_made_three_times_at_most(
    tmp_path: Path, error: Exception
) -> None:
    check = FakeCheck(error)
    for name in ("one", "two", "three", "four"):
        (message,) = messages(tmp_path / name, check)
        assert message.title == "This Mac's GPU could not be checked"
        assert str(error) in message.detail
    assert len(check.requests) == 3


def test_a_moments_trouble_is_forgotten_once_a_check_is_made(tmp_path: Path) -> None:
    assert len(messages(tmp_path / "one", FakeCheck(UserError("No answer came in time")))) == 1
    sound = FakeCheck(comparison(Agreement.AGREES))
    assert messages(tmp_path / "two", sound) == []
    assert messages(tmp_path / "three", sound) == []
    assert len(sound.requests) == 1


def test_another_macos_is_checked_again_and_the_first_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = FakeCheck(comparison(Agreement.DIFFERS))
    messages(tmp_path / "one", check)
    monkeypatch.setattr("platform.mac_ver", lambda: ("15.6", ("", "", ""), "arm64"))
    messages(tmp_path / "two", check)
    assert len(check.requests) == 2
    assert [key.rpartition(", ")[2] for key in recall()] == ["macOS 15.5", "macOS 15.6"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"PyTorch 2, macOS 15": 3}'])
def test_a_damaged_memory_is_as_good_as_none(tmp_path: Path, home: Path, content: bytes) -> None:
    home.mkdir()
    memory_file().write_bytes(content)
    check = FakeCheck(comparison(Agreement.AGREES))
    assert messages(tmp_path / "one", check) == []
    assert len(check.requests) == 1
    assert len(recall()) == 1


def test_where_nothing_can_be_kept_the_run_goes_on(tmp_path: Path, home: Path) -> None:
    home.write_text("a file where the folder should be")
    check = FakeCheck(comparison(Agreement.DIFFERS))
    assert len(messages(tmp_path / "one", check)) == 1
    assert recall() == {}


def test_while_it_compares_the_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    run = RunFolder(tmp_path / "one")
    warn_of_wrong_numbers(Reporter(run), FakeCheck(comparison(Agreement.AGREES)))
    raised = [event for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)]
    assert [message.title for message in raised] == ["Comparing this Mac's GPU with its CPU"]
    assert raised[0].id == device_check.MESSAGE

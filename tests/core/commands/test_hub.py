"""`hone hub` as a person types it, against a Hub on this computer."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.base import settings
from core.base.jobs import JobProgress
from core.cli import models as commands
from core.cli.main import main
from core.services.hub import Pace
from tests.fakes.clock import FakeClock
from tests.fakes.tiny_on_hub import a_hub
from tests.fakes.whole_hub import WholeHub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WholeHub]:
    with a_hub(tmp_path, monkeypatch) as serving:
        yield serving


def test_found_downloaded_listed_and_removed(
    hub: WholeHub, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["hub", "tiny", "--task", "text-classification"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:2] == ["MODEL", "SIZE"]
    assert table[1].split()[:6] == ["org/tiny", "3.9", "KB", "1,010", "500", "7"]
    assert main(["hub", "--download", "org/tiny"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("3 files, 1.0 MB, in ")
    assert "1.0 MB of 1.0 MB" in told.err
    assert main(["hub", "--list", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [repo["id"] for repo in report["repos"]] == ["org/tiny"]
    assert main(["hub", "--remove", "org/tiny", "--yes"]) == 0
    assert capsys.readouterr().out == "1.0 MB freed\n"
    assert not list((tmp_path / "hub").glob("models--*"))


def test_nothing_is_deleted_unasked(hub: WholeHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hub", "--remove", "org/tiny"]) == 1
    assert "say --yes" in capsys.readouterr().err


def test_nothing_found(hub: WholeHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hub", "zebra"]) == 1
    assert "has “zebra” in its name" in capsys.readouterr().err


def test_work_offline_forbids_it(hub: WholeHub, capsys: pytest.CaptureFixture[str]) -> None:
    settings.save(settings.Settings(offline=True))
    assert main(["hub", "tiny"]) == 1
    assert "“Work offline” in Settings forbids" in capsys.readouterr().err
    assert hub.asked == []


def test_whose_token_it_is(
    hub: WholeHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.people["hf_good_token"] = "ada"
    monkeypatch.setenv("HF_TOKEN", "hf_good_token")
    assert main(["hub", "--account"]) == 0
    assert capsys.readouterr().out == "ada, by the token in HF_TOKEN\n"


def test_a_token_that_can_t_be_kept_is_not_printed(
    hub: WholeHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hf_Secret42\n"))
    assert main(["hub", "--sign-in"]) == 1
    told = capsys.readouterr()
    assert "no keychain" in told.err
    assert "hf_Secret42" not in told.out + told.err


def test_a_terminal_that_is_none_gets_a_line_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    bar = commands._DownloadBar(quiet=False)
    for done in range(0, 1001, 10):
        bar.show(JobProgress(done=done << 20, total=1000 << 20))
    assert len(capsys.readouterr().err.splitlines()) == 11


def test_the_pace_is_that_of_the_last_seconds() -> None:
    clock = FakeClock()
    pace = Pace(clock.monotonic)
    assert pace.speed is None
    for second, done in enumerate((0, 100, 200, 300, 400, 500, 600, 5_600, 10_600, 15_600, 20_600, 25_600)):
        clock.now = float(second)
        pace.add(JobProgress(done=done, total=50_600))
    assert pace.speed == 5000
    assert pace.left(JobProgress(done=25_600, total=50_600)) == 5

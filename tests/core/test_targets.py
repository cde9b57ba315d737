"""Files that a person named to be written to: refused with a reason and a remedy, and nothing half-written is left."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.base import settings
from core.base.errors import TargetError, UserError
from core.base.files import writing
from core.cli.main import main
from core.runs.folder import RunFolder
from tests.fakes.runs import new_run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return new_run(tmp_path / "runs")


def _commands(run: RunFolder, target: Path) -> Iterator[list[str]]:
    yield ["export", str(run.path), "--report", str(target)]
    yield ["show", str(run.path), "--support", str(target)]
    yield ["script", str(run.path), "-o", str(target)]
    yield ["export", str(run.path), "--metrics", str(target)]
    yield ["new", "--task", "text-classification", "-o", str(target)]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("gone/x.html", "There is no folder at {there}/gone."),
        ("file/x.html", "{there}/file is no folder."),
        ("file", "{there}/file is there already; choose another name"),
        ("folder.html", "{there}/folder.html is a folder."),
    ],
)
def test_every_command_refuses_a_target_that_can_not_be(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], named: str, said: str
) -> None:
    there = tmp_path / "there"
    (there / "folder.html").mkdir(parents=True)
    (there / "file").write_text("precious")
    for command in _commands(run, there / named):
        assert main(command) == 2, command
        told = capsys.readouterr().err
        assert said.format(there=there).replace("/", os.sep) in told.replace("/", os.sep), command
        assert "hone.log" not in told
    assert sorted(path.name for path in there.rglob("*")) == ["file", "folder.html"]
    assert not (settings.home() / "hone.log").exists()


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.EACCES, TargetError, "another folder"),
        (errno.EROFS, TargetError, "another folder"),
        (errno.ENOSPC, UserError, "is full"),
        (errno.EIO, UserError, ""),
    ],
)
def test_what_the_system_refuses_is_told_with_its_remedy(
    tmp_path: Path, number: int, kind: type[UserError], said: str
) -> None:
    target = tmp_path / "x.html"
    with pytest.raises(UserError) as caught, writing(target):
        raise _refusal(number, tmp_path / ".x.html.0123")
    assert type(caught.value) is kind
    assert (caught.value.title, (said or os.strerror(number)) in str(caught.value)) == (
        "x.html can't be written",
        True,
    )
    assert str(target) in str(caught.value)
    assert "0123" not in str(caught.value)


def test_a_disk_that_fills_leaves_nothing(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "there" / "x.zip"
    target.parent.mkdir()
    monkeypatch.setattr("zipfile.ZipFile.writestr", _full)
    assert main(["show", str(run.path), "--support", str(target)]) == 1
    told = capsys.readouterr().err
    assert f"{target} is on is full" in told
    assert "hone.log" not in told
    assert list(target.parent.iterdir()) == []


def _full(*_: object) -> None:
    raise _refusal(errno.ENOSPC, Path("temporary"))


def _refusal(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))

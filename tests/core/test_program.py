"""The one program: which part of it an argument asks for, and what each part may import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core import program
from core.choices import Task

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("PySide6", "shiboken6", "torch", "transformers", "datasets", "sklearn", "numpy")


def run_python(code: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HONE_HOME": str(home)},
    )


@pytest.mark.parametrize("arguments", [[], ["my.hone"], ["/a folder/my.TOML"]])
def test_no_arguments_or_a_run_file_open_the_window(arguments: list[str]) -> None:
    assert program.run(arguments, lambda: 41, lambda _: 42) == 41


@pytest.mark.parametrize(
    "arguments",
    [["runs"], ["options"], ["new", "--task", Task.TEXT_CLASSIFICATION], ["train", "nothing"], ["--help"]],
)
def test_the_command_line_loads_neither_qt_nor_torch(arguments: list[str], tmp_path: Path) -> None:
    code = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr))
from gui.__main__ import main
sys.exit(main())
"""
    done = run_python(code, *arguments, home=tmp_path)
    assert done.stderr.splitlines()[-1] == "[]"
    assert done.returncode == (2 if "train" in arguments else 0)


def test_the_keeper_loads_neither_qt_nor_torch(tmp_path: Path) -> None:
    code = f"""
import sys
import core.keeper
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert run_python(code, home=tmp_path).stdout == "[]\n"


def test_the_keeper_wants_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["--keeper"], lambda: 41, lambda _: 42) == 2
    assert "one run folder" in capsys.readouterr().err


class TestInABundle:
    @pytest.fixture(autouse=True)
    def frozen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "frozen", True, raising=False)

    @pytest.mark.parametrize(
        "arguments", [["-c", "print(1)"], ["-m", "pip"], ["-B", "-c", ""], ["script.py", "x"]]
    )
    def test_what_means_a_python_interpreter_is_refused(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert program.run(arguments, lambda: 41, lambda _: 42) == 2
        assert "not a Python interpreter" in capsys.readouterr().err

    def test_the_window_and_the_command_line_are_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert program.run([], lambda: 41, lambda _: 42) == 41
        assert program.run(["options"], lambda: 41, lambda _: 42) == 0
        assert "memory.batch_size" in capsys.readouterr().out

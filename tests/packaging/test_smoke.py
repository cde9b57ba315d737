"""A built program in use, where HONE_PROGRAM names one; without one, only that a step which fails is told."""

import os
import sys
from pathlib import Path

import pytest

from bootstrap import smoke
from bootstrap.errors import SetupError

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("HONE_PROGRAM")


@pytest.mark.skipif(not PROGRAM, reason="HONE_PROGRAM names no program to try, such as dist/hone/hone")
def test_a_built_program_in_use():
    smoke.run(Path(str(PROGRAM)).absolute(), ROOT)


@pytest.mark.skipif(sys.platform == "win32", reason="a program that is a shell script")
def test_each_step_that_fails_is_named(tmp_path, capsys):
    program = tmp_path / "hone"
    program.write_text(
        f"#!/bin/sh\ncase $1 in --version) echo hone {smoke.version(ROOT)};; *) exit 3;; esac\n"
    )
    program.chmod(0o755)
    with smoke.somebody(is_us=True) as person, pytest.raises(SetupError, match="the window is painted"):
        smoke.use(person, program, ROOT)
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if " s  " in line]
    assert words == ["ok"] + ["FAILED"] * len(smoke.steps(tmp_path, ""))

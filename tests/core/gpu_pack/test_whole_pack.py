"""The GPU pack for real, with the CPU build of PyTorch: made of what is installed here, and a run trained from it."""

import json
import os
import subprocess
import sys

import pytest

from core.base.jobs import name_of, needs, read_pack
from core.base.processes import SOURCE_ROOT
from tests.fakes.wheels import wheels_of_this_environment


@pytest.mark.long
def test_a_run_is_trained_from_a_pack(tmp_path):
    wheels_of_this_environment(tmp_path / "wheels", [name_of(line) for line in needs("").requirements])
    environment = {**os.environ, "HONE_HOME": str(tmp_path / "home")}

    def hone(*arguments):
        command = [sys.executable, "-P", "-m", "gui", *map(str, arguments)]
        return subprocess.run(
            command, cwd=SOURCE_ROOT, env=environment, capture_output=True, text=True, check=False
        )

    made = hone("gpu", "--install", "--from", tmp_path / "wheels")
    assert made.returncode == 0, made.stderr
    pack = read_pack(tmp_path / "home" / "gpu-pack")
    assert pack.checked.torch.startswith("2.13.0")
    devices = hone("devices")
    assert f"GPU pack: PyTorch {pack.checked.torch}, without CUDA" in devices.stdout, devices.stderr
    example = SOURCE_ROOT / "resources" / "examples" / "digits.hone"
    trained = hone("train", example, "--set", "training.max_steps=2", "--run-dir", tmp_path / "run", "--json")
    assert trained.returncode == 0, trained.stderr
    ended = json.loads((tmp_path / "run" / "exit.json").read_text())
    assert ended["code"] == 0
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "Traceback" not in log
    removed = hone("gpu", "--remove")
    assert removed.stdout.rstrip().endswith("GB freed")
    assert not (tmp_path / "home" / "gpu-pack").exists()

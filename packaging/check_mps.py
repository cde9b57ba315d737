"""Train on a Mac's GPU and hold it against the CPU, for the workflow: `python packaging/check_mps.py`.

The Macs that GitHub lends are virtual ones, whose GPU often refuses every byte
(https://github.com/actions/runner-images/issues/9918); then nothing of Hone's could be tried, and it says so.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST_RUN = ROOT / "resources" / "examples" / "digits.hone"
PROBE = (
    "import torch; print((torch.ones(64, 64, device='mps') @ torch.ones(64, 64, device='mps')).sum().item())"
)
HONE = (sys.executable, "-P", "-m", "gui")
STEPS = 20


def refusal() -> str:
    """Why this Mac's GPU computes nothing at all; empty where it does."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]


def main() -> int:
    """Try it; the exit status of the first thing that failed, or 0."""
    why = refusal()
    if why:
        print(f"::warning title=MPS was not tried::The GPU of this runner refuses to compute: {why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="hone-mps-") as folder:
        training = [*HONE, "train", str(FIRST_RUN), "--run-dir", str(Path(folder) / "run")]
        options = ["--set", "device.name=mps", "--set", f"training.max_steps={STEPS}"]
        for command in ([*HONE, "check-device", "--device", "mps"], [*training, *options]):
            print(f"+ {' '.join(command)}", flush=True)
            status = subprocess.run(command, cwd=ROOT, check=False).returncode
            if status != 0:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main())

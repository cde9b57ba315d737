"""A bundle carries PyTorch for the CPU: no other is frozen."""

import sys
from pathlib import Path

import pytest

from bootstrap import bundle
from bootstrap.environment import Environment
from bootstrap.errors import SetupError

needs_scripts = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in programs are shell scripts")


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose environment is empty."""
    checkout = Environment(tmp_path)
    Path(checkout.python).parent.mkdir(parents=True)
    return checkout


def script(checkout, name, text):
    path = Path(checkout.program(name))
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@needs_scripts
@pytest.mark.parametrize(
    ("python", "refusal"),
    [
        ("echo 13.0", r"graphics cards \(13.0\)(.|\n)*Delete .*\.venv"),
        ("echo no torch >&2; exit 1", "doesn't load in .*\n.*no torch"),
        ("echo", None),
    ],
    ids=["CUDA", "none", "CPU"],
)
def test_only_a_torch_for_the_cpu_is_frozen(checkout, python, refusal):
    script(checkout, "python", python)
    script(checkout, "pyinstaller", f"touch '{checkout.root}/frozen'")
    if refusal is None:
        bundle.build(checkout)
    else:
        with pytest.raises(SetupError, match=refusal):
            bundle.build(checkout)
    assert (checkout.root / "frozen").exists() is (refusal is None)

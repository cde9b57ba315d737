"""A bundle carries PyTorch for the CPU: its environment is set up with that, and no other is frozen."""

import sys
from pathlib import Path

import pytest

from bootstrap import bundle, environment, graphics, pip
from bootstrap.environment import Environment, Stamp
from bootstrap.errors import SetupError

needs_scripts = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in programs are shell scripts")
CPU_BUILDS = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose environment is empty."""
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging" / "constraints.txt").write_text("torch==2.13.0\n")
    checkout = Environment(tmp_path)
    Path(checkout.python).parent.mkdir(parents=True)
    return checkout


def script(checkout, name, text):
    path = Path(checkout.program(name))
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("system", "chosen", "arguments"),
    [
        ("linux", "2.13.0", CPU_BUILDS),
        ("linux", "", CPU_BUILDS),
        ("linux", "2.13.0+cpu", []),
        ("win32", "2.13.0", []),
        ("darwin", "2.13.0", []),
    ],
)
def test_a_bundle_takes_the_build_for_the_cpu(system, chosen, arguments):
    assert graphics.index_arguments_for_cpu(lambda: chosen, system) == arguments


@pytest.mark.parametrize(
    ("extras", "index"), [({"bundle", "test"}, "instead of torch with CUDA"), ({"test"}, "of the card")]
)
def test_an_environment_that_builds_bundles_never_follows_the_card(checkout, extras, index, monkeypatch):
    installed = []
    monkeypatch.setattr(graphics, "index_arguments", lambda: ["of the card"])
    monkeypatch.setattr(graphics, "index_arguments_for_cpu", lambda chosen: [f"instead of {chosen()}"])
    monkeypatch.setattr(pip, "chosen_version", lambda python, name, constraints: f"{name} with CUDA")
    monkeypatch.setattr(pip, "install", lambda python, arguments, *_, **__: installed.extend(arguments))
    environment._fill(checkout, Stamp("", frozenset(extras)))
    assert installed[-3:-2] == [index]


@needs_scripts
@pytest.mark.parametrize(
    ("answer", "version"),
    [('{"install": [{"metadata": {"version": "2.13.0+cpu"}}]}', "2.13.0+cpu"), ("", ""), ("{}", "")],
)
def test_pip_is_asked_for_the_version_it_would_take(checkout, answer, version):
    script(checkout, "python", f"echo '{answer}'; echo \"$@\" > '{checkout.root}/arguments'")
    assert pip.chosen_version(checkout.python, "torch", checkout.root / "pins") == version
    arguments = (checkout.root / "arguments").read_text()
    assert "--dry-run" in arguments
    assert arguments.endswith("/pins torch\n")


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

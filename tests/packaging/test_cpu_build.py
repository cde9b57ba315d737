"""A bundle carries PyTorch for the CPU: it is set up with that by itself, and another one is never frozen."""

import sys
from pathlib import Path

import pytest

from bootstrap import bundle, environment, graphics, pip
from bootstrap.environment import Environment, Stamp
from bootstrap.errors import SetupError

needs_scripts = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in programs are shell scripts")


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose environment holds nothing yet."""
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging" / "constraints.txt").write_text("torch==2.13.0\n")
    found = Environment(tmp_path)
    Path(found.python).parent.mkdir(parents=True)
    return found


def script(checkout, name, text):
    path = Path(checkout.program(name))
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


CPU_BUILDS = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]


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
    told = []
    monkeypatch.setattr(graphics, "index_arguments", lambda: ["of the card"])
    monkeypatch.setattr(graphics, "index_arguments_for_cpu", lambda chosen: [f"instead of {chosen()}"])
    monkeypatch.setattr(pip, "chosen_version", lambda python, name, constraints: f"{name} with CUDA")
    monkeypatch.setattr(pip, "install", lambda python, arguments, *_, **__: told.extend(arguments))
    environment._fill(checkout, Stamp("", frozenset(extras)))
    assert told[-3:-2] == [index]


@needs_scripts
@pytest.mark.parametrize(
    ("said", "version"),
    [('{"install": [{"metadata": {"version": "2.13.0+cpu"}}]}', "2.13.0+cpu"), ("", ""), ("{}", "")],
)
def test_pip_is_asked_what_it_would_take(checkout, said, version):
    script(checkout, "python", f"echo '{said}'; echo \"$@\" > '{checkout.root}/asked'")
    assert pip.chosen_version(checkout.python, "torch", checkout.root / "pins") == version
    asked = (checkout.root / "asked").read_text()
    assert "--dry-run" in asked
    assert asked.endswith("/pins torch\n")


@needs_scripts
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "echo 13.0",
            r"graphics cards \(13.0\)(.|\n)*Delete .*\.venv, then start again: python3 start.py bundle",
        ),
        ("echo no torch >&2; exit 1", "doesn't load in .*\n.*no torch"),
    ],
    ids=["CUDA", "none"],
)
def test_a_torch_for_graphics_cards_is_never_frozen(checkout, text, words):
    script(checkout, "python", text)
    script(checkout, "pyinstaller", f"touch '{checkout.root}/frozen'")
    with pytest.raises(SetupError, match=words):
        bundle.build(checkout)
    assert not (checkout.root / "frozen").exists()


@needs_scripts
def test_a_torch_for_the_cpu_is_frozen(checkout):
    script(checkout, "python", "echo")
    script(checkout, "pyinstaller", f"touch '{checkout.root}/frozen'")
    bundle.build(checkout)
    assert (checkout.root / "frozen").exists()

"""Which uv fills a GPU pack, how patient it is, and what is said of what programs print when they fail."""

import os
from pathlib import Path

import pytest

from core.base.errors import UserError
from core.base.jobs import Needs
from core.cli import data as command
from core.services import gpu_install, gpu_pack
from core.services.gpu_install import VERSION, UvTool, program_in


class FakeChild:
    """Fetches nothing, and tells a version for a program that is installed."""

    def __init__(self, said):
        self._said = said

    def ask(self, job, request):
        raise UserError("uv couldn't be fetched")

    def run(self, command):
        if self._said is None:
            raise PermissionError("uv")
        return 0, self._said


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.setattr(gpu_install.shutil, "which", lambda name: f"/of/the/person/{name}")
    return tmp_path / "gpu-pack.cache"


def test_the_uv_that_was_tried_goes_before_one_that_is_installed(cache):
    ready = program_in(cache)
    ready.parent.mkdir(parents=True)
    ready.touch()
    assert UvTool(FakeChild("uv 99.0.0"))._uv()[0] == str(ready)


@pytest.mark.parametrize("said", [f"uv {VERSION} (x86_64-unknown-linux-gnu)", "uv 0.14.0", "uv 1.0.0"])
def test_an_installed_uv_will_do_where_none_can_be_fetched(cache, said):
    assert UvTool(FakeChild(said))._uv()[0] == "/of/the/person/uv"


@pytest.mark.parametrize("said", ["uv 0.9.0 (39b688653 2025-10-07)", "something else", None])
def test_an_older_one_is_left_alone(cache, said):
    with pytest.raises(UserError, match="couldn't be fetched"):
        UvTool(FakeChild(said))._uv()


def test_an_older_uv_among_the_wheels_is_left_alone(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_install.shutil, "which", lambda _: None)
    (tmp_path / "uv-0.9.0-py3-none-any.whl").touch()
    with pytest.raises(UserError, match="wasn't installed") as caught:
        UvTool(FakeChild(""), tmp_path)._uv()
    assert f": uv-{VERSION}" in caught.value.detail


def test_all_that_a_folder_lacks_is_named_at_once_before_anything_is_brought(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_install.shutil, "which", lambda _: None)
    monkeypatch.setattr(gpu_install, "is_frozen", lambda: True)
    wanted = Needs(python="3.11", build="", requirements=("torch==2.13.0", "Data_Sets==5", "x==1; os == ''"))
    monkeypatch.setattr(gpu_install, "needs", lambda _: wanted)
    with pytest.raises(UserError) as caught:
        gpu_install.installation(tmp_path)
    named = f"cpython-3.11.…-install_only….tar.gz, uv-{VERSION}-….whl, torch-….whl, data-sets-….whl"
    assert caught.value.detail == f"This is missing in {tmp_path}: {named}"
    (tmp_path / "cpython-3.11.9-install_only.tar.gz").touch()
    for name in (f"uv-{VERSION}", "torch-2.13.0+cu130", "data_sets-5"):
        (tmp_path / f"{name}-py3-none-any.whl").touch()
    gpu_install.installation(tmp_path)


def test_without_a_card_a_pack_from_a_folder_is_tried_and_the_card_missed_first(
    cache, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(command.gpu_install, "find_card", lambda: None)
    with pytest.raises(UserError, match="can't be taken from there"):
        command.install(tmp_path / "gone")
    assert "No NVIDIA card" in capsys.readouterr().err


def test_uv_waits_longer_than_it_would_unless_the_person_says_how_long(cache, monkeypatch):
    monkeypatch.delenv("UV_HTTP_TIMEOUT", raising=False)
    assert int(UvTool._environment()["UV_HTTP_TIMEOUT"]) > 30
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "7")
    assert "UV_HTTP_TIMEOUT" not in UvTool._environment()


NETWORK, GUARDED, DAMAGED = (
    "The internet can't be reached",
    "A file couldn't be read",
    "A file arrived damaged",
)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "  × Failed to download `torch==2.13.0+cu130`\n"
            "  ├─▶ Failed to extract archive: torch-2.13.0+cu130-cp311-cp311-linux.whl\n"
            "  ├─▶ I/O operation failed during extraction\n"
            "  ╰─▶ Failed to download distribution due to network timeout. Try increasing\n"
            "      UV_HTTP_TIMEOUT (current value: 30s).",
            NETWORK,
        ),
        (
            "error: Failed to extract archive: torch.whl\n  cause: error decoding response body\n"
            "  cause: request or response body error",
            NETWORK,
        ),
        (
            f"error: Failed to read `a.whl`\n  cause: {os.strerror(13)} (os error 13)",
            GUARDED,
        ),
        ("error: Failed to extract archive: torch.whl\n  cause: a file is corrupt: bad CRC", DAMAGED),
        ("error: Failed to extract archive: torch.whl", DAMAGED),
        ("error: Hash mismatch for `torch`\n  Expected: sha256:a407bc", DAMAGED),
        ("error: tunnel error: 407 Proxy Authentication Required", "A proxy stands between"),
    ],
)
def test_a_slow_line_or_a_guarded_file_is_not_called_damage(said, cause):
    assert gpu_pack.explain(said, Path("log")).detail.startswith(cause)

"""Where the GPU pack is to be had, by recorded facts of machines that nobody of us has at hand."""

import pytest

from core.base import format
from core.base.errors import UserError
from core.base.jobs import OF_THE_WINDOW, Standing, name_of, needs
from core.base.processes import SOURCE_ROOT
from core.cli import data as command
from core.cli import main
from core.cli.data import status_lines
from core.services import gpu_install
from core.services.gpu_install import (
    DOWNLOAD,
    INSTALLED,
    ROOM,
    Card,
    Place,
    Situation,
    find_card,
    look,
    offer,
)
from tests.fakes import machines
from tests.fakes.nvml import FakeNvml

BUNDLE = Place("linux", "x86_64", frozen=True)
WINDOWS = Place("win32", "AMD64", frozen=True)


def card_of(device, driver=580):
    return Card(device.name, device.capability, driver)


@pytest.mark.parametrize(
    ("card", "build"),
    [
        (card_of(machines.RTX_3060), "cu130"),
        (card_of(machines.RTX_3060, 550), "cu126"),
        (card_of(machines.GTX_1660), "cu130"),
        (card_of(machines.GTX_1080), "cu126"),
        (card_of(machines.GB10), "cu130"),
        (Card("NVIDIA card that tells nothing"), "cu130"),
    ],
)
@pytest.mark.parametrize("place", [BUNDLE, WINDOWS])
def test_a_bundle_with_a_card_is_offered_the_build_that_fits(place, card, build):
    found = offer(place, card)
    assert found.stands
    assert found.build == build


@pytest.mark.parametrize(
    ("place", "card", "said"),
    [
        (Place("darwin", "arm64", frozen=True), None, "Macs have no CUDA"),
        (Place("linux", "x86_64", frozen=False), card_of(machines.RTX_3060), "runs from its source"),
        (
            Place("win32", "ARM64", frozen=True),
            card_of(machines.RTX_3060),
            "no CUDA build for this processor",
        ),
        (BUNDLE, None, "install NVIDIA's driver"),
        (
            BUNDLE,
            card_of(machines.RTX_3060, 470),
            "driver 470, which is too old: install NVIDIA's driver 525",
        ),
        (BUNDLE, card_of(machines.GB10, 570), "driver 570, which is too old: install NVIDIA's driver 580"),
    ],
)
def test_elsewhere_it_says_why_not(place, card, said):
    found = offer(place, card)
    assert not found.stands
    assert said in found.refusal


def test_the_card_is_asked_of_the_driver():
    assert find_card(FakeNvml()) == Card("Fake GPU 0", (8, 6), 580)
    assert find_card(FakeNvml(broken={"nvmlInit"})) is None
    silent = FakeNvml(broken={"nvmlDeviceGetCudaComputeCapability", "nvmlSystemGetDriverVersion"})
    assert find_card(silent) == Card("Fake GPU 0")


def test_a_checkout_without_a_pack_has_nothing_to_say(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    assert not look().concerns


def test_it_needs_what_trains_at_its_pins_and_pytorch_in_its_build_alone():
    found = needs("cu130")
    assert "torch==2.13.0+cu130" in found.requirements
    assert "torchvision==0.28.0+cu130" in found.requirements
    names = {name_of(line) for line in found.requirements}
    assert {"transformers", "bitsandbytes", "msgspec", "keyring"} <= names
    assert not names & {*OF_THE_WINDOW, "pytest", "pyinstaller"}
    assert "torch==2.13.0" in needs("").requirements
    pinned = {name_of(line) for line in found.pins}
    assert "numpy" in pinned
    assert "torch" not in pinned


@pytest.mark.parametrize("system", ["linux", "win32"])
@pytest.mark.parametrize("capability", [(6, 1), (7, 0), (7, 5), (8, 6), (12, 0)])
def test_start_py_would_choose_the_same(system, capability):
    from bootstrap import graphics

    alike = (
        graphics.cuda_build(system, float("{}.{}".format(*capability))) or gpu_install.CUDA_13
    )  # PyPI's on Linux
    assert gpu_install.build_for(capability, 580) == alike
    assert gpu_install.TORCH_INDEX == graphics.INDEX


def test_the_terminal_is_told_what_it_takes():
    found = Situation(offer(BUNDLE, card_of(machines.RTX_3060)), Standing(), begun=3 << 20, free=9 << 30)
    words = "\n".join(status_lines(found))
    assert "There is no GPU pack" in words
    assert "3.0 MB of an unfinished one" in words
    assert "`hone gpu --install` brings PyTorch's cu130 build, about 2.7 GB of downloads" in words
    assert "9.0 GB are free" in words


def test_the_page_on_installing_names_the_same_sizes():
    page = " ".join((SOURCE_ROOT / "docs" / "install.md").read_text(encoding="utf-8").split())
    assert f"about {format.size(DOWNLOAD)} to download, {format.size(INSTALLED)} on the disk" in page
    assert f"{format.size(ROOM)} free while it is installed" in page


def test_who_fills_a_folder_is_told_with_what(tmp_path, capsys):
    folder = tmp_path / "of wheels"
    assert main.main(["gpu", "--needs", str(folder), "--build", "cu126"]) == 0
    said = capsys.readouterr().out
    assert "--requirement requirements.txt --constraint constraints.txt" in said
    assert f"--extra-index-url {gpu_install.index_of('cu126')} uv=={gpu_install.VERSION}" in said
    wanted = needs("cu126")
    assert f"an archive cpython-{wanted.python}.…-install_only….tar.gz" in said
    assert (folder / "requirements.txt").read_text().splitlines() == list(wanted.requirements)
    assert (folder / "constraints.txt").read_text().splitlines() == list(wanted.pins)


def test_without_a_card_the_build_has_to_be_named(tmp_path):
    with pytest.raises(UserError) as caught:
        command.write_needs(tmp_path / "new", None)
    assert "--build cu130" in caught.value.fixes[0].label
    assert not (tmp_path / "new").exists()

"""The bundle without building one: its recipe, its archives made of a stand-in folder, licences, sizes."""

import configparser
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import about
import licences
import recipe
from bootstrap import bundle, debian, linux, smoke
from bootstrap.environment import Environment
from bootstrap.errors import SetupError
from core.hosts import install

ROOT = Path(__file__).resolve().parents[1]
LINUX = sys.platform.startswith("linux")
only_linux = pytest.mark.skipif(not LINUX, reason="bundles of Linux")


@pytest.fixture
def stand_in(tmp_path):
    """A folder as PyInstaller makes one, with a link in it."""
    folder = tmp_path / "dist" / "hone"
    inner = folder / "_internal"
    (inner / "torch").mkdir(parents=True)
    program = folder / "hone"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    (inner / "torch" / "lib.so").write_bytes(b"\x7fELF" + b"GLIBC_2.17\0 GLIBC_2.34\0" + bytes(3_000_000))
    (inner / "small").write_bytes(bytes(1000))
    (inner / "link.so").symlink_to("torch/lib.so")
    return folder


@pytest.mark.parametrize(
    ("place", "shipped"),
    [
        ("torch/lib/libtorch_cpu.so", True),
        ("torch/bin/torch_shm_manager", True),
        ("torch/bin/protoc", False),
        ("torch/include/ATen/ATen.h", False),
        ("torch\\include\\ATen\\ATen.h", False),
        ("hone-0.1.0.dist-info/METADATA", True),
        ("hone-0.1.0.dist-info/direct_url.json", False),
        ("PySide6/Qt/plugins/platforms/libqwayland.so", True),
        ("PySide6/Qt/plugins/platforms/libqvnc.so", False),
        ("pyarrow/flight.py", True),
        ("pyarrow/libarrow_substrait.so.2600", True),
        ("pyarrow/libarrow_flight.so.2600", False),
        ("mlx/include/mlx/array.h", False),
        ("mlx/lib/mlx.metallib", True),
        ("libglib-2.0.so.0", True),
        ("libX11.so.6", True),
        ("libXi.so.6", False),
        ("libcairo.so.2", False),
        ("libgtk-3.so.0", False),
    ],
)
def test_what_is_shipped(place, shipped):
    assert recipe.is_shipped(place) is shipped


def test_no_dependency_is_left_out_but_that_of_cuda_and_of_macs_elsewhere():
    tree = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {re.split(r"[=; ]", line)[0].replace("-", "_") for line in tree["project"]["dependencies"]}
    assert names & set(recipe.LEFT_OUT) == {*recipe.WITH_CUDA, *recipe.NOT_FOR_OTHERS}


def test_the_pins_are_where_installing_cuda_reads_them(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(install, "SOURCE_ROOT", tmp_path)
    (tmp_path / "pins").mkdir()
    (tmp_path / "pins" / "constraints.txt").write_text("numpy==2.4.6\n")
    assert install.requirements()[1] == ["numpy==2.4.6"]


def test_sizes_are_listed_largest_first_and_links_count_nothing(stand_in):
    lines = debian.table(stand_in, shown=1).splitlines()
    names = [line.split("  ")[-1] for line in lines]
    assert names == ["torch", "2 others", "the programs themselves", "all of it"]
    assert "3.0 MB" in lines[0]
    assert lines[1].split()[0] == "0.0"


def test_libraries_of_the_system_become_packages():
    packages, unknown = linux.packages_of(
        [
            "libc.so.6",
            "libm.so.6",
            "libEGL.so.1",
            "ld-linux-x86-64.so.2",
            "libgtk-3.so.0",
            "libcudart.so.13",
            "libnew.so.1",
        ]
    )
    assert packages == {"libc6", "libegl1"}
    assert unknown == ["libnew.so.1"]


@only_linux
@pytest.mark.skipif(not shutil.which("objdump"), reason="libraries of programs, for want of binutils")
def test_the_program_itself_takes_all_its_libraries_from_the_system(stand_in):
    """It is loaded before it can say where the bundle's own libraries are."""
    shutil.copy(shutil.which("sh"), stand_in / "hone")
    needed = linux.needed_by([stand_in / "hone"])
    for name in needed:
        (stand_in / "_internal" / name).write_bytes(b"\x7fELF")
    assert needed
    assert linux.taken_from_system(stand_in, list(linux.elf_files(stand_in))) == needed


def test_the_newest_symbol_of_the_c_library_decides(stand_in):
    files = list(linux.elf_files(stand_in))
    assert [file.name for file in files] == ["lib.so"]
    assert linux.glibc_needed(files) == (2, 34)


def test_the_desktop_entry_opens_run_files_and_older_systems_know_all_of_it():
    """Debian 12's desktop-file-validate knows no version 1.5, and a second main category shows Hone twice in menus."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "packaging/linux/hone.desktop", encoding="utf-8")
    entry = parser["Desktop Entry"]
    assert (entry["Version"], entry["Exec"], entry["Terminal"]) == ("1.0", "hone %F", "false")
    assert entry["Categories"] == "Science;ArtificialIntelligence;"
    assert "SingleMainWindow" not in entry  # of 1.5; both GNOME and KDE read X-GNOME-SingleWindow as well
    assert entry["MimeType"] == f"{about.RUN_MIME};"
    kind = next(iter(ElementTree.parse(ROOT / "packaging/linux/hone-mime.xml").getroot()))
    patterns = [part.get("pattern") for part in kind if part.tag.endswith("glob")]
    assert (kind.get("type"), patterns) == (about.RUN_MIME, [f"*.{about.RUN_SUFFIX}"])


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="packages of Debian, for want of dpkg")
def test_a_package_is_installed_by_dpkg_and_removed_with_all_of_it(stand_in, tmp_path):
    root, scratch = tmp_path / "checkout", tmp_path / "scratch"
    for name in ("packaging/linux", "packaging/icons", "resources/icons"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copyfile(ROOT / "NOTICE", root / "NOTICE")

    def control(size):
        return debian.control_text("0.1.0", "x86_64", size, ["libc6 (>= 2.34)", "libegl1"])

    package = debian.build(root, stand_in, tmp_path / "hone.deb", control)
    assert not (root / "build" / "deb").exists()
    info = subprocess.run(["dpkg-deb", "--info", package], capture_output=True, text=True, check=True).stdout
    for line in ("Package: hone", "Architecture: amd64", "Depends: libc6 (>= 2.34), libegl1"):
        assert line in info
    assert int(re.search(r"Installed-Size: (\d+)", info).group(1)) >= 3_000_000 // 1024

    program = smoke.install_package(package, scratch)
    assert program == scratch / "opt/hone/hone"
    assert program.stat().st_mode & 0o777 == 0o755
    assert (scratch / "usr/bin/hone").readlink() == Path("/opt/hone/hone")
    assert (scratch / "opt/hone/_internal/link.so").is_symlink()
    share = scratch / "usr/share"
    for name in (
        "applications/hone.desktop",
        "mime/packages/hone.xml",
        "icons/hicolor/256x256/apps/hone.png",
    ):
        assert (share / name).stat().st_mode & 0o777 == 0o644

    stranger = program.parent / "another file"
    stranger.touch()
    with pytest.raises(SetupError, match=r"this is left: .*another file"):
        smoke.remove_package(scratch)
    assert not program.exists()


@only_linux
def test_without_dpkg_only_the_archive_is_made_with_links_and_rights_and_no_names(
    tmp_path, stand_in, monkeypatch, capsys
):
    shutil.copytree(ROOT / "packaging/linux", tmp_path / "packaging/linux")
    (tmp_path / "core" / "base").mkdir(parents=True)
    shutil.copyfile(ROOT / "core/base/settings.py", tmp_path / "core/base/settings.py")
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    (path,) = bundle.pack(tmp_path, stand_in)
    assert "No .deb" in capsys.readouterr().out
    top = path.name.removesuffix(".tar.gz")
    with tarfile.open(path) as archive:
        entries = {entry.name.removeprefix(f"{top}/"): entry for entry in archive}
    assert entries["_internal/link.so"].issym()
    assert entries["hone"].mode & entries["start-hone.sh"].mode & 0o100
    assert {entry.uname for entry in entries.values()} == {"root"}


def test_licences_of_what_is_shipped_are_collected(tmp_path):
    modules = ["msgspec._core", "PySide6.QtCore", "core.base.settings"]
    files = licences.collect(tmp_path / "licences", modules, [])
    places = {place for place, _, kind in files if kind == "DATA"}
    assert "licences/LGPL-3.0.txt" in places
    assert any(re.fullmatch(r"licences/msgspec-[\d.]+/LICENSE", place) for place in places)
    page = (tmp_path / "licences" / "README.txt").read_text(encoding="utf-8")
    assert re.search(r"^PySide6_Essentials +\S+ +LGPL-3.0", page, re.MULTILINE)
    assert "To use your own build of Qt" in page
    assert not re.search(r"^[Hh]one ", page.partition("its licence")[2], re.MULTILINE)


def test_packing_needs_a_built_bundle(tmp_path):
    with pytest.raises(SetupError, match="no bundle"):
        bundle.main(Environment(tmp_path), ["--only", "pack"])

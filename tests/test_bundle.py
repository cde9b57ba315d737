"""The bundle without building one: its recipe, its archives made of a stand-in folder, licences, sizes, mishaps."""

import configparser
import os
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
from bootstrap.smoke import Done, Person
from core.services import gpu_install

ROOT = Path(__file__).resolve().parents[1]
LINUX = sys.platform.startswith("linux")
needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb is Debian's")
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="rights and shells of POSIX")


@pytest.fixture
def stand_in(tmp_path):
    """A folder as PyInstaller makes one, with a link in it."""
    folder = tmp_path / "dist" / "hone"
    inner = folder / "_internal"
    (inner / "torch").mkdir(parents=True)
    program = folder / "hone"
    program.write_text("#!/bin/sh\necho it says so; exit ${1:-0}\n")
    program.chmod(0o700)
    (inner / "torch" / "lib.so").write_bytes(b"\x7fELF" + b"GLIBC_2.17\0 GLIBC_2.34\0" + bytes(3_000_000))
    (inner / "small").write_bytes(bytes(1000))
    (inner / "link.so").symlink_to("torch/lib.so")
    return folder


def dependencies() -> set[str]:
    tree = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {re.split(r"[=; ]", line)[0] for line in tree["project"]["dependencies"]}


@pytest.mark.parametrize(
    ("place", "shipped"),
    [
        ("torch/lib/libtorch_cpu.so", True),
        ("torch/include/ATen/ATen.h", False),
        ("torch/bin/torch_shm_manager", True),
        ("torch/bin/protoc", False),
        ("torch\\include\\ATen\\ATen.h", False),
        ("hone-0.1.0.dist-info/direct_url.json", False),
        ("hone-0.1.0.dist-info/METADATA", True),
        ("PySide6/Qt/plugins/platforms/libqwayland.so", True),
        ("PySide6/Qt/plugins/platforms/libqvnc.so", False),
        ("libcairo.so.2", False),
        ("libglib-2.0.so.0", True),
        ("pyarrow/libarrow_flight.so.2600", False),
        ("pyarrow/flight.py", True),
        ("pyarrow/libarrow_substrait.so.2600", True),
        ("libgtk-3.so.0", False),
        ("libXi.so.6", False),
        ("libX11.so.6", True),
    ],
)
def test_what_is_shipped(place, shipped):
    assert recipe.is_shipped(place) is shipped


def test_no_dependency_is_left_out_but_that_of_cuda():
    names = {name.replace("-", "_") for name in dependencies()}
    assert names & set(recipe.LEFT_OUT) == set(recipe.WITH_CUDA)


def test_what_saving_and_training_read_at_run_time_goes_along():
    assert {"peft", "trl", "transformers"} <= set(recipe.READ_AT_RUN_TIME)
    assert {"core", "gui", "peft", "trl", "accelerate"} <= set(recipe.READ_AS_SOURCE)


def test_the_pins_go_along_where_installing_cuda_looks_for_them(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(gpu_install, "SOURCE_ROOT", tmp_path)
    (tmp_path / "pins").mkdir()
    (tmp_path / "pins" / "constraints.txt").write_text("numpy==2.4.6\n")
    assert gpu_install.requirements()[1] == ["numpy==2.4.6"]
    assert '/ "constraints.txt"), "pins")' in (ROOT / "packaging" / "hone.spec").read_text(encoding="utf-8")


def test_sizes_are_told_largest_first_and_links_count_nothing(stand_in):
    lines = debian.table(stand_in).splitlines()
    assert [line.split("  ")[-1] for line in lines] == [
        "torch",
        "small",
        "link.so",
        "the programs themselves",
        "all of it",
    ]
    assert "3.0 MB" in lines[0]
    assert lines[2].split()[0] == "0.0"


def test_many_parts_are_told_as_one(tmp_path):
    for number in range(5):
        (tmp_path / str(number)).write_bytes(bytes(number + 1))
    assert debian.largest_parts(tmp_path, 2) == [("4", 5), ("3", 4), ("3 others", 6)]


def test_libraries_of_the_system_become_packages():
    found, unknown = linux.packages_of(
        ["libc.so.6", "libm.so.6", "libEGL.so.1", "ld-linux-x86-64.so.2", "libgtk-3.so.0", "libnew.so.1"]
    )
    assert found == {"libc6", "libegl1"}
    assert unknown == ["libnew.so.1"]


@pytest.mark.skipif(not LINUX or not shutil.which("objdump"), reason="asks objdump about a program for Linux")
def test_the_program_itself_takes_all_its_libraries_from_the_system(stand_in):
    """It is loaded before it can say where the bundle's own lie."""
    shutil.copy(shutil.which("sh"), stand_in / "hone")
    needed = linux.needed_by([stand_in / "hone"])
    for name in needed:
        (stand_in / "_internal" / name).write_bytes(b"\x7fELF")
    files = list(linux.elf_files(stand_in))
    assert needed
    assert linux.taken_from_system(stand_in, files) == needed


def test_the_newest_symbol_of_the_c_library_decides(stand_in):
    files = list(linux.elf_files(stand_in))
    assert [file.name for file in files] == ["lib.so"]
    assert linux.glibc_needed(files) == (2, 34)


def test_desktop_entry_and_type_of_run_files_go_by_the_same_names():
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(ROOT / "packaging/linux/hone.desktop", encoding="utf-8")
    said = entry["Desktop Entry"]
    assert said["Exec"] == "hone %F"
    assert said["MimeType"] == f"{about.RUN_MIME};"
    assert said["Terminal"] == "false"
    kind = next(iter(ElementTree.parse(ROOT / "packaging/linux/hone-mime.xml").getroot()))
    assert kind.get("type") == about.RUN_MIME
    (pattern,) = [part.get("pattern") for part in kind if part.tag.endswith("glob")]
    assert pattern == f"*.{about.RUN_SUFFIX}"


def test_older_systems_know_all_that_the_desktop_entry_says():
    """Debian 12's desktop-file-validate knows no version 1.5, and a second main category shows Hone twice in menus."""
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(ROOT / "packaging/linux/hone.desktop", encoding="utf-8")
    said = entry["Desktop Entry"]
    assert said["Version"] == "1.0"
    assert "SingleMainWindow" not in said  # of 1.5; both GNOME and KDE read X-GNOME-SingleWindow as well
    assert said["Categories"] == "Science;ArtificialIntelligence;"


@needs_dpkg
def test_a_package_holds_what_a_desktop_needs(stand_in, tmp_path):
    root = tmp_path / "checkout"
    for name in ("packaging/linux", "packaging/icons", "resources/icons"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copyfile(ROOT / "NOTICE", root / "NOTICE")

    def control(size):
        return debian.control_text("0.1.0", "x86_64", size, ["libc6 (>= 2.34)", "libegl1"])

    package = debian.build(root, stand_in, tmp_path / "hone.deb", control)
    said = subprocess.run(["dpkg-deb", "--info", package], capture_output=True, text=True, check=True).stdout
    for line in ("Package: hone", "Architecture: amd64", "Depends: libc6 (>= 2.34), libegl1"):
        assert line in said
    assert int(re.search(r"Installed-Size: (\d+)", said).group(1)) >= 3_000_000 // 1024
    scratch = tmp_path / "scratch"
    subprocess.run(["dpkg-deb", "--extract", package, scratch], check=True)
    assert (scratch / "usr/bin/hone").readlink() == Path("/opt/hone/hone")
    assert (scratch / "opt/hone/hone").stat().st_mode & 0o777 == 0o755
    assert (scratch / "opt/hone/_internal/link.so").is_symlink()
    for name in (
        "applications/hone.desktop",
        "mime/packages/hone.xml",
        "icons/hicolor/256x256/apps/hone.png",
    ):
        assert (scratch / "usr/share" / name).stat().st_mode & 0o777 == 0o644
    listed = subprocess.run(
        ["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[1] for line in listed.splitlines()} == {"root/root"}
    assert not (root / "build" / "deb").exists()


@needs_posix
def test_an_archive_keeps_links_and_rights_and_names_nobody(stand_in, tmp_path):
    target = bundle.tar(stand_in, tmp_path / "hone-0.1.0-linux-x86_64.tar.gz")
    with tarfile.open(target) as archive:
        entries = {entry.name: entry for entry in archive}
    top = "hone-0.1.0-linux-x86_64"
    assert entries[f"{top}/_internal/link.so"].issym()
    assert entries[f"{top}/hone"].mode & 0o100
    assert {entry.uname for entry in entries.values()} == {"root"}


def test_licences_of_what_is_shipped_are_gathered(tmp_path):
    found = licences.collect(
        tmp_path / "licences", ["msgspec._core", "PySide6.QtCore", "core.base.settings"], []
    )
    places = {place for place, _, kind in found if kind == "DATA"}
    assert "licences/LGPL-3.0.txt" in places
    assert any(re.fullmatch(r"licences/msgspec-[\d.]+/LICENSE", place) for place in places)
    page = (tmp_path / "licences" / "README.txt").read_text(encoding="utf-8")
    assert re.search(r"^PySide6_Essentials +\S+ +LGPL-3.0", page, re.MULTILINE)
    assert "To use your own build of Qt" in page
    assert not re.search(r"^[Hh]one ", page.partition("its licence")[2], re.MULTILINE)


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (Done(1, "There is no screen here"), ""),
        (Done(0, "There is no screen here"), "ended with 0, not 1"),
        (Done(1, ""), "never said"),
        (Done(1, "no screen\nTraceback (most recent call last):"), "a traceback"),
    ],
)
def test_a_mishap_is_judged_by_status_and_words(done, words):
    said = smoke.judged(done, 1, "screen")
    assert words in said
    assert bool(said) == bool(words)


@needs_posix
def test_a_program_that_does_not_start_is_an_error(tmp_path):
    with pytest.raises(SetupError, match="doesn't start"):
        Person(tmp_path, dict(os.environ), lends=False).run([tmp_path / "nothing"])


@needs_posix
def test_rights_to_write_come_back(stand_in):
    with smoke.read_only(stand_in):
        assert (stand_in / "hone").stat().st_mode & 0o777 == 0o500
    assert (stand_in / "hone").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not LINUX, reason="a home's variables differ")
def test_somebody_has_a_home_of_its_own_and_none_of_our_variables(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.setenv("HONE_HOME", "/ours")
    with smoke.somebody(is_us=True) as person:
        assert not {"PYTHONPATH", "HONE_HOME"} & set(person.environ)
        assert person.environ["HOME"] == str(person.home)
        assert " " in person.home.name
    assert not person.home.exists()


def test_a_bundle_that_was_never_built_is_missed(tmp_path):
    with pytest.raises(SetupError, match="no bundle"):
        bundle.main(Environment(tmp_path), ["--only", "pack"])


@pytest.mark.skipif(not LINUX, reason="archives of Linux")
def test_without_dpkg_the_tar_gz_is_made_alone(tmp_path, stand_in, monkeypatch, capsys):
    shutil.copytree(ROOT / "packaging/linux", tmp_path / "packaging/linux")
    (tmp_path / "core" / "base").mkdir(parents=True)
    shutil.copyfile(ROOT / "core/base/settings.py", tmp_path / "core/base/settings.py")
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    (archive,) = bundle.pack(tmp_path, stand_in)
    with tarfile.open(archive) as held:
        top = archive.name.removesuffix(".tar.gz")
        assert held.getmember(f"{top}/start-hone.sh").mode & 0o100
    assert "No .deb" in capsys.readouterr().out

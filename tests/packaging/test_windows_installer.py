"""The script of the installer for Windows is valid: it compiles here, from a folder with the names of a bundle."""

import re
from pathlib import Path

import pytest

import about
from core.base.settings import VERSION
from core.engine.hub import token
from windows import make_installer

SCRIPT = Path(make_installer.__file__).with_name("hone.nsi").read_text(encoding="utf-8")


@pytest.fixture
def bundle(tmp_path):
    """A folder as PyInstaller makes it on Windows, with nothing in its files."""
    folder = tmp_path / "bundle"
    for name in (*make_installer.PROGRAMS, "_internal/python313.dll", "_internal/PySide6/Qt ü.dll"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"nothing")
    return folder


def make(bundle, target):
    return make_installer.main(["--source", str(bundle), "--target", str(target)])


def section(begin, end):
    return SCRIPT.partition(begin)[2].partition(end)[0]


@pytest.mark.skipif(make_installer.makensis() is None, reason="the installer for Windows, for want of nsis")
def test_it_compiles_without_a_warning(bundle, tmp_path, capfd):
    target = tmp_path / "out" / "Hone.exe"
    assert make(bundle, target) == 0, capfd.readouterr()
    content = target.read_bytes()
    assert content.startswith(b"MZ")
    assert b"NullsoftInst" in content
    assert VERSION.encode("utf-16-le") in content


def test_a_folder_without_both_programs_and_a_missing_compiler_are_refused(
    bundle, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(make_installer, "makensis", lambda: None)
    assert make(bundle, tmp_path / "x.exe") == 1
    assert "winget install NSIS.NSIS" in capsys.readouterr().err
    (bundle / "hone-cli.exe").unlink()
    assert make(bundle, tmp_path / "x.exe") == 1
    assert "hone-cli.exe" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NAME", about.NAME),
        ("PUBLISHER", about.PUBLISHER),
        ("RUN_CLASS", about.WINDOWS_CLASS),
        ("RUN_KIND", about.RUN_KIND),
        ("TOKEN_SERVICE", token.SERVICE),
        ("TOKEN_USER", token.USER),
    ],
)
def test_it_uses_the_names_of_the_program(name, value):
    assert re.findall(rf'^!define {name} "([^"]*)"$', SCRIPT, re.MULTILINE) == [value]


def test_it_needs_no_administrator_and_never_deletes_a_folder_that_a_person_chose():
    assert "RequestExecutionLevel user" in SCRIPT
    assert "HKLM" not in SCRIPT
    assert re.findall(r'RMDir /r "(.*)"', SCRIPT) == ["$INSTDIR\\_internal", "$3\\$1"]


def test_the_uninstaller_alone_deletes_the_token_and_keeps_the_runs():
    names = re.findall(r'CredDeleteW\(w "([^"]*)", i 1, i 0\)', SCRIPT)
    assert names == ["${TOKEN_SERVICE}", "${TOKEN_USER}@${TOKEN_SERVICE}"]
    assert "Call un.ForgetToken" in SCRIPT.partition('Section "Uninstall"')[2]
    assert "ForgetToken" not in section('Section "Hone"', "SectionEnd")
    kept = re.findall(r'\$1 != "(\w+)"', section("Function un.RemoveOwnFolder", "FunctionEnd"))
    assert set(kept) == {"runs"}

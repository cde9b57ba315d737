"""The installer for Windows is valid: it compiles here, from a folder with the names of a bundle."""

import re
from pathlib import Path

import pytest

import about
from core.base.settings import VERSION
from core.engine.hub import account
from windows import make_installer

SCRIPT = Path(make_installer.__file__).with_name("hone.nsi")


@pytest.fixture
def bundle(tmp_path):
    """A folder as PyInstaller makes it on Windows, with nothing in its files."""
    folder = tmp_path / "bundle"
    for name in (*make_installer.PROGRAMS, "_internal/python313.dll", "_internal/PySide6/Qt ü.dll"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"nothing")
    return folder


def defined(name):
    """What the script says of a name."""
    (value,) = re.findall(rf'^!define {name} "([^"]*)"$', SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    return value


@pytest.mark.skipif(make_installer.makensis() is None, reason="needs makensis (apt-get install nsis)")
def test_it_compiles_without_a_warning(bundle, tmp_path, capfd):
    target = tmp_path / "out" / "Hone.exe"
    status = make_installer.main(["--source", str(bundle), "--target", str(target)])
    assert status == 0, capfd.readouterr()
    content = target.read_bytes()
    assert content.startswith(b"MZ")
    assert b"NullsoftInst" in content
    assert VERSION.encode("utf-16-le") in content


def test_a_folder_without_both_programs_is_refused(bundle, tmp_path, capsys):
    (bundle / "hone-cli.exe").unlink()
    assert make_installer.main(["--source", str(bundle), "--target", str(tmp_path / "x.exe")]) == 1
    assert "hone-cli.exe" in capsys.readouterr().err


def test_without_a_compiler_it_says_how_to_get_one(bundle, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(make_installer, "makensis", lambda: None)
    assert make_installer.main(["--source", str(bundle), "--target", str(tmp_path / "x.exe")]) == 1
    assert "winget install NSIS.NSIS" in capsys.readouterr().err


def test_it_calls_things_as_the_other_systems_do():
    assert defined("NAME") == about.NAME
    assert defined("PUBLISHER") == about.PUBLISHER
    assert defined("RUN_CLASS") == about.WINDOWS_CLASS
    assert defined("RUN_KIND") == about.RUN_KIND


def test_it_needs_no_administrator_and_never_deletes_a_folder_somebody_chose():
    script = SCRIPT.read_text(encoding="utf-8")
    assert "RequestExecutionLevel user" in script
    assert "HKLM" not in script
    assert re.findall(r'RMDir /r "(.*)"', script) == ["$INSTDIR\\_internal", "$3\\$1"]


def test_the_token_for_the_hub_goes_by_the_names_it_was_kept_under():
    script = SCRIPT.read_text(encoding="utf-8")
    assert (defined("TOKEN_SERVICE"), defined("TOKEN_USER")) == (account.SERVICE, account.USER)
    names = re.findall(r'CredDeleteW\(w "([^"]*)", i 1, i 0\)', script)
    assert names == ["${TOKEN_SERVICE}", "${TOKEN_USER}@${TOKEN_SERVICE}"]
    uninstall = script.partition('Section "Uninstall"')[2]
    assert "Call un.ForgetToken" in uninstall
    assert "ForgetToken" not in script.partition('Section "Hone"')[2].partition("SectionEnd")[0]


def test_the_persons_runs_stay():
    script = SCRIPT.read_text(encoding="utf-8")
    body = script.partition("Function un.RemoveOwnFolder")[2].partition("FunctionEnd")[0]
    kept = set(re.findall(r'\$1 != "(\w+)"', body))
    assert kept == {"runs", "benchmarks"}

"""What a release is called, where it is published, and what each system reads about it."""

import ast
import plistlib
from pathlib import Path

import pytest

import about
from check_tag import file_name, main, why_not
from core.base.settings import VERSION
from core.options.run_file import ENDINGS
from fill_repository import VERSION_FILE, filled
from macos.info import info
from windows import make_installer, version_info

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


def test_a_tag_of_another_version_is_refused(capsys):
    assert why_not("tag", "v1.2.3", "1.2.3") == why_not("branch", "main", "1.2.3") == ""
    assert main(["tag", "v999.0.0"]) == 1
    assert f"v{VERSION}" in capsys.readouterr().err


def test_files_are_named_alike_on_all_systems(capsys):
    assert main(["--name", "macos-arm64.dmg"]) == 0
    assert capsys.readouterr().out == f"hone-{VERSION}-macos-arm64.dmg\n"
    script = Path(make_installer.__file__).read_text(encoding="utf-8")
    assert file_name("windows-x64.exe") in script.replace("{VERSION}", VERSION)


def test_the_repository_is_written_where_settings_reads_it():
    text = filled(VERSION_FILE.read_text(encoding="utf-8"), "some-one/hone.app")
    read: dict[str, str] = {}
    exec(text, read)
    assert read["REPOSITORY"] == "some-one/hone.app"
    assert filled(text, "other/hone").count('REPOSITORY = "other/hone"') == 1


@pytest.mark.parametrize("wrong", ["", "hone", "a/b/c", 'a/b"\nimport os', "https://github.com/a/b"])
def test_a_wrong_repository_is_refused(wrong):
    with pytest.raises(ValueError, match="no owner/name"):
        filled(VERSION_FILE.read_text(encoding="utf-8"), wrong)


def test_a_mac_reads_the_oldest_system_and_whose_run_files_are():
    read = plistlib.loads(plistlib.dumps(info("1.2.3")))
    assert (read["LSMinimumSystemVersion"], read["CFBundleShortVersionString"]) == ("14.0", "1.2.3")
    (document,), (kind,) = read["CFBundleDocumentTypes"], read["UTExportedTypeDeclarations"]
    assert document["LSItemContentTypes"] == [kind["UTTypeIdentifier"]]
    (suffix,) = kind["UTTypeTagSpecification"]["public.filename-extension"]
    assert f".{suffix}" in ENDINGS


def test_a_mac_allows_what_python_s_ctypes_does_and_nothing_else():
    allowed = plistlib.loads((PACKAGING / "macos" / "entitlements.plist").read_bytes())
    assert allowed == {"com.apple.security.cs.allow-unsigned-executable-memory": True}


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("0.1.0", (0, 1, 0, 0)), ("2.0.1-rc.1", (2, 0, 1, 0)), ("1.2.3.4.5+g12", (1, 2, 3, 4))],
)
def test_windows_reads_four_numbers(tmp_path, version, numbers):
    text = version_info.write(tmp_path / "new", version, "hone-cli.exe").read_text(encoding="utf-8")
    assert ast.parse(text.strip(), mode="eval").body.func.id == "VSVersionInfo"
    assert f"filevers={numbers}" in text
    assert f"StringStruct('ProductName', '{about.NAME}')" in text
    assert "StringStruct('OriginalFilename', 'hone-cli.exe')" in text

"""What bundles and installers tell each system about Hone."""

import ast
import plistlib
from pathlib import Path

import about
from core.options.run_file import ENDINGS
from macos.info import info
from windows import version_info

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


def test_a_mac_is_told_the_oldest_system_and_whose_run_files_are():
    told = plistlib.loads(plistlib.dumps(info("1.2.3")))
    assert told["LSMinimumSystemVersion"] == "14.0"
    assert told["NSHighResolutionCapable"] is True
    assert told["LSBackgroundOnly"] is False
    (document,), (kind,) = told["CFBundleDocumentTypes"], told["UTExportedTypeDeclarations"]
    assert document["LSItemContentTypes"] == [kind["UTTypeIdentifier"]]
    (suffix,) = kind["UTTypeTagSpecification"]["public.filename-extension"]
    assert f".{suffix}" in ENDINGS
    assert told["CFBundleShortVersionString"] == "1.2.3"


def test_a_mac_allows_what_python_s_ctypes_does_and_nothing_else():
    allowed = plistlib.loads((PACKAGING / "macos" / "entitlements.plist").read_bytes())
    assert allowed == {"com.apple.security.cs.allow-unsigned-executable-memory": True}


def test_windows_is_told_four_numbers(tmp_path):
    written = version_info.write(tmp_path / "new", "1.2.3", "hone-cli.exe")
    text = written.read_text(encoding="utf-8")
    call = ast.parse(text.strip(), mode="eval").body
    assert call.func.id == "VSVersionInfo"
    assert "filevers=(1, 2, 3, 0)" in text
    assert f"StringStruct('ProductName', '{about.NAME}')" in text
    assert "StringStruct('OriginalFilename', 'hone-cli.exe')" in text


def test_what_follows_the_numbers_of_a_version_is_left_out():
    assert version_info.four_numbers("0.1.0") == (0, 1, 0, 0)
    assert version_info.four_numbers("2.0.1-rc.1") == (2, 0, 1, 0)
    assert version_info.four_numbers("1.2.3.4.5+g12") == (1, 2, 3, 4)

"""A tag makes a release of the version it names, and of no other."""

from pathlib import Path

from check_tag import file_name, main, why_not
from core.base.settings import VERSION
from windows import make_installer


def test_a_tag_of_this_version_and_any_branch_will_do():
    assert why_not("tag", "v1.2.3", "1.2.3") == ""
    assert why_not("branch", "main", "1.2.3") == ""


def test_a_tag_of_another_version_is_refused(capsys):
    assert main(["tag", "v999.0.0"]) == 1
    assert f"tag this version v{VERSION}" in capsys.readouterr().err


def test_files_are_named_alike_on_all_systems(capsys):
    assert main(["--name", "macos-arm64.dmg"]) == 0
    assert capsys.readouterr().out == f"hone-{VERSION}-macos-arm64.dmg\n"
    assert file_name("windows-x64.exe") in Path(make_installer.__file__).read_text(encoding="utf-8").replace(
        "{VERSION}", VERSION
    )

"""The person's language is found, and what is translated into it is shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.base.language import NAMES, of_system

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["ko_KR.UTF-8"], "ko"),
        (["zh-Hans-CN", "en-US"], "zh_CN"),
        (["zh_TW.UTF-8"], "en"),
        (["zh-Hant-HK", "ko-KR"], "ko"),
        (["de_DE", "ar_EG"], "ar"),
        (["C.UTF-8"], "en"),
        (["korean"], "en"),
        ([], "en"),
    ],
)
def test_the_systems_language_is_known_by_any_of_its_names(monkeypatch, names, code):
    monkeypatch.setattr("core.base.language.LANGUAGES", NAMES)
    assert of_system(*names) == code


def spoken(home: Path, *arguments: str, **environment: str) -> str:
    """The language of a new process, and what it says of a number that is none."""
    code = (
        "import gettext; gettext.translation = lambda _name, _folder, codes, fallback: Said(codes[0])\n"
        "class Said(gettext.NullTranslations):\n"
        "    def __init__(self, code): super().__init__(); self.code = code\n"
        "    def gettext(self, message): return f'{self.code}: {message}'\n"
        "import pathlib; pathlib.Path.exists = lambda _path: True\n"  # every language has its catalogue
        "from core.base.formats import number; print(number(float('nan')))"
    )
    others = {"PYTHONPATH": str(ROOT), "HONE_HOME": str(home), "SYSTEMROOT": os.environ.get("SYSTEMROOT", "")}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env={**others, **environment}, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_language_is_that_of_the_command_the_variable_the_settings_and_the_system_in_this_order(tmp_path):
    assert spoken(tmp_path, LANG="ko_KR.UTF-8") == "ko: not a number"
    (tmp_path / "settings.json").write_text(json.dumps({"language": "zh_CN"}))
    assert spoken(tmp_path, LANG="ko_KR.UTF-8") == "zh_CN: not a number"
    assert spoken(tmp_path, HONE_LANGUAGE="ar") == "ar: not a number"
    assert spoken(tmp_path, "--language", "en", HONE_LANGUAGE="ar") == "en: not a number"


@pytest.mark.parametrize("content", ["{", "[]", '{"language": "xx"}', '{"language": 3}'])
def test_settings_that_name_no_language_leave_the_systems(tmp_path, content):
    (tmp_path / "settings.json").write_text(content)
    assert spoken(tmp_path, LANG="ko_KR.UTF-8") == "ko: not a number"

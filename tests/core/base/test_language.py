"""The person's language is found, and what is translated into it is shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.base.language import NAMES, of_system, split_off

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
    """The language of a new process."""
    others = {"PYTHONPATH": str(ROOT), "HONE_HOME": str(home), "SYSTEMROOT": os.environ.get("SYSTEMROOT", "")}
    command = [sys.executable, "-c", "from core.base.language import LANGUAGE; print(LANGUAGE)", *arguments]
    done = subprocess.run(command, env={**others, **environment}, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_language_is_that_of_the_command_the_variable_the_settings_and_the_system_in_this_order(tmp_path):
    assert spoken(tmp_path, LANG="ko_KR.UTF-8") == "ko"
    (tmp_path / "settings.json").write_text(json.dumps({"language": "zh_CN"}))
    assert spoken(tmp_path, LANG="ko_KR.UTF-8") == "zh_CN"
    assert spoken(tmp_path, HONE_LANGUAGE="ar") == "ar"
    assert spoken(tmp_path, "--language", "en", HONE_LANGUAGE="ar") == "en"


def test_a_process_speaks_as_the_one_that_started_it_also_once_the_settings_have_changed(tmp_path):
    code = "import os, subprocess, sys; from core.base.language import LANGUAGE; print(LANGUAGE)"
    (tmp_path / "settings.json").write_text(json.dumps({"language": "ko"}))
    parent = (
        f"{code}; import pathlib; pathlib.Path({str(tmp_path / 'settings.json')!r}).write_text('{{}}'); "
        f"subprocess.run([sys.executable, '-c', {code!r}], check=True)"
    )
    environment = {"PYTHONPATH": str(ROOT), "HONE_HOME": str(tmp_path), "LANG": "C", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", parent], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["ko", "ko"]


@pytest.mark.parametrize("content", ["{", "[]", '{"language": "xx"}', '{"language": 3}'])
def test_settings_that_name_no_language_leave_the_systems(tmp_path, content):
    (tmp_path / "settings.json").write_text(content)
    assert spoken(tmp_path, LANG="ko_KR.UTF-8") == "ko"


@pytest.mark.parametrize(
    ("arguments", "language", "rest"),
    [
        (["--language", "ko", "runs"], "ko", ["runs"]),
        (["--language=ko"], "ko", []),
        (["--language"], "--language", []),  # which is then refused as a language
        (["runs", "--language", "ko"], "", ["runs", "--language", "ko"]),
        ([], "", []),
    ],
)
def test_a_command_line_begins_with_its_language(arguments, language, rest):
    assert split_off(arguments) == (language, rest)


SET = """
from core.base import formats
print(formats.paragraph("一", "二。"))
print(formats.titled("a", formats.enumerated("bc")))
print(ascii(formats.in_line("x", "y")))
print(formats.share(0.5).strip("\\u2068\\u2069"))
"""


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("en", ["一. 二。", "a: b, c", "'x \\xb7 y'", "50.0 %"]),
        ("zh_CN", ["一。二。", "a：b、c", "'x \\xb7 y'", "50.0%"]),
        (
            "ar",
            [
                "一. 二。",
                "\u200fa: \u2068b\u2069، \u2068c\u2069",
                "'\\u200f\\u2068x\\u2069 \\xb7 \\u2068y\\u2069'",
                "50.0%",
            ],
        ),
    ],
)
def test_sentences_lists_and_facts_are_set_as_the_language_does(tmp_path, code, lines):
    environment = {**os.environ, "HONE_LANGUAGE": code, "HONE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-X", "utf8", "-c", SET]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert done.stdout.splitlines() == lines

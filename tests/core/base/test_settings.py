from pathlib import Path

import pytest

from core.base import settings
from core.base.settings import Appearance, Settings


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_what_is_saved_is_loaded(home):
    assert settings.load() == Settings()
    assert not home.exists()
    settings.save(Settings(appearance=Appearance.DARK))
    assert settings.load() == Settings(appearance=Appearance.DARK)


@pytest.mark.parametrize("content", ["{", '{"runs_folder": 7, "appearance": "pink"}'])
def test_of_damaged_settings_it_is_told_where_they_are_and_where_runs_go(home, content):
    assert settings.read() == (Settings(), None)
    home.mkdir()
    (home / "settings.json").write_text(content)
    chosen, told = settings.read()
    assert chosen == Settings()
    assert str(home / "settings.damaged.json") in str(told)
    assert (home / "settings.damaged.json").read_text() == content
    assert str(home / "runs") in str(told)


def test_a_home_that_is_a_file_holds_no_settings(home):
    home.touch()
    assert settings.load() == Settings()


def test_a_copy_that_cannot_be_made_does_not_stop_anybody(home):
    (home / "settings.damaged.json").mkdir(parents=True)
    (home / "settings.json").write_text("{")
    chosen, told = settings.read()
    assert chosen == Settings()
    assert told is not None
    assert "settings.damaged.json" not in str(told)


def test_a_home_of_nobody_is_a_folder_of_that_name(monkeypatch):
    monkeypatch.setenv("HONE_HOME", "~nobody-is-called-so")
    assert settings.home() == Path.cwd() / "~nobody-is-called-so"

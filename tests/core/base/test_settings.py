from pathlib import Path

import pytest

from core.base import settings
from core.base.settings import Appearance, Settings


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_what_is_saved_is_loaded(home):
    assert settings.read() == (Settings(), None)
    assert not home.exists()
    settings.save(Settings(appearance=Appearance.DARK))
    assert settings.read() == (Settings(appearance=Appearance.DARK), None)


@pytest.mark.parametrize("content", ["{", '{"runs_folder": 7, "appearance": "pink"}'])
def test_damaged_settings_are_copied_and_reported_with_the_folder_of_runs(home, content):
    copy = home / "settings.damaged.json"
    home.mkdir()
    (home / "settings.json").write_text(content)
    chosen, error = settings.read()
    assert chosen == Settings()
    assert copy.read_text() == content
    assert str(copy) in str(error)
    assert str(home / "runs") in str(error)
    copy.unlink()
    copy.mkdir()  # no copy can be made
    chosen, error = settings.read()
    assert chosen == Settings()
    assert error is not None
    assert copy.name not in str(error)


def test_a_home_that_is_a_file_or_names_no_user(home, monkeypatch):
    home.touch()
    assert settings.load() == Settings()
    monkeypatch.setenv("HONE_HOME", "~nobody-is-called-so")
    assert settings.home() == Path.cwd() / "~nobody-is-called-so"

import pytest

from core.options import presets


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def test_the_newest_comes_first_and_only_once(tmp_path):
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        file.touch()
    for source in (*map(str, files), str(files[0]), "hub:owner/set"):
        presets.remember(source)
    assert presets.recent() == ("hub:owner/set", str(files[0]), str(files[1]))


def test_what_is_gone_is_left_out_and_what_comes_with_hone_is_not_kept(tmp_path):
    presets.remember(str(tmp_path / "gone.csv"))
    presets.remember("builtin:digits")
    assert presets.recent() == ()


def test_a_damaged_list_is_an_empty_one(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "recent-data.json").write_text("{")
    assert presets.recent() == ()

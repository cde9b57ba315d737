"""Sending an export to a Hub on this computer."""

from pathlib import Path

import pytest
from huggingface_hub import constants

from core.base.errors import UserError
from core.engine.hub.download import push
from core.jobs.export import Pushed, PushRequest
from tests.fakes.hub import a_hub

TOKEN = "hf_somebodys"
FILES = {"README.md": b"# Mine", "model.safetensors": bytes(range(256)) * 40, "base/config.json": b"{}"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with a_hub(tmp_path, monkeypatch) as serving:
        serving.people[TOKEN] = "me"
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield serving


def pushed(folder: Path, *, private: bool = True) -> Pushed:
    for name, content in FILES.items():
        (folder / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "out" / name).write_bytes(content)
    return push(PushRequest(folder=str(folder / "out"), repo="me/mine", private=private), lambda _: None)


@pytest.mark.parametrize("private", [True, False])
def test_all_files_go_to_a_new_repository(hub, tmp_path, private):
    assert pushed(tmp_path, private=private).url == "https://huggingface.co/me/mine"
    sent = dict(hub.uploads.files["me/mine"])
    sent.pop(".gitattributes", None)
    assert sent == FILES
    assert hub.uploads.private == {"me/mine": private}
    assert {asked.token for asked in hub.asked if not asked.path.startswith("/large/")} == {TOKEN}


@pytest.mark.parametrize(
    ("variable", "title"),
    [(("HF_TOKEN", ""), "requires a token"), (("HF_HUB_OFFLINE", "1"), "works offline")],
)
def test_without_a_token_or_offline_nothing_is_asked(hub, tmp_path, monkeypatch, variable, title):
    monkeypatch.setenv(*variable)
    with pytest.raises(UserError, match=title):
        pushed(tmp_path)
    assert not hub.asked


@pytest.mark.parametrize(
    ("cause", "title", "detail"),
    [
        (lambda hub: hub.uploads.private.update({"me/mine": True}), "is a model me/mine already", "new rep"),
        (lambda hub: hub.uploads.readers.add(TOKEN), "may not write to me/mine", "write permission"),
        (lambda hub: hub.people.clear(), "token", "token"),
    ],
)
def test_a_refused_repository(hub, tmp_path, cause, title, detail):
    cause(hub)
    with pytest.raises(UserError, match=title) as refused:
        pushed(tmp_path)
    assert detail in refused.value.detail
    assert TOKEN not in str(refused.value)
    assert [asked.path for asked in hub.asked] == ["/api/repos/create"], "nothing is overwritten"


def test_what_is_left_on_the_hub_is_told(hub, tmp_path):
    hub.uploads.refuses_commits = True
    with pytest.raises(UserError, match="may not write to me/mine") as refused:
        pushed(tmp_path)
    assert "is empty" in refused.value.detail
    assert hub.uploads.files["me/mine"] == {}

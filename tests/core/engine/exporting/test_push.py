"""Sending an export to a Hub on this computer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from core.base.errors import UserError
from core.engine.hub.push import push
from core.services.export import Pushed, PushRequest
from tests.fakes.tiny_on_hub import a_hub
from tests.fakes.whole_hub import WholeHub

TOKEN = "hf_somebodys"
FILES = {"README.md": b"# Mine", "model.safetensors": bytes(range(256)) * 40, "base/config.json": b"{}"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WholeHub]:
    with a_hub(tmp_path, monkeypatch) as serving:
        serving.people[TOKEN] = "me"
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield serving


def pushed(folder: Path, repo: str = "me/mine", *, private: bool = True) -> Pushed:
    for name, content in FILES.items():
        (folder / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "out" / name).write_bytes(content)
    return push(PushRequest(folder=str(folder / "out"), repo=repo, private=private), lambda _: None)


@pytest.mark.parametrize("private", [True, False])
def test_all_files_go_to_a_new_repository(hub: WholeHub, tmp_path: Path, private: bool) -> None:
    answer = pushed(tmp_path, private=private)
    assert answer.url == "https://huggingface.co/me/mine"
    sent = dict(hub.uploads.files["me/mine"])
    sent.pop(".gitattributes", None)
    assert sent == FILES
    assert hub.uploads.private == {"me/mine": private}
    assert {asked.token for asked in hub.asked if not asked.path.startswith("/large/")} == {TOKEN}


def test_a_name_that_is_taken_is_refused_and_nothing_is_overwritten(hub: WholeHub, tmp_path: Path) -> None:
    hub.uploads.private["me/mine"] = True
    with pytest.raises(UserError, match="There is a model me/mine already"):
        pushed(tmp_path)
    assert [asked.path for asked in hub.asked] == ["/api/repos/create"]


def test_without_a_token_nothing_is_asked(
    hub: WholeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(UserError, match="takes a token"):
        pushed(tmp_path)
    assert not hub.asked


def test_offline_nothing_is_asked(hub: WholeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="works offline"):
        pushed(tmp_path)
    assert not hub.asked


def test_a_token_that_may_only_read_is_told_so(hub: WholeHub, tmp_path: Path) -> None:
    hub.uploads.readers.add(TOKEN)
    with pytest.raises(UserError, match="no leave to make me/mine") as refused:
        pushed(tmp_path)
    assert "leave to write" in refused.value.detail


def test_a_wrong_token_is_told_without_it(hub: WholeHub, tmp_path: Path) -> None:
    hub.people.clear()
    with pytest.raises(UserError) as refused:
        pushed(tmp_path)
    assert TOKEN not in str(refused.value)
    assert "token" in refused.value.detail


def test_what_is_left_on_the_hub_is_told(hub: WholeHub, tmp_path: Path) -> None:
    hub.uploads.refuses_commits = True
    with pytest.raises(UserError, match="no leave to write to me/mine") as refused:
        pushed(tmp_path)
    assert "is empty" in refused.value.detail
    assert hub.uploads.files["me/mine"] == {}

"""The token is in the keychain, or where other programs keep it, and in no text; working offline holds for all."""

import os

import keyring
import pytest
import torch

from core.base import jobs, settings
from core.base.errors import ModelError, UserError
from core.engine.hub.account import account
from core.engine.hub.token import NO_KEYCHAIN, find_token, lend_token
from core.engine.models.vision import load_vision_model
from core.jobs.hub import Account, AccountAction, AccountRequest, TokenPlace
from core.options import hub as hub_services
from core.options.sections import ModelOptions
from tests.fakes.desktop import FakeKeychain, PlainFile

TOKEN = "hf_SecretOfAda42"
SAVE = AccountRequest(action=AccountAction.SAVE, token=TOKEN)
CHECK, REMOVE = AccountRequest(action=AccountAction.CHECK), AccountRequest(action=AccountAction.REMOVE)
LOOK = AccountRequest()


@pytest.fixture
def keychain(hub):
    fake, before = FakeKeychain(), keyring.get_keyring()
    keyring.set_keyring(fake)
    yield fake
    keyring.set_keyring(before)


def test_a_token_is_saved_in_the_keychain_and_in_no_file(keychain, tmp_path, monkeypatch):
    saved = account(SAVE)
    assert (saved.place, saved.keychain) == (TokenPlace.KEYCHAIN, "macOS Keychain")
    assert list(keychain.kept.values()) == [TOKEN]
    assert find_token() == (TOKEN, TokenPlace.KEYCHAIN)
    assert not [
        file for file in tmp_path.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()
    ]
    assert TOKEN not in repr(SAVE)
    lend_token()  # to libraries, in the environment, which goes first
    assert find_token() == (TOKEN, TokenPlace.ENVIRONMENT)
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert find_token() == ("hf_other", TokenPlace.ENVIRONMENT)
    monkeypatch.delenv("HF_TOKEN")
    account(REMOVE)
    assert keychain.kept == {}
    assert account(LOOK).place is TokenPlace.NOWHERE


def test_checking_asks_the_hub_for_the_owner(hub, keychain):
    with pytest.raises(UserError, match="no token to check"):
        account(CHECK)
    account(SAVE)
    assert hub.asked == []
    with pytest.raises(UserError, match="refuses") as wrong:
        account(CHECK)
    assert "doesn't accept the token" in wrong.value.detail
    assert TOKEN not in f"{wrong.value.title} {wrong.value.detail}"
    hub.people[TOKEN] = "ada"
    assert account(CHECK).name == "ada"
    assert {asked.path for asked in hub.asked} == {"/api/whoami-v2"}


def test_a_locked_keychain_is_reported_without_its_secret(keychain):
    keychain.is_locked = True
    with pytest.raises(UserError) as caught:
        account(SAVE)
    assert TOKEN not in caught.value.detail
    assert caught.value.__suppress_context__, "the chain of errors would quote it"
    assert find_token() == ("", TokenPlace.NOWHERE)


@pytest.mark.parametrize("backend", [keyring.backends.fail.Keyring, PlainFile])
def test_without_a_keychain_tokens_of_other_programs_are_used(keychain, tmp_path, backend):
    keyring.set_keyring(backend())
    with pytest.raises(UserError) as caught:
        account(SAVE)
    assert caught.value.detail == account(LOOK).refusal == NO_KEYCHAIN
    (tmp_path / "token").write_text(TOKEN)
    assert find_token() == (TOKEN, TokenPlace.FILE)


@pytest.mark.parametrize("text", ["", "  ", "two words", "hf_ü"])
def test_an_invalid_token_is_not_saved(keychain, text):
    with pytest.raises(UserError):
        account(AccountRequest(action=AccountAction.SAVE, token=text))
    assert keychain.kept == {}


def test_the_real_process_reports_that_there_is_no_keychain(hub):
    assert jobs.run_job("hub-account", LOOK, Account).refusal == NO_KEYCHAIN


# --- Working offline


def test_the_setting_and_the_variable_forbid_requests_in_every_library(hub, monkeypatch):
    assert not hub_services.is_forbidden()
    monkeypatch.setenv("HF_HUB_OFFLINE", "yes")
    assert hub_services.forbidden_by() == "HF_HUB_OFFLINE"
    settings.save(settings.Settings(offline=True))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    hub_services.forbid()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert hub_services.forbidden_by() == "“Work offline” in Settings", (
        "not the variable that Hone sets itself"
    )


def test_weights_of_torchvision_are_not_downloaded_offline(hub, tmp_path, monkeypatch):
    settings.save(settings.Settings(offline=True))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "torch"))
    monkeypatch.setattr("torch.hub.load_state_dict_from_url", lambda *_a, **_k: pytest.fail("downloaded"))
    with pytest.raises(ModelError, match="aren't on this computer") as caught:
        load_vision_model(ModelOptions(source="torchvision:squeezenet1_0", pretrained=True), 10, 1)
    assert "“Work offline” in Settings forbids" in caught.value.detail
    assert caught.value.fixes[0].changes == {"model.pretrained": False, "model.method": "full"}

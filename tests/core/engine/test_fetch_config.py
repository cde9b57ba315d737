"""One file is fetched from the Hub, nothing else; and what stands in its way is said plainly. Beside a Hub of ours."""

import json

import httpx2
import pytest
from huggingface_hub import errors

from core.base.errors import ModelError, UserError
from core.base.jobs import run_job
from core.engine.hub.account import FAILURES, Subject, as_user_error
from core.engine.hub.download import MOST_CONFIG_BYTES, fetch_config
from core.memory.model import Basis, Forecast, options_request
from core.options import RunOptions
from core.options.validate import read_options
from core.services import hub as asking
from core.services.hub import ConfigFetched, ConfigRequest, is_complete, question_about
from tests.fakes.hub import FakeHub

TINY = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 1000,
    "max_position_embeddings": 128,
}
OWN_CODE = {"model_type": "theirs", "auto_map": {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub for the processes that are started, and for this one; with an empty cache, and nobody logged in."""
    with FakeHub().serving() as serving:
        found = {"HF_ENDPOINT": serving.url, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HOME": str(tmp_path)}
        for name, value in found.items():
            monkeypatch.setenv(name, value)
        for name in ("HF_HUB_OFFLINE", "HF_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        point_at(serving.url, monkeypatch)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        yield serving


def point_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process's huggingface_hub, which was imported long ago, ask there."""
    constants = {
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
        "ENDPOINT": url,
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_TELEMETRY": True,
    }
    for name, value in constants.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)


def of(source: str) -> RunOptions:
    data = {"train": "", "max_length": 64}
    options, problems = read_options(
        {"task": "text-classification", "model": {"source": source}, "data": data}
    )
    assert options is not None, problems
    return options


def refused(source: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        fetch_config(source)
    return caught.value


@pytest.mark.long
def test_its_config_alone_makes_a_forecast(hub):
    """The real processes, one after another: fetched, then forecast without the Hub, though nothing else is here."""
    hub.configs["org/tiny"] = json.dumps(TINY).encode()
    asked = of("org/tiny")
    assert question_about(asked) is None
    run_job("fetch-config", ConfigRequest(source="org/tiny"), ConfigFetched)
    assert set(hub.asked) == {f"{way} /org/tiny/resolve/main/config.json" for way in ("HEAD", "GET")}
    assert question_about(asked) is not None
    assert not is_complete(asked), "the weights are still to be fetched"
    hub.asked.clear()
    found = run_job("forecast", options_request(asked), Forecast)
    assert (found.basis, found.length) == (Basis.FORMULA, 64)
    assert found.parts.activations > 0
    assert hub.asked == []


def test_a_failure_reaches_the_person_as_it_is(hub):
    with pytest.raises(UserError, match="There is no model org/nothing on"):
        run_job("fetch-config", ConfigRequest(source="org/nothing"), ConfigFetched)


def test_code_that_comes_with_a_model_is_neither_fetched_nor_run(hub, monkeypatch):
    from core.engine.models import text

    hub.configs["org/theirs"] = json.dumps(OWN_CODE).encode()
    fetch_config("org/theirs")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # as it is looked at
    with pytest.raises(ModelError, match="needs its own code to run"):
        text.load_config(of("org/theirs"))
    assert not [request for request in hub.asked if "config.json" not in request]


@pytest.mark.parametrize(
    ("status", "code", "title", "detail"),
    [
        (404, "RepoNotFound", "There is no model org/x on", "hf auth login"),
        (401, "GatedRepo", "is open only to those who accepted", "https://huggingface.co/org/x"),
        (403, "GatedRepo", "is open only to those who accepted", "hf auth login"),
        (404, "EntryNotFound", "org/x has no config.json", "architecture"),
        (401, "", "refuses org/x", "hf auth login"),
        (429, "", "refuses org/x", "too often"),
        (503, "", "refuses org/x", "503 Service Unavailable"),
    ],
)
def test_a_refusal_of_the_hub_says_what_to_do(hub, status, code, title, detail):
    hub.refusals["org/x"] = (status, code)
    error = refused("org/x")
    assert title in error.title
    assert detail in error.detail
    assert hub.asked == ["HEAD /org/x/resolve/main/config.json"], (
        "asked once, without waiting and trying again"
    )


def test_what_is_no_config_is_not_fetched(hub):
    hub.configs["org/huge"] = b" " * (MOST_CONFIG_BYTES + 1)
    assert "too large" in refused("org/huge").title
    assert hub.asked == ["HEAD /org/huge/resolve/main/config.json"]


def test_whoever_answers_in_the_hub_s_place_is_not_believed(hub):
    hub.is_the_hub = False
    hub.configs["org/tiny"] = b"<html>Log in to this network</html>"
    assert "doesn't answer as the Hub does" in refused("org/tiny").title
    assert not asking.names_here("org/tiny", asking.Kind.MODEL)


def test_without_a_network_nobody_waits(hub, monkeypatch):
    point_at("http://127.0.0.1:1", monkeypatch)
    error = refused("org/tiny")
    assert error.title.endswith("can't be reached")
    assert "Is this computer online? (" in error.detail


def test_a_name_that_can_t_be_one(hub):
    assert "is no name on the Hub" in refused("org//tiny").title
    assert hub.asked == []


def test_where_the_hub_is_forbidden_it_is_not_asked(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE" in refused("org/tiny").detail
    assert hub.asked == []


def test_a_disk_that_takes_nothing(hub, tmp_path):
    hub.configs["org/tiny"] = b"{}"
    (tmp_path / "hub").write_text("a file where the cache should be")
    error = refused("org/tiny")
    assert "can't be kept on this computer" in error.title
    assert str(tmp_path / "hub") in error.detail


@pytest.mark.parametrize(
    "error", [httpx2.ReadTimeout("timed out"), errors.LocalEntryNotFoundError("lost on the way")]
)
def test_a_hub_that_falls_silent_can_t_be_reached(error):
    assert isinstance(error, FAILURES)
    said = as_user_error(error, Subject("org/tiny"))
    assert said.title == f"{asking.host()} can't be reached"
    assert str(error) in said.detail

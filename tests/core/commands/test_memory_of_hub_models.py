"""`hone forecast`, `hone measure` and `hone fit` of models on the Hugging Face Hub: what is fetched, and when."""

from pathlib import Path

import msgspec
import pytest

from core.base.errors import UserError
from core.cli.main import main
from core.memory.model import ModelReport
from core.options import run_file
from core.services.hub import ConfigFetched
from tests.fakes.asked_of_bert import MODEL, asked
from tests.fakes.told_memory import Engine


@pytest.fixture
def from_hub(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of a model on the Hub of which nothing is here; fetching puts its config.json into an empty cache."""
    snapshot = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "abc"

    def fetch(source: str) -> ConfigFetched:
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
        return ConfigFetched(path=str(snapshot / "config.json"))

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE")
    engine.fetch = fetch
    engine.model = MODEL
    (tmp_path / "texts.csv").write_text("text,label\na,1\nb,2\n")
    file = tmp_path / "mine.hone"
    run_file.write(
        asked(model={"source": "org/tiny"}, data={"train": str(tmp_path / "texts.csv"), "max_length": 64}),
        file,
    )
    return file


class TestModelsOnTheHub:
    def test_a_forecast_fetches_what_describes_it_and_says_so(
        self, engine: Engine, from_hub: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["forecast", str(from_hub), "--json"]) == 0
        assert engine.asked == ["devices", "fetch-config", "check-model", "forecast"]
        told = capsys.readouterr()
        assert (
            told.err == "Fetching what describes org/tiny (config.json, a few KB) from huggingface.co ...\n"
        )
        assert msgspec.json.decode(told.out)["method"] == "formula"
        assert main(["forecast", str(from_hub), "--offline", "--quick"]) == 0  # it is here now

    def test_a_cache_without_the_newest_version_is_as_good_as_none(
        self, engine: Engine, from_hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "old"
        old.mkdir(parents=True)
        (old / "config.json").write_text("{}")
        fetch, engine.model = engine.fetch, ModelReport()

        def fetch_and_know(source: str) -> ConfigFetched:
            engine.model = MODEL
            return fetch(source)

        engine.fetch = fetch_and_know
        assert main(["forecast", str(from_hub), "--quick"]) == 0
        assert engine.asked == ["devices", "check-model", "fetch-config", "check-model"]

    @pytest.mark.parametrize("by", ["--offline", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
    def test_nothing_is_fetched_where_the_person_forbids_it(
        self,
        by: str,
        engine: Engine,
        from_hub: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        if by != "--offline":
            monkeypatch.setenv(by, "1")
        assert main(["forecast", str(from_hub), *(["--offline"] if by == "--offline" else [])]) == 1
        assert engine.asked == ["devices"]
        err = capsys.readouterr().err
        assert "org/tiny isn't on this computer yet" in err
        assert ("--offline forbids" if by == "--offline" else "HF_HUB_OFFLINE forbids") in err

    def test_what_stands_in_the_way_is_told(
        self,
        engine: Engine,
        from_hub: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def fail(_: str) -> ConfigFetched:
            raise UserError("huggingface.co can't be reached", "Is this computer online?")

        engine.fetch = fail
        assert main(["forecast", str(from_hub)]) == 1
        assert capsys.readouterr().err.endswith("huggingface.co can't be reached\nIs this computer online?\n")

    @pytest.mark.parametrize("command", ["measure", "fit"])
    @pytest.mark.parametrize("is_described", [False, True])
    def test_a_dry_run_needs_the_weights_and_fetches_nothing(
        self,
        command: str,
        is_described: bool,
        engine: Engine,
        from_hub: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        if is_described:
            engine.fetch("org/tiny")
        assert main([command, str(from_hub)]) == 1
        assert engine.asked == (["devices", "check-model"] if is_described else ["devices"])
        err = capsys.readouterr().err
        assert err.startswith("org/tiny isn't on this computer yet\nA run fetches it; so does `hf download")

    def test_a_model_of_an_unknown_build_says_so(
        self, engine: Engine, from_hub: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        engine.model = ModelReport(architecture="OddForSequenceClassification")
        assert main(["forecast", str(from_hub)]) == 1
        assert "how OddForSequenceClassification is built" in capsys.readouterr().err

"""Which models of the Hub can be trained, which are on this computer, and when the engine checks them."""

import shutil
import socket
from pathlib import Path

import msgspec
import pytest

from core.base.errors import Fix, Problem, UserError
from core.base.jobs import EngineCrashed, run_job
from core.cli.main import main
from core.memory.model import ModelReport, OptionsRequest
from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.sections import MemoryOptions, ModelOptions, TrainingOptions
from core.services.hub import (
    INDEX,
    PURPOSES,
    is_complete,
    is_in_hub_cache,
    may_be_there,
    question_about,
    standing,
    wanted,
    weight_bytes,
)
from tests.fakes import runs
from tests.fakes.models import save_tiny_bert
from tests.fakes.runs import FAKES

DIGITS = str(FAKES.parents[1] / "resources" / "examples" / "digits.hone")


def of_texts(source: str, **asked: object) -> RunOptions:
    return RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=source, **asked))  # type: ignore[arg-type]


def of_images(source: str) -> RunOptions:
    return RunOptions(task=Task.IMAGE_CLASSIFICATION, model=ModelOptions(source=source))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty cache of the Hub."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def fetch(hub: Path, folder: Path, *names: str) -> None:
    """Put files into the cache as the model `org/tiny`, as huggingface_hub does."""
    model = hub / "models--org--tiny"
    snapshot = model / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc")
    for name in names:
        shutil.copy(folder / name, snapshot / name)


class TestWhichModels:
    def test_only_models_on_this_computer(self, hub, tmp_path):
        assert question_about(of_texts("")) is None
        assert question_about(of_texts("org/tiny")) is None
        assert question_about(of_texts(str(tmp_path / "nothing"))) is None
        assert question_about(of_texts(str(tmp_path))) is not None
        assert question_about(of_images("torchvision:resnet18")) is not None
        assert question_about(of_images("org/tiny")) is None

    def test_a_model_fetched_before_counts(self, hub, tmp_path):
        (tmp_path / "config.json").write_text("{}")
        fetch(hub, tmp_path, "config.json")
        assert is_in_hub_cache("org/tiny")
        assert question_about(of_texts("org/tiny")) is not None

    @pytest.mark.parametrize("variable", ["HF_HOME", "XDG_CACHE_HOME"])
    def test_the_cache_may_lie_elsewhere(self, variable, tmp_path, monkeypatch):
        for name in ("HF_HUB_CACHE", "HF_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(variable, str(tmp_path))
        (tmp_path / "config.json").write_text("{}")
        within = "hub" if variable == "HF_HOME" else "huggingface/hub"
        fetch(tmp_path / within, tmp_path, "config.json")
        assert is_in_hub_cache("org/tiny")

    def test_options_beside_the_point_make_no_other_question(self):
        asked = of_images("torchvision:resnet18")
        same = msgspec.structs.replace(asked, training=TrainingOptions(epochs=9.0))
        other = msgspec.structs.replace(asked, memory=MemoryOptions(activation_checkpointing=True))
        assert question_about(asked) == question_about(same)
        assert question_about(asked) != question_about(other)
        assert question_about(asked) != question_about(asked, labels=10)


class TestWhatARunStillFetches:
    @pytest.mark.parametrize(
        ("names", "pretrained", "is_complete_then"),
        [
            ((), True, False),
            (("config.json",), True, False),
            (("config.json", "tokenizer.json"), True, False),
            (("config.json", INDEX, "model-00001-of-00002.safetensors"), True, False),
            (("config.json", INDEX, "model-00001-of-00001.safetensors"), True, True),
            (("config.json", "model.safetensors"), True, True),
            (("config.json",), False, False),
            (("config.json", "tokenizer.json"), False, True),
        ],
    )
    def test_of_a_model_on_the_hub_the_files_in_its_cache_tell(
        self, names, pretrained, is_complete_then, hub, tmp_path
    ):
        for name in names:
            (tmp_path / name).touch()
        fetch(hub, tmp_path, *names)
        assert is_complete(of_texts("org/tiny", pretrained=pretrained)) is is_complete_then

    def test_nothing_of_a_folder_or_of_torchvision(self, hub, tmp_path):
        assert is_complete(of_texts(str(tmp_path)))
        assert is_complete(of_images("torchvision:resnet18"))


@pytest.mark.parametrize(
    ("source", "may_be"),
    [
        ("bert-base-cased", True),
        ("google-bert/bert-base-cased", True),
        ("a/b/c", False),
        ("/home/me/bert", False),
        ("../bert", False),
        ("run:mine", False),
        ("", False),
    ],
)
def test_which_names_may_be_those_of_models_on_the_hub(source, may_be):
    assert may_be_there(of_texts(source)) is may_be
    assert may_be_there(of_images(source)) is may_be


def test_torchvisions_models_are_not_on_the_hub():
    assert not may_be_there(of_images("torchvision:resnet18"))


@pytest.mark.long
class TestRealEngine:
    """The job itself, beside a Hub that nobody may call."""

    @pytest.fixture(autouse=True)
    def listener(self, monkeypatch):
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
            yield
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):  # no connection was made
                listener.accept()

    def ask(self, **asked: object) -> ModelReport:
        question = question_about(of_texts("org/tiny", **asked))
        assert question is not None
        return run_job("check-model", question, ModelReport)

    def test_a_fetched_model_is_looked_at(self, hub, tmp_path):
        bert = save_tiny_bert(tmp_path / "bert")
        fetch(hub, bert, "config.json", "tokenizer.json", "tokenizer_config.json")
        report = self.ask(method=Method.LORA, lora_targets=("q_proj",))
        assert report.max_length == 64
        assert [problem.path for problem in report.problems] == ["model.lora_targets"]

    @pytest.mark.long
    def test_a_tokenizer_not_fetched_yet_is_no_problem(self, hub, tmp_path):
        fetch(hub, save_tiny_bert(tmp_path / "bert"), "config.json")
        report = self.ask()
        assert report.architecture == "BertForSequenceClassification"
        assert report.max_length is None
        assert report.problems == ()

    @pytest.mark.long
    def test_nothing_is_known_of_an_older_version_without_the_newest(self, hub, tmp_path):
        fetch(hub, save_tiny_bert(tmp_path / "bert"), "config.json")
        (hub / "models--org--tiny" / "refs" / "main").write_text("def")
        assert self.ask() == ModelReport()


class FakeAsk:
    """Answers with `answer`, or raises it; `requests` are those it was asked."""

    def __init__(self, answer: ModelReport | Exception) -> None:
        self._answer = answer
        self.requests: list[OptionsRequest] = []

    def __call__(self, request: OptionsRequest) -> ModelReport:
        self.requests.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class TestTrain:
    LORA = (
        *("--set", "model.pretrained=true"),
        *("--set", "model.method=lora"),
        *("--set", "model.lora_targets=q_proj"),
    )

    @pytest.fixture(autouse=True)
    def home(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
        return tmp_path / "home"

    def train(self, monkeypatch: pytest.MonkeyPatch, ask: FakeAsk, *arguments: str) -> int:
        monkeypatch.setattr("core.cli.train.run_job", lambda _name, request, _answer: ask(request))
        runs.play("finish", monkeypatch)
        return main(("train", DIGITS, *arguments))

    def test_targets_that_match_nothing_make_no_run(self, home, monkeypatch, capfd):
        fix = Fix("Let Hone choose", {"model.lora_targets": ()})
        problem = Problem("model.lora_targets", "q_proj matches no layer", (fix,))
        ask = FakeAsk(ModelReport(problems=(problem,)))
        assert self.train(monkeypatch, ask, *self.LORA) == 2
        err = capfd.readouterr().err
        assert "model.lora_targets: q_proj matches no layer" in err
        assert "Let Hone choose" in err
        assert ask.requests[0].asked["model"]["lora_targets"] == ("q_proj",)
        assert not home.exists()

    def test_a_model_without_problems_is_trained(self, monkeypatch):
        ask = FakeAsk(ModelReport(architecture="ResNet"))
        assert self.train(monkeypatch, ask, *self.LORA) == 0
        assert len(ask.requests) == 1

    def test_nobody_is_asked_where_nothing_can_be_wrong(self, monkeypatch):
        ask = FakeAsk(ModelReport())
        assert self.train(monkeypatch, ask) == 0
        assert ask.requests == []

    @pytest.mark.parametrize(
        "failure", [EngineCrashed("check-model", -11, "Segmentation fault"), UserError("No answer in time")]
    )
    def test_an_engine_that_cant_tell_is_no_reason_not_to_train(self, failure, monkeypatch, capfd):
        assert self.train(monkeypatch, FakeAsk(failure), *self.LORA) == 0
        assert "Note: the model could not be checked before the run" in capfd.readouterr().err


# --- Models that can be trained


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["config.json", "model.safetensors"], ""),
        (["config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json"], ""),
        (["config.json", "pytorch_model.bin"], "pickled"),
        (["config.json", "model.pt"], "pickled"),
        (["adapter_config.json", "adapter_model.safetensors"], "LoRA adapter"),
        (["model.safetensors"], "no config.json"),
        (["config.json", "model.gguf"], "other programs"),
        (["config.json"], "no weights"),
        (["unet/model.safetensors", "model_index.json"], "no weights"),
        ([], "no weights"),
    ],
)
def test_files_tell(files, words):
    refusal = standing("org/x", files).refusal
    assert words in refusal
    assert bool(refusal) == bool(words)


def test_code_of_its_own_weighs_more_than_safe_weights():
    files = ["config.json", "model.safetensors", "modeling_x.py"]
    assert standing("org/x", files).refusal == ""
    assert "Python code" in standing("org/x", files, tags=["custom_code"]).refusal
    assert "Python code" in standing("org/x", files, config={"auto_map": {"AutoModel": "x.X"}}).refusal


def test_what_is_asked_for():
    files = [
        "config.json", "model.safetensors", "model.safetensors.index.json", "model-00001-of-00001.safetensors",
        "pytorch_model.bin", "pytorch_model.bin.index.json", "vocab.txt", "spiece.model", "chat_template.jinja",
        "README.md", "LICENSE.txt", "modeling.py", "onnx/config.json", "tokenizer.json", "requirements.txt",
    ]  # fmt: skip
    assert wanted(files) == [
        "chat_template.jinja", "config.json", "model.safetensors", "spiece.model", "tokenizer.json", "vocab.txt",
    ]  # fmt: skip


def test_every_task_has_purposes():
    assert set(PURPOSES) == {task.value for task in Task}


def test_bytes_of_number_formats():
    assert weight_bytes({"F32": 10, "BF16": 10, "I8": 10, "F4": 10}) == 40 + 20 + 10 + 5

"""A model that MLX trained answers with MLX as it did during training, before its first step and at last."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import ModelError
from core.engine import __main__ as engine
from core.engine.generate.chat_job import inference_options
from core.jobs.chat import Chat, ChatTurn, EndedBy, Load, Texts, Which
from core.options.catalogue import with_changes
from core.options.choices import Method, Precision, Speaker, Task
from core.runs.folder import RunFolder
from tests.fakes.models import instructions, save_tiny_talker, write_json
from tests.fakes.training import Received, ask, examples, first_and_last, run_options

pytest.importorskip("mlx.core")

import mlx.core as mx

from core.engine.mlx import generate
from tests.core.engine.mlx.test_export import rename_base, trained
from tests.core.engine.models.test_text import cut


def load(run: RunFolder, which: Which = Which.TRAINED, *, on_cpu: bool = False, **changes: Any) -> Any:
    """Loads a model as the job does where MLX may compute."""
    options = with_changes(run.options(), {"device.backend": "mlx", **changes})
    asked = Load(run=str(run.path), which=which, on_cpu=on_cpu)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HONE_MLX_CPU", "1")
        return engine._load_tried(run, inference_options(options, asked), which)


def talk(folder: Path, method: Method, **more: Any) -> RunFolder:
    source = save_tiny_talker(folder / "talker", hidden_size=64)
    asked = {"max_length": 96, "max_steps": 4, "eval_fraction": 0.2, "predictions": 1, "learning_rate": 3e-2}
    rows = write_json(folder / "rows.json", instructions(20))
    return trained(
        folder / "run",
        run_options(Task.CHAT, source=source, method=method, train=rows, **asked, **more),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return talk(tmp_path_factory.mktemp("talk"), Method.LORA, lora_dora=True)


@pytest.fixture(scope="module")
def talker(run):
    return load(run)


def said_to(*texts: str) -> Chat:
    speakers = [Speaker.USER, Speaker.ASSISTANT] * len(texts)
    return Chat(turns=tuple(map(ChatTurn, speakers, texts)))


def answers_as_in_training(run: RunFolder) -> dict[Which, Any]:
    """Asks the model of each kind; returns them."""
    before, last = first_and_last(run)
    assert [said.text for said in before] != [said.text for said in last]
    models, names = {which: load(run, which) for which in Which}, {}
    asked = [(Which.TRAINED, last, False), (Which.BEFORE, before, False)]
    if models[Which.TRAINED].before is not None:
        asked += [(Which.TRAINED, before, True), (Which.TRAINED, last, False)]
    for which, expected, off in asked:
        assert models[which].device == "CPU with MLX"
        for example, said in zip(examples(run), expected, strict=True):
            text = Texts(texts=(example.given,), as_read=True)
            answered = ask(models[which], text, max_tokens=64, before=off)
            assert answered.text == said.text
            assert answered.name == names.setdefault(expected is last, answered.name)
            assert (answered.ended_by is EndedBy.LENGTH) == said.is_cut
    return models


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
@pytest.mark.parametrize("method", [Method.FULL, Method.QLORA])
def test_greedy_answers_are_those_of_the_run(method, precision, tmp_path, monkeypatch):
    run, computed_in = talk(tmp_path, method, precision=precision), []
    step = generate.generate_step

    def seen(prompt: Any, model: Any, **more: Any) -> Any:
        computed_in.append(model(mx.array([[0]])).dtype)
        return step(prompt, model, **more)

    monkeypatch.setattr(generate, "generate_step", seen)
    models = answers_as_in_training(run)
    assert {*computed_in} == {mx.bfloat16 if precision is Precision.BF16 else mx.float32}
    assert (models[Which.TRAINED].before is None) == (method is Method.FULL)
    assert models[Which.BEFORE].before is None


def test_greedy_answers_with_dora_are_those_of_the_run(run):
    answers_as_in_training(run)


def test_of_a_conversation_only_the_last_turn_is_read(run, talker, monkeypatch):
    read = []
    step = generate.generate_step

    def counted(prompt: Any, *args: Any, **more: Any) -> Any:
        read.append(prompt.size)
        return step(prompt, *args, **more)

    monkeypatch.setattr(generate, "generate_step", counted)
    first = ask(talker, said_to("Count to 5, please."), max_tokens=12)
    answer = first.text.strip() or "Five."  # a turn of spaces alone is no turn
    again = said_to("Count to 5, please.", answer, "And to 3.")
    second = ask(talker, again, max_tokens=12)
    assert read[0] == first.read
    assert read[1] <= second.read - first.read
    fresh = ask(load(run), again, max_tokens=12)
    assert read[2] == fresh.read == second.read
    assert second.text == fresh.text
    other = ask(talker, said_to("Hello."), max_tokens=12)
    assert other.text == ask(load(run), said_to("Hello."), max_tokens=12).text


def test_with_and_without_the_adapter_a_conversation_is_remembered_apart(run, talker):
    """Keys and values of one would be read by the other."""
    turns = "Count to 5, please.", "One.", "And to 3."
    for conversation in (said_to(turns[0]), said_to(*turns)):
        trained = ask(talker, conversation, max_tokens=12)
        before = ask(talker, conversation, max_tokens=12, before=True)
        assert trained.text == ask(load(run), conversation, max_tokens=12).text
        assert before.text == ask(load(run, Which.BEFORE), conversation, max_tokens=12).text


def test_chance_follows_its_seed_and_a_stop_keeps_what_is_written(talker):
    def write(seed: int, pieces: int | None = None) -> Any:
        received, sampled = Received(pieces), {"temperature": 1.5, "top_p": 0.9, "max_tokens": 30}
        answered = ask(talker, said_to("Count to 7, please."), received, seed=seed, **sampled)
        assert answered.text == "".join(received.pieces)
        return answered

    whole = write(2)
    assert whole.text == write(2).text != write(1).text
    stopped = write(2, pieces=2)
    assert stopped.ended_by is EndedBy.PERSON
    assert stopped.tokens < whole.tokens


def test_what_mlx_is_not_asked_for_is_computed_by_pytorch(run):
    assert load(run, on_cpu=True).device == "cpu"
    assert load(run, **{"device.backend": "torch"}).device == "cpu"


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (
            lambda run, _base: cut(-100, "adapter_model.safetensors")(run.model),
            "The model in run can't be loaded",
        ),
        (lambda _run, base: cut(40)(base), "The model in talker can't be loaded"),
        (lambda _run, base: save_tiny_talker(base), "The adapter of run belongs to another model"),
    ],
)
def test_weights_that_can_not_be_used_are_told_with_a_remedy(change, title, run, tmp_path):
    copied, base = (
        Path(shutil.copytree(one, tmp_path / one.name))
        for one in (run.path, Path(run.options().model.source))
    )
    moved = RunFolder(copied)
    rename_base(moved, base)
    change(moved, base)
    with pytest.raises(ModelError) as refused:
        load(moved)
    assert refused.value.title == title
    assert refused.value.fixes


def test_a_run_without_a_model_is_told(tmp_path, run):
    (tmp_path / "run.toml").write_bytes(run.options_file.read_bytes())
    with pytest.raises(ModelError, match="no model"):
        load(RunFolder(tmp_path))

from pathlib import Path

import pytest

from core.memory.model import ModelReport, ModelShape
from core.memory.remedies import Asked, packed_weights, small_matrices
from core.options import RunOptions, run_file
from core.options.choices import Method, Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, hints
from core.options.sections import ModelOptions, TrainingOptions
from core.options.sources import SCRATCH_MODELS, TIMED_MODELS, positions_of, scratch_model, short_name
from core.options.validate import check_tree, problems_of
from core.services.hub import is_complete, question_about

EXAMPLES = Path(__file__).parents[3] / "resources" / "examples"


def problems(task: Task, train: str = "synthetic:8x8", **model: object) -> dict[str, str]:
    options = RunOptions(task=task, model=ModelOptions(**model), data=DataOptions(train=train))
    return {found.path: found.message for found in problems_of(options)}


def test_a_small_model_is_known_by_its_name() -> None:
    assert scratch_model("scratch:llama-small") is SCRATCH_MODELS["llama-small"]
    assert scratch_model("scratch:llama") is None
    assert scratch_model("llama-small") is None
    assert not problems(Task.CAUSAL_LM, source="scratch:llama-small", vocabulary=2048)
    assert not problems(Task.TEXT_CLASSIFICATION, source="scratch:bert-tiny")
    assert not problems(Task.TEXT_CLASSIFICATION, source="scratch:llama-tiny")


def test_sizes_for_timing_are_known_and_not_offered() -> None:
    assert scratch_model("scratch:bert-large") is not None
    assert not problems(Task.TEXT_CLASSIFICATION, source="scratch:bert-large", vocabulary=30522)
    assert not set(TIMED_MODELS) & set(SCRATCH_MODELS)
    assert "bert-large" not in problems(Task.TEXT_CLASSIFICATION, source="scratch:bert")["model.source"]


def test_a_misspelt_one_is_offered_rightly() -> None:
    tree = {
        "task": "causal-lm",
        "model": {"source": "scratch:lama-small"},
        "data": {"train": "synthetic:8x8"},
    }
    found = next(found for found in check_tree(tree)[1] if found.path == "model.source")
    assert "no model called 'lama-small' from scratch" in found.message
    assert "did you mean llama-small?" in found.message
    assert found.fixes[0].changes == {"model.source": "scratch:llama-small"}


def test_that_a_name_is_unknown_is_said_before_what_such_a_model_lacks() -> None:
    data = DataOptions(train="talks.jsonl")
    of_rows = {}
    for name in ("foo", "bert-tiny", "llama-tiny"):
        asked = RunOptions(task=Task.CHAT, model=ModelOptions(source=f"scratch:{name}"), data=data)
        of_rows[name] = {found.path: found.message for found in problems_of(asked)}["model.source"]
    assert "no model called 'foo' from scratch; there are llama-tiny" in of_rows["foo"]
    assert "bert" not in of_rows["foo"], "they can't write"
    assert "can't write" in of_rows["bert-tiny"]
    assert "has to learn to write first" in of_rows["llama-tiny"]


@pytest.mark.parametrize("task", [Task.CAUSAL_LM, Task.CHAT])
def test_one_that_reads_is_not_asked_to_write(task: Task) -> None:
    assert "can't write" in problems(task, source="scratch:bert-small")["model.source"]


def test_it_sees_no_images() -> None:
    assert "model.source" in problems(Task.IMAGE_CLASSIFICATION, source="scratch:bert-tiny")


@pytest.mark.parametrize("method", ["lora", "qlora", "head"])
def test_its_random_weights_are_not_frozen(method: str) -> None:
    model = {"source": "scratch:bert-tiny", "method": Method(method)}
    told = problems(Task.TEXT_CLASSIFICATION, "hub:somebody/reviews", **model)
    assert "random weights" in told["model.method"]


def test_a_vocabulary_is_chosen_for_it_alone() -> None:
    assert "model.vocabulary" in problems(Task.CAUSAL_LM, source="some/model", vocabulary=2048)
    assert "model.vocabulary" not in problems(Task.CAUSAL_LM, source="scratch:llama-tiny", vocabulary=2048)


def test_it_is_always_at_hand() -> None:
    options = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source="scratch:llama-tiny"))
    longer = RunOptions(task=options.task, model=options.model, data=DataOptions(max_length=512))
    assert is_complete(options)
    assert question_about(options) is not None
    assert question_about(options) != question_about(longer), "how much it sees follows from the longest text"
    assert short_name("scratch:llama-tiny") == "llama-tiny"


def test_it_sees_enough_to_be_trained_on() -> None:
    assert positions_of(8) == 256
    assert positions_of(1024) == 1024


def test_it_chats_only_after_it_has_learned_to_write() -> None:
    chat = RunOptions(
        task=Task.CHAT,
        model=ModelOptions(source="scratch:llama-tiny"),
        data=DataOptions(train=__file__),
    )
    found = next(found for found in problems_of(chat) if found.path == "model.source")
    assert "learn to write first" in found.message
    assert found.fixes[0].changes == {"task": "causal-lm"}
    assert not problems(Task.CHAT, source="scratch:llama-tiny"), "random conversations are for timing"


def test_what_suits_pretrained_weights_is_not_said_of_random_ones() -> None:
    fast = TrainingOptions(learning_rate=3e-3)
    for source, said in (("some/model", True), ("scratch:llama-tiny", False)):
        options = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source=source), training=fast)
        assert any(found.path == "training.learning_rate" for found in hints(options, None)) is said


def test_no_remedy_freezes_random_weights() -> None:
    for source, offered in (("some/model", True), ("scratch:llama-tiny", False)):
        options = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source=source))
        device = DeviceReport(name="cpu", title="a processor", available=True)
        asked = Asked(options, ModelReport(), ModelShape(parameters=1), device)
        assert bool([*small_matrices(asked), *packed_weights(asked)]) is offered


def test_the_example_from_nothing_can_be_read_and_is_beyond_reproach(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("To be")
    options = run_file.read(EXAMPLES / "tinyshakespeare.hone", (f"data.train={text}",))
    assert scratch_model(options.model.source) is not None
    assert options.data.max_length >= 256, "Alpaca's prompts need it"
    assert hints(options, None) == ()

"""The same held-out examples at every evaluation, and a training that isn't touched by it."""

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from core.engine.data.batches import stack
from core.engine.data.image_files import ImageSet
from core.engine.generate.predict import (
    BATCH_SIZE,
    PICTURED,
    choose,
    continue_prompts,
    judge,
    last_message,
    predict_classes,
    predict_word_labels,
    prompt_and_answer,
    write_likeliest,
)
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.text import prepare
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import (
    ConfusionCounted,
    Evaluated,
    Example,
    ExamplesChosen,
    MessageRaised,
    Predicted,
    Said,
)
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert, tiny_tokenizer
from tests.fakes.training import TinyRun, options_of, reviews, train, write_reviews


def of_kind(run: TinyRun, kind: type) -> list[Any]:
    return [event for event in run.events if isinstance(event, kind)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains with dropout and so many predictions: a single random number more would show in the losses."""
    folder = tmp_path_factory.mktemp("predictions")
    sections = {
        "model": ModelOptions(source=str(save_tiny_bert(folder / "bert", hidden_dropout_prob=0.3))),
        "data": reviews(write_reviews(folder / "reviews.csv", 40), eval_fraction=0.25),
        "training": TrainingOptions(epochs=2.0, learning_rate=1e-2),
    }
    return lambda name, predictions: train(
        folder / name, output=OutputOptions(predictions=predictions), **sections
    )


@pytest.fixture(scope="module")
def watched(trained):
    return trained("watched", 5)


def test_the_same_examples_are_predicted_before_training_and_at_each_evaluation(watched):
    [chosen] = of_kind(watched, ExamplesChosen)
    assert len(chosen.examples) == 5
    assert all(example.given and example.expected in ("no", "yes") for example in chosen.examples)
    evaluations, predictions = of_kind(watched, Evaluated), of_kind(watched, Predicted)
    assert [event.step for event in predictions] == [0, *(event.step for event in evaluations)]
    assert all(len(event.said) == 5 for event in predictions)
    for confusion, evaluated in zip(of_kind(watched, ConfusionCounted), evaluations, strict=True):
        assert (confusion.step, confusion.labels) == (evaluated.step, ("no", "yes"))
        right = confusion.counts[0][0] + confusion.counts[1][1]
        assert right / sum(map(sum, confusion.counts)) == pytest.approx(evaluated.metrics["eval_accuracy"])


def test_examples_have_the_text_of_the_data_its_row_and_whether_it_was_cut(tmp_path):
    """Rows that are empty or repeated aren't counted as held out, but keep their numbers."""
    texts = [
        "",
        "Good – film!",
        "Good – film!",
        *(f"Fine PLOT, {'very ' * (row % 3 * 9)}{row}" for row in range(20)),
    ]
    with (tmp_path / "films.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *((text, len(text) % 2) for text in texts)])
    data = {"skip_bad_rows": True, "drop_duplicates": True, "eval_fraction": 0.6, "max_length": 12}
    run = train(
        tmp_path / "run",
        model=ModelOptions(source=str(save_tiny_bert(tmp_path / "bert"))),
        data=DataOptions(train=str(tmp_path / "films.csv"), **data),
        output=OutputOptions(predictions=9),
    )
    [chosen] = of_kind(run, ExamplesChosen)
    judged = run.run.validation().examples
    shown = [*chosen.examples, *(one.example for one in judged)]
    assert len(chosen.examples) == 9 < len(shown)
    for example in shown:
        row = int(example.where.removeprefix("row ").removesuffix(" of films.csv"))
        assert (example.texts, example.expected) == ((texts[row - 2],), str(len(texts[row - 2]) % 2))
        assert example.is_cut == ("very" in example.shown)
        assert example.given != example.shown, "as the tokenizer decodes it"


def test_a_text_is_known_to_be_cut_by_a_tokenizer_in_python_too(tmp_path):
    from transformers import ByT5Tokenizer

    bert = save_tiny_bert(tmp_path / "bert", vocab_size=400)
    (bert / "tokenizer.json").unlink()
    ByT5Tokenizer().save_pretrained(bert)
    options = options_of(source=bert, train=write_reviews(tmp_path / "reviews.csv"), max_length=12)
    prepared = prepare(options, Reporter(None))
    shown = [prepared.origin(index) for index in range(len(prepared.eval))]
    assert {example.is_cut for example in shown} == {True, False}
    assert all(example.is_cut == (len(example.shown) >= 12) for example in shown)


def test_predictions_change_no_bit_of_the_training(trained, watched):
    unwatched = trained("unwatched", 0)
    assert of_kind(unwatched, Predicted) == []
    assert [step.loss for step in unwatched.steps] == [step.loss for step in watched.steps]


def test_a_model_that_fails_to_predict_is_reported_and_trained(trained, monkeypatch):
    def fail(*_args: Any) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr("core.engine.generate.predict.predict_classes", fail)
    run = trained("failing", 2)
    assert (run.status, of_kind(run, Predicted)) == (0, [])
    assert "no such operator" in run.messages["no-predictions"].detail


def test_only_labelled_words_count_as_right():
    tokenizer = tiny_tokenizer()
    ids = tokenizer("hello Paris")["input_ids"]
    sample = {"input_ids": ids, "labels": [0, *[-100] * (len(ids) - 1)]}

    def is_right(guesses: list[int]) -> bool | None:
        logits = torch.nn.functional.one_hot(torch.tensor([guesses]), 2).float()
        model = torch.nn.Linear(1, 1)
        model.forward = lambda **_: {"logits": logits}  # type: ignore[method-assign]
        (said,) = predict_word_labels([sample], lambda _: {}, ("O", "X"), [["hello"]], model, lambda: False)
        return said.right

    assert is_right([0, *[1] * (len(ids) - 1)]) is True
    assert is_right([1] * len(ids)) is False


@pytest.mark.parametrize(
    ("sample", "prompt", "answer"),
    [
        ({"input_ids": [1, 2, 3, 4]}, [1, 2], [3, 4]),
        ({"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}, [1, 2], [3, 4]),
        ({"input_ids": [1, 2, 3, 4], "labels": [-100, -100, 3, 4]}, [1, 2], [3, 4]),
        ({"input_ids": [1, 2, 3, 4, 5], "labels": [-100, 2, -100, 4, -100]}, [1, 2, 3], [4]),
        ({"input_ids": [1, 2], "labels": [-100, -100]}, [], []),
        ({"prompt_ids": [1], "chosen_ids": [2], "rejected_ids": [3]}, [1], [2]),
    ],
)
def test_what_is_shown_of_a_text_and_what_should_follow(sample, prompt, answer):
    assert prompt_and_answer(sample) == (prompt, answer)


@pytest.fixture(scope="module")
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tiny_tokenizer()), **sizes)).eval()


def test_prompts_of_different_lengths_in_a_batch_are_continued_as_alone_until_stopped(llama):
    tokenizer = tiny_tokenizer()
    prompts = [tokenizer(text)["input_ids"] for text in ("hello", "What is the capital of France?")]

    def said(prompts: list[list[int]], *, stop: bool = False) -> list[Said]:
        return list(continue_prompts(prompts, tokenizer, write_likeliest, llama, lambda: stop, new_tokens=6))

    both = said(prompts)
    assert both == [*said(prompts[:1]), *said(prompts[1:])]
    assert all(one.text and one.is_cut for one in both)
    assert len(said(prompts[:1], stop=True)[0].text) < len(both[0].text)


def test_the_end_of_a_turn_ends_what_is_shown(llama, monkeypatch):
    first = int(llama(torch.tensor([[5, 6]])).logits[0, -1].argmax())
    for ends, is_cut in ((None, True), ([first], False)):
        monkeypatch.setattr(llama.generation_config, "eos_token_id", ends)
        (said,) = continue_prompts(
            [(5, 6)], tiny_tokenizer(), write_likeliest, llama, lambda: False, new_tokens=1
        )
        assert said.is_cut is is_cut


def test_a_long_prompt_leaves_space_for_new_tokens():
    """Beyond the last position, a model with learned positions fails."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = tiny_tokenizer()
    sizes = {"n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2, "eos_token_id": 0, "bos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes)).eval()
    assert (
        len(list(continue_prompts([range(5, 37), (5, 6)], tokenizer, write_likeliest, model, lambda: False)))
        == 2
    )


def test_many_examples_are_predicted_a_few_at_a_time():
    batches: list[int] = []

    def forward(pixel_values: torch.Tensor) -> dict[str, torch.Tensor]:
        batches.append(len(pixel_values))
        return {"logits": pixel_values}

    samples = [{"pixel_values": torch.eye(2)[n % 2], "labels": n % 2} for n in range(40)]
    model = torch.nn.Linear(1, 1)
    model.forward = forward  # type: ignore[method-assign]
    said = list(predict_classes(samples, stack, ("a", "b"), model, lambda: False))
    assert [(one.text, one.right) for one in said] == [("a", True), ("b", True)] * 20
    assert max(batches) == BATCH_SIZE


PICKY = (
    "{% for m in messages %}{% if 'rude' in m.content %}{{ raise_exception('be polite') }}{% endif %}"
    "{{ m.content }}{% endfor %}"
)


def test_a_prompt_that_the_template_refuses_is_left_out_with_a_warning(tmp_path):
    prepared = Prepared(
        **dict.fromkeys(("model", "train", "eval", "collator")),
        labels=(),
        save_extras=lambda _folder: None,
        processing_class=tiny_tokenizer(PICKY),
    )
    run, output = RunFolder(tmp_path), OutputOptions(prompts=("A rude word", "A kind word"))
    predictor = choose(RunOptions(task=Task.CHAT, output=output), prepared, tmp_path, Reporter(run))
    assert [example.given for example in predictor.examples] == ["A kind word"]
    [message] = [
        event for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)
    ]
    assert "A rude word" in message.title
    assert "be polite" in message.detail


CHATML = ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant")


@pytest.mark.parametrize(
    ("text", "around", "asked"),
    [
        ("<|im_start|>user\nHi?<|im_end|>\n<|im_start|>assistant\n", CHATML, "Hi?"),
        (
            "<|im_start|>user\nA<|im_end|>\n…<|im_start|>user\nB\nC<|im_end|>\n<|im_start|>assistant\n",
            CHATML,
            "B\nC",
        ),
        ("its beginning was cut<|im_end|>\n<|im_start|>assistant\n", CHATML, ""),
        ("no template", None, ""),
    ],
)
def test_the_last_message_is_found_in_a_conversation(text, around, asked):
    assert last_message(text, around) == asked


def test_of_each_kind_of_mistake_the_surest_comes_before_a_second_of_any(tmp_path):
    prepared = SimpleNamespace(
        labels=("a", "b"),
        eval=[{"labels": label, "pixel_values": 0} for label in (0, 0, 0, 1, 1)],
        picture=None,
        origin=lambda _index: Example(),
    )
    logits = [[0, 3], [0, 2], [9, 0], [1, 0], [0, 5]]
    found = judge(logits, np.array([0, 0, 0, 1, 1]), range(5), prepared, tmp_path)
    assert found.wrong == 3
    shown = [(one.example.expected, one.predicted, one.is_right) for one in found.examples]
    assert shown == [("a", "b", False)] * 2 + [("b", "a", False), ("b", "b", True), ("a", "a", True)]
    assert found.examples[0].chances[0].chance == pytest.approx(0.9526)


def photos(count, *, have_files, side=224):
    """Prepared validation images of class 0, whose decoding is counted."""
    read = []

    class Photos(ImageSet):
        def __getitem__(self, index):
            read.append(index)
            return {"pixel_values": torch.zeros(3, side, side), "labels": 0}

    def origin(index):
        return Example(file=f"/photos/{index}.jpg") if have_files else Example(where=f"row {index}")

    samples = Photos(None, range(count), [0] * count, None)
    prepared = SimpleNamespace(labels=("a", "b"), eval=samples, picture=lambda _sample: b"png", origin=origin)
    return prepared, read


def test_all_mistakes_keep_their_file_and_only_some_are_read_again(tmp_path):
    prepared, read = photos(600, have_files=True)
    logits = np.array([[0, 1]] * 400 + [[1, 0]] * 200)
    found = judge(logits, np.zeros(600, dtype=int), range(600), prepared, tmp_path)
    assert (found.wrong, len(found.examples)) == (400, 600)
    assert {one.example.file for one in found.examples} == {f"/photos/{index}.jpg" for index in range(600)}
    drawn = [one.example.image for one in found.examples if one.example.image]
    of_file = {one.example.image: Path(one.example.file).stem for one in found.examples if one.example.image}
    assert all(image == f"examples/validation-{name}.png" for image, name in of_file.items())
    assert len(drawn) == len(read) == PICTURED + PICTURED // 5
    assert all((tmp_path / image).read_bytes() == b"png" for image in drawn)


@pytest.mark.parametrize(("side", "kept"), [(224, 99 + 49), (32, 600)])
def test_of_images_in_a_table_those_are_kept_that_can_be_drawn(tmp_path, side, kept):
    prepared, _read = photos(600, have_files=False, side=side)
    logits = np.array([[0, 1]] * 400 + [[1, 0]] * 200)
    found = judge(logits, np.zeros(600, dtype=int), range(600), prepared, tmp_path)
    assert len(found.examples) == kept
    assert all(one.example.image and one.example.where for one in found.examples)

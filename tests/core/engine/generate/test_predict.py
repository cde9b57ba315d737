"""The same held-out examples at every evaluation, and a training that isn't touched by it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.data.batches import stack
from core.engine.generate.predict import (
    BATCH_SIZE,
    choose,
    continue_prompts,
    predict_classes,
    predict_word_labels,
    prompt_and_answer,
    tagged_words,
)
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import ConfusionCounted, Evaluated, ExamplesChosen, MessageRaised, Predicted, Said
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert, tiny_tokenizer
from tests.fakes.training import TinyRun, reviews, train, write_reviews


def of_kind(run: TinyRun, kind: type) -> list[Any]:
    return [event for event in run.events if isinstance(event, kind)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predictions")
    save_tiny_bert(folder / "bert", hidden_dropout_prob=0.3)
    write_reviews(folder / "reviews.csv", 40)
    return folder


def trained(folder: Path, name: str, **sections: Any) -> TinyRun:
    return train(
        folder / name,
        **{
            "model": ModelOptions(source=str(folder / "bert")),
            "data": reviews(folder / "reviews.csv", eval_fraction=0.25),
            "training": TrainingOptions(epochs=2.0, learning_rate=1e-2),
            **sections,
        },
    )


@pytest.fixture(scope="module")
def watched(folder):
    return trained(folder, "watched", output=OutputOptions(predictions=5))


def test_the_same_examples_before_training_and_at_each_evaluation(watched):
    [chosen] = of_kind(watched, ExamplesChosen)
    told = of_kind(watched, Predicted)
    assert len(chosen.examples) == 5
    assert [event.step for event in told] == [0, *(event.step for event in of_kind(watched, Evaluated))]
    assert all(len(event.said) == 5 for event in told)
    assert all(example.given and example.expected in ("no", "yes") for example in chosen.examples)


def test_what_was_mixed_up_is_told_at_each_evaluation(watched):
    told = of_kind(watched, ConfusionCounted)
    assert [event.step for event in told] == [event.step for event in of_kind(watched, Evaluated)]
    for confusion, evaluated in zip(told, of_kind(watched, Evaluated), strict=True):
        assert confusion.labels == ("no", "yes")
        right = confusion.counts[0][0] + confusion.counts[1][1]
        assert right / sum(map(sum, confusion.counts)) == pytest.approx(evaluated.metrics["eval_accuracy"])


def test_what_is_said_is_what_the_model_says(watched):
    [chosen] = of_kind(watched, ExamplesChosen)
    last = of_kind(watched, Predicted)[-1]
    trainer = watched.trainer
    encoded = trainer.processing_class(chosen.examples[0].given, return_tensors="pt")
    with torch.no_grad():
        chances = trainer.model.eval()(**encoded)["logits"].softmax(-1)[0]
    label = trainer.model.config.id2label[int(chances.argmax())]
    assert last.said[0].text == label
    assert last.said[0].sure == pytest.approx(float(chances.max()), abs=1e-5)
    assert last.said[0].right == (label == chosen.examples[0].expected)


def test_asking_changes_no_bit_of_the_training(folder, watched):
    """With dropout, a single random number more would show."""
    unwatched = trained(folder, "unwatched", output=OutputOptions(predictions=0))
    assert of_kind(unwatched, Predicted) == []
    assert [step.loss for step in unwatched.steps] == [step.loss for step in watched.steps]


def test_a_model_that_can_t_be_asked_is_told_of_and_trained(folder, monkeypatch):
    def fail(*_args: Any) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr("core.engine.generate.predict.predict_classes", fail)
    run = trained(folder, "failing", output=OutputOptions(predictions=2))
    assert run.status == 0
    assert "no such operator" in run.messages["no-predictions"].detail
    assert of_kind(run, Predicted) == []


def test_images_are_kept_as_files(tmp_path):
    run = train(
        tmp_path / "digits",
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source="torchvision:squeezenet1_0", pretrained=False),
        data=DataOptions(train="builtin:digits", image_size=32, max_train_samples=40),
        output=OutputOptions(predictions=3),
    )
    [chosen] = of_kind(run, ExamplesChosen)
    files = [(run.run.path / example.image).read_bytes() for example in chosen.examples]
    assert all(content.startswith(b"\x89PNG") for content in files)
    assert len(files) == len(set(files)) == 3


def test_words_with_their_labels():
    tokenizer = tiny_tokenizer()
    ids = tokenizer("hello there Paris")["input_ids"]
    starts = [tokenizer.decode([token]).startswith((" ", "h")) for token in ids]
    labels = [1 if start else -100 for start in starts]
    sample = {"input_ids": ids, "labels": labels}
    said = tagged_words(sample, [1 if start else 0 for start in starts], ("O", "PLACE"), tokenizer)
    assert said == "hello [PLACE], there [PLACE], Paris [PLACE]"
    assert tagged_words(sample, [0] * len(ids), ("O", "PLACE"), tokenizer) == "–"


def test_only_labelled_words_count_as_right():
    tokenizer = tiny_tokenizer()
    ids = tokenizer("hello Paris")["input_ids"]
    sample = {"input_ids": ids, "labels": [0, *[-100] * (len(ids) - 1)]}

    def say(guesses: list[int]) -> bool | None:
        logits = torch.nn.functional.one_hot(torch.tensor([guesses]), 2).float()
        model = torch.nn.Linear(1, 1)
        model.forward = lambda **_: {"logits": logits}  # type: ignore[method-assign]
        (said,) = predict_word_labels([sample], lambda _: {}, ("O", "X"), tokenizer, model, lambda: False)
        return said.right

    assert say([0, *[1] * (len(ids) - 1)]) is True
    assert say([1] * len(ids)) is False


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


def test_prompts_of_different_lengths_in_a_batch_are_continued_as_alone(llama):
    tokenizer = tiny_tokenizer()
    prompts = [tokenizer(text)["input_ids"] for text in ("hello", "What is the capital of France?")]

    def said(prompts: list[list[int]], *, stop: bool = False) -> list[Said]:
        return list(continue_prompts(prompts, tokenizer, llama, lambda: stop, new_tokens=6))

    assert said(prompts) == [*said(prompts[:1]), *said(prompts[1:])]
    assert all(one.text and one.is_cut for one in said(prompts))
    assert len(said(prompts[:1], stop=True)[0].text) < len(said(prompts)[0].text)


def test_the_end_of_a_turn_ends_what_is_shown(llama, monkeypatch):
    first = int(llama(torch.tensor([[5, 6]])).logits[0, -1].argmax())
    for ends, is_cut in ((None, True), ([first], False)):
        monkeypatch.setattr(llama.generation_config, "eos_token_id", ends)
        (said,) = continue_prompts([(5, 6)], tiny_tokenizer(), llama, lambda: False, new_tokens=1)
        assert said.is_cut is is_cut


def test_a_long_prompt_leaves_room_for_new_tokens():
    """Beyond the last position, a model with learned positions fails."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = tiny_tokenizer()
    ends = {"bos_token_id": tokenizer.eos_token_id, "eos_token_id": tokenizer.eos_token_id}
    sizes = {"n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2, **ends}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes)).eval()
    assert len(list(continue_prompts([range(5, 37), (5, 6)], tokenizer, model, lambda: False))) == 2


def test_many_examples_are_asked_about_a_few_at_a_time():
    class Widest(torch.nn.Module):
        """Answers with what it reads, and remembers its largest batch."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.most = 0

        def forward(self, pixel_values: torch.Tensor) -> dict[str, torch.Tensor]:
            self.most = max(self.most, len(pixel_values))
            return {"logits": pixel_values}

    samples = [{"pixel_values": torch.eye(2)[n % 2], "labels": n % 2} for n in range(40)]
    model = Widest()
    said = list(predict_classes(samples, stack, ("a", "b"), model, lambda: False))
    assert [one.text for one in said] == ["a", "b"] * 20
    assert all(one.right for one in said)
    assert model.most == BATCH_SIZE


def test_prompts_of_ones_own_are_gone_on_from(tmp_path):
    (tmp_path / "text.txt").write_text("The cat sat on the mat. The dog sat on the log.\n" * 60)
    run = train(
        tmp_path / "run",
        task=Task.CAUSAL_LM,
        model=ModelOptions(source="scratch:llama-tiny", vocabulary=300),
        data=DataOptions(train=str(tmp_path / "text.txt"), max_length=16, eval_fraction=0.3),
        training=TrainingOptions(max_steps=2),
        output=OutputOptions(predictions=2, prompts=("The cat, and then", "A dog")),
    )
    [chosen] = of_kind(run, ExamplesChosen)
    assert [example.given for example in chosen.examples if example.is_own] == ["The cat, and then", "A dog"]
    assert [example.is_own for example in chosen.examples] == [False, False, True, True]
    assert all(len(told.said) == 4 for told in of_kind(run, Predicted))


PICKY = """{% for message in messages %}{% if 'rude' in message['content'] %}{{ raise_exception('be polite') }}\
{% endif %}<{{ message['role'] }}>{{ message['content'] }}{% endfor %}"""


def test_a_prompt_that_the_template_refuses_is_left_out_with_a_warning(tmp_path):
    prepared = Prepared(
        model=None,
        train=None,
        eval=None,
        collator=None,
        labels=(),
        save_extras=lambda _folder: None,
        processing_class=tiny_tokenizer(PICKY),
    )
    output = OutputOptions(prompts=("A rude word", "A kind word"))
    run = RunFolder(tmp_path)
    predictor = choose(RunOptions(task=Task.CHAT, output=output), prepared, tmp_path, Reporter(run))
    assert [example.given for example in predictor.examples] == ["A kind word"]
    [told] = [event for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)]
    assert "A rude word" in told.title
    assert "be polite" in told.detail

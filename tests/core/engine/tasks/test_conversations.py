"""Chat and preferences: what is learned and what is not, and what a run of them leaves behind."""

import json
import math
import shutil
import socket
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.base.errors import DataError
from core.engine.data import NO_LABEL
from core.engine.data.chat_samples import kto_weights, unpaired
from core.engine.reporter import Reporter
from core.engine.training.build import prepare
from core.options import RunOptions
from core.options.choices import Method, Optimizer, Padding, Precision, PreferenceLoss, Task, Toggle
from core.runs.events import Evaluated, Event, MessageRaised
from tests.fakes.models import instructions, pairs, rated, save_tiny_talker, write_json
from tests.fakes.runs import make_folder
from tests.fakes.training import ENGINES, TinyRun, built, inputs_of, run_options, train

ROWS = 24
KTO, ORPO = PreferenceLoss.KTO, PreferenceLoss.ORPO


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model without a chat template, questions with answers of uneven length, and pairs of answers."""
    folder = tmp_path_factory.mktemp("conversations")
    save_tiny_talker(folder / "writer")
    write_json(folder / "chat.json", instructions(ROWS))
    write_json(folder / "preference.json", pairs(ROWS))
    return folder


def usual(folder: Path, task: Task) -> dict[str, Any]:
    data = {"source": folder / "writer", "train": folder / f"{task}.json", "max_length": 128}
    return {
        "task": task,
        **data,
        "method": Method.LORA,
        "batch_size": 4,
        "keep_checkpoints": 0,
        "predictions": 0,
    }


def chosen(folder: Path, task: Task = Task.CHAT, **changes: Any) -> RunOptions:
    return run_options(**{**usual(folder, task), **changes})


@pytest.fixture
def learned(folder, tmp_path, monkeypatch):
    """Trains with LoRA, and makes sure that nothing is sent to anybody."""

    def run(task: Task, **changes: Any) -> TinyRun:
        called: list[Any] = []
        for name in ("HF_HUB_DISABLE_TELEMETRY", "CI"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(socket.socket, "connect", lambda _self, where: called.append(where))
        batches = {"batch_size": 3, "gradient_accumulation_steps": 2, "group_by_length": Toggle.ON}
        more = {"eval_fraction": 0.2, "epochs": 2.0, "keep_checkpoints": 1, **batches, **changes}
        found = train(tmp_path / "run", **{**usual(folder, task), **more})
        assert found.status == 0, found.messages
        assert found.steps[-1].loss < found.steps[0].loss
        assert found.what_ran.effective_batch == 6, "samples or pairs, not rows"
        files = {path.name for path in found.run.path.rglob("*") if path.is_file()}
        assert not files & {"README.md", "training_args.bin"}
        assert called == []
        return found

    return run


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize(
    ("rows", "title"),
    [
        (None, "chat.json has no examples to train on"),
        ("synthetic:10x65", "Random texts of 65 tokens are too"),
    ],
)
def test_rows_beyond_the_models_positions_end_a_run_with_a_remedy(folder, tmp_path, rows, title, backend):
    source = save_tiny_talker(tmp_path / "short", max_position_embeddings=24)
    data = {"source": source, "train": rows or folder / "chat.json", "backend": backend}
    run = train(tmp_path / "run", **{**usual(folder, Task.CHAT), **data})
    message = run.messages["failed"]
    assert (run.status, run.steps) == (1, [])
    assert message.title.startswith(title)
    assert "24" in message.detail
    assert message.fixes


def metrics_of(run: TinyRun) -> dict[str, float | None]:
    return [event for event in run.events if isinstance(event, Evaluated)][-1].metrics


def test_a_chat_run_learns_and_saves_a_model_that_can_chat(learned):
    run = learned(Task.CHAT)
    assert all(step.grad_norm and step.tokens for step in run.steps)
    ran = run.what_ran
    assert (ran.attention, ran.padded_to, ran.sampling) == (
        "sdpa",
        "each batch's longest",
        "grouped by length",
    )
    assert ran.adapter.startswith("LoRA")
    tokenizer = AutoTokenizer.from_pretrained(run.run.model)
    rendered = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert rendered == "<|im_start|>user\nhi<|im_end|>\n"
    generation = json.loads((run.run.model / "generation_config.json").read_text())
    assert generation["eos_token_id"] == tokenizer.eos_token_id

    # the metrics are those of a token of the held-out answers, row by row as transformers computes them
    model, total, right, tokens = run.trainer.model.eval(), 0.0, 0, 0
    for sample in run.trainer.eval_dataset:
        ids, labels = (torch.tensor([sample[name]]) for name in ("input_ids", "labels"))
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, :-1]
        is_learned = labels[0, 1:] != NO_LABEL
        expected = labels[0, 1:][is_learned]
        total += torch.nn.functional.cross_entropy(logits[is_learned], expected, reduction="sum").item()
        right += int((logits.argmax(-1)[is_learned] == expected).sum())
        tokens += len(expected)
    assert metrics_of(run) == {
        "eval_loss": pytest.approx(total / tokens, rel=1e-4),
        "eval_perplexity": pytest.approx(math.exp(total / tokens), rel=1e-3),
        "eval_token_accuracy": pytest.approx(right / tokens),
    }


def test_a_preference_run_begins_at_chance_learns_and_leaves_one_adapter(learned):
    run = learned(Task.PREFERENCE, beta=0.3, lora_dropout=0.25)
    assert run.steps[0].loss == pytest.approx(math.log(2), rel=1e-4), "nothing has moved yet"
    assert [step.samples for step in run.steps] == [6, 6, 6, 1] * 2
    assert len([*run.run.model.rglob("adapter_model.safetensors")]) == 1
    assert set(run.trainer.model.peft_config) == {"default"}
    layers = run.trainer.model.named_modules()
    rates = {("lora_dropout" in name, part.p) for name, part in layers if isinstance(part, torch.nn.Dropout)}
    assert (True, 0.25) in rates
    assert rates <= {(True, 0.25), (False, 0.0)}, "only LoRA's own dropout is left"

    # the metrics are those of DPO's paper (arXiv 2305.18290, equation 7), pair by pair
    model, margins = run.trainer.model.eval(), []
    for pair in run.trainer.eval_dataset:
        rewards = []
        for answer in (pair["chosen_ids"], pair["rejected_ids"]):
            now = likelihood(model, pair["prompt_ids"], answer)
            with model.disable_adapter():
                rewards.append(0.3 * (now - likelihood(model, pair["prompt_ids"], answer)))
        margins.append(rewards[0] - rewards[1])
    count = len(margins)
    assert metrics_of(run) == {
        "eval_loss": pytest.approx(
            sum(math.log1p(math.exp(-margin)) for margin in margins) / count, rel=1e-3
        ),
        "eval_reward_accuracy": pytest.approx(sum(margin > 0 for margin in margins) / count),
        "eval_reward_margin": pytest.approx(sum(margins) / count, rel=1e-3),
    }


# --- KTO and ORPO


def test_a_run_with_single_answers_learns_which_side_each_is_on(learned, folder):
    """Of those that are trained on 5 are liked and 14 are not: a liked one counts 2.8 times as much."""
    answers = write_json(folder / "rated.json", rated(ROWS))
    run = learned(Task.PREFERENCE, train=answers, preference_loss=KTO, beta=0.3, learning_rate=2e-3)
    assert run.steps[0].loss == pytest.approx(0.5 * (1 * 2.8 + 5) / 6, rel=1e-4), "half of each weight"
    assert [step.samples for step in run.steps] == [6, 6, 6, 1] * 2
    assert set(run.trainer.model.peft_config) == {"default"}
    assert run.what_ran.preference_loss == "KTO"
    assert any("5 answers are liked, 14 are not" in text for text in titles(run))

    # the metrics are those of KTO's paper (arXiv 2402.01306, equations 7 and 8), answer by answer
    model, rewards = run.trainer.model.eval(), []
    for row in run.trainer.eval_dataset:
        now = likelihood(model, row["prompt_ids"], row["completion_ids"])
        with model.disable_adapter():
            rewards.append(
                (row["label"], 0.3 * (now - likelihood(model, row["prompt_ids"], row["completion_ids"])))
            )
    of_liked, of_others = ([reward for liked, reward in rewards if liked is side] for side in (True, False))
    metrics = metrics_of(run)
    assert set(metrics) == {f"eval_{name}" for name in ("loss", "reward_accuracy", "reward_margin", "kl")}
    margin = sum(of_liked) / len(of_liked) - sum(of_others) / len(of_others)
    assert metrics["eval_reward_margin"] == pytest.approx(margin, rel=1e-3)
    share = max(len(of_liked), len(of_others)) / len(rewards)
    baseline = [event for event in run.events if isinstance(event, Evaluated)][-1].baseline
    assert baseline == pytest.approx(share), "of rewarding all alike"
    assert 0 <= metrics["eval_reward_accuracy"] <= 1


def test_an_orpo_run_has_no_reference_and_says_what_its_metrics_say(learned):
    run = learned(Task.PREFERENCE, preference_loss=ORPO, beta=0.5, learning_rate=2e-3)
    assert [step.samples for step in run.steps] == [6, 6, 6, 1] * 2
    assert getattr(run.trainer, "ref_model", None) is None
    assert run.what_ran.preference_loss == "ORPO"
    model, margins = run.trainer.model.eval(), []
    for pair in run.trainer.eval_dataset:
        likely = [
            likelihood(model, pair["prompt_ids"], answer) / len(answer)
            for answer in (pair["chosen_ids"], pair["rejected_ids"])
        ]
        margins.append(0.5 * (likely[0] - likely[1]))
    metrics = metrics_of(run)
    assert metrics["eval_reward_margin"] == pytest.approx(sum(margins) / len(margins), rel=1e-3)
    right = sum(margin > 0 for margin in margins)
    assert metrics["eval_reward_accuracy"] == pytest.approx(right / len(margins))


def titles(run: TinyRun) -> list[str]:
    return [event.title for event in run.events if isinstance(event, MessageRaised)]


def moved(trainer: Any) -> Any:
    """The model after a step of its own, so that it differs from its reference."""
    torch.manual_seed(1)
    for weight in trainer.model.parameters():
        weight.data += 0.02 * torch.randn_like(weight)
    return trainer.model.train()


def like(model: Any, folder: Path) -> Any:
    """Another model with the same weights, which no trainer has changed."""
    other = AutoModelForCausalLM.from_pretrained(folder / "writer")
    other.load_state_dict(model.state_dict())
    return other.train()


@pytest.mark.parametrize("rows", [rated(5), pairs(3)], ids=["rated", "pairs"])
def test_the_loss_of_kto_is_that_of_trl(folder, tmp_path, rows):
    from datasets import Dataset
    from trl import KTOConfig, KTOTrainer

    class Tokenized(KTOTrainer):
        def _prepare_dataset(self, dataset: Any, *_rest: Any) -> Any:
            return dataset

    data = write_json(tmp_path / "rows.json", rows)
    trainer = built(
        chosen(folder, Task.PREFERENCE, train=data, preference_loss=KTO, method=Method.FULL), tmp_path
    )
    batch = trainer.data_collator([trainer.train_dataset[row] for row in range(len(trainer.train_dataset))])
    model = moved(trainer)
    liked, others = trainer._weights
    settings = KTOConfig(
        str(tmp_path), use_cpu=True, bf16=False, report_to="none", beta=0.1, disable_dropout=False
    )
    settings.desirable_weight, settings.undesirable_weight = liked, others
    reference = AutoModelForCausalLM.from_pretrained(folder / "writer")
    theirs = Tokenized(
        like(model, folder),
        reference,
        settings,
        train_dataset=Dataset.from_list([dict(trainer.train_dataset[0])]),
        processing_class=trainer.processing_class,
    )
    expected = theirs.compute_loss(theirs.model.train(), dict(batch))
    loss = trainer.compute_loss(model, dict(batch))
    torch.testing.assert_close(loss, expected)
    for mine, other in zip(
        *(gradients(one, of) for one, of in ((loss, model), (expected, theirs.model))), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def gradients(loss: torch.Tensor, model: Any) -> list[torch.Tensor]:
    return list(
        torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True)
    )


def test_the_loss_of_orpo_is_that_of_trl(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    from trl.experimental.orpo import ORPOTrainer

    options = chosen(folder, Task.PREFERENCE, preference_loss=ORPO, method=Method.FULL, beta=0.25)
    trainer = built(options, tmp_path)
    batch = trainer.data_collator([trainer.train_dataset[row] for row in range(5)])
    model, given = moved(trainer), {}
    for name, half in (("chosen", slice(0, 5)), ("rejected", slice(5, 10))):
        ids, mask, answer = (batch[key][half] for key in ("input_ids", "attention_mask", "completion_mask"))
        given |= {f"{name}_input_ids": ids, f"{name}_attention_mask": mask}
        given[f"{name}_labels"] = ids.masked_fill(answer == 0, NO_LABEL)
    theirs = ORPOTrainer.__new__(ORPOTrainer)
    theirs.beta, theirs.is_encoder_decoder, theirs.aux_loss_enabled, theirs.padding_value = (
        0.25,
        False,
        False,
        0,
    )
    theirs.accelerator = trainer.accelerator
    other = like(model, folder)
    expected, _figures = theirs.get_batch_loss_metrics(other, given)
    loss = trainer.compute_loss(model, dict(batch))
    torch.testing.assert_close(loss, expected)
    for mine, its in zip(
        *(gradients(one, of) for one, of in ((loss, model), (expected, other))), strict=True
    ):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("liked", "others", "weights"),
    [
        (10, 10, (1.0, 1.0)),
        (12, 10, (1.0, 1.0)),
        (10, 100, (10.0, 1.0)),
        (100, 10, (1.0, 7.5)),
        (3, 0, (1.0, 1.0)),
    ],
)
def test_the_rarer_answers_weigh_more(liked, others, weights):
    assert kto_weights(liked, others) == pytest.approx(weights)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (rated(8), "In the loss, a liked answer counts 1.67 times, one that isn't 1.00 times."),
        (pairs(8), "Each counts once in the loss."),
    ],
)
def test_how_much_answers_count_is_told_where_it_differs(folder, tmp_path, rows, said):
    data, reporter = write_json(tmp_path / "rows.json", rows), Reporter(None)
    prepare(chosen(folder, Task.PREFERENCE, train=data, preference_loss=KTO, eval_fraction=0.0), reporter)
    assert reporter.status.messages["ratings"].detail == said


@pytest.mark.parametrize("loss", [KTO, ORPO])
@pytest.mark.parametrize("method", [Method.LORA, Method.QLORA, Method.FULL])
def test_each_method_learns_with_each_loss_in_bf16_and_recomputed(folder, tmp_path, loss, method):
    if method is Method.QLORA:
        pytest.importorskip("bitsandbytes")
    half = {"precision": Precision.BF16, "activation_checkpointing": True, "learning_rate": 1e-3}
    trainer = built(chosen(folder, Task.PREFERENCE, method=method, preference_loss=loss, **half), tmp_path)
    trainer.args.num_train_epochs = 3
    before = trainer.evaluate(trainer.train_dataset)["eval_loss"]
    trainer.train()
    assert trainer.evaluate(trainer.train_dataset)["eval_loss"] < before
    assert (trainer.step.first_batch.recomputed, trainer.step.first_batch.autocast_dtype) == (2, "bfloat16")
    copies = [getattr(trainer, "ref_model", None)]
    assert any(copies) is (loss is KTO and method is Method.FULL)


def likelihood(model: Any, prompt: list[int], answer: list[int]) -> float:
    """The logarithm of an answer's probability."""
    ids = torch.tensor([[*prompt, *answer]])
    with torch.no_grad():
        scores = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    return scores.gather(1, ids[0, 1:, None])[len(prompt) - 1 :].sum().item()


@pytest.mark.parametrize(
    ("task", "packing"), [(Task.CHAT, False), (Task.CHAT, True), (Task.PREFERENCE, False)]
)
def test_the_model_learns_answers_and_nothing_else(folder, tmp_path, task, packing):
    trainer = built(chosen(folder, task, packing=packing), tmp_path)
    seen = inputs_of(trainer)
    trainer.train()
    decode, texts = trainer.processing_class.decode, list[tuple[bool, str]]()
    for batch in seen:
        for row, labels in zip(batch["input_ids"], batch["labels"], strict=True):
            is_learned = labels != NO_LABEL
            assert torch.equal(labels[is_learned], row[is_learned])
            stretches = groupby(range(len(row)), key=is_learned.tolist().__getitem__)
            texts += [(learned, decode(row[list(places)])) for learned, places in stretches]
    expected = [row["output"] for row in instructions(ROWS)]
    if task is Task.PREFERENCE:
        expected = [pair[side]["value"] for pair in pairs(ROWS) for side in ("chosen", "rejected")]
    answers = {text for learned, text in texts if learned}
    assert answers == {f"{answer}<|im_end|><|endoftext|>" for answer in expected}
    prompts = [text.replace("<|endoftext|>", "") for learned, text in texts if not learned]
    wrong = {
        prompt for prompt in prompts if prompt.strip() and not prompt.endswith("<|im_start|>assistant\n")
    }
    assert wrong == set()
    assert ("position_ids" in seen[0]) is packing is not ("attention_mask" in seen[0])


def test_a_packed_conversation_has_the_logits_that_it_has_alone(folder, tmp_path):
    trainer = built(chosen(folder, packing=True), tmp_path)
    batch = next(iter(trainer.get_train_dataloader()))
    assert len(trainer.train_dataset) < ROWS
    starts = (batch["position_ids"] == 0).nonzero().tolist()
    row, place = next(start for start in starts if start[1] > 0)
    end = min((other for index, other in starts if index == row and other > place), default=None)
    stretch, model = batch["input_ids"][row, place:end], trainer.model.eval()
    with torch.no_grad():
        together = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"]).logits
        alone = model(input_ids=stretch[None]).logits[0]
    torch.testing.assert_close(together[row, place : place + len(stretch)], alone, rtol=1e-4, atol=1e-5)


def test_a_model_that_sees_across_packed_conversations_is_noticed(folder):
    from core.engine.models.text import leaks_between_packed

    class Running(torch.nn.Module):
        """Adds up all that came before, wherever a conversation begins."""

        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(10, 4)

        def forward(self, input_ids: torch.Tensor, **_more: Any) -> Any:
            return SimpleNamespace(logits=self.table(input_ids).cumsum(1))

    assert leaks_between_packed(Running())
    model = AutoModelForCausalLM.from_pretrained(folder / "writer").train()
    assert not leaks_between_packed(model)
    assert model.training


@pytest.mark.parametrize("task", [Task.CHAT, Task.PREFERENCE])
def test_accumulated_batches_take_the_step_of_one_large_batch(folder, tmp_path, task):
    """Answers differ in length, so that a mean of means would be another."""
    ends = []
    plain = {"max_steps": 2, "optimizer": Optimizer.SGD, "max_grad_norm": 0.0, "lora_dropout": 0.0}
    for size, steps in ((8, 1), (2, 4)):
        batches = {"batch_size": size, "gradient_accumulation_steps": steps}
        trainer = built(chosen(folder, task, **batches, **plain), tmp_path)
        trainer.train()
        ends.append({name: weight.clone() for name, weight in trainer.model.named_parameters()})
    for name, weight in ends[0].items():
        torch.testing.assert_close(ends[1][name], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("task", "method"),
    [(Task.CHAT, Method.LORA), (Task.CHAT, Method.QLORA), (Task.PREFERENCE, Method.QLORA)],
)
def test_adapters_learn_in_fp32_beside_a_recomputed_model_in_bf16(folder, tmp_path, task, method):
    if method is Method.QLORA:
        pytest.importorskip("bitsandbytes")
    half = {"precision": Precision.BF16, "activation_checkpointing": True}
    trainer = built(chosen(folder, task, method=method, **half), tmp_path)
    before = trainer.evaluate(trainer.train_dataset)["eval_loss"]
    trainer.train()
    assert trainer.evaluate(trainer.train_dataset)["eval_loss"] < before
    assert (trainer.step.first_batch.recomputed, trainer.step.first_batch.autocast_dtype) == (2, "bfloat16")
    learning = [weight for weight in trainer.model.parameters() if weight.requires_grad]
    assert {weight.dtype for weight in learning} == {torch.float32}


def test_where_all_weights_move_the_reference_is_a_copy_that_stays(folder, tmp_path):
    trainer = built(chosen(folder, Task.PREFERENCE, method=Method.FULL), tmp_path)
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    trainer.train()
    reference, moved = trainer.ref_model.state_dict(), trainer.model.state_dict()
    assert all(torch.equal(reference[name], weight) for name, weight in before.items())
    assert any(not torch.equal(moved[name], weight) for name, weight in before.items())


def test_rows_have_the_fixed_length_that_was_chosen(folder):
    found = prepare(chosen(folder, padding=Padding.FIXED), Reporter(None))
    batch = found.collator([found.train[0], found.train[1]])
    assert {tuple(tensor.shape) for tensor in batch.values()} == {(2, 128)}
    assert batch["attention_mask"].sum() == sum(len(found.train[row]["input_ids"]) for row in (0, 1))


def test_a_model_from_scratch_is_timed_on_random_conversations(folder):
    scratch = {"source": "scratch:llama-tiny", "vocabulary": 320, "method": Method.FULL}
    found = prepare(chosen(folder, train="synthetic:4x32", **scratch), Reporter(None))
    tokenizer = found.processing_class
    assert tokenizer.tokenize("Count") == list("Count"), "bytes alone"
    assert tokenizer.decode(tokenizer("<|im_start|>")["input_ids"]) == "<|im_start|>", "a token of its own"
    assert [len(row["input_ids"]) for row in found.train] == [32] * 4
    assert found.model.generation_config.eos_token_id == tokenizer.eos_token_id


# --- Data that can't be used


def refusal(folder: Path, **changes: Any) -> list[Any]:
    with pytest.raises(DataError) as raised:
        prepare(chosen(folder, **changes), Reporter(None))
    return [fix.changes or fix.label for fix in raised.value.fixes]


def test_answers_that_are_cut_off_have_a_remedy(folder, tmp_path):
    reporter, events = Reporter(None), list[Event]()
    reporter.listeners.append(events.append)
    prepare(chosen(folder, max_length=60), reporter)
    messages = [event for event in events if isinstance(event, MessageRaised)]
    [message] = [message for message in messages if "truncated at 60 tokens" in message.title]
    assert [fix.changes for fix in message.fixes] == [{"data.max_length": 128}]
    save_tiny_talker(tmp_path / "writer", max_position_embeddings=16)
    assert refusal(tmp_path, train=folder / "chat.json") == ["Choose a model with a longer context"]


def test_no_longer_texts_are_proposed_than_a_model_from_scratch_was_trained_on(folder, tmp_path):
    options = run_options(Task.CAUSAL_LM, source="scratch:llama-tiny", max_length=60)
    shutil.copytree(folder / "writer", make_folder(tmp_path / "past", options).model)
    past = f"run:{tmp_path / 'past'}"
    reporter, events = Reporter(None), list[Event]()
    reporter.listeners.append(events.append)
    prepare(chosen(folder, source=past, max_length=50), reporter)
    messages = [event for event in events if isinstance(event, MessageRaised)]
    [message] = [message for message in messages if "truncated at 50 tokens" in message.title]
    assert [fix.changes for fix in message.fixes] == [{"data.max_length": 60}]
    assert message.detail.endswith("The model was trained on texts of at most 60 tokens.")
    assert refusal(folder, source=past, max_length=16) == ["Choose a model with a longer context"]
    assert refusal(folder, max_length=16) == [{"data.max_length": 128}]


def test_evaluation_data_of_another_kind_is_refused(folder, tmp_path):
    other = write_json(tmp_path / "other.json", [{"number": row} for row in range(4)])
    assert {"data.eval": None} in refusal(folder, eval=other)


def test_the_answers_of_a_pair_are_no_neighbours_whose_kl_would_be_that_of_the_prompts_own_answer():
    pairs = Dataset.from_dict(
        {"prompt_ids": [[1], [2]], "chosen_ids": [[10], [20]], "rejected_ids": [[11], [21]]}
    )
    single = unpaired(pairs)
    assert single["completion_ids"][:] == [[10], [20], [11], [21]]
    assert single["label"][:] == [True, True, False, False]

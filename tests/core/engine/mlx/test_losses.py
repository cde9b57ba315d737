"""The losses of MLX against the torch engine's own trainers: same weights, same batch, same figures and gradients."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

mx = pytest.importorskip("mlx.core")

from mlx import nn  # noqa: E402
from mlx.utils import tree_flatten, tree_map  # noqa: E402
from mlx_lm.tuner.trainer import grad_checkpoint  # noqa: E402
from mlx_lm.tuner.utils import linear_to_lora_layers  # noqa: E402
from mlx_lm.utils import load_model  # noqa: E402

from core.engine.data import NO_LABEL  # noqa: E402
from core.engine.mlx.losses import (  # noqa: E402
    ChatObjective,
    OddsRatioObjective,
    PreferenceObjective,
    RatedObjective,
    TextObjective,
    objective_of,
    without_adapter,
)
from core.engine.tasks.metrics import Means  # noqa: E402
from core.options.choices import Method, PreferenceLoss, Task  # noqa: E402
from tests.fakes.models import instructions, pairs, rated, save_tiny_talker, write_json, write_text  # noqa: E402
from tests.fakes.training import built, run_options  # noqa: E402

FULL = {"method": Method.FULL}
LORA = {"method": Method.LORA, "lora_dropout": 0.0}
DORA = {**LORA, "lora_dora": True}
BETA, WEIGHTS = 0.3, (2.8, 1.0)
ADAPTED = {".lora_A.default.weight": ".lora_a", ".lora_B.default.weight": ".lora_b"}
ADAPTED |= {".lora_magnitude_vector.default.weight": ".m"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and data of each kind."""
    folder = tmp_path_factory.mktemp("losses")
    save_tiny_talker(folder / "writer")
    write_text(folder / "text.txt")
    write_json(folder / "chat.json", instructions())
    write_json(folder / "pairs.json", pairs())
    write_json(folder / "rated.json", rated())
    return folder


class Both:
    """A run's model, moved away from its reference, in torch's trainer and in MLX."""

    def __init__(
        self, folder: Path, own: Path, task: Task, data: str, method: dict[str, Any], **changes: Any
    ):
        asked = {"train": folder / data, "max_length": 128, "beta": BETA, **method, **changes}
        self.trainer = built(run_options(task=task, source=folder / "writer", **asked), own)
        torch.manual_seed(7)
        for weight in self.trainer.model.parameters():
            if weight.requires_grad:
                weight.data += 0.1 * torch.randn_like(weight)
        # torch gives the input of its padding, which ends texts here, no gradient
        self.trainer.model.get_input_embeddings().padding_idx = None
        self.adapted = method != FULL
        self.reference = None
        if self.adapted:
            self.model = load_model(folder / "writer")[0]
            self.adapt(method)
        else:
            self.trainer.model.save_pretrained(own / "moved")
            self.model, self.reference = (load_model(path)[0] for path in (own / "moved", folder / "writer"))

    def adapt(self, method: dict[str, Any]) -> None:
        of_torch = self.of_torch({name: part.data for name, part in self.trainer.model.named_parameters()})
        layers = {name.rpartition(".")[0].split(".", 3)[3] for name in of_torch}
        peft = self.trainer.model.peft_config["default"]
        sizes = {"rank": peft.r, "scale": peft.lora_alpha / peft.r, "dropout": 0.0, "keys": layers}
        self.model.freeze()
        linear_to_lora_layers(self.model, 2, sizes, use_dora="lora_dora" in method)
        self.model.load_weights([(name, mx.array(value)) for name, value in of_torch.items()], strict=False)

    def of_torch(self, named: dict[str, Any]) -> dict[str, Any]:
        """By the names and in the form of MLX: of an adapter its own weights only."""
        if not self.adapted:
            return {name: value.numpy() for name, value in named.items()}
        return {
            name.removeprefix("base_model.model.").replace(ending, own): value.numpy().T
            for name, value in named.items()
            for ending, own in ADAPTED.items()
            if name.endswith(ending)
        }

    def collate(self, *samples: dict[str, Any]) -> dict[str, torch.Tensor]:
        return self.trainer.data_collator(list(samples))

    def check(self, objective: Any, batch: dict[str, torch.Tensor]) -> dict[str, float]:
        """Hold loss, figures and gradients against torch's; returns the metrics."""
        trainer, model = self.trainer, self.trainer.model
        trainer.means = Means()
        with torch.no_grad():
            trainer.compute_loss(model.eval(), dict(batch))
        model.zero_grad()
        loss = trainer.compute_loss(model.train(), dict(batch))
        loss.backward()
        named = {name: part.grad for name, part in model.named_parameters() if part.grad is not None}
        expected = self.of_torch(named)

        (total, figures), found = nn.value_and_grad(self.model, partial(objective.total, self.model))(
            *objective.arrays(batch)
        )
        count = objective.count(batch)
        means = {name: value.item() / count for name, value in {"loss": total, **figures}.items()}
        assert means["loss"] == pytest.approx(loss.item(), abs=1e-5)
        metrics = objective.metrics(means, getattr(trainer, "_held_out", None))
        assert metrics == pytest.approx(trainer.eval_metrics(), rel=1e-5, abs=1e-4)
        assert objective.rows(batch) == trainer.count_samples(batch)
        gradients = {name: np.array(value) / count for name, value in tree_flatten(found)}
        assert gradients.keys() == expected.keys()
        for name, gradient in gradients.items():
            assert np.abs(expected[name]).max() > 0, name
            np.testing.assert_allclose(gradient, expected[name], atol=1e-5, rtol=1e-3, err_msg=name)
        return metrics


# --- Texts and chats


def test_a_text_s_loss_and_perplexity_are_torch_s(folder, tmp_path):
    both = Both(folder, tmp_path, Task.CAUSAL_LM, "text.txt", FULL, max_length=32, eval_fraction=0.2)
    batch = both.collate(*(both.trainer.train_dataset[row] for row in range(3)))
    metrics = both.check(TextObjective(), batch)
    assert {"loss", "perplexity", "bits_per_character"} < metrics.keys()
    assert TextObjective().count(batch) == 3 * 31 == both.trainer._get_num_items_in_batch([batch], "cpu")


@pytest.mark.parametrize("method", [FULL, LORA, DORA])
def test_a_chat_s_loss_and_accuracy_are_those_of_the_tokens_with_a_label(folder, tmp_path, method):
    both = Both(folder, tmp_path, Task.CHAT, "chat.json", method)
    sample, longer = (both.trainer.train_dataset[row] for row in (0, 5))
    ids = sample["input_ids"]
    first = {"input_ids": ids, "labels": ids}
    nothing = {"input_ids": ids[:9], "labels": [NO_LABEL] * 9}
    likeliest = both.model(mx.array([ids[:4]])).argmax(axis=-1)[0, 3].item()
    right = {"input_ids": [*ids[:4], likeliest], "labels": [NO_LABEL] * 4 + [likeliest]}
    batch = both.collate(sample, longer, first, nothing, right)
    assert (batch["attention_mask"].sum(dim=1) < batch["attention_mask"].shape[1]).sum() == 4, "padded"
    metrics = both.check(ChatObjective(), batch)
    assert 0 < metrics["token_accuracy"] < 1
    assert ChatObjective().count(batch) == both.trainer._get_num_items_in_batch([batch], "cpu")


def test_a_chat_without_a_label_adds_nothing(folder, tmp_path):
    both = Both(folder, tmp_path, Task.CHAT, "chat.json", FULL)
    batch = both.collate({"input_ids": [1, 2, 3], "labels": [NO_LABEL] * 3})
    total, figures = ChatObjective().total(both.model, *ChatObjective().arrays(batch))
    assert [total.item(), figures["token_accuracy"].item(), ChatObjective().count(batch)] == [0, 0, 0]
    assert ChatObjective().metrics({}) == {}


def test_losses_are_in_fp32_whatever_the_weights_are(folder, tmp_path):
    both = Both(folder, tmp_path, Task.CHAT, "chat.json", FULL)
    both.model.set_dtype(mx.bfloat16)
    batch = both.collate(both.trainer.train_dataset[0])
    total, _figures = ChatObjective().total(both.model, *ChatObjective().arrays(batch))
    assert total.dtype == mx.float32


# --- Preferences


def of_pairs(both: Both) -> dict[str, torch.Tensor]:
    batch = both.collate(*(both.trainer.train_dataset[row] for row in range(3)))
    assert len(set(batch["attention_mask"].sum(dim=1).tolist())) > 2, "answers of uneven lengths"
    return batch


@pytest.mark.parametrize("method", [FULL, LORA, DORA])
def test_dpo_is_trl_s(folder, tmp_path, method):
    both = Both(folder, tmp_path, Task.PREFERENCE, "pairs.json", method)
    metrics = both.check(PreferenceObjective(BETA, both.reference), of_pairs(both))
    assert metrics.keys() == {"loss", "reward_accuracy", "reward_margin"}
    assert abs(metrics["reward_margin"]) > 0.01, "the model has left its reference"


@pytest.mark.parametrize("method", [FULL, LORA])
def test_orpo_is_the_torch_engine_s(folder, tmp_path, method):
    both = Both(folder, tmp_path, Task.PREFERENCE, "pairs.json", method, preference_loss=PreferenceLoss.ORPO)
    both.check(OddsRatioObjective(BETA), of_pairs(both))


def test_a_certain_answer_has_finite_odds(folder, tmp_path):
    both = Both(folder, tmp_path, Task.PREFERENCE, "pairs.json", FULL, preference_loss=PreferenceLoss.ORPO)
    both.trainer.model.lm_head.weight.data *= 1e4
    both.model.lm_head.weight *= 1e4
    prompt = [5, 6, 7]
    certain = both.model(mx.array([prompt])).argmax(axis=-1)[0, -1:].tolist()
    batch = both.collate({"prompt_ids": prompt, "chosen_ids": [8], "rejected_ids": certain})
    with torch.no_grad():
        expected = both.trainer.compute_loss(both.trainer.model, batch).item()
    total, _figures = OddsRatioObjective(BETA).total(both.model, *OddsRatioObjective(BETA).arrays(batch))
    assert total.item() == pytest.approx(expected, rel=1e-5)
    assert mx.isfinite(total)


@pytest.mark.parametrize("method", [FULL, LORA, DORA])
def test_kto_is_the_torch_engine_s(folder, tmp_path, method):
    both = Both(folder, tmp_path, Task.PREFERENCE, "rated.json", method, preference_loss=PreferenceLoss.KTO)
    both.trainer._weights = WEIGHTS
    objective = RatedObjective(BETA, WEIGHTS, both.reference)
    samples = [both.trainer.train_dataset[row] for row in range(8)]
    metrics = both.check(objective, both.collate(*samples))
    assert {"kl", "reward_margin", "baseline"} < metrics.keys()
    assert (metrics["kl"] > 0) == (method != FULL), (
        "the term itself with an adapter, its limit of zero without"
    )
    liked = both.collate(*(sample for sample in samples if sample["label"]))
    metrics = both.check(objective, liked)
    assert "reward_margin" not in metrics, "there is nothing to compare with"


@pytest.mark.parametrize(
    ("task", "loss", "expected"),
    [
        (Task.CAUSAL_LM, PreferenceLoss.KTO, TextObjective()),
        (Task.CHAT, PreferenceLoss.KTO, ChatObjective()),
        (Task.PREFERENCE, PreferenceLoss.DPO, PreferenceObjective(BETA)),
        (Task.PREFERENCE, PreferenceLoss.ORPO, OddsRatioObjective(BETA)),
        (Task.PREFERENCE, PreferenceLoss.KTO, RatedObjective(BETA, WEIGHTS)),
    ],
)
def test_the_objective_is_that_of_the_options(task, loss, expected):
    found = objective_of(run_options(task=task, preference_loss=loss, beta=BETA), WEIGHTS, None)
    assert (type(found), vars(found)) == (type(expected), vars(expected))
    assert found.is_mean_of_step == (task is not Task.PREFERENCE)


# --- The reference


def preferring(folder: Path, own: Path, method: dict[str, Any]) -> tuple[Both, tuple[Any, ...], Any]:
    both = Both(folder, own, Task.PREFERENCE, "pairs.json", method)
    objective = PreferenceObjective(BETA)
    return both, objective.arrays(of_pairs(both)), partial(objective.total, both.model)


@pytest.mark.parametrize("method", [LORA, DORA])
def test_without_its_adapter_a_model_is_its_base(folder, tmp_path, method):
    both, (ids, _answers), _total = preferring(folder, tmp_path, method)
    base, adapted = load_model(folder / "writer")[0](ids), both.model(ids)
    names = [name for name, _module in both.model.named_modules()]
    with without_adapter(both.model):
        assert mx.array_equal(both.model(ids), base)
    assert mx.array_equal(both.model(ids), adapted)
    assert not mx.allclose(adapted, base)
    assert [name for name, _module in both.model.named_modules()] == names


def test_a_reference_has_no_gradient(folder, tmp_path):
    """A model that is its own reference learns as from a copy; with a gradient there, both would cancel out."""
    both, arrays, _total = preferring(folder, tmp_path, FULL)
    copy = load_model(tmp_path / "moved")[0]
    own, others = (
        nn.value_and_grad(both.model, partial(PreferenceObjective(BETA, model).total, both.model))(*arrays)[1]
        for model in (both.model, copy)
    )
    largest = max(mx.abs(value).max().item() for _name, value in tree_flatten(own))
    assert largest > 0.01
    for (name, one), (_name, other) in zip(tree_flatten(own), tree_flatten(others), strict=True):
        assert mx.allclose(one, other, atol=1e-6), name


@pytest.mark.parametrize("method", [LORA, DORA])
def test_the_reference_is_the_same_in_a_compiled_step_with_checkpointing(
    folder, tmp_path, method, monkeypatch
):
    both, arrays, total = preferring(folder, tmp_path, method)
    (expected, _figures), gradients = nn.value_and_grad(both.model, total)(*arrays)

    layer = type(both.model.layers[0])
    monkeypatch.setattr(layer, "__call__", layer.__call__)  # to have it back
    grad_checkpoint(both.model.layers[0])
    state = [both.model.state]
    step = mx.compile(nn.value_and_grad(both.model, total), inputs=state, outputs=state)
    for _time in range(2):  # traced, then from the cache
        (loss, _figures), found = step(*arrays)
        mx.eval(state, loss, found)
        assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
        for (name, one), (_name, other) in zip(tree_flatten(found), tree_flatten(gradients), strict=True):
            assert mx.allclose(one, other, atol=1e-5), name

    # a later step reads the weights anew
    both.model.update(tree_map(lambda weight: weight / 2, both.model.trainable_parameters()))
    (expected, _figures), _gradients = nn.value_and_grad(both.model, total)(*arrays)
    assert step(*arrays)[0][0].item() == pytest.approx(expected.item(), abs=1e-5)
    assert loss.item() != pytest.approx(expected.item(), abs=1e-3)

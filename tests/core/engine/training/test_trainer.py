"""A run computes the numbers of a plain Trainer script, and the right ones where Trainer alone doesn't."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from core.engine import train as engine_train
from core.engine.data import NO_LABEL
from core.engine.training.loss_scale import fix_loss_scaling
from core.options.choices import Precision
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import train, train_plainly, write_reviews


def test_steps_are_those_of_a_plain_script_also_with_accumulated_batches(tmp_path):
    bert, data = save_tiny_bert(tmp_path / "bert"), write_reviews(tmp_path / "reviews.csv", 24)
    plain = train_plainly(bert, data, tmp_path / "plain", batch_size=8, epochs=2, learning_rate=1e-3)
    expected = [[step[name] for step in plain] for name in ("loss", "grad_norm")]
    for batch_size, accumulated, tolerance in ((8, 1, 0.0), (2, 4, 2e-3)):
        run = train(
            tmp_path / f"run-{batch_size}",
            source=bert,
            train=data,
            batch_size=batch_size,
            gradient_accumulation_steps=accumulated,
            epochs=2.0,
            learning_rate=1e-3,
            keep_checkpoints=0,
        )
        assert [step.samples for step in run.steps] == [8] * 6
        losses, norms = [step.loss for step in run.steps], [step.grad_norm for step in run.steps]
        assert losses == pytest.approx(expected[0], rel=tolerance, abs=0.0)
        assert norms == pytest.approx(expected[1], rel=tolerance, abs=0.0)


class Counted(torch.nn.Module):
    """Cross entropy of fixed logits: a sum divided by the items, or a mean."""

    def __init__(self, divides: bool) -> None:
        super().__init__()
        self.divides = divides

    def forward(self, labels: torch.Tensor, num_items_in_batch: int, **_: Any) -> dict[str, torch.Tensor]:
        logits = torch.eye(2).expand(*labels.shape, 2)
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, 2), labels.reshape(-1), reduction="sum" if self.divides else "mean"
        )
        return {"loss": loss / num_items_in_batch if self.divides else loss}


@pytest.mark.parametrize("labels", [[[0, 1]], [[NO_LABEL, NO_LABEL]]], ids=["labels", "none"])
@pytest.mark.parametrize("divides", [True, False])
def test_a_model_that_does_not_divide_by_the_items_is_flagged(divides, labels):
    found = Counted(divides)
    assert fix_loss_scaling(found, {"labels": torch.tensor(labels)}) is not divides
    assert getattr(found, "accepts_loss_kwargs", True) is divides


@pytest.mark.parametrize(("precision", "with_autocast"), [(Precision.BF16, True), (Precision.FP32, False)])
def test_a_run_asks_in_its_own_precision_with_a_sample_that_has_labels(
    precision, with_autocast, tmp_path, monkeypatch
):
    seen: list[bool] = []
    prepare = engine_train.prepare

    def asked(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
        assert (batch["labels"] != NO_LABEL).any()
        with model.register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu"))):
            return fix_loss_scaling(model, batch)

    def without_first_label(*args: Any) -> Any:
        prepared = prepare(*args)
        calls = iter(range(10**6))

        def collated(samples: list[Any]) -> Any:
            batch = prepared.collator(samples)
            if next(calls) == 0:
                batch["labels"] = torch.full_like(batch["labels"], NO_LABEL)
            return batch

        return replace(prepared, collator=collated)

    monkeypatch.setattr("core.engine.training.build.fix_loss_scaling", asked)
    monkeypatch.setattr(engine_train, "prepare", without_first_label)
    bert, batches = save_tiny_bert(tmp_path / "bert"), {"batch_size": 4, "gradient_accumulation_steps": 2}
    run = train(tmp_path / "run", source=bert, precision=precision, max_steps=1, **batches)
    assert run.status == 0
    assert seen == [with_autocast] * 2
    assert run.trainer.model.accepts_loss_kwargs is False, "transformers' Bert has to be flagged"

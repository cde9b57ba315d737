"""What each task trains for in MLX: losses and figures equal to those of the torch engine's trainers.

Attention is causal and padding on the right, so that no token sees padding: no attention mask is needed. Models of
mlx-lm have no dropout to disable but the adapter's, which stays, as in the torch engine.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import mlx.core as mx
import torch
from mlx import nn
from mlx.utils import tree_unflatten
from mlx_lm.tuner.dora import DoRALinear
from mlx_lm.tuner.lora import LoRALinear

from core.engine.data import NO_LABEL
from core.engine.tasks.metrics import ValidationSize, perplexity_metrics, rated_metrics
from core.options import RunOptions
from core.options.choices import PreferenceLoss, Task

Batch = dict[str, torch.Tensor]
Figures = dict[str, mx.array]
ADAPTERS = (LoRALinear, DoRALinear)


class Objective:
    """The loss of a task, and how its batches are counted.

    Attributes:
        columns: Those of a collator's batch that `total` takes, in its order.
        is_mean_of_step: Whether the loss of a step with several batches is the mean over all they count, as Trainer's
            with labels; otherwise it is the mean of their means.
    """

    columns: ClassVar[tuple[str, ...]]
    is_mean_of_step: ClassVar[bool] = False

    def arrays(self, batch: Batch) -> tuple[mx.array, ...]:
        return tuple(mx.array(batch[name].numpy()) for name in self.columns)

    def rows(self, batch: Batch) -> int:
        """Counts samples."""
        return len(batch["input_ids"])

    def count(self, batch: Batch) -> int:
        """Counts what the loss is a mean over: samples, unless a subclass says otherwise."""
        return self.rows(batch)

    def total(self, model: nn.Module, *arrays: mx.array) -> tuple[mx.array, Figures]:
        """Returns the loss and figures for evaluations, each summed over what `count` counts.

        MLX computes an array when it is used: figures cost a training step nothing.
        """
        raise NotImplementedError

    def metrics(self, means: dict[str, float], held_out: ValidationSize | None = None) -> dict[str, float]:
        """Returns the metrics of an evaluation from its means, `loss` among them; empty if nothing was counted."""
        return means


class TextObjective(Objective):
    """Text generation: the next token. Equal to `LanguageTrainer`."""

    columns = ("input_ids", "labels")
    is_mean_of_step = True

    def count(self, batch: Batch) -> int:
        """Counts tokens with a label; nothing predicts the first."""
        return int((batch["labels"][:, 1:] != NO_LABEL).sum())

    def total(self, model: nn.Module, *arrays: mx.array) -> tuple[mx.array, Figures]:
        likely, _is_likeliest = predict(model, *arrays)
        return -likely.sum(), {}

    def metrics(self, means: dict[str, float], held_out: ValidationSize | None = None) -> dict[str, float]:
        return {**means, **perplexity_metrics(means["loss"], held_out)} if means else {}


class ChatObjective(TextObjective):
    """Supervised fine-tuning on the answers of conversations, not packed. Equal to `ChatTrainer`."""

    def total(self, model: nn.Module, *arrays: mx.array) -> tuple[mx.array, Figures]:
        likely, is_likeliest = predict(model, *arrays)
        return -likely.sum(), {"token_accuracy": is_likeliest.sum()}


class PairObjective(Objective):
    """The base of what learns from pairs of answers: the batch holds the better ones, then the others."""

    def rows(self, batch: Batch) -> int:
        """Counts pairs."""
        return len(batch["input_ids"]) // 2

    @staticmethod
    def figures(chosen: mx.array, rejected: mx.array) -> Figures:
        """Compares the rewards of answers [pairs]."""
        return {"reward_accuracy": (chosen > rejected).sum(), "reward_margin": (chosen - rejected).sum()}


@dataclass(frozen=True)
class PreferenceObjective(PairObjective):
    """Direct preference optimization (arXiv 2305.18290, equation 7). Equal to `PreferenceTrainer`.

    Attributes:
        reference: See `ratios`.
    """

    columns = ("input_ids", "completion_mask")
    beta: float
    reference: nn.Module | None = None

    def total(self, model: nn.Module, *arrays: mx.array) -> tuple[mx.array, Figures]:
        chosen, rejected = mx.split(self.beta * ratios(model, self.reference, *arrays), 2)
        return -nn.log_sigmoid(chosen - rejected).sum(), self.figures(chosen, rejected)


@dataclass(frozen=True)
class OddsRatioObjective(PairObjective):
    """ORPO (arXiv 2403.07691, equations 4 to 7), with the prompt in the better answer's loss.

    Equal to `OddsRatioTrainer`.
    """

    columns = ("input_ids", "attention_mask", "completion_mask")
    beta: float

    def total(self, model: nn.Module, *arrays: mx.array) -> tuple[mx.array, Figures]:
        ids, written, answers = arrays
        tokens, _is_likeliest = predict(model, ids, mx.where(written, ids, NO_LABEL))
        written, answers = written[:, 1:], answers[:, 1:]
        pairs = len(ids) // 2
        entropy = -tokens[:pairs].sum() / written[:pairs].sum()
        likely = (tokens * answers).sum(axis=1) / answers.sum(axis=1)
        # the odds of what is certain are infinite
        chosen, rejected = mx.split(mx.minimum(likely, -1e-6), 2)
        odds = chosen - rejected - mx.log(mx.expm1(chosen) / mx.expm1(rejected))
        total = pairs * entropy - self.beta * nn.log_sigmoid(odds).sum()
        return total, self.figures(*mx.split(self.beta * likely, 2))


@dataclass(frozen=True)
class RatedObjective(Objective):
    """KTO (arXiv 2402.01306, equations 7 and 8). Equal to `RatedTrainer`.

    Attributes:
        weights: Those of liked and of other answers.
        reference: See `ratios`.
    """

    columns = ("input_ids", "completion_mask", "KL_input_ids", "KL_completion_mask", "label")
    beta: float
    weights: tuple[float, float] = (1.0, 1.0)
    reference: nn.Module | None = None

    def total(self, model: nn.Module, *arrays: mx.array) -> tuple[mx.array, Figures]:
        *rows, liked = arrays
        apart = ratios(model, self.reference, *rows[2:]).mean()
        kl = mx.maximum(mx.stop_gradient(apart), 0.0)
        rewards = self.beta * ratios(model, self.reference, *rows[:2])
        beyond = mx.where(liked, 1.0, -1.0) * (rewards - self.beta * kl)
        losses = mx.where(liked, *self.weights) * (1 - mx.sigmoid(beyond))
        return losses.sum(), {
            "reward_accuracy": (beyond > 0).sum(),
            "kl": len(liked) * kl,
            "liked": liked.sum(),
            "of_liked": (rewards * liked).sum(),
            "of_others": (rewards * ~liked).sum(),
        }

    def metrics(self, means: dict[str, float], held_out: ValidationSize | None = None) -> dict[str, float]:
        return rated_metrics(means)


def objective_of(options: RunOptions, weights: tuple[float, float], reference: Any) -> Objective:
    """Returns the objective of a run; `weights` are KTO's, `reference` is that of `ratios`."""
    beta = options.training.beta
    match options.preference:
        case PreferenceLoss.DPO:
            return PreferenceObjective(beta, reference)
        case PreferenceLoss.ORPO:
            return OddsRatioObjective(beta)
        case PreferenceLoss.KTO:
            return RatedObjective(beta, weights, reference)
    return ChatObjective() if options.task is Task.CHAT else TextObjective()


# --- What the losses are made of


def predict(model: nn.Module, ids: mx.array, labels: mx.array) -> tuple[mx.array, mx.array]:
    """Returns the log-probability of each label after the first, and whether it is the likeliest token.

    Both are [rows, tokens - 1], and zero where there is no label. They are computed in fp32, as by transformers.
    """
    logits = model(ids[:, :-1]).astype(mx.float32)
    labels = labels[:, 1:]
    counted = labels != NO_LABEL
    likely = -nn.losses.cross_entropy(logits, mx.where(counted, labels, 0))
    return mx.where(counted, likely, 0.0), logits.argmax(axis=-1) == labels


def ratios(model: nn.Module, reference: nn.Module | None, ids: mx.array, answers: mx.array) -> mx.array:
    """Returns how much likelier the model finds each answer than the reference does, as log-probabilities [rows].

    Args:
        reference: A model, which gets no gradient; None: `model` without its adapter.
        answers: 1 at the tokens of an answer.
    """
    labels = mx.where(answers, ids, NO_LABEL)
    if reference is not None:
        expected, _is_likeliest = predict(reference, ids, labels)
    else:
        with without_adapter(model):
            expected, _is_likeliest = predict(model, ids, labels)
    expected = mx.stop_gradient(expected.sum(axis=1))
    ids = mx.depends(ids, expected)  # the reference's logits are gone before the model's are computed
    likely, _is_likeliest = predict(model, ids, labels)
    return likely.sum(axis=1) - expected


@contextmanager
def without_adapter(model: Any) -> Iterator[None]:
    """Puts the adapted layers in the place of their adapters; DoRA's magnitude would act at a scale of 0, too.

    It takes effect while a step is traced, so that it holds in a compiled step.
    """
    adapters = [(name, module) for name, module in model.named_modules() if isinstance(module, ADAPTERS)]
    model.update_modules(tree_unflatten([(name, adapter.linear) for name, adapter in adapters]))
    try:
        yield
    finally:
        model.update_modules(tree_unflatten(adapters))

"""TRL's trainers for chat and preferences on top of `WeightedTrainer`; their loops and losses are untouched.

The losses of KTO and ORPO are computed here and equal to TRL's, whose KTOTrainer takes the samples in one order only,
and whose ORPOTrainer is experimental and takes texts. Turned off: telemetry, model cards, tokenizing (samples are
tokens, those of the preview), and casting adapters to bf16.
"""

import warnings
from typing import Any

import torch
from torch.nn.functional import logsigmoid
from transformers import Trainer
from trl import DPOTrainer, SFTTrainer
from trl.trainer.base_trainer import _BaseTrainer
from trl.trainer.utils import add_fused_lm_head
from typing_extensions import override

from core.engine.data import NO_LABEL
from core.engine.models.parts import base_of
from core.engine.tasks.metrics import perplexity_metrics, rated_metrics
from core.engine.training.trainer import WeightedTrainer

# TRL 1.16 uses deprecated names of transformers 5 at every batch of preferences
warnings.filterwarnings(
    "ignore", message=r"`(is_)?gradient_checkpointing\w*` is deprecated", category=FutureWarning
)


class KeepsAdapter(Trainer):
    """Before TRL's class: keeps an adapter in fp32, which TRL would cast to bf16 on quantized weights."""

    model: Any

    def __init__(self, model: Any, *args: Any, **kwargs: Any) -> None:
        before = {name: weight.data for name, weight in model.named_parameters() if weight.requires_grad}
        super().__init__(model, *args, **kwargs)
        for name, weight in self.model.named_parameters():
            if name in before and weight.dtype != before[name].dtype:
                weight.data = before[name].to(weight.device)


class TrlTrainer(KeepsAdapter, WeightedTrainer, _BaseTrainer):
    """The base of the trainers that extend TRL's."""

    _metrics: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # each rank counts its own batches
        self.accelerator.gather_for_metrics = lambda figures, *_rest: figures

    @override
    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluates with figures of each batch by itself, as with one process."""
        self.accelerator.gather = lambda figures: figures
        try:
            return super().evaluation_loop(*args, **kwargs)
        finally:
            del self.accelerator.gather  # its own again

    @override
    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Any]:
        """Returns the batches of an optimizer step; TRL's own metrics of the step before would grow with the run."""
        self._metrics["train"].clear()
        return super().get_batch_samples(*args, **kwargs)

    def eval_metric(self, name: str) -> float:
        """Returns TRL's metric of the last batch of an evaluation."""
        return float(self._metrics["eval"][name][-1])

    @override
    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes no card: a bundled app lacks TRL's template."""

    @override
    def _send_telemetry(self) -> None:
        """Sends nothing."""


class ChatTrainer(TrlTrainer, SFTTrainer):
    """Supervised fine-tuning on the answers of conversations, packed or not."""

    loss_is_scaled_for_ga = True  # type: ignore[assignment]  # by the labelled tokens of all batches of a step

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = True  # or Trainer counts no tokens for a forward without keywords
        self._loss_shifts_labels = True  # as in `LanguageTrainer`

    @override
    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Returns the loss of a batch; FlashAttention separates packed conversations in a single row only."""
        if "position_ids" in inputs and "flash" in base_of(self.model).config._attn_implementation:
            inputs = {name: value.reshape(1, -1) for name, value in inputs.items()}
        return super().compute_loss(model, inputs, *args, **kwargs)

    @override
    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """Counts tokens without padding; in a packed batch positions restart per conversation, and padding is at 0."""
        positions = inputs.get("position_ids")
        if positions is None:
            return super().count_tokens(inputs)
        return (positions > 0).sum() + (positions == 1).sum()

    @override
    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Adds a batch, weighted by its labelled tokens."""
        tokens = int((inputs["labels"][:, 1:] != NO_LABEL).sum())
        self.means.add(tokens, loss=float(loss), token_accuracy=self.eval_metric("mean_token_accuracy"))

    @override
    def eval_metrics(self) -> dict[str, float]:
        """Returns loss, perplexity and accuracy of a token of the answers."""
        means = self.means.all()
        return {**means, **perplexity_metrics(means["loss"])} if means else {}


class PairsAsTokens(DPOTrainer):
    """DPO on answers that are tokens already. With LoRA, the reference is the model with the adapter disabled."""

    model: Any

    def __init__(self, *args: Any, optimizer_cls_and_kwargs: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer_cls_and_kwargs = optimizer_cls_and_kwargs  # TRL's trainer doesn't pass it on
        if "ref" in getattr(
            self.model, "peft_config", {}
        ):  # TRL's copy of a new adapter: one that is disabled
            self.model.delete_adapter("ref")
        disable_dropout(self.model)

    @override
    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        return dataset


class PreferenceTrainer(TrlTrainer, PairsAsTokens):
    """Direct preference optimization."""

    preference_loss = "DPO"

    @override
    def count_samples(self, inputs: dict[str, Any]) -> int:
        """Counts pairs: a batch has a row for each answer."""
        return len(inputs["input_ids"]) // 2

    @override
    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Adds a batch, weighted by its pairs."""
        self.means.add(
            self.count_samples(inputs),
            loss=float(loss),
            reward_accuracy=self.eval_metric("rewards/accuracies"),
            reward_margin=self.eval_metric("rewards/margins"),
        )


ROWS = ("input_ids", "attention_mask", "completion_mask")


class RatedLoss(PairsAsTokens):
    """KTO, on answers of which each is liked or not (arXiv 2402.01306, equations 7 and 8).

    `weights` are those of liked and of other answers. An answer is right if its reward is on its side of the KL term.
    """

    def __init__(self, *args: Any, weights: tuple[float, float] = (1.0, 1.0), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._weights = weights
        self._figures: dict[str, torch.Tensor] = {}

    @override
    def _compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool) -> Any:
        liked, beta = inputs["label"], self.beta
        ratios, router_loss = self._ratios(model, {name: inputs[name] for name in ROWS})
        with torch.no_grad():
            apart = self._ratios(model, {name: inputs[f"KL_{name}"] for name in ROWS})[0].mean()
            kl = self.accelerator.gather(apart).mean().clamp(min=0)
        side = torch.where(liked, 1.0, -1.0)
        losses = torch.where(liked, *self._weights) * (1 - torch.sigmoid(beta * side * (ratios - kl)))
        rewards = beta * ratios.detach()
        self._figures = {
            "reward_accuracy": (side * (rewards - beta * kl) > 0).float(),
            "kl": kl,
            "liked": liked.float(),
            "of_liked": rewards * liked,
            "of_others": rewards * ~liked,
        }
        return losses.mean() + router_loss

    def _ratios(self, model: Any, rows: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """Returns how much likelier the model finds each answer than the reference does, and the router's loss."""
        labels = rows["input_ids"].masked_fill(rows["completion_mask"] == 0, NO_LABEL)
        given = {name: rows[name] for name in ROWS[:2]} | {"labels": labels, "use_cache": False}
        if self.aux_loss_enabled:
            given["output_router_logits"] = True
        outputs = model(**given, fused_lm_head=True)
        reference = torch.cat(self.compute_ref_log_probs(self.ref_model or self.model, rows))
        router_loss = self.router_aux_loss_coef * outputs.aux_loss if self.aux_loss_enabled else 0.0
        return outputs.log_probs.sum(dim=1) - reference, router_loss


class RatedTrainer(PreferenceTrainer, RatedLoss):
    """KTO."""

    preference_loss = "KTO"

    @override
    def count_samples(self, inputs: dict[str, Any]) -> int:
        """Counts answers."""
        return len(inputs["label"])

    @override
    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Adds a batch, weighted by its answers."""
        figures = {name: float(values.mean()) for name, values in self._figures.items()}
        self.means.add(self.count_samples(inputs), loss=float(loss), **figures)

    @override
    def eval_metrics(self) -> dict[str, float]:
        return rated_metrics(self.means.all())


class OddsRatioLoss(Trainer):
    """ORPO on pairs of answers (arXiv 2403.07691, equations 4 to 7), without a reference.

    As in TRL and the paper's code, the prompt counts in the loss of the better answer.
    """

    loss_is_scaled_for_ga = False
    rewards: torch.Tensor

    def __init__(self, *args: Any, beta: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.beta = beta
        disable_dropout(self.model)
        model: Any = self.model
        add_fused_lm_head(model.get_base_model() if hasattr(model, "get_base_model") else model)

    @override
    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, *_rest: Any, **_more: Any
    ) -> Any:
        ids, mask, answers = (inputs[name] for name in ROWS)
        labels = ids.masked_fill(mask == 0, NO_LABEL)
        outputs = model(
            input_ids=ids, attention_mask=mask, labels=labels, use_cache=False, fused_lm_head=True
        )
        tokens, answers = outputs.log_probs.float(), answers[:, 1:]
        likely = (tokens * answers).sum(dim=1) / answers.sum(dim=1)
        chosen, rejected = likely.clamp(max=-1e-6).chunk(2)  # the odds of what is certain are infinite
        odds = chosen - rejected - (torch.expm1(chosen) / torch.expm1(rejected)).log()
        written = labels[: len(chosen), 1:] != NO_LABEL
        loss = -tokens[: len(chosen)][written].mean() - self.beta * logsigmoid(odds).mean()
        self.rewards = self.beta * likely.detach()
        return (loss, {}) if return_outputs else loss


class OddsRatioTrainer(WeightedTrainer, OddsRatioLoss):
    """ORPO."""

    preference_loss = "ORPO"

    @override
    def count_samples(self, inputs: dict[str, Any]) -> int:
        """Counts pairs: a batch has a row for each answer."""
        return len(inputs["input_ids"]) // 2

    @override
    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Adds a batch, weighted by its pairs."""
        chosen, rejected = self.rewards.chunk(2)
        self.means.add(
            len(chosen),
            loss=float(loss),
            reward_accuracy=float((chosen > rejected).float().mean()),
            reward_margin=float((chosen - rejected).mean()),
        )


def disable_dropout(model: torch.nn.Module) -> None:
    """Disables dropout, so that the model equals its reference at first; TRL would disable LoRA's as well."""
    for name, part in model.named_modules():
        if isinstance(part, torch.nn.Dropout) and "lora_dropout" not in name:
            part.p = 0.0

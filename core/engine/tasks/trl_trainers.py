"""TRL's trainers for chat and preferences on top of `WeightedTrainer`; their loops and losses are untouched.

Turned off: telemetry, model cards, tokenizing (samples are tokens, those of the preview), and casting adapters to bf16.
"""

import warnings
from typing import Any

import torch
from trl import DPOTrainer, SFTTrainer

from core.engine.data import NO_LABEL
from core.engine.models.parts import base_of
from core.engine.tasks.metrics import perplexity_metrics
from core.engine.training.trainer import WeightedTrainer

# TRL 1.16 uses deprecated names of transformers 5 at every batch of preferences
warnings.filterwarnings(
    "ignore", message=r"`(is_)?gradient_checkpointing\w*` is deprecated", category=FutureWarning
)

REFERENCE = "ref"
"""TRL's name of a frozen copy of the adapter."""


class TrlTrainer(WeightedTrainer):
    """The base of both."""

    def __init__(self, *args: Any, model: Any, **kwargs: Any) -> None:
        before = {name: weight.data for name, weight in model.named_parameters() if weight.requires_grad}
        super().__init__(*args, model=model, **kwargs)
        for name, weight in self.model.named_parameters():
            # TRL casts to bf16 on quantized weights
            if name in before and weight.dtype != before[name].dtype:
                weight.data = before[name].to(weight.device)

    def forget_step(self) -> None:
        """Begin a new optimizer step; TRL's own metrics would grow with the run."""
        super().forget_step()
        self._metrics["train"].clear()

    def eval_metric(self, name: str) -> float:
        """TRL's metric of the last batch of an evaluation."""
        return float(self._metrics["eval"][name][-1])

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none: a bundled app lacks TRL's template."""

    def _send_telemetry(self) -> None:
        """Send nothing."""


class ChatTrainer(TrlTrainer, SFTTrainer):
    """Supervised fine-tuning on the answers of conversations, packed or not."""

    loss_is_scaled_for_ga = True  # by the labelled tokens of all batches of a step

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = True  # or Trainer counts no tokens for a forward without keywords

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch; FlashAttention separates packed conversations in a single row only."""
        if "position_ids" in inputs and "flash" in base_of(self.model).config._attn_implementation:
            inputs = {name: value.reshape(1, -1) for name, value in inputs.items()}
        return super().compute_loss(model, inputs, *args, **kwargs)

    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """Tokens without padding; in a packed batch, positions restart with each conversation and padding is at 0."""
        positions = inputs.get("position_ids")
        if positions is None:
            return super().count_tokens(inputs)
        return (positions > 0).sum() + (positions == 1).sum()

    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Weighted by labelled tokens."""
        tokens = int((inputs["labels"][:, 1:] != NO_LABEL).sum())
        self.means.add(tokens, loss=float(loss), token_accuracy=self.eval_metric("mean_token_accuracy"))

    def eval_metrics(self) -> dict[str, float]:
        """Loss, perplexity and accuracy of a token of the answers."""
        means = self.means.all()
        return {**means, **perplexity_metrics(means["loss"])} if means else {}


class PreferenceTrainer(TrlTrainer, DPOTrainer):
    """Direct preference optimization. With LoRA, the reference is the model with the adapter disabled."""

    def __init__(self, *args: Any, optimizer_cls_and_kwargs: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer_cls_and_kwargs = optimizer_cls_and_kwargs  # TRL's trainer doesn't pass it on
        if REFERENCE in getattr(self.model, "peft_config", {}):
            self.model.delete_adapter(REFERENCE)  # the same as a new adapter that is disabled
        disable_dropout(self.model)

    def count_samples(self, inputs: dict[str, Any]) -> int:
        """Pairs: a batch has a row for each answer."""
        return len(inputs["input_ids"]) // 2

    def add_eval_batch(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Weighted by pairs."""
        self.means.add(
            self.count_samples(inputs),
            loss=float(loss),
            reward_accuracy=self.eval_metric("rewards/accuracies"),
            reward_margin=self.eval_metric("rewards/margins"),
        )

    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """The pairs are tokens already."""
        return dataset


def disable_dropout(model: torch.nn.Module) -> None:
    """Disable dropout, so that the model equals its reference at first; TRL would disable LoRA's as well."""
    for name, part in model.named_modules():
        if isinstance(part, torch.nn.Dropout) and "lora_dropout" not in name:
            part.p = 0.0

"""TRL's trainers for chat and preferences, watched by Hone as Trainer is; their loops and losses are untouched.

TRL 1.16 computes the logarithms of probabilities in tiles, without the table of all logits, and counts tokens exactly
where batches are accumulated. What it would do beside that is left out: it sends nothing, writes no model card, keeps
LoRA's matrices in the format they came in, and takes samples that are tokens already, those the preview shows.
"""

import warnings
from typing import Any

import torch
from trl import DPOTrainer, SFTTrainer

from core.engine.models.parts import base_of
from core.engine.tasks.metrics import Means, perplexity_metrics
from core.engine.training.trainer import WatchedTrainer

# TRL 1.16 asks transformers 5 by names that are going, at every batch of preferences
warnings.filterwarnings(
    "ignore", message=r"`(is_)?gradient_checkpointing\w*` is deprecated", category=FutureWarning
)

REFERENCE = "ref"
"""The adapter TRL adds as a copy of the one that learns."""


class TrlTrainer(WatchedTrainer):
    """What both have in common. `means` are those of the evaluation under way, each batch by its weight."""

    def __init__(self, *args: Any, model: Any, **kwargs: Any) -> None:
        came = {name: weight.data for name, weight in model.named_parameters() if weight.requires_grad}
        self.means = Means()
        super().__init__(*args, model=model, **kwargs)
        for name, weight in self.model.named_parameters():
            if (
                name in came and weight.dtype != came[name].dtype
            ):  # TRL turns them to bf16 beside packed weights
                weight.data = came[name].to(weight.device)

    def forget_step(self) -> None:
        """Begin a new optimizer step; TRL's own figures, which nothing reads, would grow with the run."""
        super().forget_step()
        self._metrics["train"].clear()

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate as Trainer does, and weigh the batches rightly: the last is smaller, answers differ in length."""
        self.means = Means()
        found = super().evaluation_loop(*args, **kwargs)
        found.metrics.update({f"eval_{name}": value for name, value in self.judge().items()})
        return found

    def judge(self) -> dict[str, float]:
        """The metrics of the evaluation that has just ended, by their names without `eval_`."""
        return self.means.all()

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch, as TRL computes it."""
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if not model.training:
            self.hear(loss, inputs)
        return loss

    def hear(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Take in a batch of an evaluation."""
        raise NotImplementedError

    def heard(self, name: str) -> float:
        """The figure TRL has just noted of a batch of an evaluation."""
        return float(self._metrics["eval"][name][-1])

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none: TRL's is made from a template that a bundled app lacks, and names itself as the author."""

    def _send_telemetry(self) -> None:
        """Send nothing; the environment forbids it, too."""


class ChatTrainer(TrlTrainer, SFTTrainer):
    """Learns answers. Batches are those of `core.engine.data.batches`, packed or not."""

    loss_is_scaled_for_ga = True  # by the learned tokens of all batches of a step

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = (
            True  # or Trainer wouldn't count them where a model's forward takes none
        )

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch. FlashAttention tells conversations apart in a single row only."""
        if "position_ids" in inputs and "flash" in base_of(self.model).config._attn_implementation:
            inputs = {name: value.reshape(1, -1) for name, value in inputs.items()}
        return super().compute_loss(model, inputs, *args, **kwargs)

    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """As for any batch; in a packed one, each conversation counts its positions from 0, and padding stays at 0."""
        positions = inputs.get("position_ids")
        if positions is None:
            return super().count_tokens(inputs)
        return (positions > 0).sum() + (positions == 1).sum()

    def hear(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Take in a batch, weighed by the tokens that are judged."""
        tokens = int((inputs["labels"][:, 1:] != -100).sum())
        self.means.add(tokens, loss=float(loss), token_accuracy=self.heard("mean_token_accuracy"))

    def judge(self) -> dict[str, float]:
        """The loss of a token of the held-out answers, its perplexity, and how many were the likeliest of all."""
        found = self.means.all()
        return {**found, **perplexity_metrics(found["loss"])} if found else {}


class PreferenceTrainer(TrlTrainer, DPOTrainer):
    """Learns to prefer. With LoRA, what it is held to is the model with the adapter switched off."""

    def __init__(self, *args: Any, optimizer_cls_and_kwargs: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer_cls_and_kwargs = optimizer_cls_and_kwargs  # Trainer's, which TRL's doesn't hand on
        if REFERENCE in getattr(self.model, "peft_config", {}):
            self.model.delete_adapter(REFERENCE)  # a fresh adapter adds nothing: switched off, it is the same
        leave_out_dropout(self.model)

    def count_samples(self, inputs: dict[str, Any]) -> int:
        """Pairs of a batch, which has a row for each answer."""
        return len(inputs["input_ids"]) // 2

    def hear(self, loss: torch.Tensor, inputs: dict[str, Any]) -> None:
        """Take in a batch, weighed by its pairs."""
        self.means.add(
            self.count_samples(inputs),
            loss=float(loss),
            reward_accuracy=self.heard("rewards/accuracies"),
            reward_margin=self.heard("rewards/margins"),
        )

    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """The pairs as they are: tokens already."""
        return dataset


def leave_out_dropout(model: torch.nn.Module) -> None:
    """Switch dropout off in all but LoRA's matrices: the model and what it is held to have to be the same at first.

    TRL would switch it off in these, too, where a person has asked for it.
    """
    for name, part in model.named_modules():
        if isinstance(part, torch.nn.Dropout) and "lora_dropout" not in name:
            part.p = 0.0

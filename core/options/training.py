"""Options of training: how long, how fast and by which optimizer the model learns."""

from typing import Annotated

from core.choices import Optimizer, Schedule
from core.options.declaring import FOR_PREFERENCE, WITH_BETAS, Section, about


class TrainingOptions(Section, frozen=True, kw_only=True):
    """How it learns."""

    epochs: Annotated[
        float,
        about(
            "Epochs",
            "Passes over the training data.",
            unit="epochs",
            aliases=("num_train_epochs",),
            gt=0.0,
            le=100_000.0,
        ),
    ] = 3.0
    max_steps: Annotated[
        int | None,
        about(
            "Stop after",
            "Ends after so many steps, whatever the epochs. Empty: by epochs.",
            unit="steps",
            advanced=True,
            group="Length",
            ge=1,
        ),
    ] = None
    learning_rate: Annotated[
        float,
        about(
            "Learning rate",
            "How far each step moves the weights. 2e-5 to 5e-5 suits fine-tuning a text model, 1e-3 a vision model "
            "from scratch.",
            gt=0.0,
            le=10.0,
        ),
    ] = 5e-5
    optimizer: Annotated[
        Optimizer,
        about(
            "Optimizer",
            "How gradients move the weights. It decides how much memory stands beside each weight.",
            aliases=("optim",),
        ),
    ] = Optimizer.ADAMW
    beta: Annotated[
        float,
        about(
            "Beta of DPO",
            "How much the model is held to what it was: 0.1 is usual, more holds it closer.",
            needs=FOR_PREFERENCE,
            aliases=("dpo_beta",),
            gt=0.0,
            le=10.0,
        ),
    ] = 0.1
    schedule: Annotated[
        Schedule,
        about(
            "Schedule",
            "How the learning rate moves after the warm-up.",
            advanced=True,
            group="Learning rate",
            aliases=("lr_scheduler_type",),
        ),
    ] = Schedule.LINEAR
    warmup: Annotated[
        float,
        about(
            "Warm-up",
            "Steps over which the learning rate rises from zero; below 1 it is a share of the run.",
            unit="steps",
            share_below_one=True,
            advanced=True,
            group="Learning rate",
            aliases=("warmup_steps", "warmup_ratio"),
            ge=0.0,
        ),
    ] = 0.0
    weight_decay: Annotated[
        float,
        about(
            "Weight decay",
            "Pulls weights (not biases and norms) towards zero.",
            advanced=True,
            group="Optimizer",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.0
    max_grad_norm: Annotated[
        float,
        about(
            "Clip gradients at",
            "Longest gradient a step may take; 0 switches clipping off.",
            advanced=True,
            group="Optimizer",
            ge=0.0,
        ),
    ] = 1.0
    beta1: Annotated[
        float,
        about(
            "Beta 1",
            "How long gradients are remembered: 0.9 is about ten steps.",
            advanced=True,
            group="Optimizer",
            needs=WITH_BETAS,
            aliases=("adam_beta1",),
            ge=0.0,
            le=0.999999,
        ),
    ] = 0.9
    beta2: Annotated[
        float,
        about(
            "Beta 2",
            "How long their squares are remembered: 0.999 is about a thousand steps.",
            advanced=True,
            group="Optimizer",
            needs=WITH_BETAS,
            aliases=("adam_beta2",),
            ge=0.0,
            le=0.999999,
        ),
    ] = 0.999
    epsilon: Annotated[
        float,
        about(
            "Epsilon",
            "Keeps the division by tiny gradients in bounds.",
            advanced=True,
            group="Optimizer",
            needs={
                "training.optimizer": tuple(
                    kind for kind in WITH_BETAS["training.optimizer"] if kind is not Optimizer.LION_8BIT
                )
            },
            aliases=("adam_epsilon",),
            gt=0.0,
            le=1.0,
        ),
    ] = 1e-8
    momentum: Annotated[
        float,
        about(
            "Momentum",
            "Share of the last step that is taken again.",
            advanced=True,
            group="Optimizer",
            needs={"training.optimizer": (Optimizer.SGD,)},
            ge=0.0,
            le=0.999999,
        ),
    ] = 0.9
    seed: Annotated[
        int,
        about(
            "Seed",
            "The same seed on the same machine gives the same run.",
            advanced=True,
            group="Repeatability",
            ge=0,
            le=2**32 - 1,
        ),
    ] = 42
    deterministic: Annotated[
        bool,
        about(
            "Full determinism",
            "Only kernels that give the same bits every time: slower, and an operator that has none ends the run.",
            advanced=True,
            group="Repeatability",
            aliases=("full_determinism",),
        ),
    ] = False

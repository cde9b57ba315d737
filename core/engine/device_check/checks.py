"""Which comparisons the device check makes, in order of importance, and what counts as agreeing.

Tolerances are shares of a tensor's largest value (see `relative_error`). What they have to tell apart was measured with
torch 2.13 on a CPU, where other kernels and other counts of threads stand for a sound device; nothing was measured on
MPS or CUDA. In fp32, losses and gradients of sound computations differ by 1.1e-5 at most; one term lost from a sum
over 32,776 tokens changes gradients by 1.6e-3 and more, multiplying in bf16 by 4.6e-3 and more. Causal attention
differs from fp32 by 6.5e-3 in bf16 and by 8e-4 in fp16, wherever its softmax is rounded; where three of four tokens see
what comes after them, by 0.5 and more.
"""

from dataclasses import dataclass

import torch

from core.engine.device_check import probes
from core.engine.device_check.compare import Probe

LOSS = 1e-4
FP32 = 1e-3
BF16 = 3e-2
FP16 = 5e-3
REPEATED = 1e-4

FEWER_TOKENS = "Keep batch size times length below 32,768 tokens; accumulate gradients instead."
OTHER_ATTENTION = 'Use fp32, or the attention "eager".'
USE_CPU = "Train on the CPU, or with another version of PyTorch."


@dataclass(frozen=True)
class Check:
    """One comparison to make.

    `name`, `explanation` and `tolerance` as in `core.device_check_report.Comparison`; `remedy` says what to do where it
    differs. `is_short`: the short form makes it too. `repeats`: the device is held against itself, not against the
    reference.
    """

    name: str
    explanation: str
    probe: Probe
    tolerance: float
    remedy: str = USE_CPU
    is_short: bool = False
    repeats: bool = False


CHECKS = (
    Check("Loss", "The losses of a small encoder and a small decoder.", probes.loss, LOSS, is_short=True),
    Check(
        "Gradients",
        "The gradient of every weight of the encoder and the decoder.",
        probes.all_gradients,
        FP32,
        is_short=True,
    ),
    Check(
        "More than 32,768 tokens",
        "Gradients of a batch of more than 32,768 tokens, computed after a smaller one.",
        probes.across_the_limit,
        FP32,
        FEWER_TOKENS,
        is_short=True,
    ),
    Check(
        "Large vocabulary",
        "Gradients through an output layer of 50,257 tokens.",
        probes.large_vocabulary,
        FP32,
        "Train language models on the CPU; classifiers have few outputs and are not affected.",
        is_short=True,
    ),
    Check(
        "Optimizer step",
        "What AdamW makes of the weights when it is given the same gradients.",
        probes.optimizer_step,
        FP32,
        "Choose another optimizer, or train on the CPU.",
        is_short=True,
    ),
    Check(
        "Causal mask in bf16",
        "Attention in bf16 in which no token may see those after it, in evaluation and in training.",
        probes.half_precision_causal(torch.bfloat16),
        BF16,
        OTHER_ATTENTION,
    ),
    Check(
        "Causal mask in fp16",
        "Attention in fp16 in which no token may see those after it, in evaluation and in training.",
        probes.half_precision_causal(torch.float16),
        FP16,
        OTHER_ATTENTION,
    ),
    Check(
        "Batch norm, channels last",
        "Loss, gradients and statistics of a small image model whose images are stored pixel by pixel.",
        probes.channels_last_batch_norm,
        FP32,
        "Keep images stored channel by channel, as they are by default.",
    ),
    Check(
        "Layer norm on frozen layers",
        "Gradients of a layer norm above layers that are not trained.",
        probes.norm_on_frozen_input,
        FP32,
        "Train all weights, or use LoRA.",
    ),
    Check(
        "Repeated",
        "The gradients of the encoder and the decoder, computed twice on the same device.",
        probes.all_gradients,
        REPEATED,
        repeats=True,
    ),
    Check(
        "Attention over many tokens",
        "Loss and gradients of an encoder over more than 32,768 tokens, computed after a smaller batch.",
        probes.transformer_across_the_limit,
        FP32,
        FEWER_TOKENS,
    ),
)

"""Loading a text model with its weights packed into 4 or 8 bits, for QLoRA (bitsandbytes 0.50)."""

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from core.choices import Precision, Quantization
from core.engine.models.parts import is_packed
from core.options import RunOptions

COMPUTED_IN = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}
"""What packed weights are unpacked to for a multiplication; float32 where the precision is none of these."""


def packing_arguments(options: RunOptions, unpacked: Sequence[str]) -> dict[str, Any]:
    """What `from_pretrained` takes beside the rest to pack the weights as it reads them.

    Args:
        options: What is asked, its precision settled.
        unpacked: Names of the modules that keep their weights as they are, because they learn.
    """
    from transformers import BitsAndBytesConfig

    _quieten()
    if options.model.quantization is Quantization.INT8:
        config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=list(unpacked))
    else:
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=COMPUTED_IN.get(options.device.precision, torch.float32),
            llm_int8_skip_modules=list(unpacked),
        )
    found: dict[str, Any] = {"quantization_config": config}
    if options.device.name == "cpu":  # left to itself, it would take a GPU where there is one
        found["device_map"] = {"": "cpu"}
    return found


def make_trainable(model: Any) -> None:
    """Prepare a packed model for LoRA: freeze it, hold its norms in fp32, and keep its packing as it is.

    On CPUs with AVX512_BF16, bitsandbytes packs 4-bit weights anew the first time they are used without gradients,
    into a form that has no backward pass: the first evaluation would end the training.
    """
    from peft import prepare_model_for_kbit_training

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # PEFT 0.21 asks transformers 5 by names that are going
        prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    for part in model.modules():
        if hasattr(part, "support_avx512bf16_for_cpu"):
            part.support_avx512bf16_for_cpu = False
    _let_go_of_file(model)


def _let_go_of_file(model: Any) -> None:
    """Copy the weights that aren't packed: on a CPU they are views of the file they were read from.

    As long as one is, all of it stays mapped, with the pages that were read only to be packed: 326 MB of a BERT of base
    size, whose packed weights take 41 MB.
    """
    for weight in model.parameters():
        if weight.device.type == "cpu" and not is_packed(weight):
            weight.data = weight.data.clone()


def _quieten() -> None:
    """Leave out that int8 multiplies in fp16: said once a layer and batch, it would fill the log."""
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)

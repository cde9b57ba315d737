"""Models built without numbers, as a run builds them: on torch's fake tensors, which know only shape and place."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from core.engine.memory.packed import pack
from core.engine.models import text
from core.engine.models.parts import COMPUTED_IN, apply_method, base_of, head_names
from core.engine.models.text import implementation_for
from core.engine.models.vision import check_checkpointing, find_image_model, image_model_without_numbers
from core.options import RunOptions
from core.options.choices import Attention, Method, Task


@contextmanager
def without_numbers(kind: str) -> Iterator[torch.device]:
    """Make every tensor of this block a fake one; gives the device they pretend to be on.

    Gradients are computed by this thread: the one torch would take for a GPU knows nothing of the pretence.
    """
    with FakeTensorMode(), torch.autograd.set_multithreading_enabled(False):
        yield torch.device(kind)


def text_model(options: RunOptions, config: Any) -> Any:
    """The model a run would train, on the meta device until `bring` puts it elsewhere.

    Args:
        options: What is asked, settled.
        config: The model's, with its labels; it may have been cut to fewer layers.

    Raises:
        ModelError: LoRA's targets match nothing, or it can't compute its activations again.
    """
    config = copy.deepcopy(config)
    if options.task is Task.TEXT_CLASSIFICATION:  # DeBERTa would look at the labels' numbers to find that out
        config.problem_type = "single_label_classification"
    attention = implementation_for(options.model, config, text.class_of(config, options.task))
    if options.model.attention in (Attention.FLASH_2, Attention.FLASH_3):
        attention = Attention.SDPA.value  # keeps as little, and needs no package
    with torch.device("meta"):
        model = text.random_model(config, options.task, attn_implementation=attention)
        model.config.use_cache = False  # as Trainer does
        if options.model.method is Method.QLORA:
            computed_in = COMPUTED_IN.get(options.device.precision, torch.float32)
            pack(model, head_names(model), options.model.quantization, computed_in)
    return _as_trained(model, options)


def vision_model(options: RunOptions, labels: int) -> Any:
    """The vision model a run would train; as `text_model`."""
    model = image_model_without_numbers(options, find_image_model(options), labels)
    return _as_trained(model, options)


def _as_trained(model: torch.nn.Module, options: RunOptions) -> Any:
    with torch.device("meta"):
        adapted: Any = apply_method(model, options)
    if options.memory.activation_checkpointing:
        check_checkpointing(adapted)
        # The state of random numbers has no memory worth counting, and can't be asked of a device that isn't there.
        recompute = {"use_reentrant": False, "preserve_rng_state": False}
        adapted.activation_checkpointing_enable(activation_checkpointing_kwargs=recompute)
    return adapted.train()


def bring(model: torch.nn.Module, device: torch.device) -> None:
    """Put fake tensors on `device`, from `without_numbers`, in the place of all weights and buffers.

    Shared ones stay shared.

    Not `model.to(...)`: PEFT moves its matrices on its own, and fake tensors refuse that.
    """
    made: dict[int, Any] = {}
    for part in model.modules():
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    made.setdefault(id(tensor), _like(tensor, device))
                    held[name] = made[id(tensor)]


def _like(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    fake = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
    if not isinstance(tensor, torch.nn.Parameter):
        return fake
    return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)


def batch(options: RunOptions, model: Any, length: int, device: torch.device) -> dict[str, torch.Tensor]:
    """One batch as the loader would make it; `length` is tokens of a row, or pixels of an image's side."""
    rows = 2 if options.task is Task.PREFERENCE else 1  # of the better and of the worse answer
    size = rows * options.memory.batch_size
    labels = torch.zeros(size, dtype=torch.int64, device=device)
    if options.task.reads_images:
        return {"pixel_values": torch.empty(size, 3, length, length, device=device), "labels": labels}
    names = ["input_ids", "attention_mask", "token_type_ids"]
    if options.task is Task.CAUSAL_LM:
        del names[1:]  # blocks have no padding
    tokens = [torch.zeros(size, length, dtype=torch.int64, device=device) for _ in names]
    made = dict(zip(names, tokens, strict=True))
    if not getattr(base_of(model).config, "type_vocab_size", 0):
        made.pop("token_type_ids", None)
    return {**made, "labels": _labels(options.task, labels, tokens[0])}


def _labels(task: Task, one_a_row: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Labels as the task has them: a class or a number a row, or one a token."""
    if task is Task.TEXT_REGRESSION:
        return one_a_row.float()
    return one_a_row if task.has_labels and task is not Task.TOKEN_CLASSIFICATION else tokens

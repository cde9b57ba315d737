"""What the device check computes: each function builds its question on the CPU and computes it on one side.

Those about known faults of Apple's MPS say which: all of them gave wrong numbers without an error.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from core.engine.device_check.compare import Side, Tensors
from core.engine.device_check.models import (
    WIDTH,
    ResidualBlocks,
    TinyTransformer,
    conv_net,
    gradients,
    random_tokens,
    token_loss,
)

LIMIT = 32_768
"""Sums over more tokens than this went wrong on MPS."""


def loss(side: Side) -> Tensors:
    """The losses of an encoder with padding and of a decoder."""
    return {name: loss for name, (_, loss) in _transformers(side).items()}


def all_gradients(side: Side) -> Tensors:
    """The gradient of every weight of an encoder with padding and of a decoder."""
    found: Tensors = {}
    for name, (model, loss) in _transformers(side).items():
        loss.backward()
        found |= _named(name, gradients(model))
    return found


def _transformers(side: Side) -> dict[str, tuple[nn.Module, torch.Tensor]]:
    found = {}
    for name, causal in (("encoder", False), ("decoder", True)):
        model = TinyTransformer(causal=causal)
        tokens = random_tokens(6, 48, 500, padded=9)
        model.to(side.device)
        found[name] = (model, token_loss(model, tokens.to(side.device)))
    return found


def across_the_limit(side: Side) -> Tensors:
    """Gradients of batches of more than 32,768 tokens, each after a smaller one.

    A weight's gradient is a sum over all tokens. On Apple's M1 and M2, matrix products over 32,767 terms and more read
    past the end of their operands, so that left-over numbers are added
    (https://github.com/pytorch/pytorch/issues/177116, explained in https://github.com/pytorch/pytorch/pull/195012,
    mended for two dimensions in torch 2.14). Fresh memory is zero and hides it, so this leaves used memory behind
    first. Some products that the hardware's tiles divide evenly are right: both counts of tokens here are uneven.
    """
    model = ResidualBlocks()
    batches = [random_tokens(*shape, 96) for shape in ((64, 32), (8194, 4), (16, 96), (259, 127))]
    model.to(side.device)
    _leave_used_memory(side)
    found: Tensors = {}
    for batch in batches:
        tokens = batch.to(side.device)
        model.zero_grad(set_to_none=True)
        token_loss(model, tokens).backward()
        if tokens.numel() > LIMIT:
            kept = {name: value.clone() for name, value in gradients(model).items()}
            found |= _named(f"{tokens.shape[0]} x {tokens.shape[1]} tokens", kept)
    return found


def _leave_used_memory(side: Side) -> None:
    """Have the device's allocator hold memory that isn't zero (64 MiB in blocks of several sizes)."""
    used = [torch.full((2**size,), 1e3, device=side.device) for size in (16, 18, 20, 22, 23)]
    del used


def large_vocabulary(side: Side) -> Tensors:
    """Gradients through an output layer of 50,257 tokens, as in GPT-2: sums over more than 32,768 terms.

    The second layer's gradient is right and what it hands to the first is not
    (https://github.com/pytorch/pytorch/issues/153957). A squared error spreads the gradient over the whole vocabulary;
    cross-entropy would leave nearly all of it on one token.
    """
    size, vocabulary = 130, 50_257
    model = nn.Sequential(nn.Linear(size, size, bias=False), nn.Linear(size, vocabulary, bias=False))
    inputs = torch.randn(2, 64, size)
    targets = torch.randn(2, 64, vocabulary)
    model.to(side.device)
    inputs = inputs.to(side.device).requires_grad_()
    _leave_used_memory(side)
    functional.mse_loss(model(inputs), targets.to(side.device)).backward()
    return {**gradients(model), "gradient of the input": _gradient(inputs)}


def optimizer_step(side: Side) -> Tensors:
    """Two steps of AdamW with given gradients: the change of every weight, and what the optimizer remembers.

    The gradients are given because AdamW's first step is nearly their sign: rounding noise in one that is nearly zero
    would come out as a full step. The reference takes torch's plain loop, the candidate the fused kernel that runs use.
    """
    model = TinyTransformer(causal=False)
    steps = [[torch.randn_like(weight) * 0.01 for weight in model.parameters()] for _ in range(2)]
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    model.to(side.device)
    kernel = {"foreach": False, "fused": False} if side.is_reference else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1, **kernel)
    for given in steps:
        for weight, gradient in zip(model.parameters(), given, strict=True):
            weight.grad = gradient.to(side.device)
        optimizer.step()
    found: Tensors = {}
    for name, weight in model.named_parameters():
        state = optimizer.state[weight]
        found[f"change of {name}"] = weight.detach().cpu() - before[name]
        found[f"first moment of {name}"] = state["exp_avg"]
        found[f"second moment of {name}"] = state["exp_avg_sq"]
    return found


def channels_last_batch_norm(side: Side) -> Tensors:
    """Loss, gradients and running statistics of a small network whose images are stored pixel by pixel.

    Batch norm's gradients were wrong in this layout on MPS (https://github.com/pytorch/pytorch/issues/175189).
    """
    model = conv_net()
    images, labels = torch.randn(8, 3, 24, 24), torch.randint(10, (8,))
    model.to(side.device, memory_format=torch.channels_last)
    images = images.to(side.device, memory_format=torch.channels_last).requires_grad_()
    found_loss = functional.cross_entropy(model(images), labels.to(side.device))
    found_loss.backward()
    statistics = {name: value for name, value in model.named_buffers() if "running" in name}
    return {
        "loss": found_loss,
        **gradients(model),
        "gradient of the images": _gradient(images),
        **statistics,
    }


def half_precision_causal(dtype: torch.dtype) -> Callable[[Side], Tensors]:
    """Attention in `dtype` where a token sees only those before it, beside the same numbers computed in fp32.

    Without gradients MPS takes other kernels than with them; in torch 2.13 those let three of every four tokens see
    what comes after (https://github.com/pytorch/pytorch/issues/195910), so an evaluation is wrong where training isn't.
    """

    def probe(side: Side) -> Tensors:
        query, key, value, weights = (torch.randn(2, 4, 192, 64).to(dtype) for _ in range(4))
        used = torch.float32 if side.is_reference else dtype
        query, key, value, weights = (
            tensor.to(side.device).to(used) for tensor in (query, key, value, weights)
        )
        with torch.no_grad():
            evaluated = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        leaves = {"queries": query, "keys": key, "values": value}
        for leaf in leaves.values():
            leaf.requires_grad_()
        trained = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        trained.backward(weights)
        found = {f"gradient of the {name}": _gradient(leaf) for name, leaf in leaves.items()}
        return {"output in evaluation": evaluated, "output in training": trained, **found}

    return probe


def norm_on_frozen_input(side: Side) -> Tensors:
    """Gradients of a layer norm whose input is frozen, as the first trained layer's is when those below are kept.

    On MPS they were wrong (https://github.com/pytorch/pytorch/issues/183825).
    """
    norm = nn.LayerNorm(WIDTH)
    inputs, weights = torch.randn(32, 48, WIDTH), torch.randn(32, 48, WIDTH)
    norm.to(side.device)
    (norm(inputs.to(side.device)) * weights.to(side.device)).sum().backward()
    return gradients(norm)


def transformer_across_the_limit(side: Side) -> Tensors:
    """Loss and gradients of an encoder over 32,949 tokens, after a smaller batch: `across_the_limit` with attention."""
    model = TinyTransformer(causal=False, vocabulary=96, layers=1)
    batches = [random_tokens(*shape, 96, padded=9) for shape in ((4, 64), (523, 63))]
    model.to(side.device)
    found_loss = torch.zeros(())
    for batch in batches:
        model.zero_grad(set_to_none=True)
        found_loss = token_loss(model, batch.to(side.device))
        found_loss.backward()
    return {"loss": found_loss, **gradients(model)}


def _gradient(tensor: torch.Tensor) -> torch.Tensor:
    assert tensor.grad is not None, "after backward"
    return tensor.grad


def _named(where: str, tensors: Tensors) -> Tensors:
    return {f"{where}: {name}": value for name, value in tensors.items()}

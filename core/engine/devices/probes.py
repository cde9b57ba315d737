"""The small models of the device check, made of the layers that fine-tuning uses, and their random weights.

None has a kink (ReLU, max pooling): a value that rounding carries over one changes a whole gradient, on a sound device
too. None has a weight whose true gradient is zero (a convolution's bias before a batch norm): all of it would be noise.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

# --- Two computations of the same thing side by side, and how far apart what they give is


SEED = 20240229

Tensors = dict[str, torch.Tensor]
"""What a computation gave, by names a person can read."""


@dataclass(frozen=True)
class Side:
    """Where one of the two computations takes place.

    `device` is torch's name (`cpu`, `mps`, `cuda:0`), `title` the name for people. `threads` is how many of the CPU's
    threads compute. The reference computes half-precision questions in fp32, the candidate in half precision.
    """

    device: str
    title: str
    threads: int
    is_reference: bool = False

    @property
    def kind(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.device.partition(":")[0]

    def compute(self, probe: "Probe") -> Tensors:
        """What `probe` gives here, on the CPU and in float32, its random numbers the same on every side.

        Raises:
            RuntimeError: torch can't compute it here; TypeError and ValueError likewise.
        """
        with _same_random_numbers(), _threads(self.threads), _full_float32(self.kind):
            found = probe(self)
            # first moved, then converted: MPS has no float64, and half precision is widened exactly
            return {name: value.detach().to("cpu").to(torch.float32) for name, value in found.items()}


Probe = Callable[[Side], Tensors]
"""Computes something on a side: builds its model on the CPU, with torch's random numbers, and moves it there."""


@dataclass(frozen=True)
class Difference:
    """The largest relative error of all tensors, and the tensor it is in; infinite where a value is no number."""

    error: float
    tensor: str


def difference(reference: Tensors, candidate: Tensors) -> Difference:
    """The worst of the relative errors of the tensors of the same name.

    Raises:
        ValueError: The two don't hold the same tensors.
    """
    if reference.keys() != candidate.keys() or not reference:
        raise ValueError(f"{sorted(candidate)} can't be compared with {sorted(reference)}")
    errors = {name: relative_error(value, candidate[name]) for name, value in reference.items()}
    worst = max(errors, key=lambda name: errors[name])
    return Difference(errors[worst], worst)


def relative_error(reference: torch.Tensor, candidate: torch.Tensor) -> float:
    """The largest absolute difference, as a share of the reference's largest absolute value.

    A share of the whole tensor's size and not of each value's: where large terms cancel out, a value near zero is
    rounding noise, and its own relative error says nothing.

    Args:
        reference: Any shape.
        candidate: The same shape.

    Returns:
        Infinity where either holds a value that is infinite or no number; the absolute difference where the reference
        is all zeros.
    """
    if not (torch.isfinite(reference).all() and torch.isfinite(candidate).all()):
        return math.inf
    worst = (reference - candidate).abs().max().item()
    scale = reference.abs().max().item()
    return worst / scale if scale else worst


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """The CPU's random numbers from a fixed seed, and afterwards as they were.

    `torch.manual_seed` would set every device's: a run that checks its device first shall train as if it hadn't.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        yield


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _full_float32(kind: str) -> Iterator[None]:
    """Keep cuDNN's convolutions from TF32, their default, whose 10 bits would be found as errors of 1e-3.

    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    """
    if kind != "cuda":
        yield
        return
    convolutions = torch.backends.cudnn.conv
    before = convolutions.fp32_precision
    convolutions.fp32_precision = "ieee"
    try:
        yield
    finally:
        convolutions.fp32_precision = before


# --- The small models of the device check, made of the layers that fine-tuning uses


PADDING = 0
WIDTH = 64


class TinyTransformer(nn.Module):
    """Embeddings, transformer layers and a head over the vocabulary, as in BERT or GPT but small; no dropout.

    Args:
        causal: Whether a token sees only those before it.
        vocabulary: How many tokens there are; token 0 is padding.
        layers: How many layers.
        longest: The most tokens of a sequence.
    """

    def __init__(self, *, causal: bool, vocabulary: int = 500, layers: int = 2, longest: int = 64) -> None:
        super().__init__()
        self.causal = causal
        self.tokens = nn.Embedding(vocabulary, WIDTH, padding_idx=PADDING)
        self.positions = nn.Embedding(longest, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape (batch, length, vocabulary) for token numbers of shape (batch, length)."""
        length = tokens.shape[1]
        places = torch.arange(length, device=tokens.device)
        hidden = self.tokens(tokens) + self.positions(places)
        future = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        hidden = self.layers(
            hidden, mask=future if self.causal else None, src_key_padding_mask=tokens == PADDING
        )
        return self.head(hidden)


class ResidualBlocks(nn.Module):
    """An embedding, two residual linear blocks and an output layer: the model of pytorch issue 177116."""

    def __init__(self, vocabulary: int = 96) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape (batch, length, vocabulary) for token numbers of shape (batch, length)."""
        hidden = self.tokens(tokens)
        hidden = hidden + functional.gelu(self.first(hidden))
        hidden = hidden + functional.gelu(self.second(hidden))
        return self.head(hidden)


def conv_net() -> nn.Sequential:
    """Two convolutions, each with a batch norm, and a classifier: (batch, 3, height, width) to (batch, 10)."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.GELU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def random_tokens(batch: int, length: int, vocabulary: int, *, padded: int = 0) -> torch.Tensor:
    """Token numbers of shape (batch, length), none of them padding but up to `padded` at each sequence's end."""
    tokens = torch.randint(PADDING + 1, vocabulary, (batch, length))
    if padded:
        ends = length - torch.arange(batch) % (padded + 1)
        tokens[torch.arange(length) >= ends.unsqueeze(1)] = PADDING
    return tokens


def token_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of predicting each next token, padding left out; `model` gives logits."""
    logits = model(tokens)[:, :-1].flatten(0, 1)
    return functional.cross_entropy(logits, tokens[:, 1:].flatten(), ignore_index=PADDING)


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    """The gradient of each weight, by its name."""
    return {
        f"gradient of {name}": weight.grad
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }


# --- What the device check computes


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

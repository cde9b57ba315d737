"""The device check: computes what fine-tuning needs on a device and on the CPU, and compares the results.

Tolerances are shares of a tensor's largest value (see `relative_error`). They were measured with torch 2.13 on a CPU,
where other kernels and numbers of threads stand for a sound device; nothing was measured on MPS or CUDA. In fp32,
losses and gradients of sound computations differ by 1.1e-5 at most; one term lost from a sum over 32,776 tokens changes
gradients by 1.6e-3 and more, multiplying in bf16 by 4.6e-3 and more. Causal attention differs from fp32 by 6.5e-3 in
bf16 and by 8e-4 in fp16, wherever its softmax is rounded; where three of four tokens see later ones, by 0.5 and more.

The small models have no kinks (ReLU, max pooling): a value that rounding moves across one changes a whole gradient,
on a sound device too. None has a weight whose true gradient is zero (a convolution's bias before a batch norm): it
would be all noise.
"""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import msgspec
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from core.base import settings
from core.base.errors import DeviceError, Fix, UserError
from core.base.files import write_atomically
from core.base.formats import paragraph
from core.base.jobs import EngineCrashed, run_job
from core.base.language import _, ngettext
from core.engine.devices.capabilities import gather, why_no_mlx
from core.engine.devices.choose import report
from core.engine.devices.computing import same_random_numbers, wait_for
from core.engine.devices.stored_checks import StoredCheck, software, stored_checks
from core.engine.reporter import Reporter
from core.jobs.devices import (
    CHECK_SECONDS,
    Agreement,
    DeviceCheckReport,
    DeviceCheckRequest,
    DeviceComparison,
)
from core.options.backend_rules import USE_TORCH
from core.options.choices import Backend
from core.options.device_support import MachineReport, find_device
from core.runs.events import MessageWithdrawn

SEED = 20240229
LIMIT = 32_768
"""Sums over more tokens than this were wrong on MPS."""
PADDING = 0
WIDTH = 64

Tensors = dict[str, torch.Tensor]
"""The results of a computation, by readable names."""


@dataclass(frozen=True)
class Side:
    """Where one of the two computations takes place.

    `device` is torch's name (`cpu`, `mps`, `cuda:0`), `threads` the number of CPU threads. The reference computes
    half-precision probes in fp32, the candidate in half precision.
    """

    device: str
    title: str
    threads: int
    is_reference: bool = False

    def compute(self, probe: "Probe") -> Tensors:
        """Runs `probe` here with fixed random numbers; the results are float32 on the CPU.

        Only the CPU's generator is seeded, and restored: a run that checks its device first trains as if it hadn't.
        cuDNN's convolutions don't use TF32, their default, whose 10 bits would show as errors of 1e-3
        (https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices).

        Raises:
            RuntimeError: torch can't compute it here; also TypeError and ValueError.
        """
        threads, convolutions = torch.get_num_threads(), torch.backends.cudnn.conv
        precision = convolutions.fp32_precision
        torch.set_num_threads(self.threads)
        if self.device.startswith("cuda"):
            convolutions.fp32_precision = "ieee"
        try:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(SEED)
                # moved before converted: MPS has no float64, and half precision is widened exactly
                return {name: value.detach().to("cpu").float() for name, value in probe(self).items()}
        finally:
            torch.set_num_threads(threads)
            if self.device.startswith("cuda"):
                convolutions.fp32_precision = precision


Probe = Callable[[Side], Tensors]
"""Computes something on a side: makes its model on the CPU, with torch's random numbers, and moves it there."""


def worst_difference(reference: Tensors, candidate: Tensors) -> tuple[float, str]:
    """Returns the largest relative error, and the name of its tensor.

    Raises:
        ValueError: The two don't have the same tensors.
    """
    if reference.keys() != candidate.keys() or not reference:
        raise ValueError(f"{sorted(candidate)} can't be compared with {sorted(reference)}")
    return max((relative_error(value, candidate[name]), name) for name, value in reference.items())


def relative_error(reference: torch.Tensor, candidate: torch.Tensor) -> float:
    """Returns the largest absolute difference, as a share of the reference's largest absolute value.

    Relative to the whole tensor, not to each value: where large terms cancel out, a value near zero is rounding noise.

    Returns:
        Infinity if either has infinite or NaN values; the absolute difference if the reference is all zeros.
    """
    if not (torch.isfinite(reference).all() and torch.isfinite(candidate).all()):
        return math.inf
    return (reference - candidate).abs().max().item() / (reference.abs().max().item() or 1.0)


# --- Models made of the layers that fine-tuning uses


class TinyTransformer(nn.Module):
    """Embeddings, transformer layers and a head over the vocabulary, like a small BERT or GPT without dropout."""

    def __init__(self, *, causal: bool, vocabulary: int = 500, layers: int = 2, width: int = WIDTH) -> None:
        super().__init__()
        self.causal = causal
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.positions = nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Maps token ids (batch, length) to logits (batch, length, vocabulary)."""
        length = tokens.shape[1]
        hidden = self.tokens(tokens) + self.positions(torch.arange(length, device=tokens.device))
        future = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        mask = future if self.causal else None
        return self.head(self.layers(hidden, mask=mask, src_key_padding_mask=tokens == PADDING))


class Residual(nn.Sequential):
    """Layers whose output is added to their input."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + super().forward(hidden)


def random_tokens(batch: int, length: int, vocabulary: int, *, padded: int = 0) -> torch.Tensor:
    """Returns token ids of shape (batch, length); each sequence ends with up to `padded` padding tokens."""
    tokens = torch.randint(PADDING + 1, vocabulary, (batch, length))
    if padded:
        ends = length - torch.arange(batch) % (padded + 1)
        tokens[torch.arange(length) >= ends.unsqueeze(1)] = PADDING
    return tokens


def token_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Returns the cross-entropy of the next tokens, without padding; `model` returns logits."""
    logits = model(tokens)[:, :-1].flatten(0, 1)
    return functional.cross_entropy(logits, tokens[:, 1:].flatten(), ignore_index=PADDING)


def gradients(model: nn.Module, prefix: str = "") -> Tensors:
    return {
        f"{prefix}gradient of {name}": weight.grad
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }


def _gradient(tensor: torch.Tensor) -> torch.Tensor:
    assert tensor.grad is not None, "after backward"
    return tensor.grad


# --- Probes


def loss(side: Side) -> Tensors:
    return {name: loss for name, _model, loss in _transformers(side)}


def all_gradients(side: Side) -> Tensors:
    found: Tensors = {}
    for name, model, loss in _transformers(side):
        loss.backward()
        found |= gradients(model, f"{name}: ")
    return found


def _transformers(side: Side) -> Iterator[tuple[str, nn.Module, torch.Tensor]]:
    for name, causal in (("encoder", False), ("decoder", True)):
        model = TinyTransformer(causal=causal)
        tokens = random_tokens(6, 48, 500, padded=9).to(side.device)
        yield name, model, token_loss(model.to(side.device), tokens)


def many_tokens(side: Side) -> Tensors:
    """Computes a weight's gradient, which is a sum over all tokens.

    On Apple's M1 and M2, matrix products over 32,767 terms and more read past the end of their operands and add what is
    there (https://github.com/pytorch/pytorch/issues/177116, explained in https://github.com/pytorch/pytorch/pull/195012,
    fixed for two dimensions in torch 2.14). Fresh memory is zero and hides it, so this dirties memory first. Some
    products that the hardware's tiles divide evenly are right: both numbers of tokens here are uneven.
    """
    blocks = [Residual(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _block in range(2)]
    model = nn.Sequential(nn.Embedding(96, WIDTH), *blocks, nn.Linear(WIDTH, 96))
    batches = [random_tokens(*shape, 96) for shape in ((64, 32), (8194, 4), (16, 96), (259, 127))]
    model.to(side.device)
    _dirty_memory(side)
    found: Tensors = {}
    for batch in batches:
        model.zero_grad(set_to_none=True)
        token_loss(model, batch.to(side.device)).backward()
        if batch.numel() > LIMIT:
            found |= gradients(model, f"{batch.shape[0]} x {batch.shape[1]} tokens: ")
    return found


def _dirty_memory(side: Side) -> None:
    """Leaves non-zero memory with the device's allocator (64 MiB in blocks of several sizes)."""
    blocks = [torch.full((2**size,), 1e3, device=side.device) for size in (16, 18, 20, 22, 23)]
    del blocks


def large_vocabulary(side: Side) -> Tensors:
    """Computes the output layer of GPT-2: sums over more than 32,768 terms.

    The second layer's gradient is right and the one it passes to the first is not
    (https://github.com/pytorch/pytorch/issues/153957). A squared error spreads the gradient over the whole vocabulary;
    cross-entropy would leave nearly all of it on one token.
    """
    size, vocabulary = 130, 50_257
    model = nn.Sequential(nn.Linear(size, size, bias=False), nn.Linear(size, vocabulary, bias=False))
    inputs, targets = torch.randn(2, 64, size), torch.randn(2, 64, vocabulary)
    model.to(side.device)
    inputs = inputs.to(side.device).requires_grad_()
    _dirty_memory(side)
    functional.mse_loss(model(inputs), targets.to(side.device)).backward()
    return {**gradients(model), "gradient of the input": _gradient(inputs)}


def optimizer_step(side: Side) -> Tensors:
    """Takes two steps of AdamW: returns the change of every weight, and the optimizer's state.

    The gradients are fixed because AdamW's first step is nearly their sign: rounding noise in one near zero would
    become a full step. The reference uses torch's plain loop, the candidate the fused kernel that runs use.
    """
    model = TinyTransformer(causal=False)
    steps = [[torch.randn_like(weight) * 0.01 for weight in model.parameters()] for _step in range(2)]
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    model.to(side.device)
    kernel = {"foreach": False, "fused": False} if side.is_reference else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1, **kernel)
    for step in steps:
        for weight, gradient in zip(model.parameters(), step, strict=True):
            weight.grad = gradient.to(side.device)
        optimizer.step()
    found: Tensors = {}
    for name, weight in model.named_parameters():
        state = optimizer.state[weight]
        found[f"change of {name}"] = weight.detach().cpu() - before[name]
        found[f"first moment of {name}"] = state["exp_avg"]
        found[f"second moment of {name}"] = state["exp_avg_sq"]
    return found


def causal_attention(side: Side, dtype: torch.dtype) -> Tensors:
    """Computes causal attention in `dtype`, to be compared with the same numbers computed in fp32.

    Without gradients, MPS uses other kernels than with them; in torch 2.13 those let three of every four tokens see
    later ones (https://github.com/pytorch/pytorch/issues/195910), so an evaluation is wrong where training isn't.
    """
    used = torch.float32 if side.is_reference else dtype
    rounded = [torch.randn(2, 4, 192, 64).to(dtype) for _tensor in range(4)]
    query, key, value, weights = (tensor.to(side.device).to(used) for tensor in rounded)
    with torch.no_grad():
        evaluated = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    leaves = {"queries": query, "keys": key, "values": value}
    for leaf in leaves.values():
        leaf.requires_grad_()
    trained = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    trained.backward(weights)
    found = {f"gradient of the {name}": _gradient(leaf) for name, leaf in leaves.items()}
    return {"output in evaluation": evaluated, "output in training": trained, **found}


def recomputed_activations(side: Side) -> Tensors:
    """Returns how far gradients with recomputed activations are from those without, with dropout in both.

    All zeros where the recomputation draws the same random numbers; see `core.engine.models.parts`.
    """
    blocks = [Residual(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1)) for _block in range(3)]
    model = nn.Sequential(*blocks).to(side.device)
    inputs = torch.randn(32, WIDTH).to(side.device)
    kind = side.device.partition(":")[0]
    numbers = torch if kind == "cpu" else torch.get_device_module(kind)
    state, found = numbers.get_rng_state(), []
    how: dict[str, Any] = {"use_reentrant": False, "context_fn": partial(same_random_numbers, kind)}
    for recomputes in (False, True):
        model.zero_grad(set_to_none=True)
        numbers.set_rng_state(state)
        hidden = inputs
        for block in blocks:
            hidden = checkpoint(block, hidden, **how) if recomputes else block(hidden)
        hidden.square().mean().backward()
        found.append(gradients(model))
    numbers.set_rng_state(state)
    plain, again = found
    return {name: (again[name] - value) / value.abs().max() for name, value in plain.items()}


def channels_last_batch_norm(side: Side) -> Tensors:
    """Computes batch norms with channels last, wrong on MPS once (https://github.com/pytorch/pytorch/issues/175189)."""
    model = nn.Sequential(
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
    images, labels = torch.randn(8, 3, 24, 24), torch.randint(10, (8,))
    model.to(side.device, memory_format=torch.channels_last)
    images = images.to(side.device, memory_format=torch.channels_last).requires_grad_()
    model_loss = functional.cross_entropy(model(images), labels.to(side.device))
    model_loss.backward()
    statistics = {name: value for name, value in model.named_buffers() if "running" in name}
    return {
        "loss": model_loss,
        **gradients(model),
        "gradient of the images": _gradient(images),
        **statistics,
    }


def norm_on_frozen_input(side: Side) -> Tensors:
    """Computes a norm above frozen layers, wrong on MPS once (https://github.com/pytorch/pytorch/issues/183825)."""
    norm = nn.LayerNorm(WIDTH)
    inputs, weights = (torch.randn(32, 48, WIDTH).to(side.device) for _tensor in range(2))
    (norm.to(side.device)(inputs) * weights).sum().backward()
    return gradients(norm)


def attention_over_many_tokens(side: Side) -> Tensors:
    model = TinyTransformer(causal=False, vocabulary=96, layers=1)
    batches = [random_tokens(*shape, 96, padded=9) for shape in ((4, 64), (523, 63))]
    model.to(side.device)
    model_loss = torch.zeros(())
    for batch in batches:
        model.zero_grad(set_to_none=True)
        model_loss = token_loss(model, batch.to(side.device))
        model_loss.backward()
    return {"loss": model_loss, **gradients(model)}


def packed_layer(side: Side) -> Tensors:
    """Returns a linear layer whose weights bitsandbytes packs as nf4, as QLoRA does.

    They lie near the 16 values of nf4, so that rounding moves none to another code.
    """
    from bitsandbytes.functional import dequantize_4bit, get_4bit_type
    from bitsandbytes.nn import Linear4bit

    values = get_4bit_type("nf4", device="cpu")
    weights = values[torch.randint(16, (96, WIDTH))] + 0.01 * torch.rand(96, WIDTH)
    weights[:, 0] = 1.01  # the largest of each block of 64
    inputs = torch.randn(8, WIDTH).to(side.device).requires_grad_()
    layer: Any = Linear4bit(WIDTH, 96, bias=False, compute_dtype=torch.float32, quant_type="nf4")
    layer.weight.data = weights * (0.5 + torch.rand(96, 1))
    layer.to(side.device)
    layer(inputs).square().mean().backward()
    packed = layer.weight
    unpacked = dequantize_4bit(packed.data, packed.quant_state)
    return {
        "packed weights": packed.data,
        "unpacked weights": unpacked,
        "gradient of the input": _gradient(inputs),
    }


# --- The comparisons, in order of importance


FP32 = 1e-3
USE_CPU = _("Train on the CPU, or with another version of PyTorch.")
FEWER_TOKENS = _("Keep batch size times length below 32,768 tokens; accumulate gradients instead.")


@dataclass(frozen=True)
class DeviceProbe:
    """One comparison: `name`, `explanation` and `tolerance` as in `core.jobs.devices.DeviceComparison`.

    `remedy`: what to do if it differs. `short`: part of the short check. `repeats`: the device is compared with itself.
    """

    name: str
    explanation: str
    probe: Probe
    tolerance: float = FP32
    remedy: str = USE_CPU
    short: bool = False
    repeats: bool = False


def _causal_mask(name: str, dtype: torch.dtype, tolerance: float) -> DeviceProbe:
    return DeviceProbe(
        _("Causal mask in {name}").format(name=name),
        _("Attention in {name} where no token may see later ones, in evaluation and training.").format(
            name=name
        ),
        partial(causal_attention, dtype=dtype),
        tolerance=tolerance,
        remedy=_(
            'Evaluations and Try it use the attention "eager" then, by themselves. If training differs: use fp32, or '
            '"eager".'
        ),
        short=True,
    )


CAUSAL = {
    torch.bfloat16: _causal_mask("bf16", torch.bfloat16, 3e-2),
    torch.float16: _causal_mask("fp16", torch.float16, 5e-3),
}
PACKED = DeviceProbe(
    _("Weights in 4 bits"),
    _("A layer packed as nf4: its codes, what they unpack to, and the gradient that it passes on."),
    packed_layer,
    remedy=_("Use LoRA without quantization, or train on the CPU."),
    short=True,
)
CHECKS = (
    DeviceProbe(
        _("Gradients"),
        _("The gradient of every weight of the encoder and the decoder."),
        all_gradients,
        short=True,
    ),
    DeviceProbe(
        _("More than 32,768 tokens"),
        _("Gradients of a batch of more than 32,768 tokens, computed after a smaller one."),
        many_tokens,
        remedy=FEWER_TOKENS,
        short=True,
    ),
    *CAUSAL.values(),
    DeviceProbe(
        _("Recomputed activations"),
        _("Gradients with activation checkpointing and without, with the same dropout."),
        recomputed_activations,
        remedy=_("Turn activation checkpointing off, or train on the CPU."),
        short=True,
    ),
    DeviceProbe(_("Loss"), _("The losses of a small encoder and a small decoder."), loss, 1e-4, short=True),
    DeviceProbe(
        _("Large vocabulary"),
        _("Gradients through an output layer of 50,257 tokens."),
        large_vocabulary,
        remedy=_("Train language models on the CPU; classifiers have few outputs and are not affected."),
        short=True,
    ),
    DeviceProbe(
        _("Optimizer step"),
        _("The weights after two steps of AdamW with the same gradients."),
        optimizer_step,
        remedy=_("Choose another optimizer, or train on the CPU."),
        short=True,
    ),
    *((PACKED,) if find_spec("bitsandbytes") else ()),
    DeviceProbe(
        _("Batch norm, channels last"),
        _("Loss, gradients and statistics of a small image model in the channels-last memory format."),
        channels_last_batch_norm,
        remedy=_("Keep the default memory format of images."),
    ),
    DeviceProbe(
        _("Layer norm on frozen layers"),
        _("Gradients of a layer norm above layers that are not trained."),
        norm_on_frozen_input,
        remedy=_("Train all weights, or use LoRA."),
    ),
    DeviceProbe(
        _("Repeated"),
        _("The gradients of the encoder and the decoder, computed twice on the same device."),
        all_gradients,
        1e-4,
        repeats=True,
    ),
    DeviceProbe(
        _("Attention over many tokens"),
        _("Loss and gradients of an encoder over more than 32,768 tokens, computed after a smaller batch."),
        attention_over_many_tokens,
        remedy=FEWER_TOKENS,
    ),
)


# --- How much faster bf16 is


WARM_UP, TIMED = 3, 7


def bf16_speedup(device: str, clock: Callable[[], float] = time.perf_counter) -> float | None:
    """Returns a small decoder's median step time in fp32 over that in bf16; None if torch can't compute it.

    Written for Apple GPUs and never run on one.
    """
    wait = wait_for(device) or (lambda: None)
    medians = []
    try:
        with torch.random.fork_rng(devices=[]):
            model = TinyTransformer(causal=True, layers=4, width=512).to(device)
            tokens = random_tokens(16, 64, 500).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for is_half in (False, True):
            seconds = []
            for _step in range(WARM_UP + TIMED):
                start = clock()
                with torch.autocast(device, torch.bfloat16, enabled=is_half):
                    model_loss = token_loss(model, tokens)
                model_loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                wait()
                seconds.append(clock() - start)
            medians.append(median(seconds[WARM_UP:]))
    except PROBE_ERRORS:
        return None
    return medians[0] / medians[1]


# --- The job


FULL_SECONDS = 25.0
SHORT_SECONDS = 5.0
"""No comparison starts after this time; the last may take a few seconds more, 30 in all."""

PROBE_ERRORS = (RuntimeError, TypeError, ValueError, MemoryError)
"""What torch raises if it can't compute something: out of memory and NotImplementedError are RuntimeErrors."""


def check_device(
    request: DeviceCheckRequest, mlx: Callable[[], Sequence[DeviceProbe]] = tuple
) -> DeviceCheckReport:
    """Compares a device with the CPU; on a computer without an accelerator, one thread with several.

    Args:
        request: What to compare.
        mlx: Loads the comparisons of MLX, which are made first, on devices that it computes on.

    Raises:
        DeviceError: The device is not available here.
    """
    facts = gather()
    reference, candidate = sides(report(facts), request.device, torch.get_num_threads())
    has_mlx = request.backend is not Backend.TORCH and not why_no_mlx(
        facts, candidate.device.partition(":")[0]
    )
    has_torch = request.backend is not Backend.MLX
    known = (*(mlx() if has_mlx else ()), *(CHECKS if has_torch else ()))
    left = [check for check in known if check.name not in request.finished]
    checks = [check for check in left if check.short or not request.short]
    start = time.monotonic()
    comparisons = run_checks(checks, reference, candidate, SHORT_SECONDS if request.short else FULL_SECONDS)
    return DeviceCheckReport(
        device=candidate.device,
        title=candidate.title,
        reference=reference.title,
        software=f"MLX {facts.optional['mlx']}, {software()}" if has_mlx else software(),
        conclusion=conclusion(comparisons, reference, candidate),
        comparisons=comparisons,
        bf16_speedup=bf16_speedup("mps")
        if request.short and has_torch and candidate.device == "mps"
        else None,
        seconds=time.monotonic() - start,
        short=request.short,
    )


def sides(machine: MachineReport, name: str, threads: int) -> tuple[Side, Side]:
    """Returns the reference and the candidate, which has this `device.name`.

    Raises:
        DeviceError: The device is not available here.
    """
    device, cpu = find_device(machine, name), find_device(machine, "cpu")
    assert cpu is not None, "every computer has one"
    if device is None or not device.available:
        detail = device.reason if device else _("`hone devices` lists the devices of this computer.")
        raise DeviceError(_("{name} is not available here").format(name=name), detail)
    candidate = Side(device.name, device.title, threads)
    if device.name == "cpu":
        threads = max(threads, 2)
        candidate = Side("cpu", _("{cpu}, 1 thread").format(cpu=cpu.title), 1)
    title = _("{cpu}, {threads} threads").format(cpu=cpu.title, threads=threads)
    return Side("cpu", title, threads, is_reference=True), candidate


def run_checks(
    checks: Sequence[DeviceProbe],
    reference: Side,
    candidate: Side,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[DeviceComparison, ...]:
    """Makes the comparisons one after another; none starts after `seconds`."""
    deadline, comparisons = clock() + seconds, []
    for check in checks:
        start = clock()
        result: dict[str, Any] = {
            "agreement": Agreement.NOT_RUN,
            "detail": _("No comparison starts after {seconds:.0f} s.").format(seconds=seconds),
        }
        if start < deadline:
            print(f"Device check: {check.name}", file=sys.stderr, flush=True)  # a crash report ends with it
            result = {**_compare(check, reference, candidate), "seconds": clock() - start}
        comparisons.append(
            DeviceComparison(
                name=check.name, explanation=check.explanation, tolerance=check.tolerance, **result
            )
        )
    return tuple(comparisons)


def _compare(check: DeviceProbe, reference: Side, candidate: Side) -> dict[str, Any]:
    """Returns the result of a comparison, by fields of `DeviceComparison`."""
    try:
        first = (candidate if check.repeats else reference).compute(check.probe)
        error, tensor = worst_difference(first, candidate.compute(check.probe))
    except PROBE_ERRORS as raised:
        line = next(iter(str(raised).strip().splitlines()), "")  # torch goes on with its source lines
        return {"agreement": Agreement.NOT_RUN, "detail": f"{type(raised).__name__}: {line}"[:300]}
    notes = []
    if not math.isfinite(error):
        notes.append(_("It has infinite values or NaNs."))
    elif check.repeats:
        notes.append(_("Bit for bit the same.") if error == 0 else _("Not bit for bit the same."))
    if error > check.tolerance:
        notes.append(check.remedy)
    return {
        "agreement": Agreement.DIFFERS if error > check.tolerance else Agreement.AGREES,
        "worst_error": error if math.isfinite(error) else None,
        "worst_tensor": tensor if error else "",
        "detail": paragraph(*notes),
    }


def conclusion(comparisons: Sequence[DeviceComparison], reference: Side, candidate: Side) -> str:
    differing = [comparison.name for comparison in comparisons if comparison.differs]
    agreeing = sum(comparison.agrees for comparison in comparisons)
    names = {"device": candidate.title, "reference": reference.title}
    if differing:
        text = _("{device} and {reference} differ in: {names}. Training that uses this may go wrong.")
        lines = [text.format(names="; ".join(differing), **names)]
    elif agreeing:
        text = ngettext(
            "{device} and {reference} agree in {count} comparison.",
            "{device} and {reference} agree in {count} comparisons.",
            agreeing,
        )
        lines = [text.format(count=agreeing, **names)]
    else:
        return _("{device} and {reference} could not be compared.").format(**names)
    if not_run := len(comparisons) - agreeing - len(differing):
        text = ngettext("{count} comparison was not run.", "{count} comparisons were not run.", not_run)
        lines.append(text.format(count=not_run))
    return paragraph(*lines)


# --- Causal attention on a Mac's GPU


def sees_later_tokens(device: str, dtype: torch.dtype) -> bool:
    """Returns whether causal attention in half precision is wrong on this device; found out in milliseconds."""
    cpu = Side("cpu", "", torch.get_num_threads(), is_reference=True)
    return _compare(CAUSAL[dtype], cpu, Side(device, "", cpu.threads))["agreement"] is Agreement.DIFFERS


# --- The first run on a Mac's GPU compares it with the CPU


MESSAGE = "device-check"
FIXES = {
    Backend.TORCH: (Fix(_("Train on the CPU"), {"device.name": "cpu"}),),
    Backend.MLX: (USE_TORCH,),
}
TRIES = 3
"""How often a check that gives no answer is repeated for one version of the engine and macOS."""


def warn_of_wrong_numbers(
    reporter: Reporter, backend: Backend = Backend.TORCH, checks: Sequence[DeviceProbe] = CHECKS
) -> None:
    """Compares the GPU with the CPU, and warns of differences.

    Each comparison of an engine's short check is made once for each version of it and of macOS, which bring other
    kernels: what time didn't suffice for, before the next run. The check has its own process: it leaves no trace here,
    and a fault of Metal ends only that.

    Args:
        reporter: Of the run.
        backend: Its engine.
        checks: The comparisons of that.
    """
    key, stored = software(backend), stored_checks()
    check = stored.get(key, StoredCheck())
    finished = tuple(comparison.name for comparison in check.comparisons)
    if check.tries < TRIES and any(known.short and known.name not in finished for known in checks):
        title = _("Comparing this Mac's GPU with its CPU")
        reporter.note(MESSAGE, title, _("This takes a few seconds. The result is stored."))
        request = DeviceCheckRequest(device="mps", backend=backend, short=True, finished=finished)
        try:
            report = run_job("check-device", request, DeviceCheckReport, timeout=CHECK_SECONDS)
            made = tuple(comparison for comparison in report.comparisons if comparison.seconds)
            # the first measurement stays: a resumed run goes on in the precision that it chose
            speedup = check.bf16_speedup or report.bf16_speedup
            check = StoredCheck(comparisons=(*check.comparisons, *made), bf16_speedup=speedup)
        except (UserError, EngineCrashed, OSError) as error:
            check = msgspec.structs.replace(check, failure=str(error), tries=check.tries + 1)
        with contextlib.suppress(OSError):  # the next run repeats the check
            settings.home().mkdir(parents=True, exist_ok=True)
            content = msgspec.json.format(msgspec.json.encode({**stored, key: check}))
            write_atomically(settings.home() / "device-checks.json", content)
        reporter.write(MessageWithdrawn(id=MESSAGE))
    again = _("`hone devices --check` compares again, with more computations.")
    if differing := [comparison for comparison in check.comparisons if comparison.differs]:
        lines = [
            _("{name}: error {error} in {tensor}. {detail}").format(
                name=comparison.name,
                error=math.inf if comparison.worst_error is None else f"{comparison.worst_error:.1g}",
                tensor=comparison.worst_tensor,
                detail=comparison.detail,
            )
            for comparison in differing
        ]
        lines.append(f"{key}. {again}")
        avoided = {known.name for known in CAUSAL.values()}
        fixes = FIXES[backend] if any(comparison.name not in avoided for comparison in differing) else ()
        reporter.warn(MESSAGE, _("This Mac's GPU computes wrong results"), "\n".join(lines), fixes)
    elif check.failure:
        reporter.warn(
            MESSAGE, _("This Mac's GPU could not be checked"), f"{check.failure}\n{again}", FIXES[backend]
        )

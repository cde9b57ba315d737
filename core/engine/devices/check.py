"""The device check: what fine-tuning computes, on a device and on the CPU, and how far apart the two are.

Tolerances are shares of a tensor's largest value (see `relative_error`). What they have to tell apart was measured with
torch 2.13 on a CPU, where other kernels and other counts of threads stand for a sound device; nothing was measured on
MPS or CUDA. In fp32, losses and gradients of sound computations differ by 1.1e-5 at most; one term lost from a sum
over 32,776 tokens changes gradients by 1.6e-3 and more, multiplying in bf16 by 4.6e-3 and more. Causal attention
differs from fp32 by 6.5e-3 in bf16 and by 8e-4 in fp16, wherever its softmax is rounded; where three of four tokens see
what comes after them, by 0.5 and more.

The small models have no kinks (ReLU, max pooling): a value that rounding carries over one changes a whole gradient, on
a sound device too. None has a weight whose true gradient is zero (a convolution's bias before a batch norm): all of it
would be noise.
"""

import contextlib
import importlib.metadata
import math
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn
from torch.nn import functional

from core.base import settings
from core.base.errors import DeviceError, Fix, UserError
from core.base.files import write_atomically
from core.base.jobs import EngineCrashed, run_job
from core.base.language import _
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import report
from core.engine.reporter import Reporter
from core.options.device_support import MachineReport, find_device
from core.runs.events import MessageWithdrawn
from core.services.devices import CHECK_SECONDS, Agreement, Comparison, DeviceCheckReport, DeviceCheckRequest

SEED = 20240229
LIMIT = 32_768
"""Sums over more tokens than this went wrong on MPS."""
PADDING = 0
WIDTH = 64

Tensors = dict[str, torch.Tensor]
"""What a computation gave, by names a person can read."""


@dataclass(frozen=True)
class Side:
    """Where one of the two computations takes place.

    `device` is torch's name (`cpu`, `mps`, `cuda:0`), `title` the name for people. `threads` is how many of the CPU's
    threads compute. The reference computes half-precision probes in fp32, the candidate in half precision.
    """

    device: str
    title: str
    threads: int
    is_reference: bool = False

    def compute(self, probe: "Probe") -> Tensors:
        """What `probe` gives here, on the CPU and in float32, its random numbers the same on every side.

        The CPU's generator alone is seeded, and set back: a run that checks its device first trains as if it hadn't.
        cuDNN's convolutions are kept from TF32, their default, whose 10 bits would be found as errors of 1e-3
        (https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices).

        Raises:
            RuntimeError: torch can't compute it here; TypeError and ValueError likewise.
        """
        threads, convolutions = torch.get_num_threads(), torch.backends.cudnn.conv
        precision = convolutions.fp32_precision
        torch.set_num_threads(self.threads)
        if self.device.startswith("cuda"):
            convolutions.fp32_precision = "ieee"
        try:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(SEED)
                found = probe(self)
                # first moved, then converted: MPS has no float64, and half precision is widened exactly
                return {name: value.detach().to("cpu").to(torch.float32) for name, value in found.items()}
        finally:
            torch.set_num_threads(threads)
            if self.device.startswith("cuda"):
                convolutions.fp32_precision = precision


Probe = Callable[[Side], Tensors]
"""Computes something on a side: builds its model on the CPU, with torch's random numbers, and moves it there."""


def worst_difference(reference: Tensors, candidate: Tensors) -> tuple[float, str]:
    """The largest relative error of the tensors of the same name, and the name of its tensor.

    Raises:
        ValueError: The two don't hold the same tensors.
    """
    if reference.keys() != candidate.keys() or not reference:
        raise ValueError(f"{sorted(candidate)} can't be compared with {sorted(reference)}")
    return max((relative_error(value, candidate[name]), name) for name, value in reference.items())


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
    return worst / (reference.abs().max().item() or 1.0)


# --- The models: made of the layers that fine-tuning uses


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


class Residual(nn.Sequential):
    """Layers whose output is added to their input."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + super().forward(hidden)


def residual_blocks(vocabulary: int = 96) -> nn.Sequential:
    """The model of pytorch issue 177116: (batch, length) of token numbers to (batch, length, vocabulary)."""
    blocks = [Residual(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _rest in range(2)]
    return nn.Sequential(nn.Embedding(vocabulary, WIDTH), *blocks, nn.Linear(WIDTH, vocabulary))


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


def gradients(model: nn.Module, where: str = "") -> Tensors:
    """The gradient of each weight, by its name; `where` goes before the names."""
    return {
        _("{where}gradient of {name}").format(where=where, name=name): weight.grad
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }


# --- The comparisons, in order of importance


FP32 = 1e-3
USE_CPU = _("Train on the CPU, or with another version of PyTorch.")
FEWER_TOKENS = "Keep batch size times length below 32,768 tokens; accumulate gradients instead."
OTHER_ATTENTION = _('Use fp32, or the attention "eager".')


@dataclass(frozen=True)
class Check:
    """One comparison to make.

    `name`, `explanation` and `tolerance` as in `core.services.devices.Comparison`; `remedy` says what to do where it
    differs. `short`: the short form makes it too. `repeats`: the device is compared with itself, not the reference.
    """

    name: str
    explanation: str
    probe: Probe
    tolerance: float = FP32
    remedy: str = USE_CPU
    short: bool = False
    repeats: bool = False


CHECKS: list[Check] = []


def compared(name: str, explanation: str, **more: Any) -> Callable[[Probe], Probe]:
    """Have a probe compared, after those that are already; `more` as in `Check`."""

    def add(probe: Probe) -> Probe:
        CHECKS.append(Check(name, explanation, probe, **more))
        return probe

    return add


@compared("Loss", _("The losses of a small encoder and a small decoder."), tolerance=1e-4, short=True)
def loss(side: Side) -> Tensors:
    return {name: loss for name, _rest, loss in _transformers(side)}


@compared("Gradients", _("The gradient of every weight of the encoder and the decoder."), short=True)
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


@compared(
    _("More than 32,768 tokens"),
    _("Gradients of a batch of more than 32,768 tokens, computed after a smaller one."),
    remedy=FEWER_TOKENS,
    short=True,
)
def across_the_limit(side: Side) -> Tensors:
    """A weight's gradient is a sum over all tokens.

    On Apple's M1 and M2, matrix products over 32,767 terms and more read past the end of their operands, so that
    left-over numbers are added (https://github.com/pytorch/pytorch/issues/177116, explained in https://github.com/pytorch/pytorch/pull/195012,
    mended for two dimensions in torch 2.14). Fresh memory is zero and hides it, so this leaves used memory behind
    first. Some products that the hardware's tiles divide evenly are right: both counts of tokens here are uneven.
    """
    model = residual_blocks()
    batches = [random_tokens(*shape, 96) for shape in ((64, 32), (8194, 4), (16, 96), (259, 127))]
    model.to(side.device)
    _leave_used_memory(side)
    found: Tensors = {}
    for batch in batches:
        tokens = batch.to(side.device)
        model.zero_grad(set_to_none=True)
        token_loss(model, tokens).backward()
        if tokens.numel() > LIMIT:
            found |= gradients(model, f"{tokens.shape[0]} x {tokens.shape[1]} tokens: ")
    return found


def _leave_used_memory(side: Side) -> None:
    """Have the device's allocator hold memory that isn't zero (64 MiB in blocks of several sizes)."""
    used = [torch.full((2**size,), 1e3, device=side.device) for size in (16, 18, 20, 22, 23)]
    del used


@compared(
    _("Large vocabulary"),
    _("Gradients through an output layer of 50,257 tokens."),
    remedy="Train language models on the CPU; classifiers have few outputs and are not affected.",
    short=True,
)
def large_vocabulary(side: Side) -> Tensors:
    """The output layer of GPT-2: sums over more than 32,768 terms.

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


@compared(
    _("Optimizer step"),
    _("What AdamW makes of the weights when it is given the same gradients."),
    remedy=_("Choose another optimizer, or train on the CPU."),
    short=True,
)
def optimizer_step(side: Side) -> Tensors:
    """Two steps: the change of every weight, and what the optimizer remembers.

    The gradients are given because AdamW's first step is nearly their sign: rounding noise in one that is nearly zero
    would come out as a full step. The reference takes torch's plain loop, the candidate the fused kernel that runs use.
    """
    model = TinyTransformer(causal=False)
    steps = [[torch.randn_like(weight) * 0.01 for weight in model.parameters()] for _rest in range(2)]
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


def causal_attention(side: Side, dtype: torch.dtype) -> Tensors:
    """Attention in `dtype` where a token sees only those before it, beside the same numbers computed in fp32.

    Without gradients MPS takes other kernels than with them; in torch 2.13 those let three of every four tokens see
    what comes after (https://github.com/pytorch/pytorch/issues/195910), so an evaluation is wrong where training isn't.
    """

    query, key, value, weights = (torch.randn(2, 4, 192, 64).to(dtype) for _rest in range(4))
    used = torch.float32 if side.is_reference else dtype
    query, key, value, weights = (tensor.to(side.device).to(used) for tensor in (query, key, value, weights))
    with torch.no_grad():
        evaluated = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    leaves = {"queries": query, "keys": key, "values": value}
    for leaf in leaves.values():
        leaf.requires_grad_()
    trained = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    trained.backward(weights)
    found = {_("gradient of the {name}").format(name=name): _gradient(leaf) for name, leaf in leaves.items()}
    return {"output in evaluation": evaluated, "output in training": trained, **found}


for _dtype, _name, _tolerance in ((torch.bfloat16, "bf16", 3e-2), (torch.float16, "fp16", 5e-3)):
    compared(
        _("Causal mask in {name}").format(name=_name),
        _(
            "Attention in {name} in which no token may see those after it, in evaluation and in training."
        ).format(name=_name),
        tolerance=_tolerance,
        remedy=OTHER_ATTENTION,
    )(partial(causal_attention, dtype=_dtype))


@compared(
    _("Batch norm, channels last"),
    _("Loss, gradients and statistics of a small image model whose images are stored pixel by pixel."),
    remedy=_("Keep images stored channel by channel, as they are by default."),
)
def channels_last_batch_norm(side: Side) -> Tensors:
    """Gradients were wrong in this layout on MPS (https://github.com/pytorch/pytorch/issues/175189)."""
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


@compared(
    _("Layer norm on frozen layers"),
    _("Gradients of a layer norm above layers that are not trained."),
    remedy=_("Train all weights, or use LoRA."),
)
def norm_on_frozen_input(side: Side) -> Tensors:
    """They were wrong on MPS (https://github.com/pytorch/pytorch/issues/183825)."""
    norm = nn.LayerNorm(WIDTH)
    inputs, weights = (torch.randn(32, 48, WIDTH).to(side.device) for _rest in range(2))
    (norm.to(side.device)(inputs) * weights).sum().backward()
    return gradients(norm)


compared(
    "Repeated",
    _("The gradients of the encoder and the decoder, computed twice on the same device."),
    tolerance=1e-4,
    repeats=True,
)(all_gradients)


@compared(
    _("Attention over many tokens"),
    _("Loss and gradients of an encoder over more than 32,768 tokens, computed after a smaller batch."),
    remedy=FEWER_TOKENS,
)
def transformer_across_the_limit(side: Side) -> Tensors:
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


# --- The job


FULL_SECONDS = 25.0
SHORT_SECONDS = 5.0
"""After this long no further comparison is begun: the last may take a few seconds more, 30 in all."""

LONGEST_REASON = 300

PROBE_ERRORS = (RuntimeError, TypeError, ValueError, MemoryError)
"""What torch raises where it can't compute something: out of memory and NotImplementedError are RuntimeErrors."""


def check_device(request: DeviceCheckRequest) -> DeviceCheckReport:
    """Compare a device with the CPU; on a computer without an accelerator, one thread with several.

    Raises:
        DeviceError: The device is not available here.
    """
    reference, candidate = sides(report(gather()), request.device, torch.get_num_threads())
    checks = [check for check in CHECKS if check.short or not request.short]
    begun = time.monotonic()
    comparisons = run_checks(checks, reference, candidate, SHORT_SECONDS if request.short else FULL_SECONDS)
    return DeviceCheckReport(
        device=candidate.device,
        title=candidate.title,
        reference=reference.title,
        software=software(),
        conclusion=conclusion(comparisons, reference, candidate),
        comparisons=comparisons,
        seconds=time.monotonic() - begun,
        short=request.short,
    )


def software() -> str:
    """What computes, as in `DeviceCheckReport`."""
    torch_version, macos = (
        _("PyTorch {version}").format(version=importlib.metadata.version("torch")),
        platform.mac_ver()[0],
    )
    return (
        _("{torch_version}, macOS {macos}").format(torch_version=torch_version, macos=macos)
        if macos
        else torch_version
    )


def sides(machine: MachineReport, name: str, threads: int) -> tuple[Side, Side]:
    """The reference and the candidate.

    Args:
        machine: What is here.
        name: The device as in `device.name`.
        threads: How many threads of the CPU torch uses.

    Raises:
        DeviceError: The device is not available here.
    """
    device, cpu = find_device(machine, name), find_device(machine, "cpu")
    assert cpu is not None, "every computer has one"
    if device is None or not device.available:
        why = device.reason if device else _("`hone devices` lists the devices of this computer.")
        raise DeviceError(_("{name} is not available here").format(name=name), why)
    if device.name != "cpu":
        return Side("cpu", f"{cpu.title}, {threads} threads", threads, True), Side(
            device.name, device.title, threads
        )
    several = max(threads, 2)
    return Side("cpu", f"{cpu.title}, {several} threads", several, True), Side(
        "cpu", f"{cpu.title}, 1 thread", 1
    )


def run_checks(
    checks: Sequence[Check],
    reference: Side,
    candidate: Side,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Comparison, ...]:
    """Make the comparisons one after another; those that are not begun within `seconds` are not run."""
    deadline, found = clock() + seconds, []
    for check in checks:
        begun = clock()
        comparison = Comparison(
            name=check.name,
            explanation=check.explanation,
            tolerance=check.tolerance,
            agreement=Agreement.NOT_RUN,
            detail=_("No comparison is begun after {seconds:.0f} s.").format(seconds=seconds),
        )
        if begun < deadline:
            print(
                _("Device check: {name}").format(name=check.name), file=sys.stderr, flush=True
            )  # a crash's report ends with it
            result = _compare(check, reference, candidate)
            comparison = msgspec.structs.replace(comparison, **result, seconds=clock() - begun)
        found.append(comparison)
    return tuple(found)


def _compare(check: Check, reference: Side, candidate: Side) -> dict[str, Any]:
    """What came of a comparison, by the fields of `Comparison`."""
    try:
        first = (candidate if check.repeats else reference).compute(check.probe)
        error, tensor = worst_difference(first, candidate.compute(check.probe))
    except PROBE_ERRORS as raised:
        line = (str(raised).strip().splitlines() or [""])[
            0
        ]  # torch's go on with where in its source that was
        return {"detail": f"{type(raised).__name__}: {line}"[:LONGEST_REASON]}
    said = []
    if not math.isfinite(error):
        said.append(_("It holds values that are infinite or no numbers."))
    elif check.repeats:
        said.append(_("Bit for bit the same.") if error == 0 else _("Not bit for bit the same."))
    if error > check.tolerance:
        said.append(check.remedy)
    return {
        "agreement": Agreement.DIFFERS if error > check.tolerance else Agreement.AGREES,
        "worst_error": error if math.isfinite(error) else None,
        "worst_tensor": tensor if error else "",
        "detail": " ".join(said),
    }


def conclusion(comparisons: Sequence[Comparison], reference: Side, candidate: Side) -> str:
    """What to think of a device, in a sentence or two."""
    differing = [comparison.name for comparison in comparisons if comparison.differs]
    agreeing = sum(comparison.agrees for comparison in comparisons)
    not_run = len(comparisons) - agreeing - len(differing)
    rest = ""
    if not_run:
        rest = (
            _(" 1 comparison was not run.")
            if not_run == 1
            else _(" {not_run} comparisons were not run.").format(not_run=not_run)
        )
    pair = _("{title} and {title_2}").format(title=candidate.title, title_2=reference.title)
    if differing:
        return _(
            "{pair} differ in: {differing}. Runs that need this may learn something wrong.{rest}"
        ).format(pair=pair, differing="; ".join(differing), rest=rest)
    if not agreeing:
        return _("Nothing could be compared between {pair}.").format(pair=pair)
    return _("{pair} agree in {value}{agreeing} comparisons.{rest}").format(
        pair=pair, value="" if not_run else "all ", agreeing=agreeing, rest=rest
    )


# --- The first run on a Mac's GPU compares it with the CPU


MESSAGE = "device-check"
FIXES = (Fix(_("Train on the CPU"), {"device.name": "cpu"}),)
TRIES = 3
"""So often a check that gives no answer is made for one PyTorch and macOS: a moment's trouble is not for ever."""
AGAIN = "`hone devices --check` compares again, and more."

Ask = Callable[[DeviceCheckRequest], DeviceCheckReport]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one check gave: a report, or why there was none, after how many tries."""

    report: DeviceCheckReport | None = None
    failure: str = ""
    tries: int = 1


def memory_file() -> Path:
    """Where the answers are kept: a `Found` by what computed (see `software`)."""
    return settings.home() / "device-checks.json"


def recall() -> dict[str, Found]:
    """What is kept; nothing where the file is damaged: the check is then made again."""
    try:
        return msgspec.json.decode(memory_file().read_bytes(), type=dict[str, Found])
    except (OSError, msgspec.MsgspecError):
        return {}


def ask_device_check(request: DeviceCheckRequest) -> DeviceCheckReport:
    """Make the check in a process of its own: what it computes leaves no trace, and a fault of Metal ends it alone."""
    return run_job("check-device", request, DeviceCheckReport, timeout=CHECK_SECONDS)


def warn_of_wrong_numbers(reporter: Reporter, ask: Ask = ask_device_check) -> None:
    """Check the GPU where that wasn't done with this PyTorch and macOS, and warn where it is known to differ.

    An update of either brings other kernels.
    """
    key, kept = software(), recall()
    found = kept.get(key)
    if found is None or (found.failure and found.tries < TRIES):
        reporter.note(
            MESSAGE, _("Comparing this Mac's GPU with its CPU"), _("A few seconds. The result is remembered.")
        )
        tries = found.tries + 1 if found else 1
        try:
            found = Found(report=ask(DeviceCheckRequest(device="mps", short=True)), tries=tries)
        except (UserError, EngineCrashed, OSError) as error:
            found = Found(failure=str(error), tries=tries)
        with contextlib.suppress(OSError):  # the next run makes the check again
            settings.home().mkdir(parents=True, exist_ok=True)
            write_atomically(memory_file(), msgspec.json.format(msgspec.json.encode({**kept, key: found})))
        reporter.write(MessageWithdrawn(id=MESSAGE))
    differing = [one for one in found.report.comparisons if one.differs] if found.report else []
    if found.failure:
        reporter.warn(MESSAGE, _("This Mac's GPU could not be checked"), f"{found.failure}\n{AGAIN}", FIXES)
    elif found.report and differing:
        lines = [
            _("{name}: {value} in the {worst_tensor}. {detail}").format(
                name=one.name,
                value="no numbers" if one.worst_error is None else f"an error of {one.worst_error:.1g}",
                worst_tensor=one.worst_tensor,
                detail=one.detail,
            )
            for one in differing
        ]
        lines.append(_("Found with {software}. {again}").format(software=found.report.software, again=AGAIN))
        reporter.warn(MESSAGE, _("This Mac's GPU computes wrong numbers"), "\n".join(lines), FIXES)

"""What actually ran, in words: the one source of them, for the page of a run and for `hone show`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from core.catalogue import options_by_path
from core.device_names import device_title
from core.events import WhatRan
from core.story import RunStory

SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "uint8": "8-bit", "int8": "8-bit"}

OLD_PATHS = {"device": "device.name", "precision": "device.precision"}
"""How the first runs named the options in their reasons."""

AS_ASKED = "as asked"
"""The reason that says nothing."""

Size = Callable[[float], str]
"""Writes bytes as a person reads them."""


@dataclass(frozen=True)
class Statement:
    """One line below the heading `group`. `reason` says why it came out so; empty: nothing had to be chosen."""

    group: str
    title: str
    value: str
    reason: str = ""


def statements(
    ran: WhatRan | None,
    size: Size,
    versions: Mapping[str, str] | None = None,
    story: RunStory | None = None,
) -> tuple[Statement, ...]:
    """Everything that is known of what ran; what isn't known has no line, and each reason is told once.

    Args:
        ran: The event; None: it has not been told yet.
        size: Writes bytes.
        versions: The libraries' versions by name.
        story: Tells how far off the memory forecast was, once that is known; None: leave it out.
    """
    told = tuple(_of_run(ran, size, story)) if ran is not None else ()
    if not versions:
        return told
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (*told, Statement("Software", "Versions", listed))


def dtypes(names: str) -> str:
    """PyTorch's names of number formats as people call them: `float32 + bfloat16` is `fp32 + bf16`."""
    return " + ".join(SHORT.get(name, name) for name in names.removeprefix("torch.").split(" + "))


class _Reasons:
    """The reasons by option. Each is taken by the line it is about; the others make lines of their own."""

    def __init__(self, ran: WhatRan) -> None:
        self._left = {
            OLD_PATHS.get(path, path): told for path, told in ran.reasons.items() if told != AS_ASKED
        }

    def take(self, path: str) -> str:
        """Why an option came to its value, which its line says itself."""
        return _split(self._left.pop(path, ""))[1]

    def rest(self) -> Iterator[Statement]:
        """What was chosen beside all that has a line."""
        for path, told in self._left.items():
            option = options_by_path().get(path)
            title = option.title if option else path.rpartition(".")[2].replace("_", " ").capitalize()
            value, why = _split(told)
            yield Statement("Chosen by Hone", title, value or why, why if value else "")


def _of_run(ran: WhatRan, size: Size, story: RunStory | None) -> Iterator[Statement]:
    why = _Reasons(ran)
    yield from _device(ran, why)
    yield from _process(ran, why)
    yield from _model(ran, why)
    yield from _optimizer(ran, size, why)
    yield from _data(ran, why)
    yield from _memory(ran)
    if story is not None:
        yield from _forecast(story, size)
    yield from why.rest()


def _device(ran: WhatRan, why: _Reasons) -> Iterator[Statement]:
    group = "Device and precision"
    title = device_title(ran.device)
    name = title if ran.device_name in ("", ran.device) else f"{title} ({ran.device_name})"
    yield Statement(group, "Device", name, why.take("device.name"))
    yield Statement(group, "Weights", dtypes(ran.parameter_dtype))
    yield Statement(group, "Computed in", _computed(ran), why.take("device.precision"))
    if ran.autocast_dtype and ran.matmul not in ("", "fp32"):
        yield Statement(group, "fp32 multiplied as", ran.matmul)
    if ran.loss_scale is not None:
        yield Statement(group, "Loss scale", f"{ran.loss_scale:,.10g}")


def _process(ran: WhatRan, why: _Reasons) -> Iterator[Statement]:
    group = "Device and precision"
    if ran.threads is not None:
        yield Statement(group, "CPU threads", f"{ran.threads:,}", why.take("device.threads"))
    if ran.compiled:
        took = f", in {ran.compile_seconds:,.0f} s" if ran.compile_seconds is not None else ""
        yield Statement(group, "Compiled by", f"{ran.compiled}{took}")
    if ran.fell_back:
        lacks = "the device has no such operators; each waits for the CPU"
        yield Statement(group, "Computed on the CPU", ", ".join(ran.fell_back), lacks)
    if ran.deterministic:
        yield Statement(group, "Repeatability", "only kernels that give the same bits every time")


def _model(ran: WhatRan, why: _Reasons) -> Iterator[Statement]:
    group = "Model"
    yield Statement(group, "Trained", _trained(ran))
    if ran.adapter:
        yield Statement(group, "Adapter", ran.adapter)
    if ran.packed_parameters:
        bits = "4 bits" if "nf4" in ran.adapter else "8 bits"
        yield Statement(group, "Packed", f"{ran.packed_parameters:,} weights in {bits}")
    if ran.attention:
        yield Statement(group, "Attention", ran.attention, why.take("model.attention"))


def _optimizer(ran: WhatRan, size: Size, why: _Reasons) -> Iterator[Statement]:
    group = "Training"
    yield Statement(group, "Optimizer", ran.optimizer, why.take("training.optimizer"))
    yield Statement(group, "Optimizer state", _state(ran, size))
    if ran.decayed_parameters is not None:
        reached = f"on {ran.decayed_parameters:,} of the {ran.trainable_parameters:,} that are trained"
        is_part = 0 < ran.decayed_parameters < ran.trainable_parameters
        left_out = "biases and norms are left out" if is_part else ""
        yield Statement(group, "Weight decay", reached if ran.decayed_parameters else "none", left_out)


def _data(ran: WhatRan, why: _Reasons) -> Iterator[Statement]:
    group = "Data"
    yield Statement(group, "Effective batch", _effective(ran))
    if ran.padded_to:
        yield Statement(group, "Padded to", ran.padded_to)
    if ran.sampling:
        yield Statement(group, "Order", ran.sampling, why.take("data.group_by_length"))
    yield Statement(group, "Workers", _workers(ran), why.take("data.workers"))
    if ran.pinned:
        yield Statement(group, "Pinned memory", "yes", why.take("data.pin_memory"))


def _memory(ran: WhatRan) -> Iterator[Statement]:
    if ran.recomputed:
        layers = f"of {_counted(ran.recomputed, 'layer')} computed again for the gradients"
        yield Statement("Memory", "Activations", layers)
    if ran.deepspeed:
        yield Statement("Memory", "DeepSpeed", ran.deepspeed)


def _forecast(story: RunStory, size: Size) -> Iterator[Statement]:
    error, told, peak = story.forecast_error, story.forecast_bytes, story.peak_bytes
    if error is not None and told is not None and peak is not None:
        side = "above" if error > 0 else "below"
        yield Statement(
            "Memory", "Forecast", size(told), f"{100 * abs(error):.0f} % {side} the peak of {size(peak)}"
        )


def _computed(ran: WhatRan) -> str:
    if ran.autocast_dtype:
        return f"{dtypes(ran.autocast_dtype)} (autocast)"
    return ran.matmul or dtypes(ran.parameter_dtype)


def _trained(ran: WhatRan) -> str:
    of_all = f"{ran.trainable_parameters:,} of {ran.total_parameters:,} weights"
    if ran.trainable_parameters == ran.total_parameters:
        return of_all
    return f"{of_all} ({100 * ran.trainable_parameters / max(1, ran.total_parameters):.3g} %)"


def _state(ran: WhatRan, size: Size) -> str:
    total = size(ran.optimizer_state_bytes)
    if len(ran.optimizer_state) > 1:
        parts = ", ".join(f"{dtypes(name)} {size(count)}" for name, count in ran.optimizer_state.items())
        return f"{total} ({parts})"
    return " in ".join((total, *map(dtypes, ran.optimizer_state)))


def _effective(ran: WhatRan) -> str:
    samples = _counted(ran.effective_batch, "sample")
    if ran.batches_per_step == 1:
        return samples
    return f"{ran.effective_batch // ran.batches_per_step:,} × {ran.batches_per_step:,} = {samples}"


def _workers(ran: WhatRan) -> str:
    if not ran.workers:
        return "none: loaded by the training process"
    count = _counted(len(ran.workers), "process", "processes")
    return f"{count} ({ran.worker_start})" if ran.worker_start else count


def _counted(count: int, noun: str, several: str = "") -> str:
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def _split(told: str) -> tuple[str, str]:
    """A reason's value and its words: `bf16: this GPU computes it` begins with the value; others have none."""
    value, colon, why = told.partition(": ")
    return (value, why) if colon and " " not in value else ("", told)

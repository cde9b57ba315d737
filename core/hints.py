"""What is worth knowing about choices that work: said beside them, stopping nothing."""

from collections.abc import Callable, Iterator

from core.capabilities import cautions, find_device
from core.choices import Method, Optimizer, Precision
from core.errors import Fix, Problem
from core.options import RunOptions
from core.reports import DeviceReport, MachineReport
from core.scratch_models import starts_random
from core.sources import Scheme
from core.vision_models import VISION_MODELS

Hint = Callable[[RunOptions, DeviceReport | None], Iterator[Problem]]

LORA_RATE = 2e-4
TILE = 8
LARGE_TILE = 64
LARGE_TILE_GPUS = ("A100", "H100", "H200", "GH200", "B100", "B200", "GB200")


def hints(options: RunOptions, machine: MachineReport | None) -> tuple[Problem, ...]:
    """Everything worth knowing about `options` on this machine, each at its option; fixes are suggestions.

    Args:
        options: What is asked.
        machine: What is known of the machine; None: nothing yet.
    """
    device = find_device(machine, options.device.name) if machine else None
    found = [hint for rule in HINTS for hint in rule(options, device)]
    return (*found, *(cautions(machine, options) if machine else ()))


def _batch_multiples(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    """NVIDIA's GPUs multiply fp16 fastest where sizes are multiples of 8, on A100 of 64, and of 8 rather than of less.

    "Matrix Multiplication Background User's Guide", alignment for Tensor Cores: 16 bytes, on A100 128. Apple publishes
    no such numbers. A batch of one to three has its reasons.
    """
    if device is None or not device.name.startswith("cuda"):
        return
    size = options.memory.batch_size
    is_large = any(name in device.title for name in LARGE_TILE_GPUS)
    tile = LARGE_TILE if is_large and _precision(options, device) == Precision.FP16 else TILE
    if size < TILE // 2 or size % tile == 0:
        return
    tiles = [each for each in (TILE, tile) if size % each and 2 * size >= each]
    better = [max(each, (size + each // 2 - 1) // each * each) for each in tiles]
    yield Problem(
        "memory.batch_size",
        f"{device.title} computes fastest with multiples of {tile}{', or else of 8' if tile > TILE else ''}",
        tuple(Fix(f"Use {each}", {"memory.batch_size": each}) for each in dict.fromkeys(better)),
    )


def _batch_norm(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    """Each small batch is normalised by its own statistics, so the result differs from one large batch."""
    name = Scheme.TORCHVISION.name_of(options.model.source) or ""
    limits = VISION_MODELS.get(name)
    if options.memory.gradient_accumulation_steps > 1 and limits is not None and limits.normalises_batch:
        yield Problem(
            "memory.gradient_accumulation_steps",
            f"{name} normalises each small batch by itself, so this is not quite the same as one large batch",
        )


def _lora_rate(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    is_lora = options.model.method in (Method.LORA, Method.QLORA)
    rate = options.training.learning_rate
    if is_lora and rate < LORA_RATE / 4 and options.training.optimizer is not Optimizer.LION_8BIT:
        yield Problem(
            "training.learning_rate",
            f"LoRA's small matrices want a higher rate than the whole model; {LORA_RATE:g} is usual",
            (Fix(f"Use {LORA_RATE:g}", {"training.learning_rate": LORA_RATE}),),
        )


def _full_rate(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    """A rate that suits LoRA's small matrices makes a whole pretrained text model forget what it has learned."""
    rate = options.training.learning_rate
    is_whole = options.model.method is Method.FULL and not starts_random(options)
    adamw = options.training.optimizer not in (Optimizer.SGD, Optimizer.LION_8BIT)
    if is_whole and adamw and options.task.reads_text and rate >= LORA_RATE:
        yield Problem(
            "training.learning_rate",
            f"{rate:g} is high for all weights of a pretrained model; 2e-5 to 5e-5 is usual",
            (Fix("Use 2e-05", {"training.learning_rate": 2e-5}),),
        )


def _lion_rate(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    training = options.training
    if (
        training.optimizer is Optimizer.LION_8BIT
        and training.learning_rate > 1e-5
        and options.task.reads_text
    ):
        lower = training.learning_rate / 5
        yield Problem(
            "training.learning_rate",
            "Lion moves every weight by the whole rate; it wants one 3 to 10 times lower than AdamW",
            (Fix(f"Use {lower:g}", {"training.learning_rate": lower}),),
        )


def _sgd_rate(options: RunOptions, device: DeviceReport | None) -> Iterator[Problem]:
    training = options.training
    if training.optimizer is Optimizer.SGD and training.learning_rate < 1e-3:
        yield Problem(
            "training.learning_rate",
            "SGD moves by the gradient itself and wants a higher rate than AdamW: 1e-3 to 1e-1",
            (Fix("Use 0.01", {"training.learning_rate": 0.01}),),
        )


def _precision(options: RunOptions, device: DeviceReport) -> str:
    settled = device.automatic.get("device.precision")
    asked = options.device.precision
    return settled.value if asked is Precision.AUTO and settled else asked.value


HINTS: tuple[Hint, ...] = (_batch_multiples, _batch_norm, _lora_rate, _full_rate, _lion_rate, _sgd_rate)

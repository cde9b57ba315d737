"""What "automatic" comes to on a device: the fastest setting whose result a person could not tell from the others'."""

from core.choices import Task
from core.engine.capabilities import AMPERE, VOLTA, emulates_bf16
from core.engine.machine_facts import CudaDevice, MachineFacts
from core.reports import Instead, Settled

GROUPING = Settled(
    "on",
    "texts of like length in a batch leave little padding to compute",
    (Instead("data.padding", "fixed", "off", "every row has the same length anyway"),),
)
NO_WORKERS_FOR_TEXT = tuple(
    Instead(
        "task", task.value, "0", "texts are tokenized beforehand; making a batch takes a fraction of a ms"
    )
    for task in Task
    if task.reads_text
)


def settings_for(facts: MachineFacts, kind: str, gpu: CudaDevice | None = None) -> dict[str, Settled]:
    """What each automatic option comes to, by its path.

    Args:
        facts: The machine.
        kind: `cuda`, `mps` or `cpu`.
        gpu: The device, where it is a CUDA one.
    """
    return {
        "device.precision": _precision(facts, kind, gpu),
        "device.threads": Settled(str(facts.cores), "one for each core"),
        "data.group_by_length": GROUPING,
        "data.pin_memory": _pinning(kind),
        "data.workers": _workers(facts, kind),
    }


def _precision(facts: MachineFacts, kind: str, gpu: CudaDevice | None) -> Settled:
    if kind == "cuda":
        return _precision_of(gpu)
    if kind == "mps":
        if emulates_bf16(facts):
            return Settled("fp32", f"{facts.cpu_name} has no bf16 hardware")
        return Settled("bf16", f"{facts.cpu_name} computes bf16 in hardware")
    if facts.cpu_bf16:
        return Settled("bf16", "this CPU computes bf16 in hardware")
    return Settled("fp32", "this CPU has no bf16 hardware")


def _precision_of(gpu: CudaDevice | None) -> Settled:
    if gpu is not None and gpu.capability >= AMPERE:
        return Settled("bf16", "this GPU computes bf16 in hardware")
    if gpu is not None and gpu.capability < VOLTA:
        return Settled("fp32", "this GPU is older than Volta: it has no tensor cores for fp16")
    return Settled("fp16", "this GPU computes fp16 in hardware, but not bf16")


def _pinning(kind: str) -> Settled:
    if kind == "cuda":
        return Settled("on", "the GPU fetches batches while it computes")
    return Settled("off", "only NVIDIA GPUs fetch from pinned memory")


def _workers(facts: MachineFacts, kind: str) -> Settled:
    if kind == "cuda" and facts.cores > 2:
        count = str(min(4, facts.cores - 1))
        return Settled(count, "images are prepared while the GPU computes", NO_WORKERS_FOR_TEXT)
    if kind == "mps":
        return Settled("0", "the memory is shared, and on a Mac each worker would load PyTorch anew")
    return Settled("0", "the cores are busy computing; workers would take them away")

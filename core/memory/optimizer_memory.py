"""What optimizers hold beside the weights, and what they need for a moment while they step. All figures are bytes.

Sources: the guide "Model training anatomy" of transformers (AdamW 8, momentum 4, 8-bit 2 bytes a weight); measured on
live optimizers of torch 2.13, transformers 5.23 and bitsandbytes 0.50: Adam 8, AdEMAMix 12, Adafactor 0.04.
"""

from core.choices import DeepSpeed, Method, Offload, Optimizer
from core.memory.case import NUMBER, Case

STATE = {
    Optimizer.ADAMW: 8.0,
    Optimizer.ADAM: 8.0,
    Optimizer.ADAFACTOR: 0.04,
    Optimizer.ADAMW_8BIT: 2.03,
    Optimizer.PAGED_ADAMW_8BIT: 2.03,
    Optimizer.ADAMW_8BIT_TORCHAO: 2.03,
    Optimizer.LION_8BIT: 1.02,
    Optimizer.ADEMAMIX: 12.0,
    Optimizer.SGD: 4.0,
}
"""Bytes of state for each weight that learns. Adafactor's are of a BERT: what it takes goes by the weights' shapes, and
a model's own are in `ModelShape.factored`. 8-bit ones have a scale of 4 bytes for each 256 numbers beside these."""

TABLES_IN_32_BITS = {Optimizer.ADAMW_8BIT: 8, Optimizer.PAGED_ADAMW_8BIT: 8, Optimizer.LION_8BIT: 4}
"""Bytes of state for each weight of a table of tokens: Trainer has bitsandbytes keep those of `Embedding` in fp32."""

BESIDE_ON_CPU = {
    Optimizer.ADAMW_8BIT: (3, 5),
    Optimizer.PAGED_ADAMW_8BIT: (3, 5),
    Optimizer.LION_8BIT: (3, 5),
    Optimizer.ADEMAMIX: (4, 4),
}
"""How many copies of a weight in fp32 bitsandbytes makes on a CPU while it moves it: of one whose state is in 32 bits,
and in 8. There it has no kernels, but computes with torch's operators (`bitsandbytes/backends/cpu/ops.py` of 0.50: the
gradient scaled; the state unpacked, where it is packed; the root, and what is made of it)."""

MASTER = 4
"""DeepSpeed's own copy of each weight in fp32, from which it writes the others."""


def state_bytes(case: Case) -> int:
    """The optimizer's state on the device."""
    if is_elsewhere(case):
        return 0
    rest = case.trainable - tables_apart(case)
    apart = tables_apart(case) * TABLES_IN_32_BITS.get(case.options.training.optimizer, 0)
    master = MASTER * case.trainable if case.zero is not DeepSpeed.OFF else 0
    return round(state_each(case) * rest) + apart + master


def state_each(case: Case) -> float:
    """Bytes of state for each weight that learns, those of tables in 32 bits aside."""
    training = case.options.training
    if training.optimizer is Optimizer.SGD and not training.momentum:
        return 0.0
    if training.optimizer is Optimizer.ADAFACTOR and case.method is Method.FULL and case.shape.factored:
        return NUMBER * case.shape.factored / case.shape.parameters
    return STATE[training.optimizer]


def tables_apart(case: Case) -> int:
    """How many weights are kept track of in 32 bits where the others have 8."""
    return case.trained_tables if case.options.training.optimizer in TABLES_IN_32_BITS else 0


def is_elsewhere(case: Case) -> bool:
    """Whether the state lies in main memory or on a disk while the weights are on a GPU."""
    if case.kind == "cpu":
        return False
    memory = case.options.memory
    return memory.offload_optimizer or (
        memory.deepspeed is not DeepSpeed.OFF and memory.offload is not Offload.NONE
    )


def step_bytes(case: Case) -> int:
    """What the step holds beside weights, gradients and state, of the weight that needs most.

    Adafactor's update is computed out of place: itself, its square for the norm, and its negative
    (`transformers.optimization.Adafactor.step`). bitsandbytes on a CPU makes copies. Fused kernels need none.
    """
    optimizer = case.options.training.optimizer
    if optimizer is Optimizer.ADAFACTOR:
        return 2 * NUMBER * case.largest_trained
    if case.kind != "cpu" or optimizer not in BESIDE_ON_CPU:
        return 0
    of_full, of_packed = BESIDE_ON_CPU[optimizer]
    if not case.trained_tables:
        return of_packed * NUMBER * case.largest_trained
    inner = case.shape.hidden * case.shape.intermediate
    return NUMBER * max(of_full * case.largest_trained, of_packed * inner)

"""Options that are no line of a script: those that change nothing, and those that it can't say."""

from collections.abc import Callable, Iterator, Mapping

from core.choices import DeepSpeed, Method, Task, Toggle
from core.script.arguments import can_keep_best, is_torchvision
from core.script.resolved import Resolved

NO_EFFECT: Mapping[str, str] = {
    "output.predictions": "examples are asked beside the training, and change nothing about it",
    "output.prompts": "they are asked beside the training, and change nothing about it",
    "device.processes": "Hone trains in one process",
}
"""Options of no effect on what is learned, and why."""

RESOLVED: Mapping[str, str] = {
    "data.eval": "its files stand in the script",
    "data.columns": "the columns that were found stand in the script",
    "data.text_columns": "the columns that were found stand in the script",
    "data.label_column": "the column that was found stands in the script",
    "data.header": "what the file has stands in the script",
    "data.train_split": "the files of the split stand in the script",
    "data.eval_split": "the files of the split stand in the script",
    "data.image_column": "no script is written for images in a table",
}
"""Options that reach the script through what they came to: files, columns, a header."""


def _when(asked: bool, text: str) -> Iterator[str]:
    if asked:
        yield text


def _deepspeed(run: Resolved) -> Iterator[str]:
    memory = run.options.memory
    place = f", offload to {memory.offload}" + (
        f" ({memory.offload_folder})" if memory.offload_folder else ""
    )
    yield from _when(
        memory.deepspeed is not DeepSpeed.OFF,
        f"memory.deepspeed = {memory.deepspeed}{place}: give TrainingArguments(deepspeed=...) a config of your own",
    )


def _checkpointing(run: Resolved) -> Iterator[str]:
    asked = run.options.memory.activation_checkpointing and is_torchvision(run)
    yield from _when(
        asked,
        "memory.activation_checkpointing: torchvision's models can't by themselves; the losses are the same without, "
        "and it takes more memory",
    )


def _bad_rows(run: Resolved) -> Iterator[str]:
    yield from _when(
        run.options.data.skip_bad_rows, "data.skip_bad_rows: rows that can't be read end the script instead"
    )


def _packed(run: Resolved) -> Iterator[str]:
    is_packed = run.options.model.method is Method.QLORA
    yield from _when(
        is_packed and run.options.task in (Task.CHAT, Task.PREFERENCE),
        "LoRA's matrices beside packed weights: TRL turns them to bf16, Hone keeps them in fp32",
    )


def _best(run: Resolved) -> Iterator[str]:
    is_lost = run.options.output.keep_best and not can_keep_best(run)
    yield from _when(
        is_lost,
        "output.keep_best: Trainer takes the best only where it saves as often as it evaluates, after epochs",
    )


def _tagged(run: Resolved) -> Iterator[str]:
    yield from _when(
        run.options.task is Task.TOKEN_CLASSIFICATION,
        "F1 of whole entities, which Hone counts at evaluations; the script tells the accuracy of words",
    )


def _pinned(run: Resolved) -> Iterator[str]:
    yield from _when(
        run.options.data.pin_memory is Toggle.ON and run.kind != "cuda",
        "data.pin_memory: only CUDA fetches from pinned memory",
    )


_TELLERS: tuple[Callable[[Resolved], Iterator[str]], ...] = (
    _deepspeed,
    _checkpointing,
    _bad_rows,
    _packed,
    _best,
    _tagged,
    _pinned,
)


def left_out(run: Resolved) -> tuple[str, ...]:
    """What was asked of this run and can't be said in a script, each with what that means."""
    return tuple(text for tell in _TELLERS for text in tell(run))

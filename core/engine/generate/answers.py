"""Answers one question after the other; one that can't be answered doesn't end the process."""

import sys
import time
import traceback

import msgspec
import torch

from core.base.errors import OutOfMemory, UserError
from core.base.jobs import FailureReport
from core.engine.failures import is_out_of_memory
from core.engine.generate.chat_job import Hearing, Say
from core.engine.generate.loading import TriedModel
from core.engine.generate.predict import judged, positions
from core.engine.generate.write import write
from core.services.chat import (
    Answered,
    Ask,
    Loaded,
    NotAnswered,
    Piece,
)

MISHAPS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    NotImplementedError,
    OSError,
    MemoryError,
)
"""What models and their libraries raise at a question: said as the answer; anything else ends the process."""


def loaded_line(model: TriedModel, seconds: float) -> Loaded:
    """What is told once the model is there."""
    sees = positions(model.model) if model.task.writes_text else model.length
    return Loaded(
        name=model.name,
        task=model.task,
        device=model.choice.label,
        dtype=model.dtype,
        labels=model.labels,
        sees=0 if sees == sys.maxsize else sees,
        seconds=seconds,
    )


def talk(model: TriedModel, hearing: Hearing, say: Say) -> None:
    """Answer until nobody asks any more."""
    while (asked := hearing.next_question()) is not None:
        try:
            say(answer(model, asked, hearing, say))
        except UserError as error:
            say(_not_answered(asked, error))
        except MISHAPS as error:
            traceback.print_exc(file=sys.stderr)
            say(_not_answered(asked, _mishap(error)))


def answer(model: TriedModel, asked: Ask, hearing: Hearing, say: Say) -> Answered:
    """The whole answer to a question.

    Raises:
        UserError: It can't be answered, and why.
    """
    begun = time.perf_counter()
    with torch.no_grad(), model.computing():
        if model.task.writes_text:
            found = write(
                model,
                asked,
                tell=lambda text: say(Piece(id=asked.id, text=text)),
                is_stopped=lambda: hearing.is_stopped(asked.id),
            )
        else:
            found = judged(model, asked)
    return msgspec.structs.replace(
        found, device=model.choice.label, dtype=model.dtype, seconds=time.perf_counter() - begun
    )


def _mishap(error: Exception) -> UserError:
    if is_out_of_memory(error):
        return OutOfMemory(
            "There is too little memory for this answer",
            f"{error}\nA shorter text, fewer tokens or one model at a time takes less.",
        )
    return UserError("The model can't answer this", f"{type(error).__name__}: {error}")


def _not_answered(asked: Ask, error: UserError) -> NotAnswered:
    return NotAnswered(
        id=asked.id, error=FailureReport(title=error.title, detail=error.detail, fixes=error.fixes)
    )

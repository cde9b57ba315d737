"""Loading a run's model into a process of its own and asking it one question, as Try it does."""

import threading
from pathlib import Path

from core.run_folder import RunFolder
from core.selftest.checking import Failed
from core.trying import Answered, Ask, Given, Load, Loaded, NotAnswered, Which, Writing
from core.trying_process import TryProcess

SECONDS = 300.0
FEW_TOKENS = Writing(max_tokens=5)


def answer_to(given: Given, run: RunFolder) -> Answered:
    """What the trained model of a run answers; each line of its process is one of the protocol, or it is a crash.

    Raises:
        Failed: It answers nothing.
        EngineCrashed: Its process ended, or said what nobody understands.
    """
    process = TryProcess(Load(run=str(Path(run.path)), which=Which.TRAINED, on_cpu=True))
    patience = threading.Timer(SECONDS, process.kill)
    patience.start()
    answered: Answered | None = None
    try:
        for line in process.lines():
            match line:
                case Loaded():
                    process.say(Ask(id=1, given=given, writing=FEW_TOKENS))
                case Answered():
                    answered = line
                    process.close()
                case NotAnswered():
                    process.kill()
                    raise Failed(f"the model gave no answer: {line.error.title} {line.error.detail}")
    finally:
        patience.cancel()
    if answered is None:
        raise Failed("the model's process ended without an answer")
    return answered

"""Trying a run's model: what is asked of the process that holds one, and what it answers, as one JSON line each.

The first line to the process is a `Load`, answered by `Loaded` or `NotLoaded`. Then come questions (`Ask`), each
answered by one `Answered` or `NotAnswered`, before which text may come in `Piece`s; `Stop` ends an answer early.
`Close`, or the end of the input, ends the process. Two models are two processes: each starts with empty memory.
"""

from enum import StrEnum

import msgspec

from core.choices import Task
from core.conversation_words import Speaker
from core.jobs import FailureReport

JOB = "try"
"""The name of the engine's job."""
CHANCES_TOLD = 50
"""So many labels are told at most, the likeliest first."""


class Which(StrEnum):
    """Which of a run's two models: the one it has trained, or the one it started from."""

    TRAINED = "trained"
    BEFORE = "before"


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=str.lower):
    """One line in either direction."""


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """How a text is written: each token the likeliest (temperature 0), or drawn by chance with `seed`.

    `top_p` draws among the likeliest tokens only whose probabilities come to that share (1: all). `stop_at` are texts
    at which writing ends; they are no part of the answer.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop_at: tuple[str, ...] = ()


class Turn(msgspec.Struct, frozen=True):
    """What one speaker has said."""

    role: Speaker
    text: str


class Texts(Line, frozen=True, kw_only=True):
    """One text, or two that are read as a pair; to be labelled, scored or gone on from.

    `as_read`: the one text is already what the model reads, special tokens included; nothing is put before it.
    """

    texts: tuple[str, ...]
    as_read: bool = False


class Chat(Line, frozen=True, kw_only=True):
    """A conversation so far, a person's turn last; `system` is what the assistant is told before it, or empty."""

    turns: tuple[Turn, ...]
    system: str = ""


class Image(Line, frozen=True, kw_only=True):
    """An image file."""

    path: str


Given = Texts | Chat | Image


class Load(Line, frozen=True, kw_only=True):
    """Load a model of the run in the folder `run`. `on_cpu`: on the CPU, whatever else there is."""

    run: str
    which: Which
    on_cpu: bool = False


class Ask(Line, frozen=True, kw_only=True):
    """A question; `id` names it in what is answered."""

    id: int
    given: Given
    writing: Writing = Writing()


class Stop(Line, frozen=True, kw_only=True):
    """End the answer to a question early; what is written so far is kept."""

    id: int


class Close(Line, frozen=True, kw_only=True):
    """End the process."""


Said = Load | Ask | Stop | Close
"""What is said to the process."""


class Loaded(Line, frozen=True, kw_only=True):
    """The model is ready.

    `name` is what it is called; `device` where it is (`cpu`, `mps`, `cuda:0`), `dtype` what it computes in (`bf16`);
    `sees` the most tokens it can read and write together, 0: no limit is known. `notes` are sentences to know.
    """

    name: str
    task: Task
    device: str
    dtype: str
    labels: tuple[str, ...] = ()
    sees: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class NotLoaded(Line, frozen=True, kw_only=True):
    """The model can't be loaded; the process ends."""

    error: FailureReport


class Piece(Line, frozen=True, kw_only=True):
    """Some more of a text that is being written."""

    id: int
    text: str


class Chance(msgspec.Struct, frozen=True):
    """How likely a label is, 0 to 1."""

    label: str
    chance: float


class Word(msgspec.Struct, frozen=True):
    """A word of the text asked about, by the places of its first character and behind its last, with its label."""

    start: int
    end: int
    label: str
    chance: float


class EndedBy(StrEnum):
    """What ended a text."""

    MODEL = "model"
    LENGTH = "length"
    STOP_TEXT = "stop-text"
    PERSON = "person"


class Answered(Line, frozen=True, kw_only=True):
    """The whole answer of the model called `name`, and what it took.

    By task one of these is filled: `text` and `ended_by` of a text that was written; `chances` of labels, the likeliest
    first; `words` with their labels; `number`. `read` and `tokens` count tokens read and written, `seconds` is the time
    from the question to the end. `notes` are sentences to know, such as that earlier turns were left out.
    """

    id: int
    name: str
    text: str = ""
    ended_by: EndedBy | None = None
    chances: tuple[Chance, ...] = ()
    words: tuple[Word, ...] = ()
    number: float | None = None
    read: int = 0
    tokens: int = 0
    seconds: float = 0.0
    device: str = ""
    dtype: str = ""
    notes: tuple[str, ...] = ()

    @property
    def tokens_per_second(self) -> float | None:
        """How fast it wrote; None where it wrote nothing."""
        return self.tokens / self.seconds if self.tokens and self.seconds > 0 else None


class NotAnswered(Line, frozen=True, kw_only=True):
    """A question that can't be answered; the model is there for the next one."""

    id: int
    error: FailureReport


Told = Loaded | NotLoaded | Piece | Answered | NotAnswered
"""What the process says."""

"""Messages of the job `try`, which answers with a run's model, as JSON lines.

The first to the process is `Load`, answered by `Loading`, and then by `Loaded` or `NotLoaded`. Each question (`Ask`) is
answered by `Answered` or `NotAnswered`, after any `TextPiece`s of text or `FilesPart`s of files; `Stop` ends an answer.
`Close`, or the end of the input, ends the process.
"""

from enum import StrEnum

import msgspec

from core.base import formats
from core.base.jobs import FailureReport
from core.base.language import _, ngettext
from core.options.choices import Speaker, Task, device_title

JOB = "try"


CHANCES_TOLD = 50
"""Maximum number of labels in an answer, the likeliest first."""


class Which(StrEnum):
    """The model that a run trained, or the one it started from."""

    TRAINED = "trained"
    BEFORE = "before"


class ChatLine(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=str.lower
):
    """A message in either direction."""


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of text generation: greedy with temperature 0, otherwise sampled with `seed`.

    `top_p` samples only from the likeliest tokens whose probabilities add up to it. `stop_at` are texts that end the
    answer and are not part of it.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop_at: tuple[str, ...] = ()


class ChatTurn(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Speaker
    text: str


class Texts(ChatLine, frozen=True, kw_only=True):
    """A text, or a pair of texts, to be labelled, scored or continued.

    With `as_read` a single text already contains its special tokens.
    """

    texts: tuple[str, ...]
    as_read: bool = False


class Chat(ChatLine, frozen=True, kw_only=True):
    """A conversation that ends with a turn of the user, and the system prompt."""

    turns: tuple[ChatTurn, ...]
    system: str = ""


class Image(ChatLine, frozen=True, kw_only=True):
    """An image file."""

    path: str


class Files(ChatLine, frozen=True, kw_only=True):
    """Image files and folders of them, or one file with a text in each row. `output` is the new CSV file.

    With `in_pairs` the model reads two texts of each row.
    """

    paths: tuple[str, ...]
    output: str
    in_pairs: bool = False


Given = Texts | Chat | Image | Files


class Load(ChatLine, frozen=True, kw_only=True):
    """Load a model of the run in the folder `run`, with `on_cpu` on the CPU even if there is a GPU."""

    run: str
    which: Which
    on_cpu: bool = False


class Ask(ChatLine, frozen=True, kw_only=True):
    """A question; its answer has the same `id`. `before` asks the trained model without its adapter."""

    id: int
    given: Given
    writing: Writing = Writing()
    before: bool = False


class Stop(ChatLine, frozen=True, kw_only=True):
    """End the answer to a question early, keeping its text."""

    id: int


class Close(ChatLine, frozen=True, kw_only=True):
    """End the process."""


Said = Load | Ask | Stop | Close
"""Messages to the process."""


class Loaded(ChatLine, frozen=True, kw_only=True):
    """The model is ready.

    `device` is as in `device.name`, `dtype` such as `bf16`; `sees` is the context length in tokens, 0 if unknown.
    `notes` are sentences to show.
    """

    name: str
    task: Task
    device: str
    dtype: str
    labels: tuple[str, ...] = ()
    sees: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class Loading(ChatLine, frozen=True, kw_only=True):
    """The libraries are there; now the model is loaded."""


class NotLoaded(ChatLine, frozen=True, kw_only=True):
    """The model can't be loaded; the process ends."""

    error: FailureReport


class TextPiece(ChatLine, frozen=True, kw_only=True):
    """The next piece of a text."""

    id: int
    text: str


class FilesPart(ChatLine, frozen=True, kw_only=True):
    """So many of the images or rows of `Files` are answered."""

    id: int
    done: int
    total: int


class Chance(msgspec.Struct, frozen=True):
    """The probability of a label, 0 to 1."""

    label: str
    chance: float


class Word(msgspec.Struct, frozen=True):
    """A labelled word: characters `start` to `end` (exclusive) of the text."""

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


class Answered(ChatLine, frozen=True, kw_only=True):
    """The whole answer of the model called `name`.

    It has, depending on the task, `text` and `ended_by`; `chances` of labels, the likeliest first; `words`; or
    `number`. `image` is a PNG file of an image as the model sees it; `swapped`: the training images are dark where it
    is light. `read` and `tokens` count tokens read and written. `rows` counts what was answered of `Files`, whose
    answers are in the columns `added` to the CSV file. `notes` are sentences to show, such as that earlier turns were
    left out.
    """

    id: int
    name: str
    text: str = ""
    ended_by: EndedBy | None = None
    chances: tuple[Chance, ...] = ()
    words: tuple[Word, ...] = ()
    number: float | None = None
    image: bytes = b""
    swapped: bool = False
    read: int = 0
    tokens: int = 0
    rows: int = 0
    added: tuple[str, ...] = ()
    seconds: float = 0.0
    device: str = ""
    dtype: str = ""
    notes: tuple[str, ...] = ()

    @property
    def figures(self) -> str:
        """Such as "41 tokens in 1.2 s · 34 tokens/s · CPU, bf16"."""
        took = formats.step_time(self.seconds)
        where = formats.enumerated((device_title(self.device), self.dtype))
        if not self.tokens or self.seconds <= 0:
            return formats.in_line(took, where)
        wrote = ngettext("{count:,} token in {seconds}", "{count:,} tokens in {seconds}", self.tokens)
        pace = _("{speed} tokens/s").format(speed=formats.three_figures(self.tokens / self.seconds))
        return formats.in_line(wrote.format(count=self.tokens, seconds=took), pace, where)


class NotAnswered(ChatLine, frozen=True, kw_only=True):
    """A question that can't be answered; the model is ready for the next one."""

    id: int
    error: FailureReport


Told = Loading | Loaded | NotLoaded | TextPiece | FilesPart | Answered | NotAnswered
"""Messages from the process."""

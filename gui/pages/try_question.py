"""What a person asks on the page Try it, before it is made into what one of the models is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.choices import Task
from core.conversation_words import Speaker
from core.trying import Chat, Given, Image, Texts, Turn


@dataclass(frozen=True)
class Question:
    """A text, a pair of texts, or an image file.

    `expected` is what a held-out example says; `as_read`: the text is what the model reads, special tokens included.
    """

    texts: tuple[str, ...] = ()
    image: str = ""
    system: str = ""
    expected: str = ""
    as_read: bool = False

    @property
    def shown(self) -> str:
        """The texts, one below the other."""
        return "\n".join(self.texts)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked."""
        return not (self.image or self.shown.strip())

    def given_to(self, task: Task, turns: Sequence[Turn]) -> Given:
        """What a model that has learned `task` is asked, after the `turns` of its conversation so far."""
        if self.image:
            return Image(path=self.image)
        if task.reads_conversations and not self.as_read:
            return Chat(turns=(*turns, Turn(Speaker.USER, self.shown)), system=self.system)
        return Texts(texts=self.texts, as_read=self.as_read)

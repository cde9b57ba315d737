"""What a watcher has found, before it becomes a message."""

from dataclasses import dataclass

from core.errors import Fix
from core.events import Level, MessageRaised


@dataclass(frozen=True)
class Finding:
    """Something a person should read.

    `key` names the state found. While it stays the same the message stands as it was first said, though the figures in
    its words move on; with another key it is said anew.
    """

    key: str
    level: Level
    title: str
    detail: str
    fixes: tuple[Fix, ...] = ()

    def message(self, message_id: str) -> MessageRaised:
        """The message that says it."""
        return MessageRaised(
            id=message_id, level=self.level, title=self.title, detail=self.detail, fixes=self.fixes
        )

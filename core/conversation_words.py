"""The words conversations are described with: what a column of a table can be, and who speaks.

`data.columns` and `data.roles` are written in them; forms offer them as choices.
"""

from enum import StrEnum


class ColumnRole(StrEnum):
    """What a column of a table holds, as `data.columns` names it."""

    CONVERSATION = "conversation"
    SYSTEM = "system"
    PROMPT = "prompt"
    INPUT = "input"
    HISTORY = "history"
    ANSWER = "answer"
    CHOSEN = "chosen"
    REJECTED = "rejected"
    TOOLS = "tools"
    TEXT = "text"


COLUMN_TITLES: dict[ColumnRole, tuple[str, str]] = {
    ColumnRole.CONVERSATION: ("Conversation", "A list of messages, each with who speaks and what is said."),
    ColumnRole.SYSTEM: ("System prompt", "What the assistant is told before the conversation begins."),
    ColumnRole.PROMPT: ("Question", "What is asked: an instruction, a question, a prompt."),
    ColumnRole.INPUT: ("Input", "What the question is about; it follows the question."),
    ColumnRole.HISTORY: ("Earlier turns", "A list of question and answer, said before the question."),
    ColumnRole.ANSWER: ("Answer", "What the model learns to say."),
    ColumnRole.CHOSEN: ("Better answer", "The answer to prefer."),
    ColumnRole.REJECTED: ("Worse answer", "The answer to turn away from."),
    ColumnRole.TOOLS: ("Tools", "A list of functions the assistant may call."),
    ColumnRole.TEXT: ("Text", "A plain text, learned from its first word to its last."),
}
"""Title and one sentence of each."""

CHAT_COLUMNS = (
    *(ColumnRole.CONVERSATION, ColumnRole.PROMPT, ColumnRole.INPUT, ColumnRole.ANSWER, ColumnRole.SYSTEM),
    *(ColumnRole.HISTORY, ColumnRole.TOOLS, ColumnRole.TEXT),
)
PREFERENCE_COLUMNS = (
    *(ColumnRole.CHOSEN, ColumnRole.REJECTED, ColumnRole.CONVERSATION, ColumnRole.PROMPT, ColumnRole.INPUT),
    *(ColumnRole.SYSTEM, ColumnRole.HISTORY, ColumnRole.TOOLS),
)


class Speaker(StrEnum):
    """Who says a message, as `data.roles` names it and as chat templates know it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    @property
    def in_words(self) -> str:
        """What a sentence calls them."""
        return {"system": "the system prompt", "user": "the user", "tool": "a tool's answer"}.get(
            self.value, "the assistant"
        )

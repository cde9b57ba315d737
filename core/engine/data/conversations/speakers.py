"""Who speaks: the many spellings of the four roles, and what to do about a name that is none of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from core.conversation_words import Speaker
from core.engine.data.conversations import kinds
from core.engine.data.conversations.cells import NAME_CHARACTERS, RowFaults
from core.errors import DataError, Fix

_SPELLINGS: dict[Speaker, tuple[str, ...]] = {
    Speaker.SYSTEM: ("system", "developer", "sys", "system_prompt"),
    Speaker.USER: ("user", "human", "prompter", "person", "usr"),
    Speaker.ASSISTANT: (
        "assistant",
        "gpt",
        "bot",
        "model",
        "chatgpt",
        "chatbot",
        "ai",
        "llm",
        "bing",
        "bard",
    ),
    Speaker.TOOL: (
        *("tool", "function", "observation", "ipython", "environment"),
        *("tool_response", "tool_result", "tool_output", "function_response", "function_result"),
    ),
}
KNOWN = {spelling: speaker for speaker, spellings in _SPELLINGS.items() for spelling in spellings}
CALLS = frozenset({"function_call", "tool_call", "tool_calls"})
"""Roles of ShareGPT whose message is a call the assistant makes, written as JSON."""


def check_roles(roles: Mapping[str, str]) -> None:
    """Stop where `data.roles` maps a name to something that is no role.

    Raises:
        DataError: It does.
    """
    for name, role in roles.items():
        if role not in set(Speaker):
            without = {key: value for key, value in roles.items() if key != name}
            raise DataError(
                f"“{role}” is no role",
                f"data.roles says that “{name}” is “{role}”; it must be one of {', '.join(Speaker)}.",
                tuple(_fix(name, speaker, without) for speaker in (Speaker.ASSISTANT, Speaker.USER)),
            )


@dataclass(frozen=True)
class Speakers:
    """Reads the names of a file's speakers; `roles` says what names mean that aren't known."""

    roles: Mapping[str, str]

    def place(self, name: str) -> Speaker | None:
        """Who that is; None for a name that isn't known."""
        if name in self.roles:
            return Speaker(self.roles[name])
        known = KNOWN.get(name) or KNOWN.get(_normal(name))
        return Speaker.ASSISTANT if known is None and self.is_call(name) else known

    def is_call(self, name: str) -> bool:
        """Whether messages of this name are calls written as JSON."""
        return name not in KNOWN and name not in self.roles and _normal(name) in CALLS

    def add_unknown(self, name: str, before: Speaker | None, faults: RowFaults) -> None:
        """Note a name that isn't known, with the likely roles as fixes: whoever follows the user is the assistant."""
        answers = before in (Speaker.USER, Speaker.TOOL)
        likely = (Speaker.ASSISTANT, Speaker.USER) if answers else (Speaker.USER, Speaker.ASSISTANT)
        fixes = tuple(_fix(name, speaker, self.roles) for speaker in likely)
        if len(name) <= NAME_CHARACTERS:
            faults.add(kinds.UNKNOWN_ROLE, detail=name, fixes=fixes)
        else:
            faults.add(kinds.UNKNOWN_ROLE, detail=f"{name[:NAME_CHARACTERS]}…")


def _normal(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _fix(name: str, speaker: Speaker, roles: Mapping[str, str]) -> Fix:
    return Fix(f"Read “{name}” as {speaker.in_words}", {"data.roles": {**roles, name: str(speaker)}})

"""Every kind of thing that can be wrong with conversations, each with its sentence."""

from core.choices import ChatTemplate
from core.errors import Fix
from core.findings import FindingKind, FindingLevel

_PROBLEM, _WARNING = FindingLevel.PROBLEM, FindingLevel.WARNING

UNPARSABLE = FindingKind("unparsable", _PROBLEM, "{rows} {have} a conversation that can't be read.")
MIXED_TYPES = FindingKind(
    "mixed-types",
    _PROBLEM,
    "{rows} {have} something in “{detail}” that is neither text nor messages.",
    "Write a text there",
)
NOT_TEXT = FindingKind(
    "not-text", _PROBLEM, "{rows} {have} a message with {detail} in it, which a text model can't read."
)
MISSING_KEY = FindingKind("missing-key", _PROBLEM, "{rows} {have} a message without “{detail}”.")
UNKNOWN_ROLE = FindingKind(
    "unknown-role", _PROBLEM, "{rows} {have} a message of “{detail}”: it isn't known who that is."
)
BROKEN_CALL = FindingKind("broken-call", _PROBLEM, "{rows} {have} a tool call that can't be read.")
BROKEN_TOOLS = FindingKind("broken-tools", _PROBLEM, "{rows} {have} a list of tools that can't be read.")
NO_ANSWER = FindingKind(
    "no-answer", _PROBLEM, "{rows} {have} no answer of the assistant: there is nothing to learn from."
)
EMPTY_ANSWER = FindingKind(
    "empty-answer", _PROBLEM, "{rows} {have} an empty answer.", "Fill the answers in, or take these rows out"
)
EMPTY_CHOSEN = FindingKind("empty-chosen", _PROBLEM, "{rows} {have} no better answer.")
EMPTY_REJECTED = FindingKind("empty-rejected", _PROBLEM, "{rows} {have} no worse answer.")
SAME_ANSWERS = FindingKind(
    "same-answers", _PROBLEM, "{rows} {have} twice the same answer: there is nothing to prefer."
)
NOTHING_LEFT = FindingKind("nothing-left", _PROBLEM, "There is no row to learn from.", "Choose another file")
TEMPLATE_REFUSES = FindingKind(
    "template-refuses", _PROBLEM, "{rows} {are} refused by the chat template: {detail}"
)
ANSWER_LOST = FindingKind(
    "answer-lost", _PROBLEM, "The chat template doesn't show where the answers of {rows} begin."
)
ANSWER_LEFT_OUT = FindingKind(
    "answer-left-out", _PROBLEM, "The chat template leaves out what the assistant says or calls in {rows}."
)
USE_CHATML = Fix("Use ChatML", {"data.chat_template": str(ChatTemplate.CHATML)})
"""Mends whatever a model's own template can't do; the model has to learn it, which takes some more rows."""

EMPTY_ROW = FindingKind("empty-row", _WARNING, "{rows} {have} no text and {are} left out.")
EMPTY_PROMPT = FindingKind("empty-prompt", _WARNING, "{rows} {have} an answer to an empty question.")
MERGED = FindingKind(
    "merged",
    _WARNING,
    "{rows} {have} two messages of {detail} one after the other; they are joined.",
)
ASSISTANT_FIRST = FindingKind("assistant-first", _WARNING, "{rows} {have} an answer before any question.")
SYSTEM_LATE = FindingKind(
    "system-late", _WARNING, "{rows} {have} a system prompt in the middle, which some models can't read."
)
ANSWER_WITHOUT_CALL = FindingKind(
    "answer-without-call", _WARNING, "{rows} {have} a tool's answer to no call of the assistant."
)
ANSWERS_CUT = FindingKind(
    "answers-cut", _WARNING, "{rows} {have} an answer that is cut off at {detail} tokens."
)
ANSWERS_GONE = FindingKind(
    "answers-gone",
    _WARNING,
    "{rows} {are} left out: no answer of theirs begins within {detail} tokens.",
)
EARLIER_UNTRAINED = FindingKind(
    "earlier-untrained",
    _WARNING,
    "Of {rows} only the last answer is learned: the chat template rewrites earlier ones.",
)

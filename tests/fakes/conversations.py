"""Tables of conversations, as `read_table` gives them, made of rows in a file of the test."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.engine.data.conversations import ChatRow, ConversationReader, find_shape
from core.engine.data.findings import Tally
from core.engine.data.tables import Table, read_table
from core.jobs.inspect import DataFinding, FindingLevel
from core.options.choices import PreferenceLoss

# --- Tables of conversations, as `read_table` gives them, made of rows in a file of the test


GOOD = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@dataclass(frozen=True)
class Checked:
    """All that is found in a table, and its usable rows."""

    rows: tuple[ChatRow, ...]
    findings: tuple[DataFinding, ...]

    @property
    def problems(self) -> tuple[DataFinding, ...]:
        """The findings that stop a run."""
        return tuple(finding for finding in self.findings if finding.level is FindingLevel.PROBLEM)


def json_table(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows through a JSON Lines file."""
    path = folder / "talks.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return read_table(path)


def checked(
    table: Table, *, preference: PreferenceLoss | None = None, columns: Any = None, roles: Any = None
) -> Checked:
    """All that is found in a table, and all its usable rows."""
    shape = find_shape(table, preference=preference, columns=columns)
    tally = Tally(table.row_word)
    rows = tuple(ConversationReader(table, shape, tally, roles))
    return Checked(rows, tally.findings())


# --- Small chat templates with the habits of well-known ones


PLAIN = (
    "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '</s>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
"""A header before and a mark after each turn, without marks of what is learned."""

MARKED = (
    "{% for m in messages %}{{ '<' + m.role + '>' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '</s>' }}{% endgeneration %}{% else %}{{ m.content + '</s>' }}{% endif %}"
    "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
"""The same with marks."""

MARKED_WITHOUT_END = MARKED.replace("{{ m.content + '</s>' }}{% end", "{{ m.content }}{% end").replace(
    "{% endgeneration %}", "{% endgeneration %}{{ eos_token }}"
)
"""Marks around the answer alone: the token that ends it stands outside."""

BRACKETS = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}"
    "{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content | trim + eos_token }}{% endif %}{% endfor %}"
)
"""Refuses other orders and system prompts, trims, and has no header to ask with: like Llama 2's and Mistral's."""

FORGETS_THOUGHTS = (
    "{% for m in messages %}{{ '<' + m.role + '>' }}"
    "{% if m.role == 'assistant' and m.reasoning_content and loop.last %}"
    "{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}{{ m.content + '</s>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
"""Writes thoughts of the last answer only, as Qwen 3's does."""

ASKS_FOR_THOUGHTS = PLAIN.replace("'<assistant>'", "'<assistant><think>'")
"""Begins an answer with a mark that stands in no finished one, as DeepSeek R1's does."""

NEVER_ASKS = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
"""Has a header and no way to ask with it; a line break is all that ends a turn."""

NO_CALLS = PLAIN.replace("m.content", "(m.content or '')")
"""Knows nothing of tool calls and says nothing of them."""

PARTS = (
    "{% for m in messages %}{{ m.role + ': ' }}"
    "{% for p in m.content if p.type %}{{ p.text }}{% endfor %}\n{% endfor %}"
)
"""Wants contents in parts, as templates of models with images do, and leaves out plain texts."""

LAST_ENDS = PLAIN.replace(
    "{% if add", "{% if not add_generation_prompt %}{{ eos_token }}{% endif %}{% if add"
)
"""Puts the end of text after whatever is last, as Phi 3's does."""

CALLS_AS_TEXT = PLAIN.replace(
    "m.content +",
    "m.content + (m.tool_calls[0].function.name + m.tool_calls[0].function.arguments if m.tool_calls else '') +",
)
"""Wants the arguments of calls as text, as DeepSeek V3's does."""

DIARY = "{{ 'last said: ' + messages[-1].content }}{% for m in messages %}{{ '|' + m.content }}{% endfor %}"
"""Begins differently with every turn, so that no answer can be told."""

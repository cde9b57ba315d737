"""Small chat templates with the habits of well-known ones."""

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

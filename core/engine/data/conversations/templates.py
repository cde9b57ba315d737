"""Chat templates: the model's own, or ChatML where it has none; whichever is used is saved with the model.

Templates are Jinja that transformers renders in a sandbox; nothing of them is executed otherwise.
"""

from typing import Any

from core.choices import ChatTemplate

TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
"""What ChatML writes around each turn."""

CHATML = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- 'These functions can be called, each described by its JSON schema:\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools>\\nA call is written as <tool_call>{"name": ..., "arguments": {...}}</tool_call>.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}
            {%- if message.reasoning_content %}
                {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
            {%- endif %}
            {{- message.content }}
            {%- for call in message.tool_calls or [] %}
                {%- if message.content or not loop.first %}
                    {{- '\\n' }}
                {%- endif %}
                {{- '<tool_call>{"name": ' + (call.function.name | tojson) + ', "arguments": ' }}
                {{- (call.function.arguments | tojson) + '}</tool_call>' }}
            {%- endfor %}
            {{- '<|im_end|>' }}
            {%- if eos_token and eos_token != '<|im_end|>' %}
                {{- eos_token }}
            {%- endif %}
        {%- endgeneration %}
        {{- '\\n' }}
    {%- elif not (tools and loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
"""ChatML with the learned part marked.

The model's own end of text follows each answer where it isn't `<|im_end|>`: whatever generates text stops there, and
no new token has to be learned.
"""

_WITH_START = "{{- bos_token }}\n"


def set_template(tokenizer: Any, choice: ChatTemplate = ChatTemplate.AUTO) -> ChatTemplate:
    """Give a tokenizer the template that is asked for; it is saved with it.

    Returns:
        What it came to: AUTO where the model's own is used, CHATML where that is.
    """
    if choice is ChatTemplate.AUTO and tokenizer.chat_template:
        return ChatTemplate.AUTO
    tokenizer.chat_template = (_WITH_START if _begins_texts(tokenizer) else "") + CHATML
    return ChatTemplate.CHATML


def _begins_texts(tokenizer: Any) -> bool:
    """Whether the tokenizer puts a token before every text, which models such as Gemma can't do without."""
    begin = tokenizer.bos_token_id
    return begin is not None and tokenizer("a")["input_ids"][:1] == [begin]

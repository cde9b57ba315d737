"""Names and values in a text that somebody pasted: JSON, a Python script, or a command line."""

import ast
import json
import re
import shlex
from itertools import pairwise
from string import Template
from typing import Any

from core.trainer_translation import translate

CONTINUATIONS = ("\\\n", "^\n", "`\n")
"""How shells, Windows' own and PowerShell among them, go on in the next line."""

SHELLS = re.compile(r"\$[A-Za-z_{(]|`")
"""What only a shell knows."""

NOT_PLAIN = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)


class Computed:
    """In place of a value that a script or a shell computes: nobody knows it before that runs, and nobody runs it."""


def said_in(text: str) -> dict[str, Any]:
    """Names and values, whatever form they come in; empty where it has none of them."""
    text = text.replace("\r\n", "\n").strip()
    return _from_json(text) or _from_python(text) or _from_command_line(text)


def _from_json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    if found.get("peft_type") == "LORA":  # adapter_config.json
        return {"use_lora": True, **{_lora_name(name): value for name, value in found.items()}}
    return found


def _from_python(text: str) -> dict[str, Any]:
    """The keywords of the calls that make arguments and configurations, and of `from_pretrained`."""
    try:
        module = ast.parse(text)
    except NOT_PLAIN:
        return {}
    found: dict[str, Any] = {}
    for call in ast.walk(module):
        name = _called(call) if isinstance(call, ast.Call) else ""
        if isinstance(call, ast.Call) and name.endswith(("Arguments", "Config", "from_pretrained")):
            is_lora = name == "LoraConfig"
            if is_lora:
                found["use_lora"] = True
            if name == "from_pretrained" and call.args:
                found.setdefault("model_name_or_path", _plain(call.args[0]))
            for keyword in call.keywords:
                said = keyword.arg or "**"
                found[_lora_name(said) if is_lora else said] = _plain(keyword.value)
    return found


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _lora_name(name: str) -> str:
    """PEFT's bare names, `r` among them, as names that mean LoRA."""
    return f"lora_{name}" if translate(name, None) is None and translate(f"lora_{name}", None) else name


def _plain(expression: ast.expr) -> Any:
    try:
        value = ast.literal_eval(expression)
    except NOT_PLAIN:
        return Computed()
    if isinstance(value, set | tuple):
        value = sorted(value, key=str)
    is_plain = value is None or isinstance(value, str | int | float | list | dict)
    return value if is_plain else Computed()


def _from_command_line(text: str) -> dict[str, Any]:
    for continuation in CONTINUATIONS:
        text = text.replace(continuation, " ")
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return {}
    words, found = _with_variables(words), {}
    for word, following in pairwise([*words, "--"]):
        if word.startswith("--") and word != "--":
            name, equals, value = word[2:].partition("=")
            is_bare = not equals and (following.startswith("--") or following.endswith(".py"))
            said = value if equals else following
            found[name.replace("-", "_")] = is_bare or (Computed() if SHELLS.search(said) else said)
    return found


def _with_variables(words: list[str]) -> list[str]:
    """The words of a shell, with what it assigns itself (`export TASK_NAME=mrpc`) in place of `$TASK_NAME`."""
    assigned: dict[str, str] = {}
    told = []
    for word in words:
        told.append(Template(word).safe_substitute(assigned))
        name, equals, value = told[-1].partition("=")
        if equals and name.isidentifier():
            assigned[name] = value
    return told

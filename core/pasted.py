"""Names and values in a text that somebody pasted: JSON, a Python script, or a command line."""

import ast
import json
import shlex
from itertools import pairwise
from typing import Any

from core.trainer_names import translate


def said_in(text: str) -> dict[str, Any]:
    """Names and values, whatever form they come in; empty where it has none of the three."""
    return _from_json(text) or _from_python(text) or _from_command_line(text)


def _from_json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _from_python(text: str) -> dict[str, Any]:
    """The keywords of every call such as `TrainingArguments(...)` or `LoraConfig(...)` whose values are plain."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, Any] = {}
    for call in ast.walk(module):
        if isinstance(call, ast.Call):
            prefix = "lora_" if _called(call) == "LoraConfig" else ""
            if prefix:
                found["use_lora"] = True
            for keyword in call.keywords:
                name = keyword.arg or ""
                try:
                    found[name if translate(name, None) or not prefix else f"{prefix}{name}"] = (
                        ast.literal_eval(keyword.value)
                    )
                except ValueError:  # computed, not written out
                    continue
    return found


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _from_command_line(text: str) -> dict[str, Any]:
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError:
        return {}
    found: dict[str, Any] = {}
    for word, following in pairwise([*words, "--"]):
        if word.startswith("--") and word != "--":
            name, equals, value = word[2:].partition("=")
            is_bare = not equals and (following.startswith("--") or following.endswith(".py"))
            found[name.replace("-", "_")] = is_bare or (value if equals else following)
    return found

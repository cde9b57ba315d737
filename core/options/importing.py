"""Import options from TrainingArguments (JSON or a script) or a command line of run_glue.py."""

import ast
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

from core.base.errors import OptionsError, Problem
from core.base.language import _
from core.options import SCHEMA, Tree
from core.options.catalogue import put, value_at
from core.options.choices import Task
from core.options.trainer_args import Gone, Known, is_true, translate, typed
from core.options.validate import read_options

# --- Parsing


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
    resolved = []
    for word in words:
        resolved.append(Template(word).safe_substitute(assigned))
        name, equals, value = resolved[-1].partition("=")
        if equals and name.isidentifier():
            assigned[name] = value
    return resolved


# --- Importing


TRAINERS_OWN: Mapping[str, tuple[str, Any]] = {
    "memory.batch_size": ("per_device_train_batch_size", 8),
    "data.group_by_length": ("group_by_length", "off"),
    "device.precision": (_("fp16 and bf16"), "fp32"),
}
"""What Trainer takes where nothing is said and Hone takes something else: without it, another run would be imported."""

NOT_SAID = "(not said)"
UNKNOWN = _("Hone knows no such name")


@dataclass(frozen=True)
class Taken:
    """One of their names that was taken over: as they said it, and the options it came to, by path."""

    name: str
    value: Any
    options: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True)
class Left:
    """One of their names that was not, and why, or what has taken its place."""

    name: str
    reason: str


@dataclass(frozen=True)
class Imported:
    """What was made of a text: a run file as plain values, and what of it can't be asked like that."""

    tree: Tree
    taken: tuple[Taken, ...]
    left: tuple[Left, ...]
    problems: tuple[Problem, ...]


def import_text(text: str) -> Imported:
    """Read options out of JSON, Python or a command line.

    Raises:
        OptionsError: It is none of the three, or nothing in it is an option.
    """
    said = said_in(text)
    imported = _assemble(said) if said else None
    if imported is None:
        reason = "has no names that Hone knows: paste JSON, TrainingArguments(...), or a command line with --options"
        raise OptionsError((Problem("", reason),), _("What was pasted"))
    return imported


def import_file(path: Path) -> Imported:
    """As `import_text`, from a file.

    Raises:
        OptionsError: It can't be read, or there are no options in it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else _("is not a text file in UTF-8")
        raise OptionsError(
            (Problem("", _("can't be read: {reason}").format(reason=reason)),), str(path)
        ) from error
    return import_text(text)


def _assemble(said: Mapping[str, Any]) -> Imported | None:
    """What names and values come to; None where Hone knows none of them."""
    taken: list[Taken] = []
    left: list[Left] = []
    problems: list[Problem] = []
    is_scored = str(said.get("task_name")).lower() == "stsb"  # of GLUE's tasks, the one that is a regression
    of_texts = Task.TEXT_REGRESSION if is_scored else Task.TEXT_CLASSIFICATION
    task = Task.IMAGE_CLASSIFICATION if "train_dir" in said else of_texts
    quantized = [name for name in ("load_in_4bit", "load_in_8bit") if is_true(said.get(name))]
    tree: Tree = {"schema": SCHEMA, "task": task.value}
    for name, value in said.items():
        if name == "use_lora" and quantized:  # QLoRA is LoRA already
            continue
        known = _translate(name, value)
        if name == "**":
            left.append(Left("**", "the script computes these; set them by hand"))
        elif known is None or isinstance(known, Gone):
            left.append(Left(name, known.advice if known else UNKNOWN))
        elif isinstance(value, Computed):
            left.append(Left(name, "its value is not in this text; set it by hand"))
        elif not known.values:
            left.append(Left(name, known.note or _("it is off")))
        else:
            clash = next((path for path, new in known.values.items() if value_at(tree, path, new) != new), "")
            if clash:
                other = next(found.name for found in taken if clash in found.options)
                problems.append(Problem(clash, f"{name} and {other} exclude each other; choose one"))
            else:
                put(tree, known.values)
                taken.append(Taken(name, value, known.values, known.note))
    if not taken and not problems and all(one.reason == UNKNOWN or one.name == "**" for one in left):
        return None
    if any(path.startswith(("training.", "memory.", "device.")) for one in taken for path in one.options):
        for path, (name, value) in TRAINERS_OWN.items():  # an adapter's config says nothing of it
            is_for_texts = path == "data.group_by_length" and task.reads_images
            if value_at(tree, path) is None and not is_for_texts:
                put(tree, {path: value})
                note = "Trainer's default; Hone's own is faster"
                taken.append(Taken(name, NOT_SAID, {path: value}, note))
    if quantized and "use_lora" in said and not is_true(said["use_lora"]):
        message = _(
            "{quantized} packs the weights, and packed weights can't be trained themselves: keep "
            "QLoRA, or train "
            "all weights unpacked"
        ).format(quantized=quantized[0])
        problems.append(Problem("model.method", message))
    _rest, found = read_options(tree)
    for problem in found:
        section, _rest2, option = problem.path.rpartition(".")
        tree.get(section, {}).pop(option, None)  # a run file is made of it, and has to be readable
    return Imported(tree, tuple(taken), tuple(left), (*problems, *found))


def _translate(name: str, value: Any) -> Known | Gone | None:
    if value is None or isinstance(value, Computed):
        known = translate(name, None)
        return Known({}) if isinstance(known, Known) else known
    known = translate(name, value)
    if isinstance(known, Known):
        values = {path: typed(path, given) for path, given in known.values.items()}
        return Known(values, known.note)
    return known

"""Import options from TrainingArguments (JSON or Python) or from a command line such as that of run_glue.py."""

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

from core.base.errors import OptionsError, Problem, why
from core.base.language import _
from core.options import SCHEMA, Tree
from core.options.catalogue import put, value_at
from core.options.choices import PreferenceLoss, Task
from core.options.run_file import parse_value
from core.options.trainer_args import is_true, translate
from core.options.validate import read_options

# --- Parsing


SHELL_SYNTAX = re.compile(r"\$[A-Za-z_{(]|`")

COMPUTED: Any = object()
"""In place of a value that only a script or a shell could compute."""


def parse_arguments(text: str) -> dict[str, Any]:
    """Returns names and values in JSON, Python or a command line. Empty if there are none; nothing is run."""
    text = text.replace("\r\n", "\n").strip()
    return _from_json(text) or _from_python(text) or _from_command_line(text)


def _from_json(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    if content.get("peft_type") == "LORA":  # adapter_config.json
        return {"use_lora": True, **{_lora_name(name): value for name, value in content.items()}}
    return content


def _from_python(text: str) -> dict[str, Any]:
    """Returns keyword arguments of calls of `...Arguments`, `...Config` and `from_pretrained`."""
    try:
        module = ast.parse(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    arguments: dict[str, Any] = {}
    for call in ast.walk(module):
        if not isinstance(call, ast.Call):
            continue
        function = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if not function.endswith(("Arguments", "Config", "from_pretrained")):
            continue
        if function == "LoraConfig":
            arguments["use_lora"] = True
        if (loss := function.removesuffix("Config").lower()) in tuple(PreferenceLoss):
            arguments["preference_loss"] = loss
        if function == "from_pretrained" and call.args:
            arguments.setdefault("model_name_or_path", _literal(call.args[0]))
        for keyword in call.keywords:
            name = keyword.arg or "**"
            arguments[_lora_name(name) if function == "LoraConfig" else name] = _literal(keyword.value)
    return arguments


def _lora_name(name: str) -> str:
    """Returns PEFT's `r` as `lora_r`; names that are known anyway are returned unchanged."""
    return f"lora_{name}" if translate(name, None) is None and translate(f"lora_{name}", None) else name


def _literal(expression: ast.expr) -> Any:
    try:
        value = ast.literal_eval(expression)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return COMPUTED
    return list(value) if isinstance(value, set | tuple) else value


def _from_command_line(text: str) -> dict[str, Any]:
    try:
        # lines continued by sh, cmd, PowerShell
        words = shlex.split(re.sub(r"[\\^`]\n", " ", text), comments=True)
    except ValueError:
        return {}
    arguments: dict[str, Any] = {}
    variables: dict[str, str] = {}
    for number, word in enumerate(words):  # `export TASK_NAME=mrpc`, as the guides have it
        words[number] = Template(word).safe_substitute(variables)
        name, equals, value = words[number].partition("=")
        if equals and name.isidentifier():
            variables[name] = value
    for word, following in pairwise([*words, "--"]):
        if word.startswith("--") and word != "--":
            name, equals, value = word[2:].partition("=")
            is_switch = not equals and (following.startswith("--") or following.endswith(".py"))
            text = value if equals else following
            arguments[name.replace("-", "_")] = is_switch or (COMPUTED if SHELL_SYNTAX.search(text) else text)
    return arguments


# --- Importing


TRAINER_DEFAULTS: Mapping[str, tuple[str, Any]] = {
    "memory.batch_size": ("per_device_train_batch_size", 8),
    "data.group_by_length": ("group_by_length", "off"),
    "device.precision": (_("fp16 and bf16"), "fp32"),
}
"""Trainer's defaults where Hone has others: argument and value by the option's path."""

NOT_GIVEN = _("(not given)")
UNKNOWN = _("unknown name")


@dataclass(frozen=True)
class Taken:
    """An argument that was translated: its value in the script, and the options it sets, by path."""

    name: str
    value: Any
    options: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True)
class Left:
    """An argument that sets no option, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Imported:
    """A run file as plain values, what became of each argument, and the values that are wrong or exclude each other."""

    tree: Tree
    taken: tuple[Taken, ...]
    left: tuple[Left, ...]
    problems: tuple[Problem, ...]


def import_file(path: Path) -> Imported:
    """Imports options from a file, as `import_text` does.

    Raises:
        OptionsError: The file can't be read, or holds no options.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = why(error) if isinstance(error, OSError) else _("not a text file in UTF-8")
        problem = Problem("", _("can't be read: {reason}").format(reason=reason))
        raise OptionsError((problem,), str(path)) from error
    return import_text(text)


def import_text(text: str) -> Imported:
    """Imports options from JSON, Python or a command line.

    Raises:
        OptionsError: The text is none of the three, or holds no known name.
    """
    arguments = parse_arguments(text)
    if all(name == "**" or translate(name, value) is None for name, value in arguments.items()):
        reason = _(
            "has no names that Hone knows: paste JSON, TrainingArguments(...), or a command line with --options"
        )
        raise OptionsError((Problem("", reason),), _("The text"))
    return _import(arguments)


def _import(arguments: dict[str, Any]) -> Imported:
    taken: list[Taken] = []
    left: list[Left] = []
    problems: list[Problem] = []
    quantized = [name for name in ("load_in_4bit", "load_in_8bit") if is_true(arguments.get(name))]
    if quantized and "use_lora" in arguments and not is_true(arguments.pop("use_lora")):
        message = _("quantized weights ({name}) can only be trained with LoRA").format(name=quantized[0])
        problems.append(Problem("model.method", message))
    tree: Tree = {"schema": SCHEMA, "task": _task(arguments).value}
    strategy = arguments.get("eval_strategy", arguments.get("evaluation_strategy"))
    if strategy == "steps":
        arguments.setdefault("eval_steps", arguments.get("logging_steps", 500))  # as Trainer does
    elif strategy == "epoch" and arguments.pop("eval_steps", None):
        left.append(Left("eval_steps", _("evaluation is after each epoch (eval_strategy)")))
    for name, value in arguments.items():
        translation = translate(name, None if value is COMPUTED else value)
        values = _parsed(translation.values) if translation else {}
        clashes = [path for path, new in values.items() if value_at(tree, path, new) != new]
        if name == "**" or value is COMPUTED:
            left.append(Left(name, _("not a plain value in this text; set it by hand")))
        elif translation is None:
            left.append(Left(name, UNKNOWN))
        elif not values:
            left.append(Left(name, translation.note or _("off")))
        elif clashes:
            other = next(argument.name for argument in taken if clashes[0] in argument.options)
            message = _("{name} and {other} exclude each other; choose one").format(name=name, other=other)
            problems.append(Problem(clashes[0], message))
        else:
            put(tree, values)
            taken.append(Taken(name, value, values, translation.note))
    if any(path.startswith(("training.", "memory.", "device.")) for one in taken for path in one.options):
        for path, (name, value) in TRAINER_DEFAULTS.items():  # not for the config of an adapter
            if value_at(tree, path) is None and not (
                path == "data.group_by_length" and "train_dir" in arguments
            ):
                put(tree, {path: value})
                note = _("Trainer's default; that of Hone is faster")
                taken.append(Taken(name, NOT_GIVEN, {path: value}, note))
    _options, invalid = read_options(tree)
    for problem in invalid:  # what remains has to be readable as a run file
        section, _dot, option = problem.path.rpartition(".")
        tree.get(section, {}).pop(option, None)
    return Imported(tree, tuple(taken), tuple(left), (*problems, *invalid))


def _task(arguments: Mapping[str, Any]) -> Task:
    if "train_dir" in arguments:
        return Task.IMAGE_CLASSIFICATION
    if "preference_loss" in arguments:
        return Task.PREFERENCE
    is_regression = str(arguments.get("task_name")).lower() == "stsb"  # the only one among the tasks of GLUE
    return Task.TEXT_REGRESSION if is_regression else Task.TEXT_CLASSIFICATION


def _parsed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values by path in the types of their options where they were texts, such as those of a command line."""
    parsed = {
        path: parse_value(path, value) if isinstance(value, str) else value for path, value in values.items()
    }
    return {path: value for path, value in parsed.items() if value is not None}

"""The sentences of the program."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.sentences import SENTENCES, messages

ROOT = Path(__file__).resolve().parent.parent


def test_placeholders_have_names():
    unnamed = re.compile(r"(?<!\{)\{(:[^}]*)?\}")
    assert [each for each in messages() if any(map(unnamed.search, each[2]))] == []


LOOKS_SHOWN = re.compile(
    r"[A-Z][a-z]{2,}…?|(?:[A-Z]|\d+ )[^\n\\<>=_/*#$^|]*[a-z)}] [^\n\\<>=_*#$^|]*[a-z?!.:…)”]"
)
"""A word with a capital letter, or two words that begin with one or with a number."""
NAMES = {
    *(
        "Adafactor",
        "Claude",
        "Datasets",
        "English",
        "Gemma",
        "Hone",
        "Lion",
        "Llama",
        "Mistral",
        "Mixtral",
        "Muon",
    ),
    *("Ollama", "Parquet", "Pearson", "Python", "Spearman", "Transformers"),
    *("Pretrained weights", "TinyLlama 1.1B Chat"),
}
ENGLISH = (
    *("core/engine/script.py", "core/engine/mlx/script.py"),  # comments of the scripts
    *("core/engine/export/job.py", "core/engine/export/formats.py"),  # model cards
    "core/sharing/support.py",  # for who helps
    "core/engine/training/differences.py",  # names of optimizers
    *(
        "core/base/uv.py",
        "core/monitor",
        "core/hosts",
        "core/services/gpu_install.py",
    ),  # what others print and are called
    *("core/engine/data/json_files.py", "core/engine/models/parts.py", "core/base/language.py"),
)
INTERNAL = {
    "ParamSpec",
    "TypeVar",
    "compile",
    "debug",
    "endswith",
    "error",
    "exception",
    "getattr",
    "hasattr",
    "info",
}
INTERNAL |= {"setProperty", "setStyle", "warning"}


def sources() -> list[Path]:
    return sorted(path for package in ("core", "gui") for path in (ROOT / package).rglob("*.py"))


def literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Texts that may be shown: none that is translated, compared, logged, or explains the code."""
    left: set[int] = set()
    for node in ast.walk(tree):
        inner: list[Any] = []
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                is_error = name.endswith(("Error", "Exit"))
                inner = (
                    [node]
                    if name in {*SENTENCES, *INTERNAL} or (is_error and hasattr(builtins, name))
                    else []
                )
            case ast.Expr(value=ast.Constant()) | ast.Compare() | ast.Subscript() | ast.Assert():
                inner = [node]
            case ast.AnnAssign() | ast.arg():
                inner = [node.annotation]
            case ast.FunctionDef():
                inner = [node.returns]
        left |= {id(each) for one in inner if one is not None for each in ast.walk(one)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left:
            yield node


def test_no_sentence_stands_in_another_string():
    """Babel overlooks it there where Python is older than 3.12."""
    trees = ((path, ast.parse(path.read_text(encoding="utf-8"))) for path in sources())
    assert [
        (path.name, inner.lineno)
        for path, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in SENTENCES
    ] == []


def test_what_is_shown_goes_through_gettext():
    found = []
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(ENGLISH):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = (node for node in literals(tree) if LOOKS_SHOWN.fullmatch(node.value))
            found += [(name, node.value) for node in texts if node.value not in NAMES]
    assert found == []

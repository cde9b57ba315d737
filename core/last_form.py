"""What stood in the form for a new run when the window was last used, as a run file in Hone's folder.

Kept as it was typed: paths are not made absolute, and what is wrong with it is told where it is shown again.
"""

import contextlib
import logging
import tomllib
from pathlib import Path

import tomli_w

from core import settings
from core.choices import Task
from core.files import write_atomically
from core.options import SCHEMA, Tree

log = logging.getLogger("hone")


def keep(tree: Tree) -> None:
    """Keep the values of a form; where that can't be written, only this is lost."""
    try:
        content = tomli_w.dumps(tree).encode()
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_file(), content)
    except (OSError, ValueError) as error:  # ValueError: half a character in a path, which no UTF-8 holds
        log.warning("the form can't be kept: %s", error)


def find() -> Tree | None:
    """The values kept last; None where there are none, or the file is damaged or of another Hone."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        tree = tomllib.loads(_file().read_text(encoding="utf-8"))
        if tree.get("schema") == SCHEMA and tree.get("task") in [task.value for task in Task]:
            return tree
    return None


def _file() -> Path:
    return settings.home() / "new-run.toml"

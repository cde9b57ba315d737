"""How a result is shown on a terminal or written for other programs."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from core.bench import tables
from core.bench.result import Result
from core.commands.output import print_json, say
from core.files import write_atomically
from core.targets import new_file, writing

STDOUT = "-"


class Form(StrEnum):
    """What a result is shown as."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    CSV = "csv"


@dataclass(frozen=True)
class Showing:
    """How a result is shown; `file` is where CSV goes, `published` puts the figures of others beside."""

    form: Form = Form.TEXT
    file: str = ""
    published: bool = False

    def check(self) -> None:
        """Look at the file before anything is measured for it.

        Raises:
            TargetError: Something is there, or it can't be written there.
        """
        if self.file and self.file != STDOUT:
            new_file(Path(self.file))

    def show(self, result: Result) -> None:
        """Show a result.

        Raises:
            TargetError: The file can't be written there.
            UserError: It can't be written, for another reason: the disk is full.
        """
        match self.form:
            case Form.JSON:
                print_json(result)
            case Form.MARKDOWN:
                say(tables.markdown(result, published=self.published), end="")
            case Form.CSV if self.file == STDOUT:
                say(tables.csv(result), end="")
            case Form.CSV:
                say(tables.text(result, published=self.published))
                self._write(Path(self.file), tables.csv(result))
            case Form.TEXT:
                say(tables.text(result, published=self.published))

    def _write(self, path: Path, content: str) -> None:
        with writing(path):
            write_atomically(new_file(path), content.encode())
        say(f"Written to {path}", sys.stderr)

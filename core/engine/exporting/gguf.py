"""GGUF by llama.cpp's own converter, where it is installed; what it makes is asked by llama.cpp's own program."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from core import llama_cpp
from core.engine.exporting.folders import write_folder
from core.engine.exporting.rows import Rows
from core.engine.exporting.written import NotChecked, Place, Tell, Written
from core.errors import ModelError
from core.export_offers import ExportSource
from core.exporting import Agreement, Compared, NumberFormat
from core.processes import command_line, foreign_environment, is_frozen

OUT_TYPES = {NumberFormat.FP32: "f32", NumberFormat.BF16: "bf16", NumberFormat.FP16: "f16"}
BEGINNING = 4
"""So many tokens of an answer have to be the same: rounding changes what comes after, once it changes one."""
SHARE = 0.75
WHY = "Half precision and other kernels change an answer from where two tokens are nearly as likely."
RUN_SECONDS = 300
QUIETLY = ("--no-display-prompt", "-no-cnv", "--no-warmup")
LAST_LINES = 6
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
NO_PYTHON = (
    "llama.cpp's converter is a Python program, and there is no Python on the PATH: install one with llama.cpp's "
    "requirements."
)


def write_gguf(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write one GGUF file; without a converter or its Python the model folder it is made from, and how to go on.

    Raises:
        ModelError: The model can't be read, the converter doesn't know it, or its Python lacks what it takes.
    """
    converter, python = llama_cpp.find_converter(), _python()
    whole = write_folder(source, place, tell)
    name = f"{source.run.name}.gguf"
    if converter is None or python is None:
        script = converter or llama_cpp.CONVERTER
        command = command_line("python", script, place.target, "--outfile", place.target / name)
        why = llama_cpp.NOT_FOUND if converter is None else NO_PYTHON
        return Written(
            whole.check,
            notes=(f"Then run: {command}",),
            missing=f"The GGUF file is missing: {why} The model it is made from is here.",
        )
    tell("Converting to GGUF")
    _convert(python, converter, place, name)
    for path in place.into.iterdir():
        if path.name != name:
            path.unlink()  # all of it is in the one file
    runner = llama_cpp.find_runner()
    notes = (f"To use it: {command_line('llama-cli', '-m', place.target / name)}",)
    if runner is None:
        return Written(
            None, "Not checked: llama.cpp's llama-cli, which would answer with it, was not found.", notes
        )
    return Written(
        lambda rows, _before: _asked(runner, place.into / name, rows),
        "Not checked: no prompt is plain text.",
        notes,
    )


def _convert(python: str, converter: Path, place: Place, name: str) -> None:
    arguments = [
        str(place.into),
        "--outfile",
        str(place.into / name),
        "--outtype",
        OUT_TYPES.get(place.numbers, "auto"),
    ]
    done = subprocess.run(
        [python, str(converter), *arguments],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        env=foreign_environment(),
    )
    if done.returncode or not (place.into / name).is_file():
        if absent := _NO_MODULE.search(done.stderr):
            raise _without_requirements(python, absent[1])
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-LAST_LINES:])
        raise ModelError(
            "llama.cpp's converter could not make a GGUF file of this model", f"{converter} said:\n{said}"
        )


def _python() -> str | None:
    """What runs the converter: this Python; from the bundled program, which is none, the person's own, if any."""
    return shutil.which("python3") or shutil.which("python") if is_frozen() else sys.executable


def _without_requirements(python: str, module: str) -> ModelError:
    command = command_line(python, "-m", "pip", "install", "-r", "requirements.txt")
    another = ", or start Hone where the python3 on the PATH is one that has them" if is_frozen() else ""
    return ModelError(
        "The Python that runs llama.cpp's converter lacks its requirements",
        f"{python} has no module {module}. Install them, in llama.cpp's folder: {command}{another}",
    )


def _asked(runner: Path, file: Path, rows: Rows) -> Agreement | None:
    """Hold what llama.cpp writes after each prompt against what the trained model writes."""
    asked = as_texts(rows)
    if not asked:
        return None
    equal = sum(_is_alike(runner, file, ids, start, rows.tokenizer) for ids, start in asked)
    return Agreement(
        examples=len(asked),
        held_out=min(rows.held_out, len(asked)),
        compared=Compared.TEXTS,
        equal=equal,
        counted=len(asked),
        largest=None,
        allowed=None,
        why=WHY,
        holds=equal >= SHARE * len(asked),
    )


def as_texts(rows: Rows) -> list[tuple[list[int], int]]:
    """Tokens and the place of a prompt's last one, of the prompts that are the same tokens again once written out."""
    found = []
    for row in rows.rows:
        ids, start = row.inputs["input_ids"][0].tolist(), row.start or 0
        text = rows.tokenizer.decode(ids[: start + 1])
        again = rows.tokenizer(text, add_special_tokens=False)["input_ids"]
        if again == ids[: start + 1] and "\0" not in text:
            found.append((ids, start))
    return found


def _is_alike(runner: Path, file: Path, ids: list[int], start: int, tokenizer: Any) -> bool:
    """Whether llama.cpp goes on from a prompt with the same first tokens, as text.

    Raises:
        NotChecked: It gave no answer in time.
    """
    expected = tokenizer.decode(ids[start + 1 : start + 1 + BEGINNING], skip_special_tokens=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8", delete=False) as prompt:
        prompt.write(tokenizer.decode(ids[: start + 1]))
    try:
        asked = [
            str(runner),
            "-m",
            str(file),
            "-f",
            prompt.name,
            "-n",
            str(BEGINNING),
            "--temp",
            "0",
            *QUIETLY,
        ]
        done = subprocess.run(
            asked,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # the last token may hold half a character
            check=False,
            timeout=RUN_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        said = f"Not checked: {runner.name} gave no answer within {RUN_SECONDS} seconds."
        raise NotChecked(said) from error
    finally:
        Path(prompt.name).unlink()
    said = done.stdout.removesuffix("\n").removesuffix("[end of text]")
    return said.strip() == expected.strip()

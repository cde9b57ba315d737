"""llama.cpp's programs: searched in `LLAMA_CPP` (a folder or the converter), on the PATH, beside the package gguf."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from core.base.errors import why
from core.base.language import _
from core.base.processes import foreign_environment, is_frozen

VARIABLE = "LLAMA_CPP"
CONVERTER = "convert_hf_to_gguf.py"
QUANTIZER = "llama-quantize"


def find_converter() -> Path | None:
    named, on_path = os.environ.get(VARIABLE, ""), shutil.which(CONVERTER)
    candidates = [Path(named).expanduser()] if named.endswith(".py") else []
    candidates += [folder / CONVERTER for folder in _llama_folders()]
    candidates += [Path(on_path)] if on_path else []
    return next((path for path in candidates if path.is_file()), None)


def find_quantizer() -> str | None:
    """Finds llama.cpp's program that quantizes GGUF files."""
    built = [str(folder / inside) for folder in _llama_folders() for inside in (".", "build/bin")]
    return shutil.which(QUANTIZER, path=os.pathsep.join((*built, os.environ.get("PATH", ""))))


def find_python() -> str:
    """Returns the Python that runs the converter: of an environment in llama.cpp's folder, else Hone's; may be empty.

    A bundled program isn't Python: it takes one on the PATH, if there is one.
    """
    places = [
        folder / name / inside
        for folder in _llama_folders()
        for name in (".venv", "venv")
        for inside in ("bin/python", "Scripts/python.exe")
    ]
    own = next((str(place) for place in places if place.is_file()), "")
    return own or (
        (shutil.which("python3") or shutil.which("python") or "") if is_frozen() else sys.executable
    )


CONVERTER_SECONDS = 60.0
Started = subprocess.Popen[str]
Hold = Callable[[Callable[[], Started]], Started]
"""Calls a function that starts a process, and may end that process later."""
MISSING = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")


def why_not_converted(python: str, converter: Path, hold: Hold) -> str:
    """Starts the converter, which takes seconds; returns why it can't be used, empty if it can."""

    def start() -> Started:
        return subprocess.Popen(
            (python, str(converter), "--help"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=foreign_environment(),
        )

    try:
        with hold(start) as process:
            try:
                said = process.communicate(timeout=CONVERTER_SECONDS)[1].strip()
            except subprocess.TimeoutExpired:
                process.kill()
                reason = _("no answer within {seconds:.0f} s").format(seconds=CONVERTER_SECONDS)
                return _unusable(python, reason)
    except OSError as error:
        return _unusable(python, why(error))
    if missing := MISSING.search(said):
        return lacks_module(python, missing[1])
    if process.returncode:
        last = (
            said.splitlines()[-1]
            if said
            else _("it ended with exit status {code}").format(code=process.returncode)
        )
        return _unusable(python, last)
    return ""


def _unusable(python: str, reason: str) -> str:
    text = _("{python} doesn't start llama.cpp's converter ({reason}). In llama.cpp's folder: {command}")
    return text.format(python=python, reason=reason, command=own_environment())


def lacks_module(python: str, module: str) -> str:
    text = _(
        "{python} has no module {module}, which llama.cpp's converter needs. In llama.cpp's folder: {command}"
    )
    return text.format(python=python, module=module, command=own_environment())


def own_environment() -> str:
    """Returns the command that installs llama.cpp's requirements, in an environment apart: they may replace Hone's."""
    if os.name == "nt":
        both = r"py -m venv .venv && .venv\Scripts\python -m pip install -r requirements.txt"
        return f'cmd /c "{both}"'  # PowerShell 5 knows no &&
    return "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt"


def _llama_folders() -> list[Path]:
    named = os.environ.get(VARIABLE, "")
    path = Path(named).expanduser()
    folders = [path.parent if path.suffix == ".py" else path] if named else []
    package = find_spec("gguf")
    if package is not None and package.origin:  # in its source: llama.cpp/gguf-py/gguf/__init__.py
        folders.append(Path(package.origin).parents[2])
    return folders

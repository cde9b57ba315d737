"""Where llama.cpp is installed: its converter to GGUF, and the program that runs a GGUF file.

Looked for in the variable `LLAMA_CPP` (the folder of llama.cpp, or the converter itself), on the PATH, and beside the
package `gguf` where that comes from llama.cpp's own source. Nothing of it is run here.
"""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "LLAMA_CPP"
CONVERTER = "convert_hf_to_gguf.py"
RUNNERS = ("llama-completion", "llama-cli")
"""Programs that go on from a prompt, the newer name first."""

NOT_FOUND = (
    "llama.cpp isn't installed, or not where Hone looks: get https://github.com/ggml-org/llama.cpp, install its "
    f"requirements, and set {VARIABLE} to its folder."
)


def find_converter() -> Path | None:
    """llama.cpp's converter of model folders; None where there is none."""
    on_path = shutil.which(CONVERTER)
    candidates = [*(place / CONVERTER for place in _places()), *([Path(on_path)] if on_path else [])]
    named = os.environ.get(VARIABLE, "")
    if named.endswith(".py"):
        candidates.insert(0, Path(named).expanduser())
    return next((path for path in candidates if path.is_file()), None)


def find_runner() -> Path | None:
    """The program that writes on from a prompt with a GGUF file; None where there is none."""
    built = [
        place / inside / name for place in _places() for inside in (".", "build/bin") for name in RUNNERS
    ]
    found = next((path for path in built if path.is_file() and os.access(path, os.X_OK)), None)
    on_path = next(filter(None, map(shutil.which, RUNNERS)), None)
    return found or (Path(on_path) if on_path else None)


def _places() -> list[Path]:
    """Folders that may be llama.cpp's."""
    named = os.environ.get(VARIABLE, "")
    places = []
    if named:
        path = Path(named).expanduser()
        places.append(path.parent if path.suffix == ".py" else path)
    package = find_spec("gguf")
    if package is not None and package.origin:  # in its source: llama.cpp/gguf-py/gguf/__init__.py
        places.append(Path(package.origin).parents[2])
    return places

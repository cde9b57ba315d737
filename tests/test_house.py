"""The rules of the house, held by reading the source: who may import what, sizes, pins and words."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from core.engine.devices.capabilities import LIBRARIES
from recipe import ASKED_FOR_VERSIONS
from tests import house_figures

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "core" / "engine"
LONGEST_FILE = 800

# Libraries each room may import, beside the standard library. A new name is a decision: see docs/decisions/layout.md.
QT = {"PySide6", "shiboken6", "pyqtgraph"}
LIGHT = {"msgspec", "platformdirs", "psutil", "pynvml", "send2trash", "tomli_w", "tqdm", "wakepy"}
ARRAYS = {"PIL", "numpy", "pyarrow", "sklearn"}
TRAINING = {
    "peft",
    "bitsandbytes",
    "torchao",
    "deepspeed",
    "accelerate",
    "datasets",
    "huggingface_hub",
    "jinja2",
    "keyring",
    "safetensors",
    "tensorboardX",
    "tokenizers",
    "torch",
    "torchvision",
    "transformers",
    "trl",
    "yaml",
}
EXPORTING = {"coremltools", "onnxruntime"}
NETWORK = {"truststore"}
ALLOWED = {
    "core": LIGHT | {"core"},
    "core.engine": LIGHT | ARRAYS | TRAINING | EXPORTING | NETWORK | {"core", "resources"},
    "gui": QT | {"core", "gui", "msgspec", "numpy", "resources"},
    "resources": set[str](),
}
# A bundle has one executable, which must be able to become the engine or a worker of `datasets`. Parquet is written by
# pyarrow, in the process of the command that asks for it.
DOOR = {
    "core/cli/program.py": {"core.engine.__main__", "multiprocess"},
    "core/runs/metrics.py": {"pyarrow"},
}


# Small modules that one module of their folder uses, and why they aren't a section of it.
APART = {
    "core.cli.main",  # not imported where the window or the keeper starts
    "core.engine.models.lora",  # PEFT, only where a run takes it
    "core.engine.tasks.trl_trainers",  # TRL, likewise
    "core.engine.training.tensorboard",  # tensorboardX, likewise
}


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (ROOT / folder).rglob("*.py")


def modules_in(source: str) -> set[str]:
    """Full names of the modules that source text imports, at its top or anywhere inside."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import; write the full name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@cache
def modules_of(file: Path) -> set[str]:
    """Full names of the modules that a file imports, read once for all tests."""
    return modules_in(file.read_text(encoding="utf-8"))


def imports(file: Path) -> set[str]:
    """What a file imports, less what it has leave for."""
    leave = DOOR.get(name_of(file), ())
    return {module for module in modules_of(file) if not module.startswith(tuple(leave))}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def room_of(file: Path) -> str:
    return "core.engine" if ENGINE in file.parents else name_of(file).partition("/")[0]


def pinned() -> dict[str, str]:
    """Version by name of every dependency in pyproject.toml, test and bundle tools included."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        tree = tomllib.load(file)
    lines = [*tree["build-system"]["requires"], *tree["project"]["dependencies"]]
    for extra in tree["project"]["optional-dependencies"].values():
        lines += extra
    return dict(line.partition(";")[0].strip().split("==") for line in lines)


def test_each_room_imports_only_what_it_may():
    strangers = {
        f"{name_of(file)} imports {module}"
        for file in python_files("core", "gui", "resources")
        for module in imports(file)
        if (top := module.partition(".")[0]) not in sys.stdlib_module_names
        and top not in ALLOWED[room_of(file)]
    }
    assert not strangers


def test_nobody_but_the_door_imports_the_engine():
    through_the_wall = {
        name_of(file)
        for file in python_files("core", "gui")
        if room_of(file) != "core.engine" and any(name.startswith("core.engine") for name in imports(file))
    }
    assert not through_the_wall


def test_only_one_file_opens_connections_by_itself():
    """Nothing phones home: whatever else asks a network goes through huggingface_hub, in jobs that a person starts."""
    opening = ("urllib.request", "http.client", "socket", "ssl", "requests", "httpx", "PySide6.QtNetwork.Q")
    found = {
        name_of(file)
        for file in python_files("core", "gui", "resources")
        for module in modules_of(file)
        if module.startswith(opening) and not module.startswith("PySide6.QtNetwork.QLocal")
    }
    asks_the_name_of_this_computer = {"core/engine/training/tensorboard.py"}
    asks_for_its_proxies = {"core/services/gpu_install.py"}
    tells_what_kind_an_error_is = {"core/engine/hub/account.py"}
    elsewhere = found - asks_the_name_of_this_computer - asks_for_its_proxies - tells_what_kind_an_error_is
    assert elsewhere == {"core/engine/hub/web.py"}


def test_an_import_inside_a_function_is_seen():
    source = "import os.path\ndef f():\n    from core.engine import devices\n    import torch.nn as nn"
    assert modules_in(source) == {"os.path", "core.engine.devices", "torch.nn"}


def test_files_stay_short():
    folders = ("core", "gui", "tests", "packaging")
    lengths = {
        name_of(file): len(file.read_text(encoding="utf-8").splitlines()) for file in python_files(*folders)
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_only_the_theme_sets_a_style_sheet():
    callers = {
        name_of(file)
        for file in python_files("gui")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "setStyleSheet"
    }
    assert callers <= {"gui/base/theme.py"}


def test_every_package_is_installed():
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed = set(tomllib.load(file)["tool"]["setuptools"]["packages"])
    with_code = {name_of(file.parent).replace("/", ".") for file in python_files("core", "gui", "resources")}
    assert listed == with_code
    assert all((ROOT / package.replace(".", "/") / "__init__.py").exists() for package in listed)


def test_folders_that_would_hide_other_packages_are_no_packages():
    assert not (ROOT / "packaging" / "__init__.py").exists()
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_every_dependency_is_explained_and_constrained():
    explained = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    constraints = (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8")
    exact = dict(line.split("==") for line in constraints.splitlines() if line and not line.startswith("#"))
    exact = {plain(name): version for name, version in exact.items()}
    for name, version in pinned().items():
        assert f"{name} {version}" in explained, f"docs/dependencies.md doesn't name {name} {version}"
        assert exact.get(plain(name)) == version, f"packaging/constraints.txt has another {name}"


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.mark.parametrize(
    "file", [ROOT / "start.py", *sorted((ROOT / "packaging" / "bootstrap").glob("*.py"))]
)
def test_an_old_python_can_read_the_set_up(file):
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
    names = {module.partition(".")[0] for module in imports(file)}
    assert names <= sys.stdlib_module_names | {"about", "bootstrap"}


def kept_files() -> list[str]:
    """Names of the files in Git, committed or about to be; skips the test where this is no checkout."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [name for name in listed.split("\0") if name]


def test_nothing_kept_names_somebodys_folders():
    personal = re.compile(r"(?<![\w.~>}/-])/(?:root|work|Users|home/(?!some(?:one|body)\b|me\b|you\b)\w+)/")
    texts = {name: ROOT / name for name in kept_files() if (ROOT / name).is_file()}
    found = {
        f"{name}: {hit.group(0)}"
        for name, path in texts.items()
        if name != "tests/test_house.py"
        for hit in personal.finditer(path.read_bytes().decode("utf-8", errors="replace"))
    }
    assert not found


def links(text: str) -> list[str]:
    """What the links and images of a page point to, addresses on the web left out."""
    return [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]


def test_links_and_images_of_pages_lead_to_something_kept():
    kept = {ROOT / name for name in kept_files()}
    kept |= {folder for file in kept for folder in file.parents}
    broken = {
        f"{name_of(page)}: {target}"
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for target in links(page.read_text(encoding="utf-8"))
        if (page.parent / target).resolve() not in kept
    }
    assert not broken


def test_the_map_names_files_that_exist():
    """A name without a folder is in the folder of the one before it."""
    page, folder, missing = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), ROOT, []
    for name in re.findall(r"`([\w/]+\.(?:py|html|jinja))`", page):
        path = ROOT / name if "/" in name or name == "start.py" else folder / name
        folder = path.parent
        missing += [] if path.is_file() else [name]
    assert not missing


def test_small_modules_have_more_than_one_user_in_their_folder():
    """Others are a section of the module that uses them."""
    assert house_figures.small_modules_used_once() <= APART


def test_images_count_as_links():
    text = "![A page](a.png) and [a text](b.md#part), [elsewhere](https://example.org/c.md), ![two](d/e.png)"
    assert links(text) == ["a.png", "b.md", "d/e.png"]


def test_the_bundle_takes_every_version_along_that_hone_asks_for():
    assert {"hone", *LIBRARIES} <= set(ASKED_FOR_VERSIONS)


def test_images_are_opened_as_formats_that_are_named():
    """Left to itself Pillow goes by the content, knows PostScript, and starts Ghostscript on it."""
    calls = [
        (name_of(file), node)
        for file in python_files("core", "gui")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Image.open")
    ]
    assert calls
    assert not [name for name, node in calls if "formats" not in {keyword.arg for keyword in node.keywords}]

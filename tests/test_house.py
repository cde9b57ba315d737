"""The rules of the source: who may import what, sizes, pins, and pages that name what exists."""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.engine.devices.capabilities import LIBRARIES
from recipe import ASKED_FOR_VERSIONS
from tests.house_figures import circles, modules, tree_of, unmapped

ROOT = Path(__file__).resolve().parent.parent

# Libraries each part may import, beside the standard library. A new name is a decision: see docs/decisions/layout.md.
QT = {"PySide6", "shiboken6", "pyqtgraph"}
LIGHT = {"msgspec", "platformdirs", "psutil", "pynvml", "send2trash", "tomli_w", "tqdm", "wakepy"}
ARRAYS = {"PIL", "pi_heif", "numpy", "pyarrow", "sklearn"}
TORCH = {"torch", "torchao", "torchvision", "bitsandbytes", "deepspeed", "safetensors", "tensorboardX"}
TORCH |= {"typing_extensions"}  # which torch itself imports
HUGGING_FACE = {"accelerate", "datasets", "huggingface_hub", "peft", "tokenizers", "transformers", "trl"}
MLX = {"mlx", "mlx_lm"}
OTHERS = {"coremltools", "gguf", "jinja2", "keyring", "onnxruntime", "truststore", "yaml"}
ALLOWED = {
    "core": LIGHT | {"core"},
    "core/engine": LIGHT | ARRAYS | TORCH | HUGGING_FACE | OTHERS | {"core", "resources"},
    "core/engine/mlx": ARRAYS | TORCH | HUGGING_FACE | MLX | {"core"},
    "gui": QT | {"core", "gui", "msgspec", "numpy", "resources"},
    "resources": set[str](),
}
# A bundle has one executable, which must be able to become the engine or a worker of `datasets`. Parquet is written by
# pyarrow, in the process of the command that exports it.
EXCEPTIONS = {
    "core/cli/program.py": {"core.engine.__main__", "multiprocess"},
    "core/runs/metrics.py": {"pyarrow"},
}
# Modules that open connections, and files that use such a module without opening one: for the computer's name, for its
# proxies, for the kind of an error.
NETWORK = ("urllib.request", "http.client", "socket", "ssl", "requests", "httpx", "PySide6.QtNetwork.Q")
NOT_CONNECTING = {
    "core/engine/run/tensorboard.py",
    "core/engine/hub/api.py",
    "core/engine/launch.py",
}


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (ROOT / folder).rglob("*.py")


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def part_of(file: Path) -> str:
    name = name_of(file)
    deeper = [part for part in ("core/engine/mlx", "core/engine") if name.startswith(f"{part}/")]
    return deeper[0] if deeper else name.partition("/")[0]


def nodes(kind: type, *folders: str) -> Iterator[tuple[str, ast.AST]]:
    """The nodes of a kind in the source of some folders, each with its file's name."""
    for file in python_files(*folders):
        yield from ((name_of(file), node) for node in ast.walk(tree_of(file)) if isinstance(node, kind))


def imports(file: Path) -> set[str]:
    """Full names of the modules that a file imports, at its top or anywhere inside."""
    found = set()
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import; write the full name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if not name.startswith(tuple(EXCEPTIONS.get(name_of(file), ())))}


def kept_files() -> list[str]:
    """Names of the files in Git, committed or about to be; skips the test if this is no checkout."""
    try:
        listed = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z"],  # whoever the checkout belongs to
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        pytest.skip("the files in Git, for want of git")
    except subprocess.CalledProcessError:
        pytest.skip("the files in Git, for want of a checkout")
    return [name for name in listed.stdout.split("\0") if name]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_each_part_imports_only_what_it_may():
    strangers = {
        f"{name_of(file)} imports {module}"
        for file in python_files("core", "gui", "resources")
        for module in imports(file)
        if module.partition(".")[0] not in ALLOWED[part_of(file)] | sys.stdlib_module_names
        or (module.startswith("core.engine") and not part_of(file).startswith("core/engine"))
    }
    assert not strangers


def test_only_three_files_open_connections_by_themselves():
    """Whatever else uses a network goes through huggingface_hub, in jobs that a person starts, or through ssh.

    Computers that are to train together try whether they reach each other (`core.hosts.far`); what installs Hone
    from source is fetched before there are libraries (`core.base.uv`).
    """
    connecting = {
        name_of(file)
        for file in python_files("core", "gui", "resources")
        for module in imports(file)
        if module.startswith(NETWORK) and not module.startswith("PySide6.QtNetwork.QLocal")
    }
    assert connecting - NOT_CONNECTING == {"core/base/uv.py", "core/engine/hub/web.py", "core/hosts/far.py"}


def test_only_the_theme_sets_a_style_sheet():
    callers = {name for name, node in nodes(ast.Attribute, "gui") if node.attr == "setStyleSheet"}
    assert callers <= {"gui/base/theme.py"}


def test_images_are_opened_as_formats_that_are_named():
    """Else Pillow goes by the content, knows PostScript, and starts Ghostscript on it."""
    calls = [
        (name, {keyword.arg for keyword in node.keywords})
        for name, node in nodes(ast.Call, "core", "gui")
        if ast.unparse(node.func).endswith("Image.open")
    ]
    assert calls
    assert [name for name, keywords in calls if "formats" not in keywords] == []


def test_every_package_is_installed_and_no_folder_would_hide_another_package():
    listed = set(project()["tool"]["setuptools"]["packages"])
    with_code = {name_of(file.parent).replace("/", ".") for file in python_files("core", "gui", "resources")}
    assert listed == with_code
    assert all((ROOT / package.replace(".", "/") / "__init__.py").exists() for package in listed)
    assert not (ROOT / "packaging" / "__init__.py").exists()
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_every_dependency_is_explained_and_pinned():
    tree = project()
    lines = [*tree["build-system"]["requires"], *tree["project"]["dependencies"]]
    lines += [line for extra in tree["project"]["optional-dependencies"].values() for line in extra]
    explained = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    constraints = (
        (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    )
    for name, version in (line.partition(";")[0].strip().split("==") for line in lines):
        assert f"{name} {version}" in explained, f"docs/dependencies.md doesn't name {name} {version}"
        pin = f"{name.partition('[')[0]}=={version}".lower().replace("_", "-")
        assert pin in constraints.splitlines(), f"packaging/constraints.txt has another {name}"


def test_the_bundle_contains_every_version_that_hone_reads():
    assert {"hone", *LIBRARIES} <= set(ASKED_FOR_VERSIONS)


@pytest.mark.parametrize(
    "file",
    [
        ROOT / "start.py",
        *sorted((ROOT / "packaging" / "bootstrap").glob("*.py")),
        *(ROOT / "core" / "base" / name for name in ("uv.py", "language.py")),
    ],
)
def test_an_old_python_can_read_the_set_up(file):
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
    ours = ("about", "bootstrap.", "core.base.uv", "core.base.language.", "core.base.places.")
    assert not [
        module
        for module in imports(file)
        if module.partition(".")[0] not in sys.stdlib_module_names and not f"{module}.".startswith(ours)
    ]


def test_no_file_names_a_person_s_folders():
    personal = re.compile(r"(?<![\w.~>}/-])/(?:root|work|Users|home/(?!some(?:one|body)\b|me\b|you\b)\w+)/")
    found = {
        f"{name}: {hit.group(0)}"
        for name in kept_files()
        if name != "tests/test_house.py" and (ROOT / name).is_file()
        for hit in personal.finditer((ROOT / name).read_bytes().decode("utf-8", errors="replace"))
    }
    assert not found


def test_links_and_images_of_pages_lead_to_files_in_git():
    kept = {ROOT / name for name in kept_files()}
    kept |= {folder for file in kept for folder in file.parents}
    broken = {
        f"{name_of(page)}: {target}"
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        if "://" not in target and (page.parent / target).resolve() not in kept
    }
    assert not broken


def test_a_class_name_has_one_owner():
    """In a search or a traceback, `Column` of five modules says nothing."""
    owners = Counter(
        node.name
        for file in python_files("core", "gui")
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in owners.items() if count > 1] == []


def test_the_map_names_every_large_module():
    assert unmapped() == set()


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The classes, functions and variables that statements define, by name."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = (part for target in targets for part in ast.walk(target))
            found |= {part.id: node for part in parts if isinstance(part, ast.Name)}
    return found


def is_defined(name: str) -> bool:
    """Whether a dotted name is a module, or stands for a name in one, or for one in a class of it."""
    module, names = name, list[str]()
    while module and module not in modules():
        module, _dot, last = module.rpartition(".")
        names.insert(0, last)
    if not module:
        return False
    body = tree_of(modules()[module]).body
    for one in names:
        node = defined(body).get(one)
        if node is None:
            return False
        body = getattr(node, "body", [])
    return True


def test_names_in_comments_and_docstrings_exist():
    """Such as `core.runs.folder.RunFolder`, where it is defined."""
    written = re.compile(r"`((?:core|gui)(?:\.\w+)+)")
    unknown = set()
    for file in python_files("core", "gui"):
        tokens = tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline)
        texts = [token.string for token in tokens if token.type == tokenize.COMMENT]
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                texts.append(str(node.value.value))
        unknown |= {
            (name_of(file), name) for name in written.findall("\n".join(texts)) if not is_defined(name)
        }
    assert unknown == set()


def test_no_modules_import_each_other_in_a_circle():
    """Imports in functions and for types only count, too."""
    assert circles() == set()


def test_the_map_names_files_that_exist():
    """A name without a folder is in the folder of the one before it."""
    page, folder, missing = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), ROOT, []
    for name in re.findall(r"`([\w/]+\.(?:py|html|jinja))`", page):
        path = ROOT / name if "/" in name or name == "start.py" else folder / name
        folder = path.parent
        missing += [] if path.is_file() else [name]
    assert not missing

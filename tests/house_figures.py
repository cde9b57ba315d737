"""How large the product is and how its modules hang together, as a table: `python tests/house_figures.py`.

Read from the source alone. Code lines are neither blank, comment nor docstring.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("core", "gui")


def modules(folders: tuple[str, ...]) -> dict[str, Path]:
    """Path by dotted name of every Python file below these folders."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
        for path in found
    }


def imports(path: Path, known: set[str], *, at_top: bool) -> set[str]:
    """The known modules that a file imports: at its top and at run time only, or anywhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = (
        list(ast.walk(tree)) if not at_top else [node for node in tree.body if not isinstance(node, ast.If)]
    )
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & known if names <= known else names | {node.module}
    return found & known


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules each of which leads to every other one of its group."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for name in graph[waiting.pop()] - seen:
                seen.add(name)
                waiting.append(name)
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    return [set(group) for group in groups if len(group) > 1]


def code_lines(path: Path) -> int:
    """Lines that hold a token of code."""
    source = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    blank = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in blank:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def line_count(paths: list[Path]) -> int:
    """All lines of these files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def commands() -> int:
    """How many commands `hone --help` lists."""
    sys.path.insert(0, str(ROOT))
    from core.cli.main import names

    return len(names())


def walk(title: str) -> int:
    """Files on a walk of docs/architecture.md; each must exist."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split(title, 1)[1].split("\n## ", 1)[0]
    files = set(re.findall(r"^[0-9]+\. `([^`]+\.py)`", section, re.MULTILINE))
    assert files
    assert all((ROOT / file).is_file() for file in files)
    return len(files)


def names_of_options() -> set[str]:
    """How the engine calls a run's options: every parameter and field that is annotated as them, or as a section."""
    types = re.compile(r"ResolvedRun|RunOptions|(Data|Device|Memory|Model|Output|Training)Options")
    found = set()
    for path in (ROOT / "core" / "engine").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            annotation = getattr(node, "annotation", None)
            if annotation is not None and types.match(ast.unparse(annotation)):
                found.add(node.arg if isinstance(node, ast.arg) else ast.unparse(node.target))
    return found


SMALL = 150
"""Lines below which a module that only one of its own folder imports is a section of that one."""


def small_modules_used_once() -> set[str]:
    """Modules below `SMALL` lines that one module imports, which is in the same folder."""
    product = modules(PRODUCT)
    users: dict[str, set[str]] = {}
    for name, path in product.items():
        for target in imports(path, set(product), at_top=False) - {name}:
            users.setdefault(target, set()).add(name)
    return {
        name
        for name, found in users.items()
        if len(found) == 1
        and name.rpartition(".")[0] == min(found).rpartition(".")[0]
        and line_count([product[name]]) < SMALL
    }


def figures() -> dict[str, str]:
    """What is measured, each beside its goal."""
    product = modules(PRODUCT)
    known = set(product)
    graph = {name: imports(path, known, at_top=True) - {name} for name, path in product.items()}
    used = Counter(
        target
        for name, path in product.items()
        for target in imports(path, known, at_top=False) - {name}
        if not target.startswith(f"{name}.")
    )
    code = sum(map(code_lines, product.values()))
    folders = {path.parent for path in product.values()}
    entries = {
        folder: sum(1 for entry in folder.iterdir() if not entry.name.startswith(("__", ".")))
        for folder in folders
    }
    fullest = max(entries, key=lambda folder: entries[folder])
    tests = list(modules(("tests",)).values())
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    single = [name for name, count in used.items() if count == 1]
    return {
        "product files (240 or fewer)": f"{len(product):,}",
        "product lines (60,000 or fewer)": f"{line_count(list(product.values())):,}",
        "most entries in a folder (15 or fewer)": f"{entries[fullest]} in {fullest.relative_to(ROOT).as_posix()}",
        "files per 10,000 code lines (60 or fewer)": f"{len(product) / code * 10_000:.0f}",
        "modules imported by exactly one other (40 or fewer)": f"{len(single)}",
        "files an option passes (8 or fewer)": f"{walk('## The walk of an option')}",
        "files an event passes (8 or fewer)": f"{walk('## The walk of an event')}",
        "names of a run's options in the engine (20 or fewer)": f"{len(names_of_options())}",
        "import circles (0)": f"{len(circles(graph))}",
        "longest file (800 lines or fewer)": f"{max(line_count([path]) for path in product.values())}",
        "test lines (30,000 or fewer)": f"{line_count(tests):,}",
        "commands (24 or fewer)": f"{commands()}",
        "README lines (150 or fewer)": f"{len(readme)}",
    }


if __name__ == "__main__":
    for title, figure in figures().items():
        print(f"{title:55} {figure}")

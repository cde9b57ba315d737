"""How large the product is and how its modules depend on each other, as a table: `python tests/house_figures.py`."""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PRODUCT = ("core", "gui")


@cache
def modules(folders: tuple[str, ...] = PRODUCT) -> dict[str, Path]:
    """Path by dotted name of every Python file below these folders."""
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
        for path in files
    }


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(name: str) -> set[str]:
    """The product's modules that one of them imports: at its top, in a function, or for its types only."""
    known = modules()
    found = set()
    for node in ast.walk(tree_of(known[name])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= set(known) else names | {node.module}
    return (found & set(known)) - {name}


def circles() -> set[str]:
    """The modules that import each other in a circle."""
    graph = {name: imports(name) for name in modules()}

    def reached(start: str) -> set[str]:
        seen, waiting = set[str](), [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    return {name for name in graph if name in reached(name)}


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def unmapped(least: int = 150) -> set[str]:
    """Modules of more lines than `least` that docs/architecture.md names neither by file nor by folder.

    A file may be named alone in a row that names another file, or the folder, with its path.
    """
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [re.findall(r"`([\w./]+)`", line) for line in page.splitlines() if line.startswith("|")]
    found = set()
    for path in modules().values():
        name, folder = path.relative_to(ROOT).as_posix(), path.parent.relative_to(ROOT).as_posix()
        is_named = any(
            name in row
            or f"{folder}/" in row
            or (path.name in row and any(one.startswith(folder) for one in row))
            for row in rows
        )
        if not is_named and line_count(path) > least:
            found.add(name)
    return found


def code_lines(path: Path) -> int:
    """Lines with code: no blank lines, comments and docstrings."""
    source = path.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    no_code = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines = {
        line
        for token in tokens
        if token.type not in no_code
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(tree_of(path)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def walk(title: str) -> int:
    """Files on a walk of docs/architecture.md; each must exist."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split(title, 1)[1].split("\n## ", 1)[0]
    files = set(re.findall(r"^[0-9]+\. `([^`]+\.py)`", section, re.MULTILINE))
    assert files
    assert all((ROOT / file).is_file() for file in files)
    return len(files)


def names_of_options() -> set[str]:
    """Names of the engine's parameters and fields that hold a run's options or a section of them."""
    types = re.compile(r"ResolvedRun|RunOptions|(Data|Device|Memory|Model|Output|Training)Options")
    return {
        node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
        for path in modules(("core/engine",)).values()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.arg | ast.AnnAssign)
        and types.match(ast.unparse(node.annotation or ast.Pass()))
    }


def commands() -> int:
    """How many commands `hone --help` lists."""
    from core.cli.main import names

    return len(names())


def figures() -> dict[str, object]:
    """Each figure with its goal."""
    product = list(modules().values())
    entries = Counter(path.parent for path in product if not path.name.startswith("__"))
    entries.update([folder.parent for folder in entries])
    tests = list(modules(("tests",)).values())
    return {
        "product files (240 or fewer)": len(product),
        "product lines (60,000 or fewer)": sum(map(line_count, product)),
        "most modules in a folder (15 or fewer)": max(entries.values()),
        "files per 10,000 code lines (60 or fewer)": round(
            10_000 * len(product) / sum(map(code_lines, product))
        ),
        "files an option passes (8 or fewer)": walk("## The walk of an option"),
        "files an event passes (8 or fewer)": walk("## The walk of an event"),
        "modules in import circles (0)": len(circles()),
        "names of a run's options in the engine (20 or fewer)": len(names_of_options()),
        "longest file": max(map(line_count, product)),
        "test lines (30,000 or fewer)": sum(map(line_count, tests)),
        "commands (24 or fewer)": commands(),
        "README lines (150 or fewer)": line_count(ROOT / "README.md"),
    }


if __name__ == "__main__":
    for title, figure in figures().items():
        print(f"{title:55} {figure:,}")

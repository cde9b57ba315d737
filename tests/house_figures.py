"""How large the product is and how its modules depend on each other, as a table: `python tests/house_figures.py`."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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


def imports(name: str, *, at_top: bool = False) -> set[str]:
    """The product's modules that one of them imports: anywhere, or at its top and at run time only."""
    known = modules()
    tree = tree_of(known[name])
    nodes = [node for node in tree.body if not isinstance(node, ast.If)] if at_top else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= set(known) else names | {node.module}
    return (found & set(known)) - {name}


def users() -> dict[str, set[str]]:
    """The modules that import each module."""
    found: dict[str, set[str]] = {}
    for name in modules():
        for target in imports(name):
            if not target.startswith(f"{name}."):
                found.setdefault(target, set()).add(name)
    return found


def circles() -> int:
    """How many modules import each other in a circle, at their top."""
    graph = {name: imports(name, at_top=True) for name in modules()}

    def reached(start: str) -> set[str]:
        seen, waiting = set[str](), [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    return sum(name in reached(name) for name in graph)


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def small_modules_used_once(small: int = 150) -> set[str]:
    """Modules with fewer lines that only one module imports, which is in the same folder."""
    return {
        name
        for name, found in users().items()
        if len(found) == 1
        and name.rpartition(".")[0] == min(found).rpartition(".")[0]
        and line_count(modules()[name]) < small
    }


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
        "modules imported by exactly one other (40 or fewer)": sum(
            len(found) == 1 for found in users().values()
        ),
        "modules in import circles (0)": circles(),
        "longest file (800 lines or fewer)": max(map(line_count, product)),
        "test lines (30,000 or fewer)": sum(map(line_count, tests)),
        "README lines (150 or fewer)": line_count(ROOT / "README.md"),
    }


if __name__ == "__main__":
    for title, figure in figures().items():
        print(f"{title:55} {figure:,}")

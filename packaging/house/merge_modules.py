"""Merge modules by a table (today<TAB>target) and rewrite every reference to them, in the whole repository.

usage: merge_modules.py ROOT MOVES RENAMES [--only PREFIX ...] [--dry]

MOVES: lines `core/a.py<TAB>core/b/c.py`; a target `DROP` and modules not named stay as they are.
RENAMES: lines `core/a.py<TAB>name<TAB>new_name`: the name that a top-level definition gets in its new module.
--only: targets to carry out (path prefixes such as core/options/); the rest of the table is left for later.
"""

import argparse
import builtins
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import (
    ClassScope,
    ComprehensionScope,
    FunctionScope,
    GlobalScope,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    ScopeProvider,
)

BUILTINS = set(dir(builtins))


def dotted(path: str) -> str:
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def code_of(node) -> str:
    return cst.Module([]).code_for_node(node)


def name_of(node) -> str:
    if isinstance(node, cst.Name):
        return node.value
    return name_of(node.value) + "." + node.attr.value


def dotted_node(name: str):
    parts = name.split(".")
    node = cst.Name(parts[0])
    for part in parts[1:]:
        node = cst.Attribute(node, cst.Name(part))
    return node


@dataclass
class Imported:
    """One name that an import statement binds: (module, name) or (module, None) for a module itself."""

    module: str
    name: str | None


@dataclass
class File:
    path: str
    wrapper: MetadataWrapper
    scopes: dict
    parents: dict
    positions: dict
    globals: dict[str, object] = field(default_factory=dict)  # local name -> Imported | "def"
    uses: set = field(default_factory=set)  # free names that resolve to nothing: builtins

    @property
    def module(self):
        return self.wrapper.module


class Repo:
    def __init__(self, root: Path, moves: dict[str, str], renames: dict[tuple[str, str], str]) -> None:
        self.root = root
        self.moves = {dotted(old): dotted(new) for old, new in moves.items()}
        self.paths = {dotted(old): (old, new) for old, new in moves.items()}
        self.renames = renames
        self.problems: list[str] = []
        listed = subprocess.run(
            ["git", "ls-files", "*.py"], cwd=root, capture_output=True, text=True, check=True
        ).stdout.split()
        self.modules = {
            dotted(path) for path in listed if path.startswith(("core/", "gui/", "tests/", "benchmarks/"))
        }
        self.packages = {dotted(p) for p in listed if p.endswith("__init__.py")}
        self.files: dict[str, File] = {}
        for path in listed:
            self.files[path] = self.read(path)

    def read(self, path: str) -> File:
        wrapper = MetadataWrapper(cst.parse_module((self.root / path).read_text()), unsafe_skip_copy=True)
        file = File(
            path,
            wrapper,
            wrapper.resolve(ScopeProvider),
            wrapper.resolve(ParentNodeProvider),
            {},
        )
        top = file.scopes[wrapper.module]
        for assignment in top.assignments:
            node = getattr(assignment, "node", None)
            if isinstance(node, (cst.Import, cst.ImportFrom)):
                for local, what in imported(node):
                    if local == assignment.name or local.split(".")[0] == assignment.name:
                        file.globals[assignment.name] = what
            elif node is not None:
                file.globals.setdefault(assignment.name, "def")
        for access in top.accesses:
            if isinstance(access.node, cst.Name) and not [
                r for r in access.referents if not type(r).__name__.startswith("Builtin")
            ]:
                file.uses.add(access.node.value)
        return file

    # ---- names in new modules

    def plan(self) -> None:
        """Choose for every top-level name of every part its name in the new module."""
        self.local: dict[tuple[str, str], str] = {}  # (old module, local name) -> new local name
        groups: dict[str, list[str]] = defaultdict(list)
        for old, new in self.moves.items():
            groups[new].append(old)
        self.groups: dict[str, list[str]] = {}
        for new, parts in groups.items():
            parts = self.ordered(new, parts)
            self.groups[new] = parts
            taken: dict[str, object] = {}
            used_builtins = set().union(*(self.files[self.paths[p][0]].uses for p in parts)) & BUILTINS
            # definitions first (public ones keep their names before private ones), then imports
            entries = []
            for part in parts:
                for local, what in self.files[self.paths[part][0]].globals.items():
                    entries.append((what != "def", local.startswith("_"), part, local, what))
            entries.sort(key=lambda e: (e[0], e[1]))
            for is_import, _, part, local, what in entries:
                base = part.rsplit(".", 1)[-1]
                wanted = self.renames.get((part, local), local)
                if is_import:
                    target = self.target(what)
                    if target[0] == new and target[1] is not None:  # a name of this very module
                        self.local[part, local] = target[1]
                        continue
                    if target[0] == new:
                        continue  # this very module, as a module: its uses lose the prefix
                    identity = ("import", target)
                    if target[1] is None and what.module in self.moves and (part, local) not in self.renames:
                        plain = what.module.rsplit(".", 1)[-1]
                        if local == plain:
                            wanted = target[0].rsplit(".", 1)[-1]
                else:
                    same = self.simple_source(part, local)
                    identity = ("same", same) if same else ("def", part, local)
                if (
                    wanted in taken
                    and taken[wanted] != identity
                    or (
                        not is_import
                        and wanted in used_builtins
                        and wanted not in self.files[self.paths[part][0]].globals
                    )
                ):
                    if (part, local) in self.renames:
                        self.problems.append(f"{new}: rename {wanted} of {part} is taken")
                    if is_import:
                        alias = f"{wanted}_of_{base}" if not wanted.startswith("_") else f"_{base}{wanted}"
                        pkg = target[0].split(".")
                        alias = (
                            f"{pkg[-2]}_{wanted}"
                            if target[1] is None and len(pkg) > 1
                            else f"{pkg[-1]}_{wanted}"
                        )
                        if taken.get(alias, identity) != identity:
                            alias += "_2"
                        self.problems.append(f"import clash in {new}: {local} of {part} -> {alias}")
                        wanted = alias
                    else:
                        alias = (
                            f"_{base}{wanted}"
                            if wanted.startswith("_")
                            else (f"{base.upper()}_{wanted}" if wanted.isupper() else f"{base}_{wanted}")
                        )
                        while alias in taken:
                            alias += "_"
                        self.problems.append(f"definition clash in {new}: {wanted} of {part} -> {alias}")
                        wanted = alias
                taken[wanted] = identity
                self.local[part, local] = wanted

    def simple_source(self, part: str, local: str) -> str:
        """The source of a one-line definition, by which equal ones are told; empty for all else."""
        file = self.files[self.paths[part][0]]
        for statement in file.module.body:
            if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
                code = code_of(statement.body[0])
                if code.startswith((f"{local} = ", f"{local}: ")) and "__file__" not in code:
                    return code
        return ""

    def ordered(self, new: str, parts: list[str]) -> list[str]:
        """Parts in an order in which each stands after those that it imports at its top."""
        needs = {}
        for part in parts:
            file = self.files[self.paths[part][0]]
            found = set()
            for what in file.globals.values():
                if isinstance(what, Imported):
                    source = self.resolve(what)
                    if source.module in parts and source.module != part:
                        found.add(source.module)
            needs[part] = found
        done: list[str] = []
        left = list(parts)
        while left:
            ready = [p for p in left if not (needs[p] - set(done))]
            if not ready:
                self.problems.append(f"circle inside {new}: {left}")
                ready = left[:1]
            for p in ready:
                done.append(p)
                left.remove(p)
        return done

    def resolve(self, what: Imported) -> Imported:
        """Follow re-exports, and tell a module from a name of a package."""
        if what.name is not None and f"{what.module}.{what.name}" in self.modules:
            return Imported(f"{what.module}.{what.name}", None)
        if what.name is None or what.module not in self.moves and what.module not in self.packages:
            return what
        path = self.paths.get(what.module, (what.module.replace(".", "/") + ".py", None))[0]
        file = self.files.get(path) or self.files.get(what.module.replace(".", "/") + "/__init__.py")
        if file is None:
            return what
        inner = file.globals.get(what.name)
        if isinstance(inner, Imported) and (inner.module in self.moves):
            return self.resolve(inner)
        return what

    def target(self, what: Imported) -> tuple[str, str | None]:
        """Where what was imported lives afterwards: (new module, new name)."""
        what = self.resolve(what)
        if what.module not in self.moves:
            return what.module, what.name
        new = self.moves[what.module]
        if what.name is None:
            return new, None
        chosen = self.local.get((what.module, what.name))
        if chosen is None:
            chosen = self.renames.get((what.module, what.name), what.name)
        return new, chosen


def imported(node) -> list[tuple[str, Imported]]:
    if isinstance(node, cst.Import):
        found = []
        for alias in node.names:
            module = name_of(alias.name)
            if alias.asname:
                found.append((alias.asname.name.value, Imported(module, None)))
            else:
                found.append((module, Imported(module, None)))
        return found
    if isinstance(node.names, cst.ImportStar):
        return []
    module = name_of(node.module)
    return [
        (alias.asname.name.value if alias.asname else alias.name.value, Imported(module, alias.name.value))
        for alias in node.names
    ]


class Rewriter(cst.CSTTransformer):
    """Rewrite one file: `here` is the module it will be part of, `part` the old module it is (None: not moved)."""

    METADATA_DEPENDENCIES = ()

    def __init__(self, repo: Repo, file: File, part: str | None, here: str) -> None:
        self.repo, self.file, self.part, self.here = repo, file, part, here
        self.new_imports: list[str] = []
        self.replaced: dict = {}  # old node -> new node
        self.module_names: dict[str, str] = {}
        self.study()

    def rename_of_global(self, name: str) -> str:
        return self.repo.local.get((self.part, name), name) if self.part else name

    def study(self) -> None:
        file, repo = self.file, self.repo
        seen_scopes = {scope for scope in file.scopes.values() if scope is not None}
        self.all_scopes = seen_scopes
        for scope in seen_scopes:
            for assignment in scope.assignments:
                node = getattr(assignment, "node", None)
                if isinstance(node, (cst.Import, cst.ImportFrom)):
                    for local, what in imported(node):
                        if local == assignment.name or (
                            isinstance(node, cst.Import) and local.split(".")[0] == assignment.name
                        ):
                            self.study_import(scope, assignment, node, local, what)
                elif isinstance(scope, GlobalScope):
                    new = self.rename_of_global(assignment.name)
                    if new != assignment.name:
                        self.rename_all(assignment, new)
        # definitions: names of def/class/assign targets themselves
        if self.part:
            for assignment in file.scopes[file.module].assignments:
                node = getattr(assignment, "node", None)
                new = self.rename_of_global(assignment.name)
                if new == assignment.name or node is None or isinstance(node, (cst.Import, cst.ImportFrom)):
                    continue
                if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                    self.replaced[node.name] = cst.Name(new)
                elif isinstance(node, cst.Name):
                    self.replaced[node] = cst.Name(new)

    def rename_all(self, assignment, new: str) -> None:
        for access in assignment.references:
            node = access.node
            if isinstance(node, cst.Name):
                self.check_shadow(access, new)
                self.replaced[node] = node.with_changes(value=new)
            elif isinstance(node, cst.Attribute):
                first = node
                while isinstance(first, cst.Attribute):
                    first = first.value
                if isinstance(first, cst.Name):
                    self.replaced[first] = first.with_changes(value=new)
            else:
                self.problem(f"string annotation or so names {assignment.name}: {code_of(node)}")

    def check_shadow(self, access, new: str) -> None:
        scope = access.scope
        while scope is not None and not isinstance(scope, GlobalScope):
            own = {
                a.name
                for a in scope.assignments
                if not isinstance(getattr(a, "node", None), (cst.Import, cst.ImportFrom))
            }
            if new in own and not isinstance(scope, ClassScope):
                self.problem(f"{new} is a local name at line {self.line(access.node)}")
            if scope.parent is scope:
                break
            scope = scope.parent

    def line(self, node) -> int:
        try:
            return self.file.positions[node].start.line
        except KeyError:
            return 0

    def problem(self, text: str) -> None:
        self.repo.problems.append(f"{self.file.path}: {text}")

    def study_import(self, scope, assignment, node, local, what: Imported) -> None:
        repo = self.repo
        resolved = repo.resolve(what)
        moved = resolved.module in repo.moves
        new_module, new_name = repo.target(what)
        is_top = isinstance(scope, GlobalScope)
        if resolved.name is None and moved:
            self.study_module(scope, assignment, node, local, resolved, new_module)
            return
        # a name
        if moved and new_module == self.here and self.part:
            if new_name != local:
                self.rename_all(assignment, new_name)
            return
        alias = self.rename_of_global(local) if is_top else local
        if not is_top and moved and local == what.name and new_name != local:
            pass  # keeps its local name by `as`
        if alias != local and is_top:
            self.rename_all(assignment, alias)

    def study_module(self, scope, assignment, node, local, resolved: Imported, new_module: str) -> None:
        """Uses of an imported module that moves: `local.name`."""
        repo = self.repo
        is_top = isinstance(scope, GlobalScope)
        plain = resolved.module.rsplit(".", 1)[-1]
        dotted_import = isinstance(node, cst.Import) and "." in local
        if self.part and is_top and (self.part, local) in repo.local:
            chosen = repo.local[self.part, local]
        elif local == plain and not dotted_import:
            chosen = self.free_name(new_module.rsplit(".", 1)[-1], new_module)
        else:
            chosen = local
        for access in assignment.references:
            name = access.node
            while isinstance(name, cst.Attribute):
                name = name.value
            if dotted_import:
                self.study_dotted(name, resolved, new_module)
                continue
            parent = self.file.parents.get(name)
            if isinstance(parent, cst.Attribute) and parent.value is name:
                attr = parent.attr.value
                inner = repo.resolve(Imported(resolved.module, attr))
                # a re-exported name lives elsewhere
                if inner.module != resolved.module:
                    there, new_attr = repo.target(inner)
                    if there != new_module:
                        if new_attr is None:
                            self.problem(f"{local}.{attr} is a module at line {self.line(parent)}")
                            continue
                        if inner.module in repo.moves:
                            short = self.free_name(there.rsplit(".", 1)[-1], there)
                            self.want_module(there, short)
                            self.replaced[parent] = cst.Attribute(cst.Name(short), cst.Name(new_attr))
                            continue
                new_attr = repo.local.get((resolved.module, attr), attr)
                if new_module == self.here and self.part:
                    self.check_shadow(access, new_attr)
                    self.replaced[parent] = cst.Name(new_attr, lpar=parent.lpar, rpar=parent.rpar)
                else:
                    self.replaced[parent] = parent.with_changes(
                        value=cst.Name(chosen), attr=cst.Name(new_attr)
                    )
            else:
                if new_module == self.here and self.part:
                    self.problem(f"module {local} is used as a value at line {self.line(name)}")
                    continue
                self.replaced[name] = name.with_changes(value=chosen)
                self.literal_beside(name, resolved)
        if chosen != local:
            self.module_names[local] = chosen

    def literal_beside(self, name, resolved: Imported) -> None:
        """`setattr(module, "name")`: the name may be another one now."""
        arg = self.file.parents.get(name)
        call = self.file.parents.get(arg)
        if not (isinstance(arg, cst.Arg) and isinstance(call, cst.Call)):
            return
        index = [i for i, a in enumerate(call.args) if a is arg]
        if not index or index[0] + 1 >= len(call.args):
            return
        literal = call.args[index[0] + 1].value
        if isinstance(literal, cst.SimpleString):
            text = literal.evaluated_value
            new = self.repo.local.get((resolved.module, text), text)
            inner = self.repo.resolve(Imported(resolved.module, text))
            if new != text:
                self.replaced[literal] = cst.SimpleString(f'"{new}"')
            file = self.repo.files[self.repo.paths[resolved.module][0]]
            if text not in file.globals:
                self.problem(f"{resolved.module} has no {text} to patch (line {self.line(name)})")

    def study_dotted(self, first, resolved: Imported, new_module: str) -> None:
        node = first
        parts = [first.value]
        while ".".join(parts) != resolved.module:
            node = self.file.parents.get(node)
            if not isinstance(node, cst.Attribute):
                return
            parts.append(node.attr.value)
        self.replaced[node] = dotted_node(new_module)

    def free_name(self, wanted: str, module: str) -> str:
        """`wanted`, or something longer where this file uses that name for something else."""
        names = set()
        for scope in self.all_scopes:
            for a in scope.assignments:
                node = getattr(a, "node", None)
                if isinstance(node, (cst.Import, cst.ImportFrom)):
                    same = [w for l, w in imported(node) if l == a.name]
                    if same and self.repo.target(same[0]) == (module, None):
                        continue
                names.add(a.name)
        if wanted not in names:
            return wanted
        package = module.split(".")
        return f"{package[-2]}_{wanted}"

    def want_module(self, module: str, name: str) -> None:
        package, _, plain = module.rpartition(".")
        line = f"from {package} import {plain}" + (f" as {name}" if name != plain else "")
        if line not in self.new_imports:
            self.new_imports.append(line)

    # ---- the transformation itself

    def on_leave(self, original, updated):
        if original in self.replaced:
            new = self.replaced[original]
            if isinstance(original, cst.Name) and isinstance(new, cst.Name):
                return updated.with_changes(value=new.value)
            if isinstance(original, cst.Attribute) and isinstance(new, cst.Attribute):
                return updated.with_changes(value=new.value, attr=new.attr)
            return new
        return super().on_leave(original, updated)

    def leave_ImportFrom(self, original, updated):
        return self.rewritten_import(original, updated)

    def leave_Import(self, original, updated):
        return self.rewritten_import(original, updated)

    def rewritten_import(self, original, updated):
        repo = self.repo
        scope = self.file.scopes.get(original)
        is_top = isinstance(scope, GlobalScope)
        statements = []
        changed = False
        for local, what in imported(original):
            resolved = repo.resolve(what)
            moved = resolved.module in repo.moves
            alias_top = self.rename_of_global(local) if is_top else local
            if not moved and alias_top == local:
                statements.append((what, local, local, False))
                continue
            changed = True
            new_module, new_name = repo.target(what)
            if moved and new_module == self.here and self.part:
                continue
            if resolved.name is None and moved:
                chosen = self.module_names.get(local, local)
                if isinstance(original, cst.Import) and "." in local:
                    statements.append((Imported(new_module, None), new_module, new_module, True))
                else:
                    package, _, plain = new_module.rpartition(".")
                    statements.append((Imported(package, plain), plain, chosen, True))
            else:
                alias = alias_top
                if not is_top or not self.part:
                    alias = local
                if self.part is None or not is_top:
                    # keep the local name unless it simply was the old name
                    if local == (what.name or local) and new_name and new_name != local:
                        alias = local
                statements.append((Imported(new_module, new_name), new_name, alias, True))
        if not changed:
            return updated
        lines = []
        for what, name, alias, _ in statements:
            if what.name is None:
                lines.append(
                    f"import {what.module}" + (f" as {alias}" if alias not in (what.module,) else "")
                )
            else:
                lines.append(
                    f"from {what.module} import {what.name}" + (f" as {alias}" if alias != what.name else "")
                )
        if not lines:
            return cst.RemoveFromParent()
        bodies = [cst.parse_statement(line).body[0] for line in lines]
        return cst.FlattenSentinel(bodies)

    def leave_SimpleStatementLine(self, original, updated):
        # several imports on one line come apart again
        if len(updated.body) > 1 and all(isinstance(b, (cst.Import, cst.ImportFrom)) for b in updated.body):
            first, *rest = updated.body
            trailing = updated.trailing_whitespace
            lines = [updated.with_changes(body=[first.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])]
            lines += [
                cst.SimpleStatementLine(
                    [b.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)], trailing_whitespace=trailing
                )
                for b in rest
            ]
            return cst.FlattenSentinel(lines)
        return updated


def is_import_block(node) -> bool:
    """An import statement at the top, or an `if TYPE_CHECKING:` of them."""
    if isinstance(node, cst.SimpleStatementLine):
        return all(isinstance(b, (cst.Import, cst.ImportFrom)) for b in node.body)
    if isinstance(node, cst.If):
        return m.matches(node.test, m.Name("TYPE_CHECKING"))
    return False


def docstring_of(module: cst.Module) -> str:
    return module.get_docstring(clean=True) or ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("moves", type=Path)
    parser.add_argument("renames", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--dry", action="store_true")
    asked = parser.parse_args()
    moves = {}
    for line in asked.moves.read_text().splitlines()[0:]:
        cells = line.split("\t")
        old, new = cells[0], cells[-1]
        if not old.endswith(".py") or not new.endswith(".py"):
            continue
        if asked.only and not new.startswith(tuple(asked.only)):
            continue
        if not (asked.root / old).is_file():
            continue
        moves[old] = new
    renames = {}
    if asked.renames.is_file():
        for line in asked.renames.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                old, name, new = line.split("\t")
                renames[dotted(old), name] = new
    repo = Repo(asked.root, moves, renames)
    repo.plan()
    repo.problems.clear()
    repo.plan()  # names chosen in the first pass are known to the imports of the second
    outputs: dict[str, str] = {}
    order = {}
    for new, parts in repo.groups.items():
        order[new] = parts
    new_paths = {dotted(n): n for n in moves.values()}
    for new, parts in order.items():
        imports, bodies, docs, futures = [], [], [], []
        for part in parts:
            file = repo.files[repo.paths[part][0]]
            rewriter = Rewriter(repo, file, part, new)
            result = file.wrapper.module.visit(rewriter)
            statements = list(result.body)
            doc = docstring_of(file.module)
            if (
                doc
                and statements
                and m.matches(
                    statements[0],
                    m.SimpleStatementLine(body=[m.Expr(m.SimpleString() | m.ConcatenatedString())]),
                )
            ):
                statements = statements[1:]
            docs.append((part, doc))
            imports += [cst.parse_statement(line + "\n") for line in rewriter.new_imports]
            body = []
            for statement in statements:
                if is_import_block(statement):
                    imports.append(statement)
                else:
                    body.append(statement)
            bodies.append((part, doc, body, file.module))
        text = []
        main_doc = repo_doc(new, docs)
        text.append(f'"""{main_doc}"""\n' if "\n" not in main_doc else f'"""{main_doc}\n"""\n')
        seen = set()
        imports.sort(key=lambda statement: "__future__" not in code_of(statement))
        for statement in imports:
            code = code_of(
                statement.with_changes(leading_lines=[l for l in statement.leading_lines if l.comment])
            )
            if code not in seen:
                seen.add(code)
                text.append(code)
        written = set()
        for part, doc, body, module in bodies:
            if len(bodies) > 1 and body:
                text.append(f"\n\n# --- {title_of(doc) or part}\n\n")
            for statement in body:
                code = code_of(statement)
                one = isinstance(statement, cst.SimpleStatementLine) and isinstance(
                    statement.body[0], (cst.Assign, cst.AnnAssign)
                )
                if one and code.strip() in written:
                    continue
                written.add(code.strip())
                text.append(code)
            text.append("".join(code_of(line) for line in module.footer if line.comment))
        outputs[new_paths[new]] = "".join(text)
    for path, file in repo.files.items():
        if path in moves:
            continue
        rewriter = Rewriter(repo, file, None, dotted(path))
        result = file.wrapper.module.visit(rewriter)
        code = result.code
        if rewriter.new_imports:
            extra = "\n".join(rewriter.new_imports) + "\n"
            at = code.find("\nimport ") if "\nimport " in code else code.find("\nfrom ")
            code = code[: at + 1] + extra + code[at + 1 :]
        if code != file.module.code:
            outputs[path] = code
    for problem in sorted(set(repo.problems)):
        print(problem)
    print(f"{len(moves)} modules into {len(order)}, {len(outputs)} files written", file=sys.stderr)
    if asked.dry:
        return 0
    for old in moves:
        (asked.root / old).unlink()
    for path, code in outputs.items():
        file = asked.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    return 0


def title_of(doc: str) -> str:
    """The first sentence of a docstring, cut where it grows long."""
    title = doc.splitlines()[0].rstrip(".:") if doc else ""
    while len(title) > 90:
        cut = max(title.rfind(mark) for mark in (", ", ": ", "; ", " ("))
        title = title[:cut] if cut > 0 else title[:90].rsplit(" ", 1)[0]
    return title


def repo_doc(new: str, docs: list[tuple[str, str]]) -> str:
    base = new.rsplit(".", 1)[-1]
    for part, doc in docs:
        if part.rsplit(".", 1)[-1] == base and doc:
            return doc
    longest = max(docs, key=lambda pair: len(pair[1]))
    return longest[1] or base


if __name__ == "__main__":
    sys.exit(main())

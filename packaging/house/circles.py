"""Circles among modules by imports at the top, and layers broken: imports.py ROOT"""

import ast, sys
from pathlib import Path
from collections import defaultdict

root = Path(sys.argv[1])
mods = {}
for p in [*root.glob("core/**/*.py"), *root.glob("gui/**/*.py")]:
    n = p.relative_to(root).as_posix().removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    mods[n] = p


def top_imports(p):
    t = ast.parse(p.read_text())
    out = set()

    def walk(body):
        for s in body:
            if isinstance(s, ast.Import):
                out.update(a.name for a in s.names)
            elif isinstance(s, ast.ImportFrom):
                for a in s.names:
                    f = f"{s.module}.{a.name}"
                    out.add(f if f in mods else s.module)
            elif isinstance(s, ast.If):
                if "TYPE_CHECKING" in ast.unparse(s.test):
                    continue
                walk(s.body)
                walk(s.orelse)
            elif isinstance(s, ast.Try):
                walk(s.body)

    walk(t.body)
    return {m for m in out if m in mods}


g = {n: top_imports(p) - {n} for n, p in mods.items()}
# SCC
sys.setrecursionlimit(10000)
idx = {}
low = {}
st = []
on = set()
sccs = []


def visit(v):
    idx[v] = low[v] = len(idx)
    st.append(v)
    on.add(v)
    for w in g[v]:
        if w not in idx:
            visit(w)
            low[v] = min(low[v], low[w])
        elif w in on:
            low[v] = min(low[v], idx[w])
    if low[v] == idx[v]:
        c = []
        while True:
            w = st.pop()
            on.discard(w)
            c.append(w)
            if w == v:
                break
        if len(c) > 1:
            sccs.append(c)


for v in g:
    if v not in idx:
        visit(v)
for c in sccs:
    print("circle:", len(c), sorted(c))
    for a in sorted(c):
        print("   ", a, "->", sorted(g[a] & set(c)))
layers = ["base", "options", "memory", "runs", "monitor", "services", "benchmark", "sharing", "cli"]
gl = ["base", "widgets", "charts", "settings", "run", "new_run", "runs", "try_it", "benchmark", "app"]


def rank(m):
    parts = m.split(".")
    if len(parts) < 2:
        return None
    L = layers if parts[0] == "core" else gl
    return (parts[0], L.index(parts[1])) if parts[1] in L else None


for a in sorted(g):
    for b in sorted(g[a]):
        ra, rb = rank(a), rank(b)
        if ra and rb and ra[0] == rb[0] and rb[1] > ra[1]:
            print("layer:", a, "->", b)

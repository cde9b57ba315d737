"""Old-module imports that go against the best order of the new modules: backedges.py ROOT MOVES"""

import ast, sys, random
from pathlib import Path
from collections import defaultdict

root = Path(sys.argv[1])
moves = {}
for l in Path(sys.argv[2]).read_text().splitlines():
    c = l.split("\t")
    if c[0].endswith(".py") and c[-1].endswith(".py") and (root / c[0]).is_file():
        moves[c[0]] = c[-1]
dot = lambda p: p.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
mods = {}
for p in [*root.glob("core/**/*.py"), *root.glob("gui/**/*.py")]:
    rel = p.relative_to(root).as_posix()
    mods[dot(rel)] = p
new = {dot(o): dot(n) for o, n in moves.items()}


def top_imports(p):
    t = ast.parse(p.read_text())
    out = []

    def walk(body):
        for s in body:
            if isinstance(s, ast.Import):
                out.extend((a.name, "") for a in s.names)
            elif isinstance(s, ast.ImportFrom):
                for a in s.names:
                    f = f"{s.module}.{a.name}"
                    out.append((f, "") if f in mods else (s.module, a.name))
            elif isinstance(s, ast.If):
                if "TYPE_CHECKING" in ast.unparse(s.test):
                    continue
                walk(s.body)
                walk(s.orelse)
            elif isinstance(s, ast.Try):
                walk(s.body)

    walk(t.body)
    return [(m, n) for m, n in out if m in mods]


# follow re-exports one level
defs = {}
imps = {}
for m, p in mods.items():
    imps[m] = top_imports(p)
reexp = {m: {n: src for src, n in imps[m] if n} for m in mods}


def real(m, n):
    seen = 0
    while (
        n
        and n in reexp.get(m, {})
        and seen < 5
        and m in new
        or (m in ("core.options",) and n in reexp.get(m, {}))
    ):
        m2 = reexp[m][n]
        if m2 == m:
            break
        m = m2
        seen += 1
    return m


edges = defaultdict(lambda: defaultdict(list))
for m in mods:
    for src, n in imps[m]:
        s = real(src, n)
        a, b = new.get(m, m), new.get(s, s)
        if a != b:
            edges[a][b].append((m, s, n))
nodes = set(edges) | {b for a in edges for b in edges[a]}
# order: DFS-free greedy local search on weight of distinct (old, name) edges
W = {a: {b: len({(m, n) for m, s, n in edges[a][b]}) for b in edges[a]} for a in edges}
layers = ["base", "options", "memory", "runs", "monitor", "services", "benchmark", "sharing", "cli"]
gl = ["base", "widgets", "charts", "settings", "run", "new_run", "runs", "try_it", "benchmark", "app"]


def layer(m):
    p = m.split(".")
    if p[0] == "core":
        if len(p) > 1 and p[1] in layers:
            return (0, layers.index(p[1]))
        if len(p) > 1 and p[1] == "engine":
            return (1, 0)
        return (0, 4.5) if len(p) > 1 else (0, -1)
    if len(p) > 1 and p[1] in gl:
        return (2, gl.index(p[1]))
    return (2, 99)


order = []
groups = defaultdict(list)
for n in nodes:
    groups[layer(n)].append(n)
random.seed(0)
for key in sorted(groups):
    ns = sorted(groups[key])

    # within a layer: minimise weight of edges a->b where b after a
    def w(a, b):
        return W.get(a, {}).get(b, 0)

    best = None
    for trial in range(30):
        o = ns[:]
        random.shuffle(o)
        improved = True
        while improved:
            improved = False
            for i in range(len(o)):
                x = o[i]
                rest = o[:i] + o[i + 1 :]
                # cost of placing x at j: edges from x to later + edges from earlier to x
                costs = []
                c = sum(w(x, y) for y in rest)
                costs.append(c)
                for y in rest:
                    c += w(y, x) - w(x, y)
                    costs.append(c)
                j = min(range(len(costs)), key=lambda k: (costs[k], abs(k - i)))
                if costs[j] < costs[i]:
                    o = rest[:j] + [x] + rest[j:]
                    improved = True
        cost = sum(w(o[i], o[j]) for i in range(len(o)) for j in range(i + 1, len(o)))
        if best is None or cost < best[0]:
            best = (cost, o)
    order += best[1]
pos = {n: i for i, n in enumerate(order)}
total = 0
for a in order:
    for b in edges.get(a, {}):
        if pos[b] > pos[a]:
            total += 1
            print(f"{a} -> {b}")
            by = defaultdict(set)
            for m, s, n in edges[a][b]:
                by[m, s].add(n)
            for (m, s), ns in by.items():
                print(f"      {m} <- {s}: {', '.join(sorted(ns))}")
print(total, "edges against the order")

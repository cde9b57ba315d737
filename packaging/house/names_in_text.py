"""Before the merge: names of modules in strings, comments and documents become the new ones. pre_text.py ROOT MOVES RENAMES"""

import io, re, subprocess, sys, tokenize
from pathlib import Path

root = Path(sys.argv[1])
moves = {}
for line in Path(sys.argv[2]).read_text().splitlines():
    a, b = line.split("\t")
    if a.endswith(".py") and b.endswith(".py") and (root / a).is_file() and a != b:
        moves[a] = b
dot = lambda p: p.removesuffix(".py").replace("/", ".")
renames = {}
for line in Path(sys.argv[3]).read_text().splitlines():
    a, n, new = line.split("\t")
    renames[dot(a), n] = new
dotted = {dot(a): dot(b) for a, b in moves.items()}
paths = dict(moves)
by_len = sorted(dotted, key=len, reverse=True)
DOTTED = re.compile(r"(?<![\w./])(" + "|".join(map(re.escape, by_len)) + r")(?![\w/])(\.[A-Za-z_]\w*)?")
PATHS = re.compile(
    r"(?<![\w.])("
    + "|".join(re.escape(p.removesuffix(".py")) for p in sorted(paths, key=len, reverse=True))
    + r")(\.py)?(?![\w/])"
)


def text(s):
    def d(m):
        attr = m[2] or ""
        if attr:
            attr = "." + renames.get((m[1], attr[1:]), attr[1:])
        return dotted[m[1]] + attr

    s = DOTTED.sub(d, s)
    return PATHS.sub(lambda m: paths[m[1] + ".py"].removesuffix(".py") + (m[2] or ""), s)


listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True).stdout.split("\n")
for name in listed:
    p = root / name
    if not p.is_file():
        continue
    if name.endswith((".md", ".yml", ".spec", ".sh", ".txt")) and "LICENSE" not in name:
        s = p.read_text()
        t = text(s)
        if t != s:
            p.write_text(t)
    elif name.endswith(".py"):
        s = p.read_text()
        if "core" not in s and "gui" not in s:
            continue
        lines = s.splitlines(keepends=True)
        edits = []
        for tok in tokenize.generate_tokens(io.StringIO(s).readline):
            if tok.type in (tokenize.STRING, tokenize.COMMENT):
                t = text(tok.string)
                if t != tok.string:
                    edits.append((tok.start, tok.end, t))
        offs = [0]
        for l in lines:
            offs.append(offs[-1] + len(l))
        for (sr, sc), (er, ec), t in reversed(edits):
            s = s[: offs[sr - 1] + sc] + t + s[offs[er - 1] + ec :]
        if edits:
            p.write_text(s)

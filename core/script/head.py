"""The head of a script: what it is, what it takes, what was resolved, and what is not in it."""

import re

from core.run_notes import asked_title
from core.script.coverage import left_out
from core.script.parts import Part, comment, literal
from core.script.resolved import Resolved
from core.vision_models import VISION_MODELS

LIBRARIES = ("torch", "torchvision", "transformers", "datasets", "accelerate", "peft", "trl", "bitsandbytes")
"""Those whose versions decide whether losses come out the same."""

VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9.]+)?", re.ASCII)
"""A version as PyPI has them (PEP 440). A stranger's run may name anything, which is then copied into a terminal."""

SEED_OF = "the seed of everything: which rows are held out, the order of batches, dropout, new weights"

TORCHVISION = """
# Beside a CPU-only PyTorch, the compiled operators of torchvision's Linux wheels don't load, and transformers fails
# with them. Nothing here calls them; declaring them is enough.
vision = importlib.util.find_spec("torchvision")
if vision is not None and not hasattr(torch.ops.torchvision, "nms"):
    try:
        for compiled in Path(vision.origin).parent.glob("_C*.so"):
            torch.ops.load_library(str(compiled))
    except OSError:
        operators = torch.library.Library("torchvision", "DEF")
        operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def words(run: Resolved) -> str:
    """The comment a script begins with."""
    title = run.title or asked_title(run.options)
    lines = comment(f"{title}: a run of Hone's as a plain script, without Hone.")
    lines += comment(
        "It reads the same rows, holds out the same ones, and takes the same steps: on a CPU, with the same versions "
        "and the same number of threads, each step's loss comes out the same."
    )
    lines += ["#", *_needs(run), *_resolved(run), *_missing(run)]
    return "\n".join(lines) + "\n"


def _needs(run: Resolved) -> list[str]:
    versions = {
        name: run.versions[name] for name in LIBRARIES if VERSION.fullmatch(run.versions.get(name, ""))
    }
    found = [f"{name}=={version.partition('+')[0]}" for name, version in versions.items()]
    told = " ".join(found) or "torch transformers accelerate datasets numpy scikit-learn"
    return [
        *comment(f"It takes: pip install {told}"),
        "# The checkpoints go to ./checkpoints, the model to ./model.",
    ]


def _resolved(run: Resolved) -> list[str]:
    if not run.notes:
        return []
    where = f" on {run.device_title or run.device}"
    lines = ["#", *comment(f"What was left to Hone, as it came to{where}:")]
    return [*lines, *(line for note in run.notes for line in comment(f"- {note}"))]


def _missing(run: Resolved) -> list[str]:
    found = [
        *left_out(run),
        "what Hone finds while it runs (operators that another device takes over, requests to pause or stop)",
    ]
    lines = ["#", "# Not in this script:"]
    return [*lines, *(line for text in found for line in comment(f"- {text}"))]


def environment(run: Resolved) -> Part:
    """What has to be set before PyTorch is imported."""
    device = run.options.device
    lines = []
    if run.kind == "cuda":
        number = run.device.partition(":")[2] or "0"
        lines.append(
            f'os.environ["CUDA_VISIBLE_DEVICES"] = "{number}"  # with several, Trainer would use them all'
        )
    if run.kind == "mps":
        high, low = watermarks(device.mps_memory_limit)
        lines += [
            f'os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "{int(device.mps_fallback)}"',
            f'os.environ["PYTORCH_MPS_HIGH_WATERMARK_RATIO"] = "{high:.4f}"',
            f'os.environ["PYTORCH_MPS_LOW_WATERMARK_RATIO"] = "{low:.4f}"',
        ]
    return Part("", "\n".join(lines))


def watermarks(limit: float) -> tuple[float, float]:
    """The two marks of torch's MPS allocator, as `core.engine.environment.mps_watermarks` sets them."""
    return limit, 1.4 * min(1.0, limit / 1.7) if limit else 1.4


def constants(run: Resolved, source: str) -> Part:
    """Threads, the workaround for torchvision, and what the rest refers to."""
    options = run.options
    lines = [f"SEED = {options.training.seed}  # {SEED_OF}"]
    if options.model.source.partition(":")[2] not in VISION_MODELS and not source.startswith("scratch:"):
        lines.append(f"MODEL = {literal(source)}")
    imports = ["import torch"]
    if options.device.threads is not None:
        lines.append(f"torch.set_num_threads({options.device.threads})  # another number rounds otherwise")
    return Part("", "\n".join(lines), tuple(imports))

"""Makes `import torchvision` work on a CPU-only torch.

torchvision's Linux wheels are built against CUDA, so their compiled operators don't load beside a CPU torch, and the
import fails with "operator torchvision::nms does not exist" when it registers their fake kernels. Models and
transforms never call these operators; declaring their schemas first is enough. (Seen with torch 2.13.0+cpu and
torchvision 0.28.0; transformers imports torchvision wherever it is installed, so the Trainer fails with it.)
"""

import importlib.util
from pathlib import Path

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []  # a library's declarations live as long as the object does


def prepare_torchvision() -> None:
    """Declare the missing operators once, only where torchvision's own compiled ones can't be loaded."""
    if _declared or _own_operators_load():
        return
    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)


def _own_operators_load() -> bool:
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return True
    compiled = [file for file in Path(found.origin).parent.glob("_C*") if file.suffix in (".so", ".pyd")]
    try:
        for file in compiled:
            torch.ops.load_library(str(file))
    except OSError:
        return False
    return bool(compiled)

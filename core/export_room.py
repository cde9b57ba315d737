"""How much room an export takes on the disk, told from the headers of weights and from small files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from core.export_offers import ExportSource, base_folder, config_of
from core.exporting import ExportKind, NumberFormat
from core.trained_model import WEIGHTS
from core.trying_models import count_weights

SMALL_FILES = 16 << 20
FP32, HALF = 4, 2
"""Bytes of a weight."""
GRAPHS = (ExportKind.ONNX, ExportKind.COREML)
"""These are written in fp32."""


def bytes_of(source: ExportSource, kind: ExportKind, numbers: NumberFormat) -> int:
    """About how many bytes an export takes; a GGUF file stands beside the folder it is made from.

    Args:
        source: The model.
        kind: What it becomes.
        numbers: What its weights are written in.
    """
    own = [*source.folder.glob(WEIGHTS)]
    if kind is ExportKind.ADAPTER:
        return _sizes([*own, *(source.folder / "base").glob(WEIGHTS)]) + SMALL_FILES
    base = base_folder(source.folder) if source.is_adapter else None
    files = own if base is None else [*base.glob(WEIGHTS)]
    is_copied = not source.is_adapter and numbers is NumberFormat.AUTO and kind not in GRAPHS
    config = {} if base is None else config_of(base)
    written = 0 if is_copied else _weights(files, config) * _bytes_a_weight(kind, numbers, config)
    return (2 if kind is ExportKind.GGUF else 1) * (written or _sizes(files)) + SMALL_FILES


def _weights(files: list[Path], config: dict[str, Any]) -> int:
    """How many weights files hold; published in 4 bits, each byte is two of them."""
    packing = config.get("quantization_config")
    is_in_4_bits = isinstance(packing, dict) and packing.get("load_in_4bit") is True
    return count_weights(files) * (2 if is_in_4_bits else 1)


def _bytes_a_weight(kind: ExportKind, numbers: NumberFormat, config: dict[str, Any]) -> int:
    """Bytes of a weight as it is written: merged ones as they were published, unless something is asked for."""
    if kind in GRAPHS:
        return FP32
    if numbers is NumberFormat.AUTO:
        return HALF if (config.get("dtype") or config.get("torch_dtype")) in ("bfloat16", "float16") else FP32
    return FP32 if numbers is NumberFormat.FP32 else HALF


def _sizes(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)

"""Requests and answers of the jobs that export a model and send it to the Hub."""

from enum import StrEnum

import msgspec

from core.base.formats import paragraph, plain_number
from core.base.language import _


class ExportKind(StrEnum):
    """Kinds of exports."""

    FOLDER = "folder"
    ADAPTER = "adapter"
    MERGED = "merged"
    OLLAMA = "ollama"
    GGUF = "gguf"
    MLX = "mlx"
    MLX_ADAPTER = "mlx-adapter"
    ONNX = "onnx"
    COREML = "coreml"
    HUB = "hub"

    @property
    def needs_mlx(self) -> bool:
        return self in (ExportKind.MLX, ExportKind.MLX_ADAPTER)

    @property
    def is_adapter(self) -> bool:
        """Whether it is of use only together with the model that it was trained with."""
        return self in (ExportKind.ADAPTER, ExportKind.MLX_ADAPTER)


class NumberFormat(StrEnum):
    """Number format of the exported weights; "auto": as trained, merged ones as in their base model.

    Quantized ones are llama.cpp's, with blocks of 32 weights that share a scale, or for q4_k_m of 256 with several; and
    MLX's (affine), with groups of 64 that share a scale and an offset.
    """

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"
    Q4_K_M = "q4_k_m"
    AFFINE8 = "affine8"
    AFFINE4 = "affine4"

    @property
    def is_quantized(self) -> bool:
        return self.value.startswith("q") or self.is_affine

    @property
    def is_affine(self) -> bool:
        return self.value.startswith("affine")


class Compared(StrEnum):
    """What is compared besides the logits."""

    LABELS = "labels"
    NUMBERS = "numbers"
    WORD_LABELS = "labels of tokens"
    TOKENS = "next tokens"


EQUAL = {
    Compared.LABELS: _("{equal:,} of {counted:,} labels are the same, on {origin}"),
    Compared.NUMBERS: _("{equal:,} of {counted:,} numbers are the same, on {origin}"),
    Compared.WORD_LABELS: _("{equal:,} of {counted:,} labels of tokens are the same, on {origin}"),
    Compared.TOKENS: _(
        "{equal:,} of {counted:,} tokens that the trained model writes are the same, on {origin}"
    ),
}


class ExportAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of the exported model with the trained one on the same examples.

    `held_out` of the `examples` are from the run's validation split, the others random. `equal` of `counted` answers
    are the same; `largest` is the largest difference of two logits or scores (None: unknown or not a number),
    `allowed` the tolerance and `why` its reason. `holds` says whether the models agree.
    """

    examples: int
    held_out: int
    compared: Compared
    equal: int
    counted: int
    largest: float | None
    allowed: float
    why: str
    holds: bool


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Export the model in the run folder `run` as `kind` (never `hub`) into the empty folder `staging`.

    `target` is the folder it will become, `repo` the repository it is for, if any; `checkpoint` is a name such as
    `checkpoint-40`, empty for the trained model.
    """

    run: str
    kind: ExportKind
    staging: str
    target: str
    repo: str = ""
    numbers: NumberFormat = NumberFormat.AUTO
    checkpoint: str = ""


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an export.

    `path` is its folder or its address on the Hub; `files` are relative to it, `size` is in bytes. `unchecked` says
    why there is no `agreement`. `code` is Python that uses the model, or commands for a terminal; empty if other
    programs do.
    """

    kind: ExportKind
    path: str
    files: tuple[str, ...]
    size: int
    agreement: ExportAgreement | None = None
    unchecked: str = ""
    notes: tuple[str, ...] = ()
    code: str = ""


class PushRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Send the files of a folder to a new repository `owner/name` on the Hub."""

    folder: str
    repo: str
    private: bool = True


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the new repository's page."""

    url: str


def _two_figures(value: float) -> str:
    return plain_number(float(f"{value:.2g}"))


def agreement_text(agreement: ExportAgreement) -> str:
    if agreement.held_out == agreement.examples:
        origin = _("{examples} validation examples")
    elif agreement.held_out:
        origin = _("{examples} examples, {held_out} of them from the validation data, the others random")
    else:
        origin = _("{examples} random examples")
    origin = origin.format(examples=agreement.examples, held_out=agreement.held_out)
    text = EQUAL[agreement.compared] if agreement.counted else _("No answers to compare, on {origin}")
    text = text.format(equal=agreement.equal, counted=agreement.counted, origin=origin)
    if agreement.largest is None:
        return paragraph(text)
    largest = (
        _("Max. score difference: {largest} (tolerance {allowed}).")
        if agreement.compared is Compared.NUMBERS
        else _("Max. logit difference: {largest} (tolerance {allowed}).")
    ).format(
        largest=_two_figures(agreement.largest),
        allowed=_two_figures(agreement.allowed),
    )
    return paragraph(text, largest)

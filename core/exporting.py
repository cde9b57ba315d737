"""What a trained model can be exported as, what is asked of an export, and what comes of it."""

from enum import StrEnum

import msgspec


class ExportKind(StrEnum):
    """What a run's model becomes."""

    FOLDER = "folder"
    ADAPTER = "adapter"
    MERGED = "merged"
    OLLAMA = "ollama"
    GGUF = "gguf"
    ONNX = "onnx"
    COREML = "coreml"
    HUB = "hub"


EXPORTS: dict[ExportKind, tuple[str, str]] = {
    ExportKind.FOLDER: (
        "Model folder",
        "For Python: transformers, or torchvision, loads it by its folder. The model as it was trained.",
    ),
    ExportKind.ADAPTER: (
        "LoRA adapter",
        "The trained matrices alone: a few MB, used together with the model they were trained beside.",
    ),
    ExportKind.MERGED: (
        "Merged model",
        "One whole model: the LoRA matrices worked into the weights they were trained beside.",
    ),
    ExportKind.OLLAMA: (
        "Ollama",
        "To chat on your own computer: a model folder with a Modelfile for “ollama create”.",
    ),
    ExportKind.GGUF: (
        "GGUF",
        "For llama.cpp, LM Studio and the like: one file, made by llama.cpp's own converter.",
    ),
    ExportKind.ONNX: (
        "ONNX",
        "For other languages and devices, by ONNX Runtime: one graph, without Python.",
    ),
    ExportKind.COREML: ("Core ML", "For apps on a Mac, iPhone or iPad: a package that Xcode opens."),
    ExportKind.HUB: (
        "Hugging Face Hub",
        "To share: a new repository under your name. The only kind that sends anything.",
    ),
}
"""Of each kind its title and what it is for, in a sentence."""


class NumberFormat(StrEnum):
    """What the exported weights are written in."""

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class Compared(StrEnum):
    """What is compared beside the logits: what a person would see of a model."""

    LABELS = "labels"
    NUMBERS = "numbers"
    WORD_LABELS = "labels of tokens"
    TOKENS = "next tokens"
    TEXTS = "beginnings of answers"


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How the exported model answers beside the trained one, on the same examples.

    Attributes:
        examples: How many both were asked.
        held_out: How many of these the run had held out; the others are made up.
        compared: What was counted.
        equal: How many of `counted` answers are the same.
        counted: All of them.
        largest: The largest difference of two logits (of two scores, for numbers); None: not to be had, or no number.
        allowed: How large it may be.
        why: Why so much is allowed.
        holds: Whether the two models agree.
    """

    examples: int
    held_out: int
    compared: Compared
    equal: int
    counted: int
    largest: float | None
    allowed: float | None
    why: str
    holds: bool


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Export this run's model.

    Attributes:
        run: The run's folder.
        kind: What it becomes; never `hub`, which is an export of another kind that is sent afterwards.
        staging: An empty folder, where it is written.
        target: The folder it will be in the end.
        numbers: What its weights are written in; "auto": as trained, or as those they were worked into.
        checkpoint: The name of a checkpoint of the run, such as `checkpoint-40`; empty: what it ended with.
    """

    run: str
    kind: ExportKind
    staging: str
    target: str
    numbers: NumberFormat = NumberFormat.AUTO
    checkpoint: str = ""


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an export.

    Attributes:
        kind: What was made.
        path: Where it lies, or its address on the Hub.
        files: Names of its files, relative to `path`.
        size: Bytes of all of them.
        agreement: How it answers beside the trained model; None: not checked, and `unchecked` says why.
        unchecked: Why it was not checked; empty where it was.
        notes: What a person should know of it, or do with it next.
        missing: What was asked and is not there (a converter isn't installed); empty: all of it is there.
    """

    kind: ExportKind
    path: str
    files: tuple[str, ...]
    size: int
    agreement: Agreement | None = None
    unchecked: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""


class PushRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Send the files of a folder to a new repository `owner/name` on the Hub."""

    folder: str
    repo: str
    private: bool = True


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files are now: the address of the repository's page."""

    url: str


def agreement_words(agreement: Agreement) -> str:
    """How the two models agree, in a sentence."""
    if agreement.counted:
        same = f"{agreement.equal:,} of {agreement.counted:,} {agreement.compared} are the same"
    else:
        same = "Nothing could be counted"
    told = f"{same}, on {agreement.examples} examples, {_origin(agreement)}"
    if agreement.largest is None:
        return f"{told}."
    thing = "score" if agreement.compared is Compared.NUMBERS else "logit"
    most = f"; no {thing} is off by more than {agreement.largest:.2g}"
    return (
        f"{told}{most} ({agreement.allowed:.2g} is allowed)."
        if agreement.allowed is not None
        else f"{told}{most}."
    )


def _origin(agreement: Agreement) -> str:
    if agreement.held_out == agreement.examples:
        return "all of them held out"
    return (
        f"{agreement.held_out} of them held out, the others made up"
        if agreement.held_out
        else "all of them made up"
    )

"""An invented export for pictures of its sheet: nothing is written."""

from core.export_job import Wanted
from core.export_offers import Offer
from core.exporting import Agreement, Compared, ExportKind, ExportReport
from core.jobs import TellProgress

OFFERS = (
    Offer(
        ExportKind.FOLDER,
        "This run trained LoRA matrices beside a frozen model: take the adapter, or the merged model.",
    ),
    Offer(ExportKind.ADAPTER),
    Offer(ExportKind.MERGED),
    Offer(ExportKind.OLLAMA),
    Offer(
        ExportKind.GGUF,
        caution="llama.cpp isn't installed here: you get the model folder that it takes, and are told how to go on.",
    ),
    Offer(
        ExportKind.ONNX,
        "Hone writes ONNX of models that classify, score or label; for one that writes, take Ollama or GGUF.",
    ),
    Offer(
        ExportKind.COREML,
        "Hone writes Core ML of models that classify, score or label; for one that writes, take Ollama or GGUF.",
    ),
    Offer(ExportKind.HUB),
)


class InventedExport:
    """Is done at once."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def run(self, tell: TellProgress | None = None) -> ExportReport:
        """What a small adapter comes to."""
        agreement = Agreement(
            examples=16,
            held_out=16,
            compared=Compared.TOKENS,
            equal=384,
            counted=384,
            largest=0.0,
            allowed=1.9e-4,
            why="",
            holds=True,
        )
        return ExportReport(
            kind=self._wanted.kind,
            path=self._wanted.folder,
            files=("README.md",),
            size=8 << 20,
            agreement=agreement,
        )

    def kill(self) -> None:
        """There is nothing to end."""

"""The job that exports: write, then compare with the trained model."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from core.base.errors import ModelError
from core.base.language import _
from core.engine.export.card import write_card
from core.engine.export.folders import write_adapter, write_folder
from core.engine.export.formats import write_coreml, write_gguf, write_ollama, write_onnx
from core.engine.export.verify import (
    NotChecked,
    Place,
    Tell,
    Written,
    answers,
    continued,
    find_rows,
    load_trained,
)
from core.runs.folder import RunFolder
from core.services.export import (
    Agreement,
    ExportKind,
    ExportReport,
    ExportRequest,
    ExportSource,
    agreement_text,
    find_source,
)

WRITERS: dict[ExportKind, Callable[[ExportSource, Place, Tell], Written]] = {
    ExportKind.FOLDER: write_folder,
    ExportKind.ADAPTER: write_adapter,
    ExportKind.MERGED: write_folder,
    ExportKind.OLLAMA: write_ollama,
    ExportKind.GGUF: write_gguf,
    ExportKind.ONNX: write_onnx,
    ExportKind.COREML: write_coreml,
}


class NotTheSame(ModelError):  # noqa: N818 - said as the person sees it
    """An exported model differs from the trained one, and is deleted."""


def export(request: ExportRequest, tell: Tell) -> ExportReport:
    """Write the export into `request.staging` and check it there.

    The two models are in memory one after the other, in fp32 on the CPU: a run that trains keeps its GPU.

    Raises:
        UserError: The model can't be read or exported.
        NotTheSame: The export's answers differ from the trained model's.
    """
    source = find_source(RunFolder(Path(request.run)), request.checkpoint)
    into = Path(request.staging)
    written = WRITERS[request.kind](source, Place(into, Path(request.target), request.numbers), tell)
    agreement, unchecked = _check(source, written, tell)
    if agreement is not None and not agreement.holds:
        detail = _("{agreement} The export was deleted. Please report this bug of Hone or a library.")
        raise NotTheSame(
            _("The exported model differs from the trained one"),
            detail.format(agreement=agreement_text(agreement)),
        )
    report = ExportReport(
        kind=request.kind,
        path=request.target,
        files=(),
        size=0,
        agreement=agreement,
        unchecked=unchecked,
        notes=tuple(note for note in (source.checkpoint_text, *written.notes) if note),
        missing=written.missing,
    )
    write_card(source, report, into)
    files = sorted(path for path in into.rglob("*") if path.is_file())
    mode = (into / "README.md").stat().st_mode & 0o777
    for path in files:
        path.chmod(mode)  # safetensors writes files that only their owner may read
    return msgspec.structs.replace(
        report,
        files=tuple(path.relative_to(into).as_posix() for path in files),
        size=sum(path.stat().st_size for path in files),
    )


def _check(source: ExportSource, written: Written, tell: Tell) -> tuple[Agreement | None, str]:
    """The comparison with the trained model, or why there is none."""
    if written.check is None:
        return None, written.unchecked
    tell(_("Running the trained model"))
    rows = find_rows(source)
    model = load_trained(source)
    if source.options.task.writes_text:
        rows = continued(rows, model)
    before = answers(model, rows)
    del model  # before the other is loaded
    tell(_("Running the exported model"))
    try:
        with torch.no_grad():
            agreement = written.check(rows, before)
    except NotChecked as error:
        return None, str(error)
    return agreement, "" if agreement is not None else written.unchecked

"""What came of an export, as the sheet says it."""

from PySide6.QtCore import QCoreApplication

from core.exporting import EXPORTS, ExportReport, agreement_words
from gui.numbers import memory

_translate = QCoreApplication.translate


def result_words(report: ExportReport) -> tuple[str, str]:
    """A title and what follows it: where it is, how it answers beside the trained model, and what to know."""
    size = memory(report.size)
    if report.missing:
        title = _translate("Export", "Only a part of it is there")
    elif report.agreement is None:
        title = _translate("Export", "{kind}: done, not checked").format(kind=EXPORTS[report.kind][0])
    else:
        title = _translate("Export", "{kind}: done, and it answers as the trained model")
        title = title.format(kind=EXPORTS[report.kind][0])
    where = _translate("Export", "{size} in {path}").format(size=size, path=report.path)
    checked = agreement_words(report.agreement) if report.agreement else report.unchecked
    return title, "\n".join(part for part in (report.missing, where, checked, *report.notes) if part)

"""Messages of the window, above its pages and in the sidebar: runs that have ended or crashed, errors."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from core.base import formats
from core.base.errors import Fix, FixAction, UserError, why
from core.base.language import _, isolated, ngettext
from core.base.settings import home
from core.runs.crash import Interrupted
from core.runs.events import Level
from core.runs.folder import RunFolder
from core.runs.queue import EndedRun, LiveRun
from core.runs.status import State
from gui.app.notifications import end_title, outcome
from gui.base.tokens import PAGE_MARGINS
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import margins
from gui.widgets.layout import vbox

MOST_NAMES = 3
"""Number of runs that are named."""


class Notices(QWidget):
    """Strips, each hidden until there is something to show, and when it is closed.

    Above every page: `home`: Hone's folder can't be used; `trouble`: an error; `aside`: files that were not opened.
    In the sidebar, as they appear by themselves and must not move a page: `ended`: a run has just ended or paused;
    `interrupted`: runs crashed.
    """

    show_requested = Signal(object)  # a `RunFolder`; None: the list of runs
    resume_requested = Signal(object)  # a list of `RunFolder`s to resume one after the other
    seen = Signal()  # the crashed runs need not be shown again

    def __init__(self) -> None:
        super().__init__()
        self._interrupted: list[Interrupted] = []
        self._ended: RunFolder | None = None
        self._above = [MessageStrip(closable=True) for _number in range(3)]
        self.home, self.trouble, self.aside = self._above
        beside = [MessageStrip(closable=True, narrow=True) for _number in range(2)]
        self.ended, self.interrupted = beside
        self.beside = QWidget()
        self.beside.setLayout(vbox(*beside))
        layout = vbox(*self._above)
        start, top, end, _bottom = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end, 0))
        self.setLayout(layout)
        for strip in (*self._above, *beside):
            strip.closed.connect(self._fit)
        self.ended.fix_chosen.connect(lambda: self.show_requested.emit(self._ended))
        self.interrupted.fix_chosen.connect(self._on_interrupted_fix)
        self.interrupted.closed.connect(self.seen)
        self.hide()

    def show_end(self, end: EndedRun) -> None:
        """Show how a run ended, in place of the one before, until the run is shown or this is closed."""
        self._ended = end.run
        level = Level.ERROR if end.state in (State.FAILED, State.CRASHED) else Level.INFO
        fix = Fix(_("Show it"), action=FixAction.REVEAL)
        self.ended.show_message(level, end_title(end), outcome(end, most=1), (fix,))

    def show_interrupted(self, runs: Sequence[Interrupted]) -> None:
        """Offer to resume runs that ended without reporting it, or one that is paused."""
        self._interrupted = list(runs)
        count, step, is_paused = len(runs), runs[0].step, runs[0].is_paused
        title = ngettext("“{run}” crashed", "{count} runs crashed", count)
        if count > 1:
            names = listed([f"“{isolated(run.title)}”" for run in runs])
            text = _("{runs}. They can be resumed from their last checkpoints, one after the other.").format(
                runs=names
            )
        elif is_paused and step is not None:
            text = _("Paused at step {step}. It continues exactly there.").format(step=formats.count(step))
        elif step is None:
            text = _("It has no checkpoint, so it would start over.")
        else:
            text = _("It can be resumed from its checkpoint of step {step}.").format(step=formats.count(step))
        fixes = (
            Fix(ngettext("Resume", "Resume all", count), action=FixAction.RESUME),
            Fix(ngettext("Show it", "Show them", count), action=FixAction.REVEAL),
        )
        if is_paused:
            title = _("“{run}” is paused")
        title = title.format(run=isolated(runs[0].title), count=count)
        self.interrupted.show_message(Level.INFO if is_paused else Level.WARNING, title, text, fixes)

    def update_live(self, live: Sequence[LiveRun]) -> None:
        """Remove runs from the notices that have been resumed."""
        self._leave_out([one.run for one in live])

    def leave_out(self, run: RunFolder) -> None:
        """Remove a run whose page is shown."""
        self._leave_out([run])

    def _leave_out(self, runs: Collection[RunFolder]) -> None:
        interrupted = [one for one in self._interrupted if one.run not in runs]
        if not interrupted and not self.interrupted.isHidden():
            self.interrupted.hide()
            self.seen.emit()
        elif interrupted != self._interrupted and not self.interrupted.isHidden():
            self.show_interrupted(interrupted)
        if self._ended is not None and self._ended in runs:
            self._ended = None
            self.ended.hide()

    def show_home_error(self, error: OSError) -> None:
        """Show why Hone's own folder can't be used, and what to do."""
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = _("{folder} can't be created: there is a file of this name.").format(folder=home())
        else:
            reason = formats.paragraph(f"{error.filename or home()}: {why(error)}")
        detail = _(
            "{reason} Hone works without it, but its log and your settings are not saved, and runs need another "
            "folder, which you can choose under Settings.\nTo fix it, make {folder} a folder that you may write to, or "
            "name another one in HONE_HOME; then start Hone again."
        ).format(reason=reason, folder=home())
        self.home.show_message(Level.WARNING, _("Nothing can be saved in Hone's folder"), detail)
        self._fit()

    def show_aside(self, names: Sequence[str]) -> None:
        """Name the files that were not opened; hide the notice if there are none."""
        title = _("Hone opens one file or folder at a time")
        self.aside.show_message(Level.INFO, title, _("Not opened: {files}").format(files=listed(names)))
        self.aside.setVisible(bool(names))
        self._fit()

    def show_error(self, error: UserError) -> None:
        self.trouble.show_error(error)
        self._fit()

    def _on_interrupted_fix(self, fix: Fix) -> None:
        runs = [one.run for one in self._interrupted]
        if fix.action is FixAction.RESUME:
            self.interrupted.hide()
            self.resume_requested.emit(runs)
            self.seen.emit()
        else:
            self.show_requested.emit(runs[0] if len(runs) == 1 else None)

    def _fit(self) -> None:
        self.setVisible(not all(strip.isHidden() for strip in self._above))


def listed(names: Sequence[str]) -> str:
    """The first few names, and the number of others."""
    shown = formats.enumerated(names[:MOST_NAMES])
    return f"{shown} + {len(names) - MOST_NAMES}" if len(names) > MOST_NAMES else shown

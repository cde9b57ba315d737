"""Moving runs to the system's trash."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from core.base import formats
from core.base.errors import RunFolderError, UserError
from core.base.language import _, isolated, ngettext
from core.hosts.mirror import removal_there
from core.runs import trash as run_trash
from core.runs.folder import RunFolder
from core.runs.trash import NoTrashError, Trash, TrashItem, TrashPlan
from gui.base.background import FileWork
from gui.base.questions import TrashDialog

MOST_NAMED = 6
"""At most this many names are listed in a question; the others are counted."""


class NotOverError(UserError):
    """`runs` can't be moved before all of them have ended."""

    def __init__(self, title: str, detail: str, runs: tuple[RunFolder, ...]) -> None:
        super().__init__(title, detail)
        self.runs = runs


Failures = list[tuple[TrashItem, UserError]]
"""Runs that could not be removed, each with the reason."""


class RunTrash(QObject):
    """Moves runs to the trash of the system; asks only where there is none.

    They wait in their folders until `finish`, hidden from the list, so that `undo` can keep them on any system.

    Args:
        trash: Moves a folder; None for the system's trash.
    """

    moved = Signal(object)  # a list of the folders, `Path`, that are in the trash, or wait to be moved
    kept = Signal(object)  # a list of the `RunFolder`s that stay after all
    told = Signal(str, str)  # the title and the text of a note about them
    failed = Signal(object)  # a `core.base.errors.UserError`: why something stayed

    def __init__(self, window: QWidget, runs_folder: Callable[[], Path], trash: Trash | None = None) -> None:
        super().__init__(window)
        self._runs_folder = runs_folder
        self.trash = trash
        self.waiting: tuple[TrashItem, ...] = ()
        self.leaving: frozenset[Path] = frozenset()
        """The folders that wait or are being moved."""
        self.work = FileWork(self)
        self.work.failed.connect(self.failed)
        self._dialog = TrashDialog(window)

    @property
    def question(self) -> QMessageBox | None:
        return self._dialog.box

    def begin(self, runs: Sequence[RunFolder]) -> None:
        """Move these runs if all are over, and those before for good. Returns at once."""
        wanted, folder = tuple(runs), self._runs_folder()
        if wanted and self.question is None:
            self.finish()
            self.work.put(lambda: run_trash.plan(wanted, folder), lambda plan: self._move(plan, wanted))

    def end_work(self) -> None:
        """Close the question, and wait until all is moved."""
        self._dialog.put_away()
        self.finish()
        self.work.end_work()

    def undo(self) -> None:
        """Keep the runs that wait."""
        kept = [item.run for item in self.waiting]
        self.waiting, self.leaving = (), self.leaving - {run.path for run in kept}
        self.kept.emit(kept)

    def finish(self) -> None:
        """Move the runs that wait. Returns at once."""
        items, self.waiting = self.waiting, ()
        if items:
            self._remove(items, lambda run: run_trash.move(run, self.trash))

    def _move(self, plan: TrashPlan, wanted: tuple[RunFolder, ...]) -> None:
        if plan.busy:
            title = _("Only runs that have ended can be moved to the trash")
            text = ngettext(
                "{runs} is queued or running. Stop it before deleting.",
                "These are queued or running: {runs}. Stop them before deleting.",
                len(plan.busy),
            ).format(runs=formats.enumerated(_shortened([f"“{isolated(title)}”" for title in plan.busy])))
            self.failed.emit(NotOverError(title, text, wanted))
            return
        self.waiting, paths = plan.going, [item.run.path for item in plan.going]
        self.leaving |= set(paths)
        self.told.emit(*note_on(plan.going))
        self.moved.emit(paths)

    def _remove(self, items: Sequence[TrashItem], remove: Callable[[RunFolder], None]) -> None:
        def work() -> tuple[Failures, list[str]]:
            failures: Failures = []
            left: list[str] = []
            for item in items:
                remove_there = removal_there(item.run)
                try:
                    remove(item.run)
                    left.append(remove_there())
                except UserError as error:
                    failures.append((item, error))
            return failures, [*filter(None, left)]

        self.work.put(work, partial(self._report, items))

    def _offer_to_delete(self, failures: Failures) -> None:
        """Ask whether to delete what can't be moved as there is no trash."""
        without_trash = [(item, error) for item, error in failures if isinstance(error, NoTrashError)]
        if not without_trash:
            return
        items = [item for item, _error in without_trash]
        title = ngettext(
            "There is no trash for “{title}”. Delete it permanently?",
            "There is no trash for {count} runs. Delete them permanently?",
            len(items),
        ).format(title=isolated(items[0].title), count=formats.count(len(items)))
        text = "\n\n".join((_("This cannot be undone."), without_trash[0][1].detail))

        def delete() -> None:
            self._remove(items, run_trash.delete)

        self._dialog.ask(title, text, _("Delete permanently"), delete)

    def _report(self, items: Sequence[TrashItem], found: tuple[Failures, list[str]]) -> None:
        failures, left = found
        paths = {item.run.path for item in items}
        self.leaving -= paths
        gone = paths - {item.run.path for item, _error in failures}
        if gone:
            self.moved.emit(list(gone))
        errors = [error for _item, error in failures if not isinstance(error, NoTrashError)]
        if errors:
            details = "\n".join(dict.fromkeys(error.detail for error in errors))
            self.failed.emit(RunFolderError(errors[0].title, details))
        if left:
            self.failed.emit(RunFolderError(_("Not all of it could be deleted"), "\n".join(left)))
        self._offer_to_delete(failures)


def note_on(items: Sequence[TrashItem]) -> tuple[str, str]:
    """Return the title and the text of a note about runs that were moved to the trash."""
    title = ngettext("Moved “{title}” to the trash", "Moved {count} runs to the trash", len(items)).format(
        title=isolated(items[0].title), count=formats.count(len(items))
    )
    text = ngettext(
        "It can be put back from the system's trash. Emptying the trash frees {size}.",
        "They can be put back from the system's trash. Emptying the trash frees {size}.",
        len(items),
    )
    sentences = [text.format(size=formats.memory(sum(item.size for item in items)))]
    for item in items:
        if item.needed_by:
            runs = formats.enumerated(_shortened([f"“{isolated(name)}”" for name in item.needed_by]))
            text = _("Other runs started from the model of “{title}”: {runs}.")
            sentences.append(text.format(title=isolated(item.title), runs=runs))
    return title, formats.paragraph(*sentences)


def _shortened(names: list[str]) -> list[str]:
    if len(names) <= MOST_NAMED:
        return names
    more = _("and {count} more").format(count=formats.count(len(names) - MOST_NAMED + 1))
    return [*names[: MOST_NAMED - 1], more]

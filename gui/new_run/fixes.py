"""Applies fixes to the form, and offers the task that suits the data."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject

from core.base.errors import Fix, UserError
from core.base.files import is_there
from core.base.language import _, isolated
from core.jobs.inspect import DataReport
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.options.presets import find_task
from core.options.sources import scheme_of, short_name
from core.runs.events import Level
from gui.new_run.column_guesses import TRAIN
from gui.new_run.data_panel import FRACTION
from gui.new_run.options import OptionsColumn
from gui.new_run.state import UNUSED
from gui.new_run.undo import FormHistory
from gui.widgets.cards import NoticeStrip

ROLES = "data.roles"


class Remedies(QObject):
    """Applies fixes, and offers another task on `strip`, its own, if the data suits that better."""

    def __init__(
        self,
        options: OptionsColumn,
        history: FormHistory,
        strip: NoticeStrip,
        change_task: Callable[[Task], None],
        is_untouched: Callable[[], bool],
    ) -> None:
        super().__init__(options)
        self._options = options
        self._history = history
        self._strip = strip
        self._change_task = change_task
        self._unread = ""  # a new source that the engine has not read yet
        self._left: tuple[str, Task] | None = None  # data, and a task that is not offered for it again
        self._offered: Task | None = None
        self._is_untouched = is_untouched  # whether the person has chosen nothing yet but data
        self._adopted = ""  # the data that the task was changed for without a question, once

    def note_left(self, task: Task) -> None:
        """Remember the task that the person leaves: it is not offered again for the same data."""
        self._strip.hide()
        self._left = str(self._options.fields.train.value() or ""), task

    def apply(self, fix: Fix) -> None:
        changes, form = dict(fix.changes), self._options.form
        before, task = form.task, Task(changes.pop("task", form.task))
        if not changes and task is before:
            if self._offered is not None:  # the answer to an offer: keep the task
                self.note_left(self._offered)
            return
        self._options.setFocus()  # a button that is hidden with the focus would scroll to the next control
        is_undone = task is not before and self._history.undo_task(task)
        if is_undone:
            self.note_left(before)
        with self._history.step(fix.label, is_listed=not is_undone):
            if task is not form.task:
                self._change_task(task)
            if ROLES in changes:  # each of several fixes only has the roles known when it was offered
                changes[ROLES] = {**self._options.roles, **changes[ROLES]}
            form.set_values(changes)
        rows = [form.row(path) for path in (*changes, TRAIN) if path in form.paths]
        next((row for row in rows if row.isVisible()), rows[-1]).field.control.setFocus()

    def propose_task(self) -> None:
        """Offer the task that new data probably is for, by its name and beginning."""
        source = self._unread = str(self._options.fields.train.value() or "")
        is_readable = bool(source) and (scheme_of(source) is not None or is_there(Path(source)))
        self._offer(source, find_task(source) if is_readable else None)

    def on_report(self, report: DataReport) -> None:
        """Offer the task that the engine found new data to be for, and use validation data that comes with it."""
        if report.source != self._unread or self._offer(report.source, report.suits):
            return
        self._unread = ""
        found = [
            fix for finding in report.findings if finding.code.startswith(UNUSED) for fix in finding.fixes
        ]
        form = self._options.form
        if found and FRACTION not in form.changed_from() and not self._options.typed:
            name = Path(*found[0].changes.values()).name
            title = _("Validation data: “{name}”, found with the training data").format(name=isolated(name))
            with self._history.step(title, is_listed=self._adopted != report.source):
                form.set_values({FRACTION: options_by_path()[FRACTION].default, **found[0].changes})

    def on_failure(self, failure: UserError) -> None:
        """Offer the task that new data can be read for."""
        source, self._unread = self._unread, ""
        fix = next((fix for fix in failure.fixes if "task" in fix.changes), None)
        if fix is not None and source and self._offer(source, Task(fix.changes["task"])):
            self._unread = source

    def _adopts(self, source: str, fix: Fix) -> bool:
        """Apply a fix that changes the task for new data where there is nothing to lose; returns whether it did."""
        if source == self._adopted or not self._is_untouched():
            return False
        self._adopted = source
        task = Task(fix.changes["task"])
        title = _("Changed to “{task}”, for {name}").format(
            task=task.label, name=isolated(short_name(source))
        )
        self.apply(Fix(title, fix.changes))
        return True

    def _offer(self, source: str, task: Task | None) -> bool:
        """Offer a task if there is one, and the form is for another; returns whether it was adopted.

        The first data takes the place of the example that Hone opens with, and its task with it. Else the task is what
        the person came for: it stays unless they say so.
        """
        now = self._options.form.task
        is_chat_on_text = task is Task.CAUSAL_LM and now is Task.CHAT  # plain texts do for chat
        if task is None or task is now or is_chat_on_text or (source, task) == self._left:
            self._strip.hide()
            return False
        title = _("{name} looks like data for “{task}”")
        title = title.format(name=isolated(short_name(source)), task=task.label)
        change = _("Change to “{task}”").format(task=task.label)
        fix = Fix(change, {"task": task.value, TRAIN: source})
        if self._adopts(source, fix):
            return True
        keep = Fix(_("Keep “{task}”").format(task=now.label), {"task": now.value})
        self._offered = task
        self._strip.show_message(Level.INFO, title, "", (fix, keep))
        return False

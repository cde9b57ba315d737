"""Doing what a fix says, one that changes the task too, and offering to change it where the data is for another."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject

from core.choices import Task
from core.data_report import DataReport
from core.errors import Fix, UserError
from core.events import Level
from core.files import is_there
from core.options import Tree
from core.sources import Scheme, scheme_of
from core.task_guess import find_task
from gui.pages.new_run_options import OptionsColumn
from gui.pages.new_run_tasks import proposal
from gui.widgets.message_strip import MessageStrip

ROLES = "data.roles"


class Remedies(QObject):
    """What is pressed to mend something.

    Args:
        options: The form.
        strip: Where another task is offered.
        change_task: Shows the form of another task.
    """

    def __init__(
        self, options: OptionsColumn, strip: MessageStrip, change_task: Callable[[Task], None]
    ) -> None:
        super().__init__(options)
        self._options = options
        self._strip = strip
        self._change_task = change_task
        self._judged = ""
        self._has_offered = False

    def apply(self, fix: Fix) -> None:
        """Do what a fix says; one that changes the task does that first."""
        changes = dict(fix.changes)
        task = changes.pop("task", None)
        if task is not None:
            changes = {**self._carried_over(Task(task)), **changes}
            self._strip.hide()
            self._change_task(Task(task))
        if ROLES in changes:  # pressed one after the other, each says the roles known when it was offered
            changes[ROLES] = {**self._options.roles, **changes[ROLES]}
        self._options.form.set_values(changes)

    def propose_task(self) -> None:
        """Offer to change the task where the chosen data is likely for another, by its name and how it begins."""
        source = str(self._options.fields.train.value() or "")
        self._judged = source
        can_be_judged = bool(source) and (scheme_of(source) is not None or is_there(Path(source)))
        self._offer(source, find_task(source) if can_be_judged else None)

    def judge(self, report: DataReport) -> None:
        """Offer it again, or no longer, once the engine has looked into the data that was chosen last."""
        if report.source == self._judged:
            self._judged = ""
            self._offer(report.source, report.suits)

    def judge_failure(self, failure: UserError) -> None:
        """The same where the data can't be read for the task: what its error proposes is offered, or nothing."""
        if self._judged:
            source, self._judged = self._judged, ""
            proposed = [fix.changes["task"] for fix in failure.fixes if "task" in fix.changes]
            self._offer(source, Task(proposed[0]) if proposed else None)

    def _offer(self, source: str, likely: Task | None) -> None:
        found = proposal(source, self._options.form.task, likely)
        if found is not None:
            words, fix = found
            self._strip.show_message(Level.INFO, words, "", (fix,))
        elif self._has_offered:
            self._strip.hide()
        self._has_offered = found is not None

    def _carried_over(self, task: Task) -> Tree:
        """What another task begins with, too: the data, and a model for texts that was made before."""
        form = self._options.form
        kept = {path: form.field(path).value() for path in ("data.train", "model.source")}
        is_for_both = form.task.reads_text and task.reads_text
        if not is_for_both or scheme_of(str(kept["model.source"] or "")) is Scheme.SCRATCH:
            del kept["model.source"]
        return {path: value for path, value in kept.items() if value}

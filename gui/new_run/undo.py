"""Undo and redo of the form."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack
from PySide6.QtWidgets import QLineEdit

from core.base.language import _
from core.options import Tree, presets
from core.options.catalogue import options_by_path, value_at, value_text
from core.options.choices import Task
from core.options.importing import Imported
from core.options.presets import Preset
from core.options.sources import short_name
from core.runs.notes import source_title
from gui.new_run.column_guesses import TRAIN
from gui.new_run.options import OptionsColumn
from gui.widgets.cards import Change, ChangesStrip
from gui.widgets.form import Starts
from gui.widgets.inputs import PathLine

Values = dict[str, Any]
"""Values of options by their paths."""
UNCHANGED = _("The form already had these values.")


class FormChange(QUndoCommand):
    """Options that changed together. What is typed into one field is a single command.

    `starts` are what changes are counted from on the other side of this one.
    """

    def __init__(
        self,
        title: str,
        before: Values,
        after: Values,
        starts: Starts,
        put: Callable[[Values, Starts], Starts],
    ) -> None:
        super().__init__(title)
        self.before, self.after, self.starts = before, after, starts
        self.is_typed = False
        self.leaves_task = False  # for another one, and nothing else was wanted
        self._put = put
        self._is_done = True  # the form has changed already when the command is pushed

    def id(self) -> int:
        return 1 if self.is_typed else -1

    def mergeWith(self, other: QUndoCommand) -> bool:  # noqa: N802 - Qt's name
        if not isinstance(other, FormChange) or self.after.keys() != other.after.keys():
            return False
        self.after = other.after
        self.setObsolete(self.after == self.before)
        return True

    def undo(self) -> None:
        self._is_done = False
        self.starts = self._put(self.before, self.starts)

    def redo(self) -> None:
        if not self._is_done:
            self.starts = self._put(self.after, self.starts)


class FormHistory(QObject):
    """Undo and redo of every change of the form, by `stack`; `strip` lists what was changed at once, with Undo."""

    task_wanted = Signal(object)  # the `core.options.choices.Task` that has to be chosen first
    restored = Signal(object)  # the paths of options that an undo or redo has changed

    def __init__(self, options: OptionsColumn, strip: ChangesStrip) -> None:
        super().__init__(options)
        self.stack = QUndoStack(self)
        self._options = options
        self._strip = strip
        self._now = self.values()
        self._is_changing = False  # several options, which become one command
        self._leaves_task = False  # what is changed now
        self._listed: FormChange | None = None
        options.changed.connect(self._on_changed)
        strip.fix_chosen.connect(self._undo_listed)

    def clear(self) -> None:
        """Forget all changes: the form is at its beginning."""
        self.stack.clear()
        self.follow()

    def follow(self) -> None:
        """Take what was filled in automatically as part of the last change."""
        self._now = self.values()

    @contextmanager
    def step(self, title: str, text: str = "", *, is_listed: bool = True) -> Iterator[None]:
        """Make one change of all that happens to the form in the `with` block.

        Args:
            text: Why, for the strip.
            is_listed: Whether the strip lists it.
        """
        if self._is_changing:
            yield
            return
        self._options.finish_typing()
        self._is_changing, starts = True, self._options.form.starts
        try:
            yield
        finally:
            self._is_changing = False
            change = self._push(title, starts)
        if is_listed:
            self._listed = change
            self._strip.show_changes(
                title, text if change else UNCHANGED, self._lines(change) if change else ()
            )

    def apply(self, preset: Preset) -> None:
        self._lay_over(preset.tree, preset.title, preset.help)

    def import_options(self, imported: Imported) -> None:
        values = {key: value for key, value in imported.tree.items() if key != "schema"}
        self._lay_over(values, _("Import from a script"))

    def change(self, title: str, text: str, changes: Values) -> None:
        """Change options by their paths; `title` says what was done, `text` why."""
        with self.step(title, text):
            self._options.put(changes)

    def _lay_over(self, tree: Tree, title: str, text: str = "") -> None:
        """Change the task first: that fills the form again, and only then is it known what is left to change."""
        with self.step(title, text):
            task = Task(tree.get("task", self._options.form.task))
            if task is not self._options.form.task:
                self.task_wanted.emit(task)
            self._options.put(presets.changes(self._options.full_tree(), tree))

    def undo_task(self, task: Task) -> bool:
        """Undo the change that only left this task for another one, if it is the last or listed; else the next is one.

        Returns:
            Whether it was undone.
        """
        last = self.stack.command(self.stack.index() - 1) if self.stack.index() else None
        for change in () if self._is_changing else (last, None if self._strip.isHidden() else self._listed):
            if isinstance(change, FormChange) and change.leaves_task and change.before.get("task") == task:
                self._undo(change)
                return True
        self._leaves_task = True
        return False

    def _undo_listed(self) -> None:
        """Put back what the strip lists; later changes stay."""
        if self._listed is not None:
            self._undo(self._listed)

    def _undo(self, change: FormChange) -> None:
        self._strip.dismiss()  # hidden with the focus, it would scroll to the next control
        if self.stack.command(self.stack.index() - 1) is change:
            self.stack.undo()
            return
        with self.step(change.text(), is_listed=False):
            self._options.form.starts = change.starts
            self._options.put(change.before)

    def _on_changed(self) -> None:
        change = None if self._is_changing else self._push("", self._options.form.starts)
        listed = self._listed.after.keys() if self._listed else frozenset()
        is_of_other_data = change and TRAIN in change.after and listed & {TRAIN, "task"}
        if change and listed and (listed <= change.after.keys() or is_of_other_data):
            self._strip.hide()

    def _push(self, title: str, starts: Starts) -> FormChange | None:
        """Record how the form differs from before; without a title the command has that of its first option."""
        before, self._now = self._now, self.values()
        leaves_task, self._leaves_task = self._leaves_task, False
        paths = [path for path, value in self._now.items() if before.get(path) != value]
        if not paths:
            return None
        before, after = ({path: values.get(path) for path in paths} for values in (before, self._now))
        change = FormChange(title or options_by_path()[paths[0]].title, before, after, starts, self._put)
        control = self._options.form.field(paths[0]).control if paths[0] in self._options.form.paths else None
        change.is_typed = not title and len(paths) == 1
        change.leaves_task = leaves_task
        if isinstance(control, QLineEdit):  # paths are complete
            is_edited = control.isModified() or control.isRedoAvailable()
            change.is_typed &= is_edited and not isinstance(control, PathLine)
        self.stack.push(change)
        return change

    def _put(self, values: Values, starts: Starts) -> Starts:
        """Set values and what changes are counted from; returns what they were counted from before."""
        self._is_changing = True
        self._strip.hide()
        before, self._options.form.starts = self._options.form.starts, starts
        self._options.put(values)
        self._is_changing = False
        self.follow()
        self.restored.emit(tuple(values))
        return before

    def values(self) -> Values:
        """The values of all options by their paths; guessed columns count as not chosen."""
        tree = self._options.full_tree()
        values = {path: value_at(tree, path, option.default) for path, option in options_by_path().items()}
        return {path: list(value) if isinstance(value, tuple) else value for path, value in values.items()}

    def _lines(self, change: FormChange) -> list[Change]:
        options = options_by_path()

        def words(path: str, value: object) -> str:
            if value and path in ("model.source", "data.train", "data.eval"):
                return source_title(str(value)) if path == "model.source" else short_name(str(value))
            return value_text(options[path], value)

        return [
            Change(options[path].title, words(path, change.before[path]), words(path, after))
            for path, after in change.after.items()
            if path == "task" or self._options.form.applies(options[path])
        ]

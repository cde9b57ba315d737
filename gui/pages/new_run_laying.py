"""Laying some options over those in the form, as presets and imports do, and taking them away again."""

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QObject, Signal

from core.catalogue import options_by_path
from core.choices import Task
from core.importing import Imported
from core.options import Tree
from core.presets import Difference, Preset, differences
from gui.pages.new_run_options import OptionsColumn
from gui.values import value_words
from gui.widgets.changes_strip import Change, ChangesStrip


class Laying(QObject):
    """Changes several options at once, lists what that changed, and undoes it.

    Signals:
        task_wanted: The `core.choices.Task` that has to be chosen first.
        restored: The whole form as it was before, a tree.

    Args:
        options: The form.
        strip: Where the changes are listed.
        parent: Qt's parent.
    """

    task_wanted = Signal(object)
    restored = Signal(object)

    def __init__(self, options: OptionsColumn, strip: ChangesStrip, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._options = options
        self._strip = strip
        self._before: Tree = {}
        self._made: tuple[Difference, ...] = ()
        self._is_whole = False
        strip.undo_chosen.connect(self.undo)

    def apply(self, preset: Preset) -> None:
        """Change the options a preset is about."""
        self._lay(preset, self.tr("Applied: {preset}").format(preset=preset.title))

    def take_over(self, imported: Imported) -> None:
        """Change the options that a script has said."""
        values = {key: value for key, value in imported.tree.items() if key != "schema"}
        self._lay(Preset("", "", "", values), self.tr("Imported"))

    def change(self, title: str, words: str, changes: Mapping[str, Any]) -> None:
        """Change some options by their paths.

        Args:
            title: What was done, for the strip.
            words: Why.
            changes: Values by path.
        """
        tree: Tree = {}
        for path, value in changes.items():
            section, _, name = path.partition(".")
            tree.setdefault(section, {})[name] = value
        self._lay(Preset("", title, words, tree), self.tr("Applied: {preset}").format(preset=title))

    def replace(self, tree: Tree) -> None:
        """Fill the whole form anew."""
        before = self._options.full_tree()
        self.restored.emit(tree)
        self._before, self._is_whole = before, True
        self._made = differences(before, Preset("", "", "", self._options.full_tree()))
        self._tell(self.tr("Started afresh"), "")

    def undo(self) -> None:
        """Put back what was changed; what the person has changed since stays, unless all of the form is another."""
        self._strip.hide()
        if self._is_whole or self._before["task"] != self._options.form.task.value:
            self.restored.emit(self._before)
        else:
            self._options.put({made.path: made.before for made in self._made})

    def _lay(self, preset: Preset, done: str) -> None:
        """Change the task first: that fills the form anew, and only then is it known what is left to change."""
        self._before = self._options.full_tree()
        of_task = tuple(made for made in differences(self._before, preset) if made.path == "task")
        for made in of_task:
            self.task_wanted.emit(Task(made.after))
        filled = self._options.full_tree()
        self._options.put({made.path: made.after for made in differences(filled, preset)})
        self._made = (*of_task, *differences(filled, Preset("", "", "", self._options.full_tree())))
        self._is_whole = False
        self._tell(done, preset.help)

    def _tell(self, done: str, words: str) -> None:
        nothing = self.tr("The form stood like this already.")
        self._strip.show_changes(done, words if self._made else nothing, self._changes())

    def _changes(self) -> list[Change]:
        known = options_by_path()
        return [
            Change(
                known[made.path].title,
                value_words(known[made.path], made.before),
                value_words(known[made.path], made.after),
            )
            for made in self._made
            if made.path == "task" or self._options.form.applies(known[made.path])
        ]

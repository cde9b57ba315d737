"""Choosing what the model learns to do: a list in groups, and beside it what the chosen task means."""

from collections.abc import Iterable

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtGui import QFont, QStandardItem
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from core.catalogue import options_by_path
from core.choices import Task
from gui.theme import SPACING
from gui.widgets.choice_list import SECOND_LINE, ChoiceList
from gui.widgets.roles import Role, set_role
from gui.widgets.segmented import Segment

_translate = QCoreApplication.translate

LETTERS = 26


def groups() -> tuple[tuple[str, tuple[Task, ...]], ...]:
    """The tasks, what they have in common above them."""
    talks = tuple(task for task in Task if task.reads_conversations)
    images = tuple(task for task in Task if task.reads_images)
    texts = tuple(task for task in Task if task not in (*talks, *images))
    return (
        (_translate("NewRun", "Text"), texts),
        (_translate("NewRun", "Conversations"), talks),
        (_translate("NewRun", "Images"), images),
    )


class GroupedList(ChoiceList):
    """A list with headings that can't be chosen; keys step over them."""

    def set_groups(self, offered: Iterable[tuple[str, Iterable[Segment]]]) -> None:
        """Show these headings and what stands below each."""
        self.clear()
        for title, choices in offered:
            heading = QStandardItem(title)
            heading.setFlags(Qt.ItemFlag.NoItemFlags)
            font = QFont(self.font())
            font.setWeight(QFont.Weight.DemiBold)
            heading.setData(font, Qt.ItemDataRole.FontRole)
            self._items().appendRow(heading)
            for choice in choices:
                self._append(choice)


class TaskChooser(QWidget):
    """The list and the sentence.

    Signals:
        chosen: The `core.choices.Task` the person took.
    """

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        option = options_by_path()["task"]
        self.choices = GroupedList()
        self.choices.set_groups(
            (title, [Segment(task.value, task.label, task.help) for task in tasks])
            for title, tasks in groups()
        )
        self.choices.setMaxVisibleItems(len(Task) + len(groups()))
        self.choices.setAccessibleName(option.title)
        self.choices.setFixedWidth(LETTERS * self.choices.fontMetrics().averageCharWidth() + 5 * SPACING)
        self.choices.activated.connect(self._tell)
        label = QLabel(option.title)
        label.setBuddy(self.choices)
        set_role(label, Role.LABEL)
        self._sentence = QLabel()
        self._sentence.setWordWrap(True)
        set_role(self._sentence, Role.MUTED)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(SPACING + 4)
        line.addWidget(label)
        line.addWidget(self.choices)
        line.addWidget(self._sentence, 1)
        self.show_task(Task.IMAGE_CLASSIFICATION)

    def show_task(self, task: Task) -> None:
        """Show which task is chosen."""
        self.choices.choose(task.value)
        self._say()

    @property
    def sentence(self) -> str:
        """What the chosen task means."""
        return self._sentence.text()

    def _say(self) -> None:
        words = str(self.choices.currentData(SECOND_LINE) or "")
        self._sentence.setText(words)
        self.choices.setAccessibleDescription(words)

    def _tell(self) -> None:
        self._say()
        self.chosen.emit(Task(str(self.choices.currentData())))

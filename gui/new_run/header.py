"""Choosing what the model learns to do: a list in groups, and beside it what the chosen task means."""

from collections.abc import Iterable
from gettext import gettext as _
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QFont, QStandardItem
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.options.presets import find_preset as find
from core.options.presets import presets
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.inputs import SECOND_LINE, ChoiceList, Segment

LETTERS = 26


def groups() -> tuple[tuple[str, tuple[Task, ...]], ...]:
    talks = tuple(task for task in Task if task.reads_conversations)
    images = tuple(task for task in Task if task.reads_images)
    texts = tuple(task for task in Task if task not in (*talks, *images))
    return (
        (_("Text"), texts),
        (_("Conversations"), talks),
        (_("Images"), images),
    )


class GroupedList(ChoiceList):
    """A list with headings that can't be chosen; keys step over them."""

    def set_groups(self, offered: Iterable[tuple[str, Iterable[Segment]]]) -> None:
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
        chosen: The `core.options.choices.Task` the person took.
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
        self.choices.choose(task.value)
        self._say()

    @property
    def sentence(self) -> str:
        return self._sentence.text()

    def _say(self) -> None:
        words = str(self.choices.currentData(SECOND_LINE) or "")
        self._sentence.setText(words)
        self.choices.setAccessibleDescription(words)

    def _tell(self) -> None:
        self._say()
        self.chosen.emit(Task(str(self.choices.currentData())))


EXAMPLES = Path(__file__).resolve().parents[2] / "resources" / "examples"
DIGITS = EXAMPLES / "digits.hone"
MRPC = EXAMPLES / "mrpc.hone"
FILE_FILTER = "*.hone *.toml"


class NewRunHeader(QWidget):
    """Title, task and files.

    Signals:
        task_chosen: The `core.options.Task` the person took.
        file_chosen: The `Path` of a run file to open.
        example_chosen: The `Path` of an example to start from.
        preset_chosen: The `core.options.presets.Preset` to lay over the form.
        import_chosen: The person wants to bring options along from a script.
        afresh_chosen: The person wants what Hone starts with.
        save_chosen: The `Path` to save the form to.
    """

    task_chosen = Signal(object)
    file_chosen = Signal(object)
    example_chosen = Signal(object)
    preset_chosen = Signal(object)
    import_chosen = Signal()
    afresh_chosen = Signal()
    save_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING + 4)
        layout.addLayout(self._title_line())
        self._tasks = TaskChooser()
        self._tasks.chosen.connect(self.task_chosen)
        layout.addWidget(self._tasks)

    def show_task(self, task: Task) -> None:
        self._tasks.show_task(task)

    def show_restored(self, is_restored: bool) -> None:
        """Say that the form stands as it was left, or what to do with a new one."""
        self._afresh.setVisible(is_restored)
        self._words.setText(
            _("This is how you left the form.")
            if is_restored
            else _("Choose a model and your data; the rest is set for this computer.")
        )

    def open_file(self) -> None:
        names = _("Run files ({filter})").format(filter=FILE_FILTER)
        chosen, _kind = QFileDialog.getOpenFileName(self, _("Open a run file"), str(Path.home()), names)
        if chosen:
            self.file_chosen.emit(Path(chosen))

    def save_file(self) -> None:
        names = _("Run files ({filter})").format(filter="*.hone")
        start = str(Path.home() / "my.hone")
        chosen, _kind = QFileDialog.getSaveFileName(self, _("Save as a run file"), start, names)
        if chosen:
            path = Path(chosen)
            self.save_chosen.emit(path if path.suffix else path.with_suffix(".hone"))

    def _title_line(self) -> QHBoxLayout:
        title = QLabel(_("New run"))
        set_role(title, Role.PAGE_TITLE)
        self._words = QLabel()
        set_role(self._words, Role.MUTED)
        self._afresh = QPushButton(_("Start afresh"))
        self._afresh.setToolTip(_("Put every choice back to what Hone starts with; it can be undone"))
        set_role(self._afresh, Role.LINK)
        self._afresh.clicked.connect(self._ask_to_start_afresh)
        self.show_restored(False)
        words = QHBoxLayout()
        words.setSpacing(SPACING // 2)
        words.addWidget(self._words)
        words.addWidget(self._afresh)
        words.addStretch(1)
        titles = QVBoxLayout()
        titles.setSpacing(2)
        titles.addWidget(title)
        titles.addLayout(words)
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addLayout(titles)
        line.addStretch(1)
        for button in self._buttons():
            line.addWidget(button, alignment=Qt.AlignmentFlag.AlignTop)
        return line

    def _buttons(self) -> tuple[QPushButton, ...]:
        saving = QPushButton(_("Save as…"))
        saving.setToolTip(_("Save these choices as a run file"))
        saving.clicked.connect(self.save_file)
        return self._examples_button(), self._open_button(), saving

    def _examples_button(self) -> QPushButton:
        button = QPushButton(_("Examples"))
        menu = QMenu(button)
        menu.setToolTipsVisible(True)
        menu.addAction(_("Handwritten digits"), self._start_from_digits)
        menu.addAction(_("Sentence pairs (MRPC; asks for your copy of the files)"), self._start_from_mrpc)
        menu.addSection(_("Presets: change a few options, keep the rest"))
        for preset in presets():
            action = menu.addAction(preset.title, self._tell_preset)
            action.setData(preset.name)
            action.setToolTip(preset.help)
        button.setMenu(menu)
        button.setProperty("hasMenu", True)
        return button

    def _open_button(self) -> QPushButton:
        button = QPushButton(_("Open"))
        menu = QMenu(button)
        menu.addAction(_("Run file…"), self.open_file)
        menu.addAction(_("Import from a script…"), self._ask_to_import)
        menu.addSeparator()
        afresh = menu.addAction(_("Start afresh"), self._ask_to_start_afresh)
        afresh.setToolTip(self._afresh.toolTip())
        menu.setToolTipsVisible(True)
        button.setMenu(menu)
        button.setProperty("hasMenu", True)
        return button

    def _tell_preset(self) -> None:
        action = self.sender()
        preset = find(str(action.data())) if isinstance(action, QAction) else None
        if preset is not None:
            self.preset_chosen.emit(preset)

    def _ask_to_import(self) -> None:
        self.import_chosen.emit()

    def _ask_to_start_afresh(self) -> None:
        self.afresh_chosen.emit()

    def _start_from_digits(self) -> None:
        self.example_chosen.emit(DIGITS)

    def _start_from_mrpc(self) -> None:
        self.example_chosen.emit(MRPC)

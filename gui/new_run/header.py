"""The top of the New run page: the task and what it means, examples, opening and saving run files."""

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QStandardItem
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

from core.base.language import _
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.options.presets import presets
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.inputs import SECOND_LINE, ChoiceList, Segment
from gui.widgets.labels import link_button, text_label
from gui.widgets.layout import FLUSH, fill

LETTERS = 26

EXAMPLES = Path(__file__).resolve().parents[2] / "resources" / "examples"
DIGITS = EXAMPLES / "digits.hone"
MRPC = EXAMPLES / "mrpc.hone"
FILE_FILTER = "*.hone *.toml"


class TaskChooser(QWidget):
    """The tasks in a list with headings, and a sentence about the one that is chosen.

    Signals:
        chosen: The `core.options.choices.Task` the person took.
    """

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        option = options_by_path()["task"]
        talks = [task for task in Task if task.reads_conversations]
        images = [task for task in Task if task.reads_images]
        texts = [task for task in Task if task not in (*talks, *images)]
        self.choices = ChoiceList()
        groups = ((_("Text"), texts), (_("Conversations"), talks), (_("Images"), images))
        for title, tasks in groups:
            heading = QStandardItem(title)
            heading.setFlags(Qt.ItemFlag.NoItemFlags)
            font = QFont(self.font())
            font.setWeight(QFont.Weight.DemiBold)
            heading.setData(font, Qt.ItemDataRole.FontRole)
            self.choices.append_item(heading)
            for task in tasks:
                self.choices.append(Segment(task.value, task.label, task.help))
        self.choices.setMaxVisibleItems(len(Task) + len(groups))
        self.choices.setAccessibleName(option.title)
        self.choices.setFixedWidth(LETTERS * self.choices.fontMetrics().averageCharWidth() + 5 * SPACING)
        self.choices.activated.connect(self._tell)
        label = QLabel(option.title)
        label.setBuddy(self.choices)
        set_role(label, Role.LABEL)
        self._sentence = text_label(role=Role.MUTED)
        fill(QHBoxLayout(self), label, self.choices, (self._sentence, 1), margins=FLUSH, spacing=SPACING + 4)
        self.show_task(Task.IMAGE_CLASSIFICATION)

    def show_task(self, task: Task) -> None:
        self.choices.choose(task.value)
        words = str(self.choices.currentData(SECOND_LINE) or "")
        self._sentence.setText(words)
        self.choices.setAccessibleDescription(words)

    @property
    def sentence(self) -> str:
        return self._sentence.text()

    def _tell(self) -> None:
        task = Task(str(self.choices.currentData()))
        self.show_task(task)
        self.chosen.emit(task)


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
        title = QLabel(_("New run"))
        set_role(title, Role.PAGE_TITLE)
        self._words = QLabel()
        set_role(self._words, Role.MUTED)
        self._afresh = link_button(
            _("Start afresh"),
            self.afresh_chosen.emit,
            _("Put every choice back to what Hone starts with; it can be undone"),
        )
        self.show_restored(False)
        words = fill(QHBoxLayout(), self._words, self._afresh, None, spacing=SPACING // 2)
        titles = fill(QVBoxLayout(), title, words, spacing=2)
        saving = QPushButton(_("Save as…"))
        saving.setToolTip(_("Save these choices as a run file"))
        saving.clicked.connect(self.save_file)
        line = fill(QHBoxLayout(), titles, None, spacing=SPACING)
        for button in (self._examples_button(), self._open_button(), saving):
            line.addWidget(button, alignment=Qt.AlignmentFlag.AlignTop)
        self._tasks = TaskChooser()
        self._tasks.chosen.connect(self.task_chosen)
        fill(QVBoxLayout(self), line, self._tasks, margins=FLUSH, spacing=SPACING + 4)

    def show_task(self, task: Task) -> None:
        self._tasks.show_task(task)

    def show_restored(self, is_restored: bool) -> None:
        """Say that the form is as it was left, or what to do with a new one."""
        self._afresh.setVisible(is_restored)
        self._words.setText(
            _("This is how you left the form.")
            if is_restored
            else _("Choose a model and your data; the rest is set for this computer.")
        )

    def open_file(self) -> None:
        """Ask for a run file to open."""
        names = _("Run files ({filter})").format(filter=FILE_FILTER)
        chosen, _kind = QFileDialog.getOpenFileName(self, _("Open a run file"), str(Path.home()), names)
        if chosen:
            self.file_chosen.emit(Path(chosen))

    def save_file(self) -> None:
        """Ask where to save the form."""
        names = _("Run files ({filter})").format(filter="*.hone")
        start = str(Path.home() / "my.hone")
        chosen, _kind = QFileDialog.getSaveFileName(self, _("Save as a run file"), start, names)
        if chosen:
            path = Path(chosen)
            self.save_chosen.emit(path if path.suffix else path.with_suffix(".hone"))

    def _examples_button(self) -> QPushButton:
        button, menu = self._menu_button(_("Examples"))
        menu.addAction(_("Handwritten digits"), lambda: self.example_chosen.emit(DIGITS))
        pairs = _("Sentence pairs (MRPC; asks for your copy of the files)")
        menu.addAction(pairs, lambda: self.example_chosen.emit(MRPC))
        menu.addSection(_("Presets: change a few options, keep the rest"))
        for preset in presets():
            action = menu.addAction(preset.title)
            action.setToolTip(preset.help)
            action.triggered.connect(lambda _checked, preset=preset: self.preset_chosen.emit(preset))
        return button

    def _open_button(self) -> QPushButton:
        button, menu = self._menu_button(_("Open"))
        menu.addAction(_("Run file…"), self.open_file)
        menu.addAction(_("Import from a script…")).triggered.connect(self.import_chosen)
        menu.addSeparator()
        afresh = menu.addAction(_("Start afresh"))
        afresh.triggered.connect(self.afresh_chosen)
        afresh.setToolTip(self._afresh.toolTip())
        return button

    def _menu_button(self, text: str) -> tuple[QPushButton, QMenu]:
        button = QPushButton(text)
        menu = QMenu(button)
        menu.setToolTipsVisible(True)
        button.setMenu(menu)
        button.setProperty("hasMenu", True)
        return button, menu

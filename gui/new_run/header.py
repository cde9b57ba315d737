"""The top of the New run page: the task and examples. And the dialog that imports options."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QDialogButtonBox,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import OptionsError
from core.base.formats import titled
from core.base.language import _, pgettext
from core.options.catalogue import options_by_path, value_text
from core.options.choices import Task
from core.options.importing import Imported, import_file, import_text
from core.options.presets import comes_complete, examples, presets
from gui.base.theme import Role
from gui.base.tokens import SPACING
from gui.widgets.form import sentence
from gui.widgets.inputs import SECOND_LINE, ChoiceList, Chooser, Segment
from gui.widgets.labels import ButtonMenu, link_button, push_button, role_label, text_label
from gui.widgets.layout import FLUSH, PageScroll, Sheet, fill, fill_dialog, hbox, keep_place
from gui.widgets.tables import Group, KeyValue, TableRow

FILE_FILTER = "*.hone *.toml"


class TaskChooser(QWidget):
    """The tasks in a list with headings, and a sentence about the chosen one."""

    chosen = Signal(object)  # the `core.options.choices.Task`

    def __init__(self) -> None:
        super().__init__()
        option = options_by_path()["task"]
        chats = [task for task in Task if task.reads_conversations]
        images = [task for task in Task if task.reads_images]
        texts = [task for task in Task if task not in (*chats, *images)]
        self.choices = ChoiceList()
        groups = ((_("Text"), texts), (_("Conversations"), chats), (_("Images"), images))
        for title, tasks in groups:
            self.choices.append_heading(title)
            for task in tasks:
                self.choices.append(Segment(task.value, task.label, task.help))
        self.choices.setMaxVisibleItems(len(Task) + len(groups))
        self.choices.setAccessibleName(option.title)
        self.choices.setFixedWidth(26 * self.choices.fontMetrics().averageCharWidth() + 5 * SPACING)
        self.choices.activated.connect(self._on_activated)
        label = role_label(Role.LABEL, option.title)
        label.setBuddy(self.choices)
        self.help = text_label(role=Role.MUTED)
        fill(QHBoxLayout(self), label, self.choices, (self.help, 1), margins=FLUSH, spacing=SPACING + 4)
        self.show_task(Task.IMAGE_CLASSIFICATION)

    def show_task(self, task: Task) -> None:
        self.choices.choose(task.value)
        text = str(self.choices.currentData(SECOND_LINE) or "")
        self.help.setText(text)
        self.choices.setAccessibleDescription(text)

    def _on_activated(self) -> None:
        task = Task(str(self.choices.currentData()))
        self.show_task(task)
        self.chosen.emit(task)


class NewRunHeader(QWidget):
    """Title, task and files."""

    task_chosen = Signal(object)  # a `core.options.choices.Task`
    example_chosen = Signal(object)  # the `core.options.presets.Preset` of an example
    welcome_chosen = Signal()
    preset_chosen = Signal(object)  # a `core.options.presets.Preset`
    reset_chosen = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._sources: Sequence[object] = ()
        self._is_of_sources = False
        self.subtitle = role_label(Role.MUTED)
        self.subtitle.setTextFormat(Qt.TextFormat.PlainText)  # a run may have any name
        self.reset = link_button(
            _("Reset form"),
            self.reset_chosen.emit,
            _("Start this task again, without data. You can undo this."),
        )
        self.show_restored(False)
        keep_place(self.reset)
        subtitle = fill(QHBoxLayout(), self.subtitle, self.reset, None, spacing=SPACING // 2)
        titles = fill(QVBoxLayout(), role_label(Role.PAGE_TITLE, _("New run")), subtitle, spacing=2)
        line = fill(QHBoxLayout(), titles, None, spacing=SPACING)
        line.addWidget(self._examples_button(), alignment=Qt.AlignmentFlag.AlignTop)
        self.tasks = TaskChooser()
        self.tasks.chosen.connect(self.task_chosen)
        fill(QVBoxLayout(self), line, self.tasks, margins=FLUSH, spacing=SPACING + 4)

    def show_task(self, task: Task, sources: Sequence[object]) -> None:
        """Show the task; the line below the title goes once it is of other data or another model."""
        self.tasks.show_task(task)
        if self._is_of_sources and self._sources != sources:
            self.show_restored(False)
        self._sources = sources

    def show_restored(self, is_restored: bool) -> None:
        """Say that the form is as it was left, or what to do with a new one."""
        self.show_line(
            _("The form is as you left it.")
            if is_restored
            else _("Choose a model and your data; the rest is set for this computer.")
        )
        self.reset.setVisible(is_restored)

    def show_line(self, text: str, *, is_of_sources: bool = False) -> None:
        """Say what the form holds, with `is_of_sources` until its data or model is another."""
        self._is_of_sources = is_of_sources
        self.reset.hide()
        self.subtitle.setText(text)

    def _examples_button(self) -> QPushButton:
        button = QPushButton(pgettext("runs to begin with", "Examples"))
        menu = ButtonMenu(button)
        ours = [example for example in examples() if comes_complete(example)]
        recipes = [example for example in examples() if example not in ours]
        for heading, choices, signal in (
            (_("Ready to run, offline"), ours, self.example_chosen),
            (_("Recipes for your own data"), recipes, self.example_chosen),
            (_("Presets: change some options, keep the rest"), presets(), self.preset_chosen),
        ):
            menu.addAction(heading).setEnabled(False)  # style sheets show no sections
            for choice in choices:
                action = menu.addAction(choice.title)
                action.setToolTip(choice.help)
                action.triggered.connect(lambda _checked, send=signal, choice=choice: send.emit(choice))
            menu.addSeparator()
        menu.addAction(_("Welcome page"), self.welcome_chosen.emit)
        return button


IMPORT_DELAY_MS = 150
IMPORT_EXAMPLE = "python run_glue.py --task_name mrpc --learning_rate 2e-5 --fp16"
LINES_OF_TEXT = 7


class ImportSheet(Sheet):
    """Reads what is pasted as it is typed, and lists what becomes of every name."""

    imported = Signal(object)  # the `core.options.importing.Imported` for the form

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(_("Import from a script"), parent)
        self.resize(680, 600)
        self.options: Imported | None = None
        self.text = QPlainTextEdit(placeholderText=IMPORT_EXAMPLE, tabChangesFocus=True)
        self.text.setAccessibleName(_("Script or command line"))
        self.text.setFixedHeight(LINES_OF_TEXT * self.text.fontMetrics().lineSpacing() + 2 * SPACING)
        self.status = text_label(role=Role.HINT)
        self.rows = KeyValue()
        self.fill = push_button(_("Fill the form"), self.accept)
        choose = push_button(_("Choose a file…"), self._choose)
        content = QWidget()
        fill(QVBoxLayout(content), self.rows, None, margins=(0, 0, SPACING, 0))
        buttons = self.button_box(QDialogButtonBox.StandardButton.Cancel, self.fill)
        help_text = _(
            "Paste the arguments of a Trainer script. Names that no longer exist are listed with their replacement; "
            "nothing is run."
        )
        status = hbox((self.status, 1), choose)
        fill_dialog(self, text_label(help_text), self.text, status, (PageScroll(content), 1), buttons)
        self._timer = QTimer(self, singleShot=True, interval=IMPORT_DELAY_MS)
        self._timer.timeout.connect(self.read_text)
        self.text.textChanged.connect(self._timer.start)
        self.read_text()

    def read_text(self) -> None:
        self._timer.stop()
        text, self.options = self.text.toPlainText(), None
        status = _("Nothing yet: paste TrainingArguments as JSON or Python, or a command line.")
        if text.strip():
            try:
                result = self.options = import_text(text)
                known, unknown = len(result.taken), len(result.left)
                status = _("{known} of {all} names are known.").format(known=known, all=known + unknown)
            except OptionsError as error:
                status = _("This {problem}.").format(problem=error.problems[0].message)
        self._show(status)

    def open_file(self, path: Path) -> None:
        try:
            import_file(path)
        except OptionsError as error:
            self.options = None
            self._show(f"{path.name}: {error.problems[0].message}")
            return
        self.text.setPlainText(path.read_text(encoding="utf-8"))
        self.read_text()

    def accept(self) -> None:
        self.read_text()
        if self.options is not None:
            self.imported.emit(self.options)
            super().accept()

    def _show(self, status: str) -> None:
        self.status.setText(status)
        self.rows.set_groups(_groups(self.options) if self.options else [])
        self.fill.setEnabled(self.options is not None and bool(self.options.taken))

    def _choose(self) -> None:
        kinds = _("Scripts and arguments ({filter})").format(filter="*.py *.json *.sh *.txt")
        chosen = Chooser.file(self, _("Import from a script"), kinds)
        if chosen:
            self.open_file(Path(chosen))


def _groups(imported: Imported) -> list[Group]:
    options = options_by_path()
    taken = []
    for item in imported.taken:
        name = item.name if item.value is True else f"{item.name} {item.value}"
        values = (
            titled(options[path].title, value_text(options[path], value))
            for path, value in item.options.items()
        )
        taken.append(TableRow(name, ", ".join(values), sentence(item.note)))
    groups = (
        Group(_("To fix"), tuple(TableRow(item.path, sentence(item.message)) for item in imported.problems)),
        Group(_("Imported"), tuple(taken)),
        Group(_("Left out"), tuple(TableRow(item.name, sentence(item.reason)) for item in imported.left)),
    )
    return [group for group in groups if group.rows]

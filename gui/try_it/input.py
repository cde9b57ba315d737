"""The input of the page Try it: questions, examples and sampling settings."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QGuiApplication,
    QIcon,
    QImage,
    QKeyEvent,
    QShortcut,
)
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.base.files import file_inside
from core.base.language import _, ngettext, pgettext
from core.jobs.chat import Chat, ChatTurn, EndedBy, Files, Given, Image, Texts, Which, Writing
from core.options.choices import Speaker, Task
from core.runs.events import Example
from core.services.chat import TryChoice
from gui.base.theme import Role, set_flag
from gui.base.tokens import SPACING
from gui.try_it.image import ImageBox
from gui.widgets.cards import Card
from gui.widgets.inputs import CalmDoubleSpinBox, CalmSpinBox, Chooser, dropped_paths
from gui.widgets.labels import isolated, link_button, push_button, role_label, tip_of
from gui.widgets.layout import FLUSH, FlowLayout, fill, keep_place, vbox
from gui.widgets.pictures import picture


@dataclass(frozen=True)
class TryQuestion:
    """A text, a pair of texts, an image file, or `files`: many images, or a file with a text (or with `in_pairs` two)
    in each row.

    `expected` is the answer of a validation example, and `where` its row; with `as_read`, the text has the special
    tokens the model reads, and `asked` is what the user asks in it, or the name of an image or of files.
    """

    texts: tuple[str, ...] = ()
    image: str = ""
    files: tuple[str, ...] = ()
    has_images: bool = False
    in_pairs: bool = False
    system: str = ""
    expected: str = ""
    as_read: bool = False
    asked: str = ""
    where: str = ""

    @property
    def shown(self) -> str:
        """The texts, one per line, without special tokens if possible."""
        return self.asked or "\n".join(self.texts)

    @property
    def is_empty(self) -> bool:
        return not (self.image or self.files or self.shown.strip())

    def given_to(self, task: Task, turns: Sequence[ChatTurn], output: str) -> Given:
        """Return the request to a model of `task`, after the `turns` of its conversation.

        Args:
            output: The CSV file that answers to files are written to.
        """
        if self.files:
            return Files(paths=self.files, output=output, in_pairs=self.in_pairs)
        if self.image:
            return Image(path=self.image)
        if task.reads_conversations and not self.as_read:
            return Chat(turns=(*turns, ChatTurn(Speaker.USER, self.shown)), system=self.system)
        return Texts(texts=self.texts, as_read=self.as_read)


def which_text(which: Which) -> str:
    return pgettext("answers", "Trained") if which is Which.TRAINED else _("Before training")


BUTTONS = {
    Task.CHAT: _("Ask"),
    Task.PREFERENCE: _("Ask"),
    Task.CAUSAL_LM: _("Continue"),
    Task.TEXT_REGRESSION: _("Score"),
    Task.TOKEN_CLASSIFICATION: _("Label the words"),
}
CHAT_HINT = _("Write a message. Return sends it, Shift+Return starts a new line.")
HINTS = {
    Task.CHAT: CHAT_HINT,
    Task.PREFERENCE: CHAT_HINT,
    Task.CAUSAL_LM: _("Write the beginning of a text. Return sends it, Shift+Return starts a new line."),
}


def expected_text(expected: str, *, is_label: bool = False) -> str:
    """Return the line with the answer of a validation example, if there is one."""
    text = _("True label: {label}") if is_label else _("Expected: {label}")
    return text.format(label=isolated(expected)) if expected else ""


ENDINGS: dict[EndedBy | None, str] = {
    EndedBy.LENGTH: _("Stopped at max new tokens."),
    EndedBy.STOP_TEXT: _("Stopped at the stop sequence."),
    EndedBy.PERSON: _("Stopped."),
}
"""Why a generated answer ended, unless the model ended it."""


MOST_TOKENS = 32_768
LARGEST_SEED = 2**31 - 1


class WritingSettings(QWidget):
    """The sampling settings and the system prompt."""

    def __init__(self) -> None:
        super().__init__()
        plain = Writing()
        self.temperature, self.top_p = CalmDoubleSpinBox(), CalmDoubleSpinBox()
        self.max_tokens, self.seed = CalmSpinBox(), CalmSpinBox()
        self.temperature.setRange(0.0, 2.0)
        self.temperature.setSingleStep(0.1)
        self.temperature.setValue(plain.temperature)
        self.top_p.setRange(0.01, 1.0)
        self.top_p.setSingleStep(0.05)
        self.top_p.setValue(plain.top_p)
        self.max_tokens.setRange(1, MOST_TOKENS)
        self.max_tokens.setValue(plain.max_tokens)
        self.seed.setRange(0, LARGEST_SEED)
        self.seed.setValue(plain.seed)
        self.stop_at = QLineEdit(placeholderText=_("none"))
        self.system = QLineEdit(placeholderText=_("Instructions before the conversation"))
        self.system_row = _field(_("System prompt"), self.system, "")
        greedy = _(
            "0: always the most likely token, so the same question gets the same answer. Higher: more random."
        )
        nucleus = _("Sample only from the most likely tokens whose probabilities add up to this value.")
        line = QWidget()
        flow = FlowLayout(2 * SPACING, SPACING, line)
        flow.addWidget(_field(_("Temperature"), self.temperature, greedy))
        flow.addWidget(
            _field(
                _("Max new tokens"),
                self.max_tokens,
                _("The answer ends after this many tokens, at most half of the model's context."),
            )
        )
        flow.addWidget(_field(_("Top-p"), self.top_p, nucleus))
        flow.addWidget(_field(_("Seed"), self.seed, _("The same seed gives the same answer.")))
        flow.addWidget(
            _field(_("Stop sequence"), self.stop_at, _("The answer ends where this text would appear."))
        )
        fill(QVBoxLayout(self), self.system_row, line, margins=FLUSH, spacing=SPACING)

    def show_context(self, tokens: int) -> None:
        """Allow answers of half of a model's context, in tokens; 0: unknown."""
        was_limited = self.max_tokens.value() == self.max_tokens.maximum()
        self.max_tokens.setRange(1, max(1, tokens // 2) if tokens else MOST_TOKENS)
        if was_limited and not tokens:
            self.max_tokens.setValue(Writing().max_tokens)

    def writing(self) -> Writing:
        return Writing(
            max_tokens=self.max_tokens.value(),
            temperature=self.temperature.value(),
            top_p=self.top_p.value(),
            seed=self.seed.value(),
            stop_at=(self.stop_at.text(),) if self.stop_at.text() else (),
        )


def _field(title: str, widget: QWidget, tip: str) -> QWidget:
    label = role_label(Role.LABEL, title)
    label.setBuddy(widget)
    widget.setAccessibleName(title)
    for part in (label, widget):
        part.setToolTip(tip)
    made = QWidget()
    fill(QHBoxLayout(made), label, (widget, 1), margins=FLUSH, spacing=SPACING)
    return made


MOST_TEXTS, MOST_IMAGES = 4, 10
EXAMPLE_LETTERS = 26
"""Letters of a text on its button."""
PICTURE = 28
SPECIAL = re.compile(r"<\|?[\w /-]{1,30}\|?>|\[(?:INST|/INST)\]")
"""Marks of chat templates, which are left out on buttons."""


class ExampleRow(QWidget):
    """Buttons with some examples of the run; hidden if there are none."""

    chosen = Signal(object)  # the `Question` of the clicked one

    def __init__(self) -> None:
        super().__init__()
        self._flow = FlowLayout(SPACING, SPACING // 2, self)
        self.buttons: list[QPushButton] = []
        self._title = role_label(Role.HINT, pgettext("inputs to try", "Examples"))
        self._title.setFixedHeight(self._title.fontMetrics().height() + SPACING // 2)
        self._flow.addWidget(self._title)
        self.hide()

    def show_examples(
        self, examples: tuple[Example, ...], folder: Path, task: Task, *, in_pairs: bool
    ) -> None:
        """Show a run's examples; with `in_pairs`, the texts are pairs with a line each."""
        for button in self.buttons:
            self._flow.removeWidget(button)
            button.deleteLater()
        most = MOST_IMAGES if task.reads_images else MOST_TEXTS
        self.buttons = [
            self._button(question_of(example, folder, task, number, in_pairs=in_pairs), example)
            for number, example in enumerate(examples[:most], start=1)
        ]
        self.setVisible(bool(self.buttons))

    def _button(self, question: TryQuestion, example: Example) -> QPushButton:
        tip = tip_of("\n".join(filter(None, (example.shown[:1000] or example.expected, example.where))))
        button = link_button("", lambda: self.chosen.emit(question), tip)
        button.setAutoDefault(False)
        if question.image:
            button.setIcon(QIcon(picture(Path(question.image), 2 * PICTURE)))
            button.setIconSize(QSize(PICTURE, PICTURE))
            button.setAccessibleName(_("Image that is: {label}").format(label=example.expected))
        else:
            button.setText(isolated(short(question.shown, from_end=question.as_read and not question.asked)))
        self._flow.addWidget(button)
        return button


def question_of(
    example: Example, folder: Path, task: Task, number: int = 1, *, in_pairs: bool
) -> TryQuestion:
    """Return an example as a question: an image, a text, a pair, or exactly the tokens a causal model read.

    An image is named by its `number`: its file's name may look like a label.
    """
    if example.image:
        path = file_inside(folder, example.image)
        name = _("Example {number}").format(number=number)
        return TryQuestion(image=str(path or folder / "none"), expected=example.expected, asked=name)
    given = tuple(example.given.split("\n", 1)) if in_pairs and not task.writes_text else (example.given,)
    is_read = task.writes_text and not example.is_own
    texts, expected = example.texts or given, example.expected
    return TryQuestion(
        texts=texts, expected=expected, as_read=is_read, asked=example.asked, where=example.where
    )


def short(text: str, *, from_end: bool = False) -> str:
    """Shorten a text for a button, from its beginning or its end."""
    plain = " ".join(SPECIAL.sub(" ", text).split())
    if len(plain) <= EXAMPLE_LETTERS:
        return plain
    return (
        f"… {plain[-EXAMPLE_LETTERS:].partition(' ')[2]}"
        if from_end
        else f"{plain[:EXAMPLE_LETTERS].rstrip()} …"
    )


LINES = 3
"""Visible lines of a text."""


class TextBox(QPlainTextEdit):
    """A text field in which Shift+Return starts a new line; with `takes_files`, files are taken, too."""

    return_pressed = Signal()  # without Shift
    files_given = Signal(object)  # a list of their paths, `Path`
    takes_files = False

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setTabChangesFocus(True)
        frame = 2 * (self.frameWidth() + SPACING)
        self.setFixedHeight(LINES * self.fontMetrics().lineSpacing() + frame)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_return and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.return_pressed.emit()
        else:
            super().keyPressEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return super().canInsertFromMimeData(source) or (self.takes_files and bool(dropped_paths(source)))

    def insertFromMimeData(self, source: QMimeData) -> None:
        paths = dropped_paths(source) if self.takes_files else []
        if paths:
            self.files_given.emit(paths)
        else:
            super().insertFromMimeData(source)


FILE_LINKS = {
    Task.TEXT_CLASSIFICATION: _("Classify a file…"),
    Task.TEXT_REGRESSION: _("Score a file…"),
    Task.TOKEN_CLASSIFICATION: _("Label the words of a file…"),
}


class TryInput(Card):
    """Texts or an image, examples, sampling settings and the button."""

    asked = Signal(object)  # the `Question` to ask
    stop_pressed = Signal()  # end the answers early
    clear_pressed = Signal()  # begin a new conversation

    def __init__(self) -> None:
        super().__init__("")
        self._task = Task.CHAT
        self._is_busy = False
        self.text = TextBox(_("Text"))
        self.second = TextBox(_("Second text"))
        self.image = ImageBox()
        self.examples = ExampleRow()
        self.settings = WritingSettings()
        self.button = push_button(pressed=self._press, role=Role.PRIMARY)
        keep_place(self.button)
        self.more = link_button(_("Settings"))
        self.more.setCheckable(True)
        set_flag(self.more, "stays", True)
        self.clear_link = link_button(_("New conversation"), self.clear_pressed.emit)
        tip = _(
            "Answers each row of a table or text file, in a new CSV file. Files can be dropped here, too."
        )
        self.file_link = link_button("", self._choose_file, tip)
        self._lay_out()
        self.settings.hide()
        self.more.toggled.connect(self.settings.setVisible)
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            pressed = QShortcut(key, self, context=Qt.ShortcutContext.WidgetWithChildrenShortcut)
            pressed.activated.connect(self._on_return)
        self.image.chosen.connect(
            lambda path: self.asked.emit(TryQuestion(image=path, asked=Path(path).stem))
        )
        self.image.several.connect(self._ask_files)
        self.image.cleared.connect(self.clear_pressed)
        self.examples.chosen.connect(self._on_example)
        for field in (self.text, self.second):
            field.return_pressed.connect(self._ask_texts)
            field.textChanged.connect(self._show_button)
            field.files_given.connect(self._ask_files)

    def show_choice(self, choice: TryChoice) -> None:
        chosen = choice.chosen
        if chosen is None:
            return
        for field in (self.text, self.second) if chosen.task is not self._task else ():
            field.clear()
        task = self._task = chosen.task
        self.settings.show_context(0)
        self.text.setVisible(not task.reads_images)
        self.text.setPlaceholderText(HINTS.get(task, _("Write or paste a text. Return sends it.")))
        self.second.setVisible(choice.reads_pairs)
        self.second.setPlaceholderText(_("The second text of the pair."))
        self.image.setVisible(task.reads_images)
        (self._below if task.reads_images else self._beside).addWidget(self.button)
        paths = (file_inside(chosen.run.path, one.image) for one in choice.examples if one.image)
        path = next(paths, None)
        self.image.show_for(QImage() if path is None else QImage(str(path)))
        self.file_link.setText(FILE_LINKS.get(task, ""))
        self.file_link.setVisible(task in FILE_LINKS)
        for field in (self.text, self.second):
            field.takes_files = task in FILE_LINKS
        self.more.setVisible(task.writes_text)
        self.settings.setVisible(task.writes_text and self.more.isChecked())
        self.settings.system_row.setVisible(task.reads_conversations)
        self.clear_link.setVisible(task.writes_text)
        self.clear_link.setText(_("New conversation") if task.reads_conversations else _("Clear"))
        self.examples.show_examples(choice.examples, chosen.run.path, task, in_pairs=choice.reads_pairs)
        self._show_button()

    def clear_sent(self, question: TryQuestion) -> None:
        """Clear a text that was sent to be answered or continued; select others, to be replaced or edited."""
        if self.text.toPlainText().strip() == "".join(question.texts[:1]):
            act = self.text.clear if self._task.writes_text else self.text.selectAll
            act()

    def show_busy(self, busy: bool) -> None:
        self._is_busy = busy
        self._show_button()

    def _lay_out(self) -> None:
        texts = fill(QHBoxLayout(), (self.text, 1), (self.second, 1), (self.image, 1), spacing=SPACING)
        self._beside = vbox(None, self.button)
        texts.addLayout(self._beside)
        below = self._below = fill(QHBoxLayout(), (self.examples, 1), spacing=SPACING)
        for link in (self.clear_link, self.file_link, self.more):
            below.addWidget(link, alignment=Qt.AlignmentFlag.AlignTop)
        for row in (texts, below):
            self.body.addLayout(row)
        self.body.addWidget(self.settings)

    def _press(self) -> None:
        if self._is_busy:
            self.stop_pressed.emit()
        else:
            self._ask_texts()
        self.text.setFocus()

    def _on_return(self) -> None:
        """Press the button with the focus, as Space does, or ask."""
        focused = self.focusWidget()
        focused.click() if isinstance(focused, QPushButton) else self._ask_texts()

    def _ask_texts(self) -> None:
        texts: tuple[str, ...] = (self.text.toPlainText().strip(),)
        if self.second.isVisibleTo(self):
            texts = (*texts, self.second.toPlainText().strip())
        question = TryQuestion(texts=texts, system=self.settings.system.text())
        is_writing = self._is_busy and self._task.writes_text
        if is_writing or question.is_empty or self._task.reads_images:
            return
        self.asked.emit(question)

    def pastes(self) -> Callable[[], None] | None:
        """Return what pasting does here besides text into a field; None if it does nothing."""
        content = QGuiApplication.clipboard().mimeData() or QMimeData()  # there is none if nothing was copied
        paths = dropped_paths(content)
        if self._task.reads_images and paths:
            return lambda: self.image.take(paths)
        if self._task.reads_images and content.hasImage():
            return lambda: self.image.paste(QGuiApplication.clipboard().image())
        return (lambda: self._ask_files(paths)) if self._task in FILE_LINKS and paths else None

    def _choose_file(self) -> None:
        path = Chooser.file(self, self.file_link.text().rstrip("…"))
        if path:
            self._ask_files([Path(path)])

    def _ask_files(self, paths: list[Path]) -> None:
        count = ngettext("{count:,} image", "{count:,} images", len(paths)).format(count=len(paths))
        name = count if len(paths) > 1 else paths[0].name
        is_pair = self.second.isVisibleTo(self)
        self.asked.emit(
            TryQuestion(
                files=tuple(map(str, paths)), asked=name, in_pairs=is_pair, has_images=self._task.reads_images
            )
        )

    def _on_example(self, question: TryQuestion) -> None:
        if question.image:
            self.image.show_image(question.image, question.shown)
        elif not self._task.writes_text:
            for field, text in zip((self.text, self.second), question.texts, strict=False):
                field.setPlainText(text)
        if self._task.writes_text:
            self.clear_pressed.emit()
        self.asked.emit(question)

    def _show_button(self) -> None:
        stops = self._is_busy or self._task.reads_images
        self.button.setText(_("Stop") if stops else BUTTONS.get(self._task, _("Classify")))
        has_text = bool(self.text.toPlainText().strip())
        self.button.setEnabled(self._is_busy or has_text)
        self.button.setVisible(self._is_busy or not self._task.reads_images)

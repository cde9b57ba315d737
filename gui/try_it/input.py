"""The input of the page Try it: questions, examples and sampling settings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QPointF, QSize, Qt, QTemporaryDir, QTimer, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QIcon,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPaintDevice,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPixmap,
    QShortcut,
    QTransform,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.base.files import file_inside
from core.base.language import _
from core.options.choices import Speaker, Task
from core.runs.events import Example
from core.services.chat import Chat, Choice, EndedBy, Given, Image, Texts, Turn, Which, Writing
from gui.base.theme import Role, set_flag, set_role
from gui.base.tokens import SPACING
from gui.run.predictions import picture
from gui.widgets.cards import Card
from gui.widgets.inputs import CalmDoubleSpinBox, CalmSpinBox, Chooser, dropped_paths
from gui.widgets.labels import link_button, push_button, role_label, tip_of
from gui.widgets.layout import FLUSH, FlowLayout, fill, hbox, keep_place, vbox

SIDE = 96
"""Pixels of the thumbnail."""
KINDS = "*.png *.jpg *.jpeg *.webp *.bmp *.gif *.tif *.tiff"


PAD, LARGEST_DRAWN = 192, 64
"""Side of the drawing pad, and of the largest images that a drawing resembles, in pixels."""
PEN, MOST_ENLARGED = PAD / 6, 10.0
"""Width of a stroke in pixels, and how much a small drawing is enlarged at most."""
PAUSE_MS = 1000
COARSE = 8
"""Side of a drawing as it is saved, in pixels: strokes are as soft as those of scanned digits."""


class DrawingPad(QWidget):
    """A square to draw in with the left mouse button. A second after each stroke the whole drawing is an image."""

    drawn = Signal(str)  # the path of the image, as text; it is deleted with the pad
    changed = Signal(bool)  # whether there is a stroke

    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(PAD, PAD)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self.setAccessibleName(_("Drawing pad"))
        self.setToolTip(_("Draw with the mouse. The model answers one second after each stroke."))
        self._folder, self._count = QTemporaryDir(), 0
        self._strokes: list[QPainterPath] = []
        self._paper, self._ink = Qt.GlobalColor.black, Qt.GlobalColor.white
        self._pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._pause.timeout.connect(self._finish)

    def show_for(self, example: QImage) -> None:
        """Draw in the colours of an example from now on; it is hidden where those aren't small grey images.

        What is drawn stays, and is asked again.
        """
        self.setVisible(0 < example.width() <= LARGEST_DRAWN and example.isGrayscale())
        is_light = not self.isHidden() and example.pixelColor(0, 0).lightness() > 127
        black, white = Qt.GlobalColor.black, Qt.GlobalColor.white
        self._ink, self._paper = (black, white) if is_light else (white, black)
        self._show([] if self.isHidden() else self._strokes)
        self._pause.start() if self._strokes else None

    def clear(self) -> None:
        self._show([])

    def undo(self) -> None:
        self._show(self._strokes[:-1])
        self._pause.start() if self._strokes else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            stroke = QPainterPath(event.position())
            stroke.lineTo(event.position() + QPointF(0.5, 0))  # a dot, until the mouse moves
            self._show([*self._strokes, stroke])

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._strokes[-1].lineTo(event.position())
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self._pause.start()

    def paintEvent(self, event: QPaintEvent) -> None:
        self._draw(self)
        if not self._strokes:
            painter = QPainter(self)
            painter.setPen(Qt.GlobalColor.gray)
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, _("Draw here"))

    def _show(self, strokes: list[QPainterPath]) -> None:
        self._strokes = strokes
        self._pause.stop()
        self.changed.emit(bool(strokes))
        self.update()

    def _draw(self, device: QPaintDevice, scale: float = 1.0, shift: QPointF | None = None) -> None:
        painter = QPainter(device)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(0, 0, PAD, PAD, self._paper)
        ends, corners = Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin
        painter.setPen(QPen(self._ink, PEN, Qt.PenStyle.SolidLine, ends, corners))
        where = QTransform.fromScale(scale, scale)
        for stroke in self._strokes:
            painter.drawPath(where.map(stroke).translated(shift or QPointF()))

    def _finish(self) -> None:
        """Save the drawing as large as it fits and centred, as scanned digits are."""
        self._count += 1
        path = self._folder.filePath(_("Drawing {number}").format(number=self._count) + ".png")
        side, how = COARSE, Qt.TransformationMode.SmoothTransformation
        drawn = QPainterPath()
        for stroke in self._strokes:
            drawn.addPath(stroke)
        box, image = drawn.boundingRect(), QImage(PAD, PAD, QImage.Format.Format_RGB32)
        scale = min(MOST_ENLARGED, (PAD - PEN) / max(box.width(), box.height()))
        self._draw(image, scale, QPointF(PAD, PAD) / 2 - box.center() * scale)
        if image.scaled(side, side, mode=how).save(path):
            self.drawn.emit(path)


class ImageBox(QFrame):
    """An image to choose, drop or draw, with a thumbnail."""

    chosen = Signal(str)  # the path of the image, as text
    cleared = Signal()  # the drawing has no strokes any more

    def __init__(self) -> None:
        super().__init__()
        set_role(self, Role.DROP)
        self.setAcceptDrops(True)
        self.picture, self.seen = QLabel(), QLabel()
        self._pictures = QWidget()
        columns = fill(QHBoxLayout(self._pictures), margins=FLUSH, spacing=2 * SPACING)
        for label, title in ((self.picture, _("Your image")), (self.seen, _("What the model sees"))):
            label.setFixedHeight(SIDE)
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            columns.addLayout(vbox(label, role_label(Role.HINT, title), spacing=SPACING // 2))
        columns.addStretch()
        self._path, self._folder = "", QTemporaryDir()
        self.invert = QCheckBox(_("Invert (the training images have light and dark swapped)"))
        self.invert.clicked.connect(self._ask_inverted)
        self.button = push_button(_("Choose an image…"), self._choose)
        self.pad = DrawingPad()
        self.pad.drawn.connect(self._take)
        self.undo = link_button(_("Undo"), self.pad.undo, _("Removes the last stroke."), flush=True)
        self.clear = link_button(_("Clear"), self.pad.clear, _("Removes the drawing."), flush=True)
        self._edits = QWidget(enabled=False)
        fill(QHBoxLayout(self._edits), self.undo, self.clear, None, margins=FLUSH, spacing=2 * SPACING)
        self.pad.changed.connect(self._on_strokes)
        words = role_label(Role.MUTED, _("or drop it here"))
        buttons = hbox(self.button, words, None)
        beside = vbox(None, self._pictures, buttons, self.invert, None, self._edits)
        fill(
            QHBoxLayout(self),
            self.pad,
            (beside, 1),
            margins=(2 * SPACING, SPACING, 2 * SPACING, SPACING),
            spacing=2 * SPACING,
        )

        self.show_image("")

    def show_for(self, example: QImage) -> None:
        """Take no image, but one like an example of the run."""
        self.pad.show_for(example)
        self._edits.setHidden(self.pad.isHidden())
        self.show_image("")

    def show_image(self, path: str) -> None:
        """Show an image without emitting `chosen`; an empty path shows none."""
        self._path = path
        self.seen.clear()
        image = picture(Path(path), SIDE) if path else QPixmap()
        self.invert.setChecked(False)
        self.invert.hide()
        self.picture.setPixmap(image)
        self._pictures.setHidden(image.isNull())

    def show_seen(self, png: bytes, swapped: bool) -> None:
        """Show the image as the model sees it, which can be inverted if its light and dark are `swapped`."""
        self.invert.setVisible(swapped or self.invert.isChecked())
        seen = QPixmap()
        seen.loadFromData(png)
        self._pictures.show()
        self.seen.setPixmap(seen.scaled(SIDE, SIDE, Qt.AspectRatioMode.KeepAspectRatio))

    def _on_strokes(self, is_drawn: bool) -> None:
        if not is_drawn and (self.undo.hasFocus() or self.clear.hasFocus()):
            self.button.setFocus()  # it would go to an example
        self._edits.setEnabled(is_drawn)
        if not is_drawn:
            self.show_image("")
            self.cleared.emit()

    def _ask_inverted(self) -> None:
        path = Path(self._path)
        if self.invert.isChecked():
            image = QImage(self._path).convertToFormat(QImage.Format.Format_Grayscale8)
            image.invertPixels()
            path = Path(self._folder.filePath(_("{name}, inverted").format(name=path.stem) + ".png"))
            image.save(str(path))
        self.chosen.emit(str(path))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_paths(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        path = next(iter(dropped_paths(event.mimeData())), None)
        if path is not None:
            event.acceptProposedAction()
            self._take(str(path))

    def _choose(self) -> None:
        kinds = _("Images ({kinds})").format(kinds=KINDS)
        path = Chooser.file(self, _("Choose an image"), kinds)
        if path:
            self._take(path)

    def _take(self, path: str) -> None:
        self.show_image(path)
        self.chosen.emit(path)


@dataclass(frozen=True)
class Question:
    """A text, a pair of texts, or an image file.

    `expected` is the answer of a validation example, and `where` its row; with `as_read`, the text has the special
    tokens the model reads, and `asked` is what the user asks in it, or the name of an image.
    """

    texts: tuple[str, ...] = ()
    image: str = ""
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
        return not (self.image or self.shown.strip())

    def given_to(self, task: Task, turns: Sequence[Turn]) -> Given:
        """Return the request to a model of `task`, after the `turns` of its conversation."""
        if self.image:
            return Image(path=self.image)
        if task.reads_conversations and not self.as_read:
            return Chat(turns=(*turns, Turn(Speaker.USER, self.shown)), system=self.system)
        return Texts(texts=self.texts, as_read=self.as_read)


def which_text(which: Which) -> str:
    return _("Trained") if which is Which.TRAINED else _("Before training")


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
    return text.format(label=expected) if expected else ""


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
        self._title = role_label(Role.HINT, _("Examples"))
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

    def _button(self, question: Question, example: Example) -> QPushButton:
        tip = tip_of("\n".join(filter(None, (example.shown[:1000] or example.expected, example.where))))
        button = link_button("", lambda: self.chosen.emit(question), tip)
        button.setAutoDefault(False)
        if question.image:
            button.setIcon(QIcon(picture(Path(question.image), 2 * PICTURE)))
            button.setIconSize(QSize(PICTURE, PICTURE))
            button.setAccessibleName(_("Image that is: {label}").format(label=example.expected))
        else:
            button.setText(short(question.shown, from_end=question.as_read and not question.asked))
        self._flow.addWidget(button)
        return button


def question_of(example: Example, folder: Path, task: Task, number: int = 1, *, in_pairs: bool) -> Question:
    """Return an example as a question: an image, a text, a pair, or exactly the tokens a causal model read.

    An image is named by its `number`: its file's name may look like a label.
    """
    if example.image:
        path = file_inside(folder, example.image)
        name = _("Example {number}").format(number=number)
        return Question(image=str(path or folder / "none"), expected=example.expected, asked=name)
    given = tuple(example.given.split("\n", 1)) if in_pairs and not task.writes_text else (example.given,)
    is_read = task.writes_text and not example.is_own
    texts, expected = example.texts or given, example.expected
    return Question(texts=texts, expected=expected, as_read=is_read, asked=example.asked, where=example.where)


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
    """A text field in which Shift+Return starts a new line."""

    return_pressed = Signal()  # without Shift

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
        self._lay_out()
        self.settings.hide()
        self.more.toggled.connect(self.settings.setVisible)
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            pressed = QShortcut(key, self, context=Qt.ShortcutContext.WidgetWithChildrenShortcut)
            pressed.activated.connect(self._on_return)
        self.image.chosen.connect(lambda path: self.asked.emit(Question(image=path, asked=Path(path).stem)))
        self.image.cleared.connect(self.clear_pressed)
        self.examples.chosen.connect(self._on_example)
        for field in (self.text, self.second):
            field.return_pressed.connect(self._ask_texts)
            field.textChanged.connect(self._show_button)

    def show_choice(self, choice: Choice) -> None:
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
        self.more.setVisible(task.writes_text)
        self.settings.setVisible(task.writes_text and self.more.isChecked())
        self.settings.system_row.setVisible(task.reads_conversations)
        self.clear_link.setVisible(task.writes_text)
        self.clear_link.setText(_("New conversation") if task.reads_conversations else _("Clear"))
        self.examples.show_examples(choice.examples, chosen.run.path, task, in_pairs=choice.reads_pairs)
        self._show_button()

    def clear_sent(self, question: Question) -> None:
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
        for link in (self.clear_link, self.more):
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
        question = Question(texts=texts, system=self.settings.system.text())
        is_writing = self._is_busy and self._task.writes_text
        if is_writing or question.is_empty or self._task.reads_images:
            return
        self.asked.emit(question)

    def _on_example(self, question: Question) -> None:
        if question.image:
            self.image.show_image(question.image)
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

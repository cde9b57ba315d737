"""One row after the other as the model sees it: the text with its trained part marked, a pair, an image."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from core.choices import Task
from core.data_report import DataReport, Seen, SeenPart
from gui.pages.data_image import ImagesOfOne
from gui.theme import SPACING, Theme
from gui.widgets.roles import Role, set_role
from gui.widgets.seen_text import Mark, SeenText

SIDE_BY_SIDE_LETTERS = 84
"""Two answers stand side by side where there is room for so many letters, else one below the other."""


class SeenPane(QWidget):
    """What the model sees of the first samples, with a way to the next one.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._seen: tuple[Seen, ...] = ()
        self._place = 0
        self._has_rows = False
        self._texts = TextsOfOne(theme)
        self._images = ImagesOfOne()
        self._stack = QStackedWidget()
        self._stack.addWidget(self._texts)
        self._stack.addWidget(self._images)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, SPACING // 2, 0, 0)
        layout.setSpacing(SPACING // 2)
        layout.addLayout(self._top_line())
        layout.addWidget(self._stack, 1)

    def show_report(self, report: DataReport | None, task: Task) -> None:
        """Show the samples of a report; the place among them stays."""
        seen = report.seen if report is not None else ()
        if seen is self._seen:
            return
        self._seen = seen
        self._has_rows = report is not None and bool(report.columns) and task is not Task.CAUSAL_LM
        self._place = min(self._place, max(0, len(seen) - 1))
        self._texts.set_task(task)
        self._show()

    @property
    def words(self) -> str:
        """What is said above the sample."""
        return self._words.text()

    @property
    def texts(self) -> "TextsOfOne":
        """The text, or the two answers of a pair."""
        return self._texts

    def step(self, by: int) -> None:
        """Show another sample."""
        self._place = max(0, min(len(self._seen) - 1, self._place + by))
        self._show()

    def _top_line(self) -> QHBoxLayout:
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        self._back = self._button(self.tr("Previous"), self.tr("Previous row"), -1)
        self._on = self._button(self.tr("Next"), self.tr("Next row"), 1)
        line = QHBoxLayout()
        line.setSpacing(SPACING // 2)
        line.addWidget(self._words, 1)
        line.addWidget(self._back, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self._on, 0, Qt.AlignmentFlag.AlignTop)
        return line

    def _button(self, text: str, name: str, by: int) -> QPushButton:
        button = QPushButton(text)
        button.setAccessibleName(name)
        button.clicked.connect(self._go_on if by > 0 else self._go_back)
        set_role(button, Role.LINK)
        return button

    def _go_on(self) -> None:
        self.step(1)

    def _go_back(self) -> None:
        self.step(-1)

    def _show(self) -> None:
        self._back.setEnabled(self._place > 0)
        self._on.setEnabled(self._place < len(self._seen) - 1)
        if not self._seen:
            return
        seen = self._seen[self._place]
        self._words.setText(self._describe(seen))
        if seen.image:
            self._images.show_sample(seen)
        else:
            self._texts.show_sample(seen)
        self._stack.setCurrentWidget(self._images if seen.image else self._texts)

    def _describe(self, seen: Seen) -> str:
        parts = [self.tr("{place} of {count}").format(place=self._place + 1, count=len(self._seen))]
        if self._has_rows:
            parts.append(self.tr("row {row:,}").format(row=seen.row))
        if seen.tokens is not None:
            parts.append(self.tr("%n tokens", "", seen.tokens))
        if seen.is_cut:
            parts.append(self.tr("cut off at its end"))
        if seen.label:
            parts.append(self.tr("answer: {label}").format(label=seen.label))
        return " · ".join(parts)


class TextsOfOne(QWidget):
    """A text, or the two answers of a pair, with a legend where a part of it is trained on."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.first, self.second = SeenText(theme), SeenText(theme)
        self.second.setAccessibleName(self.tr("The worse answer, as the model sees it"))
        self._better, self._worse = QLabel(self.tr("Better answer")), QLabel(self.tr("Worse answer"))
        self._columns = QHBoxLayout()
        self._columns.setSpacing(SPACING)
        self._sides = (QWidget(), QWidget())
        headings, texts = (self._better, self._worse), (self.first, self.second)
        for side, heading, text in zip(self._sides, headings, texts, strict=True):
            set_role(heading, Role.GROUP_TITLE)
            column = QVBoxLayout(side)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(2)
            column.addWidget(heading)
            column.addWidget(text, 1)
            self._columns.addWidget(side, 1)
        self.legend = Legend(theme)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING // 2)
        layout.addLayout(self._columns, 1)
        layout.addWidget(self.legend)

    def set_task(self, task: Task) -> None:
        """Speak of what the model learns in a task."""
        self.legend.set_task(task)

    def show_sample(self, seen: Seen) -> None:
        """Show one sample."""
        is_pair = bool(seen.rejected)
        is_all = not is_pair and all(part.trained for part in seen.parts)
        self.first.show_parts([SeenPart(part.text) for part in seen.parts] if is_all else seen.parts)
        self.legend.show_whole(is_all)
        self.second.show_parts(seen.rejected)
        for widget in (self._better, self._sides[1]):
            widget.setVisible(is_pair)
        name = (
            self.tr("The better answer, as the model sees it") if is_pair else self.tr("What the model sees")
        )
        self.first.setAccessibleName(name)
        self.legend.setVisible(any(part.trained for part in (*seen.parts, *seen.rejected)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the answers of a pair side by side where there is room."""
        super().resizeEvent(event)
        is_wide = self.width() >= SIDE_BY_SIDE_LETTERS * self.fontMetrics().averageCharWidth()
        across, down = QHBoxLayout.Direction.LeftToRight, QHBoxLayout.Direction.TopToBottom
        self._columns.setDirection(across if is_wide else down)


class Legend(QWidget):
    """Which part is learned and which is only read."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(SPACING // 2)
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        self._mark = Mark(theme)
        self._task = Task.CHAT
        line.addWidget(self._mark)
        line.addWidget(self._words, 1)
        self.show_whole(False)

    @property
    def words(self) -> str:
        """What is said."""
        return self._words.text()

    def set_task(self, task: Task) -> None:
        """Speak of what the marked part is for in a task."""
        self._task = task

    def show_whole(self, is_all: bool) -> None:
        """Say that all of it is learned, which needs no mark, or what the mark means."""
        self._mark.setVisible(not is_all)
        if is_all:
            self._words.setText(self.tr("All of it is learned."))
        elif self._task is Task.PREFERENCE:
            self._words.setText(
                self.tr(
                    "tinted and underlined: made likelier on the better side, unlikelier on the worse one"
                )
            )
        else:
            self._words.setText(self.tr("tinted and underlined: learned; all else is only read"))

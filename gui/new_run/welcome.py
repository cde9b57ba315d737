"""The page of the first start: what Hone is, and three runs to begin with."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from core.base.formats import about
from core.base.language import _, ngettext
from core.options.presets import Preset, comes_complete, examples
from core.options.validate import check_tree
from core.runs.library import list_runs
from core.runs.summary import Timings, timings
from gui.base.background import FileWork
from gui.base.theme import Role, set_role
from gui.base.tokens import PAGE_MARGINS, SPACING
from gui.new_run.memory_state import times
from gui.widgets.labels import link_button, role_label, text_label
from gui.widgets.layout import PageScroll, fill

WIDEST = 940


def beginnings() -> dict[str, tuple[str, str, int]]:
    """Return sample, text and minutes on two CPU cores of each tile, by the name of its example."""
    return {
        "digits": (
            "7 2 0 4 9",
            _("A small network learns to read scanned digits. The quickest way to see what training is."),
            1,
        ),
        "messages": (
            _("“Thank you!” → praise"),
            _("Sort texts by labels. Start with messages to a shop, then use a table of your own."),
            1,
        ),
        "chat": (
            _("“Hello! How can I help?”"),
            _("Teach a model to answer in your way. Start with short conversations, then use your own."),
            3,
        ),
    }


def seconds_of(example: Preset, past: Timings) -> float | None:
    """Return how long an example takes by past runs, None if none was of its kind."""
    options, _problems = check_tree(example.tree)
    found = [seconds for seconds, _title in times(options, past)] if options else [None]
    return None if None in found else sum(filter(None, found))


class Tile(QPushButton):
    """A large button with a sample, a title, a text and a line about the time."""

    def __init__(self, title: str, sample: str, text: str, minutes: int) -> None:
        super().__init__()
        set_role(self, Role.TILE)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)  # for texts that wrap
        self._minutes = minutes
        self.time = text_label(role=Role.HINT)
        self._lines = fill(
            QVBoxLayout(self),
            role_label(Role.TILE_SAMPLE, sample),
            text_label(title, Role.CARD_TITLE),
            text_label(text, Role.MUTED),
            None,
            self.time,
            margins=(2 * SPACING, 2 * SPACING, 2 * SPACING, 2 * SPACING),
            spacing=SPACING,
        )
        self._lines.insertSpacing(1, SPACING)
        for label in self.findChildren(QLabel):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName(title)
        self.setAccessibleDescription(text)

    def show_time(self, seconds: float | None) -> None:
        """Say how long a run takes; `seconds` are those of an earlier one, if there is one."""
        text = ngettext("About a minute, offline", "About {count} minutes, offline", self._minutes)
        if seconds is not None:
            text = _("About {time} on this computer, offline")
        self.time.setText(text.format(time=about(seconds or 0), count=self._minutes))

    def sizeHint(self) -> QSize:
        """Return the least size of the labels, which wrap; a button would only ask for that of its own text."""
        return self._lines.minimumSize()


class WelcomePage(QWidget):
    """What Hone is, and three examples to begin with."""

    example_chosen = Signal(object)  # a `core.options.presets.Preset`
    form_wanted = Signal()
    file_wanted = Signal()

    def __init__(self, runs_folder: Callable[[], Path]) -> None:
        super().__init__()
        set_role(self, Role.PAGE)
        self._runs_folder = runs_folder
        self._files = FileWork(self)
        self._examples = {example.name: example for example in examples() if comes_complete(example)}
        self.tiles = {
            name: Tile(self._examples[name].title, *words)
            for name, words in beginnings().items()
            if name in self._examples
        }
        tiles = QHBoxLayout()
        tiles.setSpacing(2 * SPACING)
        for name, tile in self.tiles.items():
            tile.clicked.connect(partial(self.example_chosen.emit, self._examples[name]))
            tiles.addWidget(tile, 1)
        title = role_label(Role.HEADLINE, _("Welcome to Hone"))
        about = text_label(
            _(
                "Train language and image models on your own computer, watch them learn, and use them. Nothing is "
                "uploaded, and no account is needed."
            ),
            Role.LEAD,
        )
        own = fill(
            QHBoxLayout(),
            role_label(
                Role.MUTED, _("Have data already? Drop a file or folder anywhere in this window, or:")
            ),
            link_button(_("Set up a run"), self.form_wanted.emit),
            link_button(_("Open a run file…"), self.file_wanted.emit),
            None,
            spacing=SPACING // 2,
        )
        content = QWidget()
        content.setMaximumWidth(WIDEST)
        lines = fill(QVBoxLayout(content), (title, 0), about, tiles, own, spacing=2 * SPACING)
        lines.insertSpacing(2, SPACING)
        lines.insertSpacing(4, SPACING)
        middle = QWidget()
        row = fill(QHBoxLayout(middle), None, (content, 100), None, margins=PAGE_MARGINS)
        row.setAlignment(content, Qt.AlignmentFlag.AlignVCenter)
        fill(QVBoxLayout(self), PageScroll(middle), margins=(0, 0, 0, 0))
        self._show_times({})

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.setFocus()  # Tab leads to the examples, and not to the sidebar first
        self._files.put(lambda: timings(list_runs(self._runs_folder())), self._show_times)

    def end_work(self) -> None:
        self._files.end_work()

    def _show_times(self, past: Timings) -> None:
        for name, tile in self.tiles.items():
            tile.show_time(seconds_of(self._examples[name], past))

"""Questions to the person, opening folders, and moving runs to the system's trash."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QLabel, QMessageBox, QWidget

from core.base import formats
from core.base.errors import RunFolderError, UserError
from core.base.files import is_there
from core.base.language import _
from core.runs import trash as run_trash
from core.runs.folder import RunFolder
from core.runs.trash import NoTrashError, Trash, TrashItem, TrashPlan
from gui.base.background import FileWork
from gui.base.theme import Role, set_role


def reveal(folder: Path) -> UserError | None:
    """Open a folder in the file manager; where that can't be done, returns what to tell instead."""
    if not is_there(folder):
        title = _("The folder is not there")
        return UserError(title, _("There is nothing at {} any more.").format(folder))
    if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
        title = _("The folder can't be shown")
        detail = _("No file manager answered. The folder is {}")
        return UserError(title, detail.format(folder))
    return None


def distinct_titles(runs: Sequence[tuple[Path, str]]) -> list[str]:
    """The titles of runs, in their order; titles that several of them bear go on with when each was made.

    Args:
        runs: Their folders and titles. No file is read: a folder's name tells when it was made.
    """
    counts = Counter(title for _, title in runs)
    dated = [f"{title} · {made(path)}" if counts[title] > 1 else title for path, title in runs]
    counts = Counter(dated)
    return [
        f"{title} · {path.name}" if counts[words] > 1 else words
        for (path, title), words in zip(runs, dated, strict=True)
    ]


def made(path: Path) -> str:
    """When a run was made, as its folder's name says (`core.runs.library` makes them); else that name."""
    try:
        then = time.mktime(time.strptime(path.name[: len("2026-01-31-2359")], "%Y-%m-%d-%H%M"))
    except (ValueError, OverflowError):
        return path.name
    return formats.moment(then)


Answer = TypeVar("Answer")

ICON_SIZE = 48


def show_as_written(box: QMessageBox) -> None:
    """Take none of its words for HTML: a run may be called anything. Call it once the texts are set."""
    for label in box.findChildren(QLabel):
        label.setTextFormat(Qt.TextFormat.PlainText)


class Question(QMessageBox, Generic[Answer]):
    """Asks; the first answer is what Return gives.

    Args:
        title: What is at stake, in one short sentence.
        words: What each answer does.
        answers: What each button says, by what it stands for.
    """

    def __init__(
        self, title: str, words: str, answers: Mapping[Answer, str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setIconPixmap(QApplication.windowIcon().pixmap(ICON_SIZE))
        self.setText(title)
        self.setInformativeText(words)
        show_as_written(self)
        heading = self.findChild(QLabel, "qt_msgbox_label")
        if heading is not None:
            set_role(heading, Role.STRONG)
        self._answers = {
            self.addButton(text, QMessageBox.ButtonRole.AcceptRole): answer
            for answer, text in answers.items()
        }
        self.setDefaultButton(next(iter(self._answers)))
        self.addButton(QMessageBox.StandardButton.Cancel)

    def says(self) -> dict[str, Answer]:
        """Each button's answer by its text; Cancel left out."""
        return {button.text(): answer for button, answer in self._answers.items()}

    def ask(self, otherwise: Answer) -> Answer:
        """Wait for the answer; `otherwise` where it was called off."""
        self.exec()
        clicked = self.clickedButton()
        return next((answer for button, answer in self._answers.items() if button is clicked), otherwise)


class TrashDialog(QObject):
    """Asks one question at a time without waiting; Cancel is what Return gives.

    Args:
        window: What the questions belong to.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.box: QMessageBox | None = None

    @property
    def is_open(self) -> bool:
        return self.box is not None

    def ask(
        self, words: str, details: str, agree: str, do: Callable[[], None], *, is_grave: bool = False
    ) -> None:
        """Ask, and call `do` where the person presses the button `agree`; `is_grave`: it can't be put back."""
        icon = QMessageBox.Icon.Warning if is_grave else QMessageBox.Icon.Question
        box = self.box = QMessageBox(icon, "", words, parent=self._window)
        box.setInformativeText(details)
        show_as_written(box)
        button = box.addButton(agree, QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)

        def finish() -> None:
            self.box = None
            box.deleteLater()
            if box.clickedButton() is button:
                do()

        box.finished.connect(finish)
        box.open()

    def put_away(self) -> None:
        if self.box is not None:
            self.box.reject()


MOST_NAMED = 6
"""So many names stand in a question; the others are counted."""


class NotOverError(UserError):
    """None of `runs` can go before it is over."""

    def __init__(self, title: str, detail: str, runs: tuple[RunFolder, ...]) -> None:
        super().__init__(title, detail)
        self.runs = runs


Stayed = list[tuple[TrashItem, UserError]]
"""Runs that could not be removed, each with the reason."""


class RunTrash(QObject):
    """Asks and moves. One of it serves a page for as long as that lives.

    Signals:
        moved: The folders, a list of `Path`, that are gone now.
        failed: A `core.base.errors.UserError`: why something stayed.

    Args:
        window: What the questions belong to.
        runs_folder: Where the other runs are.
        trash: What moves a folder; None: the system's bin.
    """

    moved = Signal(object)
    failed = Signal(object)

    def __init__(self, window: QWidget, runs_folder: Callable[[], Path], trash: Trash | None = None) -> None:
        super().__init__(window)
        self._runs_folder = runs_folder
        self._trash = trash
        self.work = FileWork(self)
        self.work.failed.connect(self.failed)
        self._asking = TrashDialog(window)

    @property
    def question(self) -> QMessageBox | None:
        return self._asking.box

    def begin(self, runs: Sequence[RunFolder]) -> None:
        """Look at runs, then ask whether they are to go. Returns at once."""
        wanted, folder = tuple(runs), self._runs_folder()
        if wanted and not self._asking.is_open:
            self.work.put(lambda: run_trash.plan(wanted, folder), lambda planned: self._ask(planned, wanted))

    def end_work(self) -> None:
        """Put the question away, and wait for what is being moved."""
        self._asking.put_away()
        self.work.end_work()

    def _ask(self, planned: TrashPlan, wanted: tuple[RunFolder, ...]) -> None:
        if not planned.going:
            title = _("It can't go to the bin yet") if len(planned.busy) == 1 else _("They can't go yet")
            self.failed.emit(NotOverError(title, busy_text(planned.busy), wanted))
            return
        self._asking.ask(
            question_of(planned),
            "\n\n".join(details_of(planned)),
            _("Move to the bin"),
            lambda: self._move(planned.going),
        )

    def _move(self, going: Sequence[TrashItem]) -> None:
        self.work.put(
            lambda: _remove(going, lambda run: run_trash.move(run, self._trash)), self._ask_to_delete
        )

    def _ask_to_delete(self, found: tuple[list[Path], Stayed]) -> None:
        """Report, and offer to delete what there is no trash for."""
        self._report(found)
        without_trash = [(one, error) for one, error in found[1] if isinstance(error, NoTrashError)]
        if not without_trash:
            return
        going = [one for one, _error in without_trash]
        words = _("There is no bin for “{}”. Delete it for good?").format(going[0].title)
        if len(going) > 1:
            words = _("There is no bin for {} runs. Delete them for good?").format(formats.count(len(going)))
        warning = _("What is deleted for good can't be put back.")
        details = f"{warning}\n\n{without_trash[0][1].detail}"
        self._asking.ask(words, details, _("Delete for good"), lambda: self._delete(going), is_grave=True)

    def _delete(self, going: Sequence[TrashItem]) -> None:
        self.work.put(lambda: _remove(going, run_trash.delete), self._report)

    def _report(self, found: tuple[list[Path], Stayed]) -> None:
        gone, stayed = found
        if gone:
            self.moved.emit(gone)
        errors = [error for _one, error in stayed if not isinstance(error, NoTrashError)]
        if errors:
            details = "\n".join(dict.fromkeys(error.detail for error in errors))
            self.failed.emit(RunFolderError(errors[0].title, details))


def _remove(going: Sequence[TrashItem], remove: Callable[[RunFolder], None]) -> tuple[list[Path], Stayed]:
    gone: list[Path] = []
    stayed: Stayed = []
    for one in going:
        try:
            remove(one.run)
        except UserError as error:
            stayed.append((one, error))
        else:
            gone.append(one.run.path)
    return gone, stayed


def question_of(planned: TrashPlan) -> str:
    size = formats.memory(planned.size)
    if len(planned.going) == 1:
        return _("Move “{}” to the bin? It takes {}.").format(planned.going[0].title, size)
    count = formats.count(len(planned.going))
    return _("Move {} runs to the bin? They take {}.").format(count, size)


def details_of(planned: TrashPlan) -> list[str]:
    """What a person has to know before answering, a paragraph each."""
    found = []
    if len(planned.going) > 1:
        titles = distinct_titles([(one.run.path, one.title) for one in planned.going])
        lines = [
            f"{title}, {formats.memory(one.size)}" for title, one in zip(titles, planned.going, strict=True)
        ]
        found.append("\n".join(_some(lines)))
    elif planned.going:  # another run may bear its title
        found.append(_("Its folder is {}.").format(planned.going[0].run.name))
    found += [
        _("Other runs started from the model of “{}”: {}.").format(
            one.title, ", ".join(_some([f"“{title}”" for title in one.needed_by]))
        )
        for one in planned.needed[:MOST_NAMED]
    ]
    if planned.busy:
        found.append(busy_text(planned.busy))
    found.append(_("What lies in the bin can be put back until the bin is emptied."))
    return found


def busy_text(titles: Sequence[str]) -> str:
    if len(titles) == 1:
        return _("“{}” trains, or waits for its turn, and stays. Stop it first.").format(titles[0])
    words = _("These train, or wait for their turn, and stay: {}. Stop them first.")
    return words.format(", ".join(_some([f"“{title}”" for title in titles])))


def _some(names: list[str]) -> list[str]:
    if len(names) <= MOST_NAMED:
        return names
    more = _("and {} more").format(formats.count(len(names) - MOST_NAMED + 1))
    return [*names[: MOST_NAMED - 1], more]

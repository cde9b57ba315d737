"""The cards of Settings about the Hugging Face Hub: working offline, the token, and what lies on this computer."""

from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QMessageBox,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from core.errors import UserError
from core.hub_questions import Cached, CacheReport, Kind, Removed, RemoveRequest
from gui import numbers
from gui.engine_question import Ask, EngineQuestion
from gui.pages.hub_token import TokenPanel
from gui.theme import SPACING
from gui.widgets.card import Card
from gui.widgets.roles import Role, set_role
from gui.widgets.row_table import set_up_rows

MOST_ROWS = 6
"""So many rows are in view; the others are scrolled to."""

_translate = QCoreApplication.translate

Confirm = Callable[[Cached, QWidget], bool]
"""Asks whether something is to be deleted."""


class HubCard(Card):
    """Working offline, and the token.

    Signals:
        offline_chosen: Whether Hone works offline from now on.

    Args:
        ask: Starts an engine job.
        parent: Qt's parent.
    """

    offline_chosen = Signal(bool)

    def __init__(self, ask: Ask, parent: QWidget | None = None) -> None:
        super().__init__(_translate("Hub", "Hugging Face Hub"), parent)
        self.offline = QCheckBox(self.tr("Work offline: ask the Hub for nothing, in no run either"))
        self.offline.clicked.connect(self.offline_chosen)
        self.token = TokenPanel(ask)
        self._is_seen = False
        words = QLabel(
            self.tr(
                "It is asked only when you search, download, look up a size, or start a run with a model of it."
            )
        )
        words.setWordWrap(True)
        set_role(words, Role.HINT)
        self.body.addWidget(self.offline)
        self.body.addWidget(words)
        self.body.addSpacing(SPACING)
        self.body.addWidget(self.token)

    def showEvent(self, event: QShowEvent) -> None:
        """See where a token is, once; the Hub isn't asked."""
        super().showEvent(event)
        if not self._is_seen:
            self._is_seen = True
            self.token.look()


class CacheCard(Card):
    """What of the Hub lies on this computer, and deleting it.

    Args:
        ask: Starts an engine job.
        confirm: Asks the person whether something is to be deleted.
        parent: Qt's parent.
    """

    def __init__(self, ask: Ask, confirm: "Confirm | None" = None, parent: QWidget | None = None) -> None:
        super().__init__(_translate("Hub", "From the Hub, on this computer"), parent)
        self._confirm = confirm or ask_whether_to_delete
        self._cached = EngineQuestion(ask, "hub-cached", CacheReport, self)
        self._cached.answered.connect(self.show_report)
        self._cached.failed.connect(self._fail)
        self._removing = EngineQuestion(ask, "hub-remove", Removed, self)
        self._removing.answered.connect(self._look)
        self._removing.failed.connect(self._fail)
        self._repos: tuple[Cached, ...] = ()
        self.table = _Table()
        self.delete = QPushButton(self.tr("Delete…"))
        self.delete.clicked.connect(self._delete)
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self._words, 1)
        line.addWidget(self.delete)
        self.body.addWidget(self.table)
        self.body.addLayout(line)
        self.table.itemSelectionChanged.connect(self._show_button)
        self.show_report(CacheReport(folder=""))

    @property
    def words(self) -> str:
        """What is said below the rows."""
        return self._words.text()

    def showEvent(self, event: QShowEvent) -> None:
        """Look into the cache each time the card comes into view: runs and other programs change it."""
        super().showEvent(event)
        self._look()

    def show_report(self, report: CacheReport) -> None:
        """Show what lies there."""
        self._repos = report.repos
        self.table.show_repos(report.repos)
        self.set_trailing(numbers.memory(report.total) if report.repos else "")
        words = self.tr("In {folder}, which other programs use as well.").format(folder=report.folder)
        if not report.repos:
            words = self.tr("Nothing yet: what you download, and what runs fetch, is listed here.")
        self._words.setText(words)
        self._show_button()

    def close_questions(self) -> None:
        """Give up what was asked and wait for its thread."""
        self._cached.close()
        self._removing.close()

    @property
    def _chosen(self) -> Cached | None:
        rows = self.table.selectionModel().selectedRows()
        return self._repos[rows[0].row()] if rows else None

    def _look(self) -> None:
        self._cached.put()

    def _delete(self) -> None:
        chosen = self._chosen
        if chosen is not None and self._confirm(chosen, self):
            self._removing.put(RemoveRequest(id=chosen.id, kind=chosen.kind))
            self._show_button()

    def _show_button(self) -> None:
        chosen = self._chosen
        self.delete.setVisible(bool(self._repos))
        self.delete.setEnabled(
            chosen is not None and not self._removing.is_waiting
        )  # one at a time: none half
        size = numbers.memory(chosen.size + chosen.partial) if chosen is not None else ""
        self.delete.setText(self.tr("Delete {size}…").format(size=size) if size else self.tr("Delete…"))

    def _fail(self, error: UserError) -> None:
        self._words.setText(". ".join(part for part in (error.title, error.detail) if part))
        self._show_button()


class _Table(QTableWidget):
    """A row a model or data set; as high as its rows, within reason."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 4, parent)
        self.setHorizontalHeaderLabels(
            [self.tr("Name"), self.tr("Kind"), self.tr("Size"), self.tr("Changed")]
        )
        self.setAccessibleName(self.tr("Models and data of the Hub on this computer"))
        set_up_rows(self)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)

    def show_repos(self, repos: tuple[Cached, ...]) -> None:
        """Show these rows."""
        self.setVisible(bool(repos))
        self.setRowCount(len(repos))
        for row, repo in enumerate(repos):
            for column, words in enumerate(self._cells(repo)):
                self.setItem(row, column, QTableWidgetItem(words))
        rows = min(len(repos), MOST_ROWS)
        height = self.horizontalHeader().sizeHint().height()
        self.setFixedHeight(
            height + rows * self.verticalHeader().defaultSectionSize() + 2 * self.frameWidth() + 2
        )

    def _cells(self, repo: Cached) -> tuple[str, ...]:
        kind = self.tr("model") if repo.kind is Kind.MODEL else self.tr("data")
        size = numbers.memory(repo.size) if repo.size else ""
        if repo.partial:
            unfinished = self.tr("{size} unfinished").format(size=numbers.memory(repo.partial))
            size = f"{size} + {unfinished}" if size else unfinished
        return repo.id, kind, size, numbers.moment(repo.changed or None)


def ask_whether_to_delete(repo: Cached, parent: QWidget) -> bool:
    """Ask whether to delete something from the cache."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setText(_translate("Hub", "Delete {name} from this computer?").format(name=repo.id))
    box.setInformativeText(
        _translate(
            "Hub",
            "{size} become free. Other programs that use it would have to download it again, as would Hone.",
        ).format(size=numbers.memory(repo.size + repo.partial))
    )
    delete = box.addButton(_translate("Hub", "Delete"), QMessageBox.ButtonRole.DestructiveRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    box.exec()
    return box.clickedButton() is delete

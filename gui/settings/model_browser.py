"""The table of what was found on the Hub: whole rows, one of which is chosen, and words where there are none."""

from collections.abc import Sequence
from gettext import gettext as _

from msgspec.structs import replace
from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.errors import UserError
from core.base.formats import MISSING
from core.runs.events import Level
from core.services import hub
from core.services.hub import CacheReport, Download, DownloadRequest, Found, Kind, SearchAnswer, SearchRequest
from gui.base.background import Ask, JobTask, State
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.settings.download import (
    HubTransfer,
    MakeTransfer,
    TransferLine,
    button_words,
    explanation,
    facts,
    needs_token,
    state_words,
)
from gui.settings.hub import TokenSheet
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import ElidedLabel
from gui.widgets.tables import set_up_rows

# --- What is known of the chosen model of the Hub, and why it can't be used or what to do first


class HubDetails(QFrame):
    """The chosen one in words; hidden where none is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.CARD)
        self._found: Found | None = None
        self._name = ElidedLabel()
        set_role(self._name, Role.STRONG)
        self._facts = QLabel()
        set_role(self._facts, Role.MUTED)
        self.page = QPushButton(_("Open its page"))
        set_role(self.page, Role.LINK)
        self.page.clicked.connect(self._open_page)
        self._words = QLabel()
        self._words.setWordWrap(True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self._words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._refusal = QLabel()
        self._refusal.setWordWrap(True)
        self._refusal.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self._refusal, Role.WARNING)
        set_role(self._words, Role.MUTED)
        self._command = QLineEdit()
        self._command.setReadOnly(True)
        self._command.setAccessibleName(_("Command that converts it"))
        self._copy = QPushButton(_("Copy"))
        self._copy.setAccessibleName(_("Copy the command"))
        self._copy.clicked.connect(self._copy_command)
        self._lay_out()
        self.show_found(None, signed_in=False)

    @property
    def words(self) -> str:
        """What is said of it."""
        return "\n".join(part for part in (self._refusal.text(), self._words.text()) if part)

    def show_found(self, found: Found | None, *, signed_in: bool) -> None:
        """Tell of this one."""
        self._found = found
        self.setVisible(found is not None)
        if found is None:
            return
        self._name.setText(found.id)
        self._facts.setText(facts(found))
        self._words.setText(explanation(found, signed_in=signed_in))
        self._words.setVisible(bool(self._words.text()))
        self._refusal.setText(found.refusal)
        self._refusal.setVisible(bool(found.refusal))
        for widget in (self._command, self._copy):
            widget.setVisible(bool(found.command))
        self._command.setText(found.command)
        self._command.setCursorPosition(0)

    def _open_page(self) -> None:
        if self._found is not None:
            folder = "" if self._found.kind is Kind.MODEL else "datasets/"
            QDesktopServices.openUrl(QUrl(f"{hub.PUBLIC}/{folder}{self._found.id}"))

    def _copy_command(self) -> None:
        QGuiApplication.clipboard().setText(self._command.text())

    def _lay_out(self) -> None:
        heading = QHBoxLayout()
        heading.setSpacing(SPACING)
        heading.addWidget(self._name, 1)
        heading.addWidget(self._facts)
        heading.addWidget(self.page)
        command = QHBoxLayout()
        command.setSpacing(SPACING)
        command.addWidget(self._command, 1)
        command.addWidget(self._copy)
        body = QVBoxLayout(self)
        body.setContentsMargins(2 * SPACING, SPACING, SPACING, SPACING + 2)
        body.setSpacing(SPACING // 2)
        body.addLayout(heading)
        body.addWidget(self._refusal)
        body.addWidget(self._words)
        body.addLayout(command)


# --- The table of what was found on the Hub: whole rows, one of which is chosen


NAME = 0
STATE = 6
PARAMETERS = 2

Index = QModelIndex | QPersistentModelIndex

REFUSED = Qt.ItemDataRole.UserRole
GREYED = 0.45
"""Opacity of what can't be used."""


class _Greying(QStyledItemDelegate):
    """Paints what can't be used paler, in the colours of the moment."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802 - Qt's name
        super().initStyleOption(option, index)
        if index.data(REFUSED):
            colour = option.palette.color(QPalette.ColorRole.Text)
            colour.setAlphaF(GREYED)
            for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
                option.palette.setColor(role, colour)


class HubResults(QTableWidget):
    """A row a model.

    Signals:
        chosen_changed: Another row is chosen, or none.
    """

    chosen_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 7, parent)
        self._found: tuple[Found, ...] = ()
        self.setHorizontalHeaderLabels(
            [
                _("Name"),
                _("Size"),
                _("Parameters"),
                _("Downloads"),
                _("Likes"),
                _("Licence"),
                "",
            ]
        )
        downloads = self.horizontalHeaderItem(3)
        assert downloads is not None
        downloads.setToolTip(_("In the last 30 days"))
        self.setAccessibleName(_("What was found"))
        set_up_rows(self)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        self.setItemDelegate(_Greying(self))
        self._empty = QLabel(self.viewport())
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setWordWrap(True)
        self._empty.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self._empty, Role.MUTED)
        self.itemSelectionChanged.connect(self.chosen_changed)

    @property
    def chosen(self) -> Found | None:
        """The one whose row is chosen."""
        rows = self.selectionModel().selectedRows()
        return self._found[rows[0].row()] if rows else None

    @property
    def found(self) -> tuple[Found, ...]:
        """All rows."""
        return self._found

    @property
    def empty_words(self) -> str:
        """What is said where there is no row."""
        return "" if self._empty.isHidden() else self._empty.text()

    def show_found(self, found: Sequence[Found]) -> None:
        """Show these rows; the first is chosen, or the one that was."""
        before = self.chosen
        self._found = tuple(found)
        self._empty.hide()
        self.setRowCount(len(found))
        for row, one in enumerate(found):
            for column, words in enumerate(_cells(one)):
                self._put(row, column, words, one)
        names = [one.id for one in found]
        row = names.index(before.id) if before is not None and before.id in names else 0
        if found:
            self.selectRow(row)
            self.scrollToTop()
        self.chosen_changed.emit()

    def show_empty(self, words: str) -> None:
        """Show these words in place of rows."""
        self._found = ()
        self.setRowCount(0)
        self._empty.setText(words)
        self._empty.show()
        self._fit_empty()
        self.chosen_changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the words in the middle."""
        super().resizeEvent(event)
        self._fit_empty()

    def _fit_empty(self) -> None:
        margin = 6 * SPACING
        self._empty.setGeometry(self.viewport().rect().adjusted(margin, 0, -margin, 0))

    def _put(self, row: int, column: int, words: str, found: Found) -> None:
        item = QTableWidgetItem(words)
        item.setToolTip(found.refusal or (found.id if column == NAME else ""))
        if column not in (NAME, 5, STATE):
            item.setTextAlignment(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
        item.setData(REFUSED, bool(found.refusal))
        self.setItem(row, column, item)


def _cells(found: Found) -> tuple[str, ...]:
    parameters = MISSING if found.parameters is None else formats.compact_count(found.parameters)
    return (
        found.id,
        formats.memory(found.size),
        parameters,
        formats.count(found.downloads),
        formats.count(found.likes),
        found.licence or MISSING,
        state_words(found),
    )


# --- Searching the Hub from the window


class HubSearch(QObject):
    """What was found, or lies here.

    `answer` is that of the last search, None before one; `here` are models on this computer; `failure` says why the
    last search brought nothing.

    Signals:
        changed: Something came, began or failed.

    Args:
        ask: Starts an engine job.
        kind: Models or data sets.
        parent: Qt's parent.
    """

    changed = Signal()

    def __init__(self, ask: Ask, kind: Kind = Kind.MODEL, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._kind = kind
        self._search = JobTask(ask, "hub-search", SearchAnswer, self)
        self._search.done.connect(self._take)
        self._search.failed.connect(self._fail)
        self._cached = JobTask(ask, "hub-cached", CacheReport, self)
        self._cached.done.connect(self._take_cached)
        self.asked: SearchRequest | None = None
        self.answer: SearchAnswer | None = None
        self.here: tuple[Found, ...] = ()
        self.failure: UserError | None = None

    @property
    def is_searching(self) -> bool:
        """Whether the Hub is being asked."""
        return self._search.is_running

    @property
    def signed_in(self) -> bool:
        """Whether a token was sent along."""
        return self.answer is not None and self.answer.signed_in

    def search(self, words: str, task: str) -> None:
        """Ask the Hub, unless that is forbidden."""
        if hub.is_forbidden():
            return
        self.asked = SearchRequest(words=words, kind=self._kind, task=task)
        self.failure = None
        self._search.put(self.asked)
        self.changed.emit()

    def again(self) -> None:
        """Ask the same again: what is here, or who is signed in, may be another."""
        self.look_here()
        if self.asked is not None:
            self.search(self.asked.words, self.asked.task)

    def stop(self) -> None:
        """Give up what was asked."""
        self._search.cancel()
        self.changed.emit()

    def look_here(self) -> None:
        """See what lies on this computer; nobody else is asked."""
        self._cached.put()

    def close(self) -> None:
        """Give up and wait until no thread is left."""
        self._search.close()
        self._cached.close()

    def _take(self, answer: SearchAnswer) -> None:
        self.answer = answer
        self.changed.emit()

    def _fail(self, error: UserError) -> None:
        self.answer, self.failure = None, error
        self.changed.emit()

    def _take_cached(self, report: CacheReport) -> None:
        self.here = tuple(
            Found(
                id=repo.id,
                kind=repo.kind,
                size=repo.size if repo.complete else None,
                here=repo.size + repo.partial,
                complete=repo.complete,
            )
            for repo in report.repos
            if repo.kind is self._kind
        )
        self.changed.emit()


# --- The sheet "Models on the Hub": search, see what each is and takes, download, use


SIZE = (880, 620)


class HubSheet(QDialog):
    """Finds a model (or data set) on the Hub; closing it pauses what is being downloaded.

    Signals:
        chosen: The id of what is on this computer now, to be used; of a data set with its subset (`owner/name/subset`).

    Args:
        ask: Starts an engine job.
        parent: Qt's parent.
        task: Hone's task, as a run file says it; empty: any.
        task_title: The same in words.
        kind: Models or data sets.
        make: Makes what downloads.
    """

    chosen = Signal(str)

    def __init__(
        self,
        ask: Ask,
        parent: QWidget | None = None,
        *,
        task: str = "",
        task_title: str = "",
        kind: Kind = Kind.MODEL,
        make: MakeTransfer = Download,
    ) -> None:
        super().__init__(parent)
        self._ask, self._task, self._kind = ask, task, kind
        is_model = kind is Kind.MODEL
        self.setWindowTitle(_("Models on the Hub") if is_model else _("Data on the Hub"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE)
        self.search = HubSearch(ask, kind, self)
        self.transfer = HubTransfer(ask, make, self)
        self.words = QLineEdit()
        self.words.setPlaceholderText(_("Words of a name, such as bert, or a whole id: owner/name"))
        self.words.setAccessibleName(_("Words to search for"))
        self.words.setClearButtonEnabled(True)
        self.button = QPushButton(_("Search"))
        self.suiting = QCheckBox(_("Only what suits “{task}”").format(task=task_title))
        self.suiting.setChecked(True)
        self.suiting.setVisible(is_model and bool(task_title))
        self.subset = QLineEdit()
        self.subset.setPlaceholderText(_("Subset, such as mrpc: empty takes the first"))
        self.subset.setAccessibleName(_("Subset"))
        self.subset.setVisible(not is_model)
        self._status = QLabel()
        set_role(self._status, Role.HINT)
        self._busy = QProgressBar()
        self._busy.setRange(0, 0)
        self._busy.setAccessibleName(_("Searching"))
        self.strip = MessageStrip()
        self.results = HubResults()
        self.results.setColumnHidden(PARAMETERS, not is_model)
        self.details = HubDetails()
        self.line = TransferLine(self.transfer)
        self.take = QPushButton()
        self.sheet: TokenSheet | None = None
        self._lay_out()
        self._connect()
        self._refresh()
        self.search.look_here()
        self.words.setFocus()

    @property
    def status(self) -> str:
        """What is said above the rows."""
        return self._status.text()

    def done(self, result: int) -> None:
        """Pause what is under way, and close."""
        self.search.close()
        self.transfer.close()
        super().done(result)

    def _search(self) -> None:
        if self.search.is_searching:
            self.search.stop()
        else:
            task = self._task if self.suiting.isChecked() else ""
            self.search.search(self.words.text(), task)

    def _search_anew(self) -> None:
        if self.search.asked is not None:
            self.search.search(self.search.asked.words, self._task if self.suiting.isChecked() else "")

    def _take(self) -> None:
        found = self.results.chosen
        if found is None or not self.take.isEnabled():  # a double click takes no more than the button does
            return
        if self._is_at_hand(found):
            self._use(self._request(found))
        elif needs_token(found, signed_in=self.search.signed_in):
            self.sheet = TokenSheet(found.id, self._ask, self)
            self.sheet.panel.kept.connect(self.search.again)
            self.sheet.open()
        else:
            self.transfer.begin(self._request(found))

    def _request(self, found: Found) -> DownloadRequest:
        return DownloadRequest(id=found.id, kind=found.kind, subset=self.subset.text().strip())

    def _is_at_hand(self, found: Found) -> bool:
        """Whether nothing has to be fetched; which subsets of a data set are here, its download finds out."""
        return found.complete and (not self.subset.text().strip() or hub.is_forbidden())

    def _use(self, request: DownloadRequest) -> None:
        self.chosen.emit("/".join(part for part in (request.id, request.subset) if part))
        self.accept()

    def _refresh(self) -> None:
        search = self.search
        self._busy.setVisible(search.is_searching)
        self.button.setText(_("Stop") if search.is_searching else _("Search"))
        self._show_failure(search.failure)
        is_forbidden = hub.is_forbidden()
        self.button.setEnabled(not is_forbidden)
        self.words.setEnabled(not is_forbidden)
        self._status.setText(self._status_words(is_forbidden=is_forbidden))
        rows = search.answer.found if search.answer is not None else search.here
        if search.is_searching:
            self.results.show_empty(_("Asking {host}…").format(host=hub.host()))
        elif rows:
            self.results.show_found(rows)
        else:
            self.results.show_empty(self._empty_words(is_forbidden=is_forbidden))

    def _show_failure(self, failure: UserError | None) -> None:
        if failure is None:
            self.strip.hide()
        else:
            self.strip.show_message(Level.WARNING, failure.title, failure.detail, failure.fixes)

    def _status_words(self, *, is_forbidden: bool) -> str:
        answer, asked = self.search.answer, self.search.asked
        if is_forbidden:
            words = _("{what} forbids to ask {host}. On this computer:")
            return words.format(what=hub.forbidden_by(), host=hub.host())
        if answer is None or asked is None:
            words = _("{host} is asked when you press Search, and for nothing before. On this computer:")
            return words.format(host=hub.host())
        words = _("{count} found, the most downloaded first") if answer.found else ""
        return words.format(count=len(answer.found))

    def _empty_words(self, *, is_forbidden: bool) -> str:
        asked = self.search.asked
        if self.search.answer is None or asked is None:
            nothing = _("Nothing of the Hub is on this computer yet.")
            return nothing if is_forbidden else f"{nothing}\n" + _("Type words of a name and press Search.")
        words = _("Nothing on {host} has “{words}” in its name.")
        if asked.task:
            words = _("Nothing on {host} has “{words}” in its name and suits the task. Untick the box?")
        return words.format(host=hub.host(), words=asked.words)

    def _show_chosen(self) -> None:
        found = self.results.chosen
        signed_in = self.search.signed_in
        self.details.show_found(found, signed_in=signed_in)
        shown = replace(found, complete=self._is_at_hand(found)) if found is not None else None
        self.take.setText(button_words(shown, signed_in=signed_in))
        is_busy = self.transfer.state is State.RUNNING
        is_allowed = found is not None and (found.complete or not hub.is_forbidden())
        self.take.setEnabled(found is not None and not found.refusal and is_allowed and not is_busy)

    def _show_transfer(self) -> None:
        if self.transfer.state is State.FAILED:
            self._show_failure(self.transfer.failure)
        elif self.transfer.state is State.RUNNING:
            self.strip.hide()
        self._show_chosen()

    def _connect(self) -> None:
        self.search.changed.connect(self._refresh)
        self.button.clicked.connect(self._search)
        self.words.returnPressed.connect(self._search)
        self.suiting.toggled.connect(self._search_anew)
        self.results.chosen_changed.connect(self._show_chosen)
        self.results.itemActivated.connect(self._take)
        self.subset.textChanged.connect(self._show_chosen)
        self.transfer.changed.connect(self._show_transfer)
        self.transfer.finished.connect(self._use)
        self.take.clicked.connect(self._take)

    def _lay_out(self) -> None:
        asking = QHBoxLayout()
        asking.setSpacing(SPACING)
        asking.addWidget(self.words, 1)
        asking.addWidget(self.button)
        told = QHBoxLayout()
        told.addWidget(self._status, 1)
        told.addWidget(self.suiting)
        set_role(self.take, Role.PRIMARY)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.take, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.reject)
        for button in buttons.findChildren(QPushButton):
            button.setAutoDefault(False)  # Enter in the line searches
        self.button.setAutoDefault(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 2)
        layout.addLayout(asking)
        layout.addLayout(told)
        layout.addWidget(self._busy)
        layout.addWidget(self.strip)
        layout.addWidget(self.results, 1)
        layout.addWidget(self.details)
        layout.addWidget(self.subset)
        layout.addWidget(self.line)
        layout.addWidget(buttons)
        self.strip.hide()

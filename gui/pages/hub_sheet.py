"""The sheet "Models on the Hub": search, see what each is and takes, download, use."""

from msgspec.structs import replace
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core import hub
from core.errors import UserError
from core.events import Level
from core.hub_download import Download
from core.hub_questions import DownloadRequest, Found, Kind
from gui.engine_question import Ask
from gui.pages.hub_details import HubDetails
from gui.pages.hub_results import PARAMETERS, HubResults
from gui.pages.hub_search import HubSearch
from gui.pages.hub_token import TokenSheet
from gui.pages.hub_transfer import HubTransfer, MakeTransfer
from gui.pages.hub_transfer_line import TransferLine
from gui.pages.hub_words import button_words, needs_token
from gui.pausable import State
from gui.theme import SPACING
from gui.widgets.message_strip import MessageStrip
from gui.widgets.roles import Role, set_role

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
        self.setWindowTitle(self.tr("Models on the Hub") if is_model else self.tr("Data on the Hub"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE)
        self.search = HubSearch(ask, kind, self)
        self.transfer = HubTransfer(ask, make, self)
        self.words = QLineEdit()
        self.words.setPlaceholderText(self.tr("Words of a name, such as bert, or a whole id: owner/name"))
        self.words.setAccessibleName(self.tr("Words to search for"))
        self.words.setClearButtonEnabled(True)
        self.button = QPushButton(self.tr("Search"))
        self.suiting = QCheckBox(self.tr("Only what suits “{task}”").format(task=task_title))
        self.suiting.setChecked(True)
        self.suiting.setVisible(is_model and bool(task_title))
        self.subset = QLineEdit()
        self.subset.setPlaceholderText(self.tr("Subset, such as mrpc: empty takes the first"))
        self.subset.setAccessibleName(self.tr("Subset"))
        self.subset.setVisible(not is_model)
        self._status = QLabel()
        set_role(self._status, Role.HINT)
        self._busy = QProgressBar()
        self._busy.setRange(0, 0)
        self._busy.setAccessibleName(self.tr("Searching"))
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
        self.button.setText(self.tr("Stop") if search.is_searching else self.tr("Search"))
        self._show_failure(search.failure)
        is_forbidden = hub.is_forbidden()
        self.button.setEnabled(not is_forbidden)
        self.words.setEnabled(not is_forbidden)
        self._status.setText(self._status_words(is_forbidden=is_forbidden))
        rows = search.answer.found if search.answer is not None else search.here
        if search.is_searching:
            self.results.show_empty(self.tr("Asking {host}…").format(host=hub.host()))
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
            words = self.tr("{what} forbids to ask {host}. On this computer:")
            return words.format(what=hub.forbidden_by(), host=hub.host())
        if answer is None or asked is None:
            words = self.tr(
                "{host} is asked when you press Search, and for nothing before. On this computer:"
            )
            return words.format(host=hub.host())
        words = self.tr("{count} found, the most downloaded first") if answer.found else ""
        return words.format(count=len(answer.found))

    def _empty_words(self, *, is_forbidden: bool) -> str:
        asked = self.search.asked
        if self.search.answer is None or asked is None:
            nothing = self.tr("Nothing of the Hub is on this computer yet.")
            return (
                nothing
                if is_forbidden
                else f"{nothing}\n" + self.tr("Type words of a name and press Search.")
            )
        words = self.tr("Nothing on {host} has “{words}” in its name.")
        if asked.task:
            words = self.tr("Nothing on {host} has “{words}” in its name and suits the task. Untick the box?")
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

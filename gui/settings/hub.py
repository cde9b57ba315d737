"""The cards of Settings about the Hugging Face Hub: working offline, the token, and what lies on this computer."""

import html
from collections.abc import Callable

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QMessageBox,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from core.base import formats
from core.base.errors import UserError
from core.base.language import _
from core.services import hub
from core.services.hub import (
    Account,
    AccountAction,
    AccountRequest,
    Cached,
    CacheReport,
    Kind,
    Removed,
    RemoveRequest,
    TokenPlace,
)
from gui.base.background import Ask, JobTask
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.cards import Card
from gui.widgets.labels import LinkLabel, link_button, text_label
from gui.widgets.layout import hbox, vbox
from gui.widgets.tables import set_up_rows

TOKENS_PAGE = f"{hub.PUBLIC}/settings/tokens"


class TokenPanel(QWidget):
    """Shows where the token is, and keeps another in the keychain.

    Signals:
        kept: A token has been kept.

    Args:
        ask: Starts an engine job.
        parent: Qt's parent.
    """

    kept = Signal()

    def __init__(self, ask: Ask, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._question = JobTask(ask, "hub-account", Account, self)
        self._question.done.connect(self._take)
        self._question.failed.connect(self._fail)
        self._action = AccountAction.LOOK
        self._account = Account()
        self._status = text_label()
        self.line = QLineEdit()
        self.line.setEchoMode(QLineEdit.EchoMode.Password)
        self.line.setPlaceholderText(_("Paste a token: hf_…"))
        self.line.setAccessibleName(_("Token"))
        self.keep = QPushButton(_("Keep in the keychain"))
        self.check = QPushButton(_("Check"))
        self.check.setToolTip(_("Ask the Hub whose token it is"))
        self.remove = QPushButton(_("Remove"))
        self.remove.setToolTip(_("Take the token out of the keychain"))
        make = link_button(_("Make one on the Hub…"), lambda: QDesktopServices.openUrl(QUrl(TOKENS_PAGE)))
        buttons = hbox(self.check, self.remove, make, None)
        self.setLayout(vbox(self._status, hbox((self.line, 1), self.keep), buttons))
        self.line.textChanged.connect(self._show_buttons)
        self.line.returnPressed.connect(self.keep.click)
        self.keep.clicked.connect(self._keep)
        self.check.clicked.connect(lambda: self._put(AccountRequest(action=AccountAction.CHECK)))
        self.remove.clicked.connect(lambda: self._put(AccountRequest(action=AccountAction.REMOVE)))
        self._show_account()

    @property
    def status(self) -> str:
        return self._status.text()

    def look(self) -> None:
        """See where a token is; the Hub isn't asked."""
        self._put(AccountRequest())

    def close_questions(self) -> None:
        """Give up what was asked and wait for its thread."""
        self._question.close()

    def _keep(self) -> None:
        if self.line.text().strip() and self.keep.isEnabled():
            self._put(AccountRequest(action=AccountAction.SAVE, token=self.line.text()))

    def _put(self, request: AccountRequest) -> None:
        self._action = request.action
        self._question.put(request)
        is_check = request.action is AccountAction.CHECK
        self._say(_("Asking {host}…").format(host=hub.host()) if is_check else _("Looking…"))
        self._show_buttons()

    def _take(self, account: Account) -> None:
        self._account = account
        self._show_account()
        if self._action is AccountAction.SAVE:
            self.line.clear()
            self.kept.emit()

    def _fail(self, error: UserError) -> None:
        self._say(". ".join(filter(None, (error.title, error.detail))), Role.WARNING)
        self._show_buttons()

    def _show_account(self) -> None:
        self._say(f"{self._words()} {self._account.refusal}".rstrip())
        self._show_buttons()

    def _words(self) -> str:
        account = self._account
        if account.name:
            return _("The Hub knows it: it is {name}'s.").format(name=account.name)
        match account.place:
            case TokenPlace.KEYCHAIN:
                return _("A token is kept in {keychain}.").format(keychain=account.keychain)
            case TokenPlace.ENVIRONMENT:
                return _("The token in HF_TOKEN is used.")
            case TokenPlace.FILE:
                return _("The token of hf auth login is used.")
            case TokenPlace.NOWHERE:
                return _("No token. Public models need none; gated and private ones do.")

    def _say(self, words: str, role: Role = Role.MUTED) -> None:
        self._status.setText(words)
        set_role(self._status, role)

    def _show_buttons(self) -> None:
        is_idle = not self._question.is_running
        self.keep.setEnabled(is_idle and bool(self.line.text().strip()) and not self._account.refusal)
        self.line.setEnabled(not self._account.refusal)
        self.check.setEnabled(is_idle and self._account.place is not TokenPlace.NOWHERE)
        self.remove.setEnabled(is_idle and self._account.place is TokenPlace.KEYCHAIN)


class TokenSheet(QDialog):
    """Asks for a token before a gated model can be had.

    Args:
        name: The model.
        ask: Starts an engine job.
        parent: Qt's parent.
    """

    def __init__(self, name: str, ask: Ask, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("Sign in to the Hugging Face Hub"))
        self.setMinimumWidth(520)
        words = LinkLabel()
        words.setText(
            _(
                "{name} is open to those who have accepted its terms.<br><br>"
                "1.&nbsp; Open {page}, sign in or make an account, and accept the terms. "
                "Some owners answer themselves, which can take days.<br>"
                "2.&nbsp; Make a token with leave to read, at {tokens}.<br>"
                "3.&nbsp; Paste it here. It goes into this computer's keychain and nowhere else."
            ).format(name=html.escape(name), page=_link(f"{hub.PUBLIC}/{name}"), tokens=_link(TOKENS_PAGE))
        )
        words.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        words.setOpenExternalLinks(True)
        self.panel = TokenPanel(ask)
        self.panel.kept.connect(self.accept)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = vbox(words, self.panel, buttons, spacing=SPACING + 4)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        self.setLayout(layout)
        self.panel.look()

    def done(self, result: int) -> None:
        """Leave nothing asked, and close."""
        self.panel.close_questions()
        super().done(result)


def _link(address: str) -> str:
    shown = html.escape(address)
    return f'<a href="{shown}">{shown}</a>'


MOST_ROWS = 6
"""So many rows are in view; the others are scrolled to."""

Confirm = Callable[[Cached, QWidget], bool]


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
        super().__init__(_("Hugging Face Hub"), parent)
        self.offline = QCheckBox(_("Work offline: ask the Hub for nothing, in no run either"))
        self.offline.clicked.connect(self.offline_chosen)
        self.token = TokenPanel(ask)
        self._is_seen = False
        words = text_label(
            _(
                "It is asked only when you search, download, look up a size, or start a run with a model of it."
            ),
            Role.HINT,
        )
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
        super().__init__(_("From the Hub, on this computer"), parent)
        self._confirm = confirm or ask_whether_to_delete
        self._cached = JobTask(ask, "hub-cached", CacheReport, self)
        self._cached.done.connect(self.show_report)
        self._cached.failed.connect(self._fail)
        self._removing = JobTask(ask, "hub-remove", Removed, self)
        self._removing.done.connect(self._look)
        self._removing.failed.connect(self._fail)
        self._repos: tuple[Cached, ...] = ()
        self.table = _Table()
        self.delete = QPushButton(_("Delete…"))
        self.delete.clicked.connect(self._delete)
        self._words = text_label(role=Role.HINT)
        self.body.addWidget(self.table)
        self.body.addLayout(hbox((self._words, 1), self.delete))
        self.table.itemSelectionChanged.connect(self._show_button)
        self.show_report(CacheReport(folder=""))

    @property
    def words(self) -> str:
        """The sentence below the rows."""
        return self._words.text()

    def showEvent(self, event: QShowEvent) -> None:
        """Look into the cache each time the card comes into view: runs and other programs change it."""
        super().showEvent(event)
        self._look()

    def show_report(self, report: CacheReport) -> None:
        """Show what lies there."""
        self._repos = report.repos
        self.table.show_repos(report.repos)
        self.set_trailing(formats.memory(report.total) if report.repos else "")
        words = _("In {folder}, which other programs use as well.").format(folder=report.folder)
        if not report.repos:
            words = _("Nothing yet: what you download, and what runs fetch, is listed here.")
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
        self.delete.setEnabled(chosen is not None and not self._removing.is_running)
        size = formats.memory(chosen.size + chosen.partial) if chosen is not None else ""
        self.delete.setText(_("Delete {size}…").format(size=size) if size else _("Delete…"))

    def _fail(self, error: UserError) -> None:
        self._words.setText(". ".join(filter(None, (error.title, error.detail))))
        self._show_button()


class _Table(QTableWidget):
    """A row a model or data set; as high as its rows, within reason."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 4, parent)
        self.setHorizontalHeaderLabels([_("Name"), _("Kind"), _("Size"), _("Changed")])
        self.setAccessibleName(_("Models and data of the Hub on this computer"))
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
        kind = _("model") if repo.kind is Kind.MODEL else _("data")
        size = formats.memory(repo.size) if repo.size else ""
        if repo.partial:
            unfinished = _("{size} unfinished").format(size=formats.memory(repo.partial))
            size = f"{size} + {unfinished}" if size else unfinished
        return repo.id, kind, size, formats.moment(repo.changed or None)


def ask_whether_to_delete(repo: Cached, parent: QWidget) -> bool:
    words = _(
        "{size} become free. Other programs that use it would have to download it again, as would Hone."
    )
    title = _("Delete {name} from this computer?").format(name=repo.id)
    box = QMessageBox(QMessageBox.Icon.Question, "", title, parent=parent)
    box.setInformativeText(words.format(size=formats.memory(repo.size + repo.partial)))
    delete = box.addButton(_("Delete"), QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.exec()
    return box.clickedButton() is delete

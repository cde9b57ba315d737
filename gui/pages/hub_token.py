"""The person's token for the Hub: where the one in use is, keeping another, asking whose it is, forgetting it."""

import html

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core import hub
from core.errors import UserError
from core.hub_questions import Account, AccountAction, AccountRequest, TokenPlace
from gui.engine_question import Ask, EngineQuestion
from gui.theme import SPACING
from gui.widgets.link_label import LinkLabel
from gui.widgets.roles import Role, set_role

TOKENS_PAGE = f"{hub.PUBLIC}/settings/tokens"


class TokenPanel(QWidget):
    """Shows and changes the token; it stands nowhere but in its line, until it is kept in the keychain.

    Signals:
        kept: A token has been kept.

    Args:
        ask: Starts an engine job.
        parent: Qt's parent.
    """

    kept = Signal()

    def __init__(self, ask: Ask, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._question = EngineQuestion(ask, "hub-account", Account, self)
        self._question.answered.connect(self._take)
        self._question.failed.connect(self._fail)
        self._action = AccountAction.LOOK
        self._account = Account()
        self._status = QLabel()
        self._status.setWordWrap(True)
        self._status.setTextFormat(Qt.TextFormat.PlainText)
        self.line = QLineEdit()
        self.line.setEchoMode(QLineEdit.EchoMode.Password)
        self.line.setPlaceholderText(self.tr("Paste a token: hf_…"))
        self.line.setAccessibleName(self.tr("Token"))
        self.keep = QPushButton(self.tr("Keep in the keychain"))
        self.check = QPushButton(self.tr("Check"))
        self.check.setToolTip(self.tr("Ask the Hub whose token it is"))
        self.remove = QPushButton(self.tr("Remove"))
        self.remove.setToolTip(self.tr("Take the token out of the keychain"))
        make = QPushButton(self.tr("Make one on the Hub…"))
        set_role(make, Role.LINK)
        make.clicked.connect(self._open_tokens_page)
        self._lay_out(make)
        self.line.textChanged.connect(self._show_buttons)
        self.line.returnPressed.connect(self.keep.click)
        self.keep.clicked.connect(self._keep)
        self.check.clicked.connect(self._check)
        self.remove.clicked.connect(self._remove)
        self._show_account()

    @property
    def status(self) -> str:
        """What is said of the token."""
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

    def _check(self) -> None:
        self._put(AccountRequest(action=AccountAction.CHECK))

    def _remove(self) -> None:
        self._put(AccountRequest(action=AccountAction.REMOVE))

    def _put(self, request: AccountRequest) -> None:
        self._action = request.action
        self._question.put(request)
        self._say(
            self.tr("Asking {host}…").format(host=hub.host())
            if request.action is AccountAction.CHECK
            else self.tr("Looking…")
        )
        self._show_buttons()

    def _take(self, account: Account) -> None:
        self._account = account
        self._show_account()
        if self._action is AccountAction.SAVE:
            self.line.clear()
            self.kept.emit()

    def _fail(self, error: UserError) -> None:
        self._say(". ".join(part for part in (error.title, error.detail) if part), Role.WARNING)
        self._show_buttons()

    def _show_account(self) -> None:
        words = self._words()
        if self._account.refusal:
            words = f"{words} {self._account.refusal}"
        self._say(words)
        self._show_buttons()

    def _words(self) -> str:
        account = self._account
        if account.name:
            return self.tr("The Hub knows it: it is {name}'s.").format(name=account.name)
        match account.place:
            case TokenPlace.KEYCHAIN:
                return self.tr("A token is kept in {keychain}.").format(keychain=account.keychain)
            case TokenPlace.ENVIRONMENT:
                return self.tr("The token in HF_TOKEN is used.")
            case TokenPlace.FILE:
                return self.tr("The token of hf auth login is used.")
            case TokenPlace.NOWHERE:
                return self.tr("No token. Public models need none; gated and private ones do.")

    def _say(self, words: str, role: Role = Role.MUTED) -> None:
        self._status.setText(words)
        set_role(self._status, role)

    def _show_buttons(self) -> None:
        is_idle = not self._question.is_waiting
        self.keep.setEnabled(is_idle and bool(self.line.text().strip()) and not self._account.refusal)
        self.line.setEnabled(not self._account.refusal)
        self.check.setEnabled(is_idle and self._account.place is not TokenPlace.NOWHERE)
        self.remove.setEnabled(is_idle and self._account.place is TokenPlace.KEYCHAIN)

    def _open_tokens_page(self) -> None:
        QDesktopServices.openUrl(QUrl(TOKENS_PAGE))

    def _lay_out(self, make: QPushButton) -> None:
        typing = QHBoxLayout()
        typing.setSpacing(SPACING)
        typing.addWidget(self.line, 1)
        typing.addWidget(self.keep)
        buttons = QHBoxLayout()
        buttons.setSpacing(SPACING)
        buttons.addWidget(self.check)
        buttons.addWidget(self.remove)
        buttons.addWidget(make)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING)
        layout.addWidget(self._status)
        layout.addLayout(typing)
        layout.addLayout(buttons)


class TokenSheet(QDialog):
    """Asks for a token before a gated model can be had.

    Args:
        name: The model.
        ask: Starts an engine job.
        parent: Qt's parent.
    """

    def __init__(self, name: str, ask: Ask, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Sign in to the Hugging Face Hub"))
        self.setMinimumWidth(520)
        words = LinkLabel()
        words.setText(
            self.tr(
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
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(words)
        layout.addWidget(self.panel)
        layout.addWidget(buttons)
        self.panel.look()

    def done(self, result: int) -> None:
        """Leave nothing asked, and close."""
        self.panel.close_questions()
        super().done(result)


def _link(address: str) -> str:
    shown = html.escape(address)
    return f'<a href="{shown}">{shown}</a>'

"""The cards of Settings about the Hugging Face Hub: working offline, the token, and the cache."""

import html

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import QCheckBox, QDialogButtonBox, QLineEdit, QTableWidget, QTableWidgetItem, QWidget

from core.base import formats
from core.base.errors import UserError
from core.base.language import _
from core.jobs import hub as hub_jobs
from core.options import hub
from gui.base.background import Ask, EngineWork
from gui.base.questions import TrashDialog
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.cards import Card
from gui.widgets.labels import LinkLabel, push_button, text_label
from gui.widgets.layout import Sheet, fill_dialog, hbox, vbox
from gui.widgets.tables import set_up_texts

TOKENS_PAGE = f"{hub.PUBLIC}/settings/tokens"


class TokenPanel(QWidget):
    """Shows where the token is, and saves another one in the keychain."""

    saved = Signal()

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask
        self.work: EngineWork[hub_jobs.Account] = EngineWork(
            self, done=self._on_account, failed=self._on_failure
        )
        self._action = hub_jobs.AccountAction.LOOK
        self._account = hub_jobs.Account()
        self.status = text_label()
        self.line = QLineEdit(echoMode=QLineEdit.EchoMode.Password, placeholderText=_("Paste a token: hf_…"))
        self.line.setAccessibleName(_("Token"))
        self.save = push_button(_("Save in the keychain"), lambda: self._put(hub_jobs.AccountAction.SAVE))
        tip = _("Check whether the token is valid, and whose it is")
        self.check = push_button(_("Check"), lambda: self._put(hub_jobs.AccountAction.CHECK), tip)
        tip = _("Delete the token from the keychain")
        self.remove = push_button(_("Remove"), lambda: self._put(hub_jobs.AccountAction.REMOVE), tip)
        create = push_button(_("Create one on the Hub…"), lambda: QDesktopServices.openUrl(QUrl(TOKENS_PAGE)))
        buttons = hbox(self.check, self.remove, create, None)
        self.setLayout(vbox(self.status, hbox((self.line, 1), self.save), buttons))
        self.line.textChanged.connect(self._update_buttons)
        self.line.returnPressed.connect(self.save.click)
        self._show_account()

    def look(self) -> None:
        """Find out where a token is, without asking the Hub."""
        self._put(hub_jobs.AccountAction.LOOK)

    def _put(self, action: hub_jobs.AccountAction) -> None:
        self._action = action
        token = self.line.text() if action is hub_jobs.AccountAction.SAVE else ""
        request = hub_jobs.AccountRequest(action=action, token=token)
        self.work.ask(self._ask, "hub-account", hub_jobs.Account, request)
        is_check = action is hub_jobs.AccountAction.CHECK
        self._show(_("Asking {host}…").format(host=hub.host()) if is_check else _("Reading the keychain…"))

    def _on_account(self, account: hub_jobs.Account) -> None:
        self._account = account
        self._show_account()
        if self._action is hub_jobs.AccountAction.SAVE:
            self.line.clear()
            self.saved.emit()

    def _on_failure(self, error: UserError) -> None:
        self._show(formats.paragraph(error.title, error.detail), Role.WARNING)

    def _show_account(self) -> None:
        self._show(formats.paragraph(self._account.words, self._account.refusal))

    def _show(self, text: str, role: Role = Role.MUTED) -> None:
        self.status.setText(text)
        set_role(self.status, role)
        self._update_buttons()

    def _update_buttons(self) -> None:
        is_idle = not self.work.is_running
        self.save.setEnabled(is_idle and bool(self.line.text().strip()) and not self._account.refusal)
        self.line.setEnabled(not self._account.refusal)
        self.check.setEnabled(is_idle and self._account.place is not hub_jobs.TokenPlace.NOWHERE)
        self.remove.setEnabled(is_idle and self._account.place is hub_jobs.TokenPlace.KEYCHAIN)


class TokenSheet(Sheet):
    """Asks for a token, which the gated model `name` needs."""

    def __init__(self, name: str, ask: Ask, parent: QWidget | None = None) -> None:
        super().__init__(_("Sign in to the Hugging Face Hub"), parent)
        self.setMinimumWidth(520)
        steps = LinkLabel()
        steps.setText(
            _(
                "{name} is open to those who have accepted its terms.<br><br>"
                "1.&nbsp; Open {page}, sign in or create an account, and accept the terms. "
                "Some owners review each request, which can take days.<br>"
                "2.&nbsp; Create a token with read permission at {tokens}.<br>"
                "3.&nbsp; Paste it here. It is saved in this computer's keychain and nowhere else."
            ).format(
                name=html.escape(name), page=link_to(f"{hub.PUBLIC}/{name}"), tokens=link_to(TOKENS_PAGE)
            )
        )
        steps.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        steps.setOpenExternalLinks(True)
        self.panel = TokenPanel(ask)
        self.panel.saved.connect(self.accept)
        set_role(self.panel.save, Role.PRIMARY)
        fill_dialog(self, steps, self.panel, self.button_box(QDialogButtonBox.StandardButton.Close))
        self.panel.line.setFocus()
        self.panel.look()

    def done(self, result: int) -> None:
        self.panel.work.close()
        super().done(result)


def link_to(address: str) -> str:
    """Return a link as rich text, which shows the address."""
    address = html.escape(address)
    return f'<a href="{address}">{address.removeprefix("https://")}</a>'


class HubCard(Card):
    """Working offline, and the token."""

    offline_chosen = Signal(bool)

    def __init__(self, ask: Ask) -> None:
        super().__init__(_("Hugging Face Hub"))
        self.offline = QCheckBox(_("Work offline (never contact the Hub)"))
        self.offline.clicked.connect(self.offline_chosen)
        self.token = TokenPanel(ask)
        self._is_seen = False
        text = _(
            "Hone contacts the Hub only when you search, download, look up a size, or start a run that uses its models."
        )
        self.body.addWidget(self.offline)
        self.body.addWidget(text_label(text, Role.HINT))
        self.body.addSpacing(SPACING)
        self.body.addWidget(self.token)

    def showEvent(self, event: QShowEvent) -> None:
        """Find out where a token is, once, without asking the Hub."""
        super().showEvent(event)
        if not self._is_seen:
            self._is_seen = True
            self.token.look()


MOST_ROWS = 6
"""How many rows are visible without scrolling."""


class CacheCard(Card):
    """What is in the Hub's cache, with Delete."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(_("Downloaded from the Hub"))
        self._ask = ask
        self._reading: EngineWork[hub_jobs.CacheReport] = EngineWork(
            self, done=self.show_report, failed=self._on_failure
        )
        self._removing: EngineWork[hub_jobs.Removed] = EngineWork(
            self, done=self._read, failed=self._on_failure
        )
        self._repos: tuple[hub_jobs.Cached, ...] = ()
        self.question = TrashDialog(self)
        self.table = QTableWidget()
        titles = (_("Name"), _("Kind"), _("Size"), _("Changed"))
        set_up_texts(self.table, _("Models and data of the Hub on this computer"), titles)
        self.delete = push_button(pressed=self._on_delete)
        self.text = text_label(role=Role.HINT)
        self.body.addWidget(self.table)
        self.body.addLayout(hbox((self.text, 1), self.delete))
        self.table.itemSelectionChanged.connect(self._update_button)
        self.show_report(hub_jobs.CacheReport(folder=""))

    def showEvent(self, event: QShowEvent) -> None:
        """Read the cache each time the card is shown: runs and other programs change it."""
        super().showEvent(event)
        self._read()

    def show_report(self, report: hub_jobs.CacheReport) -> None:
        self._repos = report.repos
        table, count = self.table, len(report.repos)
        table.setVisible(bool(count))
        table.setRowCount(count)
        for row, repo in enumerate(report.repos):
            for column, text in enumerate(_cells(repo)):
                table.setItem(row, column, QTableWidgetItem(text))
        rows = min(count, MOST_ROWS) * table.verticalHeader().defaultSectionSize()
        table.setFixedHeight(table.horizontalHeader().sizeHint().height() + rows + 2 * table.frameWidth() + 2)
        self.set_trailing(formats.memory(report.total) if count else "")
        text = _("In {folder}, which other programs use as well.").format(folder=report.folder)
        if not count:
            text = _("Nothing downloaded yet.")
        self.text.setText(text)
        self._update_button()

    def close_work(self) -> None:
        self._reading.close()
        self._removing.close()

    @property
    def _chosen(self) -> hub_jobs.Cached | None:
        rows = self.table.selectionModel().selectedRows()
        return self._repos[rows[0].row()] if rows else None

    def _read(self) -> None:
        self._reading.ask(self._ask, "hub-cached", hub_jobs.CacheReport)

    def _on_delete(self) -> None:
        repo = self._chosen
        if repo is None:
            return

        def delete() -> None:
            request = hub_jobs.RemoveRequest(id=repo.id, kind=repo.kind)
            self._removing.ask(self._ask, "hub-remove", hub_jobs.Removed, request)
            self._update_button()

        title = _("Delete {name} from this computer?").format(name=repo.id)
        text = _("This frees {size}. Hone and other programs that use it would have to download it again.")
        self.question.ask(
            title, text.format(size=formats.memory(repo.size + repo.partial)), _("Delete"), delete
        )

    def _update_button(self) -> None:
        repo = self._chosen
        self.delete.setVisible(bool(self._repos))
        self.delete.setEnabled(repo is not None and not self._removing.is_running)
        text = _("Delete…")
        if repo is not None:
            text = _("Delete {size}…").format(size=formats.memory(repo.size + repo.partial))
        self.delete.setText(text)

    def _on_failure(self, error: UserError) -> None:
        self.text.setText(formats.paragraph(error.title, error.detail))
        self._update_button()


def _cells(repo: hub_jobs.Cached) -> tuple[str, ...]:
    kind = _("model") if repo.kind is hub.RepoKind.MODEL else _("data")
    sizes = [formats.memory(repo.size)] if repo.size else []
    if repo.partial:
        sizes.append(_("{size} unfinished").format(size=formats.memory(repo.partial)))
    return repo.id, kind, " + ".join(sizes), formats.moment(repo.changed or None)

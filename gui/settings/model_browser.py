"""Finding a model or data set on the Hub: search, facts about each, download, use."""

from collections.abc import Sequence

from msgspec.structs import replace
from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialogButtonBox,
    QFrame,
    QLineEdit,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from core.base import formats
from core.base.errors import UserError
from core.base.formats import MISSING, paragraph
from core.base.language import _
from core.jobs import hub as hub_jobs
from core.options import hub
from gui.base.background import Ask, EngineWork
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.settings.download import Download, DownloadLine
from gui.settings.hub import TokenSheet
from gui.widgets.bars import progress_bar
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import ElidedLabel, link_button, push_button, role_label, text_label
from gui.widgets.layout import Sheet, fill_dialog, hbox, vbox
from gui.widgets.tables import Index, set_up_texts


def state_text(found: hub_jobs.Found) -> str:
    """Return in a few letters whether it is here, gated or can't be used."""
    if found.refusal:
        return _("can't be used")
    if found.complete:
        return _("✓ downloaded")
    if found.here and found.size:
        share = formats.whole_percent(min(0.99, found.here / found.size))
        return _("{share} downloaded").format(share=share)
    if found.here:
        return _("{size} downloaded").format(size=formats.memory(found.here))
    if found.gated:
        return _("gated")
    return _("private") if found.private else ""


def button_text(found: hub_jobs.Found | None, *, signed_in: bool) -> str:
    if found is None or found.complete:
        return _("Use")
    if found.refusal:
        return _("Can't be used")
    if needs_token(found, signed_in=signed_in):
        return _("Sign in first…")
    if found.size is None or found.kind is hub.RepoKind.DATASET:  # a subset may be all that is downloaded
        return _("Download and use")
    if found.here:
        rest = formats.memory(max(0, found.size - found.here))
        return _("Download the remaining {size} and use").format(size=rest)
    return _("Download {size} and use").format(size=formats.memory(found.size))


def needs_token(found: hub_jobs.Found, *, signed_in: bool) -> bool:
    """Whether downloading it needs a token that isn't there."""
    return found.gated and not signed_in and not found.complete and not found.refusal


def explanation(found: hub_jobs.Found, *, signed_in: bool) -> str:
    """Return what to know before pressing the button, except why it is refused."""
    if found.refusal:
        return found.remedy
    if found.complete:
        return _("Already downloaded. No network is needed.")
    text = _("Downloads data files (Parquet, CSV, JSON) from {host}, never code.")
    if found.kind is hub.RepoKind.MODEL:
        text = _("Downloads weights (safetensors), configuration and tokenizer from {host}, never code.")
    text = text.format(host=hub.host())
    if not found.gated:
        return text
    terms = _("Its owner asks you to accept terms. Open its page, sign in and accept them.")
    if not signed_in:
        terms = paragraph(terms, _("Then enter your token in Hone."))
    return f"{terms}\n{text}"


class HubDetails(QFrame):
    """Facts about the chosen model or data set; hidden if none is chosen."""

    def __init__(self) -> None:
        super().__init__()
        set_role(self, Role.CARD)
        self._found: hub_jobs.Found | None = None
        self._name, self._facts = ElidedLabel(role=Role.STRONG), role_label(Role.MUTED)
        self.page = link_button(_("Open its page"), self._open_page)
        self.refusal = text_label(role=Role.WARNING)
        self.text = text_label(role=Role.MUTED, selectable=True)
        layout = vbox(
            hbox((self._name, 1), self._facts, self.page),
            self.refusal,
            self.text,
            spacing=SPACING // 2,
        )
        layout.setContentsMargins(2 * SPACING, SPACING, SPACING, SPACING + 2)
        self.setLayout(layout)
        self.hide()

    def show_found(self, found: hub_jobs.Found | None, *, signed_in: bool) -> None:
        self._found = found
        self.setVisible(found is not None)
        if found is None:
            return
        self._name.setText(found.id)
        licence = _("licence {name}").format(name=found.licence) if found.licence else ""
        self._facts.setText(formats.in_line(found.purpose.replace("-", " "), licence))
        for label, text in (
            (self.refusal, found.refusal),
            (self.text, explanation(found, signed_in=signed_in)),
        ):
            label.setText(text)
            label.setVisible(bool(text))

    def _open_page(self) -> None:
        if self._found is not None:
            QDesktopServices.openUrl(QUrl(hub.page_of(self._found.id, self._found.kind)))


NAME, PARAMETERS, LICENCE, STATE = 0, 2, 5, 6
REFUSED = Qt.ItemDataRole.UserRole
GREYED = 0.45
"""Opacity of what can't be used."""


class _Greying(QStyledItemDelegate):
    """Paints what can't be used paler."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802 - Qt's name
        super().initStyleOption(option, index)
        if index.data(REFUSED):
            colour = option.palette.color(QPalette.ColorRole.Text)
            colour.setAlphaF(GREYED)
            for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
                option.palette.setColor(role, colour)


class HubResults(QTableWidget):
    """The results of a search, one of which is chosen, or a sentence if there are none."""

    chosen_changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.found: tuple[hub_jobs.Found, ...] = ()
        titles = (_("Name"), _("Size"), _("Parameters"), _("Downloads"), _("Likes"), _("Licence"), "")
        set_up_texts(self, _("Results"), titles, widest=NAME)
        last = (_("In the last 30 days"), Qt.ItemDataRole.ToolTipRole)
        self.model().setHeaderData(3, Qt.Orientation.Horizontal, *last)
        self.setItemDelegate(_Greying(self))
        self.empty = text_label(role=Role.MUTED)
        self.empty.setParent(self.viewport())
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.itemSelectionChanged.connect(self.chosen_changed)

    @property
    def chosen(self) -> hub_jobs.Found | None:
        rows = self.selectionModel().selectedRows()
        return self.found[rows[0].row()] if rows else None

    def show_found(self, found: Sequence[hub_jobs.Found], empty: str = "") -> None:
        """Show results, or a sentence if there are none; the chosen one stays chosen, else the first is."""
        before = self.chosen
        self.found = tuple(found)
        self.setRowCount(len(found))
        for row, item in enumerate(found):
            for column, text in enumerate(_cells(item)):
                cell = QTableWidgetItem(text)
                cell.setToolTip(item.refusal or (item.id if column == NAME else ""))
                if column not in (NAME, LICENCE, STATE):
                    cell.setTextAlignment(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
                cell.setData(REFUSED, bool(item.refusal))
                self.setItem(row, column, cell)
        names = [item.id for item in found]
        if found:
            self.selectRow(names.index(before.id) if before is not None and before.id in names else 0)
            self.scrollToTop()
        self.empty.setText(empty)
        self.empty.setVisible(not found)
        self._fit_empty()
        self.chosen_changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_empty()

    def _fit_empty(self) -> None:
        margin = 6 * SPACING
        self.empty.setGeometry(self.viewport().rect().adjusted(margin, 0, -margin, 0))


def _cells(found: hub_jobs.Found) -> tuple[str, ...]:
    parameters = MISSING if found.parameters is None else formats.compact_count(found.parameters)
    return (
        found.id,
        formats.memory(found.size),
        parameters,
        formats.count(found.downloads),
        formats.count(found.likes),
        found.licence or MISSING,
        state_text(found),
    )


SIZE = (880, 620)


class HubSheet(Sheet):
    """Finds a model or data set on the Hub; closing it pauses a download.

    `answer` is that of the last search, `here` what is on this computer.

    Args:
        task: Hone's task, as in a run file; empty for any.
    """

    chosen = Signal(str)  # the id of what is here now and to be used; `owner/name/subset` with a subset

    def __init__(
        self,
        ask: Ask,
        parent: QWidget | None = None,
        *,
        task: str = "",
        task_title: str = "",
        kind: hub.RepoKind = hub.RepoKind.MODEL,
    ) -> None:
        is_model = kind is hub.RepoKind.MODEL
        super().__init__(_("Models on the Hub") if is_model else _("Data on the Hub"), parent)
        self._ask, self._task, self._kind = ask, task, kind
        self.resize(*SIZE)
        self._search: EngineWork[hub_jobs.SearchAnswer] = EngineWork(
            self, done=self._on_answer, failed=self._on_failure
        )
        self._cached: EngineWork[hub_jobs.CacheReport] = EngineWork(self, done=self._on_cached)
        self._request: hub_jobs.SearchRequest | None = None
        self.answer: hub_jobs.SearchAnswer | None = None
        self.here: tuple[hub_jobs.Found, ...] = ()
        self.download = Download(ask, self)
        self.words = QLineEdit(placeholderText=_("Name, such as bert, or full ID: owner/name"))
        self.words.setAccessibleName(_("Search the Hub"))
        self.words.setClearButtonEnabled(True)
        self.button = push_button(_("Search"), self._search_or_stop)
        self.suiting = QCheckBox(_("Only for “{task}”").format(task=task_title))
        self.suiting.setChecked(True)
        self.suiting.setVisible(is_model and bool(task_title))
        self.subset = QLineEdit(placeholderText=_("Subset, such as mrpc; if empty, the first one"))
        self.subset.setAccessibleName(_("Subset"))
        self.subset.setVisible(not is_model)
        self.status = role_label(Role.HINT)
        self._busy = progress_bar(_("Searching"))
        self.strip = MessageStrip()
        self.results = HubResults()
        self.results.setColumnHidden(PARAMETERS, not is_model)
        self.details = HubDetails()
        self.line = DownloadLine(self.download)
        self.use = push_button(pressed=self._on_use, role=Role.PRIMARY)
        self.token: TokenSheet | None = None
        self._lay_out()
        self._connect()
        self._refresh()
        self._read_cache()
        self.words.setFocus()

    @property
    def is_searching(self) -> bool:
        return self._search.is_running

    @property
    def _signed_in(self) -> bool:
        return self.answer is not None and self.answer.signed_in

    def done(self, result: int) -> None:
        for work in (self._search, self._cached, self.download):
            work.close()
        super().done(result)

    def _read_cache(self) -> None:
        self._cached.ask(self._ask, "hub-cached", hub_jobs.CacheReport)

    def _search_or_stop(self) -> None:
        if self.is_searching:
            self._search.cancel()
            self._refresh()
        elif not hub.is_forbidden():
            task = self._task if self.suiting.isChecked() else ""
            self._put(hub_jobs.SearchRequest(words=self.words.text(), kind=self._kind, task=task))

    def _search_again(self) -> None:
        if self._request is not None:
            self._put(replace(self._request, task=self._task if self.suiting.isChecked() else ""))

    def _put(self, request: hub_jobs.SearchRequest) -> None:
        self._request = request
        self._search.ask(self._ask, "hub-search", hub_jobs.SearchAnswer, request)
        self.strip.hide()
        self._refresh()

    def _on_answer(self, answer: hub_jobs.SearchAnswer | None) -> None:
        self.answer = answer
        self._refresh()

    def _on_failure(self, error: UserError) -> None:
        self.strip.show_error(error)
        self._on_answer(None)

    def _on_cached(self, report: hub_jobs.CacheReport) -> None:
        self.here = tuple(
            hub_jobs.Found(
                id=repo.id,
                kind=repo.kind,
                size=repo.size if repo.complete else None,
                here=repo.size + repo.partial,
                complete=repo.complete,
            )
            for repo in report.repos
            if repo.kind is self._kind
        )
        self._refresh()

    def _on_use(self) -> None:
        found = self.results.chosen
        if found is None or not self.use.isEnabled():  # a double click does no more than the button
            return
        request = hub_jobs.DownloadRequest(id=found.id, kind=found.kind, subset=self.subset.text().strip())
        if self._is_at_hand(found):
            self._finish(request)
        elif needs_token(found, signed_in=self._signed_in):
            self.token = TokenSheet(found.id, self._ask, self)
            self.token.panel.saved.connect(self._read_cache)
            self.token.panel.saved.connect(self._search_again)
            self.token.open()
        else:
            self.download.start(request)

    def _is_at_hand(self, found: hub_jobs.Found) -> bool:
        """Whether nothing has to be downloaded; only the download knows which subsets of a data set are here."""
        return found.complete and (not self.subset.text().strip() or hub.is_forbidden())

    def _finish(self, request: hub_jobs.DownloadRequest) -> None:
        self.chosen.emit("/".join(filter(None, (request.id, request.subset))))
        self.accept()

    def _refresh(self) -> None:
        is_allowed = not hub.is_forbidden()
        self._busy.setVisible(self.is_searching)
        self.button.setText(_("Stop") if self.is_searching else _("Search"))
        self.button.setEnabled(is_allowed)
        self.words.setEnabled(is_allowed)
        self.status.setText(self._status_text())
        if self.is_searching:
            self.results.show_found((), _("Searching {host}…").format(host=hub.host()))
        else:
            self.results.show_found(
                self.here if self.answer is None else self.answer.found, self._empty_text()
            )

    def _status_text(self) -> str:
        if by := hub.forbidden_by():
            return _("{what} blocks access to {host}. On this computer:").format(what=by, host=hub.host())
        if self.answer is None:
            return _("Nothing is sent until you press Search. On this computer:")
        count = len(self.answer.found)
        return _("{count} found, most downloads first").format(count=count) if count else ""

    def _empty_text(self) -> str:
        if self.answer is None or self._request is None:
            if hub.is_forbidden():
                return _("Nothing downloaded from the Hub yet.")
            return _("Nothing downloaded from the Hub yet.\nType a name and press Search.")
        text = _("No results for “{words}” on {host}.")
        if self._request.task:
            text = _("No results for “{words}” that fit the task. Clear the checkbox to search for all.")
        return text.format(host=hub.host(), words=self._request.words)

    def _show_chosen(self) -> None:
        found, signed_in = self.results.chosen, self._signed_in
        self.details.show_found(found, signed_in=signed_in)
        shown = replace(found, complete=self._is_at_hand(found)) if found is not None else None
        self.use.setText(button_text(shown, signed_in=signed_in))
        is_allowed = found is not None and (found.complete or not hub.is_forbidden()) and not found.refusal
        self.use.setEnabled(is_allowed and not self.download.is_running)

    def _show_download(self) -> None:
        if self.download.failure is not None:
            self.strip.show_error(self.download.failure)
        elif self.download.is_running:
            self.strip.hide()
        self._show_chosen()

    def _connect(self) -> None:
        self.words.returnPressed.connect(self._search_or_stop)
        self.suiting.toggled.connect(self._search_again)
        self.results.chosen_changed.connect(self._show_chosen)
        self.results.itemActivated.connect(self._on_use)
        self.subset.textChanged.connect(self._show_chosen)
        self.download.changed.connect(self._show_download)
        self.download.finished.connect(self._finish)

    def _lay_out(self) -> None:
        buttons = self.button_box(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.use, QDialogButtonBox.ButtonRole.AcceptRole)
        fill_dialog(
            self,
            hbox((self.words, 1), self.button),
            hbox((self.status, 1), self.suiting),
            self._busy,
            self.strip,
            (self.results, 1),
            self.details,
            self.subset,
            self.line,
            buttons,
        )

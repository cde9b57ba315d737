"""Finding a model or data set on the Hub: search, see what each is and takes, download, use."""

from collections.abc import Sequence

from msgspec.structs import replace
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QHeaderView,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from core.base import formats
from core.base.errors import UserError
from core.base.formats import MISSING
from core.base.language import _
from core.services import hub
from core.services.hub import CacheReport, DownloadRequest, Found, Kind, SearchAnswer, SearchRequest
from gui.base.background import Ask, JobTask
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.settings.download import Download, DownloadLine
from gui.settings.hub import TokenSheet
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import ElidedLabel, link_button, text_label
from gui.widgets.layout import hbox, vbox
from gui.widgets.tables import set_up_rows


def state_text(found: Found) -> str:
    """In a few letters: here, partly here, gated, can't be used."""
    if found.refusal:
        return _("can't be used")
    if found.complete:
        return _("✓ here")
    if found.here and found.size:
        share = formats.whole_percent(min(0.99, found.here / found.size))
        return _("{share} here").format(share=share)
    if found.here:
        return _("{size} here").format(size=formats.memory(found.here))
    if found.gated:
        return _("gated")
    return _("private") if found.private else ""


def button_text(found: Found | None, *, signed_in: bool) -> str:
    """What pressing the button does."""
    if found is None or found.complete:
        return _("Use")
    if found.refusal:
        return _("Can't be used")
    if needs_token(found, signed_in=signed_in):
        return _("Sign in first…")
    if found.size is None or found.kind is Kind.DATASET:  # of which a subset may be all that comes
        return _("Download and use")
    if found.here:
        rest = formats.memory(max(0, found.size - found.here))
        return _("Download the other {size} and use").format(size=rest)
    return _("Download {size} and use").format(size=formats.memory(found.size))


def needs_token(found: Found, *, signed_in: bool) -> bool:
    """Whether a token has to be given before it can be had."""
    return found.gated and not signed_in and not found.complete and not found.refusal


def explanation(found: Found, *, signed_in: bool) -> str:
    """What to know of it before pressing the button, its refusal aside."""
    if found.refusal:
        return found.remedy
    if found.complete:
        return _("It is on this computer: using it needs no network.")
    words = (
        _("Fetches its weights (safetensors), config and tokenizer from {host}; no code.")
        if found.kind is Kind.MODEL
        else _("Fetches its rows (Parquet, CSV, JSON) from {host}; no code.")
    ).format(host=hub.host())
    if not found.gated:
        return words
    terms = _(
        "Its owner lets in only who has accepted its terms: open its page, sign in there, and accept them."
    )
    if not signed_in:
        terms += " " + _("Then give Hone a token of yours.")
    return f"{terms}\n{words}"


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
        self.page = link_button(_("Open its page"), self._open_page)
        self._refusal = text_label(role=Role.WARNING)
        self._words = text_label(role=Role.MUTED, selectable=True)
        self._command = QLineEdit()
        self._command.setReadOnly(True)
        self._command.setAccessibleName(_("Command that converts it"))
        self._copy = QPushButton(_("Copy"))
        self._copy.setAccessibleName(_("Copy the command"))
        self._copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._command.text()))
        layout = vbox(
            hbox((self._name, 1), self._facts, self.page),
            self._refusal,
            self._words,
            hbox((self._command, 1), self._copy),
            spacing=SPACING // 2,
        )
        layout.setContentsMargins(2 * SPACING, SPACING, SPACING, SPACING + 2)
        self.setLayout(layout)
        self.show_found(None, signed_in=False)

    @property
    def words(self) -> str:
        return "\n".join(filter(None, (self._refusal.text(), self._words.text())))

    def show_found(self, found: Found | None, *, signed_in: bool) -> None:
        self._found = found
        self.setVisible(found is not None)
        if found is None:
            return
        self._name.setText(found.id)
        licence = _("licence {name}").format(name=found.licence) if found.licence else ""
        self._facts.setText(" · ".join(filter(None, (found.purpose.replace("-", " "), licence))))
        for label, words in (
            (self._refusal, found.refusal),
            (self._words, explanation(found, signed_in=signed_in)),
        ):
            label.setText(words)
            label.setVisible(bool(words))
        for widget in (self._command, self._copy):
            widget.setVisible(bool(found.command))
        self._command.setText(found.command)
        self._command.setCursorPosition(0)

    def _open_page(self) -> None:
        if self._found is not None:
            folder = "" if self._found.kind is Kind.MODEL else "datasets/"
            QDesktopServices.openUrl(QUrl(f"{hub.PUBLIC}/{folder}{self._found.id}"))


# --- The table of what was found


NAME, PARAMETERS, LICENCE, STATE = 0, 2, 5, 6
REFUSED = Qt.ItemDataRole.UserRole
GREYED = 0.45
"""Opacity of what can't be used."""

Index = QModelIndex | QPersistentModelIndex


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
    """A row for each one found, one of which is chosen, and a sentence where there are none.

    Signals:
        chosen_changed: Another row is chosen, or none.
    """

    chosen_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 7, parent)
        self.found: tuple[Found, ...] = ()
        titles = (_("Name"), _("Size"), _("Parameters"), _("Downloads"), _("Likes"), _("Licence"), "")
        self.setHorizontalHeaderLabels(titles)
        downloads = self.horizontalHeaderItem(3)
        assert downloads is not None
        downloads.setToolTip(_("In the last 30 days"))
        self.setAccessibleName(_("What was found"))
        set_up_rows(self)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        self.setItemDelegate(_Greying(self))
        self._empty = text_label(role=Role.MUTED)
        self._empty.setParent(self.viewport())
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.itemSelectionChanged.connect(self.chosen_changed)

    @property
    def chosen(self) -> Found | None:
        rows = self.selectionModel().selectedRows()
        return self.found[rows[0].row()] if rows else None

    @property
    def empty_words(self) -> str:
        """The sentence in place of rows."""
        return "" if self._empty.isHidden() else self._empty.text()

    def show_found(self, found: Sequence[Found], empty: str = "") -> None:
        """Show these rows, or a sentence where there are none; the row that was chosen stays so, else the first is."""
        before = self.chosen
        self.found = tuple(found)
        self.setRowCount(len(found))
        for number, one in enumerate(found):
            for place, words in enumerate(_cells(one)):
                item = QTableWidgetItem(words)
                item.setToolTip(one.refusal or (one.id if place == NAME else ""))
                if place not in (NAME, LICENCE, STATE):
                    item.setTextAlignment(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
                item.setData(REFUSED, bool(one.refusal))
                self.setItem(number, place, item)
        names = [one.id for one in found]
        if found:
            self.selectRow(names.index(before.id) if before is not None and before.id in names else 0)
            self.scrollToTop()
        self._empty.setText(empty)
        self._empty.setVisible(not found)
        self._fit_empty()
        self.chosen_changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_empty()

    def _fit_empty(self) -> None:
        margin = 6 * SPACING
        self._empty.setGeometry(self.viewport().rect().adjusted(margin, 0, -margin, 0))


def _cells(found: Found) -> tuple[str, ...]:
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


# --- The dialog


SIZE = (880, 620)


class HubSheet(QDialog):
    """Finds a model or data set on the Hub; closing it pauses a download.

    `answer` is that of the last search, None before one; `here` is what lies on this computer.

    Signals:
        chosen: The id of what is on this computer now, to be used; of a data set with its subset (`owner/name/subset`).

    Args:
        ask: Starts an engine job.
        parent: Qt's parent.
        task: Hone's task, as a run file says it; empty: any.
        task_title: The same in words.
        kind: Models or data sets.
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
    ) -> None:
        super().__init__(parent)
        self._ask, self._task, self._kind = ask, task, kind
        is_model = kind is Kind.MODEL
        self.setWindowTitle(_("Models on the Hub") if is_model else _("Data on the Hub"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE)
        self._search = JobTask(ask, "hub-search", SearchAnswer, self)
        self._cached = JobTask(ask, "hub-cached", CacheReport, self)
        self._asked: SearchRequest | None = None
        self.answer: SearchAnswer | None = None
        self.here: tuple[Found, ...] = ()
        self.download = Download(ask, self)
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
        self.strip.hide()
        self.results = HubResults()
        self.results.setColumnHidden(PARAMETERS, not is_model)
        self.details = HubDetails()
        self.line = DownloadLine(self.download)
        self.take = QPushButton()
        set_role(self.take, Role.PRIMARY)
        self.token: TokenSheet | None = None
        self._lay_out()
        self._connect()
        self._refresh()
        self._cached.put()
        self.words.setFocus()

    @property
    def status(self) -> str:
        """What is said above the rows."""
        return self._status.text()

    @property
    def is_searching(self) -> bool:
        return self._search.is_running

    @property
    def _signed_in(self) -> bool:
        return self.answer is not None and self.answer.signed_in

    def done(self, result: int) -> None:
        """Pause what is under way, and close."""
        for task in (self._search, self._cached, self.download):
            task.close()
        super().done(result)

    def _search_or_stop(self) -> None:
        if self.is_searching:
            self._search.cancel()
            self._refresh()
        elif not hub.is_forbidden():
            task = self._task if self.suiting.isChecked() else ""
            self._put(SearchRequest(words=self.words.text(), kind=self._kind, task=task))

    def _search_anew(self) -> None:
        if self._asked is not None:
            self._put(replace(self._asked, task=self._task if self.suiting.isChecked() else ""))

    def _put(self, request: SearchRequest) -> None:
        self._asked = request
        self._search.put(request)
        self.strip.hide()
        self._refresh()

    def _on_answer(self, answer: SearchAnswer | None) -> None:
        self.answer = answer
        self._refresh()

    def _fail(self, error: UserError) -> None:
        self.strip.show_error(error)
        self._on_answer(None)

    def _on_cached(self, report: CacheReport) -> None:
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
        self._refresh()

    def _take(self) -> None:
        found = self.results.chosen
        if found is None or not self.take.isEnabled():  # a double click takes no more than the button does
            return
        request = DownloadRequest(id=found.id, kind=found.kind, subset=self.subset.text().strip())
        if self._is_at_hand(found):
            self._use(request)
        elif needs_token(found, signed_in=self._signed_in):
            self.token = TokenSheet(found.id, self._ask, self)
            self.token.panel.kept.connect(self._cached.put)
            self.token.panel.kept.connect(self._search_anew)
            self.token.open()
        else:
            self.download.start(request)

    def _is_at_hand(self, found: Found) -> bool:
        """Whether nothing has to be fetched; which subsets of a data set are here, its download finds out."""
        return found.complete and (not self.subset.text().strip() or hub.is_forbidden())

    def _use(self, request: DownloadRequest) -> None:
        self.chosen.emit("/".join(filter(None, (request.id, request.subset))))
        self.accept()

    def _refresh(self) -> None:
        is_allowed = not hub.is_forbidden()
        self._busy.setVisible(self.is_searching)
        self.button.setText(_("Stop") if self.is_searching else _("Search"))
        self.button.setEnabled(is_allowed)
        self.words.setEnabled(is_allowed)
        self._status.setText(self._status_text())
        if self.is_searching:
            self.results.show_found((), _("Asking {host}…").format(host=hub.host()))
        else:
            self.results.show_found(
                self.here if self.answer is None else self.answer.found, self._empty_text()
            )

    def _status_text(self) -> str:
        if by := hub.forbidden_by():
            words = _("{what} forbids to ask {host}. On this computer:")
            return words.format(what=by, host=hub.host())
        if self.answer is None:
            words = _("{host} is asked when you press Search, and for nothing before. On this computer:")
            return words.format(host=hub.host())
        count = len(self.answer.found)
        return _("{count} found, the most downloaded first").format(count=count) if count else ""

    def _empty_text(self) -> str:
        if self.answer is None or self._asked is None:
            nothing = _("Nothing of the Hub is on this computer yet.")
            return (
                nothing
                if hub.is_forbidden()
                else f"{nothing}\n" + _("Type words of a name and press Search.")
            )
        words = _("Nothing on {host} has “{words}” in its name.")
        if self._asked.task:
            words = _("Nothing on {host} has “{words}” in its name and suits the task. Untick the box?")
        return words.format(host=hub.host(), words=self._asked.words)

    def _show_chosen(self) -> None:
        found, signed_in = self.results.chosen, self._signed_in
        self.details.show_found(found, signed_in=signed_in)
        shown = replace(found, complete=self._is_at_hand(found)) if found is not None else None
        self.take.setText(button_text(shown, signed_in=signed_in))
        is_allowed = found is not None and (found.complete or not hub.is_forbidden()) and not found.refusal
        self.take.setEnabled(is_allowed and not self.download.is_running)

    def _show_download(self) -> None:
        if self.download.failure is not None:
            self.strip.show_error(self.download.failure)
        elif self.download.is_running:
            self.strip.hide()
        self._show_chosen()

    def _connect(self) -> None:
        self._search.done.connect(self._on_answer)
        self._search.failed.connect(self._fail)
        self._cached.done.connect(self._on_cached)
        self.button.clicked.connect(self._search_or_stop)
        self.words.returnPressed.connect(self._search_or_stop)
        self.suiting.toggled.connect(self._search_anew)
        self.results.chosen_changed.connect(self._show_chosen)
        self.results.itemActivated.connect(self._take)
        self.subset.textChanged.connect(self._show_chosen)
        self.download.changed.connect(self._show_download)
        self.download.finished.connect(self._use)
        self.take.clicked.connect(self._take)

    def _lay_out(self) -> None:
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.take, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.reject)
        for button in (*buttons.findChildren(QPushButton), self.button):
            button.setAutoDefault(False)  # Enter in the line searches
        layout = vbox(
            hbox((self.words, 1), self.button),
            hbox((self._status, 1), self.suiting),
            self._busy,
            self.strip,
            (self.results, 1),
            self.details,
            self.subset,
            self.line,
            buttons,
            spacing=SPACING + 2,
        )
        layout.setContentsMargins(*[2 * SPACING] * 4)
        self.setLayout(layout)

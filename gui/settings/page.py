"""The device check: asks the engine whether the device computes what the CPU does, and shows the answer as a table."""

import html
import platform
from gettext import gettext as _
from importlib import metadata
from pathlib import Path

import msgspec
import PySide6
from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QProgressBar,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from core.base.errors import UserError
from core.base.formats import MISSING, memory
from core.base.settings import REPOSITORY, VERSION, Appearance, Settings, home, runs_folder
from core.options.catalogue import plain_number
from core.options.choices import device_title
from core.options.device_support import DeviceReport, MachineReport
from core.runs.events import Level
from core.services.devices import Agreement, Comparison, DeviceCheckReport, DeviceCheckRequest
from core.services.hub import ADDRESS, API, Release, ReleaseRequest
from core.services.hub import ReleaseStanding as Standing
from gui.base.background import Ask, JobTask, ask_real_engine
from gui.base.theme import Role, set_role
from gui.base.tokens import GUTTER, PAGE_MARGINS, SPACING
from gui.base.trash import reveal
from gui.settings.gpu_install import GpuCard, GpuInstaller
from gui.settings.hub import CacheCard, HubCard
from gui.widgets.cards import Card, MessageStrip
from gui.widgets.form_row import label_width
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.labels import LinkLabel, margins
from gui.widgets.layout import PageScroll
from gui.widgets.tables import KeyValue

# --- The device check: asks the engine whether the device computes what the CPU does


SIZE_WAITING = (560, 150)
SIZE_ANSWERED = (860, 600)
CELL_PADDING = 3 * SPACING
"""Room within a cell that Qt does not count when it measures wrapped texts, on both sides together."""
LAST_COLUMN = 3


class DeviceCheckDialog(QDialog):
    """Begins at once; closing it ends the check.

    Args:
        ask: Starts an engine job.
        device: The device as in `device.name`.
        parent: Qt's parent.
    """

    def __init__(self, ask: Ask, device: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(_("Device check"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE_WAITING)
        self._question = JobTask(ask, "check-device", DeviceCheckReport, self)
        self._question.done.connect(self._show_report)
        self._question.failed.connect(self._show_failure)
        self._words = QLabel(
            _(
                "The same small models are computed twice, and loss, gradients and one optimizer step are compared. "
                "This takes half a minute at most."
            )
        )
        self._words.setWordWrap(True)
        self._progress = QProgressBar()
        self._progress.setRange(0, 0)
        self._progress.setAccessibleName(_("Checking the device"))
        self._strip = MessageStrip()
        self._strip.hide()
        self.table = self._empty_table()
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self._buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        for widget in (self._words, self._progress, self._strip):
            layout.addWidget(widget)
        layout.addWidget(self.table, 1)
        layout.addStretch(0)
        layout.addWidget(self._buttons)
        self._question.put(DeviceCheckRequest(device=device))

    def done(self, result: int) -> None:
        """End the check, if it is still under way, and close."""
        self._question.close()
        super().done(result)

    @property
    def is_checking(self) -> bool:
        """Whether the answer is still to come."""
        return self._question.is_running

    def _show_report(self, report: DeviceCheckReport) -> None:
        self._finish()
        level = Level.INFO if report.agrees else Level.WARNING
        text = _("{device} beside {reference} · {software} · {seconds:.0f} s")
        detail = text.format(
            device=report.title, reference=report.reference, software=report.software, seconds=report.seconds
        )
        self._strip.show_message(level, report.conclusion, detail)
        self.table.setRowCount(len(report.comparisons))
        for row, comparison in enumerate(report.comparisons):
            for column, words in enumerate(self._cells(comparison)):
                item = QTableWidgetItem(words)
                item.setToolTip(comparison.worst_tensor or words)
                font = item.font()
                font.setBold(comparison.differs and column != LAST_COLUMN)
                item.setFont(font)
                self.table.setItem(row, column, item)
        self.table.show()
        self.resize(*SIZE_ANSWERED)
        self._fit_rows()

    def _fit_rows(self) -> None:
        """Give each row the height of its sentence."""
        metrics = self.table.fontMetrics()
        room = QRect(0, 0, self.table.columnWidth(LAST_COLUMN) - CELL_PADDING, 0)
        for row in range(self.table.rowCount()):
            item = self.table.item(row, LAST_COLUMN)
            words = item.text() if item is not None else ""
            height = metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, words).height()
            self.table.setRowHeight(row, height + SPACING + 2)

    def _show_failure(self, error: UserError) -> None:
        self._finish()
        self._strip.show_error(error)

    def _finish(self) -> None:
        self._progress.hide()
        self._words.hide()
        self._buttons.setStandardButtons(QDialogButtonBox.StandardButton.Close)

    def _cells(self, comparison: Comparison) -> tuple[str, str, str, str]:
        results = {
            Agreement.AGREES: _("✓ agrees"),
            Agreement.DIFFERS: _("✕ differs"),
            Agreement.NOT_RUN: _("– not run"),
        }
        worst = comparison.worst_error
        error = MISSING if worst is None else plain_number(float(f"{worst:.2g}"))
        return results[comparison.agreement], comparison.name, error, comparison.words

    def _empty_table(self) -> QTableWidget:
        table = QTableWidget(0, LAST_COLUMN + 1)
        table.setHorizontalHeaderLabels(
            [
                _("Result"),
                _("Compared"),
                _("Worst relative error"),
                _("What it means"),
            ]
        )
        table.setAccessibleName(_("Comparisons"))
        table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        table.setTabKeyNavigation(False)
        table.setShowGrid(False)
        table.verticalHeader().hide()
        header = table.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignVCenter)
        for column in range(LAST_COLUMN):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(LAST_COLUMN, QHeaderView.ResizeMode.Stretch)
        header.sectionResized.connect(self._fit_rows)
        table.hide()
        return table


# --- Which Hone this is, and whether a newer one has been published


HOST = API.removeprefix("https://")


class ReleasePanel(QWidget):
    """A line about this version, and a button that asks for a newer one.

    Args:
        ask: Starts an engine job.
        parent: Qt's parent.
        repository: Where releases are published, as `owner/name`; empty: this build knows of no place.
    """

    def __init__(self, ask: Ask, parent: QWidget | None = None, *, repository: str = REPOSITORY) -> None:
        super().__init__(parent)
        self._repository = repository
        self._question = JobTask(ask, "release", Release, self)
        self._question.done.connect(self._take)
        self._question.failed.connect(self._fail)
        self.button = QPushButton(_("Look for a newer version"))
        self.button.clicked.connect(self._ask)
        self._said = LinkLabel()
        self._said.setOpenExternalLinks(True)
        line = QHBoxLayout()
        line.setSpacing(SPACING)
        line.addWidget(self.button)
        line.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(SPACING)
        layout.addWidget(self._said)
        layout.addLayout(line)
        self.button.setVisible(bool(repository))
        self._say(self._first_words(), Role.HINT)

    @property
    def words(self) -> str:
        """What is said, as rich text."""
        return self._said.text()

    def close_questions(self) -> None:
        """Give up what was asked and wait for its thread."""
        self._question.close()

    def _first_words(self) -> str:
        if not self._repository:
            return _(
                "This is Hone {version}. This build has no address where newer versions are published: ask whoever you "
                "got it from."
            ).format(version=VERSION)
        return _(
            "This is Hone {version}, published at {address}. It looks for a newer version only when you press the "
            "button, by asking {host}; nothing about you or this computer is sent."
        ).format(version=VERSION, address=_link(f"{ADDRESS}/{self._repository}"), host=HOST)

    def _ask(self) -> None:
        self.button.setEnabled(False)
        self._say(_("Asking {}…").format(HOST), Role.HINT)
        self._question.put(ReleaseRequest(repository=self._repository, running=VERSION))

    def _take(self, release: Release) -> None:
        self.button.setEnabled(True)
        known = {"running": VERSION, "newest": html.escape(release.version), "page": _link(release.page)}
        match release.standing:
            case Standing.OLDER:
                words = _("Hone {newest} is out; this is {running}. It is at {page}")
            case Standing.SAME:
                words = _("This is Hone {running}, the newest version.")
            case Standing.NEWER:
                words = _("This is Hone {running}; the newest version published is {newest}.")
        self._say(words.format(**known), Role.STRONG if release.standing is Standing.OLDER else Role.MUTED)

    def _fail(self, error: UserError) -> None:
        self.button.setEnabled(True)
        parts = [error.detail, *(fix.label for fix in error.fixes)]
        lines = [f"<b>{html.escape(error.title)}</b>", *(_with_links(part) for part in parts if part)]
        self._say("<br>".join(lines), Role.MUTED)

    def _say(self, words: str, role: Role) -> None:
        self._said.setText(words)
        set_role(self._said, role)


def _with_links(words: str) -> str:
    """Plain words as rich text, in which addresses of the place where Hone is published can be followed."""
    return " ".join(
        _link(word) if word.startswith(f"{ADDRESS}/") else html.escape(word) for word in words.split()
    )


def _link(address: str) -> str:
    shown = html.escape(address)
    return f'<a href="{shown}">{shown.removeprefix("https://")}</a>'


# --- Settings: how the window looks, where runs go, and what Hone is made of


WIDEST = 760


class SettingsPage(QWidget):
    """The person's own settings.

    Signals:
        settings_changed: The new `core.base.settings.Settings`.
        check_requested: The person wants a device checked; its name as in `device.name`.

    Args:
        settings: What is set now.
        parent: Qt's parent.
        ask: Starts an engine job.
        gpu: What installs PyTorch with CUDA; None: nothing is shown of it.
    """

    settings_changed = Signal(object)
    check_requested = Signal(str)

    def __init__(
        self,
        settings: Settings,
        parent: QWidget | None = None,
        *,
        ask: Ask = ask_real_engine,
        gpu: GpuInstaller | None = None,
    ) -> None:
        super().__init__(parent)
        set_role(self, Role.PAGE)
        self._settings = settings
        self.hub = HubCard(ask)
        self.hub.offline_chosen.connect(self._change_offline)
        self.cache = CacheCard(ask)
        self.release = ReleasePanel(ask)
        self.gpu = GpuCard(gpu or GpuInstaller(parent=self))
        self._folder = QLabel()
        self._versions = KeyValue(label_width(self))
        self._devices = KeyValue(label_width(self))
        self._notes = QLabel()
        self._strip = MessageStrip(closable=True)
        self._strip.hide()
        self._computer = self._computer_card()
        content = QWidget()
        content.setMaximumWidth(WIDEST)
        cards = QVBoxLayout(content)
        cards.setContentsMargins(0, 0, 0, 2 * SPACING)
        cards.setSpacing(SPACING + 4)
        for card in (
            self._appearance_card(),
            self._training_card(),
            self._places_card(),
            self.hub,
            self.cache,
            self._computer,
            self.gpu,
            self._versions_card(),
            self._licences_card(),
        ):
            cards.addWidget(card)
        cards.addStretch(1)
        title = QLabel(_("Settings"))
        set_role(title, Role.PAGE_TITLE)
        layout = QVBoxLayout(self)
        start, top, end, _bottom = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, 0))
        layout.setSpacing(SPACING + SPACING // 2)
        layout.addWidget(title)
        layout.addWidget(self._strip)
        layout.addWidget(PageScroll(content), 1)
        self.show_settings(settings)
        self.set_machine(None)

    def show_settings(self, settings: Settings) -> None:
        """Show these settings."""
        self._settings = settings
        self._looks.set_value(settings.appearance.value)
        self._folder.setText(str(runs_folder(settings)))
        self.keep_awake.setChecked(settings.keep_awake)
        self.notify.setChecked(settings.notify)
        self.hub.offline.setChecked(settings.offline)

    def set_machine(self, machine: MachineReport | None) -> None:
        """Show what the engine has told of this computer; None: nothing yet."""
        told = {} if machine is None else machine.versions
        own = [
            ("Hone", self._own_version()),
            ("Python", platform.python_version()),
            ("Qt", PySide6.__version__),
        ]
        others = [(_name(name), told[name]) for name in told if name != "python"]
        self._versions.set_rows([*own, *others])
        self._computer.setVisible(machine is not None)
        if machine is not None:
            self._devices.set_rows(
                (device_title(device.name.removesuffix(":0")), self._device_words(device))
                for device in machine.devices
            )
            self._notes.setText("\n".join(machine.notes))
            self._notes.setVisible(bool(machine.notes))

    def _device_words(self, device: DeviceReport) -> str:
        if not device.available:
            return device.reason
        if device.memory_bytes is None:
            return device.title
        return _("{title}, up to {memory}").format(title=device.title, memory=memory(device.memory_bytes))

    def _own_version(self) -> str:
        try:
            return metadata.version("hone")
        except metadata.PackageNotFoundError:  # a bundle may come without what pip writes down
            return _("unknown")

    def _appearance_card(self) -> Card:
        card = Card(_("Appearance"))
        self._looks = Segmented(
            (
                Segment(Appearance.SYSTEM.value, _("System")),
                Segment(Appearance.LIGHT.value, _("Light")),
                Segment(Appearance.DARK.value, _("Dark")),
            )
        )
        self._looks.setAccessibleName(_("Appearance"))
        self._looks.chosen.connect(self._change_looks)
        card.body.addLayout(_row(_("Colours"), self._looks))
        return card

    def _training_card(self) -> Card:
        card = Card(_("While a run trains"))
        self.keep_awake = QCheckBox(_("Keep the computer awake; its display may sleep"))
        self.keep_awake.setToolTip(_("Asked anew at the start of each run"))
        self.keep_awake.clicked.connect(self._change_keep_awake)
        self.notify = QCheckBox(_("Notify me when a run ends and I am doing something else"))
        self.notify.clicked.connect(self._change_notify)
        card.body.addWidget(self.keep_awake)
        card.body.addWidget(self.notify)
        return card

    def _places_card(self) -> Card:
        card = Card(_("Where things are kept"))
        choose = QPushButton(_("Choose…"))
        choose.setAccessibleName(_("Choose the folder for runs"))
        choose.clicked.connect(self._choose_folder)
        opening = QPushButton(_("Open"))
        opening.setAccessibleName(_("Open the folder with runs"))
        opening.clicked.connect(self._open_folder)
        card.body.addLayout(_row(_("Runs"), _path_label(self._folder), choose, opening))
        log_file = _path_label(QLabel(str(home() / "hone.log")))
        show_log = QPushButton(_("Open"))
        show_log.setAccessibleName(_("Open the folder with Hone's log"))
        show_log.clicked.connect(self._open_home)
        card.body.addLayout(_row(_("Hone's own log"), log_file, show_log))
        words = QLabel(
            _(
                "A run is a folder: copy it, share it, delete it. In a new place, earlier runs stay where they are."
            )
        )
        words.setWordWrap(True)
        set_role(words, Role.HINT)
        card.body.addWidget(words)
        return card

    def _computer_card(self) -> Card:
        card = Card(_("This computer"))
        set_role(self._notes, Role.HINT)
        self._notes.setWordWrap(True)
        check = QPushButton(_("Check the device…"))
        check.setToolTip(_("Compare what it computes with what the CPU computes"))
        check.clicked.connect(self._ask_for_check)
        line = QHBoxLayout()
        line.addWidget(check)
        line.addStretch(1)
        card.body.addWidget(self._devices)
        card.body.addWidget(self._notes)
        card.body.addLayout(line)
        return card

    def _versions_card(self) -> Card:
        card = Card(_("Versions"))
        card.body.addWidget(self._versions)
        card.body.addSpacing(SPACING)
        card.body.addWidget(self.release)
        return card

    def _licences_card(self) -> Card:
        card = Card(_("Licences"))
        words = QLabel(
            _(
                "Hone is free software under the Apache License 2.0. Its window is made with Qt and Qt for Python "
                "(PySide6), used under the GNU Lesser General Public License, version 3; you may replace them by "
                "versions of your own. Training is PyTorch's and Hugging Face's, under their own free licences. The "
                "files LICENSE and NOTICE that come with Hone say more."
            )
        )
        words.setWordWrap(True)
        card.body.addWidget(words)
        return card

    def _change(self, settings: Settings) -> None:
        self.show_settings(settings)
        self.settings_changed.emit(settings)

    def _change_looks(self, value: str) -> None:
        self._change(msgspec.structs.replace(self._settings, appearance=Appearance(value)))

    def _change_keep_awake(self, on: bool) -> None:
        self._change(msgspec.structs.replace(self._settings, keep_awake=on))

    def _change_notify(self, on: bool) -> None:
        self._change(msgspec.structs.replace(self._settings, notify=on))

    def _change_offline(self, on: bool) -> None:
        self._change(msgspec.structs.replace(self._settings, offline=on))

    def close_questions(self) -> None:
        """Give up what was asked and wait until no thread is left."""
        self.hub.token.close_questions()
        self.cache.close_questions()
        self.release.close_questions()

    def _ask_for_check(self) -> None:
        self.check_requested.emit("auto")

    def _choose_folder(self) -> None:
        start = str(runs_folder(self._settings))
        chosen = QFileDialog.getExistingDirectory(self, _("Folder for new runs"), start)
        if chosen:
            self._change(msgspec.structs.replace(self._settings, runs_folder=chosen))

    def _open_folder(self) -> None:
        self._show(runs_folder(self._settings))

    def _open_home(self) -> None:
        self._show(home())

    def _show(self, folder: Path) -> None:
        error = reveal(nearest(folder))
        if error is None:
            self._strip.hide()
        else:
            self._strip.show_message(Level.WARNING, error.title, error.detail)


def _row(title: str, *widgets: QWidget) -> QHBoxLayout:
    label = QLabel(title)
    set_role(label, Role.LABEL)
    label.setFixedWidth(label_width(label))
    label.setBuddy(widgets[0])
    row = QHBoxLayout()
    row.setSpacing(SPACING)
    row.addWidget(label)
    row.addSpacing(SPACING)
    for widget in widgets:
        row.addWidget(widget, 1 if isinstance(widget, QLabel) else 0)
    if not any(isinstance(widget, QLabel) for widget in widgets):
        row.addStretch(1)
    return row


def _path_label(label: QLabel) -> QLabel:
    label.setWordWrap(True)
    return label


def _name(package: str) -> str:
    return {"torch": "PyTorch", "transformers": "Transformers", "datasets": "Datasets"}.get(package, package)


def nearest(folder: Path) -> Path:
    """A folder, or the nearest one above it that is there: before the first run there is none for runs."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder

"""Settings: appearance, folders, the Hub, this computer, versions; and the device check."""

import html
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import PySide6
from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtWidgets import (
    QBoxLayout,
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHeaderView,
    QLabel,
    QProgressBar,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from core.base.errors import UserError
from core.base.formats import MISSING, memory
from core.base.language import _
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
from gui.widgets.labels import LinkLabel, margins, text_label
from gui.widgets.layout import PageScroll, hbox, vbox
from gui.widgets.tables import KeyValue

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
        self._words = text_label(
            _(
                "The same small models are computed twice, and loss, gradients and one optimizer step are compared. "
                "This takes half a minute at most."
            )
        )
        self._progress = QProgressBar()
        self._progress.setRange(0, 0)
        self._progress.setAccessibleName(_("Checking the device"))
        self._strip = MessageStrip()
        self._strip.hide()
        self.table = self._empty_table()
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self._buttons.rejected.connect(self.reject)
        layout = vbox(self._words, self._progress, self._strip, (self.table, 1), spacing=SPACING + 4)
        layout.addStretch(0)
        layout.addWidget(self._buttons)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        self.setLayout(layout)
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
            (_("Result"), _("Compared"), _("Worst relative error"), _("What it means"))
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
        self.setLayout(vbox(self._said, hbox(self.button, None)))
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
            words = _(
                "This is Hone {version}. This build has no address where newer versions are published: ask whoever you "
                "got it from."
            )
            return words.format(version=VERSION)
        words = _(
            "This is Hone {version}, published at {address}. It looks for a newer version only when you press the "
            "button, by asking {host}; nothing about you or this computer is sent."
        )
        return words.format(version=VERSION, address=_link(f"{ADDRESS}/{self._repository}"), host=HOST)

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
        self.hub.offline_chosen.connect(lambda on: self._change(offline=on))
        self.cache = CacheCard(ask)
        self.release = ReleasePanel(ask)
        self.gpu = GpuCard(gpu or GpuInstaller(parent=self))
        self._folder = text_label()
        self._versions = KeyValue(label_width(self))
        self._devices = KeyValue(label_width(self))
        self._notes = text_label(role=Role.HINT)
        self._strip = MessageStrip(closable=True)
        self._strip.hide()
        self._computer = self._computer_card()
        content = QWidget()
        content.setMaximumWidth(WIDEST)
        cards = vbox(
            self._appearance_card(),
            self._training_card(),
            self._places_card(),
            self.hub,
            self.cache,
            self._computer,
            self.gpu,
            self._versions_card(),
            self._licences_card(),
            None,
            spacing=SPACING + 4,
        )
        cards.setContentsMargins(0, 0, 0, 2 * SPACING)
        content.setLayout(cards)
        title = QLabel(_("Settings"))
        set_role(title, Role.PAGE_TITLE)
        layout = vbox(title, self._strip, (PageScroll(content), 1), spacing=SPACING + SPACING // 2)
        start, top, end, _bottom = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, 0))
        self.setLayout(layout)
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
                (device_title(device.name.removesuffix(":0")), self._device_text(device))
                for device in machine.devices
            )
            self._notes.setText("\n".join(machine.notes))
            self._notes.setVisible(bool(machine.notes))

    def _device_text(self, device: DeviceReport) -> str:
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
        titles = {
            Appearance.SYSTEM: _("System"),
            Appearance.LIGHT: _("Light"),
            Appearance.DARK: _("Dark"),
        }
        self._looks = Segmented([Segment(looks.value, title) for looks, title in titles.items()])
        self._looks.setAccessibleName(_("Appearance"))
        self._looks.chosen.connect(lambda value: self._change(appearance=Appearance(value)))
        card.body.addLayout(_labelled(_("Colours"), self._looks, None))
        return card

    def _training_card(self) -> Card:
        card = Card(_("While a run trains"))
        self.keep_awake = QCheckBox(_("Keep the computer awake; its display may sleep"))
        self.keep_awake.setToolTip(_("Asked anew at the start of each run"))
        self.keep_awake.clicked.connect(lambda on: self._change(keep_awake=on))
        self.notify = QCheckBox(_("Notify me when a run ends and I am doing something else"))
        self.notify.clicked.connect(lambda on: self._change(notify=on))
        card.body.addWidget(self.keep_awake)
        card.body.addWidget(self.notify)
        return card

    def _places_card(self) -> Card:
        card = Card(_("Where things are kept"))
        choose = _button(_("Choose…"), _("Choose the folder for runs"), self._choose_folder)
        opening = _button(
            _("Open"), _("Open the folder with runs"), lambda: self._show(runs_folder(self._settings))
        )
        show_log = _button(_("Open"), _("Open the folder with Hone's log"), lambda: self._show(home()))
        card.body.addLayout(_labelled(_("Runs"), (self._folder, 1), choose, opening))
        card.body.addLayout(
            _labelled(_("Hone's own log"), (text_label(str(home() / "hone.log")), 1), show_log)
        )
        words = _(
            "A run is a folder: copy it, share it, delete it. In a new place, earlier runs stay where they are."
        )
        card.body.addWidget(text_label(words, Role.HINT))
        return card

    def _computer_card(self) -> Card:
        card = Card(_("This computer"))
        check = QPushButton(_("Check the device…"))
        check.setToolTip(_("Compare what it computes with what the CPU computes"))
        check.clicked.connect(lambda: self.check_requested.emit("auto"))
        card.body.addLayout(vbox(self._devices, self._notes, hbox(check, None), spacing=card.body.spacing()))
        return card

    def _versions_card(self) -> Card:
        card = Card(_("Versions"))
        card.body.addWidget(self._versions)
        card.body.addSpacing(SPACING)
        card.body.addWidget(self.release)
        return card

    def _licences_card(self) -> Card:
        card = Card(_("Licences"))
        words = _(
            "Hone is free software under the Apache License 2.0. Its window is made with Qt and Qt for Python "
            "(PySide6), used under the GNU Lesser General Public License, version 3; you may replace them by versions "
            "of your own. Training is PyTorch's and Hugging Face's, under their own free licences. The files LICENSE "
            "and NOTICE that come with Hone say more."
        )
        card.body.addWidget(text_label(words))
        return card

    def _change(self, **changes: Any) -> None:
        settings = msgspec.structs.replace(self._settings, **changes)
        self.show_settings(settings)
        self.settings_changed.emit(settings)

    def close_questions(self) -> None:
        """Give up what was asked and wait until no thread is left."""
        self.hub.token.close_questions()
        self.cache.close_questions()
        self.release.close_questions()

    def _choose_folder(self) -> None:
        start = str(runs_folder(self._settings))
        chosen = QFileDialog.getExistingDirectory(self, _("Folder for new runs"), start)
        if chosen:
            self._change(runs_folder=chosen)

    def _show(self, folder: Path) -> None:
        error = reveal(nearest(folder))
        if error is None:
            self._strip.hide()
        else:
            self._strip.show_error(error)


def _button(text: str, name: str, pressed: Callable[[], object]) -> QPushButton:
    button = QPushButton(text)
    button.setAccessibleName(name)
    button.clicked.connect(lambda _checked: pressed())
    return button


def _labelled(title: str, first: QWidget | tuple[QWidget, int], *others: QWidget | None) -> QBoxLayout:
    label = QLabel(title)
    set_role(label, Role.LABEL)
    label.setFixedWidth(label_width(label) + SPACING)
    label.setBuddy(first[0] if isinstance(first, tuple) else first)
    return hbox(label, first, *others)


def _name(package: str) -> str:
    return {"torch": "PyTorch", "transformers": "Transformers", "datasets": "Datasets"}.get(package, package)


def nearest(folder: Path) -> Path:
    """A folder, or the nearest one above it that is there: before the first run there is none for runs."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder

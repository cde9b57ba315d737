"""Settings: how the window looks, where runs go, and what Hone is made of."""

import platform
from importlib import metadata
from pathlib import Path

import msgspec
import PySide6
from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from core.device_names import device_title
from core.events import Level
from core.reports import DeviceReport, MachineReport
from core.settings import Appearance, Settings, home, runs_folder
from gui.engine_question import Ask, ask_real_engine
from gui.files import reveal
from gui.gpu_pack_work import PackWork
from gui.numbers import memory
from gui.pages.gpu_pack_panel import GpuPackCard
from gui.pages.hub_settings import CacheCard, HubCard
from gui.pages.release_panel import ReleasePanel
from gui.theme import GUTTER, PAGE_MARGINS, SPACING
from gui.widgets.card import Card
from gui.widgets.direction import margins
from gui.widgets.fitting_scroll import PageScroll
from gui.widgets.form_row import label_width
from gui.widgets.key_value import KeyValue
from gui.widgets.message_strip import MessageStrip
from gui.widgets.roles import Role, set_role
from gui.widgets.segmented import Segment, Segmented

WIDEST = 760


class SettingsPage(QWidget):
    """The person's own settings.

    Signals:
        settings_changed: The new `core.settings.Settings`.
        check_requested: The person wants a device checked; its name as in `device.name`.

    Args:
        settings: What is set now.
        parent: Qt's parent.
        ask: Starts an engine job.
        gpu_pack: What installs the GPU pack; None: nothing is known of one.
    """

    settings_changed = Signal(object)
    check_requested = Signal(str)

    def __init__(
        self,
        settings: Settings,
        parent: QWidget | None = None,
        *,
        ask: Ask = ask_real_engine,
        gpu_pack: PackWork | None = None,
    ) -> None:
        super().__init__(parent)
        set_role(self, Role.PAGE)
        self._settings = settings
        self.hub = HubCard(ask)
        self.hub.offline_chosen.connect(self._change_offline)
        self.cache = CacheCard(ask)
        self.release = ReleasePanel(ask)
        self.gpu_pack = GpuPackCard(gpu_pack or PackWork(parent=self))
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
            self.gpu_pack,
            self._versions_card(),
            self._licences_card(),
        ):
            cards.addWidget(card)
        cards.addStretch(1)
        title = QLabel(self.tr("Settings"))
        set_role(title, Role.PAGE_TITLE)
        layout = QVBoxLayout(self)
        start, top, end, _ = PAGE_MARGINS
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
        return self.tr("{title}, up to {memory}").format(
            title=device.title, memory=memory(device.memory_bytes)
        )

    def _own_version(self) -> str:
        try:
            return metadata.version("hone")
        except metadata.PackageNotFoundError:  # a bundle may come without what pip writes down
            return self.tr("unknown")

    def _appearance_card(self) -> Card:
        card = Card(self.tr("Appearance"))
        self._looks = Segmented(
            (
                Segment(Appearance.SYSTEM.value, self.tr("System")),
                Segment(Appearance.LIGHT.value, self.tr("Light")),
                Segment(Appearance.DARK.value, self.tr("Dark")),
            )
        )
        self._looks.setAccessibleName(self.tr("Appearance"))
        self._looks.chosen.connect(self._change_looks)
        card.body.addLayout(_row(self.tr("Colours"), self._looks))
        return card

    def _training_card(self) -> Card:
        card = Card(self.tr("While a run trains"))
        self.keep_awake = QCheckBox(self.tr("Keep the computer awake; its display may sleep"))
        self.keep_awake.setToolTip(self.tr("Asked anew at the start of each run"))
        self.keep_awake.clicked.connect(self._change_keep_awake)
        self.notify = QCheckBox(self.tr("Notify me when a run ends and I am doing something else"))
        self.notify.clicked.connect(self._change_notify)
        card.body.addWidget(self.keep_awake)
        card.body.addWidget(self.notify)
        return card

    def _places_card(self) -> Card:
        card = Card(self.tr("Where things are kept"))
        choose = QPushButton(self.tr("Choose…"))
        choose.setAccessibleName(self.tr("Choose the folder for runs"))
        choose.clicked.connect(self._choose_folder)
        opening = QPushButton(self.tr("Open"))
        opening.setAccessibleName(self.tr("Open the folder with runs"))
        opening.clicked.connect(self._open_folder)
        card.body.addLayout(_row(self.tr("Runs"), _path_label(self._folder), choose, opening))
        log_file = _path_label(QLabel(str(home() / "hone.log")))
        show_log = QPushButton(self.tr("Open"))
        show_log.setAccessibleName(self.tr("Open the folder with Hone's log"))
        show_log.clicked.connect(self._open_home)
        card.body.addLayout(_row(self.tr("Hone's own log"), log_file, show_log))
        words = QLabel(
            self.tr(
                "A run is a folder: copy it, share it, delete it. In a new place, earlier runs stay where they are."
            )
        )
        words.setWordWrap(True)
        set_role(words, Role.HINT)
        card.body.addWidget(words)
        return card

    def _computer_card(self) -> Card:
        card = Card(self.tr("This computer"))
        set_role(self._notes, Role.HINT)
        self._notes.setWordWrap(True)
        check = QPushButton(self.tr("Check the device…"))
        check.setToolTip(self.tr("Compare what it computes with what the CPU computes"))
        check.clicked.connect(self._ask_for_check)
        line = QHBoxLayout()
        line.addWidget(check)
        line.addStretch(1)
        card.body.addWidget(self._devices)
        card.body.addWidget(self._notes)
        card.body.addLayout(line)
        return card

    def _versions_card(self) -> Card:
        card = Card(self.tr("Versions"))
        card.body.addWidget(self._versions)
        card.body.addSpacing(SPACING)
        card.body.addWidget(self.release)
        return card

    def _licences_card(self) -> Card:
        card = Card(self.tr("Licences"))
        words = QLabel(
            self.tr(
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
        chosen = QFileDialog.getExistingDirectory(self, self.tr("Folder for new runs"), start)
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

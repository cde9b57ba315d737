"""Settings: appearance, folders, the Hub, this computer, versions; and the device check."""

import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import PySide6
from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QBoxLayout,
    QCheckBox,
    QDialogButtonBox,
    QFileDialog,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from core.base.errors import UserError
from core.base.formats import MISSING, memory, plain_number
from core.base.language import LANGUAGES, VARIABLE, _
from core.base.settings import REPOSITORY, VERSION, Appearance, Settings, home, runs_folder
from core.jobs.devices import Agreement, DeviceCheckReport, DeviceCheckRequest, DeviceComparison
from core.options.choices import device_title
from core.options.device_support import DeviceReport, MachineReport
from core.runs.events import Level
from gui.base.background import Ask, EngineWork, ask_real_engine
from gui.base.files import reveal
from gui.base.theme import APPEARANCES, Role, set_role
from gui.base.tokens import GUTTER, PAGE_MARGINS, SPACING
from gui.settings.computers import ComputersCard
from gui.settings.gpu_install import GpuCard, GpuInstaller
from gui.settings.hub import CacheCard, HubCard, link_to
from gui.widgets.bars import progress_bar
from gui.widgets.cards import Card, MessageStrip
from gui.widgets.form import label_width
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.labels import LinkLabel, margins, push_button, role_label, text_label
from gui.widgets.layout import PageScroll, Sheet, fill_dialog, hbox, vbox
from gui.widgets.tables import KeyValue, set_up_texts

SIZE_WAITING = (560, 150)
SIZE_ANSWERED = (860, 600)


class DeviceCheckDialog(Sheet):
    """Checks a device, as in `device.name`. Closing it ends the check."""

    def __init__(self, ask: Ask, device: str, parent: QWidget | None = None) -> None:
        super().__init__(_("Device check"), parent)
        self.resize(*SIZE_WAITING)
        self.work: EngineWork[DeviceCheckReport] = EngineWork(
            self, done=self._on_report, failed=self._on_failure
        )
        self._text = text_label(
            _(
                "Compares the device with the CPU on small models: loss, gradients and one optimizer step. "
                "This takes up to half a minute."
            )
        )
        self._progress = progress_bar(_("Checking the device"))
        self.strip = MessageStrip()
        self.table = QTableWidget()
        titles = (_("Result"), _("Compared"), _("Worst relative error"), _("What it means"))
        set_up_texts(self.table, _("Comparisons"), titles, widest=3)
        self.table.setWordWrap(True)
        self.table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.table.hide()
        self._buttons = self.button_box(QDialogButtonBox.StandardButton.Cancel)
        fill_dialog(self, self._text, self._progress, self.strip, (self.table, 1), self._buttons)
        self.work.ask(ask, "check-device", DeviceCheckReport, DeviceCheckRequest(device=device))

    def done(self, result: int) -> None:
        self.work.close()
        super().done(result)

    def _on_report(self, report: DeviceCheckReport) -> None:
        self._finish()
        level = Level.INFO if report.agrees else Level.WARNING
        text = _("{device} compared with {reference} · {software} · {seconds:.0f} s")
        detail = text.format(
            device=report.title, reference=report.reference, software=report.software, seconds=report.seconds
        )
        self.strip.show_message(level, report.conclusion, detail)
        self.table.setRowCount(len(report.comparisons))
        for row, comparison in enumerate(report.comparisons):
            for column, text in enumerate(_comparison_cells(comparison)):
                item = QTableWidgetItem(text)
                item.setToolTip(comparison.worst_tensor or text)
                font = item.font()
                font.setBold(comparison.differs and column < 3)
                item.setFont(font)
                self.table.setItem(row, column, item)
        self.table.show()
        self.resize(*SIZE_ANSWERED)

    def _on_failure(self, error: UserError) -> None:
        self._finish()
        self.strip.show_error(error)

    def _finish(self) -> None:
        self._progress.hide()
        self._text.hide()
        self._buttons.setStandardButtons(QDialogButtonBox.StandardButton.Close)
        self._buttons.button(QDialogButtonBox.StandardButton.Close).setFocus()


def _comparison_cells(comparison: DeviceComparison) -> tuple[str, str, str, str]:
    results = {
        Agreement.AGREES: _("✓ agrees"),
        Agreement.DIFFERS: _("✕ differs"),
        Agreement.NOT_RUN: _("– not run"),
    }
    worst = comparison.worst_error
    error = MISSING if worst is None else plain_number(float(f"{worst:.2g}"))
    return results[comparison.agreement], comparison.name, error, comparison.words


WIDEST = 760


class SettingsPage(QWidget):
    """The person's settings; `gpu` installs PyTorch with CUDA."""

    settings_changed = Signal(object)  # the new `core.base.settings.Settings`
    check_requested = Signal(str)  # the device to check, as in `device.name`

    def __init__(
        self, settings: Settings, *, ask: Ask = ask_real_engine, gpu: GpuInstaller | None = None
    ) -> None:
        super().__init__()
        set_role(self, Role.PAGE)
        self._settings, self._spoken = settings, settings.language
        self.hub = HubCard(ask)
        self.hub.offline_chosen.connect(lambda on: self._change(offline=on))
        self.cache = CacheCard(ask)
        self.gpu = GpuCard(gpu or GpuInstaller(parent=self))
        self.computers = ComputersCard()
        self.strip = MessageStrip(closable=True)
        self._computer = self._computer_card()
        content = QWidget()
        content.setMaximumWidth(WIDEST)
        cards = vbox(
            self._appearance_card(),
            self._training_card(),
            self._folders_card(),
            self.hub,
            self.cache,
            self._computer,
            self.gpu,
            self.computers,
            self._versions_card(),
            None,
            spacing=SPACING + 4,
        )
        cards.setContentsMargins(0, 0, 0, 2 * SPACING)
        content.setLayout(cards)
        title = role_label(Role.PAGE_TITLE, _("Settings"))
        layout = vbox(title, self.strip, (PageScroll(content), 1), spacing=SPACING + SPACING // 2)
        start, top, end, _bottom = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end - GUTTER, 0))
        self.setLayout(layout)
        self.show_settings(settings)
        self.set_machine(None)

    def show_settings(self, settings: Settings) -> None:
        self._settings = settings
        self.appearance.set_value(settings.appearance.value)
        self.language.set_value(settings.language)
        self.next_start.setVisible(settings.language != self._spoken and VARIABLE not in os.environ)
        self.folder.setText(str(runs_folder(settings)))
        self.keep_awake.setChecked(settings.keep_awake)
        self.notify.setChecked(settings.notify)
        self.hub.offline.setChecked(settings.offline)

    def set_machine(self, machine: MachineReport | None) -> None:
        """Show what the engine reported about this computer, None if nothing yet."""
        titles = {"torch": "PyTorch", "transformers": "Transformers", "datasets": "Datasets"}
        versions = {} if machine is None else machine.versions
        libraries = [(titles.get(name, name), versions[name]) for name in versions if name != "python"]
        own = [("Hone", VERSION), ("Python", platform.python_version()), ("Qt", PySide6.__version__)]
        self.versions.set_rows([*own, *libraries])
        self._computer.setVisible(machine is not None)
        if machine is not None:
            self.devices.set_rows(
                (device_title(device.name.removesuffix(":0")), _device_text(device))
                for device in machine.devices
            )
            self._notes.setText("\n".join(machine.notes))
            self._notes.setVisible(bool(machine.notes))

    def _appearance_card(self) -> Card:
        card = Card(_("Appearance"))
        self.appearance = Segmented([Segment(value.value, title) for value, title in APPEARANCES.items()])
        self.appearance.setAccessibleName(_("Appearance"))
        self.appearance.chosen.connect(lambda value: self._change(appearance=Appearance(value)))
        card.body.addLayout(_labelled(_("Colours"), self.appearance, None))
        system = Segment("", _("System"), _("That of this computer's system, or English"))
        self.language = Segmented([system, *(Segment(code, name) for code, name in LANGUAGES.items())])
        self.language.setAccessibleName(_("Language"))
        self.language.chosen.connect(lambda code: self._change(language=code))
        card.body.addLayout(_labelled(_("Language"), self.language, None))
        self.next_start = text_label(
            _("Hone speaks it when you open it the next time. Runs go on training meanwhile."), Role.HINT
        )
        card.body.addWidget(self.next_start)
        return card

    def _training_card(self) -> Card:
        card = Card(_("While a run trains"))
        self.keep_awake = QCheckBox(_("Keep the computer awake while it trains; the display may sleep"))
        self.keep_awake.setToolTip(_("Applies to runs that start from now on"))
        self.keep_awake.clicked.connect(lambda on: self._change(keep_awake=on))
        self.notify = QCheckBox(_("Notify me when a run ends and Hone is in the background"))
        self.notify.clicked.connect(lambda on: self._change(notify=on))
        card.body.addWidget(self.keep_awake)
        card.body.addWidget(self.notify)
        return card

    def _folders_card(self) -> Card:
        card = Card(_("Folders"))
        self.folder = text_label()
        choose = push_button(_("Choose…"), self._choose_folder, name=_("Choose the folder for runs"))
        show_runs = partial(self._reveal, lambda: runs_folder(self._settings))
        runs = push_button(_("Open"), show_runs, name=_("Open the folder with runs"))
        log = push_button(_("Open"), partial(self._reveal, home), name=_("Open the folder with Hone's log"))
        card.body.addLayout(_labelled(_("Runs"), (self.folder, 1), choose, runs))
        log_file = text_label(str(home() / "hone.log"))
        card.body.addLayout(_labelled(_("Hone's own log"), (log_file, 1), log))
        text = _(
            "Each run is a folder that you can copy, share or delete. If you choose another folder, earlier runs "
            "stay where they are."
        )
        card.body.addWidget(text_label(text, Role.HINT))
        return card

    def _computer_card(self) -> Card:
        card = Card(_("This computer"))
        self.devices, self._notes = KeyValue(label_width(self)), text_label(role=Role.HINT)
        tip = _("Compare its results with those of the CPU")
        check = push_button(_("Check this device…"), partial(self.check_requested.emit, "auto"), tip)
        card.body.addLayout(vbox(self.devices, self._notes, hbox(check, None), spacing=card.body.spacing()))
        return card

    def _versions_card(self) -> Card:
        card = Card(_("Versions"))
        self.versions = KeyValue(label_width(self))
        card.body.addWidget(self.versions)
        self.releases = LinkLabel()
        self.releases.setOpenExternalLinks(True)
        page = link_to(f"https://github.com/{REPOSITORY}/releases")
        self.releases.setText(_("Newer versions are published at {page}").format(page=page))
        self.releases.setVisible(bool(REPOSITORY))
        card.body.addWidget(self.releases)
        return card

    def _change(self, **changes: Any) -> None:
        settings = msgspec.structs.replace(self._settings, **changes)
        self.show_settings(settings)
        self.settings_changed.emit(settings)

    def end_work(self) -> None:
        self.hub.token.work.close()
        self.cache.close_work()
        self.computers.end_work()

    def _choose_folder(self) -> None:
        start = str(runs_folder(self._settings))
        chosen = QFileDialog.getExistingDirectory(self, _("Folder for new runs"), start)
        if chosen:
            self._change(runs_folder=chosen)

    def _reveal(self, find: Callable[[], Path]) -> None:
        """Open a folder, or the nearest one above it that exists: the one for runs is made with the first run."""
        folder = find()
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        self.strip.show_outcome(reveal(folder))


def _device_text(device: DeviceReport) -> str:
    if not device.available:
        return device.reason
    if device.memory_bytes is None:
        return device.title
    return _("{title}, up to {memory}").format(title=device.title, memory=memory(device.memory_bytes))


def _labelled(title: str, first: QWidget | tuple[QWidget, int], *others: QWidget | None) -> QBoxLayout:
    label = role_label(Role.LABEL, title)
    label.setFixedWidth(label_width(label) + SPACING)
    label.setBuddy(first[0] if isinstance(first, tuple) else first)
    return hbox(label, first, *others)

"""The card of Settings with the person's other computers: added, checked, made ready for training, removed."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialogButtonBox, QFormLayout, QLineEdit, QWidget

from core.base import formats, settings
from core.base.errors import ComputerError, UserError, why
from core.base.jobs import JobCancelled, JobProgress
from core.base.language import _, isolated
from core.hosts import computers, install
from core.hosts.computers import CheckedComputer, Computer
from core.runs.library import run_title, unfinished_on
from gui.base.background import Call, EngineWork
from gui.base.questions import Question
from gui.base.theme import Role
from gui.base.tokens import SPACING
from gui.widgets.bars import progress_bar
from gui.widgets.cards import Card, MessageStrip
from gui.widgets.labels import ElidedLabel, link_button, push_button, role_label, text_label
from gui.widgets.layout import Sheet, fill_dialog, hbox, vbox

SHEET_WIDTH = 480


class ComputerSheet(Sheet):
    """Asks for a new computer, or for other particulars of one that is known, and saves it."""

    saved = Signal(str)  # its name

    def __init__(self, known: Computer | None = None, parent: QWidget | None = None) -> None:
        title = _("Add a computer") if known is None else _("Change {name}").format(name=known.name)
        super().__init__(title, parent)
        self.setMinimumWidth(SHEET_WIDTH)
        self._known = known
        self.address = QLineEdit(placeholderText="user@host")
        self.name = QLineEdit(placeholderText="workshop")
        self.folder = QLineEdit(Computer(name="", address="").folder)
        if known is not None:
            self.address.setText(known.address)
            self.name.setText(known.name)
            self.name.setEnabled(False)
            self.folder.setText(known.folder)
        self.strip = MessageStrip()
        rows = QFormLayout()
        address = _("As you would type it after ssh, or a name from your ~/.ssh/config.")
        for title, line, hint in (
            (_("Address"), self.address, address),
            (_("Name"), self.name, _("What Hone calls it: letters, digits, dots and hyphens.")),
            (_("Folder there"), self.folder, _("Hone and its runs go in there and nowhere else.")),
        ):
            line.setAccessibleName(title)
            rows.addRow(title, line)
            rows.addRow("", text_label(hint, Role.HINT))
        self.save = push_button(_("Add") if known is None else _("Save"), self._save)
        buttons = self.button_box(QDialogButtonBox.StandardButton.Cancel, self.save)
        fill_dialog(self, rows, self.strip, buttons)
        self.address.setFocus()

    def _save(self) -> None:
        address, folder = self.address.text().strip(), self.folder.text().strip()
        name = self.name.text().strip()
        try:
            if self._known is None and name in [one.name for one in computers.computers()]:
                raise UserError(_("There is a computer called {name} already").format(name=name))
            computers.save(Computer(name=name, address=address, folder=folder))
        except UserError as error:
            self.strip.show_error(error)
        except OSError as error:
            self.strip.show_error(UserError(why(error), str(error.filename or "")))
        else:
            self.saved.emit(name)
            self.accept()


class ComputerRow(QWidget):
    """One computer: what the last check found, what goes on now, and buttons."""

    changed = Signal()  # what is known of it, or it is no longer in the list

    def __init__(self, computer: Computer) -> None:
        super().__init__()
        self.computer = computer
        self._work: EngineWork[object] = EngineWork(
            self, progress=self._on_progress, done=self.reload, failed=self.reload, idle=self._show
        )
        self.place, self.found = ElidedLabel(role=Role.MUTED), text_label(role=Role.MUTED, selectable=True)
        self.step, self.bar = ElidedLabel(role=Role.MUTED), progress_bar(_("Progress"))
        self.strip = MessageStrip()
        names = (_("Check {name}"), _("Install on {name}"), _("Change {name}"), _("Remove {name}"))
        check, install_it, change, remove = (name.format(name=computer.name) for name in names)
        self.check_button = push_button(_("Check"), self.check, name=check)
        self.install = push_button("", self._install, name=install_it)
        self.change = push_button(_("Change…"), self._change, name=change)
        self.remove = push_button(_("Remove…"), self._remove, name=remove)
        self.cancel = push_button(_("Cancel"), self._cancel)
        self._idle_buttons = (self.check_button, self.install, self.change, self.remove)
        top = hbox(role_label(Role.STRONG, computer.name), (self.place, 1))
        buttons = hbox(*self._idle_buttons, self.cancel, None)
        self.setLayout(vbox(top, self.found, self.step, self.bar, self.strip, buttons, spacing=SPACING // 2))
        self._show()

    def check(self) -> None:
        self._begin(_("Checking…"), lambda call: install.check(self.computer, lambda _line: _go_on(call)))

    def reload(self) -> None:
        """Show what is known of it now."""
        known = {computer.name: computer for computer in computers.computers()}
        self.computer = known.get(self.computer.name, self.computer)
        self._show()
        self.changed.emit()

    def close_work(self) -> None:
        self._work.close()

    def _install(self) -> None:
        def work(call: Call) -> None:
            def tell(progress: JobProgress) -> None:
                _go_on(call)
                call.tell(progress)

            install.install(self.computer, tell)

        self._begin(_("Preparing…"), work)

    def _remove(self) -> None:
        text = _(
            "Its folder {folder} holds Hone, its libraries and what was trained there. Runs in your list stay."
        ).format(folder=self.computer.folder)
        for run in unfinished_on(self.computer.name, settings.runs_folder()):
            still = _("“{run}” hasn't ended there: without {name} in this list Hone can't follow it.")
            text += "\n" + still.format(run=isolated(run_title(run)), name=self.computer.name)
        answers: dict[bool | None, str] = {
            False: _("Remove from this list"),
            True: _("Delete the folder there, too"),
        }
        title = _("Remove {name}?").format(name=self.computer.name)
        there = Question(title, text, answers, self, return_cancels=True).ask(None)
        if there is None:
            return

        def work(_call: Call) -> None:
            if there:
                install.uninstall(self.computer)
            computers.forget(self.computer.name)

        self._begin(_("Removing…"), work)

    def _change(self) -> None:
        sheet = ComputerSheet(self.computer, self)
        sheet.saved.connect(self.reload)
        sheet.saved.connect(self.check)
        sheet.open()

    def _begin(self, doing: str, work: Callable[[Call], object]) -> None:
        self.step.setText(doing)
        self._work.start(work)
        self._show()

    def _cancel(self) -> None:
        self._work.cancel()
        self._show()

    def _on_progress(self, progress: JobProgress) -> None:
        self.step.setText(progress.what)

    def _show(self) -> None:
        checked, is_busy, had_focus = self.computer.checked, self._work.is_running, self.cancel.hasFocus()
        obstacles = install.obstacles(self.computer, checked) if checked is not None else []
        first, failure = next(iter(obstacles), None), self._work.failure
        self.place.setText(formats.in_line(self.computer.address, self.computer.folder))
        self.found.setText(found_text(checked, first))
        self.found.setHidden(failure is not None)
        for part in (self.step, self.bar, self.cancel):
            part.setVisible(is_busy)
        can_install = first is not None and first.code in install.INSTALLABLE
        if first is not None and not can_install and checked is not None and not checked.problem:
            failure = failure or first
        self.strip.show_outcome(None if is_busy else failure)
        has_other = first is not None and first.code == "other-version"
        self.install.setText(_("Update Hone there") if has_other else _("Install Hone there"))
        for button in self._idle_buttons:
            button.setHidden(is_busy or (button is self.install and not can_install))
            button.setEnabled(self._work.is_idle)
        if had_focus and not is_busy:
            self.check_button.setFocus()


def _go_on(call: Call) -> None:
    """Raises JobCancelled if the call is cancelled."""
    if call.is_cancelled:
        raise JobCancelled("computers")


def found_text(checked: CheckedComputer | None, obstacle: ComputerError | None) -> str:
    """What a check found, in a line; `obstacle` is what prevents training there."""
    if checked is None:
        return _("Not checked yet.")
    devices = checked.machine.devices if checked.machine is not None else ()
    titles = dict.fromkeys(device.title for device in devices if device.available)
    free = _("{size} free").format(size=formats.memory(checked.free)) if checked.free is not None else ""
    when = _("checked {time}").format(time=formats.moment(checked.time)) if checked.time else ""
    state = _("Ready") if obstacle is None else obstacle.title
    return formats.in_line(state, *titles, checked.system, free, when)


class ComputersCard(Card):
    """The list of the other computers."""

    changed = Signal()  # the list, or what is known of one
    guide_wanted = Signal()

    def __init__(self) -> None:
        super().__init__(_("Other computers"))
        self.rows: dict[str, ComputerRow] = {}
        self.hint = text_label(role=Role.HINT)
        self.hint.setText(
            _(
                "A computer with a better GPU can train for this one: a PC in the next room, or a rented one. Hone "
                "reaches it with ssh; you watch the run here."
            )
        )
        self.list = vbox(spacing=2 * SPACING)
        add = push_button(_("Add a computer…"), self.add)
        guide = link_button(_("What is needed"), self.guide_wanted.emit)
        self.body.addLayout(self.list)
        self.body.addWidget(self.hint)
        self.body.addLayout(hbox(add, guide, None))
        self._show()

    def add(self) -> None:
        sheet = ComputerSheet(parent=self)
        sheet.saved.connect(self._on_added)
        sheet.open()

    def end_work(self) -> None:
        for row in self.rows.values():
            row.close_work()

    def _on_added(self, name: str) -> None:
        self._on_change()
        self.rows[name].check()

    def _on_change(self) -> None:
        self._show()
        self.changed.emit()

    def _show(self) -> None:
        known = {computer.name: computer for computer in computers.computers()}
        for name in self.rows.keys() - known.keys():
            row = self.rows.pop(name)
            self.list.removeWidget(row)
            row.hide()
            row.deleteLater()
        for name, computer in known.items():
            if name not in self.rows:
                row = self.rows[name] = ComputerRow(computer)
                row.changed.connect(self._on_change)
                self.list.addWidget(row)
        self.hint.setHidden(bool(known))

"""The menu bar with the keyboard shortcuts, and About."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from functools import partial

import PySide6
from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence, QTextDocument
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QMainWindow,
    QMenu,
    QMessageBox,
    QPlainTextEdit,
    QTabWidget,
    QTextEdit,
)

from core.base.language import _
from core.base.settings import VERSION
from gui.app.guide import CONTENTS, NOTICE, GuideWindow
from gui.app.navigator import Navigator
from gui.app.sidebar import Place, place_titles
from gui.base.questions import MessageBox
from gui.base.theme import Theme
from gui.run.header import KEYS, TITLES, RunAction
from gui.widgets.layout import focus_in_view, tab_stops

CHAPTERS = {
    "welcome": "first-run.md",
    "new_run": "options.md",
    "run": "charts.md",
    "runs": "runs.md",
    "compare": "charts.md",
    "try_it": "exports.md",
}
"""The chapter about each page of the window, by the name of its attribute; the contents for others."""


def _with_letter(title: str, others: Sequence[QAction]) -> str:
    """A title with a mark before the letter that chooses it in a menu: the first of a word that no other entry has."""
    taken = {action.text().partition("&")[2][:1].lower() for action in others}
    starts = [place for place, before in enumerate(f" {title}") if before == " "]
    places = [*starts, *range(len(title))]
    free = (place for place in places if title[place].isalpha() and title[place].lower() not in taken)
    place = next(free, None)
    return title if place is None else f"{title[:place]}&{title[place:]}"


Keys = str | QKeySequence.StandardKey
Do = Callable[[], object]
Standard = QKeySequence.StandardKey


class Commands(QObject):
    """The menu bar of the window. An entry that isn't possible now is grey while its menu is open.

    On a Mac Qt moves About, Settings and Quit to the menu of the application.
    """

    def __init__(self, window: QMainWindow, pages: Navigator, theme: Theme) -> None:
        super().__init__(window)
        self._window, self._pages = window, pages
        self._theme = theme
        self.menus: list[QMenu] = []
        self._conditions: dict[QAction, Callable[[], bool]] = {}
        self.guide: GuideWindow | None = None
        self._add_file()
        self._add_edit()
        self._add_view()
        self._add_run()
        if sys.platform == "darwin":
            self._open_menu(_("Window"))
            self._add(_("Minimize"), window.showMinimized, "Ctrl+M")
            self._add(_("Zoom"), partial(self._switch_state, Qt.WindowState.WindowMaximized))
        self._add_help()

    def close_guide(self) -> None:
        if self.guide is not None:
            self.guide.close()

    def _add_file(self) -> None:
        window = self._window
        self._open_menu(_("&File"))
        self._add(_("New run"), partial(self._go_to, Place.NEW_RUN), "Ctrl+N")
        self._add(_("Open…"), lambda: self._on_new_run(self._pages.new_run.open_file), "Ctrl+O")
        self._add(_("Save as…"), lambda: self._on_new_run(self._pages.new_run.save_file), "Ctrl+Shift+S")
        self._add(_("Import…"), lambda: self._on_new_run(self._pages.new_run.import_options), "Ctrl+I")
        self.menus[-1].addSeparator()
        settings = self._add(_("Settings…"), partial(self._go_to, Place.SETTINGS), "Ctrl+,")
        settings.setMenuRole(QAction.MenuRole.PreferencesRole)
        self.menus[-1].addSeparator()
        self._add(_("Close window"), window.close, "Ctrl+W")
        self._add(_("Quit"), window.close, "Ctrl+Q").setMenuRole(QAction.MenuRole.QuitRole)

    def _add_edit(self) -> None:
        self._open_menu(_("&Edit"))
        for title, keys in (
            (_("Undo"), Standard.Undo),
            (_("Redo"), Standard.Redo),
            (_("Cut"), Standard.Cut),
            (_("Copy"), Standard.Copy),
            (_("Paste"), Standard.Paste),
            (_("Select all"), Standard.SelectAll),
        ):
            self._add(
                title,
                lambda keys=keys: self._edits()[keys](),  # type: ignore[misc]
                keys,
                lambda keys=keys: keys in self._edits(),  # type: ignore[misc]
            )
            if keys in (Standard.Redo, Standard.Paste):
                self.menus[-1].addSeparator()
        self.menus[-1].addSeparator()
        self._add(_("Find…"), self._find, Standard.Find, lambda: self.searched() is not None)

    def _add_view(self) -> None:
        self._open_menu(_("&View"))
        for place, title in place_titles().items():
            self._add(title, partial(self._go_to, place), f"Ctrl+{place.value}")
        self.menus[-1].addSeparator()
        for title, by, keys in (
            (_("Next tab"), 1, Standard.NextChild),
            (_("Previous tab"), -1, Standard.PreviousChild),
        ):
            turn = self._add(title, partial(self._turn, by), keys, lambda: self._tabs() is not None)
        both = [QKeySequence("Ctrl+Shift+Tab"), QKeySequence("Ctrl+Shift+Backtab")]
        turn.setShortcuts(both)  # the first is shown, X11 sends the second
        self.menus[-1].addSeparator()
        sorting = self.menus[-1].addMenu(_("Sort runs by"))
        sorting.aboutToShow.connect(lambda: self._pages.runs_page().table.list_columns(sorting))
        self._conditions[sorting.menuAction()] = self._shows_runs
        self.menus[-1].addSeparator()
        self._add(
            _("Full screen"),
            partial(self._switch_state, Qt.WindowState.WindowFullScreen),
            Standard.FullScreen if sys.platform == "darwin" else "F11",  # not every desktop tells Qt
        )

    def _add_run(self) -> None:
        self._open_menu(_("&Run"))
        self._add(_("Start training"), self._pages.start_shown, "Ctrl+Return", self._can_start)
        self._add(_("Try several values…"), lambda: self._on_new_run(self._pages.new_run.try_values))
        groups = (
            (RunAction.PAUSE, RunAction.RESUME, RunAction.STOP),
            (
                RunAction.TRY,
                RunAction.TEST,
                RunAction.EXPORT,
                RunAction.EXTEND,
                RunAction.DUPLICATE,
            ),
            (RunAction.COMPARE, RunAction.RENAME, RunAction.REVEAL, RunAction.TRASH),
        )
        for group in groups:
            self.menus[-1].addSeparator()
            for action in group:
                self._add_run_action(action)

    def _add_help(self) -> None:
        self._open_menu(_("&Help"))
        self._add(_("User guide"), self.open_chapter, Standard.HelpContents)
        self._add(_("Keyboard shortcuts"), self._show_keys)
        self._add(_("Report a problem…"), self._report_problem)
        self.menus[-1].addSeparator()
        self._add(_("Licences"), partial(self.open_guide, str(NOTICE)))
        self._add(_("About Qt"), QApplication.aboutQt).setMenuRole(QAction.MenuRole.AboutQtRole)
        self._add(_("About Hone"), self.show_about).setMenuRole(QAction.MenuRole.AboutRole)

    def _open_menu(self, title: str) -> None:
        menu = self._window.menuBar().addMenu(title)
        self.menus.append(menu)
        menu.aboutToShow.connect(partial(self._enable, menu, is_open=True))
        menu.aboutToHide.connect(partial(self._enable, menu, is_open=False))

    def _add(
        self, title: str, do: Do, keys: Keys = "", is_possible: Callable[[], bool] = lambda: True
    ) -> QAction:
        action = self.menus[-1].addAction(_with_letter(title, self.menus[-1].actions()))
        action.setMenuRole(QAction.MenuRole.NoRole)
        action.setShortcut(QKeySequence(keys))
        action.triggered.connect(lambda: do() if is_possible() else None)
        self._conditions[action] = is_possible
        self._window.addAction(action)
        return action

    def _add_run_action(self, action: RunAction) -> None:
        """Add what can be done with the run that is shown, or with those selected in the list."""
        self._add(
            TITLES[action],
            partial(self._do_run, action),
            KEYS.get(action, ""),
            lambda: action in self._pages.run_commands(),
        )

    def _do_run(self, action: RunAction) -> None:
        self._pages.run_commands()[action]()

    def _enable(self, menu: QMenu, *, is_open: bool) -> None:
        """Grey what isn't possible. While the menu is closed its shortcuts find that out when they are pressed."""
        for action in menu.actions():
            if action in self._conditions:
                action.setEnabled(not is_open or self._conditions[action]())

    def _go_to(self, place: Place) -> None:
        self._pages.go_to(place)
        self._pages.setFocus()

    def _tabs(self) -> QTabWidget | None:
        return next((tabs for tabs in self._pages.findChildren(QTabWidget) if tabs.isVisible()), None)

    def _turn(self, by: int) -> None:
        """Show the next tab, or the one before, that isn't hidden, and focus what is in it."""
        if (tabs := self._tabs()) is not None:
            shown = [place for place in range(tabs.count()) if tabs.isTabVisible(place)]
            tabs.setCurrentIndex(shown[(shown.index(tabs.currentIndex()) + by) % len(shown)])
            stops = [*tab_stops(tabs.currentWidget()), tabs.tabBar()]
            focus_in_view(stops[0], Qt.FocusReason.ShortcutFocusReason)

    def _shows_runs(self) -> bool:
        return self._pages.runs is not None and self._pages.runs.isVisible()

    def _can_start(self) -> bool:
        return self._pages.currentWidget() is self._pages.new_run

    def _report_problem(self) -> None:
        """Show the support file of the run on screen; without one, the guide says what to do."""
        support = self._pages.run_commands().get(RunAction.SUPPORT)
        support() if support is not None else self.open_guide("troubleshooting.md")

    def _on_new_run(self, do: Do) -> None:
        self._go_to(Place.NEW_RUN)
        do()

    def _switch_state(self, state: Qt.WindowState) -> None:
        self._window.setWindowState(self._window.windowState() ^ state)

    def _edits(self) -> dict[Standard, Do]:
        """What the entries of Edit can do now with the text, the table or the page that has the focus."""
        focused, clipboard = self._window.focusWidget(), QApplication.clipboard()
        if isinstance(focused, QAbstractSpinBox | QComboBox):
            focused = focused.lineEdit() or focused
        edits = self._page_edits()
        if isinstance(focused, QLineEdit | QPlainTextEdit | QTextEdit):
            may_edit = not focused.isReadOnly()
            text: QLineEdit | QTextDocument
            if isinstance(focused, QLineEdit):
                text, is_selected = focused, focused.hasSelectedText()
            else:
                text, is_selected = focused.document(), focused.textCursor().hasSelection()
            for keys, do, is_possible in (
                (Standard.Undo, focused.undo, may_edit and text.isUndoAvailable()),
                (Standard.Redo, focused.redo, may_edit and text.isRedoAvailable()),
                (Standard.Cut, focused.cut, may_edit and is_selected),
                (Standard.Copy, focused.copy, is_selected),
                (Standard.Paste, focused.paste, may_edit and bool(clipboard.text())),
                (Standard.SelectAll, focused.selectAll, True),
            ):
                if is_possible:
                    edits[keys] = do
        elif isinstance(focused, QLabel) and focused.hasSelectedText():
            edits[Standard.Copy] = partial(clipboard.setText, focused.selectedText())
        elif isinstance(focused, QAbstractItemView):
            edits[Standard.Copy] = partial(clipboard.setText, str(focused.currentIndex().data() or ""))
            edits[Standard.SelectAll] = focused.selectAll
        return edits

    def _page_edits(self) -> dict[Standard, Do]:
        """What can be undone and done again, and pasted, on the page that is shown."""
        form, runs, edits = self._pages.new_run, self._pages.runs, dict[Standard, Do]()
        if runs is not None and runs.isVisible() and runs.bin.waiting:
            edits[Standard.Undo] = runs.bin.undo
        if form.isVisible() and form.stack.canUndo():
            edits[Standard.Undo] = form.stack.undo
        if form.isVisible() and form.stack.canRedo():
            edits[Standard.Redo] = form.stack.redo
        tried = self._pages.try_it
        if tried is not None and tried.isVisible() and (paste := tried.input.pastes()) is not None:
            edits[Standard.Paste] = paste
        return edits

    def searched(self) -> QLineEdit | None:
        """The line that filters what is shown."""
        runs = self._pages.runs
        return runs.search if runs is not None and self._shows_runs() else None

    def _find(self) -> None:
        if (line := self.searched()) is not None:
            line.setFocus(Qt.FocusReason.ShortcutFocusReason)
            line.selectAll()

    def open_chapter(self) -> None:
        """Open the guide's chapter about the page that is shown."""
        shown = self._pages.currentWidget()
        pages = (chapter for name, chapter in CHAPTERS.items() if getattr(self._pages, name) is shown)
        self.open_guide(next(pages, CONTENTS))

    def open_guide(self, name: str) -> GuideWindow:
        """Open a chapter by its file's name, or another text by its path."""
        if self.guide is None:
            self.guide = GuideWindow(self._theme)
        self.guide.open_chapter(name)
        return self.guide

    def _show_keys(self) -> None:
        """Show all shortcuts, by menu, in the guide's window."""
        titles = " | ".join((_("Command"), _("Keys")))
        lines = ["# " + _("Keyboard shortcuts"), "", f"| {titles} |", "|---|---|"]
        for menu in self.menus:
            lines.append(f"| **{menu.title().replace('&', '')}** | |")
            for action in menu.actions():
                keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
                lines += [f"| {action.text().replace('&', '')} | {keys} |"] if keys else []
        self.open_guide(CONTENTS).browser.show_markdown("\n".join(lines))

    def show_about(self) -> QMessageBox:
        """Show name, versions and licence."""
        from importlib import metadata  # slow to import

        versions = {
            "PyTorch": metadata.version("torch"),
            "Qt": PySide6.__version__,
            "Python": platform.python_version(),
        }
        text = _(
            "Fine-tune models on your own computer and watch them train.\n\n"
            "{versions}\n\n"
            "Copyright 2026 The Hone authors. Free software under the Apache License 2.0. Qt and Qt for Python are "
            "used under the GNU Lesser General Public License, version 3."
        ).format(versions=" · ".join(f"{name} {version}" for name, version in versions.items()))
        box = MessageBox(_("Hone {version}").format(version=VERSION), text, self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        licences = box.addButton(_("Licences"), QMessageBox.ButtonRole.ActionRole)
        licences.clicked.connect(partial(self.open_guide, str(NOTICE)))
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Close))
        box.open()
        return box

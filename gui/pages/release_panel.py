"""Which Hone this is, and whether a newer one has been published: asked only when the button is pressed."""

import html

from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from core.errors import UserError
from core.releases import ADDRESS, API, Release, ReleaseRequest, Standing
from core.version import REPOSITORY, VERSION
from gui.engine_question import Ask, EngineQuestion
from gui.theme import SPACING
from gui.widgets.link_label import LinkLabel
from gui.widgets.roles import Role, set_role

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
        self._question = EngineQuestion(ask, "release", Release, self)
        self._question.answered.connect(self._take)
        self._question.failed.connect(self._fail)
        self.button = QPushButton(self.tr("Look for a newer version"))
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
            return self.tr(
                "This is Hone {version}. This build has no address where newer versions are published: ask whoever you "
                "got it from."
            ).format(version=VERSION)
        return self.tr(
            "This is Hone {version}, published at {address}. It looks for a newer version only when you press the "
            "button, by asking {host}; nothing about you or this computer is sent."
        ).format(version=VERSION, address=_link(f"{ADDRESS}/{self._repository}"), host=HOST)

    def _ask(self) -> None:
        self.button.setEnabled(False)
        self._say(self.tr("Asking {}…").format(HOST), Role.HINT)
        self._question.put(ReleaseRequest(repository=self._repository, running=VERSION))

    def _take(self, release: Release) -> None:
        self.button.setEnabled(True)
        known = {"running": VERSION, "newest": html.escape(release.version), "page": _link(release.page)}
        match release.standing:
            case Standing.OLDER:
                words = self.tr("Hone {newest} is out; this is {running}. It is at {page}")
            case Standing.SAME:
                words = self.tr("This is Hone {running}, the newest version.")
            case Standing.NEWER:
                words = self.tr("This is Hone {running}; the newest version published is {newest}.")
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

"""The strip above every page where Hone's own folder can't be used."""

from PySide6.QtWidgets import QVBoxLayout, QWidget

from core.events import Level
from core.settings import home
from gui.theme import PAGE_MARGINS
from gui.widgets.direction import margins
from gui.widgets.message_strip import MessageStrip


class HomeStrip(QWidget):
    """Says what stands in the way, what that means and what to do; hidden until then, and once it is put away."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.strip = MessageStrip(closable=True)
        self.strip.closed.connect(self.hide)
        layout = QVBoxLayout(self)
        start, top, end, _ = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end, 0))
        layout.addWidget(self.strip)
        self.hide()

    def show_trouble(self, error: OSError) -> None:
        """Say why Hone's folder can't be used."""
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = self.tr("{} can't be made: a file stands in the way.").format(home())
        else:
            reason = f"{error.filename or home()}: {error.strerror or error}."
        meaning = self.tr(
            "Hone works all the same, but its log and your settings are not kept, and runs only in another folder, "
            "which you can choose under Settings."
        )
        advice = self.tr(
            "To mend it, make {} a folder that you may write to, or name another one in HONE_HOME; then start Hone "
            "again."
        ).format(home())
        title = self.tr("Nothing can be kept in Hone's folder")
        self.strip.show_message(Level.WARNING, title, f"{reason} {meaning}\n{advice}")
        self.show()

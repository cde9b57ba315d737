"""How long the samples are: a histogram with the line where they are cut off, and the same in words."""

from gettext import gettext as _

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from core.services.inspect import DataReport, Lengths, Seen
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING


class ImagesOfOne(QWidget):
    """An image as it is in the file, and as the model sees it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.before, self.after = Picture(_("In the file")), Picture(_("What the model sees"))
        arrow = QLabel("→" if self.layoutDirection() is Qt.LayoutDirection.LeftToRight else "←")
        set_role(arrow, Role.MUTED)
        font = QFont(arrow.font())
        font.setPointSizeF(1.5 * font.pointSizeF())
        arrow.setFont(font)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(SPACING)
        line.addWidget(self.before, 1)
        line.addWidget(arrow)
        line.addWidget(self.after, 1)

    def show_sample(self, seen: Seen) -> None:
        self.before.show_png(seen.original, seen.label)
        self.after.show_png(seen.image, seen.label)


class Picture(QWidget):
    """An image as large as there is room, with a caption that names its size."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title
        self._pixmap = QPixmap()
        self._picture, self._caption = QLabel(), QLabel()
        self._picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._picture.setMinimumSize(64, 64)
        self._picture.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self._caption.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._caption.setWordWrap(True)
        set_role(self._caption, Role.HINT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._picture, 1)
        layout.addWidget(self._caption)

    def show_png(self, content: bytes, label: str) -> None:
        self._pixmap = QPixmap()
        self._pixmap.loadFromData(content)
        size = self._pixmap.size()
        self._caption.setText(
            _("{title}, {width} × {height}").format(
                title=self._title, width=size.width(), height=size.height()
            )
        )
        self._picture.setAccessibleName(f"{self._caption.text()} {label}".strip())
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        if self._pixmap.isNull():
            return
        ratio = self.devicePixelRatioF()
        room = self._picture.size() * ratio
        is_tiny = self._pixmap.width() * 2 <= room.width()  # pixels of a tiny image are to be seen as such
        mode = Qt.TransformationMode
        scaled = self._pixmap.scaled(
            room,
            Qt.AspectRatioMode.KeepAspectRatio,
            mode.FastTransformation if is_tiny else mode.SmoothTransformation,
        )
        scaled.setDevicePixelRatio(ratio)
        self._picture.setPixmap(scaled)


HEIGHT_LINES = 9
GAP = 1.0
ROOM_BEYOND = 1.3
"""The limit is drawn where it is no further than this beyond the longest sample; else the bars would be squashed."""


class LengthBars(QWidget):
    """A histogram. What is longer than the limit is grey: it is not seen."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._lengths: Lengths | None = None
        self._limit: int | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.changed.connect(self.update)

    def show_lengths(self, lengths: Lengths | None, limit: int | None) -> None:
        """Show these lengths, and a line at `limit`, in the same unit; None: no line."""
        self._lengths, self._limit = lengths, limit
        self.update()

    @property
    def limit(self) -> int | None:
        return self._limit

    @property
    def has_line(self) -> bool:
        limit, lengths = self._limit, self._lengths
        return limit is not None and lengths is not None and limit <= ROOM_BEYOND * lengths.edges[-1]

    def sizeHint(self) -> QSize:
        return QSize(30 * self.fontMetrics().averageCharWidth(), HEIGHT_LINES * self.fontMetrics().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(10 * self.fontMetrics().averageCharWidth(), 2 * self.sizeHint().height() // 3)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._lengths is None or not self._lengths.counts:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        plot = self._plot()
        self._paint_bars(painter, plot, self._lengths)
        self._paint_axis(painter, plot, self._lengths)
        if self.has_line:
            self._paint_line(painter, plot)

    def _plot(self) -> QRectF:
        line = self.fontMetrics().height()
        return QRectF(1, line + SPACING / 2, self.width() - 2, self.height() - 2 * line - SPACING)

    def _paint_bars(self, painter: QPainter, plot: QRectF, lengths: Lengths) -> None:
        tokens, highest = self._theme.tokens, max(lengths.counts) or 1
        painter.setPen(Qt.PenStyle.NoPen)
        for index, count in enumerate(lengths.counts):
            left, right = (self._x(plot, edge) for edge in lengths.edges[index : index + 2])
            height = max(2.0, plot.height() * count / highest) if count else 0.0
            bar = QRectF(min(left, right), plot.bottom() - height, abs(right - left), height)
            bar.adjust(GAP / 2, 0, -GAP / 2, 0)
            is_cut = self._limit is not None and lengths.edges[index] >= self._limit
            painter.setBrush(QColor(tokens.others if is_cut else tokens.run))
            painter.drawRect(bar)

    def _paint_axis(self, painter: QPainter, plot: QRectF, lengths: Lengths) -> None:
        tokens, metrics = self._theme.tokens, self.fontMetrics()
        painter.setPen(QColor(tokens.line))
        painter.drawLine(plot.bottomLeft(), plot.bottomRight())
        painter.setPen(QColor(tokens.muted))
        taken = 0.0
        for value in _round_values(lengths.edges[0], self._end(lengths)):
            text, x = f"{value:,}", self._x(plot, value)
            width = metrics.horizontalAdvance(text)
            left = min(max(0.0, x - width / 2), self.width() - width)
            if taken and abs(left - taken) < 2 * width:
                continue
            taken = left
            painter.drawText(QPointF(left, plot.bottom() + metrics.ascent() + 2), text)

    def _paint_line(self, painter: QPainter, plot: QRectF) -> None:
        assert self._limit is not None
        tokens, metrics = self._theme.tokens, self.fontMetrics()
        x = self._x(plot, self._limit)
        painter.setPen(QPen(QColor(tokens.bad), 1.5, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, plot.top() - 2), QPointF(x, plot.bottom()))
        text = _("cut off at {limit:,}").format(limit=self._limit)
        width = metrics.horizontalAdvance(text)
        left = min(max(0.0, x - width / 2), self.width() - width)
        painter.setPen(QColor(tokens.bad))
        painter.drawText(QPointF(left, metrics.ascent()), text)

    def _end(self, lengths: Lengths) -> int:
        return max(lengths.edges[-1], self._limit or 0) if self.has_line else lengths.edges[-1]

    def _x(self, plot: QRectF, value: float) -> float:
        assert self._lengths is not None
        first, last = self._lengths.edges[0], self._end(self._lengths)
        share = (value - first) / max(1, last - first)
        if self.layoutDirection() is Qt.LayoutDirection.RightToLeft:
            share = 1 - share
        return plot.left() + share * plot.width()


def _round_values(first: int, last: int) -> list[int]:
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    step = next(step for step in steps if (last - first) / step <= 6)
    return list(range(-(-first // step) * step, last + 1, step))


def cut_by(lengths: Lengths, limit: int) -> tuple[int, bool]:
    """How many samples are longer than `limit`, and whether that is exact: within a bar it is shared out evenly."""
    if lengths.limit == limit:
        return lengths.cut, True
    if limit >= lengths.longest:
        return 0, True
    longer, exact = 0.0, True
    for index, count in enumerate(lengths.counts):
        start, end = lengths.edges[index], lengths.edges[index + 1]
        if start > limit:
            longer += count
        elif end > limit + 1 and count:
            longer += count * (end - limit - 1) / (end - start)
            exact = False
    return round(longer), exact


TOKENS = "tokens"


class LengthsPane(QWidget):
    """Bars and words; the line follows the option at once, before the data has been counted anew."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lengths: Lengths | None = None
        self._rows = 0
        self._limit: int | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, SPACING // 2, 0, 0)
        layout.setSpacing(SPACING // 2)
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        self._bars = LengthBars(theme)
        layout.addWidget(self._bars, 1)
        layout.addWidget(self._words)

    def show_report(self, report: DataReport | None) -> None:
        self._lengths = report.lengths if report is not None else None
        self._rows = sum(self._lengths.counts) if self._lengths else 0
        self._show()

    def set_limit(self, limit: int | None) -> None:
        self._limit = limit
        self._show()

    @property
    def words(self) -> str:
        return self._words.text()

    @property
    def bars(self) -> LengthBars:
        return self._bars

    def _show(self) -> None:
        lengths = self._lengths
        if lengths is None:
            return
        is_cut = lengths.unit == TOKENS and lengths.limit is not None
        limit = (self._limit or lengths.limit) if is_cut else None
        self._bars.show_lengths(lengths, limit)
        words = " ".join(part for part in (self._cut_words(lengths, limit), self._spread(lengths)) if part)
        self._words.setText(words)
        self._bars.setAccessibleName(_("Lengths of the rows: {words}").format(words=words))

    def _cut_words(self, lengths: Lengths, limit: int | None) -> str:
        if limit is None:
            return ""
        count, is_exact = cut_by(lengths, limit)
        if not count:
            return _("None is cut off at {limit:,} {unit}.").format(limit=limit, unit=self._unit())
        words = (
            _("{count:,} of {rows:,} are cut off at {limit:,} {unit}.")
            if is_exact
            else _("About {count:,} of {rows:,} are cut off at {limit:,} {unit}.")
        )
        return words.format(count=count, rows=self._rows, limit=limit, unit=self._unit())

    def _spread(self, lengths: Lengths) -> str:
        words = _("Half have {median:,} {unit} or fewer, the longest has {longest:,}.")
        return words.format(median=lengths.median, longest=lengths.longest, unit=self._unit())

    def _unit(self) -> str:
        is_tokens = self._lengths is None or self._lengths.unit == TOKENS
        return _("tokens") if is_tokens else _("characters")

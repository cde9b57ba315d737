"""What the card "Will it fit?" says: verdicts, how a figure is known, times, and what a remedy is worth."""

import time
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from core.memory.forecast import Basis, Forecast, Parts, Room, Verdict
from core.memory.ladder import Remedy
from gui.numbers import about, memory, moment, step_time, three_figures
from gui.pages.new_run_fit_measured import Gain
from gui.widgets.parts_bar import Limit, Part
from gui.widgets.roles import Role

_translate = QCoreApplication.translate

JUST_NOW = 5 * 60.0
"""Seconds for which something was measured "just now"."""

SAME_TIME = 0.015
"""A step slower by less is no slower."""


@dataclass(frozen=True)
class Headline:
    """The answer in a word or two, the figures behind it, and how loud it is."""

    verdict: str
    figures: str
    role: Role


def headline(forecast: Forecast, ran_out: bool = False) -> Headline:
    """Whether it fits.

    Args:
        forecast: What is known, beside the room there is now.
        ran_out: Whether a dry run has run out of memory, so that the figures are those of that moment.
    """
    total, room = forecast.parts.total, forecast.room
    if ran_out:
        words = _translate("Fit", "memory ran out at {size}").format(size=memory(total))
        return Headline(_translate("Fit", "Doesn't fit"), words, Role.VERDICT_BAD)
    if room is None:
        words = _translate("Fit", "how much is free can't be told here")
        return Headline(_translate("Fit", "Takes {size}").format(size=memory(total)), words, Role.VERDICT)
    known = _translate("Fit", "{size} of {free} free").format(size=memory(total), free=memory(room.free))
    match forecast.verdict:
        case Verdict.TOO_LARGE:
            over = _translate("Fit", "{size}, that is {over} too much")
            words = over.format(size=memory(total), over=memory(total - room.free))
            return Headline(_translate("Fit", "Doesn't fit"), words, Role.VERDICT_BAD)
        case Verdict.TIGHT:
            return Headline(_translate("Fit", "Fits tightly"), known, Role.VERDICT_TIGHT)
        case _:
            return Headline(_translate("Fit", "Fits"), known, Role.VERDICT_GOOD)


def basis_words(basis: Basis, measured_at: float | None = None) -> str:
    """How the figures are known, beside the card's title."""
    match basis:
        case Basis.FORMULA:
            return _translate("Fit", "forecast by formula")
        case Basis.TRACE:
            return _translate("Fit", "forecast, traced")
    if measured_at is None or time.time() - measured_at < JUST_NOW:
        return _translate("Fit", "measured just now")
    return _translate("Fit", "measured at {clock}").format(clock=clock(measured_at))


def basis_help(basis: Basis) -> str:
    """What it means that the figures are known this way."""
    match basis:
        case Basis.FORMULA:
            return _translate(
                "Fit",
                "Counted from the size of the model and your choices, without trying anything. It changes at once as "
                "you choose.",
            )
        case Basis.TRACE:
            return _translate(
                "Fit",
                "Hone went through one step of this very model with tensors that hold nothing, and added up what "
                "each of them would take.",
            )
        case Basis.MEASURED:
            return _translate("Fit", "A few real steps were trained, and this is the most that they held.")


def undivided_words() -> str:
    """What the only figure of a dry run that was ended from outside is."""
    return _translate("Fit", "What the dry run held when it was ended; nobody could look inside.")


def bar_parts(parts: Parts, *, is_undivided: bool = False) -> list[Part]:
    """The parts as the bar shows them; buffers and overhead are one.

    Args:
        parts: The parts.
        is_undivided: Whether only the whole is known.
    """
    if is_undivided:
        return [Part(_translate("Fit", "held in all"), parts.total, "run", undivided_words())]
    return [
        Part(
            _translate("Fit", "weights"),
            parts.weights,
            "run",
            _translate("Fit", "The numbers the model consists of."),
        ),
        Part(
            _translate("Fit", "gradients"),
            parts.gradients,
            "gradients",
            _translate("Fit", "For each weight that learns, which way it should move."),
        ),
        Part(
            _translate("Fit", "optimizer"),
            parts.optimizer,
            "optimizer",
            _translate("Fit", "What the optimizer remembers of the steps before."),
        ),
        Part(
            _translate("Fit", "activations"),
            parts.activations,
            "activations",
            _translate("Fit", "What each layer computed for this batch, kept until the gradients are known."),
        ),
        Part(
            _translate("Fit", "overhead"),
            parts.overhead + parts.temporary,
            "others",
            _translate(
                "Fit",
                "{temporary} of temporary buffers, and {overhead} of overhead: PyTorch itself, its libraries, and "
                "memory that it holds back without using it.",
            ).format(temporary=memory(parts.temporary), overhead=memory(parts.overhead)),
        ),
    ]


def bar_limits(room: Room | None) -> list[Limit]:
    """What is free and what there is at most."""
    if room is None:
        return []
    free = _translate("Fit", "{size} free now").format(size=memory(room.free))
    ceiling = _translate("Fit", "{size} in all").format(size=memory(room.ceiling))
    return [Limit(free, room.free, "text"), Limit(ceiling, room.ceiling, "bad")]


def saving_words(remedy: Remedy, now: Verdict, after: Verdict, gain: Gain | None = None) -> str:
    """What a remedy is worth, and what it costs: `−1.20 GB, then it fits · about 30 % slower`.

    Args:
        remedy: The remedy.
        now: Whether it fits as it is.
        after: Whether it fits with it.
        gain: What was measured of it, which goes before what is forecast.
    """
    if not remedy.changes:
        return remedy.help
    if gain is not None and gain.ran_out:
        return _translate("Fit", "memory ran out with it, too, when that was measured")
    saved = _saved_words(remedy, gain)
    if now is Verdict.TOO_LARGE and after in (Verdict.FITS, Verdict.TIGHT):
        saved = _translate("Fit", "{saved}, then it fits").format(saved=saved)
    if now is Verdict.TIGHT and after is Verdict.FITS:
        saved = _translate("Fit", "{saved}, then with room to spare").format(saved=saved)
    if gain is not None and gain.slower is not None:
        return f"{saved} · {_measured_slower_words(gain.slower)}"
    return f"{saved} · {slower_words(remedy.slower)}"


def _saved_words(remedy: Remedy, gain: Gain | None) -> str:
    if gain is None:
        return _translate("Fit", "−{size}").format(size=memory(remedy.saves))
    if gain.saves is None:
        return _translate("Fit", "{size} in all measured").format(size=memory(gain.takes))
    words = (
        _translate("Fit", "−{size} measured") if gain.saves >= 0 else _translate("Fit", "+{size} measured")
    )
    return words.format(size=memory(abs(gain.saves)))


def slower_words(factor: float) -> str:
    """What a factor of the time of a step means, as far as a forecast can know it: `about 30 % slower`."""
    if abs(factor - 1) < SAME_TIME:
        return _translate("Fit", "no slower")
    if factor >= 2:
        return _translate("Fit", "about {factor} times as long").format(factor=three_figures(factor))
    percent = max(1, round(abs(factor - 1) * 100))
    if percent > 5:
        percent = 5 * round(percent / 5)
    words = (
        _translate("Fit", "about {percent} % slower")
        if factor > 1
        else _translate("Fit", "about {percent} % faster")
    )
    return words.format(percent=percent)


def _measured_slower_words(factor: float) -> str:
    """The same, measured: `12 % slower measured`."""
    percent = round(abs(factor - 1) * 100)
    if abs(factor - 1) < SAME_TIME:
        return _translate("Fit", "no slower measured")
    if factor >= 2:
        return _translate("Fit", "{factor} times as long measured").format(factor=three_figures(factor))
    words = (
        _translate("Fit", "{percent} % slower measured")
        if factor > 1
        else _translate("Fit", "{percent} % faster measured")
    )
    return words.format(percent=percent)


def time_words(step_seconds: float, run_seconds: float | None, compile_seconds: float) -> str:
    """How long it takes: `420 ms a step · about 12 min, done at 14:35`; compiling is told apart."""
    parts = [_translate("Fit", "{time} a step").format(time=step_time(step_seconds))]
    if run_seconds is not None:
        words = _translate("Fit", "about {span}, done at {clock}")
        parts.append(words.format(span=about(run_seconds), clock=clock(time.time() + run_seconds)))
    if compile_seconds >= 1:
        parts.append(_translate("Fit", "{span} of it to compile").format(span=about(compile_seconds)))
    return " · ".join(parts)


def clock(unix_seconds: float) -> str:
    """A time of day: `14:35`; with its date where that is another day."""
    then, now = time.localtime(unix_seconds), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return moment(unix_seconds)

"""What the window says of a model on the Hub: its state, what the button does, and what to know before."""

from PySide6.QtCore import QCoreApplication

from core import hub
from core.hub_download import Pace
from core.hub_questions import Found, Kind, Progress
from gui import numbers

_translate = QCoreApplication.translate

HERE = "✓"


def state_words(found: Found) -> str:
    """The state in a few letters: here, partly here, gated, not for Hone."""
    if found.refusal:
        return _translate("Hub", "can't be used")
    if found.complete:
        return _translate("Hub", "{mark} here").format(mark=HERE)
    if found.here and found.size:
        share = numbers.whole_percent(min(0.99, found.here / found.size))
        return _translate("Hub", "{share} here").format(share=share)
    if found.here:
        return _translate("Hub", "{size} here").format(size=numbers.memory(found.here))
    if found.gated:
        return _translate("Hub", "gated")
    return _translate("Hub", "private") if found.private else ""


def button_words(found: Found | None, *, signed_in: bool) -> str:
    """What pressing the button does with a model, or why nothing."""
    if found is None or found.complete:
        return _translate("Hub", "Use")
    if found.refusal:
        return _translate("Hub", "Can't be used")
    if needs_token(found, signed_in=signed_in):
        return _translate("Hub", "Sign in first…")
    return _download_words(found)


def _download_words(found: Found) -> str:
    if found.size is None or found.kind is Kind.DATASET:  # of which a subset may be all that comes
        return _translate("Hub", "Download and use")
    if found.here:
        rest = numbers.memory(max(0, found.size - found.here))
        return _translate("Hub", "Download the other {size} and use").format(size=rest)
    return _translate("Hub", "Download {size} and use").format(size=numbers.memory(found.size))


def needs_token(found: Found, *, signed_in: bool) -> bool:
    """Whether a token has to be given before it can be had."""
    return found.gated and not signed_in and not found.complete and not found.refusal


def facts(found: Found) -> str:
    """A line of what is known of it."""
    purpose = found.purpose.replace("-", " ")
    licence = _translate("Hub", "licence {name}").format(name=found.licence) if found.licence else ""
    return " · ".join(part for part in (purpose, licence) if part)


def explanation(found: Found, *, signed_in: bool) -> str:
    """What to know of it before pressing the button, its refusal aside."""
    if found.refusal:
        return found.remedy
    if found.complete:
        return _translate("Hub", "It is on this computer: using it needs no network.")
    words = (
        _translate("Hub", "Fetches its weights (safetensors), config and tokenizer from {host}; no code.")
        if found.kind is Kind.MODEL
        else _translate("Hub", "Fetches its rows (Parquet, CSV, JSON) from {host}; no code.")
    ).format(host=hub.host())
    return f"{_gated_words(signed_in=signed_in)}\n{words}" if found.gated else words


def progress_words(progress: Progress, pace: Pace) -> str:
    """How far a download is: `120 of 268 MB · 12.1 MB/s · 12 s left`."""
    words = _translate("Hub", "{done} of {total}").format(
        done=numbers.memory(progress.done), total=numbers.memory(progress.total)
    )
    speed, left = pace.speed, pace.left(progress)
    if speed:
        words += " · " + _translate("Hub", "{speed}/s").format(speed=numbers.memory(speed))
    if left is not None:
        words += " · " + _translate("Hub", "{time} left").format(time=numbers.duration(left))
    return words


def _gated_words(*, signed_in: bool) -> str:
    words = _translate(
        "Hub",
        "Its owner lets in only who has accepted its terms: open its page, sign in there, and accept them.",
    )
    if not signed_in:
        words += " " + _translate("Hub", "Then give Hone a token of yours.")
    return words

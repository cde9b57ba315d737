"""What the window says of the GPU pack: what it is, how it stands, what it takes."""

from PySide6.QtCore import QCoreApplication

from core.gpu_pack.pack import Pack
from core.gpu_pack.what import Offer, Situation
from gui import numbers

_translate = QCoreApplication.translate


def situation_words(found: Situation) -> str:
    """How it stands, in a sentence or three."""
    standing = found.standing
    if standing.is_used and standing.pack is not None:
        return pack_words(standing.pack)
    if standing.refusal:
        return standing.refusal
    if not found.offer.stands:
        return found.offer.refusal
    return offer_words(found)


def offer_words(found: Situation) -> str:
    """What can be installed, and what it takes."""
    offer = found.offer
    name = offer.card.name if offer.card is not None else ""
    words = _translate(
        "GpuPack",
        "{card} is in this computer, and Hone came with PyTorch for the CPU alone. The GPU pack is PyTorch with CUDA: "
        "about {download} to download, {installed} once installed.",
    ).format(card=name, download=numbers.memory(offer.download), installed=numbers.memory(offer.installed))
    if found.free is not None:
        words += " " + _translate("GpuPack", "{free} are free.").format(free=numbers.memory(found.free))
    if found.begun:
        words += " " + _translate("GpuPack", "{size} of it are here already.").format(
            size=numbers.memory(found.begun)
        )
    return words


def pack_words(pack: Pack) -> str:
    """What a pack that is used is, and whether it reaches the card."""
    checked = pack.checked
    cuda = checked.cuda or _translate("GpuPack", "none")
    told = {"torch": checked.torch, "cuda": cuda, "device": checked.device, "size": numbers.memory(pack.size)}
    if checked.device:
        words = _translate(
            "GpuPack", "Hone computes with PyTorch {torch} and CUDA {cuda} on {device}. It takes {size}."
        )
        return words.format(**told)
    words = _translate(
        "GpuPack",
        "Hone computes with PyTorch {torch}, CUDA {cuda}, which reached no NVIDIA card when it was installed. It takes "
        "{size}.",
    )
    why = checked.problem or _translate("GpuPack", "The driver may be too old: update it.")
    return f"{words.format(**told)} {why}"


def button_words(found: Situation) -> str:
    """What pressing the button does; empty: there is nothing to press."""
    standing = found.standing
    if standing.is_used:
        return ""
    if standing.can_renew:
        return _translate("GpuPack", "Renew")
    if not found.offer.stands:
        return ""
    if standing.is_there:
        return _translate("GpuPack", "Renew, {size}").format(size=_size(found.offer))
    if found.begun:
        return _translate("GpuPack", "Go on installing")
    return _translate("GpuPack", "Install the GPU pack, {size}").format(size=_size(found.offer))


def _size(offer: Offer) -> str:
    return numbers.memory(offer.download)

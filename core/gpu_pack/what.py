"""Whether the GPU pack is to be had on this computer, which one, and how much it takes; or why not."""

import platform
import shutil
import sys
from dataclasses import dataclass
from typing import Any

import pynvml

from core.gpu_pack import builds, places
from core.gpu_pack.using import Standing, standing
from core.machine.nvidia import driver_version, find_gpu
from core.processes import is_frozen
from core.settings import home

GB = 1 << 30
"""As the window and the command line count it."""

DOWNLOAD = int(2.7 * GB)
"""Bytes that come, by the wheels for Linux of CUDA 13: PyTorch 0.5 GB, NVIDIA's libraries 2.0, all others 0.2."""

INSTALLED = int(5.6 * GB)
"""Bytes of a pack that is done; start.py reckons with as much."""

ROOM = int(7.5 * GB)
"""Free bytes that installing it takes."""

PROCESSORS = frozenset({"x86_64", "amd64", "aarch64"})


@dataclass(frozen=True)
class Card:
    """An NVIDIA card: its name, compute capability, and the first number of its driver's version, where they tell."""

    name: str
    capability: tuple[int, int] | None = None
    driver: int | None = None


@dataclass(frozen=True)
class Place:
    """What decides besides the card: the system (`sys.platform`), the processor, and whether this is a bundle."""

    system: str
    processor: str
    frozen: bool


@dataclass(frozen=True)
class Offer:
    """What can be installed: the build for `card`, and the bytes it takes. `refusal` says why nothing can.

    `card` is None where there is none, or where nothing is to be had with one either.
    """

    refusal: str = ""
    card: Card | None = None
    build: str = ""
    download: int = DOWNLOAD
    installed: int = INSTALLED
    room: int = ROOM

    @property
    def stands(self) -> bool:
        """Whether there is something to install."""
        return not self.refusal


@dataclass(frozen=True)
class Situation:
    """All there is to say: the offer, the pack that is there, bytes begun of one, and the free ones of the disk."""

    offer: Offer
    standing: Standing
    begun: int = 0
    free: int | None = None

    @property
    def concerns(self) -> bool:
        """Whether a person may want to hear of it: there is a card to use, or a pack to run from or to remove."""
        return self.offer.card is not None or self.standing.is_there or bool(self.begun)


def look() -> Situation:
    """Look at this computer; a driver that hangs keeps it waiting, and a pack in the making takes a second to weigh."""
    place = Place(sys.platform, platform.machine(), is_frozen())
    card = None if _why_not(place) else find_card()
    unfinished = [path for path in (places.cache_folder(), *places.leftovers()) if path.is_dir()]
    return Situation(offer(place, card), standing(), places.size_of(*unfinished), free_bytes())


def offer(place: Place, card: Card | None) -> Offer:
    """What can be installed on a computer."""
    refusal = _why_not(place)
    if refusal:
        return Offer(refusal)
    if card is None:
        return Offer(
            "No NVIDIA card, or no driver for it, was found: install NVIDIA's driver, then start Hone again."
        )
    build = builds.build_for(card.capability, card.driver)
    if not build:
        wanted = builds.driver_wanted(card.capability)
        return Offer(
            f"{card.name} has driver {card.driver}, which is too old: install NVIDIA's driver {wanted} or newer.",
            card,
        )
    return Offer(card=card, build=build)


def find_card(nvml: Any = pynvml) -> Card | None:
    """The first NVIDIA card; None: there is none, or no driver."""
    gpu = find_gpu(nvml=nvml)
    return None if gpu is None else Card(gpu.name, gpu.capability(), driver_version(nvml))


def free_bytes() -> int | None:
    """Free bytes of the disk that the pack goes to; None: not known."""
    folder = home()
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _why_not(place: Place) -> str:
    """Why there is no pack for this place, whatever card is in it; empty: there is one."""
    if place.system == "darwin":
        return "Macs have no CUDA: Hone trains on their GPU (MPS) as it is."
    if place.processor.lower() not in PROCESSORS:
        return f"PyTorch has no CUDA build for this processor ({place.processor})."
    if not place.frozen:
        return "This Hone runs from its source: start.py installs the PyTorch that fits the card."
    return ""

"""`hone gpu-pack`: installing PyTorch with CUDA beside a bundle, removing it, and how it stands."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core import figures
from core.commands.attendance import INTERRUPTED
from core.commands.output import print_json, say
from core.gpu_pack import places, what
from core.gpu_pack.install import Install, PackProgress, Step, installation, remove
from core.gpu_pack.pack import Checked, Pack
from core.gpu_pack.using import Standing
from core.hub_download import Pace

STEPS = {
    Step.PYTHON: "Bringing Python",
    Step.LIBRARIES: "Bringing the libraries",
    Step.CHECK: "Checking that it works",
}

if TYPE_CHECKING:
    from core.commands.arguments import Commands


def add_gpu_pack(commands: "Commands") -> None:
    """Add `gpu-pack` and its own commands to a command line."""
    group = commands.add_parser(
        "gpu-pack",
        help="PyTorch with CUDA for an NVIDIA card, where Hone was installed without it",
        description="The programs for Windows and Linux carry PyTorch for the CPU. With an NVIDIA card, this installs "
        "the CUDA build into Hone's own folder, and the engine runs from it.",
    )
    inner = group.add_subparsers(title="commands", required=True, metavar="COMMAND")
    installing = inner.add_parser(
        "install",
        help="install or renew it",
        description="Download and install it, about 3 GB, or renew it for this Hone. Ctrl-C pauses, and the same "
        "command goes on.",
    )
    installing.add_argument(
        "--from",
        type=Path,
        dest="wheels",
        metavar="FOLDER",
        help="take all wheels from a folder, and nothing from the internet",
    )
    installing.set_defaults(run=lambda asked: install(asked.wheels))
    removing = inner.add_parser("remove", help="delete it, and what has come of one that isn't done")
    removing.set_defaults(run=lambda _: take_away())
    standing = inner.add_parser("status", help="say whether it is there, used, or to be had")
    standing.add_argument("--json", action="store_true")
    standing.set_defaults(run=lambda asked: status(as_json=asked.json))


def install(wheels: Path | None, make: "Install | None" = None) -> int:
    """Install the pack, telling how far it is."""
    installing = make or installation(wheels)
    teller = _Teller()
    try:
        pack = installing.run(teller.tell)
    except KeyboardInterrupt:
        installing.kill()
        say("Paused. The same command goes on; `hone gpu-pack remove` deletes what has come.", sys.stderr)
        return INTERRUPTED
    say("\n".join(pack_lines(pack)))
    return 0


def take_away() -> int:
    """Delete the pack."""
    say(f"{figures.size(remove())} freed")
    return 0


def status(*, as_json: bool) -> int:
    """Print how it stands."""
    found = what.look()
    if as_json:
        print_json(found)
    else:
        say("\n".join(status_lines(found)))
    return 0


def status_lines(found: what.Situation) -> list[str]:
    """How it stands, for a terminal."""
    lines = standing_lines(found.standing) or ["There is no GPU pack on this computer."]
    offer = found.offer
    if found.begun:
        lines.append(f"{figures.size(found.begun)} of one that isn't done lie in {places.cache_folder()}.")
    if offer.refusal:
        return [*lines, offer.refusal]
    if not found.standing.is_used and offer.card is not None:
        free = f", {figures.size(found.free)} are free" if found.free is not None else ""
        lines.append(
            f"{offer.card.name}: `hone gpu-pack install` brings PyTorch's {offer.build} build, about "
            f"{figures.size(offer.download)} of downloads; it takes {figures.size(offer.room)} of room{free}."
        )
    return lines


def standing_lines(standing: Standing) -> list[str]:
    """The pack that is there; nothing where there is none."""
    lines = [] if standing.pack is None else pack_lines(standing.pack)
    return [*lines, *([standing.refusal] if standing.refusal else [])]


def pack_lines(pack: Pack) -> list[str]:
    """What a pack is, and whether it reaches a card."""
    lines = [
        f"GPU pack: PyTorch {pack.checked.torch}, {_cuda_words(pack.checked)}, {figures.size(pack.size)} in "
        f"{places.pack_folder()}"
    ]
    if pack.checked.cuda and not pack.checked.device:
        why = pack.checked.problem or "its driver may be too old"
        lines.append(f"When it was installed, PyTorch reached no NVIDIA card: {why}.")
    return lines


def _cuda_words(checked: Checked) -> str:
    return f"CUDA {checked.cuda}" if checked.cuda else "without CUDA"


class _Teller:
    """Says each step once, and every tenth of what comes."""

    def __init__(self) -> None:
        self._step: Step | None = None
        self._tenth = 0
        self._pace = Pace()

    def tell(self, progress: PackProgress) -> None:
        """Hear how far it is."""
        if progress.step is not self._step:
            self._step = progress.step
            say(f"{STEPS[progress.step]} …", sys.stderr)
        if not progress.total:
            return
        self._pace.add(progress)
        tenth = 10 * progress.done // progress.total
        if tenth > self._tenth:
            self._tenth = tenth
            left = self._pace.left(progress)
            words = f", {figures.duration(left)} left" if left else ""
            say(f"about {figures.size(progress.done)} of {figures.size(progress.total)}{words}", sys.stderr)

"""`hone gpu-pack`: installing PyTorch with CUDA beside a bundle, removing it, and how it stands."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core import figures
from core.commands.attendance import INTERRUPTED
from core.commands.output import print_json, say
from core.errors import Fix, UserError
from core.gpu_pack import builds, places, uv, what
from core.gpu_pack.install import Install, PackProgress, Step, installation, remove
from core.gpu_pack.needs import needs
from core.gpu_pack.pack import Checked, Needs, Pack
from core.gpu_pack.tools import archive_name, write_lists
from core.gpu_pack.using import Standing
from core.hub_download import Pace

STEPS = {
    Step.PYTHON: "Bringing Python",
    Step.LIBRARIES: "Bringing the libraries",
    Step.CHECK: "Checking that it works",
}

NO_CARD = "No NVIDIA card, or no driver for it, was found here: the pack will compute on the CPU."

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
        help="take all from a folder, and nothing from the internet; `needs` says what has to be in it",
    )
    installing.set_defaults(run=lambda asked: install(asked.wheels))
    removing = inner.add_parser("remove", help="delete it, and what has come of one that isn't done")
    removing.set_defaults(run=lambda _: take_away())
    needing = inner.add_parser(
        "needs",
        help="say what a folder for `install --from` has to hold",
        description="Writes lists of the libraries into a folder, and says how they, uv and Python come there.",
    )
    needing.add_argument("folder", type=Path, metavar="FOLDER")
    needing.add_argument(
        "--build",
        choices=(builds.CUDA_13, builds.CUDA_12),
        help="PyTorch's build (default: the one for this computer's card)",
    )
    needing.set_defaults(run=lambda asked: tell_needs(asked.folder, asked.build))
    standing = inner.add_parser("status", help="say whether it is there, used, or to be had")
    standing.add_argument("--json", action="store_true")
    standing.set_defaults(run=lambda asked: status(as_json=asked.json))


def install(wheels: Path | None, make: "Install | None" = None) -> int:
    """Install the pack, telling how far it is."""
    if wheels is not None and what.find_card() is None:
        say(NO_CARD, sys.stderr)
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


def tell_needs(folder: Path, build: str | None) -> int:
    """Write down what a folder that the pack is made of has to hold, and print how it comes there."""
    found = what.look().offer
    if build is None and not found.stands:
        raise UserError(
            "Which build of PyTorch is needed isn't known here",
            found.refusal,
            (Fix(f"Name it: --build {builds.CUDA_13}, or {builds.CUDA_12} for cards before Turing"),),
        )
    wanted = needs(build or found.build)
    folder.mkdir(parents=True, exist_ok=True)
    write_lists(folder.absolute(), wanted)
    say("\n".join(needs_lines(folder.absolute(), wanted)))
    return 0


def needs_lines(folder: Path, wanted: Needs) -> list[str]:
    """How a folder is filled, on a computer with the internet and pip."""
    return [
        f"{folder} holds lists of the libraries now. With Python {wanted.python}, on a computer with the same system "
        "and the internet, in that folder:",
        "  python -m pip download --only-binary :all: --requirement requirements.txt --constraint constraints.txt "
        f"--extra-index-url {builds.index_of(wanted.build)} uv=={uv.VERSION}",
        f"Put Python there as well: an archive {archive_name(wanted)} for that system, from "
        "https://github.com/astral-sh/python-build-standalone/releases",
        "Then, on the computer with the card: hone gpu-pack install --from FOLDER",
    ]


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

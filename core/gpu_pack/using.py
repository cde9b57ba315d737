"""Running the engine from the GPU pack, where there is one that fits this Hone; where it doesn't, saying why."""

from dataclasses import dataclass
from pathlib import Path

from core.errors import UserError
from core.gpu_pack import places
from core.gpu_pack.needs import needs
from core.gpu_pack.pack import LIBRARIES, OWN, Filled, Pack, interpreter_of, read_filled, read_pack
from core.processes import SOURCE_ROOT, is_frozen
from core.version import VERSION

SCRIPTS = Path("core", "gpu_pack")


@dataclass(frozen=True)
class Standing:
    """The pack on this computer. `refusal` says why the engine doesn't run from it; both are empty where there is none.

    `can_renew`: its libraries are those this Hone needs, and its Python is there, so that little has to be done.
    """

    pack: Pack | None = None
    refusal: str = ""
    can_renew: bool = False

    @property
    def is_there(self) -> bool:
        """Whether something is there, of use or not."""
        return self.pack is not None or bool(self.refusal)

    @property
    def is_used(self) -> bool:
        """Whether the engine runs from it."""
        return self.pack is not None and not self.refusal


def standing(folder: Path | None = None) -> Standing:
    """How the pack stands that lies in `folder`, which is Hone's own place for it unless another is named."""
    folder = folder or places.pack_folder()
    if not folder.is_dir():
        return Standing()
    pack, filled = read_pack(folder), read_filled(folder)
    can_renew = _fits(filled) and has_python(folder, filled)
    if pack is None:
        return Standing(None, "The GPU pack isn't complete: renew it in Settings.", can_renew)
    if pack.hone != VERSION:
        return Standing(
            pack,
            f"The GPU pack was made by Hone {pack.hone}, and this is {VERSION}: renew it in Settings. Until then "
            "Hone computes without it.",
            can_renew,
        )
    if not _fits(pack.filled):
        return Standing(pack, "The GPU pack has other libraries than this Hone needs: renew it in Settings.")
    if not has_python(folder, pack.filled):
        return Standing(pack, "The Python of the GPU pack is gone: renew it in Settings.")
    return Standing(pack)


def engine_program(*arguments: str) -> list[str] | None:
    """What starts the engine from the pack with these arguments; None: it runs without one."""
    folder = places.pack_folder()
    found = standing(folder)
    if found.pack is None or not found.is_used:
        return None
    return script_command(folder, found.pack.filled, "launch.py", *arguments)


def has_python(folder: Path, filled: Filled | None) -> bool:
    """Whether the Python that a pack runs on is there."""
    return filled is not None and interpreter_of(folder, filled).is_file()


def script_command(
    folder: Path, filled: Filled, script: str, *arguments: str, own: Path | None = None
) -> list[str]:
    """What runs one of the scripts beside this file in a pack's Python, with its libraries and Hone's own source.

    -P: a file torch.py in the working folder would be imported as torch; -s: so would one the person once installed.

    Args:
        folder: The pack.
        filled: What it is filled with.
        script: The script's name.
        arguments: What it is given after both folders.
        own: Hone's own source; None: that of the pack.
    """
    own = own or own_source(folder)
    program = [str(interpreter_of(folder, filled)), "-P", "-s", str(own / SCRIPTS / script)]
    return [*program, str(folder / LIBRARIES), str(own), *arguments]


def own_source(folder: Path) -> Path:
    """Where Hone's own source for a pack is: a bundle's folder holds other libraries too, so its source is copied."""
    return folder / OWN if is_frozen() else SOURCE_ROOT


def _fits(filled: Filled | None) -> bool:
    """Whether a pack holds the libraries that this Hone needs."""
    try:
        return filled is not None and filled.needs == needs(filled.needs.build)
    except UserError:
        return False

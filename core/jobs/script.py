"""Request and answer of the job that writes a training script."""

import msgspec

from core.options import Tree

JOB = "script"


SCRIPT = "train.py"


class ScriptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a script in the empty folder `folder`.

    `asked` are options with absolute paths, `device` torch's name of the device it ran on (empty: resolve it here).
    `notes` explain resolved options, `versions` are those of the run.
    """

    asked: Tree
    folder: str
    title: str = ""
    device: str = ""
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = {}


class Script(msgspec.Struct, frozen=True):
    """The answer: the script's text."""

    text: str

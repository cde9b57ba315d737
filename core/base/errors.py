"""What a person can act on.

The tree of errors::

    UserError               something the person can mend; has a title, an explanation and fixes
    ├── OptionsError        the run file or the form is wrong; lists every problem at once
    ├── DataError           a data file or folder can't be used
    ├── ModelError          a model can't be found, read or trained
    ├── DeviceError         this machine can't do what was asked
    ├── OutOfMemory         the device or the computer ran out of memory
    │   └── DoesntFit       it would, by forecast
    ├── RunFolderError      a run's folder can't be created, read or written
    ├── ComputerError       another computer can't be reached or used
    └── TargetError         a file that the person named can't be written there

Everything else that is raised is a bug and is shown with its report.
"""

from enum import StrEnum
from typing import Any

import msgspec

from core.base.language import _, ngettext, translated

OF_SYSTEM = (
    _("Device or resource busy"),
    _("Directory not empty"),
    _("Disk quota exceeded"),
    _("File exists"),
    _("File name too long"),
    _("File too large"),
    _("Input/output error"),
    _("Invalid argument"),
    _("Is a directory"),
    _("No such file or directory"),
    _("No space left on device"),
    _("Not a directory"),
    _("Operation not permitted"),
    _("Permission denied"),
    _("Read-only file system"),
    _("Too many levels of symbolic links"),
)
"""What Linux and macOS say in English; Windows says it in its language."""


def why(error: OSError) -> str:
    """Returns what the system says of an error, without the file's name."""
    return translated(error.strerror) if error.strerror else str(error)


class FixAction(StrEnum):
    """What a fix does with a run: stop, pause or end it, go on with it, train it longer, show its folder,
    or show the run whose model it tests.

    For a run on another computer that isn't reached: try to connect now, or stop following it.
    """

    STOP = "stop"
    PAUSE = "pause"
    END = "end"
    RESUME = "resume"
    EXTEND = "extend"
    REVEAL = "reveal"
    TESTED = "tested"
    RECONNECT = "reconnect"
    GIVE_UP = "give-up"

    @property
    def is_end(self) -> bool:
        """Whether the run trains no longer after it."""
        return self in (FixAction.STOP, FixAction.PAUSE, FixAction.END)


class Fix(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something to press: what it says, and the options it changes (`{"memory.batch_size": 4}`), or what it does.

    A fix that neither changes nor does anything is advice only and is shown as text.
    """

    label: str
    changes: dict[str, Any] = {}
    action: FixAction | None = None

    @property
    def is_advice(self) -> bool:
        """Whether there is nothing to press."""
        return not self.changes and self.action is None


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with one option, such as `memory.batch_size: must be ..., not 0`; `is_missing`: no value yet."""

    path: str
    message: str
    fixes: tuple[Fix, ...] = ()
    is_missing: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class UserError(Exception):
    """Something the person can mend.

    Args:
        title: One short sentence: what happened.
        detail: Why, and where (file, row, column).
        fixes: What to press or do, best first.
    """

    def __init__(self, title: str, detail: str = "", fixes: tuple[Fix, ...] = ()) -> None:
        super().__init__(title)
        self.title = title
        self.detail = detail
        self.fixes = fixes

    def __str__(self) -> str:
        lines = [self.title, self.detail, *(_("Try: {label}").format(label=fix.label) for fix in self.fixes)]
        return "\n".join(line for line in lines if line)


class OptionsError(UserError):
    """The request is wrong; `problems` lists everything at once, `where` names what has them."""

    def __init__(self, problems: tuple[Problem, ...], where: str = "") -> None:
        count = len(problems)
        title = ngettext("{count} problem in {where}", "{count} problems in {where}", count)
        super().__init__(
            title.format(where=where or _("the request"), count=count), "\n".join(map(str, problems))
        )
        self.problems = problems
        self.where = where


class DataError(UserError):
    """A data file or folder can't be used; `option` is the path of the option at fault, if it is one's."""

    def __init__(
        self, title: str, detail: str = "", fixes: tuple[Fix, ...] = (), *, option: str = ""
    ) -> None:
        super().__init__(title, detail, fixes)
        self.option = option


class ModelError(UserError):
    """A model can't be found, read or trained."""


class DeviceError(UserError):
    """This machine can't do what was asked."""


class OutOfMemory(UserError):  # noqa: N818 - the field's own name for it
    """The device or the computer ran out of memory."""


class DoesntFit(OutOfMemory):
    """By forecast a run takes more memory than is free; nothing has been trained."""


class RunFolderError(UserError):
    """A run's folder can't be created, read or written."""


class ComputerError(UserError):
    """Another computer can't be reached or used; `code` says in a word why, such as `no-answer`."""

    def __init__(self, code: str, title: str, detail: str = "", fixes: tuple[Fix, ...] = ()) -> None:
        super().__init__(title, detail, fixes)
        self.code = code


class TargetError(UserError):
    """A file that the person named can't be written there: the request is wrong."""

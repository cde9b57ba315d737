"""What goes wrong while a GPU pack is installed, in words, each with what to do."""

import re
from pathlib import Path

from core import figures
from core.errors import Fix, UserError

TITLE = "The GPU pack wasn't installed"
GO_ON = Fix("Then press Go on (hone gpu-pack install): what has been downloaded is kept")
AGAIN = Fix("Then install it again")

_CAUSES: tuple[tuple[str, str, tuple[Fix, ...]], ...] = (
    (
        r"No space left|not enough space|Errno 28|os error (28|112)",
        "The disk is full.",
        (Fix("Make room on it"), GO_ON),
    ),
    (
        r"\b407\b|[Pp]roxy",
        "A proxy stands between this computer and the internet, and refused.",
        (Fix("Set HTTPS_PROXY to its address, with name and password where it wants them"), GO_ON),
    ),
    (
        r"certificate|CERTIFICATE|UnknownIssuer",
        "The certificate of the server isn't one that this system trusts.",
        (
            Fix("Set SSL_CERT_FILE to the certificates of your network, where it looks into connections"),
            GO_ON,
        ),
    ),
    (
        r"No matching distribution|No solution found|ResolutionImpossible|no version of|not found in the",
        "A library that Hone needs isn't there in a build for this computer.",
        (Fix("Take a folder that holds all wheels, or leave --from away"),),
    ),
    (
        r"dns error|[Cc]onnect|[Tt]imed? ?out|getaddrinfo|Name or service|error sending request|Network|offline"
        r"|response body|end of file before message",
        "The internet can't be reached, or is too slow.",
        (Fix("See that this computer is online, and HTTPS_PROXY is set where it needs a proxy"), GO_ON),
    ),
    (
        r"Permission denied|Access is denied|os error (5|13)\b",
        "A file couldn't be read or written.",
        (Fix("See that Hone's folder belongs to you, and that no other program guards it"), GO_ON),
    ),
    (
        r"HASH|[Hh]ash mismatch|BadZipFile|[Ii]nvalid zip|CRC|Wheel .* is invalid|corrupt|Failed to (read|extract)"
        r"|deflate|end of central directory",
        "A file arrived damaged.",
        (Fix("Remove what has come, with Cancel (hone gpu-pack remove)"), AGAIN),
    ),
)
"""What programs print, as patterns, what it means, and what to do. The first that is found counts.

A file counts as damaged only where nothing else kept it from coming whole: uv says "Failed to extract" of those, too.
"""


def explain(said: str, log: Path) -> UserError:
    """The error where a program failed, told from the end of what it printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(error|cause|×|├|╰)|.*\bError\b", line, re.IGNORECASE)]
    shown = "\n".join(lines[-3:])
    for text in ("\n".join(errors), said):
        for pattern, cause, fixes in _CAUSES:
            if re.search(pattern, text):
                return UserError(TITLE, f"{cause}\n{shown}\nAll of it is in {log}", fixes)
    return UserError(TITLE, f"{shown}\nAll of it is in {log}", (AGAIN,))


def refused(error: OSError, log: Path) -> UserError:
    """The error where the system refused something."""
    where = f"{error.filename}: " if error.filename else ""
    return explain(f"{where}{error.strerror or error} [Errno {error.errno}]", log)


def no_room(free: int, needed: int, folder: Path) -> UserError:
    """The error where the disk has too little room from the start."""
    detail = f"{figures.size(free)} are free on the disk of {folder}, and it takes {figures.size(needed)}."
    return UserError(TITLE, detail, (Fix("Make room on it"), AGAIN))


def not_working(said: str, log: Path) -> UserError:
    """The error where all was installed and then didn't run."""
    return _unchecked(
        "The GPU pack was installed but doesn't work", "It was taken away again.", said, log, AGAIN
    )


def works_no_more(said: str, log: Path) -> UserError:
    """The error where a pack that was there didn't pass the check when it was renewed."""
    again = Fix("Press Go on (hone gpu-pack install): all of it is brought anew")
    return _unchecked(
        "The GPU pack doesn't work any more", "Hone computes without it from now on.", said, log, again
    )


def _unchecked(title: str, what_became: str, said: str, log: Path, fix: Fix) -> UserError:
    shown = "\n".join(said.strip().splitlines()[-3:])
    return UserError(title, f"{what_became}\n{shown}\nAll of it is in {log}", (fix,))


def lacking(folder: Path, *names: str) -> UserError:
    """The error where a folder that all is to be taken from lacks something."""
    said = f"This is missing in {folder}: {', '.join(names)}"
    tells = Fix("Put it there (hone gpu-pack needs FOLDER tells where it comes from), or leave --from away")
    return UserError(TITLE, said, (tells,))


def in_use(folder: Path) -> UserError:
    """The error where programs run from the pack that is to go."""
    return UserError(
        "The GPU pack is in use",
        f"Hone trains, or answers, from {folder}.",
        (Fix("Wait until runs are over, or pause them; close Try it and Benchmark"),),
    )


def busy() -> UserError:
    """The error where another Hone is at it."""
    return UserError("The GPU pack is being installed already", "Another window or terminal of Hone does it.")

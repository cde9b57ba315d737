"""A disk that fills up, or lets no file grow, in the middle of a run: nothing is damaged, and the run can be resumed.

Two ways, in turn: a small file system in memory that is filled at some step (if it can be mounted: as root on Linux),
and a limit to the size of each file that the engine and its keeper write, which the first file that would grow larger
meets (POSIX, no rights needed).
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from core.runs import start
from core.runs.folder import RunFolder
from core.runs.models import is_undamaged, newest_first
from core.runs.status import State
from tests.performance.faults.case import Case
from tests.performance.faults.training import (
    Attended,
    Reference,
    differences,
    lost_lines,
    new_run,
    small_options,
    train_alone,
    whole_lines,
    write_texts,
)

ROWS = 200
EPOCHS = 3.0
KINDS = FILL, LIMIT = "full disk", "file limit"
LIMITED = (
    "import os, resource, sys; n = int(sys.argv[1]); _, hard = resource.getrlimit(resource.RLIMIT_FSIZE); "
    "resource.setrlimit(resource.RLIMIT_FSIZE, (n, hard)); os.execv(sys.argv[2], sys.argv[2:])"
)
REASONS = ("disk", "room", "written", "write")
"""A message with one of these words gives the reason."""


def campaign(folder: Path, count: int, seed: int) -> Iterator[Case]:
    """Let writing fail `count` times, each time in a run of its own."""
    data = write_texts(folder / "texts.csv", ROWS)
    options, kinds = small_options(data, EPOCHS), KINDS if can_mount(folder) else (LIMIT,)
    reference = train_alone(folder / "alone", options)
    sizes = sizes_of(folder / "alone")
    for number in range(count):
        chance, kind = Random(f"{seed}:{number}"), kinds[number % len(kinds)]
        if kind == FILL:
            with small_disk(folder / f"full-{number}", 100) as disk:
                yield fill(new_run(options, disk / "run"), disk / "ballast", reference, chance)
        else:
            name, size = sizes[number // len(kinds) % len(sizes)]
            limit = int(size * chance.uniform(0.2, 0.95))
            case = limit_files(new_run(options, folder / f"limited-{number}"), limit, reference)
            case.words = f"{limit:,} bytes a file, below {name}: {case.words}"
            yield case


def can_mount(folder: Path) -> bool:
    """Whether a file system in memory can be mounted here."""
    try:
        with small_disk(folder / "trial", 1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system in memory; CalledProcessError if it can't be mounted, OSError if there is no program for that."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def sizes_of(run: Path) -> list[tuple[str, int]]:
    """The files a run writes, each name once, the largest first: a limit below one is hit by that one."""
    sizes: dict[str, int] = {}
    for path in run.rglob("*"):
        if path.is_file() and path.name not in ("run.toml", ".lock"):
            sizes[path.name] = max(path.stat().st_size, sizes.get(path.name, 0))
    large = [(name, size) for name, size in sizes.items() if size > 2000]
    return sorted(large, key=lambda file: -file[1])


def fill(run: RunFolder, ballast: Path, reference: Reference, chance: Random) -> Case:
    """Train on a small disk, and fill it at some step up to a few KB."""
    step, left = chance.randrange(1, len(reference.losses)), chance.choice((0, 0, 16, 300, 3000)) << 10
    attended = Attended(run)
    try:
        attended.until(lambda: attended.follower.status.step >= step)
        fill_up(ballast, left)
        before = whole_lines(run)
        attended.until_over()
        case = resumed(attended, reference, before, FILL, make_space=ballast.unlink)
    finally:
        attended.end()
    case.words = f"{left >> 10} KB left: {case.words}"
    return case


def fill_up(ballast: Path, left: int) -> None:
    """Write until only so many bytes are left."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        free = os.statvfs(ballast.parent)
        file.write(bytes(max(0, free.f_bavail * free.f_frsize - left)))
        while not left:
            file.write(bytes(4096))


def limit_files(run: RunFolder, limit: int, reference: Reference) -> Case:
    """Train with a limit to the size of files."""
    attended = Attended(run, lambda run: start.start(run, limited_keeper(run, limit)))
    try:
        attended.until_over()
        return resumed(attended, reference, whole_lines(run), LIMIT)
    finally:
        attended.end()


def limited_keeper(run: RunFolder, limit: int) -> list[str]:
    """The command of a keeper that, with its engine, can write no file of more bytes."""
    return [sys.executable, "-c", LIMITED, str(limit), *start.keeper_command(run.path.absolute())]


def resumed(
    attended: Attended,
    reference: Reference,
    before: dict[Path, bytes],
    kind: str,
    make_space: Callable[[], object] = lambda: None,
) -> Case:
    """Check a run that met a full disk, resume it with space again, and compare it with the undisturbed one."""
    follower, run = attended.follower, attended.run
    status, record = follower.status, run.exit_record()
    titles = [message.title for message in status.messages.values()]
    reasons = [*titles, record.reason if record else ""]
    reason = next((text for text in reasons if any(word in text.lower() for word in REASONS)), "")
    case = Case(kind, follower.state.value, words=f"at step {status.step}, {reason}")
    if not reason and follower.state is not State.FINISHED:  # that one wrote all it had to before
        case.wrong.append(f"it gives no reason: {titles} {record}")
    if status.skipped:
        case.wrong.append(f"{status.skipped} lines of events are damaged")
    for checkpoint in newest_first(run.checkpoints):
        if not is_undamaged(checkpoint.path):
            case.wrong.append(f"{checkpoint.path.name} is damaged")
    if not follower.state.is_over:
        case.wrong.append("it doesn't end")
    make_space()
    if follower.state is not State.FINISHED:
        attended.resume()
        attended.until_over()
    case.wrong += differences(attended, reference)
    if lost := lost_lines(before):
        case.wrong.append(f"{lost} lines of events are lost")
    return case

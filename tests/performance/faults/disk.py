"""A disk that fills up, or lets no file grow, in the middle of a run: nothing is damaged, and all go on afterwards.

Two ways, in turn: a small file system in memory that is filled at some step (where that can be mounted: as root on
Linux), and a limit to the size of each file that the engine and its keeper write, which is hit by the first file that
would grow larger (POSIX, no rights needed).
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from core.runs import start
from core.runs.folder import RunFolder
from core.runs.models import is_undamaged, newest_first
from core.runs.status import State
from tests.performance.faults.kills import Reference, differences, train_alone
from tests.performance.faults.training import (
    Attended,
    lost_lines,
    new_run,
    small_options,
    whole_lines,
    write_texts,
)

ROWS = 200
EPOCHS = 3.0
FILL = "full disk"
LIMIT = "file limit"
_LIMITED = (
    "import os, resource, sys; n = int(sys.argv[1]); _, hard = resource.getrlimit(resource.RLIMIT_FSIZE); "
    "resource.setrlimit(resource.RLIMIT_FSIZE, (n, hard)); os.execv(sys.argv[2], sys.argv[2:])"
)
_WORDS = ("disk", "room", "written", "write")


@dataclass
class Point:
    """One place where writing failed: how, at which step, where the run stood then, and whether it said why."""

    way: str
    where: str
    step: int = 0
    state: str = ""
    said: str = ""
    wrong: list[str] = field(default_factory=list)


def campaign(
    folder: Path, count: int, seed: int, tell=lambda _point: None, *, epochs: float = EPOCHS
) -> list[Point]:
    """So many points; `tell` hears each."""
    data = write_texts(folder / "texts.csv", ROWS)
    reference = train_alone(folder / "alone", data, epochs)
    ways = [FILL, LIMIT] if can_mount(folder) else [LIMIT]
    sizes = sizes_of(folder / "alone")
    found = []
    for number in range(count):
        chance = Random(f"{seed}:{number}")
        way = ways[number % len(ways)]
        if way == FILL:
            point = fill(folder / f"full-{number}", data, reference, chance, epochs)
        else:
            name, size = sizes[number // len(ways) % len(sizes)]
            limit = int(size * chance.uniform(0.2, 0.95))
            point = limit_files(folder / f"limited-{number}", data, reference, (name, limit), epochs)
        found.append(point)
        tell(point)
    return found


def can_mount(folder: Path) -> bool:
    """Whether a file system in memory can be mounted here."""
    try:
        with small_disk(folder / "trial", 1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system in memory of its own.

    Raises:
        subprocess.CalledProcessError: It can't be mounted.
        OSError: There is no program for that.
    """
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def sizes_of(run: Path) -> list[tuple[str, int]]:
    """The files a run writes, each size once, the largest first: a limit below one is hit by that one."""
    names: dict[str, int] = {}
    for path in run.rglob("*"):
        if path.is_file() and path.name not in ("run.toml", ".lock"):
            names[path.name] = max(path.stat().st_size, names.get(path.name, 0))
    return sorted(((name, size) for name, size in names.items() if size > 2000), key=lambda one: -one[1])


def fill(path: Path, data: Path, reference: Reference, chance: Random, epochs: float) -> Point:
    """Train on a small disk, and fill it at some step up to a few KB."""
    point = Point(FILL, "")
    with small_disk(path, 100) as disk:
        run = new_run(small_options(data, epochs), disk / "run")
        attended = Attended(run)
        try:
            wanted = chance.randrange(1, len(reference.losses))
            attended.until(lambda: attended.follower.status.step >= wanted)
            point.step, left = attended.follower.status.step, chance.choice((0, 0, 16, 300, 3000)) << 10
            point.where = f"step {point.step}, {left >> 10} KB left"
            fill_up(disk / "ballast", left)
            before = whole_lines(run)
            attended.until_over()
            look(attended, point)
            (disk / "ballast").unlink()
            go_on(attended, reference, before, point)
        finally:
            attended.end()
    return point


def fill_up(ballast: Path, left: int) -> None:
    """Write until only so many bytes are left."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        free = os.statvfs(ballast.parent)
        file.write(bytes(max(0, free.f_bavail * free.f_frsize - left)))
        while not left:
            file.write(bytes(4096))


def limit_files(path: Path, data: Path, reference: Reference, limit: tuple[str, int], epochs: float) -> Point:
    """Train with a limit to the size of files, just below what one of them needs."""
    point = Point(LIMIT, f"{limit[1]:,} bytes a file, below {limit[0]}")
    run = new_run(small_options(data, epochs), path)

    attended = Attended(run, lambda run: start.start(run, limited_keeper(run, limit[1])))
    try:
        attended.until_over()
        before = whole_lines(run)
        look(attended, point)
        go_on(attended, reference, before, point)
    finally:
        attended.end()
    return point


def limited_keeper(run: RunFolder, limit: int) -> list[str]:
    """What starts a keeper that, and whose engine, can write no file of more bytes."""
    return [sys.executable, "-c", _LIMITED, str(limit), *start.keeper_command(run.path.absolute())]


def look(attended: Attended, point: Point) -> None:
    """Note where the run stands, and what is damaged."""
    follower, run = attended.follower, attended.run
    point.state, point.step = follower.state.value, follower.status.step
    record = run.exit_record()
    told = [message.title for message in follower.status.messages.values()]
    point.said = next((title for title in told if any(word in title.lower() for word in _WORDS)), "")
    if not point.said and record is not None and any(word in record.reason for word in _WORDS):
        point.said = record.reason
    if not point.said and follower.state is not State.FINISHED:  # that wrote all it had to before
        point.wrong.append(f"it doesn't say why: {told} {record}")
    if follower.status.skipped:
        point.wrong.append(f"{follower.status.skipped} lines of events are damaged")
    point.wrong += [
        f"{one.path.name} is damaged" for one in newest_first(run.checkpoints) if not is_undamaged(one.path)
    ]
    if not follower.state.is_over:
        point.wrong.append("it doesn't end")


def go_on(attended: Attended, reference: Reference, before: dict[Path, bytes], point: Point) -> None:
    """There is room again: resume, and compare with the run that was left alone."""
    if attended.follower.state is not State.FINISHED:
        attended.resume()
        attended.until_over()
    point.wrong += differences(attended, reference)
    if lost := lost_lines(before):
        point.wrong.append(f"{lost} lines of events are gone")


def table(found: list[Point]) -> str:
    """A line a way, and each point below."""
    rows = [
        "| no room | points | paused | failed | crashed | finished all the same | said why | whole and gone on with |"
    ]
    rows.append("|---|---|---|---|---|---|---|---|")
    for way in (FILL, LIMIT):
        some = [point for point in found if point.way == way]
        counts = [
            sum(point.state == state for point in some)
            for state in ("paused", "failed", "crashed", "finished")
        ]
        said = sum(bool(point.said) for point in some)
        good = sum(not point.wrong for point in some)
        rows.append(f"| {way} | {len(some)} | {' | '.join(map(str, counts))} | {said} | {good} |")
    rows += [
        "",
        *(
            f"- {point.way}, {point.where}: {point.state} at step {point.step}; {point.said}"
            for point in found
        ),
    ]
    return "\n".join(rows)

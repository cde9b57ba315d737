"""Damage to a run's folder: files that are missing, too many, or no files at all."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import psutil

from core.runs.folder import KeeperRecord

FolderDamage = Callable[[Random, Path], None]

OUTSIDE = "outside.txt"
"""A file beside the run's folder, as the target of links; nothing may change it."""

EXITS = (
    b'{"time":1e308,"code":0}',
    b'{"time":-5,"code":-99999999999999999999}',
    b'{"time":1795230000,"code":null,"signal":"SIGNONE","reason":"<b>\\u001b[2J</b>"}',
    b'{"time":"now","code":"well"}',
    b'{"time":1795230000,"code":-64,"log_tail":"' + b"z" * 2_000_000 + b'"}',
    b"[" * 100_000,
    b"null",
    b"",
)
MARKERS = (
    b'{"../../../outside.txt":{"bytes":7,"sha256":"x"}}',
    b'{"/etc/passwd":{"bytes":1,"sha256":"x"}}',
    b'{"model.safetensors":{"bytes":-1,"sha256":7}}',
    b'{"model.safetensors":{"bytes":1e30,"sha256":"x"}}',
    b'{"":{"bytes":0,"sha256":""}}',
    b'{"a\\u0000b":{"bytes":0,"sha256":""}}',
    b"{" * 100_000,
    b'{"a":' * 100_000,
    b"",
)
CHECKPOINTS = ("checkpoint-x", "checkpoint-", "checkpoint-1e9", "checkpoint--5", "checkpoint-99")
REQUESTS = (
    b'{"id":"../../x","action":"stop"}',
    b'{"id":"a","action":"fly"}',
    b'{"id":"x/y","action":"kill"}',
    b"{",
)
STRANGERS = ("events.jsonl.torn", ".DS_Store", "core.1234", "events (1).jsonl", "x" * 200, "\u0661 \n\t")
DEVICES = ("/dev/zero", "/dev/full", "/dev/null", "/dev/random", "/dev/tty")


def remove_some(chance: Random, run: Path) -> None:
    for path in chance.sample(_all(run), chance.choice((1, 2, 5))):
        _take_away(path)


def add_strangers(chance: Random, run: Path) -> None:
    """Files that belong to nothing."""
    for name in STRANGERS:
        folder = chance.choice([run, run / "checkpoints", run / "requests", run / "model"])
        if folder.is_dir():
            (folder / name).write_bytes(b"\x00stranger")


def swap_kinds(chance: Random, run: Path) -> None:
    """A folder in place of a file, or a file in place of a folder."""
    path = chance.choice(_all(run))
    was_folder = path.is_dir()
    _take_away(path)
    if was_folder:
        path.write_bytes(b"a file")
    else:
        path.mkdir()
        (path / "inner").write_bytes(b"inner")


def put_fifo(chance: Random, run: Path) -> None:
    """A named pipe, at which a reader waits."""
    path = chance.choice(_files(run))
    _take_away(path)
    os.mkfifo(path)


def put_device(chance: Random, run: Path) -> None:
    """A link to a device without an end, without space, or with nothing in it."""
    path = chance.choice(_files(run))
    _take_away(path)
    path.symlink_to(chance.choice(DEVICES))


def put_link(chance: Random, run: Path) -> None:
    """A link to itself, to nothing, or out of the folder."""
    path = chance.choice(_all(run))
    _take_away(path)
    target = chance.choice((path.name, "/nowhere/at/all", "..", str(run.parent / OUTSIDE), ".", "/"))
    path.symlink_to(target)


def make_sparse(chance: Random, run: Path) -> None:
    """A file with a size of gigabytes."""
    with chance.choice(_files(run)).open("r+b") as file:
        file.truncate(chance.choice((1 << 30, 1 << 34)))


def forbid(chance: Random, run: Path) -> None:
    """A file that only root may read."""
    chance.choice(_all(run)).chmod(0)


def put_foreign_keeper(chance: Random, run: Path) -> None:
    """Another process is named as the keeper: this one, the first one, one that can't be."""
    pid = chance.choice((os.getpid(), 1, 0, -1, 2**31 - 1, 2**40))
    started = psutil.Process(os.getpid()).create_time() if pid == os.getpid() else 1e9
    record = KeeperRecord(pid=pid, started=started, host=os.uname().nodename, booted=psutil.boot_time())
    (run / "keeper.json").write_bytes(msgspec.json.encode(record))
    if chance.random() < 0.7:
        (run / "exit.json").unlink()


def put_exit(chance: Random, run: Path) -> None:
    """An impossible ending."""
    (run / "exit.json").write_bytes(chance.choice(EXITS))
    if chance.random() < 0.7:  # else the events say how it ended
        events = run / "events.jsonl"
        events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:-3]))


def damage_markers(chance: Random, run: Path) -> None:
    """Markers of checkpoints with wrong sizes, with paths out of the folder, or without sense."""
    (run / "checkpoints/checkpoint-60/complete.json").write_bytes(chance.choice(MARKERS))
    for name in chance.sample(CHECKPOINTS, 3):
        (run / "checkpoints" / name).mkdir()


def put_requests(chance: Random, run: Path) -> None:
    """Requests that nobody made, and very many of them."""
    for number in range(chance.choice((1, 300))):
        (run / "requests" / f"{number}.json").write_bytes(chance.choice(REQUESTS))
    (run / "exit.json").unlink()


def repeat_an_event(chance: Random, run: Path) -> None:
    """Ten thousand lines of one kind."""
    events = run / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join([*lines, *[chance.choice(lines)] * 10_000]))


def _all(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if not path.is_symlink())


def _files(run: Path) -> list[Path]:
    return [path for path in _all(run) if path.is_file()]


def _take_away(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


FOLDER_DAMAGES: tuple[FolderDamage, ...] = (
    remove_some,
    add_strangers,
    swap_kinds,
    put_fifo,
    put_device,
    put_link,
    make_sparse,
    forbid,
    put_foreign_keeper,
    put_exit,
    damage_markers,
    put_requests,
    repeat_an_event,
)

"""The memory a Linux control group leaves: containers, and services with a limit, have less than the computer."""

from dataclasses import dataclass
from pathlib import Path

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
UNLIMITED = 1 << 60
"""Version 1 says "no limit" with a number about so large, version 2 with the word max."""


@dataclass(frozen=True)
class GroupMemory:
    """Bytes: the group's `limit`, and what is `used` of it that can't be taken back at once."""

    limit: int
    used: int


def group_memory(root: Path = ROOT, own: Path = OWN) -> GroupMemory | None:
    """The tightest limit of the groups this process is in; None where there is none, or this is no Linux.

    Cached files count as free once nobody has read them lately, as `docker stats` has it (`inactive_file`).
    Source: https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files, and v1's memory.txt.

    Args:
        root: Where the groups are.
        own: The file that names this process's groups.
    """
    found = [memory for folder in _folders(root, own) if (memory := _read(folder)) is not None]
    return min(found, key=lambda memory: memory.limit - memory.used, default=None)


def _folders(root: Path, own: Path) -> list[Path]:
    """The folders of this process's groups, from its own to the outermost."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            top = root / controllers
            inside = top / path.strip("/")
            found += [inside, *(parent for parent in inside.parents if parent.is_relative_to(top))]
    return found


def _read(folder: Path) -> GroupMemory | None:
    for limit_file, used_file, idle in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            limit = (folder / limit_file).read_text(encoding="ascii").strip()
            used = int((folder / used_file).read_text(encoding="ascii"))
            spare = _spare(folder / "memory.stat", idle)
        except (OSError, ValueError):
            continue
        if limit.isdecimal() and int(limit) < UNLIMITED:
            return GroupMemory(limit=int(limit), used=max(0, used - spare))
    return None


def _spare(stat: Path, name: str) -> int:
    lines = stat.read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)

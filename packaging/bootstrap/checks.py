"""The checks of the project, each one run whatever the others say, one line of result for each."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from bootstrap import system_libraries
from bootstrap.environment import Environment


class Check(NamedTuple):
    """One tool: what it holds, how it is called, and whether its output is shown while it runs."""

    title: str
    command: list[str]
    is_live: bool = False


NOT_TRIED = "HONE_NOT_TRIED"
"""The variable that names the file in which the tests note what they left out, see `tests/conftest.py`."""
WANT = ", for want of "
SIDE_BY_SIDE = 2
"""Processes the tests are spread over, file by file: each may hold torch, and an engine beside it, 2 GB together."""


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def tests(at_hand: int) -> Check:
    """Every test, in two processes side by side where there are `at_hand` cores for them."""
    spread = ["-n", str(SIDE_BY_SIDE), "--dist", "loadfile", "--no-loadscope-reorder"]
    return some_tests([*(spread if at_hand >= SIDE_BY_SIDE else []), "--durations", "15", "-rs"])


def some_tests(arguments: list[str]) -> Check:
    """Pytest with these arguments; where Qt's libraries are missing, without its plugin for Qt, which would end it."""
    without_qt = ["-p", "no:pytest-qt"] if system_libraries.missing(system_libraries.ALWAYS) else []
    return Check("tests (pytest)", ["pytest", *without_qt, *arguments], is_live=True)


def all_checks() -> tuple[Check, ...]:
    """Every check, those that take seconds first."""
    return (
        Check("lint (ruff check)", ["ruff", "check"]),
        Check("format (ruff format)", ["ruff", "format", "--check"]),
        Check("types (mypy)", ["mypy"]),
        Check("walls (import-linter)", ["lint-imports"]),
        tests(cores()),
    )


def run_all(environment: Environment, environ: Mapping[str, str] = os.environ) -> int:
    """Run every check, and tell what wasn't tried; 0 where all passed, else 1.

    Where the variable CI is set, on Linux it is a failure, too, that a feature wasn't tried for want of a package.
    """
    checks = all_checks()
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "not-tried"
        told = {**environ, NOT_TRIED: str(notes)}
        failed = [check.title for check in checks if not passes(check, environment, told)]
        not_tried = notes.read_text(encoding="utf-8").splitlines() if notes.is_file() else []
    print()
    for reason in not_tried:
        print(f"not tried: {reason}")
    left_out = f"; not tried: {'; '.join(not_tried)}" if not_tried else ""
    if failed:
        print(f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}{left_out}", flush=True)
        return 1
    packages = {*system_libraries.FOR_TESTS.values()} if sys.platform.startswith("linux") else set()
    wanting = [text for text in not_tried if packages & {*text.partition(WANT)[2].split(", ")}]
    if wanting and environ.get("CI"):
        print(f"All {len(checks)} checks passed, which isn't enough where CI is set{left_out}.", flush=True)
        return 1
    print(f"All {len(checks)} checks passed{left_out}.", flush=True)
    return 0


def counted(skips: Iterable[tuple[str, bool]]) -> list[str]:
    """How often each reason for leaving something out was given, the most frequent first.

    Args:
        skips: Reasons such as "other computers, for want of openssh-server", and whether a whole file was left out.
    """
    lines = []
    for (reason, is_file), count in Counter(skips).most_common():
        feature, *want = reason.partition(WANT)
        lines.append(f"{feature} ({count}{' files' if is_file else ''}){''.join(want)}")
    return lines


def passes(check: Check, environment: Environment, environ: Mapping[str, str] = os.environ) -> bool:
    """Run one check and print its line, with what it had to say where it failed."""
    started = time.monotonic()
    if check.is_live:
        print(f"{check.title} …", flush=True)
    done = subprocess.run(
        [environment.program(check.command[0]), *check.command[1:]],
        cwd=environment.root,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=None if check.is_live else subprocess.PIPE,
        stderr=None if check.is_live else subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0 and done.stdout:
        print(done.stdout.rstrip())
    word = "ok" if done.returncode == 0 else f"FAILED (exit status {done.returncode})"
    print(f"{check.title}: {word}, {time.monotonic() - started:.0f} s", flush=True)
    return done.returncode == 0

"""The checks of the project, each one run whatever the others say, one line of result for each."""

from __future__ import annotations

import os
import subprocess
import time
from typing import NamedTuple

from bootstrap.environment import Environment


class Check(NamedTuple):
    """One tool: what it holds, how it is called, and whether its output is shown while it runs."""

    title: str
    command: list[str]
    is_live: bool = False


SIDE_BY_SIDE = 2
"""Processes the tests are spread over, file by file: each may hold torch, and an engine beside it, 2 GB together."""


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def tests(at_hand: int) -> Check:
    """Every test, in two processes side by side where there are `at_hand` cores for them."""
    # In the order of the folders the files of the window come last, which are short: so both processes end alike.
    spread = ["-n", str(SIDE_BY_SIDE), "--dist", "loadfile", "--no-loadscope-reorder"]
    return some_tests([*(spread if at_hand >= SIDE_BY_SIDE else []), "--durations", "15"])


def some_tests(arguments: list[str]) -> Check:
    """Pytest with these arguments and no others."""
    return Check("tests (pytest)", ["pytest", *arguments], is_live=True)


CHECKS = (
    Check("lint (ruff check)", ["ruff", "check"]),
    Check("format (ruff format)", ["ruff", "format", "--check"]),
    Check("types (mypy)", ["mypy"]),
    Check("walls (import-linter)", ["lint-imports"]),
    tests(cores()),
)


def run_all(environment: Environment) -> int:
    """Run every check; 0 where all passed, else 1."""
    failed = [check.title for check in CHECKS if not passes(check, environment)]
    if failed:
        print(f"\n{len(failed)} of {len(CHECKS)} checks failed: {', '.join(failed)}", flush=True)
        return 1
    print(f"\nAll {len(CHECKS)} checks passed.", flush=True)
    return 0


def passes(check: Check, environment: Environment) -> bool:
    """Run one check and print its line, with what it had to say where it failed."""
    started = time.monotonic()
    if check.is_live:
        print(f"{check.title} …", flush=True)
    done = subprocess.run(
        [environment.program(check.command[0]), *check.command[1:]],
        cwd=environment.root,
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

"""The command line of start.py."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bootstrap import bundle, checks, old_systems, pythons, system_libraries
from bootstrap.environment import FOR_BUNDLES, Environment, set_up
from bootstrap.errors import SetupError
from bootstrap.installer import Installer

ROOT = Path(__file__).resolve().parent.parent.parent
FIRST_RUN = ROOT / "resources" / "examples" / "digits.hone"
INTERRUPTED = 130

COMMANDS = {
    "run": "set up where needed, then open Hone (the default)",
    "setup": "only set up",
    "test": "set up with the test tools, then run every check; with arguments, only pytest with these",
    "bench": "set up with the test tools, then run the developer's benchmarks; bench --help tells more",
    "translate": "set up with the test tools, then list what is not translated, or changed since, page by page",
    "bundle": "build a program that needs no Python, try it out, and pack it; bundle --help tells more",
}


def main(arguments: list[str]) -> int:
    """Do what the command line asks; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a Windows console may lack a character of a folder's name
            stream.reconfigure(errors="replace")
    parser = argparse.ArgumentParser(
        prog="start.py",
        description="Set Hone up and run it.",
        epilog="\n".join(f"{name:8} {text}" for name, text in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", nargs="?", default="run", choices=list(COMMANDS))
    passes_on = arguments[:1] in (["test"], ["bench"], ["translate"], ["bundle"])
    own, more = (arguments[:1], arguments[1:]) if passes_on else (arguments, [])
    command = parser.parse_args(own).command
    try:
        reason = old_systems.why_not()
        if reason:
            raise SetupError(reason)
        installer = Installer(ROOT)
        other = pythons.better_python(installer)
        if other:
            return wait_for([other, str(ROOT / "start.py"), *arguments])
        return run(command, more, installer)
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Run it again to go on where it left off.", file=sys.stderr)
        return INTERRUPTED


def run(command: str, more: list[str], installer: Installer) -> int:
    """Set up for `command` and carry it out; `test`, `bench`, `translate` and `bundle` take `more` arguments."""
    extras = {"test": ["test"], "bench": ["test"], "translate": ["test"], "bundle": [FOR_BUNDLES]}.get(
        command, []
    )
    environment = set_up(ROOT, extras, installer)
    if command == "setup":
        print(f"Ready. Open it with: python3 start.py   or: {environment.program('hone')}")
        return 0
    if command == "test":
        try:
            system_libraries.ensure(system_libraries.FOR_TESTS, "Some tests need")
        except SetupError as error:
            print(f"{error}\nThe rest is tested without it.\n", flush=True)
        if more:
            return 0 if checks.passes(checks.some_tests(more), environment) else 1
        return checks.run_all(environment)
    if command == "bench":
        system_libraries.ensure(system_libraries.ALWAYS)
        return wait_for([environment.python, "-P", "-m", "tests.performance", *more])
    if command == "translate":
        return wait_for([environment.python, str(ROOT / "packaging" / "translations.py"), *more])
    if command == "bundle":
        wanted = {**system_libraries.FOR_BUNDLES, **system_libraries.of_python()}
        system_libraries.ensure(wanted, "A bundle takes along, or is made with,")
        return bundle.main(environment, more)
    return open_hone(environment)


def open_hone(environment: Environment) -> int:
    """Open the window; without a display, train the first run in the terminal instead."""
    hone = environment.program("hone")
    reason = why_no_window()
    if reason:
        print(
            f"{reason} Training the first example here in the terminal instead (Ctrl-C stops it).\n",
            flush=True,
        )
        return wait_for([hone, "train", str(FIRST_RUN)])
    system_libraries.ensure(system_libraries.wanted_for(qt_platforms()))
    return wait_for([hone])


def wait_for(command: list[str]) -> int:
    """Run a program to its end. Ctrl-C reaches it too, and it may take a while to save: keep waiting."""
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def why_no_window(system: str = sys.platform, environ: Mapping[str, str] = os.environ) -> str:
    """Say why no window can be opened; empty where one can.

    Only Linux (and its like) is asked: elsewhere Qt finds the screen by itself.
    """
    if system in ("darwin", "win32") or qt_platforms(environ):
        return ""
    return "There is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set), so the window can't open."


def qt_platforms(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The platforms Qt may open a window on here, by its names, in the order it tries them; none without a display.

    A chosen QT_QPA_PLATFORM, such as `offscreen` or `wayland;xcb`, is taken at its word.
    """
    chosen = environ.get("QT_QPA_PLATFORM")
    if chosen:
        return tuple(name.partition(":")[0] for name in chosen.split(";"))
    displays = {"wayland": "WAYLAND_DISPLAY", "xcb": "DISPLAY"}
    return tuple(name for name, variable in displays.items() if environ.get(variable))

"""`hone hosts`: other computers that train, added, checked, installed, removed."""

import argparse
from collections.abc import Callable, Iterator

from core.base import formats, settings
from core.base.errors import ComputerError, UserError
from core.base.language import _
from core.cli.output import (
    CommandParsers,
    JobOutput,
    add_flag,
    add_json,
    confirm,
    note,
    print_answer,
    print_json,
    refuse,
    say,
)
from core.hosts import computers, install
from core.hosts.computers import CheckedComputer, Computer
from core.runs.library import run_title, unfinished_on
from core.runs.words import error_text


def add_commands(commands: CommandParsers) -> None:
    command = commands.add(
        "hosts",
        show,
        summary=_("other computers to train on: list, add, check, install, remove"),
        example="add workshop me@192.168.1.20",
        details=_(
            "They are reached with ssh, which must let you in without a password. A run trains there with --set "
            "device.name=auto@NAME."
        ),
    )
    add_json(command)
    kinds = command.add_subparsers(metavar="WHAT")

    def add(name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        kind = kinds.add_parser(
            name, help=summary, description=formats.paragraph(formats.capitalized(summary))
        )
        kind.add_argument("name", metavar="NAME", help=_("the computer's name in Hone"))
        kind.set_defaults(run=run)
        return kind

    new = add("add", add_computer, _("add a computer, or change its address, and check it"))
    new.add_argument(
        "address", metavar="ADDRESS", help=_("as for ssh: user@host, or a name from ~/.ssh/config")
    )
    folder = _("Hone's folder there, below your home folder or absolute; default: {folder}")
    usual = Computer(name="", address="").folder
    new.add_argument("--folder", default=usual, metavar="DIR", help=folder.format(folder=usual))
    add_json(new)
    add_json(add("check", check, _("check what is there and what it can train on")))
    add_json(add("install", bring, _("install this version of Hone there, or update to it")))
    removing = add("remove", remove, _("delete Hone and all its runs there, and forget the computer"))
    add_flag(removing, "--here-only", _("only forget the computer, without deleting anything there"))
    add_flag(removing, "--yes", _("don't ask"))


def show(arguments: argparse.Namespace) -> int:
    known = computers.computers()
    if arguments.json:
        print_json(known)
    elif not known:
        say(_("No other computers are known. `hone hosts add NAME ADDRESS` adds one."))
    else:
        titles = (_("Name"), _("Address"), _("Folder"), _("State"))
        say(formats.table(titles, [(each.name, each.address, each.folder, _state(each)) for each in known]))
    return 0


def _state(computer: Computer) -> str:
    checked = computer.checked or CheckedComputer(time=0.0)
    obstacle = next(iter(install.obstacles(computer, checked)), None)
    return obstacle.title if obstacle is not None else ", ".join(_devices(checked))


def _devices(checked: CheckedComputer) -> list[str]:
    found = checked.machine.devices if checked.machine is not None else ()
    return [device.title for device in found if device.available]


def add_computer(arguments: argparse.Namespace) -> int:
    folder = arguments.folder.rstrip("/") or "/"
    computer = Computer(name=arguments.name, address=arguments.address, folder=folder)
    try:
        computers.save(computer)
    except UserError as error:
        refuse(f"{error.title}: {error.detail}")
    try:
        _check(computer, as_json=arguments.json)
    except ComputerError as error:
        note(error_text(error))
        note(_("{name} was added all the same.").format(name=computer.name))
    return 0


def _find(arguments: argparse.Namespace) -> Computer:
    try:
        return computers.find(arguments.name)
    except UserError as error:
        refuse(str(error))


def check(arguments: argparse.Namespace) -> int:
    return _check(_find(arguments), as_json=arguments.json)


def _check(computer: Computer, *, as_json: bool) -> int:
    """Checks a computer and prints what was found; returns 1 if nothing can be trained there."""
    if not as_json:
        note(_("Checking {name}…").format(name=computer.name))
    checked = install.check(computer)
    obstacles = install.obstacles(computer, checked)
    print_answer(checked, _lines(checked, obstacles), as_json=as_json)
    return 1 if obstacles else 0


def _lines(checked: CheckedComputer, obstacles: list[ComputerError]) -> Iterator[str]:
    python = [f"Python {checked.python}"] if checked.python else []
    uv = [f"uv {checked.uv}"] if checked.uv else []
    free = [_("{free} free").format(free=formats.memory(checked.free))] if checked.free is not None else []
    yield ", ".join((f"{checked.system} {checked.processor}", *python, *uv, *free))
    if not obstacles:
        for device in checked.machine.devices if checked.machine is not None else ():
            if device.available:
                memory = f", {formats.memory(device.memory_bytes)}" if device.memory_bytes else ""
                yield f"{device.name}: {device.title}{memory}"
        yield ", ".join(f"{name} {version}" for name, version in checked.versions.items())
    yield from map(error_text, obstacles)


def bring(arguments: argparse.Namespace) -> int:
    computer = _find(arguments)
    with JobOutput(quiet=arguments.json) as output:
        checked = install.install(computer, output.show)
    print_answer(checked, _lines(checked, []), as_json=arguments.json)
    return 0


def remove(arguments: argparse.Namespace) -> int:
    computer = _find(arguments)
    if not arguments.here_only:
        for run in unfinished_on(computer.name, settings.runs_folder()):
            note(
                _("Note: {run} hasn't ended there, or not all of it was brought back.").format(
                    run=run_title(run)
                )
            )
        question = _("Delete Hone and all its runs in {folder} on {name}?").format(
            folder=computer.folder, name=computer.name
        )
        if not arguments.yes and not confirm(question):
            say(_("Nothing was deleted."))
            return 1
        install.uninstall(computer)
    computers.forget(computer.name)
    return 0

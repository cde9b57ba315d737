"""Runs on a computer that lies (`liar`): its `ssh`, and runs that weren't sent yet or train there."""

import sys
import time
from pathlib import Path

import msgspec

from core.base.processes import source_digest
from core.hosts import computers, far
from core.hosts.computers import Computer
from core.hosts.sending import agree
from core.options.catalogue import with_changes
from core.runs.folder import RunFolder
from core.runs.library import create
from tests.fakes import liar
from tests.fakes.runs import digits_options, link, record_keeper

MODES = liar.BEGINNING | liar.FOLLOWING
WORKSHOP = Computer(name="workshop", address="workshop")
OLD_MODEL = {"old.bin": b"old"}
OWN_MODELS = (OLD_MODEL, {"model.safetensors": liar.MODEL}, {**OLD_MODEL, "x": b""})
"""What may be in a run's model at the end: what was there, or a model that came whole."""


class There:
    """The computer, and what it has been asked. Its folder has to be first in PATH."""

    def __init__(self, folder: Path, mode: str) -> None:
        folder.mkdir(parents=True)
        self.folder, self.mode = folder, mode
        hello = far.Greeting(
            protocol=far.PROTOCOL, pid=1, source=source_digest(), home="/far/home", time=time.time()
        )
        (folder / "greeting.json").write_bytes(msgspec.json.encode(hello))
        ssh = folder / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{liar.__file__}" "{folder}" "{mode}"\n')
        ssh.chmod(0o755)
        computers.save(WORKSHOP)

    @property
    def has_lied(self) -> bool:
        return (self.folder / "lied").exists()

    def asked(self) -> list[str]:
        asked = self.folder / "asked.txt"
        return asked.read_text().split() if asked.exists() else []

    def run(self, folder: Path) -> RunFolder:
        """A run that is to be sent there, or trains there and has a model of an earlier attempt here."""
        data = folder / "data.csv"
        data.write_text("text,label\n" + "a,b\n" * 100_000)
        changes = {"device.name": "cpu@workshop", "data.train": str(data)}
        options = with_changes(digits_options(), changes)
        agree([options])
        run = create(options, folder / "runs")
        record_keeper(run, started=0.0)
        link(run, attempt=int(self.mode in liar.FOLLOWING), connected=False)
        if self.mode in liar.FOLLOWING:
            run.events_file.write_bytes(liar.EVENTS)
            run.model.mkdir()
            for name, content in OLD_MODEL.items():
                (run.model / name).write_bytes(content)
        return run


def wrong_with(run: RunFolder, own: dict[Path, bytes], mode: str) -> list[str]:
    """What is wrong with a run that is over, of which `own` files may never be changed from there."""
    record, connection = run.exit_record(), run.connection()
    files = [path.read_bytes() for path in run.path.glob("events.jsonl*")]
    model = (
        {path.name: path.read_bytes() for path in run.model.rglob("*")} if run.model.exists() else OLD_MODEL
    )
    checks = {
        "it doesn't say how it ended": record is None or not record.reason,
        "it isn't over": connection is None or not connection.over,
        "requests are left": bool(run.open_requests()),
        "own files were changed": any(path.read_bytes() != content for path, content in own.items()),
        "there are other files beside the run": [*run.path.parent.iterdir()] != [run.path],
        "events are lost": mode in liar.FOLLOWING and not any(one.startswith(liar.EVENTS) for one in files),
        "the model is lost": model not in OWN_MODELS,
        "the keeper fell": (run.path / "connection.log").exists()
        and bool((run.path / "connection.log").read_bytes()),
    }
    return [words for words, holds in checks.items() if holds]

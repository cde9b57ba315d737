"""A built Hone in use: started by a new user in a new home, a step for each library that freezing may have lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bootstrap.errors import SetupError

HOME_NAME = "Zoë’s öld hôme 日本"
"""As people have them: with spaces, and with letters beyond ASCII."""
TEMPORARY_NAME = "t ö"
"""As odd, and short: sockets are made in there, whose paths may have 103 bytes on a Mac."""
NOBODY = 65534
PAINTED = {"HONE_QUIT_AFTER_PAINT": "1"}
"""The window closes by itself once it is painted."""
SECONDS = 1800
if TYPE_CHECKING:
    Command = Sequence[str | Path]

KEPT_AWAY = ("PYTHON", "VIRTUAL_ENV", "QT_", "HONE_", "HF_", "LD_", "XDG_", "PIP_")


class Done(NamedTuple):
    """How a program ended, and everything it said."""

    status: int
    said: str


class Person(NamedTuple):
    """Somebody who starts Hone: a home, its variables, and whether root lends the process to nobody."""

    home: Path
    environ: Mapping[str, str]
    lends: bool

    def start(
        self, command: Command, more: Mapping[str, str] | None = None, output: int | None = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start a program as this person, in its home.

        Args:
            command: The program and its arguments.
            more: Variables beside those of the person.
            output: Where what it says goes, as `subprocess` takes it; None: where ours goes.

        Raises:
            SetupError: It can't be started.
        """
        try:
            return subprocess.Popen(
                [str(part) for part in command],
                cwd=self.home,
                env={**self.environ, **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
                errors="replace",
                user=NOBODY if self.lends else None,
                group=NOBODY if self.lends else None,
                extra_groups=[] if self.lends else None,
            )
        except OSError as error:
            raise SetupError(f"The program doesn't start: {error}") from error

    def run(
        self,
        command: Command,
        more: Mapping[str, str] | None = None,
        output: int | None = subprocess.PIPE,
        limit: float = SECONDS,
    ) -> Done:
        """Run a program to its end; as in `start`, and `limit` is how many seconds it may take.

        Raises:
            SetupError: It can't be started, or takes too long.
        """
        process = self.start(command, more, output)
        try:
            said, complained = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.communicate()
            raise SetupError(f"The program was not done after {limit:.0f} s: {command[:3]}") from error
        return Done(process.returncode, f"{said or ''}{complained or ''}")

    def give(self, path: Path) -> None:
        """Make a file or folder the person's own."""
        if self.lends:
            os.chown(path, NOBODY, NOBODY)


@contextmanager
def somebody(*, is_us: bool = False) -> Iterator[Person]:
    """A person with a new home, which is gone afterwards. Where this is root, it isn't root, unless it `is_us`."""
    # A Mac's own folder for temporary files has 50 letters already.
    place = "/tmp" if sys.platform == "darwin" else None
    with tempfile.TemporaryDirectory(prefix="hone-trial-", dir=place, ignore_cleanup_errors=True) as folder:
        home, temporary = Path(folder) / HOME_NAME, Path(folder) / TEMPORARY_NAME
        home.mkdir()
        temporary.mkdir(0o700)
        Path(folder).chmod(0o755)
        lends = not is_us and hasattr(os, "geteuid") and os.geteuid() == 0
        environ = {name: text for name, text in os.environ.items() if not name.startswith(KEPT_AWAY)}
        environ.update(HOME=str(home), USERPROFILE=str(home), TMPDIR=str(temporary), HF_HUB_OFFLINE="1")
        if sys.platform.startswith("linux"):
            environ["QT_QPA_PLATFORM"] = "offscreen"
        person = Person(home, environ, lends)
        person.give(home)
        person.give(temporary)
        yield person


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Take everybody's leave to write in a folder away for a while; Windows has no such thing for folders."""
    if sys.platform == "win32":
        yield
        return
    paths = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def judged(done: Done, status: int, words: str = "") -> str:
    """Why an end isn't what it should be, empty where it is: its status, what it says, and no traceback."""
    said = done.said.strip()
    if "Traceback" in said:
        return f"a traceback: {said[-1500:]}"
    if done.status != status:
        return f"it ended with {done.status}, not {status}, and said: {said[-1500:]}"
    if words not in said:
        return f"it never said “{words}”, but: {said[-1500:]}"
    return ""


ROWS = 24
DIGITS = "resources/examples/digits.hone"
IMAGE = "packaging/icons/hone-16.png"
WRITER = """schema = 1
task = "causal-lm"
model = {source = "scratch:llama-tiny"}
data = {train = "story.txt", max_length = 64}
memory = {batch_size = 4}
training = {max_steps = 3}
device = {name = "cpu"}
"""


class Step(NamedTuple):
    """What the program is asked for in its home, and what its answer has to hold.

    That is a field of an answer in JSON wherever there is one: sentences change.
    """

    name: str
    arguments: Command
    says: str
    is_cheap: bool = False


def run(program: Path, root: Path) -> None:
    """Let somebody with a new home use a program.

    Args:
        program: A built program, or whatever starts Hone.
        root: The checkout it was built from.

    Raises:
        SetupError: A step failed.
    """
    with somebody() as person:
        use(person, program, root)


def use(
    person: Person,
    program: Path,
    root: Path,
    through: Command = (),
    more: Mapping[str, str] | None = None,
) -> None:
    """Go through all steps in a person's home, a line each.

    Args:
        person: Who starts the program.
        program: The program.
        root: The checkout it was built from.
        through: A program that starts the window.
        more: Variables for the window.

    Raises:
        SetupError: A step failed.
    """
    print(f"\n{program} in use", flush=True)
    write_data(person.home, root)
    failed = [step.name for step in steps(person.home, version(root)) if not passes(person, program, step)]
    window = Step("the window is painted and closed", ["digits.hone"], "first-paint")
    if not passes(person, program, window, through, {**PAINTED, **(more or {})}):
        failed.append(window.name)
    if failed:
        raise SetupError(f"{program} fails: {', '.join(failed)}.")


def passes(
    person: Person, program: Path, step: Step, through: Command = (), more: Mapping[str, str] | None = None
) -> bool:
    """Ask the program and say in a line what came of it."""
    began = time.monotonic()
    reason = judged(person.run([*through, program, *step.arguments], more), 0, step.says)
    word = "FAILED" if reason else "ok"
    print(f"{word:9} {time.monotonic() - began:6.1f} s  {step.name}{reason and ': '}{reason}", flush=True)
    return not reason


def version(root: Path) -> str:
    """Hone's version, as its source says it."""
    source = (root / "core" / "base" / "settings.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'^VERSION = "(.+)"$', source, re.MULTILINE)
    return str(found)


def write_data(home: Path, root: Path) -> None:
    """Put run files, texts, conversations and an image into a home."""
    shutil.copyfile(root / DIGITS, home / "digits.hone")
    shutil.copyfile(root / IMAGE, home / "image.png")
    talks = [
        [{"role": "user", "content": f"After {n}?"}, {"role": "assistant", "content": f"{n + 1}."}]
        for n in range(ROWS)
    ]
    files = {
        "writer.hone": WRITER,
        "reviews.csv": "text,label\n" + "".join(f"“fine” {n},{n % 2}\n" for n in range(ROWS)),
        "story.txt": "".join(f"The quick brown fox jumps over dog number {n}.\n" for n in range(40 * ROWS)),
        "talks.jsonl": "".join(json.dumps({"messages": talk}) + "\n" for talk in talks),
        "pairs.jsonl": "".join(
            json.dumps({"prompt": f"After {n}?", "chosen": f"{n + 1}.", "rejected": "The dog."}) + "\n"
            for n in range(ROWS)
        ),
    }
    for name, text in files.items():
        (home / name).write_text(text, encoding="utf-8")


def steps(home: Path, number: str) -> list[Step]:
    """The steps before the window, each of which may use what those before it have made."""
    beside_writer = (f"model.source=run:{home / 'writer'}", "model.method=lora")
    return [
        Step("the version", ["--version"], number, is_cheap=True),
        Step("devices", ["devices", "--json"], '"name": "cpu"', is_cheap=True),
        Step("data is read", ["inspect", "reviews.csv", "--json"], f'"rows": {ROWS},', is_cheap=True),
        Step("a forecast", ["forecast", "digits.hone", "--json"], '"verdict": "fits"', is_cheap=True),
        Step(
            "the digits are trained, loaded by two processes",
            _train("digits.hone", "digits", "training.epochs=1", "data.workers=2", "device.name=cpu"),
            finished(45),
        ),
        Step("they are asked", ["try", "digits", "--cpu", "--json", "--file", "image.png"], '"chance"'),
        Step("and exported", _export("digits", "folder"), '"holds": true'),
        Step("a model that writes", _train("writer.hone", "writer"), finished(3)),
        Step(
            "LoRA on conversations",
            _train("writer.hone", "lora", "task=chat", "data.train=talks.jsonl", *beside_writer),
            finished(3),
        ),
        Step("it answers", ["try", "lora", "--cpu", "--json", "--prompt", "After 1?"], '"answered"'),
        Step("and is merged", _export("lora", "merged"), '"holds": true'),
        Step(
            "LoRA on preferences",
            _train("writer.hone", "dpo", "task=preference", "data.train=pairs.jsonl", *beside_writer),
            finished(3),
        ),
    ]


def finished(steps: int) -> str:
    """What stands in the last event of a run, as `hone train --json` prints it."""
    return f'"steps":{steps}'


def _train(file: str, name: str, *changes: str) -> list[str]:
    flags = [part for change in changes for part in ("--set", change)]
    return ["train", file, "--json", "--run-dir", name, *flags]


def _export(name: str, kind: str) -> list[str]:
    return ["export", name, "--to", kind, "--folder", f"{name}-{kind}", "--json"]


PACKAGE = "hone"
OF_DPKG = "var/lib/dpkg"
"""Where dpkg keeps account, below the root it installs into."""


def try_package(package: Path, checkout: Path) -> None:
    """Install a .deb into a scratch root, let somebody who isn't root use it there, and remove it.

    Where Xvfb makes a screen, the window opens on that.

    Args:
        package: The .deb.
        checkout: What it was built from.

    Raises:
        SetupError: It can't be installed or removed, or a step failed.
    """
    with somebody() as person:
        root = person.home.parent / "root"
        ask_for_dependencies(package)
        program = install_package(package, root)
        print(f"\n{package.name} is installed in {root}, by dpkg", flush=True)
        use(person, program, checkout, *_on_a_screen(person))
        remove_package(root)
        print(f"\n{package.name} is removed again, and left nothing", flush=True)


def ask_for_dependencies(package: Path) -> None:
    """Ask apt, where there is one, whether it would install the package with all that it depends on.

    Raises:
        SetupError: It wouldn't.
    """
    if shutil.which("apt-get") is None:
        print("What the .deb depends on is not tried: that takes apt-get.")
        return
    said = _output("apt-get", "--simulate", "install", str(package.absolute()))
    also = [line.split()[1] for line in said.splitlines() if line.startswith("Inst ")]
    print(f"apt would install {', '.join(also) or 'nothing more'}", flush=True)


def install_package(package: Path, root: Path) -> Path:
    """Have dpkg install a package into an empty root; returns the program that the link in the path leads to.

    Raises:
        SetupError: dpkg failed, or the package isn't what it notes as installed.
    """
    for name in ("info", "updates", "triggers"):
        (root / OF_DPKG / name).mkdir(parents=True)
    for name in ("status", "available"):
        (root / OF_DPKG / name).touch()
    _dpkg(root, "--install", str(package))
    status = _output("dpkg-query", f"--admindir={root / OF_DPKG}", "-W", "-f=${Status}", PACKAGE)
    if status != "install ok installed":
        raise SetupError(f"After dpkg has installed {package.name}, its state is “{status}”.")
    return root / (root / "usr/bin" / PACKAGE).readlink().relative_to("/")


def remove_package(root: Path) -> None:
    """Have dpkg remove the package with all that belongs to it.

    Raises:
        SetupError: dpkg failed, or something stays.
    """
    _dpkg(root, "--purge", PACKAGE)
    left = [path for path in root.rglob("*") if path.is_file() and not path.is_relative_to(root / OF_DPKG)]
    if left:
        raise SetupError(
            f"After dpkg has removed the package, this is left: {', '.join(map(str, left[:5]))}."
        )


def _dpkg(root: Path, *arguments: str) -> None:
    """What it depends on isn't in a scratch root; apt was asked about that. Who isn't root owns what dpkg writes."""
    not_root = [] if os.geteuid() == 0 else ["--force-not-root", "--force-bad-path"]
    log = root / OF_DPKG / "log"
    _output("dpkg", f"--root={root}", f"--log={log}", "--force-depends", *not_root, *arguments)


def _output(*command: str) -> str:
    """What a program prints, in English, that has to succeed.

    Raises:
        SetupError: It fails.
    """
    english = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=english)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise SetupError(f"{command[0]} {command[-2]} {command[-1]} failed and said:\n{tail}")
    return done.stdout


def _on_a_screen(person: Person) -> tuple[list[str], dict[str, str]]:
    """What starts the window on a screen made by Xvfb, and its variables; nothing where there is no Xvfb."""
    if shutil.which("xvfb-run") is None:
        return [], {}
    # xvfb-run stumbles over spaces in the folder for temporary files; the program must not.
    through = ["xvfb-run", "-a", "-s", "-screen 0 1400x900x24", "env", f"TMPDIR={person.environ['TMPDIR']}"]
    return through, {"QT_QPA_PLATFORM": "xcb", "TMPDIR": "/tmp"}

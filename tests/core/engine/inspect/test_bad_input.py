"""Whatever a person drops is looked into, or said to be wrong: in a sentence that names the place, with a remedy."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from core.base.errors import DataError
from core.engine.inspect.report import inspect
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.services.inspect import DataReport

GOOD = "".join(f"words {n},{'ab'[n % 2]}\n" for n in range(12))
TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
Lay = Callable[[Path], Path]


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HONE_HOME", str(home))
    return home


def look(path: Path, task: Task | None = None) -> DataReport:
    options = RunOptions(task=task or Task.TEXT_CLASSIFICATION, data=DataOptions(train=str(path)))
    return inspect(options, any_task=task is None)


def told(path: Path, task: Task | None = None) -> str:
    """Everything that is said of it."""
    try:
        report = look(path, task)
    except DataError as error:
        return f"{error.title} {error.detail} {' '.join(fix.label for fix in error.fixes)}"
    said = [*map(str, report.problems), *report.notes]
    said += [f"{finding.message} {finding.where}" for finding in report.findings]
    return " ".join(said)


def file(name: str, content: str | bytes) -> Lay:
    def lay(folder: Path) -> Path:
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
        return folder / name

    return lay


def lines(*rows: object) -> Lay:
    return file("a.jsonl", "\n".join(map(json.dumps, rows)))


def false_image(folder: Path) -> Path:
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        Image.new("RGB", (8, 8)).save(folder / name / "a.png")
    (folder / "cat" / "notes.png").write_text("This is a text.", encoding="utf-8")
    return folder


def odd_name(folder: Path) -> Path:
    if sys.platform == "darwin":
        pytest.skip("such a name can't be made there")
    for name in (b"cat", b"\xff\xfe dog"):
        inside = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        inside.mkdir()
        Image.new("RGB", (8, 8)).save(inside / "a.png")
    return folder


def empty_folder(folder: Path) -> Path:
    (folder / "nothing").mkdir()
    return folder / "nothing"


BAD: dict[str, tuple[Lay, Task | None, str]] = {
    "a name that is not UTF-8": (odd_name, Task.IMAGE_CLASSIFICATION, "not UTF-8"),
    "ragged rows": (file("a.csv", f"text,label\n{GOOD}a,b,c\nd,e,f\n"), None, "row 14 has 3 columns"),
    "a delimiter of no kind": (file("a.csv", "text~label\nfine~a\nbad~b\n"), None, "one column only"),
    "an object": (file("a.json", '{"version": 2}'), None, ""),
    "a text called .png": (false_image, None, "notes.png"),
    "an empty folder": (empty_folder, None, "nothing"),
    "numbers only": (
        file("a.csv", "one,two\n" + "1,2\n3,4\n" * 9),
        Task.TEXT_CLASSIFICATION,
        "no column of texts",
    ),
    "texts only": (
        file("a.csv", "text\n" + "".join(f"Line {n} of it.\n" for n in range(80))),
        Task.TEXT_CLASSIFICATION,
        "a.csv",
    ),
    "a label a row": (
        file("a.csv", "text,label\n" + "".join(f"w {n},l{n}\n" for n in range(80))),
        Task.TEXT_CLASSIFICATION,
        "too many different values",
    ),
    "one label": (file("a.csv", "text,label\na,x\nb,x\nc,x\n"), Task.TEXT_CLASSIFICATION, "only one class"),
    "a message without a role": (lines({"messages": [{"content": "Hi"}, *TALK]}), None, "line 1"),
    "a text for chat": (file("a.csv", f"words,kind\n{GOOD}"), Task.CHAT, "has no conversations"),
    "words without labels": (
        file("a.csv", f"text,label\n{GOOD}"),
        Task.TOKEN_CLASSIFICATION,
        "words: 2, tags: 1",
    ),
    "words for images": (
        file("a.csv", f"text,label\n{GOOD}"),
        Task.IMAGE_CLASSIFICATION,
        "no column of images",
    ),
    "a damaged IDX file": (
        file("train-images-idx3-ubyte", struct.pack(">IIII", 2051, 9, 28, 28)),
        None,
        "train-images-idx3-ubyte",
    ),
    "a text of a few letters": (file("a.txt", "\ufeff"), None, "is empty"),
}


@pytest.mark.parametrize(("lay", "task", "words"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said_where(lay, task, words, tmp_path, home):
    assert words in told(lay(tmp_path), task)
    assert not list(home.rglob("*.unfinished")), "nothing half-done stays behind"


STRANGE = "text,label\n" + "".join(
    f"{text} {n},{label}\n"
    for n in range(6)
    for text, label in (("مرحبا بالعالم", "جيد جدا"), ("fine 👍🏽", "😀 so-so"), ("שלום", "it's “ok”"))
)

FINE: dict[str, tuple[Lay, Task, int]] = {
    "semicolons": (file("a.csv", f"text,label\n{GOOD}".replace(",", ";")), Task.TEXT_CLASSIFICATION, 12),
    "no header": (file("a.csv", GOOD * 2), Task.TEXT_CLASSIFICATION, 24),
    "right to left, emoji": (file("a.csv", STRANGE), Task.TEXT_CLASSIFICATION, 18),
    "one conversation": (lines({"messages": TALK}), Task.CHAT, 1),
}


@pytest.mark.parametrize(("lay", "task", "rows"), FINE.values(), ids=FINE)
def test_what_is_odd_but_sound_is_read(lay, task, rows, tmp_path):
    report = look(lay(tmp_path))
    assert report.suits is task
    assert (report.rows, report.problems) == (rows, ())
    assert report.train_rows


def test_texts_are_looked_into_without_torch():
    """It would take longer to load than most files to read."""
    modules = ", ".join(f"core.engine.inspect.{name}" for name in ("report", "texts", "conversations"))
    check = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0

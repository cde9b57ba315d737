"""Running text is read as documents: a file as one, a folder as many."""

import gzip
import os
from pathlib import Path

import pytest

from core.base.errors import DataError
from core.engine.data.running_text import is_plain_text, read_plain_text

PROSE = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n"


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.data
def test_shakespeare_is_running_text(shared_data: Path) -> None:
    path = shared_data / "text" / "tinyshakespeare.txt"
    assert is_plain_text(path)
    assert not is_plain_text(shared_data / "mrpc" / "msr_paraphrase_test.txt")
    (document,) = read_plain_text(path).documents
    assert document.content == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content", "is_text"),
    [
        ("a.txt", PROSE, True),
        ("a", PROSE, True),
        ("a.txt", "Roses are red, my dear,\nviolets are blue, my dear,\nand so on\nand on, on", True),
        ("a.md", "a,b\nc,d\ne,f\n", True),
        ("a.txt", "a\tb\nc\td\ne\tf\n", False),
        ("a.txt", "a,b\nc,d\ne,f\n", False),
        ("a.txt", "Paris B-LOC\nis O\n", False),
        ("a.txt", '{"text": "a"}\n{"text": "b"}\n', False),
        ("a.csv", PROSE, False),
        ("a.txt.gz", gzip.compress(PROSE.encode(), mtime=0), True),
    ],
)
def test_text_or_table(tmp_path: Path, name: str, content: str | bytes, is_text: bool) -> None:
    assert is_plain_text(write(tmp_path / name, content)) is is_text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_one_document(tmp_path: Path, encoding: str, end: str) -> None:
    path = write(tmp_path / "a.txt", "Élan, naïve\n\nend\n".replace("\n", end).encode(encoding))
    told: list[tuple[int, int]] = []
    found = read_plain_text(path, lambda done, total: told.append((done, total)))
    (document,) = found.documents
    assert document.content == "Élan, naïve\n\nend\n"
    assert document.where(document.content.index("end")) == "line 3 of a.txt"
    assert any("Windows-1252" in note for note in found.notes) is (encoding == "cp1252")
    assert found.characters == 17
    assert told[-1][0] == told[-1][1]


def test_a_folder_by_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a/2.md", "a/1.txt", "a/.hidden.txt", ".git/x.txt", "table.csv"):
        write(tmp_path / "book" / name, f"This is {name}.")
    write(tmp_path / "book" / "c.txt", "")
    found = read_plain_text(tmp_path / "book")
    assert [document.name for document in found.documents] == ["a/1.txt", "a/2.md", "b.txt"]
    assert any("c.txt" in note for note in found.notes)
    assert is_plain_text(tmp_path / "book")
    assert not is_plain_text(write(tmp_path / "tables" / "a.csv", "a,b\n").parent)


@pytest.mark.skipif(os.name == "nt", reason="links need a right of their own on Windows")
def test_links_in_a_circle_end(tmp_path: Path) -> None:
    write(tmp_path / "book" / "a.txt", PROSE)
    (tmp_path / "book" / "again").symlink_to(tmp_path / "book", target_is_directory=True)
    assert [document.name for document in read_plain_text(tmp_path / "book").documents] == ["a.txt"]
    (tmp_path / "book" / "b.txt").symlink_to(tmp_path / "book" / "b.txt")
    with pytest.raises(DataError, match=r"b\.txt can't be read"):
        read_plain_text(tmp_path / "book")


@pytest.mark.parametrize(
    ("name", "content", "title"),
    [
        ("a.txt", b"\x89PNG\r\n\x1a\n", "neither a table nor a text"),
        ("a.txt", b"text\x00", "neither a table nor a text"),
        ("a.txt", b" \n\n", "empty"),
        ("a.txt", b"", "empty"),
        ("nothing/.keep", b"", "holds no texts"),
        ("nothing/a.txt", b"", "only empty texts"),
    ],
)
def test_what_is_no_text(tmp_path: Path, name: str, content: bytes, title: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(DataError) as caught:
        read_plain_text(path.parent if "/" in name else path)
    assert title in caught.value.title

"""Running text is read whole, its end is held out, and it is cut into rows of tokens from end to end."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from core.base.errors import DataError
from core.engine.data import running_text
from core.engine.data.batches import StackBlocks
from core.engine.data.running_text import is_plain_text, load_running_text, make_blocks, pieces, read_running
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from tests.fakes.models import tiny_tokenizer

PROSE = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n"
VERSE = "Roses are red, my dear,\nviolets are blue, my dear,\nand so on\nand on, on"
LINES = "".join(f"This is line {number} of a text.\n" for number in range(200))
STORY = "Hello there, how are you? I am fine. one two three four five six\n" * 20


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def stories(path: Path, rows: int = 50) -> Path:
    lines = (f'{row},"Once upon a time, in the year {row}, there was a king."\n' for row in range(rows))
    return write(path, "".join(["id,story\n", *lines]))


def read(path: Path, progress: Any = None) -> Any:
    return read_running((path,), (), progress)


def load(train: Path, **data: Any) -> Any:
    return load_running_text(RunOptions(task=Task.CAUSAL_LM, data=DataOptions(train=str(train), **data)))


@pytest.mark.parametrize(
    ("name", "content", "is_text"),
    [
        ("a", PROSE, True),
        ("a.txt", VERSE, True),
        ("a.md", "a,b\nc,d\ne,f\n", True),
        ("a.txt.gz", gzip.compress(PROSE.encode(), mtime=0), True),
        ("a.txt", "a\tb\nc\td\ne\tf\n", False),
        ("a.txt", "a,b\nc,d\ne,f\n", False),
        ("a.txt", "Paris B-LOC\nis O\n", False),
        ("a.txt", '{"text": "a"}\n{"text": "b"}\n', False),
        ("a.csv", PROSE, False),
    ],
)
def test_a_file_is_a_text_or_a_table(tmp_path, name, content, is_text):
    assert is_plain_text(write(tmp_path / name, content)) is is_text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(tmp_path, encoding, end):
    path = write(tmp_path / "a.txt", "Élan, naïve\n\nend\n".replace("\n", end).encode(encoding))
    reported: list[tuple[int, int]] = []
    text = read(path, lambda done, total: reported.append((done, total)))
    assert text.texts == ("Élan, naïve\n\nend\n",)
    assert any("Windows-1252" in note.message for note in text.notes) is (encoding == "cp1252")
    assert reported[-1][0] == reported[-1][1]


def test_a_folder_is_read_in_the_order_of_names_and_links_in_a_circle_end(tmp_path):
    book = tmp_path / "book"
    for name in ("b.txt", "a/2.md", "a/1.txt", "a/.hidden.txt", ".git/x.txt", "table.csv"):
        write(book / name, f"This is {name}.")
    write(book / "c.txt", "")
    if os.name != "nt":  # links need a right of their own there
        os.mkfifo(book / "d.txt")
        (book / "again").symlink_to(book, target_is_directory=True)
    folder = read(book)
    assert [file.relative_to(book).as_posix() for file in folder.files] == ["a/1.txt", "a/2.md", "b.txt"]
    left_out = "c.txt" if os.name == "nt" else "c.txt, d.txt"
    assert any("without text" in note.message and left_out in note.message for note in folder.notes)
    assert is_plain_text(book)
    assert not is_plain_text(write(tmp_path / "tables" / "a.csv", "a,b\n").parent)


@pytest.mark.parametrize(
    ("name", "content", "data", "words"),
    [
        ("a.txt", b"\x89PNG\r\n\x1a\n", {}, "neither a table nor a text"),
        ("a.txt", b"text\x00", {}, "neither a table nor a text"),
        ("a.txt", b" \n\n", {}, "empty"),
        ("nothing/.keep", b"", {}, "no texts"),
        ("nothing/a.txt", b"", {}, "only empty texts"),
        ("a.csv", "id,story\n1,\n2,  \n", {"text_columns": ("story",)}, "“story” is empty"),
        ("a.csv", "id,story\n1,Once\n" + "2,\n" * 9, {"text_columns": ("story",)}, "almost empty"),
        ("a.csv", "id,story\n1,Once upon\n", {"text_columns": ("saga",)}, "no column “saga”"),
        ("a.csv", "id,story\n1,Once upon\n", {"text_columns": ("id", "story")}, "one column"),
        ("a.txt", LINES, {"eval": "synthetic:8x8"}, "can't be used for validation"),
    ],
)
def test_what_has_no_text_to_use_is_refused(tmp_path, name, content, data, words):
    path = write(tmp_path / name, content)
    with pytest.raises(DataError, match=words) as caught:
        load(path.parent if "/" in name else path, **data)
    if "column" in words:
        assert caught.value.fixes[-1].changes == {"data.text_columns": ["story"]}


class TestSplit:
    def test_the_end_of_each_file_is_held_out_at_the_end_of_a_line(self, tmp_path):
        write(tmp_path / "books" / "b.txt", LINES.upper())
        write(tmp_path / "books" / "a.md", LINES)
        data = load(tmp_path / "books")
        parts = zip(data.train, data.eval, strict=True)
        assert [train + held_out for train, held_out in parts] == [LINES, LINES.upper()]
        assert [text[:4] for text in data.eval] == ["This", "THIS"]
        assert len(data.eval[0]) == pytest.approx(len(LINES) / 10, rel=0.05)

    def test_the_seed_chooses_among_rows(self, tmp_path):
        data = load(stories(tmp_path / "a.csv"))
        assert (len(data.train), len(data.eval)) == (45, 5)
        assert not set(data.train) & set(data.eval)
        assert data.eval == load(tmp_path / "a.csv").eval
        assert not all(f"year {row}," in text for row, text in zip(range(45, 50), data.eval, strict=True))
        all_rows, few = load(tmp_path / "a.csv", eval_fraction=0.0), load(stories(tmp_path / "b.csv", 3))
        assert (len(all_rows.train), all_rows.eval, all_rows.notes) == (50, None, ())
        assert (len(few.train), few.eval, len(few.notes)) == (3, None, 1)

    def test_a_chosen_column_makes_a_table_of_any_text(self, tmp_path):
        path = write(tmp_path / "a.txt", "first\tsecond\n" + "one two\tthree four\n" * 20)
        assert set(load(path, text_columns=("second",)).train) == {"three four"}
        commas = write(tmp_path / "b.txt", "one, two\n" * 50)
        assert load(commas, eval_fraction=0.0).train == ["one, two\n" * 50]


@pytest.mark.parametrize("text", [LINES, "word " * 999, "x" * 5000, "", "\n" * 700])
def test_pieces_are_the_whole_text(text):
    cut = list(pieces(text, 100))
    assert "".join(cut) == text
    assert all(0 < len(piece) <= 100 for piece in cut)
    assert text != LINES or all(piece.endswith("\n") for piece in cut)


class TestBlocks:
    def ids(self, *texts: str, length: int = 16, tokenizer: Any = None) -> list[int]:
        blocks = make_blocks(texts, tokenizer or tiny_tokenizer(), length)
        assert blocks is not None
        return [int(token) for row in blocks.rows for token in row["input_ids"]]

    def test_rows_are_the_text_from_end_to_end(self):
        tokenizer = tiny_tokenizer()
        blocks = make_blocks([STORY, STORY], tokenizer, 16)
        assert blocks is not None
        one = [*tokenizer(STORY)["input_ids"], tokenizer.eos_token_id]
        assert (blocks.tokens, blocks.left_over) == (2 * len(one), len(one) * 2 % 16)
        ids = (one + one)[: len(blocks.rows) * 16]
        assert self.ids(STORY, STORY) == ids
        batch = StackBlocks()([blocks.rows[0], blocks.rows[1]])
        assert (batch["input_ids"].shape, batch["input_ids"].dtype) == ((2, 16), torch.int64)
        assert batch["labels"].flatten().tolist() == ids[:32]

    def test_the_same_in_pieces_in_python_and_after_truncation(self, home, monkeypatch):
        class InPython:
            """A tokenizer without an engine of its own."""

            eos_token_id = tiny_tokenizer().eos_token_id

            def __call__(self, texts: list[str], **kwargs: Any) -> Any:
                return tiny_tokenizer()(texts, **kwargs)

        expected = self.ids(STORY, tokenizer=InPython())
        assert not home.exists(), "nothing is stored of it"
        truncating = tiny_tokenizer()
        truncating(["Hello there, how are you?"], truncation=True, max_length=3)
        assert self.ids(STORY, tokenizer=truncating) == expected
        monkeypatch.setattr(running_text, "tokenizer_print", lambda _tokenizer: "")
        monkeypatch.setattr(running_text, "pieces", lambda text: text.splitlines(keepends=True))
        monkeypatch.setattr(running_text, "BATCH_CHARACTERS", 100)
        assert self.ids(STORY) == expected

    @pytest.mark.parametrize("end", [5, None])
    def test_models_that_share_a_tokenizer_end_texts_each_their_own_way(self, end):
        self.ids(STORY, STORY)
        tokenizer = tiny_tokenizer()
        tokenizer.eos_token = None if end is None else tokenizer.convert_ids_to_tokens(end)
        whole = [*tokenizer(STORY)["input_ids"], *(() if end is None else (end,))] * 2
        assert self.ids(STORY, STORY, tokenizer=tokenizer) == whole[: len(whole) // 16 * 16]

    def test_a_short_text_is_one_short_row_and_nothing_is_none(self):
        blocks = make_blocks(["Hello there"], tiny_tokenizer(), 64)
        assert blocks is not None
        assert [len(row["input_ids"]) for row in blocks.rows] == [blocks.tokens]
        assert (blocks.tokens < 64, blocks.left_over) == (True, 0)
        assert make_blocks([""], tiny_tokenizer(), 8) is make_blocks([], tiny_tokenizer(), 8) is None

    def test_a_text_is_tokenized_once(self, monkeypatch):
        first = self.ids(STORY)
        monkeypatch.setattr(running_text, "_tokens", lambda *_: pytest.fail("tokenized again"))
        assert self.ids(STORY) == first
        with pytest.raises(pytest.fail.Exception):
            self.ids(STORY, length=8)

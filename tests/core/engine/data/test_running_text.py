"""Running text is read whole, its end is held out, and it is cut into rows of tokens from end to end."""

import csv
import gzip
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from core.base.errors import DataError
from core.engine.data import running_text
from core.engine.data.batches import StackBlocks
from core.engine.data.running_text import (
    Blocks,
    PlainText,
    is_plain_text,
    load_running_text,
    make_blocks,
    pieces,
    read_running,
)
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from tests.fakes.models import tiny_tokenizer

PROSE = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n"
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


def write_table(path: Path, rows: int) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "story"])
        writer.writerows(
            [row, f"Once upon a time, in the year {row}, there was a king of the sea."] for row in range(rows)
        )
    return path


def read(path: Path, progress: Any = None) -> PlainText:
    found = read_running((path,), (), progress)
    assert isinstance(found, PlainText)
    return found


def asked(train: Path, **data: Any) -> RunOptions:
    return RunOptions(task=Task.CAUSAL_LM, data=DataOptions(train=str(train), **data))


@pytest.mark.data
def test_shakespeare_is_running_text(shared_data):
    path = shared_data / "text" / "tinyshakespeare.txt"
    assert is_plain_text(path)
    assert not is_plain_text(shared_data / "mrpc" / "msr_paraphrase_test.txt")
    assert read(path).texts == (path.read_text(encoding="utf-8"),)


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
def test_text_or_table(tmp_path, name, content, is_text):
    assert is_plain_text(write(tmp_path / name, content)) is is_text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(tmp_path, encoding, end):
    path = write(tmp_path / "a.txt", "Élan, naïve\n\nend\n".replace("\n", end).encode(encoding))
    told: list[tuple[int, int]] = []
    found = read(path, lambda done, total: told.append((done, total)))
    assert found.texts == ("Élan, naïve\n\nend\n",)
    assert any("Windows-1252" in note for note in found.notes) is (encoding == "cp1252")
    assert told[-1][0] == told[-1][1]


def test_a_folder_by_the_order_of_names(tmp_path):
    book = tmp_path / "book"
    for name in ("b.txt", "a/2.md", "a/1.txt", "a/.hidden.txt", ".git/x.txt", "table.csv"):
        write(book / name, f"This is {name}.")
    write(book / "c.txt", "")
    found = read(book)
    assert [file.relative_to(book).as_posix() for file in found.files] == ["a/1.txt", "a/2.md", "b.txt"]
    assert any("c.txt" in note for note in found.notes)
    assert is_plain_text(book)
    assert not is_plain_text(write(tmp_path / "tables" / "a.csv", "a,b\n").parent)


@pytest.mark.skipif(os.name == "nt", reason="links need a right of their own on Windows")
def test_links_in_a_circle_end(tmp_path):
    book = write(tmp_path / "book" / "a.txt", PROSE).parent
    (book / "again").symlink_to(book, target_is_directory=True)
    assert read(book).files == (book / "a.txt",)
    (book / "b.txt").symlink_to(book / "b.txt")
    with pytest.raises(DataError, match=r"b\.txt can't be read"):
        read(book)


@pytest.mark.parametrize(
    ("name", "content", "title"),
    [
        ("a.txt", b"\x89PNG\r\n\x1a\n", "neither a table nor a text"),
        ("a.txt", b"text\x00", "neither a table nor a text"),
        ("a.txt", b" \n\n", "empty"),
        ("a.txt", b"", "empty"),
        ("nothing/.keep", b"", "no texts"),
        ("nothing/a.txt", b"", "only empty texts"),
    ],
)
def test_what_is_no_text(tmp_path, name, content, title):
    path = write(tmp_path / name, content)
    with pytest.raises(DataError) as caught:
        read(path.parent if "/" in name else path)
    assert title in caught.value.title


class TestSplit:
    def test_the_end_of_each_file_is_held_out_at_the_end_of_a_line(self, tmp_path):
        write(tmp_path / "books" / "b.txt", LINES.upper())
        write(tmp_path / "books" / "a.md", LINES)
        found = load_running_text(asked(tmp_path / "books"))
        assert found.eval is not None
        assert [one + two for one, two in zip(found.train, found.eval, strict=True)] == [LINES, LINES.upper()]
        assert [text[:4] for text in found.eval] == ["This", "THIS"]
        assert len(found.eval[0]) == pytest.approx(len(LINES) / 10, rel=0.05)

    def test_the_seed_chooses_among_rows(self, tmp_path):
        table = write_table(tmp_path / "stories.csv", 50)
        found = load_running_text(asked(table))
        assert found.eval is not None
        assert (len(found.train), len(found.eval)) == (45, 5)
        assert not set(found.train) & set(found.eval)
        assert found.eval == load_running_text(asked(table)).eval
        assert [f"year {row}," in text for row, text in zip(range(45, 50), found.eval, strict=True)] != [
            True
        ] * 5

    @pytest.mark.parametrize(
        ("rows", "data", "notes"), [(3, {"eval_fraction": 0.1}, 1), (50, {"eval_fraction": 0.0}, 0)]
    )
    def test_nothing_held_out(self, tmp_path, rows, data, notes):
        found = load_running_text(asked(write_table(tmp_path / "a.csv", rows), **data))
        assert (len(found.train), found.eval, len(found.notes)) == (rows, None, notes)

    def test_a_chosen_column_makes_a_table_of_any_text(self, tmp_path):
        path = write(tmp_path / "a.txt", "first\tsecond\n" + "one two\tthree four\n" * 20)
        assert set(load_running_text(asked(path, text_columns=("second",))).train) == {"three four"}
        commas = write(tmp_path / "b.txt", "one, two\n" * 50)
        assert load_running_text(asked(commas, eval_fraction=0.0)).train == ["one, two\n" * 50]

    @pytest.mark.parametrize(
        ("columns", "message"),
        [(("saga",), "no column “saga”"), (("id", "story"), "one column"), (("empty",), "no column")],
    )
    def test_a_wrong_column(self, tmp_path, columns, message):
        table = write_table(tmp_path / "stories.csv", 20)
        with pytest.raises(DataError, match=message) as raised:
            load_running_text(asked(table, text_columns=columns))
        assert raised.value.fixes[-1].changes == {"data.text_columns": ["story"]}

    @pytest.mark.parametrize(
        ("name", "content", "data", "message"),
        [
            ("a.csv", "id,story\n1,\n2,  \n", {"text_columns": ("story",)}, "no usable rows"),
            ("a.txt", "", {}, r"a\.txt is empty"),
            ("a.txt", LINES, {"eval": "synthetic:8x8"}, "can't be used for validation"),
        ],
    )
    def test_nothing_to_use(self, tmp_path, name, content, data, message):
        with pytest.raises(DataError, match=message):
            load_running_text(asked(write(tmp_path / name, content), **data))


@pytest.mark.parametrize("text", [LINES, "word " * 999, "x" * 5000, "", "\n" * 700])
def test_pieces_are_the_whole_text(text):
    cut = list(pieces(text, 100))
    assert "".join(cut) == text
    assert all(0 < len(piece) <= 100 for piece in cut)
    if text == LINES:
        assert all(piece.endswith("\n") for piece in cut)


class TestBlocks:
    def made(self, texts: list[str], length: int, tokenizer: Any = None) -> Blocks:
        found = make_blocks(texts, tokenizer or tiny_tokenizer(), length)
        assert found is not None
        return found

    def ids(self, found: Blocks) -> list[int]:
        return [int(token) for row in found.rows for token in row["input_ids"]]

    def test_rows_are_the_text_from_end_to_end(self):
        tokenizer = tiny_tokenizer()
        found = self.made([STORY, STORY], 16)
        one = [*tokenizer(STORY)["input_ids"], tokenizer.eos_token_id]
        assert found.tokens == 2 * len(one)
        assert self.ids(found) == (one + one)[: len(found.rows) * 16]
        assert found.left_over == len(one) * 2 % 16
        batch = StackBlocks()([found.rows[0], found.rows[1]])
        assert (batch["input_ids"].shape, batch["input_ids"].dtype) == ((2, 16), torch.int64)
        assert batch["labels"].flatten().tolist() == self.ids(found)[:32]

    def test_the_same_in_pieces_in_python_and_after_truncation(self, home, monkeypatch):
        class InPython:
            """A tokenizer without an engine of its own."""

            eos_token_id = tiny_tokenizer().eos_token_id

            def __call__(self, texts: list[str], **kwargs: Any) -> Any:
                return tiny_tokenizer()(texts, **kwargs)

        expected = self.ids(self.made([STORY], 16, InPython()))
        assert not home.exists(), "nothing is kept of it"
        truncating = tiny_tokenizer()
        truncating(["Hello there, how are you?"], truncation=True, max_length=3)
        assert self.ids(self.made([STORY], 16, truncating)) == expected
        monkeypatch.setattr(running_text, "tokenizer_print", lambda _tokenizer: "")
        monkeypatch.setattr(running_text, "pieces", lambda text: text.splitlines(keepends=True))
        monkeypatch.setattr(running_text, "BATCH_CHARACTERS", 100)
        assert self.ids(self.made([STORY], 16)) == expected

    @pytest.mark.parametrize("end", [5, None])
    def test_models_that_share_a_tokenizer_end_texts_each_their_own_way(self, end):
        with_end = self.made([STORY], 10)
        tokenizer = tiny_tokenizer()
        tokenizer.eos_token = None if end is None else tokenizer.convert_ids_to_tokens(end)
        found = self.made([STORY], 10, tokenizer)
        assert found.tokens == with_end.tokens - (end is None)
        whole = [*tokenizer(STORY)["input_ids"], *(() if end is None else (end,))]
        assert self.ids(found) == whole[: len(found.rows) * 10]

    def test_a_short_text_is_one_short_row(self):
        found = self.made(["Hello there"], 64)
        assert [len(row["input_ids"]) for row in found.rows] == [found.tokens]
        assert (found.tokens < 64, found.left_over) == (True, 0)

    @pytest.mark.parametrize("texts", [[], [""]])
    def test_nothing_to_learn_from(self, texts):
        assert make_blocks(texts, tiny_tokenizer(), 8) is None

    def test_a_text_is_tokenized_once(self, monkeypatch):
        first = self.made([STORY], 16)
        monkeypatch.setattr(running_text, "_tokens", lambda *_: pytest.fail("tokenized again"))
        again = self.made([STORY], 16)
        assert (self.ids(again), again.tokens) == (self.ids(first), first.tokens)
        with pytest.raises(pytest.fail.Exception):
            self.made([STORY], 8)

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from core.engine.data import running_text
from core.engine.data.batches import StackBlocks
from core.engine.data.running_text import Documents, make_blocks
from core.engine.data.tokens import tokenizer_print
from tests.fakes.tiny_tokenizer import tiny_tokenizer

TEXT = "Hello there, how are you? I am fine. one two three four five six\n" * 20


def documents(*texts: str) -> Documents:
    return Documents(pa.chunked_array([pa.array(texts, pa.large_string())]))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path))


def made(found: Documents, length: int, tokenizer: Any = None) -> running_text.Blocks | None:
    tokenizer = tokenizer or tiny_tokenizer()
    return make_blocks(found, tokenizer, length, tokenizer_print(tokenizer))


def ids(found: running_text.Blocks) -> list[int]:
    return [int(token) for row in found.rows for token in row["input_ids"]]


def test_rows_are_the_text_from_end_to_end() -> None:
    tokenizer = tiny_tokenizer()
    found = made(documents(TEXT, TEXT), 16)
    assert found is not None
    one = [*tokenizer(TEXT)["input_ids"], tokenizer.eos_token_id]
    assert found.tokens == 2 * len(one)
    assert ids(found) == (one + one)[: len(found.rows) * 16]
    assert found.left_over == len(one) * 2 % 16
    assert all(len(row["input_ids"]) == 16 for row in found.rows)


def test_cut_into_pieces_a_text_has_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    once = made(documents(TEXT), 16)
    monkeypatch.setattr(running_text, "pieces", lambda text: text.splitlines(keepends=True))
    monkeypatch.setattr(running_text, "TOGETHER_CHARACTERS", 100)
    again = made(documents(TEXT), 16)
    assert once is not None
    assert again is not None
    assert ids(once) == ids(again)


def test_a_tokenizer_written_in_python_gives_the_same(tmp_path: Path) -> None:
    class InPython:
        """Has no engine of its own."""

        def __init__(self) -> None:
            self.eos_token_id = tiny_tokenizer().eos_token_id

        def __call__(self, texts: list[str], **kwargs: Any) -> Any:
            return tiny_tokenizer()(texts, **kwargs)

    found = make_blocks(documents(TEXT), InPython(), 16, "")
    expected = made(documents(TEXT), 16)
    assert found is not None
    assert expected is not None
    assert ids(found) == ids(expected)
    assert len(list(tmp_path.rglob("*.arrow"))) == 1, "none is kept of it"


def test_a_limit_left_in_a_tokenizer_cuts_nothing() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer(["Hello there, how are you?"], truncation=True, max_length=3)
    found = make_blocks(documents(TEXT), tokenizer, 16, "")
    expected = made(documents(TEXT), 16)
    assert found is not None
    assert expected is not None
    assert found.tokens == expected.tokens


def test_models_that_share_a_tokenizer_end_texts_each_their_own_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, chat = tiny_tokenizer(), tiny_tokenizer()
    chat.eos_token = "hello"
    assert base.eos_token_id != chat.eos_token_id
    kept = [made(documents(TEXT), 16, tokenizer) for tokenizer in (base, chat)]
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "fresh"))
    fresh = made(documents(TEXT), 16, chat)
    assert kept[1] is not None
    assert fresh is not None
    assert ids(kept[1]) == ids(fresh), "not those that are kept of the other"


def test_a_short_text_is_one_short_row() -> None:
    found = made(documents("Hello there"), 64)
    assert found is not None
    assert len(found.rows) == 1
    assert len(found.rows[0]["input_ids"]) == found.tokens < 64
    assert found.left_over == 0


@pytest.mark.parametrize("texts", [(), ("",)])
def test_nothing_to_learn_from_is_nothing(texts: tuple[str, ...]) -> None:
    assert made(documents(*texts), 8) is None


def test_a_model_without_a_token_that_ends_texts_gets_none() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.eos_token = None
    found = made(documents(TEXT), 8, tokenizer)
    assert found is not None
    assert found.tokens == len(tokenizer(TEXT)["input_ids"])


def test_a_text_is_tokenized_once() -> None:
    first = made(documents(TEXT), 16)

    class Refusing:
        eos_token_id = tiny_tokenizer().eos_token_id

        def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
            raise AssertionError("tokenized again")

    tokenizer = tiny_tokenizer()
    known = tokenizer_print(tokenizer)
    kept = make_blocks(documents(TEXT), Refusing(), 16, known)
    assert first is not None
    assert kept is not None
    assert ids(kept) == ids(first)
    assert kept.tokens == first.tokens
    with pytest.raises(AssertionError, match="tokenized again"):
        make_blocks(documents(TEXT), Refusing(), 8, known)


def test_a_batch_is_what_it_learns() -> None:
    found = made(documents(TEXT), 16)
    assert found is not None
    batch = StackBlocks()([found.rows[0], found.rows[1]])
    assert batch["input_ids"].shape == (2, 16)
    assert batch["input_ids"].dtype == torch.int64
    assert torch.equal(batch["input_ids"], batch["labels"])
    assert np.array_equal(batch["input_ids"][1].numpy(), found.rows[1]["input_ids"])

"""Texts with labels, numbers or a label a word: columns found, rows split, everything wrong refused by its rows."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data.columns import as_text, guess_columns, guess_score_columns
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.tables import read_table
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions

CLASSIFY, SCORE, WORDS = Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION
REVIEWS = "text,label\n" + "".join(
    f"a review number {n} of many,{('good', 'bad')[n % 2]}\n" for n in range(40)
)
PAIRS = "idx,sentence1,sentence2,score\n" + "".join(
    f"{n},the first text {n},a second text {n},{n / 4}\n" for n in range(20)
)
CONLL = """-DOCSTART- -X- O O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
GOOD = {"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}


def write(folder: Path, content: str, name: str = "a.csv") -> str:
    (folder / name).write_text(content, encoding="utf-8")
    return str(folder / name)


def json_lines(*rows: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def load(task: Task, **data: Any) -> Any:
    return load_labelled_texts(RunOptions(task=task, data=DataOptions(**data)))


def everything(data: Any) -> list[tuple[list[str], list[str]]]:
    """Words and the names of their tags, training data first."""
    parts = [part for part in (data.train, data.eval) if part is not None]
    return [(row["tokens"], [data.labels[index] for index in row["label"]]) for part in parts for row in part]


@pytest.mark.data
def test_mrpc_pairs(shared_data):
    train, other = (str(shared_data / "mrpc" / f"msr_paraphrase_{name}.txt") for name in ("train", "test"))
    data = load(CLASSIFY, train=train, eval=other)
    assert (data.text_columns, data.label_column) == (("#1 String", "#2 String"), "Quality")
    assert (data.labels, data.notes) == (("0", "1"), ())
    assert data.train.column_names == ["text", "text_pair", "label"]
    assert Counter(data.train["label"]) == {1: 2753, 0: 1323}
    assert Counter(data.eval["label"]) == {1: 1147, 0: 578}


@pytest.mark.parametrize(
    ("task", "content", "name"),
    [
        (CLASSIFY, REVIEWS, "a.csv"),
        (SCORE, PAIRS, "a.csv"),
        (WORDS, json_lines(*({"words": [f"w{n}", "x"], "tags": ["B-X", "O"]} for n in range(40))), "a.jsonl"),
    ],
)
def test_a_share_is_held_out_by_seed(tmp_path, task, content, name):
    source = write(tmp_path, content, name)
    data, again = (load(task, train=source, eval_fraction=0.25, max_eval_samples=4) for _ in range(2))
    rows = 20 if task is SCORE else 40
    assert (len(data.train), len(data.eval)) == (rows * 3 // 4, 4)
    column = data.train.column_names[0]
    assert data.eval[column][:] == again.eval[column][:]
    assert not set(map(str, data.eval[column])) & set(map(str, data.train[column]))
    if task is CLASSIFY:
        assert Counter(data.train["label"]) == {0: 15, 1: 15}


def test_nothing_is_evaluated_where_nothing_is_held_out(tmp_path):
    assert load(CLASSIFY, train=write(tmp_path, REVIEWS), eval_fraction=0.0).eval is None
    few = load(CLASSIFY, train=write(tmp_path, "text,label\none text,a\nother text,b\n"))
    assert few.eval is None
    assert any("too little" in note for note in few.notes)


def test_limits_take_the_first_rows(tmp_path):
    source = write(tmp_path, REVIEWS)
    data = load(CLASSIFY, train=source, eval=source, max_train_samples=6, max_eval_samples=3)
    assert data.train["text"][:] == [f"a review number {n} of many" for n in range(6)]
    assert len(data.eval) == 3


def test_labels_are_in_order(tmp_path):
    content = "text,stars\n" + "".join(f"words and words {n},{n % 11}\n" for n in range(60))
    assert load(CLASSIFY, train=write(tmp_path, content)).labels == tuple(map(str, range(11)))
    rows = json_lines(
        {"text": "a b", "label": True}, {"text": "c d", "label": False}, {"text": "e", "label": None}
    )
    data = load(CLASSIFY, train=write(tmp_path, rows, "a.jsonl"), eval_fraction=0.0)
    assert data.labels == ("false", "true")
    assert any("line 3" in note for note in data.notes)


@pytest.mark.parametrize(
    ("task", "content", "kept", "told"),
    [
        (
            CLASSIFY,
            "text,label\nfine words,a\n,b\nmore words, \nlast words,b\n  ,a\n",
            2,
            ["rows 3, 6", "row 4"],
        ),
        (
            SCORE,
            "text,stars\n" + "".join(f"some {n},{n if n % 5 else ''}\n" for n in range(20)),
            16,
            ["rows 2, 7"],
        ),
        (WORDS, json_lines({"tokens": [], "tags": []}, GOOD, GOOD), 2, ["line 1"]),
    ],
)
def test_rows_without_a_text_or_an_answer_are_left_out(tmp_path, task, content, kept, told):
    name = "a.jsonl" if task is WORDS else "a.csv"
    data = load(task, train=write(tmp_path, content, name), eval_fraction=0.0)
    assert len(data.train) == kept
    assert len(data.notes) == len(told)
    assert all(rows in note for rows, note in zip(told, data.notes, strict=True))


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.0, None, 2.0], ["1", None, "2"]),
        ([1.5, float("nan")], ["1.5", None]),
        ([float("inf"), 2.0], ["inf", "2"]),
        ([True, False], ["true", "false"]),
        ([["ä"]], ['["ä"]']),
        ([pa.MonthDayNano([1, 2, 0])], ["MonthDayNano(months=1, days=2, nanoseconds=0)"]),
        ([b"x"], ["b'x'"]),
        ([None], [None]),
    ],
)
def test_values_of_every_kind_as_text(values, texts):
    assert as_text(pa.chunked_array([pa.array(values)])).to_pylist() == texts


@pytest.mark.parametrize(
    ("header", "row", "text", "label"),
    [
        ("text,label", "some words,{0}", ("text",), "label"),
        ("id,review,sentiment", "{1},some {1} words,{0}", ("review",), "sentiment"),
        ("idx,sentence1,sentence2,label", "{1},some {1},words {1},{0}", ("sentence1", "sentence2"), "label"),
        ("text_a,text_b,gold_label", "some {1},words {1},{0}", ("text_a", "text_b"), "gold_label"),
        ("premise,hypothesis,y", "some {1},words {1},{0}", ("premise", "hypothesis"), "y"),
        ("kind,what", "k{0},some long words {1}", ("what",), "kind"),
        ("Label,Tweet", "{0},some words {1}", ("Tweet",), "Label"),
    ],
)
def test_columns_are_found(tmp_path, header, row, text, label):
    lines = [row.format(number % 2, number) for number in range(100)]
    table = read_table(Path(write(tmp_path, "\n".join([header, *lines]))))
    assert (guess_columns(table).text, guess_columns(table).label) == (text, label)
    assert guess_columns(table, (label,), text[0]).label == text[0]


@pytest.mark.parametrize(
    ("header", "row", "score"),
    [
        ("text,label", "words go here,{n}.5", "label"),
        ("id,text,Rating", "{n},words go here,{r}", "Rating"),
        ("user_id,text,how much", "{r},words go here,0.{n}", "how much"),
        ("text,label,similarity", "words go here,yes,0.{n}", "similarity"),
        ("id,text", "{n},words go here", None),
    ],
)
def test_the_column_of_numbers_is_found(tmp_path, header, row, score):
    content = f"{header}\n" + "".join(f"{row.format(n=n, r=n % 3)}\n" for n in range(1, 9))
    found = guess_score_columns(read_table(Path(write(tmp_path, content))))
    assert (found.label, found.text) == (score, ("text",))


def test_a_conll_file(tmp_path):
    source = write(tmp_path, CONLL, "train.conll")
    data = load(WORDS, train=source, eval_fraction=0.0)
    assert (data.text_columns, data.label_column) == (("tokens",), "tags")
    assert everything(data) == [
        (["EU", "rejects"], ["B-ORG", "O"]),
        (["Peter", "Blackburn"], ["B-PER", "I-PER"]),
    ]
    assert load(WORDS, train=source, label_column="column 2", eval_fraction=0.0).labels == ("NNP", "VBZ")


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("sentence,tags", '"EU rejects","B-ORG O"'),
        ("tokens,ner_tags", "\"['EU', 'rejects']\",\"['B-ORG', 'O']\""),
        ("text,labels", '"[""EU"", ""rejects""]","[""B-ORG"", ""O""]"'),
    ],
)
def test_lists_written_as_text(tmp_path, header, row):
    data = load(WORDS, train=write(tmp_path, f"{header}\n{row}\n{row}\n"), eval_fraction=0.0)
    assert everything(data)[0] == (["EU", "rejects"], ["B-ORG", "O"])


def test_lists_under_names_nobody_foresaw(tmp_path):
    row = {"number": [7], "these": ["EU", "rejects"], "those": ["X", "Y"]}
    data = load(WORDS, train=write(tmp_path, json_lines(row, row), "a.jsonl"))
    assert (data.text_columns, data.label_column) == (("these",), "those")


def parquet_file(folder: Path, names: list[str] | None) -> str:
    table = pa.table({"tokens": [["EU", "rejects"], ["Peter"]], "ner_tags": [[1, 0], [2]]})
    if names:
        feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "List"}
        written = json.dumps({"info": {"features": {"ner_tags": feature}}})
        table = table.replace_schema_metadata({"huggingface": written})
    parquet.write_table(table, folder / "a.parquet")
    return str(folder / "a.parquet")


def test_numbers_stand_for_the_names_a_data_set_brings(tmp_path):
    named = load(WORDS, train=parquet_file(tmp_path, ["O", "B-ORG", "B-PER"]), eval_fraction=0.0)
    assert everything(named) == [(["EU", "rejects"], ["B-ORG", "O"]), (["Peter"], ["B-PER"])]
    assert load(WORDS, train=parquet_file(tmp_path, None), eval_fraction=0.0).labels == ("0", "1", "2")
    with pytest.raises(DataError) as caught:
        load(WORDS, train=parquet_file(tmp_path, ["O", "B-ORG"]))
    assert "row 2" in caught.value.detail


def test_large_numbers_are_told(tmp_path):
    content = "text,price\n" + "".join(f"some words {n},{n * 1000}\n" for n in range(9))
    data = load(SCORE, train=write(tmp_path, content), label_column="price")
    assert any("goes up to 8,000" in note for note in data.notes)


def rows(pattern: str, count: int = 9) -> str:
    return "".join(f"{pattern.format(n=n, r=n % 3, half=n / 2)}\n" for n in range(count))


SCORED = f"text,score\n{rows('some words {n},{half}')}"
CLASSES = f"text,label\n{rows('some words {n},c{r}')}"
SKIP = {"data.skip_bad_rows": True}
NO_LABELS = f"text,label,kind\n{rows('words,,{r}')}"
NO_SCORES = f"text,score,other\n{rows('some words {n},,{half}')}"
TWO_TEXTS = f"first,second,same\n{rows('a {n},b {n},{r}')}"
LIMITED = "text,label\n" + "words,a\n" * 9 + "others,b\n" * 9
MISSING_TAG = json_lines(GOOD, {"tokens": ["a", "b"], "tags": ["O", None]})
SPANS = json_lines({"tokens": ["a", "b"], "entities": [{"start": 0, "label": "PER"}]})
Refused = tuple[Task, str, dict[str, Any], dict[str, Any] | None]
REFUSED: dict[str, Refused] = {
    "no such label column": (CLASSIFY, REVIEWS, {"label_column": "lable"}, {"data.label_column": "label"}),
    "no such text column": (
        *(CLASSIFY, TWO_TEXTS, {"text_columns": ("first", "Secnd")}),
        {"data.text_columns": ["first", "second"]},
    ),
    "numbers for texts": (
        *(CLASSIFY, f"id,text,label\n{rows('{n}.5,words {n},{r}')}", {"text_columns": ("id",)}),
        {"data.text_columns": ["text"]},
    ),
    "no usable row": (CLASSIFY, "text,label\nsome words,\n,a\n,b\n", {}, None),
    "one class by a limit": (CLASSIFY, LIMITED, {"max_train_samples": 5}, {"data.max_train_samples": None}),
    "no label": (CLASSIFY, NO_LABELS, {"label_column": "label"}, {"data.label_column": "kind"}),
    **{
        f"number {value}": (SCORE, SCORED.replace(",1.5\n", f",{value}\n"), {"label_column": "score"}, SKIP)
        for value in ("high", "nan", "inf", "1e300", "1_000", "٣")
    },
    "decimal commas": (
        *(SCORE, f"text;score\n{rows('some words {n};{n},5')}", {"label_column": "score"}),
        {"task": "text-classification"},
    ),
    "classes for numbers": (SCORE, CLASSES, {"label_column": "label"}, {"task": "text-classification"}),
    "no column of numbers": (SCORE, CLASSES, {}, None),
    "no such score column": (SCORE, SCORED, {"label_column": "scored"}, {"data.label_column": "score"}),
    "no score": (SCORE, NO_SCORES, {"label_column": "score"}, {"data.label_column": "other"}),
    "one number": (SCORE, f"text,score\n{rows('some words {n},3.5')}", {}, None),
    "more words than tags": (WORDS, json_lines(GOOD, {"tokens": ["a", "b"], "tags": ["O"]}), {}, SKIP),
    "a missing tag": (WORDS, MISSING_TAG, {}, SKIP),
    "a broken list": (WORDS, "tokens,tags\n\"['EU', 'x']\",O B\n\"['EU' x']\",O O\n", {}, SKIP),
    "no tags": (WORDS, json_lines({"tokens": ["a", "b"], "id": 3}), {}, None),
    "no such tag column": (WORDS, json_lines(GOOD), {"label_column": "tag"}, {"data.label_column": "tags"}),
    "two columns of words": (
        *(WORDS, json_lines(GOOD), {"text_columns": ("tokens", "words")}),
        {"data.text_columns": ["tokens"]},
    ),
    "numbers for tags": (WORDS, json_lines({"tokens": ["a"], "no": 2}), {"label_column": "no"}, None),
    "spans for tags": (WORDS, SPANS, {}, None),
    "one tag": (WORDS, json_lines(*[{"tokens": ["a", "b"], "tags": ["O", "O"]}] * 2), {}, None),
    "no words": (WORDS, json_lines(*[{"tokens": [], "tags": [], "id": 1}] * 2), {}, None),
}


@pytest.mark.parametrize(("task", "content", "asked", "fix"), REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path, task, content, asked, fix):
    with pytest.raises(DataError) as caught:
        load(task, train=write(tmp_path, content, "a.jsonl" if content[0] == "{" else "a.csv"), **asked)
    assert fix is None or fix in [offered.changes for offered in caught.value.fixes]
    assert fix is not SKIP or "(row" in caught.value.detail or "(line" in caught.value.detail


EVALUATION = {
    "an unseen label": (CLASSIFY, "text,label\nwords,good\n,good\nwords,awful\nwords,awful\n", "“awful”"),
    "no such column": (CLASSIFY, "words,label\na b,good\n", "“text”"),
    "numbers for texts": (CLASSIFY, "text,label\n12,good\n13.5,bad\n", "“text”"),
    "no labels": (CLASSIFY, "text,label\nsome words,\nmore words,\n", "test.csv"),
    "no number": (SCORE, "sentence1,sentence2,score\na b,c d,good\n", "(row 2)"),
    "no words": (WORDS, "text,label\nwords,good\n", "“tokens”"),
}


@pytest.mark.parametrize(("task", "content", "said"), EVALUATION.values(), ids=EVALUATION)
def test_refused_evaluation_data(tmp_path, task, content, said):
    train = {CLASSIFY: REVIEWS, SCORE: PAIRS, WORDS: CONLL}[task]
    source = write(tmp_path, train, "a.conll" if task is WORDS else "a.csv")
    with pytest.raises(DataError) as caught:
        load(task, train=source, eval=write(tmp_path, content, "test.csv"))
    assert said in f"{caught.value.title} {caught.value.detail}"
    assert {"data.eval": None} in [fix.changes for fix in caught.value.fixes]


def test_evaluation_data_of_its_own_and_bad_rows_left_out(tmp_path):
    other = write(tmp_path, "sentence1,sentence2,score\na b,c d,9.5\na,b,many\n", "test.csv")
    data = load(SCORE, train=write(tmp_path, PAIRS), eval=other, skip_bad_rows=True)
    assert (len(data.train), data.eval["label"][:]) == (20, [9.5])
    assert data.notes[0].endswith("It is left out. (row 3)")


@pytest.mark.parametrize("source", ["synthetic:4x16", "builtin:digits"])
def test_real_texts_evaluated_on_something_else(tmp_path, source):
    with pytest.raises(DataError, match=source) as caught:
        load(CLASSIFY, train=write(tmp_path, REVIEWS), eval=source)
    assert caught.value.fixes[0].changes == {"data.eval": None}

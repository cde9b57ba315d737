"""Texts with labels, numbers or a label a word: columns found, rows split, everything wrong refused by its rows."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data.checks import longer
from core.engine.data.columns import as_text, guess_columns, guess_score_columns
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.tables import read_table
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import TrainingOptions

CLASSIFY, SCORE, WORDS = Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION
GOOD = {"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}
CONLL = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\n"


def rows(header: str, pattern: str, count: int = 9) -> str:
    """A CSV file; `r` repeats."""
    lines = (pattern.format(n=n, r=n % 3, ab="ab"[n % 2], half=n / 2) for n in range(count))
    return "\n".join([header, *lines])


def json_lines(*rows: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


REVIEWS = rows("text,label", "a review number {n} of many,{ab}", 40)
PAIRS = rows("idx,sentence1,sentence2,score", "{n},the first text {n},a second text {n},{half}", 20)
TAGGED = json_lines(*({"words": [f"w{n}", "x"], "tags": ["B-X", "O"]} for n in range(40)))


def write(folder: Path, content: str, name: str = "") -> str:
    path = folder / (name or ("a.jsonl" if content[0] == "{" else "a.csv"))
    path.write_text(content, encoding="utf-8")
    return str(path)


def load(task: Task, **data: Any) -> Any:
    return load_labelled_texts(RunOptions(task=task, data=DataOptions(**data)))


def tagged(data: Any) -> list[tuple[list[str], list[str]]]:
    return [(row["tokens"], [data.labels[index] for index in row["label"]]) for row in data.train]


@pytest.mark.parametrize(
    ("task", "content", "count"), [(CLASSIFY, REVIEWS, 40), (SCORE, PAIRS, 20), (WORDS, TAGGED, 40)]
)
def test_a_share_is_held_out_by_seed(tmp_path, task, content, count):
    source = write(tmp_path, content)
    data, again = (load(task, train=source, eval_fraction=0.25, max_eval_samples=4) for _ in range(2))
    assert (len(data.train), len(data.eval)) == (count * 3 // 4, 4)
    column = data.train.column_names[0]
    assert data.eval[column][:] == again.eval[column][:]
    assert not set(map(str, data.eval[column])) & set(map(str, data.train[column]))
    assert task is not CLASSIFY or Counter(data.train["label"]) == {0: 15, 1: 15}


def test_limits_take_the_first_rows_and_too_few_are_not_evaluated(tmp_path):
    source = write(tmp_path, REVIEWS)
    data = load(CLASSIFY, train=source, eval=source, max_train_samples=6, max_eval_samples=3)
    assert data.train["text"][:] == [f"a review number {n} of many" for n in range(6)]
    assert len(data.eval) == 3
    few = load(CLASSIFY, train=source, max_train_samples=2)
    assert few.eval is None
    assert any("too little" in note for note in few.notes)


def test_labels_are_in_order(tmp_path):
    stars = "text,stars\n" + "".join(f"words and words {n},{n % 11}\n" for n in range(60))
    assert load(CLASSIFY, train=write(tmp_path, stars)).labels == tuple(map(str, range(11)))
    truths = json_lines(*({"text": "a b", "label": label} for label in (True, False, None)))
    data = load(CLASSIFY, train=write(tmp_path, truths), eval_fraction=0.0, skip_bad_rows=True)
    assert data.labels == ("false", "true")


GAPS = "text,label\nfine words,a\n,b\nmore words, \nlast words,b\n  ,a\n"
NO_STARS = "text,stars\n" + "".join(f"some {n},{n if n % 5 else ''}\n" for n in range(20))


@pytest.mark.parametrize(
    ("task", "content", "kept", "places"),
    [
        (CLASSIFY, GAPS, 2, ["rows 3, 6", "row 4"]),
        (SCORE, NO_STARS, 16, ["rows 2, 7"]),
    ],
)
def test_rows_without_a_text_or_an_answer_are_left_out_only_if_asked(
    *, tmp_path, task, content, kept, places
):
    source = write(tmp_path, content)
    with pytest.raises(DataError, match="Leave") as refused:
        load(task, train=source, eval_fraction=0.0)
    assert all(place in refused.value.detail for place in places)
    data = load(task, train=source, eval_fraction=0.0, skip_bad_rows=True)
    assert len(data.train) == kept
    assert all(place in note for place, note in zip(places, data.notes, strict=True))


@pytest.mark.parametrize(
    ("task", "empty", "rows"),
    [
        (
            CLASSIFY,
            {"text": " ", "label": ""},
            [{"text": f"some words {n}", "label": "ab"[n % 2]} for n in range(9)],
        ),
        (WORDS, {"tokens": [], "tags": []}, [GOOD] * 2),
    ],
)
def test_a_row_with_nothing_in_it_stops_no_run(tmp_path, task, empty, rows):
    data = load(task, train=write(tmp_path, json_lines(empty, *rows)), eval_fraction=0.0)
    assert len(data.train) == len(rows)
    assert "nothing to learn from" in data.notes[0]
    assert "line 1" in data.notes[0]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.0, None, 2.0], ["1", None, "2"]),
        ([1.5, float("nan"), float("inf")], ["1.5", None, "inf"]),
        ([True, False], ["true", "false"]),
        ([["ä"]], ['["ä"]']),
        ([pa.MonthDayNano([1, 2, 0])], ["MonthDayNano(months=1, days=2, nanoseconds=0)"]),
        ([b"x"], ["b'x'"]),
    ],
)
def test_values_of_every_kind_as_text(values, texts):
    assert as_text(pa.chunked_array([pa.array(values)])).to_pylist() == texts


SENTENCES = ("sentence1", "sentence2")


@pytest.mark.parametrize(
    ("guess", "header", "row", "text", "label"),
    [
        (guess_columns, "id,review,sentiment", "{n},some {n} words,{ab}", ("review",), "sentiment"),
        (guess_columns, "idx,sentence1,sentence2,label", "{n},some {n},words {n},{ab}", SENTENCES, "label"),
        (guess_columns, "premise,hypothesis,y", "some {n},words {n},{ab}", ("premise", "hypothesis"), "y"),
        (guess_columns, "kind,what", "k{r},some long words {n}", ("what",), "kind"),
        (guess_columns, "Label,Tweet", "{ab},some words {n}", ("Tweet",), "Label"),
        (guess_score_columns, "text,label", "words go here,{n}.5", ("text",), "label"),
        (guess_score_columns, "id,text,Rating", "{n},words go here,{r}", ("text",), "Rating"),
        (guess_score_columns, "user_id,text,how much", "{r},words go here,0.{n}", ("text",), "how much"),
        (guess_score_columns, "text,label,similarity", "words,yes,0.{n}", ("text",), "similarity"),
        (guess_score_columns, "id,text", "{n},words go here", ("text",), None),
    ],
)
def test_columns_are_found(*, tmp_path, guess, header, row, text, label):
    columns = guess(read_table(Path(write(tmp_path, rows(header, row, 100)))))
    assert (columns.text, columns.label) == (text, label)


LISTS = "tokens,ner_tags", "\"['EU', 'rejects']\",\"['B-ORG', 'O']\""
OTHER_NAMES = json_lines(*[{"number": [7], "these": GOOD["tokens"], "those": GOOD["tags"]}] * 2)


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.conll", CONLL, ("tokens", "tags")),
        ("a.csv", 'sentence,tags\n"EU rejects","B-ORG O"\n' * 2, ("sentence", "tags")),
        ("a.csv", "\n".join([LISTS[0], LISTS[1], LISTS[1]]), ("tokens", "ner_tags")),
        ("a.jsonl", OTHER_NAMES, ("these", "those")),
    ],
    ids=["CoNLL", "words", "lists as text", "other names"],
)
def test_words_and_tags_are_found(tmp_path, name, content, columns):
    data = load(WORDS, train=write(tmp_path, content, name), eval_fraction=0.0)
    assert (*data.text_columns, data.label_column) == columns
    assert (["EU", "rejects"], ["B-ORG", "O"]) in tagged(data)


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
    assert tagged(named) == [(["EU", "rejects"], ["B-ORG", "O"]), (["Peter"], ["B-PER"])]
    assert load(WORDS, train=parquet_file(tmp_path, None), eval_fraction=0.0).labels == ("0", "1", "2")
    with pytest.raises(DataError, match="row 2"):
        load(WORDS, train=parquet_file(tmp_path, ["O", "B-ORG"]))


def test_large_numbers_are_noted(tmp_path):
    data = load(
        SCORE, train=write(tmp_path, rows("text,price", "some words {n},{n}000")), label_column="price"
    )
    assert any("goes up to 8,000" in note for note in data.notes)


SCORED = rows("text,score", "some words {n},{half}")
CLASSES = rows("text,label", "some words {n},c{r}")
SKIP = {"data.skip_bad_rows": True}
CHOSEN = {"label_column": "label"}
CHOSEN_SCORE = {"label_column": "score"}
AS_CLASSES = {"task": "text-classification"}
LIMITED = "text,label\n" + "words,a\n" * 9 + "others,b\n" * 9
SPANS = json_lines({"tokens": ["a", "b"], "entities": [{"start": 0, "label": "PER"}]})
REFUSED: dict[str, tuple[Task, str, dict[str, Any], dict[str, Any] | None]] = {
    "no such label column": (CLASSIFY, REVIEWS, {"label_column": "lable"}, {"data.label_column": "label"}),
    "no such text column": (
        *(CLASSIFY, rows("first,second,same", "a {n},b {n},{r}"), {"text_columns": ("first", "Secnd")}),
        {"data.text_columns": ["first", "second"]},
    ),
    "numbers for texts": (
        *(CLASSIFY, rows("id,text,label", "{n}.5,words {n},{r}"), {"text_columns": ("id",)}),
        {"data.text_columns": ["text"]},
    ),
    "no usable row": (CLASSIFY, "text,label\nsome words,\n,a\n,b\n", {}, None),
    "one class by a limit": (CLASSIFY, LIMITED, {"max_train_samples": 5}, {"data.max_train_samples": None}),
    "no label": (CLASSIFY, rows("text,label,kind", "words,,{r}"), CHOSEN, {"data.label_column": "kind"}),
    **{
        f"number {value}": (SCORE, SCORED.replace(",1.5\n", f",{value}\n"), CHOSEN_SCORE, SKIP)
        for value in ("high", "nan", "inf", "1e300", "1_000", "٣")
    },
    "decimal commas": (SCORE, rows("text;score", "some words {n};{n},5"), CHOSEN_SCORE, AS_CLASSES),
    "classes for numbers": (SCORE, CLASSES, CHOSEN, AS_CLASSES),
    "no column of numbers": (SCORE, CLASSES, {}, None),
    "no such score column": (SCORE, SCORED, {"label_column": "scored"}, {"data.label_column": "score"}),
    "no score": (SCORE, rows("text,score,x", "words,,{half}"), CHOSEN_SCORE, {"data.label_column": "x"}),
    "one number": (SCORE, rows("text,score", "some words {n},3.5"), {}, None),
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


@pytest.mark.parametrize(("task", "content", "chosen", "fix"), REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path, task, content, chosen, fix):
    with pytest.raises(DataError) as caught:
        load(task, train=write(tmp_path, content), **chosen)
    assert fix is None or fix in [offered.changes for offered in caught.value.fixes]
    assert fix is not SKIP or "(row" in caught.value.detail or "(line" in caught.value.detail


EVALUATION = {
    "no such column": (CLASSIFY, "words,label\na b,a\n", "“text”"),
    "numbers for texts": (CLASSIFY, "text,label\n12,a\n13.5,b\n", "“text”"),
    "no labels": (CLASSIFY, "text,label\nsome words,\nmore words,\n", "test.csv"),
    "no number": (SCORE, "sentence1,sentence2,score\na b,c d,good\n", "(row 2)"),
    "no words": (WORDS, "text,label\nwords,good\n", "“words”"),
    "no texts": (CLASSIFY, "synthetic:4x16", "synthetic:4x16"),
}


@pytest.mark.parametrize(("task", "content", "words"), EVALUATION.values(), ids=EVALUATION)
def test_refused_evaluation_data(tmp_path, task, content, words):
    train = write(tmp_path, {CLASSIFY: REVIEWS, SCORE: PAIRS, WORDS: TAGGED}[task])
    other = content if content.startswith("synthetic") else write(tmp_path, content, "test.csv")
    with pytest.raises(DataError) as caught:
        load(task, train=train, eval=other)
    assert words in f"{caught.value.title} {caught.value.detail}"
    assert {"data.eval": None} in [fix.changes for fix in caught.value.fixes]


def test_bad_rows_of_evaluation_data_are_left_out_where_the_options_say_so(tmp_path):
    other = write(tmp_path, "sentence1,sentence2,score\na b,c d,9.5\na,b,many\n", "test.csv")
    data = load(SCORE, train=write(tmp_path, PAIRS), eval=other, skip_bad_rows=True)
    assert (len(data.train), data.eval["label"][:]) == (20, [9.5])
    assert data.notes[0].endswith("It is left out. (row 3)")


@pytest.mark.parametrize(
    ("longest", "most"), [(10**9, [1024]), (512, [512]), (256, [])], ids=["room", "512 tokens", "no more"]
)
def test_the_smallest_usual_length_that_holds_nearly_all_is_offered_as_far_as_the_model_has_it(longest, most):
    fixes = longer([700] * 199 + [5000], 256, longest)
    assert [fix.changes["data.max_length"] for fix in fixes] == most


@pytest.mark.parametrize(
    ("task", "content", "evaluation", "data", "in_both"),
    [
        (CLASSIFY, REVIEWS, REVIEWS, {}, 40),
        (CLASSIFY, REVIEWS, rows("text,label", "another {n},{ab}", 10), {}, 0),
        (CLASSIFY, REVIEWS, None, {}, 0),
        (CLASSIFY, rows("text,label", "always the same,{ab}", 40), None, {}, 8),
        (
            CLASSIFY,
            rows("text,label", "one of three {r},{r}", 40) + REVIEWS[10:],
            None,
            {"drop_duplicates": True},
            0,
        ),
        (CLASSIFY, REVIEWS, None, {"eval_fraction": 0.0}, 0),
        (SCORE, PAIRS, PAIRS, {}, 20),
        (WORDS, TAGGED, None, {}, 0),
        (WORDS, TAGGED, TAGGED, {}, 40),
    ],
)
def test_texts_that_are_evaluated_and_trained_on_are_counted(
    *, tmp_path, task, content, evaluation, data, in_both
):
    paths = {"train": write(tmp_path, content)}
    if evaluation:
        paths["eval"] = write(tmp_path, evaluation, f"eval.{'jsonl' if task is WORDS else 'csv'}")
    assert load(task, **{"eval_fraction": 0.2, **paths, **data}).in_both == in_both


@pytest.mark.parametrize(
    ("in_both", "evaluated", "epochs", "warns"),
    [(9, 10, 1.0, True), (1, 10, 1.0, True), (3, 1000, 1.0, False), (0, 10, 1.0, False), (0, 0, 1.0, False),
     (10, 10, 0.0, True), (0, 10, 0.0, False)],
)  # fmt: skip
def test_a_run_warns_if_many_of_its_validation_examples_are_trained_on(in_both, evaluated, epochs, warns):
    reporter = Reporter(None)
    reporter.warn_if_in_both(
        in_both, evaluated, RunOptions(task=CLASSIFY, training=TrainingOptions(epochs=epochs))
    )
    said = [message.title for message in reporter.status.messages.values()]
    where = "examples are also in the data that the model was trained or validated on"
    if epochs:
        where = "validation examples are also trained on"
    assert said == [f"{in_both} of {evaluated} {where}"] * warns

"""A source and the name of a split come to files, the same for every task; several files are one table."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from core.base.errors import DataError
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.splits import files_of, refuse_labels, splits_of, stratified_split, texts_of
from core.engine.data.tables import read_files, read_training
from core.engine.hub.download import download
from core.jobs.hub import DownloadRequest
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.hub import RepoKind
from tests.fakes.hub import Repo, a_hub

ROWS = "text,label\n" + "".join(f"words {n},{'ab'[n % 2]}\n" for n in range(6))


def laid(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(ROWS, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("names", "split", "files"),
    [
        (("train.csv", "test.csv"), None, ["train.csv"]),
        (("train.csv", "validation.jsonl", "sample.csv"), "validation", ["validation.jsonl"]),
        (("data/train-00001-of-00002.csv", "data/train-00000-of-00002.csv"), "train", None),
        (("train/a.csv", "dev/b.csv"), "validation", ["dev/b.csv"]),
        (("only.csv", ".hidden.csv", "notes.pdf"), None, ["only.csv"]),
        (("part-0000.csv", "part-0001.csv"), None, ["part-0000.csv", "part-0001.csv"]),
        (("test.csv",), None, ["test.csv"]),
        (("reviews_train.csv.gz", "reviews_test.csv.gz"), "train", ["reviews_train.csv.gz"]),
    ],
)
def test_names_tell_the_splits_of_a_folder(tmp_path, names, split, files):
    folder = laid(tmp_path, *names)
    (folder / "again").symlink_to(folder, target_is_directory=True)  # brings no file twice
    found = [path.relative_to(folder).as_posix() for path in files_of(str(folder), split)]
    assert found == (files or sorted(names))


def test_several_tables_of_which_none_is_called_train_are_listed(tmp_path, monkeypatch):
    laid(tmp_path, "cats.csv", "dogs.csv")
    with pytest.raises(DataError, match="several tables") as caught:
        files_of(str(tmp_path))
    assert "“cats.csv”, “dogs.csv”" in caught.value.detail
    assert caught.value.fixes[1].changes == {"data.train": str(tmp_path / "dogs.csv")}
    assert caught.value.title.startswith(tmp_path.name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"\A\. contains several tables"):
        files_of(".")


def test_a_split_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    laid(tmp_path, "train.csv", "test.csv")
    with pytest.raises(DataError, match="no split called “dev”") as caught:
        files_of(str(tmp_path), "dev", "data.eval_split")
    assert [fix.changes["data.eval_split"] for fix in caught.value.fixes] == ["test", "train"]
    with pytest.raises(DataError, match="no split called “test”"):
        files_of(str(tmp_path / "train.csv"), "test")
    (tmp_path / "train.csv").rename(tmp_path / "dev.csv")
    with pytest.raises(DataError, match="no split called “train”"):
        files_of(str(tmp_path))
    assert (set(splits_of(str(tmp_path))), splits_of("builtin:digits")) == ({"test", "validation"}, ())


def test_a_folder_of_texts_is_read_whole_unless_all_of_it_is_divided(tmp_path):
    (tmp_path / "The Trial.txt").write_text("Someone must have been telling lies.", encoding="utf-8")
    (tmp_path / "training day.txt").write_text("Day one.", encoding="utf-8")
    assert texts_of(str(tmp_path)) == (tmp_path,)
    (tmp_path / "The Trial.txt").rename(tmp_path / "test.txt")
    (tmp_path / "training day.txt").rename(tmp_path / "train.txt")
    assert texts_of(str(tmp_path)) == (tmp_path / "train.txt",)
    assert texts_of(str(tmp_path), "test") == (tmp_path / "test.txt",)


def test_several_files_are_one_table_whose_rows_are_numbered_by_file(tmp_path):
    laid(tmp_path, "train-0.csv", "train-1.csv")
    table = read_training(DataOptions(train=str(tmp_path)))
    assert table.rows.num_rows == 12
    assert table.numbers.tolist() == [*range(2, 8), *range(9, 15)]
    assert table.where(6) == table.first(7).where(6) == "row 2 of train-1.csv"
    del table  # as long as it is in use, it isn't read again
    shares: list[float] = []
    read_files(sorted(tmp_path.iterdir()), lambda done, total: shares.append(done / total))
    assert (shares, shares[-1]) == (sorted(shares), 1)


def test_files_with_other_columns_or_types_are_refused(tmp_path):
    laid(tmp_path, "train-0.csv")
    (tmp_path / "train-1.csv").write_text("words,label\nsome,a\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train-1.csv has other columns than train-0.csv"):
        read_training(DataOptions(train=str(tmp_path)))
    for number, value in enumerate(("a", [1])):
        parquet.write_table(pa.table({"text": [value]}), tmp_path / f"rows-{number}.parquet")
    with pytest.raises(DataError, match="different types"):
        read_files(sorted(tmp_path.glob("rows-*")))


@pytest.mark.parametrize(("eval_split", "counts"), [("test", (6, 1)), (None, (3, 3))])
def test_a_run_trains_on_one_split_and_evaluates_on_another(tmp_path, eval_split, counts):
    laid(tmp_path, "train.csv")
    (tmp_path / "test.csv").write_text("text,label\nelse,a\n", encoding="utf-8")
    data = DataOptions(train=str(tmp_path), eval_split=eval_split, eval_fraction=0.5)
    loaded = load_labelled_texts(RunOptions(task=Task.TEXT_CLASSIFICATION, data=data))
    assert (len(loaded.train), len(loaded.eval or ())) == counts


def test_data_sets_of_the_hub_are_read_from_the_cache_by_subset_and_split(tmp_path, monkeypatch):
    card = "configs:\n- config_name: news\n  data_files: news/*\n- config_name: mail\n  data_files: mail/*\n"
    files = {
        "README.md": f"---\n{card}---\n".encode(),
        **{f"news/{split}.csv": ROWS.encode() for split in ("train", "test")},
        "mail/train.jsonl": json.dumps({"text": "mail", "label": "a"}).encode(),
    }
    with a_hub(tmp_path, monkeypatch) as hub:
        hub.repos["datasets", "org/rows"] = Repo(files)
        for subset in ("news", "mail"):
            download(DownloadRequest(id="org/rows", kind=RepoKind.DATASET, subset=subset), lambda *_: None)
        assert splits_of("hub:org/rows/news") == ("test", "train")
        assert read_training(DataOptions(train="hub:org/rows")).rows.num_rows == 6
        mail = read_training(DataOptions(train="hub:org/rows/mail"))
        assert mail.rows.to_pylist() == [{"text": "mail", "label": "a"}]
        with pytest.raises(DataError, match="no split called “dev”"):
            files_of("hub:org/rows/news", "dev")
        with pytest.raises(DataError, match="isn't on this computer"):
            files_of("hub:org/others")


def test_a_folder_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    def refuse(path: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match="can't be read"):
        files_of(str(tmp_path))


@pytest.mark.parametrize(
    ("labels", "fraction", "held_out"),
    [
        ([0] * 80 + [1] * 20, 0.1, {0: 8, 1: 2}),
        ([number % 25 for number in range(100)], 0.1, None),  # small classes still add up to the share
        ([0, 0, 0, 1], 0.9, {0: 2}),  # a single sample of a class is trained on
        ([0, 1, 0, 1], 0.0, {}),
    ],
)
def test_each_class_gives_its_share_by_seed(labels, fraction, held_out):
    train, rest = stratified_split(labels, fraction, seed=1)
    assert sorted(train + rest) == list(range(len(labels)))
    assert {labels[sample] for sample in train} == set(labels)
    counts = Counter(labels[sample] for sample in rest)
    assert counts == held_out if held_out is not None else len(rest) == 10
    assert (train, rest) == stratified_split(labels, fraction, seed=1)
    assert fraction != 0.1 or (train, rest) != stratified_split(labels, fraction, seed=2)


@pytest.mark.parametrize(
    ("labels", "can_be_learned"),
    [
        ("a" * 30, False),
        ("abcdefghij", False),  # every example has its own
        ("aabcdefghij", True),
        ([str(n // 3) for n in range(101)] + ["x"], True),
        ([str(n) for n in range(60)] + ["0"] * 40, False),  # more labels than half the examples
        ("ab", True),  # too few to judge
    ],
)
def test_labels_that_cannot_teach_are_refused(labels, can_be_learned):
    with nullcontext() if can_be_learned else pytest.raises(DataError):
        refuse_labels(Counter(labels), "a.csv")

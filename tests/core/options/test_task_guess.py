import pytest

from core.engine.data.text_files import ENDINGS
from core.options.choices import Task
from core.options.presets import DATA_ENDINGS, find_task, guess_task


@pytest.mark.parametrize(
    ("name", "content", "task"),
    [
        ("talks.jsonl", '{"messages": [{"role": "user", "content": "Hi"}]}', Task.CHAT),
        ("alpaca.json", '[{"instruction": "Add", "input": "", "output": "2"}]', Task.CHAT),
        ("pairs.json", '[{"conversations": [], "chosen": {}, "rejected": {}}]', Task.PREFERENCE),
        ("names.jsonl", '{"tokens": ["Ada"], "ner_tags": ["B-PER"]}', Task.TOKEN_CLASSIFICATION),
        ("names.conll", "Ada B-PER", Task.TOKEN_CLASSIFICATION),
        ("plays.txt", "First Citizen:", Task.CAUSAL_LM),
        ("plays.md", "a\tb\nc\td\n", Task.CAUSAL_LM),
        ("names.txt", "-DOCSTART- -X- O\n\nAda NNP B-PER\nsang VBD O\n", Task.TOKEN_CLASSIFICATION),
        ("pairs.txt", "Quality\tFirst\tSecond\n1\tOne said\tAnother said\n", None),
        ("rows.txt", '{"text": "a"}', None),
        ("train-images-idx3-ubyte.gz", "", Task.IMAGE_CLASSIFICATION),
        ("reviews.csv", "text,label", None),
        ("rows.json", '[{"text": "a", "label": 1}]', None),
    ],
)
def test_a_file_is_judged_by_its_name_and_how_it_begins(tmp_path, name, content, task):
    path = tmp_path / name
    path.write_text(content)
    assert find_task(str(path)) is task


def test_a_folder_is_judged_by_most_of_its_files(tmp_path):
    pets, books = tmp_path / "pets", tmp_path / "books"
    for folder, names in ((pets / "cat", ("a.png", "b.JPG")), (books, ("a.md", "b.txt"))):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch()
    assert find_task(str(pets)) is Task.IMAGE_CLASSIFICATION
    assert find_task(str(books)) is Task.CAUSAL_LM


def test_what_cant_be_looked_into_tells_nothing(tmp_path):
    assert find_task(str(tmp_path / "gone.json")) is None
    assert find_task("hub:glue/mrpc") is None
    assert guess_task(str(tmp_path / "gone.json")) is Task.TEXT_CLASSIFICATION


def test_data_is_known_by_every_ending_that_the_engine_knows():
    assert set(ENDINGS) <= DATA_ENDINGS

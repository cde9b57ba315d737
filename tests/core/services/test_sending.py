"""The question before files leave: only data and models, each with its place and size; nothing that was agreed to."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.base import settings
from core.base.errors import DataError, OptionsError, Problem, UserError
from core.hosts.computers import Computer, save
from core.hosts.sending import agree, unasked
from core.jobs.inspect import DataReport
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.runs.library import create_all, list_runs
from core.services import sending
from core.services.sending import agree_to_new, request_for, to_ask
from tests.core.hosts.test_sending import a_model, an_adapter

TEXTS = RunOptions(
    task=Task.TEXT_CLASSIFICATION,
    model=ModelOptions(source="scratch:bert-tiny"),
    data=DataOptions(train="builtin:messages"),
)


@pytest.fixture(autouse=True)
def reports(own_home, monkeypatch):
    """What the reader finds wrong; it sees the options of each request."""

    def inspect(_job, request, _kind):
        seen.append(request.asked["data"]["train"])
        return DataReport(source=request.source, format="CSV", rows=1, problems=tuple(wrong))

    seen, wrong = [], []
    monkeypatch.setattr(sending, "run_job", inspect)
    save(Computer(name="workshop", address="me@10.0.0.7"))
    return seen, wrong


def asked(**changes):
    named = {path.replace("__", "."): str(value) for path, value in changes.items()}
    return with_changes(TEXTS, {"device.name": "cpu@workshop", **named})


def a_file(path: Path, size: int = 2048) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def test_each_file_is_named_with_its_place_and_its_size(tmp_path, reports):
    data, model = a_file(tmp_path / "a.csv"), a_model(tmp_path / "bert")
    options = asked(data__train=data, model__source=model)
    found = request_for([options], to_ask([options]))
    assert found.title == "Send these files to workshop (me@10.0.0.7)?"
    assert found.lines == (
        f"Training data: {data} (1 file, 2.00 KB)",
        f"Model: {model} (2 files, 29 B)",
    )
    assert reports[0] == [str(data)]


def test_what_was_chosen_here_or_agreed_to_isnt_asked_about_but_a_base_model_is(tmp_path):
    data, other = a_file(tmp_path / "a.csv"), a_file(tmp_path / "b.csv")
    run = an_adapter(tmp_path / "run", str(a_model(tmp_path / "bert")))
    options = asked(data__train=data, data__eval=other, model__source=f"run:{run}")

    def names(chosen=()):
        return [one.path.name for one in to_ask([options], chosen)]

    assert names() == ["a.csv", "b.csv", "run", "bert"]
    assert names(["data.train", "model.source"]) == ["b.csv", "bert"]
    agree([with_changes(options, {"data.eval": None})])
    assert names() == ["b.csv"]
    assert to_ask([with_changes(options, {"device.name": "cpu"})]) == ()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.csv", ""),
        ("a.JSONL", ""),
        ("a.txt.gz", ""),
        ("folder.d/a.parquet", ""),
        ("id_rsa", "has no ending of a data file"),
        ("passwords.kdbx", "has no ending of a data file"),
        ("a.csv.exe", "has no ending of a data file"),
        (".ssh/notes.txt", "hidden folder"),
        (".config/x/a.json", "hidden folder"),
        (".env.txt", "hidden folder"),
    ],
)
def test_which_names_are_those_of_data(name, reason, tmp_path):
    options = asked(data__train=a_file(tmp_path / name))
    parcels = to_ask([options])
    if not reason:
        assert request_for([options], parcels).lines
        return
    with pytest.raises(DataError, match="isn't sent, because a run file names it") as refused:
        request_for([options], parcels)
    assert reason in refused.value.detail
    (fix,) = refused.value.fixes
    assert "choose a copy of it in the form, or " in fix.label
    assert f"--set data.train={tmp_path / name}" in fix.label


@pytest.mark.skipif(os.name != "posix", reason="links need a right of their own on Windows")
def test_a_link_is_asked_about_with_what_it_leads_to(tmp_path):
    target, link, hidden = a_file(tmp_path / "real.csv"), tmp_path / "a.csv", tmp_path / "b.csv"
    link.symlink_to(target)
    options = asked(data__train=link)
    assert f"{link} → {target}" in request_for([options], to_ask([options])).lines[0]
    hidden.symlink_to(a_file(tmp_path / ".ssh" / "id_rsa"))
    options = asked(data__train=hidden)
    with pytest.raises(DataError) as refused:
        request_for([options], to_ask([options]))
    assert refused.value.detail == "It lies in a hidden folder."


def test_what_the_reader_refuses_isnt_asked_about(tmp_path, reports):
    options = asked(
        data__train=a_file(tmp_path / "a.csv"), data__eval=a_file(tmp_path / "b.csv"), data__eval_fraction=0.1
    )
    reports[1].append(Problem("data.eval", "b.csv is neither a table nor a text"))
    with pytest.raises(OptionsError, match="neither a table nor a text"):
        request_for([options], to_ask([options]))


@pytest.mark.parametrize("content", [{"id_rsa": "key"}, {"config.json": "{}"}])
def test_what_is_no_model_isnt_asked_about(content, tmp_path):
    for name, text in content.items():
        a_file(tmp_path / "secret" / name).write_text(text)
    options = asked(model__source=tmp_path / "secret")
    with pytest.raises(OptionsError, match=r"model\.source"):
        request_for([options], to_ask([options]))


def a_pair(folder: Path):
    """The runs of a chat model from scratch, of which the second starts from the model of the first."""
    options = asked(data__train=a_file(folder / "a.jsonl"), model__source="scratch:llama-tiny")
    first, chat = create_all(replace(options, task=Task.CHAT), folder / "runs")
    return first, chat


def test_a_new_pair_may_take_along_what_it_names_and_the_model_of_the_first(tmp_path):
    first, chat = a_pair(tmp_path)
    assert [one.path for one in unasked(chat.options())][-1] == first.path
    agree_to_new((first, chat))
    assert unasked(chat.options()) == ()


def test_new_runs_whose_agreement_cant_be_written_dont_stay_in_the_list(tmp_path):
    (settings.home() / "agreed.json").mkdir(parents=True)  # as on a full disk, nothing can be written there
    runs = a_pair(tmp_path)
    with pytest.raises(UserError):
        agree_to_new(runs)
    assert list_runs(tmp_path / "runs") == []

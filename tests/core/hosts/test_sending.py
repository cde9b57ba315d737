"""What leaves this computer for a run on another one: what was agreed to, and nothing that lies elsewhere."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from core.base import settings
from core.base.errors import DataError, UserError
from core.hosts.computers import Computer, save
from core.hosts.link import Link
from core.hosts.sending import ParcelKind, agree, files_in, parcels_of, unasked
from core.options.catalogue import with_changes
from tests.fakes.network import ROOT
from tests.fakes.runs import digits_options

posix = pytest.mark.skipif(os.name != "posix", reason="links need a right of their own on Windows")
WORKSHOP = Computer(name="workshop", address="me@workshop", folder="hone")


@pytest.fixture(autouse=True)
def homes(tmp_path, own_home, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    save(WORKSHOP)


def asked(**changes):
    named = {path.replace("__", "."): str(value) for path, value in changes.items()}
    return with_changes(digits_options(), {"device.name": "cpu@workshop", **named})


def a_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def an_adapter(run: Path, base: str) -> Path:
    """A run with an adapter that names this base model."""
    (run / "model").mkdir(parents=True)
    (run / "run.toml").write_text("schema = 1\n")
    (run / "model" / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    (run / "model" / "adapter_model.safetensors").write_bytes(b"")
    return run


# --- What a run takes along


def test_what_is_elsewhere_already_isnt_taken_along(tmp_path):
    for source in ("builtin:digits", "hub:owner/name", "synthetic:8x8"):
        assert parcels_of(asked(data__train=source)) == ()
    for source in ("owner/name", "scratch:bert-tiny", "torchvision:resnet18"):
        assert parcels_of(asked(model__source=source)) == ()
    found = parcels_of(asked(data__train="/a.csv", data__eval="/b.csv", model__source="/bert"))
    assert [(one.option, str(one.path), one.kind) for one in found] == [
        ("data.train", "/a.csv", ParcelKind.DATA),
        ("data.eval", "/b.csv", ParcelKind.DATA),
        ("model.source", "/bert", ParcelKind.MODEL),
    ]


@pytest.mark.parametrize("base", [".ssh", "../secret", "google-bert/bert-base", "", "~/.ssh"])
def test_of_a_base_model_that_is_named_by_no_path_nothing_is_sent(base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".ssh").mkdir()
    run = an_adapter(tmp_path / "run", base)
    assert [one.kind for one in parcels_of(asked(model__source=f"run:{run}"))] == [ParcelKind.RUN]


def test_a_base_model_beside_its_adapter_is_sent_with_it_and_what_the_adapter_names_is_not(tmp_path):
    run = an_adapter(tmp_path / "run", "/etc")
    a_model(run / "model" / "base")
    (parcel,) = parcels_of(asked(model__source=f"run:{run}"))
    assert set(parcel.files()) == {
        "run/run.toml",
        "run/model/adapter_config.json",
        "run/model/adapter_model.safetensors",
        "run/model/base/config.json",
        "run/model/base/model.safetensors",
    }


@pytest.mark.parametrize("content", [{"id_rsa": "key"}, {"config.json": "{}", "id_rsa": "key"}, {}])
def test_a_base_model_that_is_no_model_isnt_sent(content, tmp_path):
    folder = tmp_path / "secret"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).write_text(text)
    run = an_adapter(tmp_path / "run", str(folder))
    _run, base = parcels_of(asked(model__source=f"run:{run}"))
    with pytest.raises(DataError, match="secret can't be sent"):
        base.files()


# --- What lies elsewhere


@posix
def test_no_link_leads_out_of_what_is_sent(tmp_path):
    data, outside = tmp_path / "data", tmp_path / "outside"
    outside.mkdir()
    (outside / "id_rsa").write_text("key")
    (data / "cats").mkdir(parents=True)
    (data / "cats" / "1.png").write_bytes(b"1")
    (data / "cats" / "2.png").symlink_to("1.png")
    assert set(files_in(data)) == {"data/cats/1.png", "data/cats/2.png"}
    for target in (outside / "id_rsa", Path("../../outside/id_rsa"), Path("/etc/passwd")):
        (data / "cats" / "3.png").symlink_to(target)
        with pytest.raises(DataError) as refused:
            files_in(data)
        assert "leads out of its folder, to " in refused.value.detail
        (data / "cats" / "3.png").unlink()
    (data / "dogs").symlink_to(outside)
    with pytest.raises(DataError) as refused:
        files_in(data)
    assert "It is a link to a folder" in refused.value.detail


@posix
def test_hidden_files_stay_here_and_pipes_are_refused(tmp_path):
    (tmp_path / "data" / ".git").mkdir(parents=True)
    for name in ("a.csv", ".env", ".git/config"):
        (tmp_path / "data" / name).write_text("x")
    assert set(files_in(tmp_path / "data")) == {"data/a.csv"}
    os.mkfifo(tmp_path / "data" / "pipe")
    with pytest.raises(DataError) as refused:
        files_in(tmp_path / "data")
    assert refused.value.detail == "It is neither a file nor a folder."
    for name in ("a.csv", "pipe"):
        (tmp_path / "data" / name).unlink()
    with pytest.raises(DataError) as refused:
        files_in(tmp_path / "data")
    assert refused.value.detail == "It holds no files, or only hidden ones, which aren't sent."


@posix
@pytest.mark.parametrize("name", ["model", "run.toml", "exit.json"])
def test_no_part_of_a_past_run_leads_elsewhere(name, tmp_path):
    run, outside = a_model(tmp_path / "run" / "model").parent, tmp_path / "outside"
    (run / "run.toml").write_text("schema = 1\n")
    outside.mkdir()
    (outside / "id_rsa").write_text("key")
    if (run / name).is_dir():
        shutil.rmtree(run / name)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside if name == "model" else outside / "id_rsa")
    (parcel,) = parcels_of(asked(model__source=f"run:{run}"))
    with pytest.raises(DataError) as refused:
        parcel.files()
    assert "leads out of its folder" in refused.value.detail


@posix
def test_a_model_in_the_hubs_cache_is_a_folder_of_links(tmp_path):
    repo = tmp_path / "hub" / "models--owner--name"
    snapshot = repo / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (repo / "blobs").mkdir()
    (repo / "blobs" / "f00").write_bytes(b"weights")
    (snapshot / "model.safetensors").symlink_to("../../blobs/f00")
    assert set(files_in(snapshot)) == {"1/model.safetensors"}
    (snapshot / "config.json").symlink_to("/etc/passwd")
    with pytest.raises(DataError):
        files_in(snapshot)


# --- What was agreed to


def places(options):
    return [str(parcel.path) for parcel in unasked(options)]


def test_to_each_place_and_each_computer_the_person_agrees_once(tmp_path):
    save(Computer(name="attic", address="me@attic"))
    options = asked(data__train="/a.csv")
    assert places(options) == ["/a.csv"]
    agree([options])
    assert places(options) == []
    assert places(with_changes(options, {"data.eval": "/b.csv"})) == ["/b.csv"]
    assert places(with_changes(options, {"device.name": "cpu"})) == []
    agree([asked(data__train="/c.csv")])
    assert places(options) == [], "to that, too"
    for elsewhere in ("cpu@attic", "cpu@workshop+attic"):
        assert places(with_changes(options, {"device.name": elsewhere})) == ["/a.csv"]
    save(Computer(name="workshop", address="somebody@else"))
    assert places(options) == ["/a.csv"], "it is another computer of that name"
    save(Computer(name="mine", address=WORKSHOP.address))
    assert places(with_changes(options, {"device.name": "cpu@mine"})) == []


@posix
def test_a_link_that_leads_elsewhere_now_was_not_agreed_to(tmp_path):
    link = tmp_path / "data.csv"
    link.symlink_to("/a.csv")
    agree([asked(data__train=link)])
    assert places(asked(data__train=link)) == places(asked(data__train="/a.csv")) == []
    link.unlink()
    link.symlink_to("/etc/passwd")
    assert places(asked(data__train=link)) == [str(link)]


@pytest.mark.parametrize(
    ("place", "is_known"),
    [
        ("hub/models--owner--name/snapshots/1", True),
        ("home/runs/past/model", True),
        ("home/runs/past/model/base", True),
        ("home/runs/past", False),
        ("home/runs", False),
        ("hub/../secret", False),
        ("home/runs/past/model/../../../../secret", False),
        ("models/bert", False),
        (".ssh", False),
    ],
)
def test_which_base_models_are_known(place, is_known, tmp_path):
    run = an_adapter(tmp_path / "run", f"{tmp_path}/{place}")
    options = asked(model__source=f"run:{run}")
    expected = [] if is_known else [f"{tmp_path}/{place}"]
    assert places(options) == [str(run), *expected]


def test_an_answer_that_cant_be_kept_is_told(tmp_path):
    (settings.home() / "agreed.json").mkdir()
    with pytest.raises(UserError, match=r"agreed\.json can't be written"):
        agree([asked(data__train="/a.csv")])


def test_a_damaged_record_agrees_to_nothing(tmp_path):
    agree([asked(data__train="/a.csv")])
    (settings.home() / "agreed.json").write_text('{"me@workshop": "/a.csv"}')
    assert places(asked(data__train="/a.csv")) == ["/a.csv"]
    agree([asked(data__train="/a.csv")])
    assert places(asked(data__train="/a.csv")) == []


# --- A session: a program called ssh that runs the real other end in a folder


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The files that have arrived on workshop."""
    far = tmp_path / "far"
    (far / "hone" / "home").mkdir(parents=True)
    for name, target in (("env", Path(sys.prefix)), ("source", ROOT)):
        (far / "hone" / name).symlink_to(target)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nfor last; do :; done\ncd "{far}" && exec sh -c "$last"\n')
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    return far / "hone" / "home" / "store"


@posix
def test_a_session_sends_nothing_before_the_person_has_agreed_to_all_of_it(tmp_path, store):
    data, run = tmp_path / "a.csv", an_adapter(tmp_path / "run", str(tmp_path / ".ssh"))
    data.write_text("text,label\n")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("key")
    options = asked(data__train=data)
    agree([options])
    options = with_changes(options, {"model.source": f"run:{run}"})
    with Link(WORKSHOP) as link:
        with pytest.raises(UserError, match="haven't agreed yet to send this to workshop") as refused:
            link.send_sources(options, lambda *_told: None)
        assert refused.value.detail == f"{run}\n{tmp_path / '.ssh'}"
        assert not store.exists()
        agree([options])
        with pytest.raises(DataError, match="ssh can't be sent"):  # it is no model
            link.send_sources(options, lambda *_told: None)
        a_model(run / "model" / "base")
        sent = link.send_sources(options, lambda *_told: None)
    assert Path(sent.data.train).read_text() == "text,label\n"
    arrived = [path.read_bytes() for path in store.rglob("*") if path.is_file()]
    assert b"weights" in arrived
    assert b"key" not in arrived

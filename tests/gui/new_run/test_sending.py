"""The form of a run on another computer: what a run file named, and not the person, is asked about before it leaves."""

from threading import Event

import pytest
from msgspec.structs import replace

from core.base.errors import Problem
from core.hosts.computers import Computer, save
from core.jobs.inspect import DataReport
from core.services import sending
from gui.base import sending as asking
from tests.fakes.jobs import CPU_ONLY
from tests.gui.new_run.steps import TEXTS, drop, put, settle
from tests.gui.new_run.test_devices import with_others


@pytest.fixture(autouse=True)
def wrong(page, monkeypatch):
    """What the reader finds wrong in data that would be sent."""
    found = []
    report = DataReport(source="", format="TSV", rows=1)
    monkeypatch.setattr(sending, "run_job", lambda *_given: replace(report, problems=tuple(found)))
    save(Computer(name="workshop", address="me@10.0.0.7"))
    page.set_machine(with_others(replace(CPU_ONLY.devices[2], name="cpu@workshop")))
    page._named.clear()
    return found


@pytest.fixture
def asked(monkeypatch):
    """The questions, each answered with what `answer` says."""

    class Asked(list):
        answer = False

    def ask(question, _otherwise):
        questions.append((question.text(), question.informativeText()))
        assert question.defaultButton() not in question._answers, "Return sends nothing"
        return questions.answer

    questions = Asked()
    monkeypatch.setattr(asking.Question, "ask", ask)
    return questions


@pytest.fixture
def stranger(tmp_path, model, pairs):
    """A run file that names another computer."""
    file = tmp_path / "stranger.hone"
    file.write_text(
        f'task = "{TEXTS}"\n[model]\nsource = "{model.as_posix()}"\n[device]\nname = "cpu@workshop"\n'
        f'[data]\ntrain = "{pairs.as_posix()}"\ntext_columns = ["first"]\nlabel_column = "same"\n'
    )
    return file


def test_what_a_run_file_names_leaves_only_after_a_yes_and_then_without_a_question(
    qtbot, page, stranger, *, asked, pairs, model
):
    page.load_file(stranger)
    settle(qtbot, page)
    with qtbot.assertNotEmitted(page.start_requested):
        page.start()
        assert page.strip.isVisible()
        qtbot.waitUntil(lambda: len(asked) == 1)
    assert page.strip.isHidden()
    assert asked == [
        (
            "Send these files to workshop (me@10.0.0.7)?",
            f"Training data: {pairs} (1 file, 24 B)\nModel: {model} (2 files, 0 B)",
        )
    ]
    asked.answer = True
    with qtbot.waitSignal(page.start_requested) as started:
        page.start()
    assert started.args[0].device.name == "cpu@workshop"
    assert len(asked) == 2
    with qtbot.waitSignal(page.start_requested):
        page.start()
    assert len(asked) == 2


def test_what_the_person_chose_isnt_asked_about(qtbot, page, stranger, *, asked, pairs):
    own = pairs.with_name("own.tsv")
    own.write_bytes(pairs.read_bytes())
    page.load_file(stranger)
    drop(page, own)
    put(page, data__text_columns=("first",), data__label_column="same", model__source="owner/name")
    settle(qtbot, page)
    with qtbot.waitSignal(page.start_requested) as started:
        page.start()
    assert started.args[0].data.train == str(own)
    assert asked == []


def test_a_run_on_this_computer_asks_nothing(qtbot, page, stranger, asked):
    page.load_file(stranger)
    put(page, device__name="cpu")
    settle(qtbot, page)
    with qtbot.waitSignal(page.start_requested):
        page.start()
    assert asked == []


def test_a_path_that_the_form_shows_in_another_way_is_no_choice(qtbot, page, stranger, asked):
    stranger.write_text(stranger.read_text().replace('tsv"', 'tsv "'))
    page.load_file(stranger)
    settle(qtbot, page)
    with qtbot.assertNotEmitted(page.start_requested):
        page.start()
        qtbot.waitUntil(lambda: len(asked) == 1)
    assert "Training data: " in asked[0][1]


def test_a_run_that_needs_no_question_drops_the_one_that_is_prepared(
    qtbot, page, stranger, asked, monkeypatch
):
    page.load_file(stranger)
    settle(qtbot, page)
    go_on = Event()
    monkeypatch.setattr(
        asking, "request_for", lambda *_given: go_on.wait() and asking.SendingRequest("Send?", ())
    )
    page.start()
    put(page, device__name="cpu")
    settle(qtbot, page)
    with qtbot.waitSignal(page.start_requested):
        page.start()
    go_on.set()
    qtbot.waitUntil(lambda: page.sending.checking.is_idle)
    assert asked == []


@pytest.mark.parametrize("how", ["a change", "another run file"])
def test_another_form_drops_the_question_about_what_was_in_it(
    how, qtbot, page, stranger, *, asked, monkeypatch
):
    page.load_file(stranger)
    settle(qtbot, page)
    go_on = Event()
    monkeypatch.setattr(
        asking, "request_for", lambda *_given: go_on.wait() and asking.SendingRequest("Send?", ())
    )
    page.start()
    assert page.strip.accessibleName() == asking.CHECKING
    if how == "a change":
        put(page, training__epochs=7.0)
    else:
        page.load_file(stranger)
    assert page.strip.isHidden()
    go_on.set()
    qtbot.waitUntil(lambda: page.sending.checking.is_idle)
    assert asked == []


@pytest.mark.parametrize("fill", ["restore_tree", "edit"])
def test_a_form_of_another_day_and_a_past_run_are_no_choice(fill, qtbot, page, stranger, asked):
    page.load_file(stranger)
    tree = page.tree()
    page._named.clear()
    (page.restore_tree if fill == "restore_tree" else page.open_run)(tree)
    settle(qtbot, page)
    with qtbot.assertNotEmitted(page.start_requested):
        page.start()
        qtbot.waitUntil(lambda: len(asked) == 1)


def test_what_is_no_data_isnt_even_asked_about(qtbot, page, stranger, asked, wrong):
    page.load_file(stranger)
    settle(qtbot, page)
    wrong.append(Problem("data.eval", "id_rsa is neither a table nor a text"))
    with qtbot.assertNotEmitted(page.start_requested):
        page.start()
        qtbot.waitUntil(lambda: page.strip.accessibleName() == "1 problem in the request")
    assert asked == []
